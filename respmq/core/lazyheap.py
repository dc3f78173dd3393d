"""A heap of messages whose entries may go stale: they are dropped when they are met, or in a sweep."""

from __future__ import annotations

from heapq import heappop, heappush, merge
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from respmq.core.model import DELAYED

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from respmq.core.model import Message

K = TypeVar("K", int, tuple[int, int])
E = TypeVar("E", bound=tuple[Any, ...])

_SWEEP_FROM = 64
#: How many entries are looked at with each new one, while a sweep goes on.
_SWEEP_AT_ONCE = 8
#: Who walks over more entries of a heap than these is better off with a sorted copy.
_SORT_FROM = 1_000


def walk(heap: list[E]) -> Iterator[E]:
    """The entries of a heap in order, without changing it; the first few cost little, however long the heap is."""
    ahead: list[tuple[E, int]] = [(heap[0], 0)] if heap else []
    walked = 0
    while ahead:
        if walked == _SORT_FROM:
            yield from sorted(heap)[walked:]
            return
        entry, index = heappop(ahead)
        walked += 1
        yield entry
        for child in (2 * index + 1, 2 * index + 2):
            if child < len(heap):
                heappush(ahead, (heap[child], child))


class LazyHeap(Generic[K]):
    """Messages by key, smallest first. `valid(message, key)` tells whether an entry still counts.

    Nothing has to be told when an entry goes stale: not many more stale entries than valid ones are kept. They are
    swept out a few at a time, with each new entry, since one look at a million of them would stop everybody.
    """

    __slots__ = ("_count", "_heap", "_limit", "_old", "_valid")

    def __init__(self, valid: Callable[[Message, K], bool]) -> None:
        self._heap: list[tuple[K, int, Message]] = []
        #: A heap as well (without its last entry it still is one): what is left of it is moved to the other or dropped.
        self._old: list[tuple[K, int, Message]] = []
        self._count = 0
        self._limit = _SWEEP_FROM
        self._valid: Callable[[Message, K], bool] = valid

    def __len__(self) -> int:
        """How many entries there are, stale ones among them."""
        return len(self._heap) + len(self._old)

    def add(self, key: K, message: Message) -> None:
        """Add an entry; among equal keys the first added comes first."""
        if self._old:
            self._sweep()
        elif len(self._heap) >= self._limit:
            self._old, self._heap = self._heap, []
        self._count += 1
        heappush(self._heap, (key, self._count, message))

    def _sweep(self) -> None:
        old = self._old
        for _ in range(_SWEEP_AT_ONCE):
            entry = old.pop()
            if self._valid(entry[2], entry[0]):
                heappush(self._heap, entry)
            if not old:
                self._limit = 2 * len(self._heap) + _SWEEP_FROM
                return

    def next(self) -> K | None:
        """A key that no valid entry is below, None if there are no entries: that of the first one, stale or not."""
        if not self._old:
            return self._heap[0][0] if self._heap else None
        return self._first_heap()[0][0]

    def pop_next(self) -> Message | None:
        """Remove the first entry and return its message, or None if it is stale or there is none."""
        heap = self._first_heap() if self._old else self._heap
        if not heap:
            return None
        key, _, message = heappop(heap)
        return message if self._valid(message, key) else None

    def pop(self) -> Message | None:
        """Remove the first valid entry and return its message, or None."""
        while self._heap or self._old:
            message = self.pop_next()
            if message is not None:
                return message
        return None

    def clear(self) -> list[list[tuple[K, int, Message]]]:
        """Forget all entries; returns what held them, for freeing them."""
        heaps = [self._heap, self._old]
        self._heap, self._old = [], []
        self._limit = _SWEEP_FROM
        return heaps

    def __iter__(self) -> Iterator[Message]:
        """The messages of the valid entries in order."""
        entries = merge(walk(self._heap), walk(self._old)) if self._old else walk(self._heap)
        return (message for key, _, message in entries if self._valid(message, key))

    def _first_heap(self) -> list[tuple[K, int, Message]]:
        """The one of the two heaps in which the first entry is."""
        heap, old = self._heap, self._old
        return old if old and (not heap or old[0] < heap[0]) else heap


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
