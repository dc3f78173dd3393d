"""The dead letters of one queue: oldest first, found by id, never more than MAXDEAD."""

from __future__ import annotations

from collections import OrderedDict
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

    from respmq.core.hub import Container
    from respmq.core.model import DeadLetter


class DeadLetters:
    """A message id may stand here several times: each death is one letter."""

    __slots__ = ("_by_id", "_count", "_letters", "bytes")

    def __init__(self) -> None:
        self._letters: OrderedDict[int, DeadLetter] = OrderedDict()
        self._by_id: dict[bytes, list[int]] = {}
        self._count = 0
        #: Bytes of bodies, headers and attachments.
        self.bytes = 0

    def __len__(self) -> int:
        return len(self._letters)

    def __iter__(self) -> Iterator[DeadLetter]:
        return iter(self._letters.values())

    def add(self, letter: DeadLetter) -> None:
        """Add the newest one."""
        self._count += 1
        self.bytes += letter.message.size
        self._letters[self._count] = letter
        self._by_id.setdefault(letter.message.id, []).append(self._count)

    def pop_oldest(self) -> DeadLetter | None:
        """Remove and return the oldest one, or None."""
        letter = next(iter(self._letters.values()), None)
        # It is the oldest of all, so it is the oldest with its id.
        return None if letter is None else self._remove_one(letter.message.id, 0)

    def latest(self, id: bytes) -> DeadLetter | None:
        """The latest letter with this id, or None."""
        numbers = self._by_id.get(id)
        return self._letters[numbers[-1]] if numbers else None

    def remove(self, id: bytes) -> list[DeadLetter]:
        """Remove all letters with this id and return them."""
        letters = [self._letters.pop(number) for number in self._by_id.pop(id, [])]
        self.bytes -= sum(letter.message.size for letter in letters)
        return letters

    def remove_latest(self, id: bytes) -> DeadLetter | None:
        """Remove the latest letter with this id and return it, or None."""
        return self._remove_one(id, -1)

    def remove_oldest(self, id: bytes) -> DeadLetter | None:
        """Remove the oldest letter with this id and return it, or None."""
        return self._remove_one(id, 0)

    def containers(self) -> list[Container]:
        """What holds the letters, for freeing them."""
        return [self._letters, self._by_id]

    def _remove_one(self, id: bytes, place: int) -> DeadLetter | None:
        numbers = self._by_id.get(id)
        if not numbers:
            return None
        letter = self._letters.pop(numbers.pop(place))
        self.bytes -= letter.message.size
        if not numbers:
            del self._by_id[id]
        return letter
