"""The ids that producers chose, for as long as a second message with the same id is turned away."""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING

from respmq.core.weight import remembered

if TYPE_CHECKING:
    from respmq.core.hub import Container


class DedupeWindow:
    """Remembers ids for `length` milliseconds after their put; for 0, not at all."""

    __slots__ = ("_length", "_order", "_until", "used")

    def __init__(self, length: int) -> None:
        self._length = length
        self._until: dict[bytes, int] = {}
        #: In the order in which they are forgotten. An id that was put again before that stands here twice.
        self._order: deque[tuple[int, bytes]] = deque()
        #: What it counts for `maxmemory`.
        self.used = 0

    def add(self, id: bytes, now: int) -> int | None:
        """Remember an id that isn't remembered yet; returns until when, None if not at all."""
        if not self._length:
            return None
        self._until[id] = until = now + self._length
        self._order.append((until, id))
        self.used += remembered(id)
        return until

    def load(self, put: dict[bytes, int], now: int) -> None:
        """Remember ids that were put at certain moments, in place of none."""
        length = self._length
        for id in sorted(put, key=put.__getitem__):
            if put[id] + length > now:
                self._until[id] = until = put[id] + length
                self._order.append((until, id))
                self.used += remembered(id)

    def ids(self) -> list[bytes]:
        """The ids that are remembered, those put first at the front."""
        return [id for until, id in self._order if self._until.get(id) == until]

    def put_at(self, id: bytes) -> int:
        """When an id that is remembered was put, in milliseconds since the epoch; 0 if it isn't remembered."""
        until = self._until.get(id)
        return 0 if until is None else until - self._length

    def holds(self, id: bytes, now: int) -> bool:
        """Whether an id is remembered."""
        until = self._until.get(id)
        return until is not None and until > now

    def forget(self, now: int, most: int) -> list[bytes]:
        """Forget what is over, at most so many puts; returns their ids. One that was put again stays remembered."""
        order = self._order
        ids: list[bytes] = []
        while len(ids) < most and order and order[0][0] <= now:
            until, id = order.popleft()
            if self._until.get(id) == until:
                del self._until[id]
            self.used -= remembered(id)
            ids.append(id)
        return ids

    def next_end(self) -> int | None:
        """When the next id is to be forgotten, or None."""
        return self._order[0][0] if self._order else None

    def entries(self, now: int) -> list[tuple[bytes, int]]:
        """The ids that are remembered, in the order in which they are forgotten, and until when."""
        return [(id, self._until[id]) for id in self.ids() if self._until[id] > now]

    def restore(self, id: bytes, until: int) -> None:
        """Remember an id that isn't remembered yet until a moment, not before those of the others."""
        self._until[id] = until
        self._order.append((until, id))
        self.used += remembered(id)

    def containers(self) -> list[Container]:
        """What holds the ids, for freeing them."""
        return [self._until, self._order]
