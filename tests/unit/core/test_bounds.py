"""What one command does at most, so that it doesn't keep everybody waiting, and what is done little by little."""

from __future__ import annotations

import pytest

from respmq.core import bounds, queue, waiting
from respmq.core.bounds import MOST_LEASED, MOST_REPLAYED, MOST_SHOWN
from respmq.core.consumers import Consumer
from respmq.core.hub import NO_LIMIT, TICK_BUDGET
from respmq.core.model import DELAYED, LEASED, READY, Description, Message
from tests.unit.core.bench import Bench


class Deaf:
    """Takes what is pushed, and keeps nothing."""

    def deliver(self, consumer: Consumer, delivery: Message | Description) -> None:
        del consumer, delivery

    def cancelled(self, consumer: Consumer, reason: str) -> None:
        del consumer, reason


@pytest.fixture
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    """Replies hold a hundred bytes."""
    for module in (bounds, queue, waiting):
        monkeypatch.setattr(module, "MOST_BYTES", 100)


def fill(bench: Bench, count: int) -> None:
    bench.broker.put_many(b"q", (b"m",) * count)


def passes(bench: Bench) -> int:
    """How many ticks it takes until nothing is left to be done."""
    ticks = 1
    while bench.broker.tick(bench.broker.now) == bench.broker.now:
        ticks += 1
    return ticks


@pytest.mark.parametrize("state", [READY, DELAYED, LEASED])
def test_so_many_are_shown_at_a_time(state: int) -> None:
    bench = Bench(max_len=NO_LIMIT)
    if state == DELAYED:
        for n in range(MOST_SHOWN + 5):
            bench.broker.put(b"q", b"m", delay=1_000 + n)
    else:
        fill(bench, MOST_SHOWN + 5)
    if state == LEASED:
        bench.lease(MOST_SHOWN + 5)
    assert len(bench.broker.peek(b"q", state, NO_LIMIT, 0)) == MOST_SHOWN
    assert len(bench.broker.peek(b"q", state, NO_LIMIT, 3)) == MOST_SHOWN
    assert len(bench.broker.peek(b"q", state, NO_LIMIT, MOST_SHOWN)) == 5
    assert bench.broker.peek(b"q", state, NO_LIMIT, NO_LIMIT) == []


@pytest.mark.usefixtures("small")
def test_a_reply_ends_with_the_message_that_fills_it() -> None:
    bench = Bench(max_attempts=1)
    for _ in range(5):
        bench.broker.put(b"q", b"x" * 40)
    assert len(bench.broker.peek(b"q", READY, 5, 0)) == 3
    taken = [bench.lease(5), bench.lease(5), bench.lease(5)]
    assert list(map(len, taken)) == [3, 2, 0]
    for message in taken[0]:
        bench.broker.nack(b"q", message.lease or b"", error=b"e" * 60)
    assert len(bench.broker.dead_letters(b"q", 5)) == 1
    assert [len(bench.broker.pop_dead(b"q", 5)) for _ in range(4)] == [1, 1, 1, 0]


@pytest.mark.usefixtures("small")
def test_a_message_larger_than_that_is_alone() -> None:
    bench = Bench()
    for _ in range(2):
        bench.broker.put(b"q", b"x" * 1_000)
    assert len(bench.lease(5)) == 1
    assert len(bench.lease(1)) == 1


@pytest.mark.usefixtures("small")
def test_several_queues_fill_one_reply() -> None:
    bench = Bench()
    for name in (b"a", b"b", b"c"):
        bench.declare(name)
        bench.broker.put(name, b"x" * 60)
    assert [m.queue for m in bench.lease(5, b"a", b"b", b"c")] == [b"a", b"b"]
    assert [m.queue for m in bench.lease(5, b"a", b"b", b"c")] == [b"c"]


def test_so_many_are_leased_at_a_time() -> None:
    bench = Bench(max_len=NO_LIMIT)
    fill(bench, 2 * MOST_LEASED)
    assert len(bench.lease(NO_LIMIT)) == MOST_LEASED
    found = bench.broker.lease((b"q",), NO_LIMIT, full=True)
    assert isinstance(found, list)
    assert len(found) == MOST_SHOWN


def test_so_many_are_popped_at_a_time() -> None:
    bench = Bench(max_len=NO_LIMIT, max_dead=NO_LIMIT, ttl=1)
    fill(bench, MOST_SHOWN + 5)
    bench.after(1)
    assert len(bench.broker.dead_letters(b"q", NO_LIMIT)) == MOST_SHOWN
    assert [len(bench.broker.pop_dead(b"q", NO_LIMIT)) for _ in range(3)] == [MOST_SHOWN, 5, 0]


def test_so_many_are_replayed_at_a_time_the_oldest_first() -> None:
    bench = Bench(max_len=NO_LIMIT, max_dead=NO_LIMIT, ttl=1_000)
    ids = bench.broker.put_many(b"q", (b"m",) * (MOST_REPLAYED + 5))
    bench.after(1_000)
    assert bench.broker.replay_dead(b"q") == MOST_REPLAYED
    assert [letter["id"] for letter in bench.broker.dead_letters(b"q", NO_LIMIT)] == ids[MOST_REPLAYED:]
    assert [bench.broker.replay_dead(b"q") for _ in range(2)] == [5, 0]


