"""The ids that producers chose, for as long as a second message with the same id is turned away."""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from respmq.core.hub import Container


class DedupeWindow:
    """Remembers ids for `length` milliseconds after their put; for 0, not at all."""

    __slots__ = ("_length", "_order", "_until")

    def __init__(self, length: int) -> None:
        self._length = length
        self._until: dict[bytes, int] = {}
        #: In the order in which they are forgotten.
        self._order: deque[bytes] = deque()

    def add(self, id: bytes, now: int) -> int | None:
        """Remember an id that isn't remembered yet; returns until when, None if not at all."""
        if not self._length:
            return None
        self._until[id] = until = now + self._length
        self._order.append(id)
        return until

    def holds(self, id: bytes, now: int) -> bool:
        """Whether an id is remembered."""
        self.forget(now)
        return id in self._until

    def forget(self, now: int) -> None:
        """Forget what is over."""
        order = self._order
        while order and self._until[order[0]] <= now:
            del self._until[order.popleft()]

    def next_end(self) -> int | None:
        """When the next id is to be forgotten, or None."""
        return self._until[self._order[0]] if self._order else None

    def entries(self, now: int) -> list[tuple[bytes, int]]:
        """The ids that are remembered, in the order in which they are forgotten, and until when."""
        self.forget(now)
        return [(id, self._until[id]) for id in self._order]

    def restore(self, id: bytes, until: int) -> None:
        """Remember an id that isn't remembered yet until a moment, not before those of the others."""
        self._until[id] = until
        self._order.append(id)

    def containers(self) -> list[Container]:
        """What holds the ids, for freeing them."""
        return [self._until, self._order]
