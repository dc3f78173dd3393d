"""`async for` over the messages of a queue, and settling a delivery by itself."""

from __future__ import annotations

import gc

import pytest
import trio
from trio.testing import MockClock

from respmq import Broker, Delivery, InvalidRequestError, QueueConfig, QueueNotFoundError


async def test_messages_come_one_after_the_other(broker: Broker, autojump_clock: MockClock) -> None:
    broker.declare_queue("jobs")
    seen: list[object] = []

    async def work() -> None:
        async for job in broker.deliveries("jobs", prefetch=4):
            async with job:
                seen.append(job.body)
                await trio.sleep(1)

    async with trio.open_nursery() as nursery:
        nursery.start_soon(work)
        for number in range(3):
            await trio.sleep(5)
            broker.put("jobs", number)
            broker.put("jobs", -number, delay=1)
        await trio.sleep(5)
        assert seen == [0, 0, 1, -1, 2, -2]
        assert broker.stats("jobs").acked == 6
        nursery.cancel_scope.cancel()
    gc.collect()
    await trio.sleep(1)
    assert broker.stats("jobs").consumers == 0


async def test_at_most_prefetch_are_leased_and_what_nobody_asked_for_stands_where_it_stood(broker: Broker) -> None:
    broker.declare_queue("jobs", QueueConfig(retry_delay=0))
    for number in range(5):
        broker.put("jobs", number)
    async with broker.deliveries("jobs", prefetch=3) as jobs:
        first = await anext(jobs)
        assert broker.stats("jobs").in_flight == 3
        assert jobs.tag == "ctag-1"
    assert broker.stats("jobs").in_flight == 0
    assert not await first.ack()
    # The one that was asked for has failed and goes to the back.
    assert [(one.body, one.attempt) for one in broker.lease("jobs", count=9)] == [
        (1, 1),
        (2, 1),
        (3, 1),
        (4, 1),
        (0, 2),
    ]


async def test_cancelling_by_tag_ends_the_iteration_and_counts_all(broker: Broker) -> None:
    broker.declare_queue("jobs")
    for number in range(3):
        broker.put("jobs", number)
    jobs = broker.deliveries("jobs", prefetch=3)
    await anext(jobs)
    assert broker.cancel(jobs.tag) == 3
    assert [job async for job in jobs] == []
    jobs.close()


async def test_closing_the_broker_ends_it_and_deleting_the_queue_is_told(
    broker: Broker, autojump_clock: MockClock
) -> None:
    broker.declare_queue("one")
    broker.declare_queue("two")
    outcomes: list[object] = []

    async def work(queue: str) -> None:
        try:
            outcomes.append([job async for job in broker.deliveries(queue)])
        except QueueNotFoundError as error:
            outcomes.append(str(error))

    async with trio.open_nursery() as nursery:
        nursery.start_soon(work, "one")
        nursery.start_soon(work, "two")
        await trio.sleep(1)
        broker.delete_queue("one")
        await trio.sleep(1)
        broker.close()
    assert outcomes == ["no such queue 'one'", []]


async def test_a_loop_that_is_left_gives_back_what_it_had(broker: Broker, autojump_clock: MockClock) -> None:
    broker.declare_queue("jobs", QueueConfig(retry_delay=0))
    for number in range(3):
        broker.put("jobs", number)
    async for job in broker.deliveries("jobs"):
        async with job:
            assert job.body == 0
        break
    gc.collect()
    await trio.sleep(0.001)
    assert broker.stats("jobs").consumers == 0
    assert [(one.body, one.attempt) for one in broker.lease("jobs", count=9)] == [(1, 1), (2, 1)]


async def test_an_iterator_may_outlive_the_event_loop(autojump_clock: MockClock) -> None:
    async def main() -> object:
        async with Broker() as broker:
            broker.declare_queue("jobs")
            return broker.deliveries("jobs")

    await trio.to_thread.run_sync(trio.run, main)
    gc.collect()


async def test_leaving_a_delivery_acks_an_exception_nacks_and_a_cancellation_gives_back(
    broker: Broker, autojump_clock: MockClock
) -> None:
    broker.declare_queue("jobs", QueueConfig(max_attempts=2, retry_delay=5))
    broker.put("jobs", "x", id="a")
    (job,) = broker.lease("jobs")
    with trio.move_on_after(1):
        async with job:
            await trio.sleep_forever()
    (job,) = broker.lease("jobs")
    assert job.attempt == 1
    for _ in range(2):
        with pytest.raises(ValueError, match="bad file"):
            async with job:
                raise ValueError("bad file")
        await trio.sleep(5)
        if job.attempt == 1:
            (job,) = broker.lease("jobs")
    assert [(one.reason, one.error) for one in broker.dead_letters("jobs")] == [
        ("max_attempts", "ValueError: bad file")
    ]
    broker.put("jobs", "y")
    (job,) = broker.lease("jobs")
    async with job:
        assert await job.touch(60)
    assert broker.stats("jobs").acked == 1


async def test_what_was_settled_inside_stays_so(broker: Broker) -> None:
    broker.declare_queue("jobs")
    broker.put("jobs", "x")
    (job,) = broker.lease("jobs")
    async with job:
        assert await job.nack(requeue=False, error="no")
    assert [one.error for one in broker.dead_letters("jobs")] == ["no"]
    assert broker.stats("jobs").acked == 0


async def test_if_the_delivery_can_not_be_given_back_the_error_itself_comes_out(broker: Broker) -> None:
    broker.declare_queue("jobs")
    broker.put("jobs", "x", id="a")
    (job,) = broker.lease("jobs")

    async def work() -> None:
        async with job:
            broker.delete_queue("jobs")
            raise ValueError("bad file")

    with pytest.raises(ValueError, match="bad file") as error:
        await work()
    assert error.value.__notes__ == ["The delivery 'a' could not be given back to 'jobs': no such queue 'jobs'"]


async def test_a_delivery_made_by_hand_has_nothing_to_settle_it_with() -> None:
    job = Delivery(queue="jobs", id="a", attempt=1, raw=b"x", lease="l", deadline=0.0)
    assert job.body == "x"
    with pytest.raises(InvalidRequestError, match="'a' was made by hand"):
        await job.ack()
