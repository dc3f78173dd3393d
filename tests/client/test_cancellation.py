"""Cancelling: any call at any of its checkpoints, and afterwards all is as if it had been made or not been made."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

import pytest
import trio

from respmq import Client, Delivery, EmbeddedServer
from tests.support.checkpoints import cancel_everywhere
from tests.support.control import Control, eventually

Operation = Callable[[Client], Awaitable[object]]

CALLS: dict[str, Operation] = {
    "put": lambda mq: mq.put("jobs", "x"),
    "stats": lambda mq: mq.stats("jobs"),
    "publish": lambda mq: mq.publish("a.b", "x"),
    "declare": lambda mq: mq.declare_queue("jobs"),
    "bind": lambda mq: mq.bind("a.#", "jobs"),
    "peek": lambda mq: mq.qpeek("jobs"),
    "replay": lambda mq: mq.replay_dead("jobs"),
}


async def nothing_leased(control: Control) -> None:
    """Nothing stays leased that nobody knows of, and that didn't count as an attempt."""

    async def holds() -> bool:
        return await control.stat("jobs", "in_flight") == 0

    await eventually(holds, "nothing is leased")
    assert await control.stat("jobs", "retried") == 0
    assert await control.stat("jobs", "dead") == 0


async def connections(control: Control, wanted: int) -> None:
    async def holds() -> bool:
        return len(await control.clients()) == wanted

    await eventually(holds, f"{wanted} connections")


@pytest.mark.parametrize("name", CALLS)
async def test_a_cancelled_call_leaves_the_connection_as_it_was(name: str, mq: Client, control: Control) -> None:
    await mq.declare_queue("jobs")
    runs = 0
    async for _ in cancel_everywhere(lambda: CALLS[name](mq)):
        runs += 1
        assert (await mq.queue_config("jobs")).max_attempts == 5
    assert runs >= 2
    assert len(await control.clients()) == 1


async def test_replies_of_cancelled_calls_are_not_taken_for_others(mq: Client) -> None:
    await mq.declare_queue("jobs")
    ids = [f"id-{number}" for number in range(50)]

    async def put(id: str, cancelled: bool) -> None:
        with trio.CancelScope() as scope:
            if cancelled:
                scope.cancel()
            result = await mq.put("jobs", id, id=id)
            assert result.id == id

    async with trio.open_nursery() as nursery:
        for number, id in enumerate(ids):
            nursery.start_soon(put, id, number % 3 == 0)
    assert sorted(message.id for message in await mq.qpeek("jobs", count=100)) == sorted(ids)


@pytest.mark.parametrize("count", [1, 3])
async def test_a_cancelled_lease_leaves_nothing_leased(count: int, mq: Client, control: Control) -> None:
    await mq.declare_queue("jobs")
    await mq.qmput("jobs", "a", "b", "c", "d")
    async for cancelled in cancel_everywhere(lambda: mq.lease("jobs", count=count)):
        if cancelled:
            await nothing_leased(control)
    assert await control.stat("jobs", "in_flight") == count
    assert [message.body for message in await mq.qpeek("jobs")] == ["a", "b", "c", "d"][count:]


async def test_a_cancelled_wait_leaves_nothing_leased(mq: Client, control: Control) -> None:
    await mq.declare_queue("jobs")
    await mq.put("jobs", "x")
    runs = 0
    async for cancelled in cancel_everywhere(lambda: mq.lease("jobs", wait=60)):
        runs += 1
        if cancelled:
            await nothing_leased(control)
    assert runs >= 5
    assert await control.stat("jobs", "in_flight") == 1
    # The last wait was answered, so its connection is kept for the next one; the others are gone.
    await connections(control, 2)


async def test_a_wait_that_is_cancelled_while_it_waits(mq: Client, control: Control) -> None:
    await mq.declare_queue("jobs")
    for _ in range(3):
        async with trio.open_nursery() as nursery:
            nursery.start_soon(lambda: mq.lease("jobs", wait=60))

            async def waits() -> bool:
                return await control.stat("jobs", "waiters") == 1

            await eventually(waits, "somebody waits")
            nursery.cancel_scope.cancel()
    await mq.put("jobs", "x")
    [delivery] = await mq.lease("jobs")
    assert (delivery.body, delivery.attempt) == ("x", 1)
    assert await control.stat("jobs", "delivered") == 1


