"""The asynchronous side of a broker, which workers use: the same, and leases that wait."""

from __future__ import annotations

import math

import pytest
import trio
import trio.testing
from trio.testing import MockClock

from respmq import AsyncBroker, Broker, BrokerUnavailableError, InvalidRequestError, QueueConfig, QueueNotFoundError
from respmq.api.messages import Delivery


async def test_it_does_what_the_broker_does(broker: Broker) -> None:
    side: AsyncBroker = broker.asynchronous()
    assert side.connected
    await side.declare_queue("jobs", QueueConfig(ack_timeout=60))
    assert await side.queue_config("jobs") == QueueConfig(ack_timeout=60)
    assert await side.bind("a.#", "jobs")
    await side.declare_exchange("logs", "TOPIC")
    assert await side.bind_exchange("logs", "jobs", "#")
    assert await side.publish_exchange("logs", "web", {"a": 1}, headers={"h": "v"}, attachments=[b"x"]) == 1
    (job,) = await side.lease("jobs", count=2)
    assert (job.body, job.headers["h"], job.attachments) == ({"a": 1}, "v", (b"x",))
    assert await side.touch("jobs", job.lease, 5)
    assert await side.nack("jobs", job.lease, release=True)
    (job,) = await side.lease("jobs")
    assert await side.ack("jobs", job.lease)
    assert await side.lease("jobs") == []


async def test_a_cancelled_call_does_nothing(broker: Broker) -> None:
    side = broker.asynchronous()
    broker.declare_queue("jobs")
    broker.put("jobs", "x")
    (job,) = broker.lease("jobs")
    with trio.CancelScope() as scope:
        scope.cancel()
        await side.ack("jobs", job.lease)
    assert broker.stats("jobs").in_flight == 1


async def test_a_lease_waits_for_a_message_and_no_longer_than_it_may(broker: Broker, autojump_clock: MockClock) -> None:
    side = broker.asynchronous()
    broker.declare_queue("jobs")
    start = trio.current_time()
    assert await side.lease("jobs", wait=5) == []
    assert trio.current_time() - start == pytest.approx(5)
    broker.put("jobs", "x", delay=3)
    (job,) = await side.lease("jobs", wait=5)
    assert job.body == "x"
    assert trio.current_time() - start == pytest.approx(8)


@pytest.mark.parametrize("wait", [0, -1, math.inf, math.nan])
async def test_it_waits_for_a_while(wait: float, broker: Broker) -> None:
    broker.declare_queue("jobs")
    with pytest.raises(InvalidRequestError, match="invalid wait"):
        await broker.asynchronous().lease("jobs", wait=wait)


async def test_those_who_wait_are_served_in_turn_and_a_cancelled_wait_takes_nothing_with_it(broker: Broker) -> None:
    side = broker.asynchronous()
    broker.declare_queue("jobs")
    got: list[tuple[str, object]] = []
    scopes: dict[str, trio.CancelScope] = {}

    async def wait(name: str, task_status: trio.TaskStatus[None]) -> None:
        with trio.CancelScope() as scopes[name]:
            task_status.started()
            got.extend((name, job.body) for job in await side.lease("jobs", wait=60))

    async with trio.open_nursery() as nursery:
        for name in ("first", "second", "third"):
            await nursery.start(wait, name)
            await trio.testing.wait_all_tasks_blocked()
        assert broker.stats("jobs").waiters == 3
        # It is served before it knows that it is cancelled: the message was never handed out.
        scopes["first"].cancel()
        broker.put("jobs", 1)
        assert broker.stats("jobs").in_flight == 1
        await trio.testing.wait_all_tasks_blocked()
        broker.put("jobs", 2)
    assert got == [("second", 1), ("third", 2)]
    assert (broker.stats("jobs").in_flight, broker.stats("jobs").delivered) == (2, 2)


async def test_a_wait_is_told_that_its_queue_or_its_broker_is_gone(broker: Broker, autojump_clock: MockClock) -> None:
    side = broker.asynchronous()
    outcomes: list[str] = []

    async def wait(queue: str) -> None:
        with pytest.raises((QueueNotFoundError, BrokerUnavailableError)) as error:
            await side.lease(queue, wait=60)
        outcomes.append(str(error.value))

    for queue in ("one", "two"):
        broker.declare_queue(queue)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(wait, "one")
        nursery.start_soon(wait, "two")
        await trio.sleep(1)
        broker.delete_queue("one")
        await trio.sleep(1)
        broker.close()
    assert outcomes == ["no such queue 'one'", "the broker is closed"]
    assert not side.connected


async def test_deliveries_know_where_they_came_from(broker: Broker) -> None:
    broker.declare_queue("jobs")
    broker.put("jobs", "x")
    got: list[Delivery] = []
    broker.consume("jobs", got.append)
    assert await got[0].ack()
