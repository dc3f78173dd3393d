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

    __slots__ = ("_heap",)

    def __init__(self) -> None:
        self._heap: LazyHeap[tuple[int, int]] = LazyHeap(_still_stands)

    def add(self, message: Message) -> None:
        """A message begins to wait."""
        self._heap.add((-message.priority, message.order), message)

    def pop(self) -> Message | None:
        """The message that has to go, or None if none waits."""
        return self._heap.pop()

    def clear(self) -> list[Container]:
        """Forget all messages; returns what held them, for freeing them."""
        return [*self._heap.clear()]