def test_those_that_are_named_are_all_replayed() -> None:
    bench = Bench(max_len=NO_LIMIT, max_dead=NO_LIMIT, ttl=1_000)
    ids = bench.broker.put_many(b"q", (b"m",) * (MOST_REPLAYED + 5))
    bench.after(1_000)
    assert bench.broker.replay_dead(b"q", tuple(ids)) == MOST_REPLAYED + 5


# -- Little by little


def test_very_many_leases_of_a_consumer_are_given_back_in_slices() -> None:
    bench = Bench(max_len=NO_LIMIT, retry_delay=0)
    fill(bench, 5 * TICK_BUDGET)
    consumer = bench.broker.consume(b"q", NO_LIMIT, Deaf())
    bench.after(0)
    passes(bench)
    assert bench.stat("in_flight") == 5 * TICK_BUDGET
    assert bench.broker.cancel(consumer.tag) == 5 * TICK_BUDGET
    assert bench.stat("in_flight") == 4 * TICK_BUDGET
    assert passes(bench) > 4
    assert (bench.stat("in_flight"), bench.stat("ready"), bench.stat("retried")) == (0, *[5 * TICK_BUDGET] * 2)


def test_what_is_due_goes_on_meanwhile() -> None:
    bench = Bench(max_len=NO_LIMIT)
    fill(bench, 5 * TICK_BUDGET)
    bench.declare(b"other")
    waiting = bench.wait(b"other", wait=1)
    consumer = bench.broker.consume(b"q", NO_LIMIT, Deaf())
    passes(bench)
    bench.broker.cancel(consumer.tag)
    bench.broker.tick(bench.broker.now + 1)
    assert waiting.answer == []


def test_a_lease_that_was_settled_before_its_turn_is_passed_over() -> None:
    bench = Bench(max_len=NO_LIMIT, retry_delay=0)
    fill(bench, 3 * TICK_BUDGET)
    consumer = bench.broker.consume(b"q", NO_LIMIT, Deaf())
    passes(bench)
    bench.broker.cancel(consumer.tag)
    (last,) = bench.broker.peek(b"q", LEASED, 1, 2 * TICK_BUDGET - 1)
    assert isinstance(last["lease"], bytes)
    assert bench.broker.ack(b"q", (last["lease"],)) == 1
    passes(bench)
    assert (bench.stat("in_flight"), bench.stat("ready"), bench.stat("acked")) == (0, 3 * TICK_BUDGET - 1, 1)


def test_a_queue_can_be_deleted_before_all_are_given_back() -> None:
    bench = Bench(max_len=NO_LIMIT, retry_delay=0)
    fill(bench, 3 * TICK_BUDGET)
    consumer = bench.broker.consume(b"q", NO_LIMIT, Deaf())
    passes(bench)
    bench.broker.cancel(consumer.tag)
    bench.broker.delete(b"q")
    bench.declare(b"q")
    passes(bench)
    assert (bench.stat("ready"), bench.stat("in_flight"), bench.broker.used_memory) == (0, 0, 0)


def test_advance_leaves_nothing() -> None:
    bench = Bench(max_len=NO_LIMIT, retry_delay=0)
    fill(bench, 5 * TICK_BUDGET)
    consumer = bench.broker.consume(b"q", NO_LIMIT, Deaf())
    bench.after(0)
    bench.broker.cancel(consumer.tag)
    bench.after(0)
    assert bench.stat("in_flight") == 0


def test_ids_are_forgotten_in_slices() -> None:
    bench = Bench(max_len=NO_LIMIT, dedupe=1_000)
    for n in range(5 * TICK_BUDGET):
        bench.broker.put(b"q", b"m", id=b"%d" % n)
    bench.broker.purge(b"q")
    passes(bench)
    bench.broker.tick(bench.broker.now + 1_000)
    assert bench.broker.put(b"q", b"m", id=b"4999") == b"4999", "it is over, though not forgotten yet"
    assert passes(bench) >= 4
    assert bench.broker.put(b"q", b"m", id=b"4999") is None
    bench.broker.purge(b"q")
    bench.after(999)
    assert bench.broker.put(b"q", b"m", id=b"4999") is None
    bench.after(1)
    assert bench.broker.put(b"q", b"m", id=b"4999") == b"4999"


# -- Purging, whatever there is more of


@pytest.mark.parametrize("lease", [None, 60_000], ids=["usual", "of another length"])
@pytest.mark.parametrize(("waiting", "leased"), [(2, 50), (50, 2), (50, 50), (900, 1)])
def test_purging_drops_what_waits_and_nothing_else(waiting: int, leased: int, lease: int | None) -> None:
    bench = Bench(dedupe=0)
    bench.broker.put_many(b"q", (b"leased",) * leased)
    taken = bench.lease(leased, lease=lease)
    before = bench.broker.used_memory
    bench.broker.put_many(b"q", (b"ready",) * (waiting // 2))
    for n in range(waiting // 2):
        bench.broker.put(b"q", b"delayed", id=b"%d" % n, delay=1_000)
    assert bench.broker.purge(b"q") == waiting // 2 * 2
    assert bench.broker.used_memory == before
    assert (bench.stat("bytes"), bench.stat("in_flight")) == (6 * leased, leased)
    assert (bench.ready, bench.delayed) == ([], [])
    assert bench.broker.ack(b"q", tuple(m.lease or b"" for m in taken)) == leased
    assert (bench.broker.used_memory, bench.stat("bytes")) == (0, 0)
