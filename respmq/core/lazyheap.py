"""A heap of messages whose entries may go stale: they are dropped when they are met, or in a sweep."""

from __future__ import annotations

from heapq import heapify, heappop, heappush
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from respmq.core.model import DELAYED

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from respmq.core.model import Message

K = TypeVar("K", int, tuple[int, int])
E = TypeVar("E", bound=tuple[Any, ...])

_SWEEP_FROM = 64


def walk(heap: list[E]) -> Iterator[E]:
    """The entries of a heap in order, without changing it; the first n cost O(n log n), however long the heap is."""
    ahead: list[tuple[E, int]] = [(heap[0], 0)] if heap else []
    while ahead:
        entry, index = heappop(ahead)
        yield entry
        for child in (2 * index + 1, 2 * index + 2):
            if child < len(heap):
                heappush(ahead, (heap[child], child))


class LazyHeap(Generic[K]):
    """Messages by key, smallest first. `valid(message, key)` tells whether an entry still counts.

    Nothing has to be told when an entry goes stale: at most as many stale entries as valid ones (and 64) are kept.
    """

    __slots__ = ("_count", "_limit", "_valid", "heap")

    def __init__(self, valid: Callable[[Message, K], bool]) -> None:
        self.heap: list[tuple[K, int, Message]] = []
        self._count = 0
        self._limit = _SWEEP_FROM
        self._valid: Callable[[Message, K], bool] = valid

    def add(self, key: K, message: Message) -> None:
        """Add an entry; among equal keys the first added comes first."""
        heap = self.heap
        if len(heap) >= self._limit:
            heap[:] = [entry for entry in heap if self._valid(entry[2], entry[0])]
            heapify(heap)
            self._limit = 2 * len(heap) + _SWEEP_FROM
        self._count += 1
        heappush(heap, (key, self._count, message))

    def first(self) -> K | None:
        """The smallest key of a valid entry, or None."""
        heap = self.heap
        while heap:
            key, _, message = heap[0]
            if self._valid(message, key):
                return key
            heappop(heap)
        return None

    def pop(self) -> Message | None:
        """Remove the first valid entry and return its message, or None."""
        return None if self.first() is None else heappop(self.heap)[2]

    def clear(self) -> list[tuple[K, int, Message]]:
        """Forget all entries; returns what held them, for freeing them."""
        heap, self.heap = self.heap, []
        self._limit = _SWEEP_FROM
        return heap

    def __iter__(self) -> Iterator[Message]:
        """The messages of the valid entries in order."""
        return (message for key, _, message in walk(self.heap) if self._valid(message, key))


def _falls_due(message: Message, key: int) -> bool:
    return message.state == DELAYED and message.deadline == key


def _lapses(message: Message, key: int) -> bool:
    return message.state <= DELAYED and message.expires_at == key


def delays() -> LazyHeap[int]:
    """Delayed messages by the moment at which they become ready."""
    return LazyHeap(_falls_due)


def lapses() -> LazyHeap[int]:
    """Waiting messages by the end of their TTL."""
    return LazyHeap(_lapses)
