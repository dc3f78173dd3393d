"""The dead letters of one queue: oldest first, found by id, never more than MAXDEAD."""

from __future__ import annotations

from collections import OrderedDict
from typing import TYPE_CHECKING

from respmq.core.hub import MESSAGE_OVERHEAD
from respmq.core.weight import ERROR_OVERHEAD, LETTER_OVERHEAD

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from respmq.core.hub import Hub
    from respmq.core.model import DeadLetter


class DeadLetters:
    """A message id may stand here several times: each death is one letter.

    `added` counts all deaths, `dropped` the letters that had to go because there were MAXDEAD.
    """

    __slots__ = ("_by_id", "_hub", "_letters", "_most", "_used", "added", "dropped", "size")

    def __init__(self, most: int, hub: Hub) -> None:
        self._most = most
        self._hub = hub
        self._letters: OrderedDict[int, DeadLetter] = OrderedDict()
        self._by_id: dict[bytes, list[int]] = {}
        #: What the letters count for `maxmemory`.
        self._used = 0
        #: Bytes of bodies, headers and attachments.
        self.size = 0
        self.added = self.dropped = 0

    def __len__(self) -> int:
        return len(self._letters)

    def __iter__(self) -> Iterator[DeadLetter]:
        return iter(self._letters.values())

    def add(self, letter: DeadLetter) -> list[DeadLetter]:
        """Add the newest one, whose message is counted as used already; returns what had to go for it."""
        self.added += 1
        letter.number = self.added
        size = letter.message.size
        self._keep(letter, size)
        self._hub.used -= size + MESSAGE_OVERHEAD + letter.message.surplus
        dropped = self.pop(len(self._letters) - self._most)
        self.dropped += len(dropped)
        return dropped

    def pop(self, count: int) -> list[DeadLetter]:
        """Remove and return the oldest ones."""
        letters: list[DeadLetter] = []
        while self._letters and len(letters) < count:
            oldest = next(iter(self._letters.values()))
            # It is the oldest of all, so it is the oldest with its id.
            letters += self._remove(oldest.message.id, 0)
        return letters

    def load(self, letters: Iterable[DeadLetter], added: int, dropped: int) -> None:
        """Take over letters that have their numbers, the oldest first, in place of none."""
        for letter in letters:
            self._keep(letter, letter.message.size)
        self.added = added
        self.dropped = dropped

    def all_of(self, id: bytes) -> list[DeadLetter]:
        """The letters with this id, the oldest first."""
        return [self._letters[number] for number in self._by_id.get(id, ())]

    def latest(self, id: bytes) -> DeadLetter | None:
        """The latest letter with this id, or None."""
        numbers = self._by_id.get(id)
        return self._letters[numbers[-1]] if numbers else None

    def take(self, id: bytes, *, latest: bool) -> DeadLetter | None:
        """Remove the latest or the oldest letter with this id and return it, or None."""
        letters = self._remove(id, -1 if latest else 0)
        return letters[0] if letters else None

    def remove(self, ids: tuple[bytes, ...]) -> list[DeadLetter]:
        """Remove and return the letters with these ids."""
        letters: list[DeadLetter] = []
        for id in ids:
            while removed := self._remove(id, -1):
                letters += removed
        return letters

    def clear(self) -> int:
        """Remove all letters; returns how many there were."""
        count = len(self._letters)
        self._hub.used -= self._used
        self._hub.bury(self._letters, self._by_id)
        self._letters = OrderedDict()
        self._by_id = {}
        self._used = self.size = 0
        return count

    def _keep(self, letter: DeadLetter, size: int) -> None:
        message = letter.message
        self._letters[letter.number] = letter
        self._by_id.setdefault(message.id, []).append(letter.number)
        weight = size + MESSAGE_OVERHEAD + message.surplus + LETTER_OVERHEAD
        if letter.error is not None:
            weight += ERROR_OVERHEAD + len(letter.error)
        letter.weight = weight
        self.size += size
        self._used += weight
        self._hub.used += weight

    def _remove(self, id: bytes, place: int) -> list[DeadLetter]:
        """Remove one of the letters with this id; returns it, or nothing if there is none."""
        numbers = self._by_id.get(id)
        if not numbers:
            return []
        letter = self._letters.pop(numbers.pop(place))
        if not numbers:
            del self._by_id[id]
        self.size -= letter.message.size
        self._used -= letter.weight
        self._hub.used -= letter.weight
        return [letter]
