"""Who has to go when a queue with OVERFLOW DROPHEAD is full: the least urgent, among those whoever came first."""

from __future__ import annotations

from typing import TYPE_CHECKING

from respmq.core.lazyheap import LazyHeap
from respmq.core.model import DELAYED

if TYPE_CHECKING:
    from respmq.core.hub import Container
    from respmq.core.model import Message


def _still_stands(message: Message, key: tuple[int, int]) -> bool:
    return message.state <= DELAYED and message.order == key[1]


class EvictionOrder:
    """Ready and delayed messages by -priority and the number of their entry into the queue, which is their `order`."""

    __slots__ = ("_entered", "_heap")

    def __init__(self) -> None:
        self._heap: LazyHeap[tuple[int, int]] = LazyHeap(_still_stands)
        self._entered = 0

    def enter(self, message: Message) -> None:
        """A message enters the queue at the back."""
        self._entered += 1
        message.order = self._entered
        self.return_to_place(message)

    def return_to_place(self, message: Message) -> None:
        """A message comes back to where it stood."""
        self._heap.add((-message.priority, message.order), message)

    def pop(self) -> Message | None:
        """The message that has to go, or None if none waits."""
        return self._heap.pop()

    def clear(self) -> list[Container]:
        """Forget all messages; returns what held them, for freeing them."""
        return [*self._heap.clear()]
