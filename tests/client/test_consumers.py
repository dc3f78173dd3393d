"""Consumers and subscriptions of a client."""

from __future__ import annotations

import logging

import pytest
import trio
import trio.lowlevel

from respmq import Client, Delivery, Event, QueueConfig, QueueNotFoundError
from tests.support.control import Control, eventually


async def test_deliveries_come_as_they_are_settled(mq: Client, control: Control) -> None:
    await mq.declare_queue("jobs")
    await mq.qmput("jobs", *map(str, range(10)))
    got: list[str] = []
    async with mq.consume("jobs", prefetch=3) as jobs:
        async for job in jobs:
            assert await control.stat("jobs", "in_flight") <= 3
            async with job:
                got.append(job.body)
            if len(got) == 10:
                break
    assert got == [str(number) for number in range(10)]
    assert await control.stat("jobs", "acked") == 10
    assert await control.stat("jobs", "consumers") == 0


async def test_what_nobody_has_taken_goes_back_uncounted(mq: Client, control: Control) -> None:
    """Else a queue with one attempt would lose what a consumer that leaves hasn't even looked at."""
    await mq.declare_queue("jobs", QueueConfig(max_attempts=1))
    await mq.qmput("jobs", *map(str, range(10)))
    async with mq.consume("jobs", prefetch=5) as jobs, await anext(jobs) as job:
        assert job.body == "0"
    assert (await control.stat("jobs", "ready"), await control.stat("jobs", "dead")) == (9, 0)
    found = await mq.lease("jobs", count=10)
    assert [delivery.body for delivery in found] == [str(number) for number in range(1, 10)]
    assert {delivery.attempt for delivery in found} == {1}


async def test_what_was_taken_and_not_settled_goes_back_as_failed(mq: Client) -> None:
    await mq.declare_queue("jobs", QueueConfig(max_attempts=1))
    await mq.put("jobs", "x")
    async with mq.consume("jobs") as jobs:
        job = await anext(jobs)
    assert not await job.ack()
    [letter] = await mq.dead_letters("jobs")
    assert letter.error == "consumer removed"


async def test_several_tasks_take_from_one_consumer(mq: Client) -> None:
    await mq.declare_queue("jobs")
    await mq.qmput("jobs", *map(str, range(20)))
    got: set[str] = set()
    with trio.fail_after(10):
        async with mq.consume("jobs", prefetch=4) as jobs, trio.open_nursery() as nursery:

            async def work() -> None:
                async for job in jobs:
                    async with job:
                        got.add(job.body)
                    if len(got) == 20:
                        nursery.cancel_scope.cancel()

            for _ in range(4):
                nursery.start_soon(work)
    assert len(got) == 20


async def test_a_handler_acks_by_returning_and_nacks_by_raising(mq: Client, caplog: pytest.LogCaptureFixture) -> None:
    await mq.declare_queue("jobs", QueueConfig(max_attempts=1))
    running = most = 0
    done = trio.Event()

    async def work(job: Delivery) -> None:
        nonlocal running, most
        running += 1
        most = max(most, running)
        try:
            if job.body == "bad":
                raise ValueError("no such file")
            if job.body == "last":
                done.set()
            await trio.lowlevel.checkpoint()
        finally:
            running -= 1

    async with mq.consume("jobs", prefetch=3, handler=work):
        await mq.qmput("jobs", "a", "b", "bad", "c", "last")
        with trio.fail_after(10):
            await done.wait()

        async def settled() -> bool:
            return (await mq.stats("jobs")).acked == 4

        await eventually(settled, "all is acked")
    assert most <= 3
    assert [letter.error for letter in await mq.dead_letters("jobs")] == ["ValueError: no such file"]
    assert [record.levelno for record in caplog.records if "handler failed" in record.message] == [logging.ERROR]


async def test_handlers_that_run_when_the_body_is_left_give_their_deliveries_back(mq: Client) -> None:
    await mq.declare_queue("jobs", QueueConfig(max_attempts=1))
    await mq.qmput("jobs", "a", "b", "c")
    begun: list[str] = []

    async def work(job: Delivery) -> None:
        begun.append(job.body)
        await trio.sleep_forever()

    async with mq.consume("jobs", prefetch=2, handler=work):
        await eventually(lambda: len(begun) == 2, "two handlers run")
    found = await mq.lease("jobs", count=5)
    assert [(delivery.body, delivery.attempt) for delivery in found] == [("a", 1), ("b", 1), ("c", 1)]


