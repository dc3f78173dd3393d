"""The heap whose entries may go stale without being told."""

from __future__ import annotations

import random
from heapq import heapify

import pytest

from respmq.core.lazyheap import LazyHeap, walk
from respmq.core.model import DELAYED, GONE, Message
from tests.unit.core.bench import message


def waits(message: Message, key: int) -> bool:
    return message.state == DELAYED and message.deadline == key


def add(heap: LazyHeap[int], key: int, id: bytes = b"m") -> Message:
    new = message(id)
    new.state = DELAYED
    new.deadline = key
    heap.add(key, new)
    return new


def test_smallest_key_first_and_among_equal_ones_the_first_added() -> None:
    heap = LazyHeap(waits)
    for key, id in ((2, b"c"), (1, b"a"), (2, b"d"), (1, b"b")):
        add(heap, key, id)
    assert [m.id for m in heap] == [b"a", b"b", b"c", b"d"]
    assert heap.next() == 1
    assert [m.id for m in iter(heap.pop, None)] == [b"a", b"b", b"c", b"d"]
    assert heap.next() is None


def test_stale_entries_are_passed_over() -> None:
    heap = LazyHeap(waits)
    first, second, third = (add(heap, key) for key in (1, 2, 3))
    first.state = GONE
    second.deadline = 9
    heap.add(9, second)
    # No valid key is below it; the entry itself is stale and counts as one step.
    assert heap.next() == 1
    assert heap.pop_next() is None
    assert heap.pop_next() is None
    assert heap.next() == 3
    assert list(heap) == [third, second]
    assert heap.pop() is third
    assert heap.pop() is second
    assert heap.pop() is None


def test_stale_entries_do_not_pile_up() -> None:
    heap = LazyHeap(waits)
    kept = [add(heap, 10_000 + i) for i in range(50)]
    for i in range(50_000):
        add(heap, i).state = GONE
        assert len(heap) <= 3 * (len(kept) + 1) + 2 * 64
    assert list(heap) == kept


def test_a_sweep_takes_a_few_steps_with_each_new_entry() -> None:
    looks = 0

    def valid(message: Message, key: int) -> bool:
        nonlocal looks
        looks += 1
        return message.state == DELAYED and message.deadline == key

    heap = LazyHeap(valid)
    entries = [add(heap, key) for key in range(20_000)]
    for entry in entries[::2]:
        entry.state = GONE
    most = 0
    for key in range(20_000, 60_000):
        before = looks
        entries.append(add(heap, key))
        most = max(most, looks - before)
    assert most <= 8
    assert [m.deadline for m in heap] == [*range(1, 20_000, 2), *range(20_000, 60_000)]
    assert [m.deadline for m in iter(heap.pop, None)] == [*range(1, 20_000, 2), *range(20_000, 60_000)]


def test_a_heap_that_grows_is_not_swept_over_and_over() -> None:
    """Sweeps cost as much as all entries: they come when the heap has doubled."""
    looks = 0

    def valid(_message: Message, _key: int) -> bool:
        nonlocal looks
        looks += 1
        return True

    heap = LazyHeap(valid)
    one = message()
    for key in range(100_000):
        heap.add(key, one)
    assert looks < 3 * 100_000


@pytest.mark.parametrize("count", [500, 5_000])
def test_walk_gives_a_heap_in_order_and_leaves_it_alone(count: int) -> None:
    heap = LazyHeap(waits)
    chance = random.Random(1)
    keys = [chance.randrange(1000) for _ in range(count)]
    for key in keys:
        add(heap, key)
    entries = [(key, i) for i, key in enumerate(keys)]
    heapify(entries)
    before = list(entries)
    assert list(walk(entries)) == sorted(entries)
    assert entries == before
    assert [m.deadline for m in heap] == sorted(keys)
    assert list(walk([])) == []
