"""Deadlines on Trio's clock: each thing happens at its own moment, whoever else sleeps."""

from __future__ import annotations

import pytest
import trio
from trio.testing import MockClock

from respmq import Broker, QueueConfig
from respmq.local.timing import TrioTime


async def test_a_delay_a_lease_and_a_ttl_end_in_time(broker: Broker, autojump_clock: MockClock) -> None:
    broker.declare_queue("jobs", QueueConfig(ack_timeout=10, retry_delay=4, ttl=60))
    start = trio.current_time()
    seen: list[tuple[object, object]] = []
    broker.subscribe(
        "$sys.dead.jobs", lambda sub, event: seen.append((trio.current_time() - start, event.body["reason"]))
    )
    broker.put("jobs", "x", delay=2.5)
    await trio.sleep(2.499)
    assert broker.stats("jobs").delayed == 1
    await trio.sleep(0.001)
    (first,) = broker.lease("jobs")
    await trio.sleep(9.999)
    assert broker.stats("jobs").in_flight == 1
    await trio.sleep(0.001)
    assert (broker.stats("jobs").delayed, broker.stats("jobs").expired_leases) == (1, 1)
    await trio.sleep(4)
    assert broker.stats("jobs").ready == 1
    assert broker.stats("jobs").oldest_ready_age == 0
    await trio.sleep(1000)
    # The TTL began anew when the lease ended.
    assert seen == [(pytest.approx(2.5 + 10 + 60), "ttl_expired")]
    assert not broker.ack("jobs", first.lease)


async def test_a_lease_whose_time_is_over_can_still_be_acked_if_nobody_has_got_the_message(
    broker: Broker, autojump_clock: MockClock
) -> None:
    broker.declare_queue("jobs", QueueConfig(ack_timeout=10, retry_delay=100, max_retry_delay=100))
    broker.put("jobs", "x")
    (got,) = broker.lease("jobs")
    await trio.sleep(20)
    assert broker.ack("jobs", got.lease)


async def test_a_renewed_lease_lasts(broker: Broker, autojump_clock: MockClock) -> None:
    broker.declare_queue("jobs", QueueConfig(ack_timeout=10))
    broker.put("jobs", "x")
    (got,) = broker.lease("jobs")
    for _ in range(5):
        await trio.sleep(9)
        assert broker.touch("jobs", got.lease)
    await trio.sleep(9)
    assert broker.touch("jobs", got.lease, 100)
    await trio.sleep(99)
    assert broker.stats("jobs").expired_leases == 0


async def test_an_id_is_a_duplicate_for_as_long_as_the_queue_says(broker: Broker, autojump_clock: MockClock) -> None:
    broker.declare_queue("jobs", QueueConfig(dedupe=60))
    broker.put("jobs", "x", id="a")
    broker.ack("jobs", broker.lease("jobs")[0].lease)
    await trio.sleep(59)
    assert broker.put("jobs", "x", id="a").duplicate
    await trio.sleep(1)
    assert not broker.put("jobs", "x", id="a").duplicate


async def test_a_consumer_gets_a_message_when_its_delay_is_over_and_nobody_else_does_anything(
    broker: Broker, autojump_clock: MockClock
) -> None:
    broker.declare_queue("jobs")
    arrived: list[float] = []
    broker.consume("jobs", lambda job: arrived.append(trio.current_time()))
    start = trio.current_time()
    # Numbers of milliseconds that no float hits.
    for delay in (0.1, 0.29, 1.001, 3.333, 7.7):
        broker.put("jobs", "x", delay=delay)
    await trio.sleep(20)
    assert arrived == [pytest.approx(start + delay, abs=2e-3) for delay in (0.1, 0.29, 1.001, 3.333, 7.7)]


async def test_moments_become_deadlines_and_back() -> None:
    clock = TrioTime()
    start = clock.now()
    for millis in (0, 1, 7, 999, 1001, 86_400_123):
        deadline = clock.deadline(start + millis)
        assert deadline <= trio.current_time() + millis / 1000 + 0.01
    assert clock.deadline(None) == float("inf")
