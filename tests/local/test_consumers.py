"""Consumers: functions that are called with each message."""

from __future__ import annotations

import pytest
import trio
from trio.testing import MockClock

from respmq import (
    Broker,
    Delivery,
    Event,
    InvalidRequestError,
    QueueConfig,
)


async def test_tags_are_unique_across_queues_and_cancelling_needs_no_queue(broker: Broker) -> None:
    for queue in ("one", "two"):
        broker.declare_queue(queue, QueueConfig(retry_delay=0))
    got: list[Delivery] = []
    assert [broker.consume("one", got.append), broker.consume("two", got.append, prefetch=2)] == ["ctag-1", "ctag-2"]
    for number in range(3):
        broker.put("two", number)
    assert [one.body for one in got] == [0, 1]
    assert broker.cancel("ctag-2") == 2
    with pytest.raises(InvalidRequestError, match="no such consumer 'ctag-2'"):
        broker.cancel("ctag-2")
    assert [(one.body, one.attempt) for one in broker.lease("two", count=9)] == [(2, 1), (0, 2), (1, 2)]
    assert broker.cancel("ctag-1") == 0


async def test_a_consumer_gets_what_was_there_before_and_more_as_it_settles(broker: Broker) -> None:
    broker.declare_queue("jobs")
    for number in range(3):
        broker.put("jobs", number)
    got: list[Delivery] = []
    broker.consume("jobs", got.append, prefetch=1)
    assert [one.body for one in got] == [0]
    broker.ack("jobs", got[0].lease)
    assert [one.body for one in got] == [0, 1]
    assert broker.stats("jobs").consumers == 1


async def test_a_sink_may_call_the_broker(broker: Broker) -> None:
    broker.declare_queue("jobs")
    broker.declare_queue("results")
    order: list[str] = []

    def work(job: Delivery) -> None:
        order.append(f"begin {job.body}")
        broker.put("results", job.body * 2)
        assert broker.ack("jobs", job.lease)
        order.append(f"end {job.body}")

    broker.consume("jobs", work, prefetch=1)
    broker.consume("results", lambda result: order.append(f"result {result.body}"))
    broker.put("jobs", 1)
    broker.put("jobs", 2)
    # What a sink sets off comes when it has returned.
    assert order == ["begin 1", "end 1", "result 2", "begin 2", "end 2", "result 4"]


async def test_a_raising_sink_is_a_nack(
    broker: Broker, caplog: pytest.LogCaptureFixture, autojump_clock: MockClock
) -> None:
    broker.declare_queue("jobs", QueueConfig(max_attempts=2, retry_delay=5))
    attempts: list[tuple[float, int]] = []
    start = trio.current_time()

    def work(job: Delivery) -> None:
        attempts.append((trio.current_time() - start, job.attempt))
        raise ValueError("bad file")

    broker.consume("jobs", work)
    broker.put("jobs", "photo", id="job-1")
    await trio.sleep(60)
    assert attempts == [(0, 1), (pytest.approx(5), 2)]
    assert [(one.reason, one.error) for one in broker.dead_letters("jobs")] == [("max_attempts", "sink failed")]
    assert [record.getMessage() for record in caplog.records] == [
        "the sink of queue 'jobs' raised at message 'job-1'"
    ] * 2
    assert "ValueError: bad file" in caplog.text


async def test_a_sink_that_deletes_its_queue_and_raises_does_no_harm(broker: Broker) -> None:
    broker.declare_queue("jobs")

    def work(job: Delivery) -> None:
        broker.delete_queue(job.queue)
        raise ValueError("gone")

    broker.consume("jobs", work)
    broker.put("jobs", "x")
    assert broker.list_queues() == []


async def test_a_sink_that_was_cancelled_by_another_is_not_called(broker: Broker) -> None:
    broker.declare_queue("one")
    broker.declare_queue("two")
    broker.put("two", "x")
    broker.bind("both", "one")
    broker.bind("both", "two")
    called: list[str] = []
    broker.consume("one", lambda _: broker.cancel("ctag-2"))
    broker.consume("two", lambda job: called.append(job.body))
    assert called == ["x"]
    broker.publish("both", "y")
    assert called == ["x"]
    with pytest.raises(InvalidRequestError):
        broker.cancel("ctag-2")


async def test_async_functions_are_no_sinks(broker: Broker) -> None:
    broker.declare_queue("jobs")

    async def work(job: Delivery) -> None: ...

    async def see(sub: str, event: Event) -> None: ...

    with pytest.raises(InvalidRequestError, match="a sink is only called: use `deliveries`"):
        broker.consume("jobs", work)
    with pytest.raises(InvalidRequestError, match="async function"):
        broker.subscribe("#", see)


async def test_very_many_calls_leave_the_event_loop_its_turns(broker: Broker) -> None:
    broker.declare_queue("ping", QueueConfig(dedupe=0))
    turns = 0

    def again(job: Delivery) -> None:
        nonlocal turns
        turns += 1
        broker.ack("ping", job.lease)
        broker.put("ping", "x")

    tag = broker.consume("ping", again)
    broker.put("ping", "x")
    first = turns
    assert first > 1000
    while turns == first:
        await trio.lowlevel.checkpoint()
    broker.cancel(tag)
    broker.purge_queue("ping")