async def test_a_wait_that_is_cancelled_in_the_moment_of_the_hand_over(mq: Client, control: Control) -> None:
    """Either the call has returned the message, or it is there for the next one, and that is its first attempt."""
    await mq.declare_queue("jobs")
    outcomes: set[bool] = set()
    for steps in range(30):
        taken: list[Delivery] = []

        async def wait(taken: list[Delivery] = taken) -> None:
            taken += await mq.lease("jobs", wait=60)

        async with trio.open_nursery() as nursery:
            nursery.start_soon(wait)

            async def waits() -> bool:
                return await control.stat("jobs", "waiters") == 1

            await eventually(waits, "somebody waits")
            # The server runs in this thread: so many steps, and it has handed the message over or not.
            await control.send("QPUT", "jobs", "x")
            for _ in range(steps // 3):
                await trio.lowlevel.checkpoint()
            nursery.cancel_scope.cancel()
        await control.reply()
        outcomes.add(bool(taken))
        if not taken:
            await nothing_leased(control)
            taken = await mq.lease("jobs")
        [delivery] = taken
        assert delivery.attempt == 1
        assert await delivery.ack()
    assert outcomes == {True, False}


async def test_settling_that_is_cancelled_settles(mq: Client, control: Control) -> None:
    await mq.declare_queue("jobs")
    begun = 0

    async def work() -> None:
        await mq.put("jobs", "x")
        [delivery] = await mq.lease("jobs")
        nonlocal begun
        begun += 1
        async with delivery:
            pass

    async for _ in cancel_everywhere(work):
        await nothing_leased(control)
        # What was begun, and left in order, is acked, however it was cancelled then.
        assert await control.stat("jobs", "acked") == begun
    assert begun > 2


async def test_a_delivery_whose_work_is_cancelled_is_given_back(mq: Client, control: Control) -> None:
    await mq.declare_queue("jobs")
    await mq.put("jobs", "x")
    [delivery] = await mq.lease("jobs")
    with trio.CancelScope() as scope:
        async with delivery:
            scope.cancel()
            await trio.sleep_forever()
    await nothing_leased(control)
    assert [message.attempt for message in await mq.qpeek("jobs")] == [0]


async def test_a_consumer_is_cancelled_at_each_of_its_checkpoints(mq: Client, control: Control) -> None:
    """Whenever that is: no consumer stays, nothing stays leased, and nothing counts as a failure."""
    await mq.declare_queue("jobs")
    await mq.qmput("jobs", *(f"job {number}" for number in range(10)))

    async def consume_and_settle() -> None:
        async with mq.consume("jobs", prefetch=4) as jobs:
            job = await anext(jobs)
            await job.nack(release=True)

    async def no_consumers() -> bool:
        return await control.stat("jobs", "consumers") == 0

    runs = 0
    async for _ in cancel_everywhere(consume_and_settle):
        runs += 1
        await eventually(no_consumers, "no consumer is left")
        await nothing_leased(control)
    assert runs >= 3
    assert [message.body for message in await mq.qpeek("jobs")][:4] == ["job 0", "job 1", "job 2", "job 3"]
    assert all(message.attempt == 0 for message in await mq.qpeek("jobs"))


async def test_a_subscription_is_cancelled_at_each_of_its_checkpoints(mq: Client, control: Control) -> None:
    async def subscribe() -> None:
        async with mq.subscribe("a.#") as events:
            await mq.publish("a.b", "x")
            await anext(events)

    async def no_subscriptions() -> bool:
        return (await control.clients())[0]["psub"] == "0"

    async for _ in cancel_everywhere(subscribe):
        await eventually(no_subscriptions, "no subscription is left")


async def test_opening_and_closing_is_cancelled_at_each_checkpoint(broker: EmbeddedServer, control: Control) -> None:
    """No connection stays, and what the body raised is what comes out."""
    await control.cmd("QDECLARE", "jobs")

    async def use() -> None:
        async with Client(broker.host, broker.port) as mq, mq.consume("jobs"):
            await mq.lease("jobs", wait=0.01)

    runs = 0
    async for _ in cancel_everywhere(use):
        runs += 1
        await connections(control, 0)
    assert runs > 10
