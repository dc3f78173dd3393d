"""A tick: each thing at its own moment, a bounded amount of work, and the rest in the ticks that follow."""

from __future__ import annotations

import pytest

import respmq.core.broker
from respmq.core.hub import TICK_BUDGET, Hub
from tests.unit.core.bench import START, Bench


def ticks(bench: Bench, until: int) -> int:
    """How many ticks it takes until all that is due at `until` has happened."""
    count = 1
    while (following := bench.broker.tick(START + until)) is not None and following <= START + until:
        count += 1
        assert count < 10_000
    return count


def test_a_tick_tells_when_the_next_one_is_due() -> None:
    bench = Bench(dedupe=0)
    assert bench.broker.tick(START + 10) is None
    bench.put(b"m", delay=100)
    assert bench.broker.tick(START + 50) == START + 110
    assert bench.broker.tick(START + 110) is None
    bench.take(lease=40)
    assert bench.broker.tick(START + 110) == START + 150


def test_each_thing_happens_at_its_own_moment() -> None:
    bench = Bench(max_attempts=2, retry_delay=30, ack_timeout=100, ttl=500)
    bench.put(b"m")
    bench.take()
    waiting = bench.wait(wait=135)
    bench.after(10_000)
    # Leased until 100, ready at 130, leased by the waiter until 230, dead.
    assert waiting.answer == [b"m"]
    assert bench.dead == [(b"m", "max_attempts", b"ack timeout", 230)]


def test_time_never_goes_back() -> None:
    bench = Bench()
    bench.after(100)
    bench.broker.tick(START)
    assert bench.now == 100
    bench.broker.advance(START - 1_000)
    assert bench.now == 100


@pytest.mark.parametrize("kind", ["leases", "ttls", "delays"])
def test_what_is_due_at_once_is_done_in_slices(kind: str) -> None:
    many = 5 * TICK_BUDGET
    bench = Bench(max_len=many, ack_timeout=100, ttl=100 if kind == "ttls" else None, max_attempts=1, dedupe=0)
    broker = bench.broker
    if kind == "delays":
        for i in range(many):
            broker.put(b"q", b"", id=b"%d" % i, delay=100)
    else:
        broker.put_many(b"q", (b"",) * many)
    if kind == "leases":
        bench.lease(many)
    done: list[int] = []
    while (following := broker.tick(START + 100)) is not None and following <= START + 100:
        stats = broker.stats(b"q")
        done.append(stats.dead_lettered + stats.ready * (kind == "delays"))
    steps = [b - a for a, b in zip([0, *done], done, strict=False)]
    assert max(steps) <= TICK_BUDGET
    assert 5 <= len(steps) <= 8
    assert (bench.stat("ready") if kind == "delays" else bench.stat("dead_lettered")) == many


def test_several_queues_share_a_tick_s_budget(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(respmq.core.broker, "TICK_BUDGET", 10)
    bench = Bench(ttl=100, dedupe=0)
    names = [b"%d" % i for i in range(20)]
    for name in names:
        bench.declare(name, ttl=100, dedupe=0)
        bench.broker.put_many(name, (b"",) * 10)
    bench.broker.tick(START + 100)
    dead = sum(bench.stat("dead", name) for name in names)
    assert 0 < dead <= 10
    ticks(bench, 100)
    assert sum(bench.stat("dead", name) for name in names) == 200


def test_what_is_put_between_the_slices_is_neither_lost_nor_early(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(respmq.core.broker, "TICK_BUDGET", 5)
    bench = Bench(ttl=100)
    bench.broker.put_many(b"q", (b"old",) * 50)
    bench.broker.tick(START + 100)
    bench.put(b"new")
    taken = bench.lease(100)
    # What has lapsed is not handed out, though its turn in the slices has not come.
    assert [m.body for m in taken] == [b"new"]
    ticks(bench, 100)
    assert (bench.stat("dead"), bench.stat("in_flight")) == (50, 1)


def test_advance_does_all() -> None:
    many = 3 * TICK_BUDGET
    bench = Bench(max_len=many, ttl=100)
    bench.broker.put_many(b"q", (b"",) * many)
    bench.after(100)
    assert bench.stat("dead_lettered") == many


# -- Memory that is freed little by little


def graves(bench: Bench) -> int:
    return sum(map(len, bench.broker._hub.graveyard))


@pytest.mark.parametrize("how", ["purge", "delete", "purge_dead"])
def test_very_many_messages_are_freed_in_slices(how: str) -> None:
    many = 5 * TICK_BUDGET
    bench = Bench(max_len=many, max_dead=many, ttl=10 if how == "purge_dead" else None)
    bench.broker.put_many(b"q", (b"x",) * many)
    if how == "purge_dead":
        bench.after(10)
    getattr(bench.broker, how)(b"q")
    assert bench.broker.used_memory == 0
    before = graves(bench)
    assert before >= many
    moment = bench.now
    steps: list[int] = []
    while (following := bench.broker.tick(START + moment)) is not None and following <= START + moment:
        steps.append(before - graves(bench))
        before = graves(bench)
    assert graves(bench) == 0
    assert max(steps) <= TICK_BUDGET
    assert not bench.broker._hub.graveyard


def test_empty_containers_are_not_buried() -> None:
    hub = Hub(START, lambda n: b"\0" * n, lambda low, _high: low)
    hub.bury({}, [], {1: 2}, [3, 4])
    assert len(hub.graveyard) == 2
    hub.dig()
    assert not hub.graveyard


def test_queues_that_come_and_go_leave_nothing_behind() -> None:
    bench = Bench()
    broker = bench.broker
    for i in range(2_000):
        name = b"temporary-%d" % (i % 3)
        bench.declare(name, ttl=1_000_000, overflow="DROPHEAD")
        bench.put(b"a", b"b", name=name)
        bench.put(b"c", name=name, delay=500_000)
        bench.take(2, name)
        one = bench.wait(b"q", name, wait=1_000_000, count=5, request=(b"u", b"k")) if i % 2 else None
        broker.delete(name)
        if one is not None:
            assert one.answer is not None
    ticks(bench, bench.now)
    hub = broker._hub
    assert (broker.used_memory, len(hub.deadlines), len(hub.graveyard)) == (0, 0, 0)
    assert len(hub.deadlines._heap) < 200
    assert broker.names() == [b"q"]
    assert not hub.agenda