async def test_a_plain_function_can_be_a_handler(mq: Client) -> None:
    await mq.declare_queue("jobs")
    got: list[str] = []
    async with mq.consume("jobs", handler=lambda job: got.append(job.body)):
        await mq.put("jobs", "x")

        async def settled() -> bool:
            return (await mq.stats("jobs")).acked == 1

        await eventually(settled, "it is acked")
    assert got == ["x"]


async def test_a_consumer_ends_when_its_queue_is_deleted(mq: Client) -> None:
    await mq.declare_queue("jobs")
    async with mq.consume("jobs") as jobs:
        await mq.delete_queue("jobs")
        with trio.fail_after(10), pytest.raises(QueueNotFoundError, match="queue 'jobs' was deleted"):
            await anext(jobs)
    await mq.declare_queue("other")
    async with mq.consume("other") as others:
        pass
    with pytest.raises(StopAsyncIteration):
        await anext(others)


async def test_handlers_end_with_the_queue(mq: Client) -> None:
    await mq.declare_queue("jobs")

    async def consume() -> None:
        async with mq.consume("jobs", handler=lambda _job: None):
            await mq.delete_queue("jobs")
            await trio.sleep_forever()

    with trio.fail_after(10), pytest.raises(QueueNotFoundError):
        await consume()


async def test_what_the_body_raises_comes_out_as_it_is(mq: Client) -> None:
    await mq.declare_queue("jobs")
    with pytest.raises(ZeroDivisionError):
        async with mq.consume("jobs", handler=lambda _job: None):
            raise ZeroDivisionError


async def test_wrong_arguments(mq: Client) -> None:
    await mq.declare_queue("jobs")
    with pytest.raises(Exception, match="PREFETCH"):
        async with mq.consume("jobs", prefetch=0):
            pass


# -- subscriptions


async def test_events_come_to_each_subscription_that_matches(mq: Client) -> None:
    async with (
        mq.subscribe("job.*.failed") as failed,
        mq.subscribe("job.#") as everything,
        mq.subscribe("job.#") as again,
        mq.subscribe("other") as other,
    ):
        result = await mq.publish("job.nightly.failed", {"disk": "full"})
        assert result.subscribers == 2
        await mq.publish("other", b"\xff")
        for events in (failed, everything, again):
            event = await anext(events)
            assert (event.topic, event.body) == ("job.nightly.failed", {"disk": "full"})
        event = await anext(other)
        assert (event.topic, event.body, event.raw) == ("other", b"\xff", b"\xff")
    assert (await mq.broker_stats()).subscriptions == 0


async def test_leaving_one_of_two_equal_subscriptions_leaves_the_other(mq: Client) -> None:
    async with mq.subscribe("a.#") as first:
        async with mq.subscribe("a.#"):
            pass
        await mq.publish("a.b", "x")
        with trio.fail_after(10):
            assert (await anext(first)).body == "x"


async def test_a_death_is_announced(mq: Client) -> None:
    await mq.declare_queue("jobs")
    async with mq.subscribe("$sys.dead.*") as deaths:
        await mq.put("jobs", "x", id="a")
        [delivery] = await mq.lease("jobs")
        await delivery.nack(requeue=False, error="bad file")
        event = await anext(deaths)
        assert event.topic == "$sys.dead.jobs"
        assert (event.body["id"], event.body["reason"], event.body["error"]) == ("a", "rejected", "bad file")


async def test_handlers_of_events(mq: Client, caplog: pytest.LogCaptureFixture) -> None:
    got: list[str] = []
    done = trio.Event()

    async def notice(event: Event) -> None:
        got.append(event.body)
        if event.body == "bad":
            raise ValueError("no")
        if event.body == "last":
            done.set()

    async with mq.subscribe("a", handler=notice), mq.subscribe("a", handler=lambda event: got.append(event.topic)):
        for body in ("first", "bad", "last"):
            await mq.publish("a", body)
        with trio.fail_after(10):
            await done.wait()
        await eventually(lambda: len(got) == 6, "all events have come")
    assert sorted(got) == ["a", "a", "a", "bad", "first", "last"]
    assert any("handler failed" in record.message for record in caplog.records)


async def test_the_oldest_events_are_dropped_if_nobody_takes_them(mq: Client) -> None:
    async with mq.subscribe("a") as events:
        async with trio.open_nursery() as nursery:
            for number in range(1100):
                nursery.start_soon(mq.publish, "a", number)
        assert events.dropped == 100
        got = [(await anext(events)).body for _ in range(1000)]
        assert len(set(got)) == 1000


async def test_no_possible_pattern(mq: Client) -> None:
    with pytest.raises(Exception, match="a\\*") as caught:
        async with mq.subscribe("a*"):
            pass
    assert getattr(caught.value, "code", "") == "INVALIDTOPIC"
    assert mq.connected
