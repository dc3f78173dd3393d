"""Brokers that can't be reached for a while, or that have forgotten everything: the worker goes on when it can."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import pytest
import trio
from trio.testing import MockClock

from respmq import (
    Body,
    Broker,
    BrokerUnavailableError,
    Delivery,
    HardFailure,
    NoAuthError,
    QueueConfig,
    QueueNotFoundError,
    Worker,
)
from respmq.api.ports import AsyncBroker
from respmq.core.exchanges import ExchangeKind


class Line(AsyncBroker):
    """A broker at the other end of a line that can be down."""

    def __init__(self, broker: Broker) -> None:
        self._there = broker.asynchronous()
        self.up = True
        #: What the next call of a method raises, by its name.
        self.errors: dict[str, Exception] = {}

    @property
    def connected(self) -> bool:
        return self.up

    async def _check(self, method: str) -> None:
        await trio.lowlevel.checkpoint()
        error = self.errors.pop(method, None)
        if error is not None:
            raise error
        if not self.up:
            raise BrokerUnavailableError("the line is down")

    async def ack(self, queue: str, lease: str) -> bool:
        await self._check("ack")
        return await self._there.ack(queue, lease)

    async def nack(
        self,
        queue: str,
        lease: str,
        *,
        requeue: bool = True,
        error: str | None = None,
        delay: float | None = None,
        release: bool = False,
    ) -> bool:
        await self._check("nack")
        return await self._there.nack(queue, lease, requeue=requeue, error=error, delay=delay, release=release)

    async def touch(self, queue: str, lease: str, duration: float | None = None) -> bool:
        await self._check("touch")
        return await self._there.touch(queue, lease, duration)

    async def declare_queue(self, name: str, config: QueueConfig | None = None) -> None:
        await self._check("declare_queue")
        await self._there.declare_queue(name, config)

    async def queue_config(self, name: str) -> QueueConfig:
        await self._check("queue_config")
        return await self._there.queue_config(name)

    async def bind(self, pattern: str, queue: str) -> bool:
        await self._check("bind")
        return await self._there.bind(pattern, queue)

    async def declare_exchange(self, name: str, kind: ExchangeKind = "TOPIC") -> None:
        await self._check("declare_exchange")
        await self._there.declare_exchange(name, kind)

    async def bind_exchange(self, exchange: str, queue: str, key: str | None = None) -> bool:
        await self._check("bind_exchange")
        return await self._there.bind_exchange(exchange, queue, key)

    async def publish_exchange(
        self,
        exchange: str,
        key: str,
        body: Body,
        *,
        headers: Mapping[str, str] | None = None,
        attachments: Sequence[bytes] = (),
    ) -> int:
        await self._check("publish_exchange")
        return await self._there.publish_exchange(exchange, key, body, headers=headers, attachments=attachments)

    async def lease(self, queue: str, *, count: int = 1, wait: float | None = None) -> list[Delivery]:
        await self._check("lease")
        return await self._there.lease(queue, count=count, wait=wait)


class Work:
    """A handler that takes a while, and notes what it was called with."""

    def __init__(self, seconds: float = 0, error: Exception | None = None) -> None:
        self.calls: list[tuple[object, int]] = []
        self._seconds = seconds
        self._error = error

    async def __call__(self, job: Delivery) -> None:
        self.calls.append((job.body, job.attempt))
        await trio.sleep(self._seconds)
        if self._error is not None:
            raise self._error


async def test_it_waits_for_the_broker_to_come_back(
    broker: Broker, autojump_clock: MockClock, caplog: pytest.LogCaptureFixture
) -> None:
    line, work = Line(broker), Work()
    worker = Worker(line, "jobs", work)
    async with trio.open_nursery() as nursery:
        await nursery.start(worker.run)
        await trio.sleep(1)
        line.up = False
        await trio.sleep(30)
        assert not worker.health().connected
        assert worker.health().consuming
        broker.put("jobs", "x")
        await trio.sleep(30)
        line.up = True
        await trio.sleep(2)
        worker.stop()
    assert work.calls == [("x", 1)]
    assert "the worker of 'jobs' can't reach the broker: the line is down" in caplog.text


async def test_a_worker_that_waits_for_the_broker_can_be_stopped(broker: Broker, autojump_clock: MockClock) -> None:
    line = Line(broker)
    worker = Worker(line, "jobs", Work())
    start = trio.current_time()
    async with trio.open_nursery() as nursery:
        await nursery.start(worker.run)
        line.up = False
        await trio.sleep(20)
        worker.stop()
    assert trio.current_time() - start == pytest.approx(20)


async def test_it_can_not_begin_without_one(broker: Broker) -> None:
    line = Line(broker)
    line.up = False
    with pytest.raises(BrokerUnavailableError):
        await Worker(line, "jobs", Work()).run()


async def test_a_broker_that_has_forgotten_the_queue_and_goes_away_again(
    broker: Broker, autojump_clock: MockClock
) -> None:
    line, work = Line(broker), Work()
    worker = Worker(line, "jobs", work, exchange="work")
    async with trio.open_nursery() as nursery:
        await nursery.start(worker.run)
        await trio.sleep(1)
        line.errors["queue_config"] = BrokerUnavailableError("gone in the middle of it")
        broker.delete_queue("jobs")
        await trio.sleep(5)
        assert broker.publish_exchange("work", "any", "x") == 1
        await trio.sleep(1)
        worker.stop()
    assert work.calls == [("x", 1)]


async def test_what_could_not_be_acked_is_done_again(
    broker: Broker, autojump_clock: MockClock, caplog: pytest.LogCaptureFixture
) -> None:
    broker.declare_queue("jobs", QueueConfig(ack_timeout=60, retry_delay=1))
    line, work = Line(broker), Work(seconds=5)
    broker.put("jobs", "x", id="a")
    worker = Worker(line, "jobs", work)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(worker.run)
        await trio.sleep(1)
        line.errors["ack"] = BrokerUnavailableError("the line is down")
        await trio.sleep(100)
        worker.stop()
    assert work.calls == [("x", 1), ("x", 2)]
    assert "'a' is done, but could not be acked, so it may be done again: the line is down" in caplog.text
    assert broker.stats("jobs").acked == 1


async def test_what_could_not_be_given_back_comes_when_its_lease_ends(
    broker: Broker, autojump_clock: MockClock, caplog: pytest.LogCaptureFixture
) -> None:
    told: list[Body] = []

    async def tell(message: Body) -> None:
        told.append(message)

    broker.declare_queue("jobs", QueueConfig(ack_timeout=60, retry_delay=1))
    line, work = Line(broker), Work(error=HardFailure("hopeless"))
    line.errors["nack"] = BrokerUnavailableError("the line is down")
    broker.put("jobs", "x", id="a")
    worker = Worker(line, "jobs", work, control=tell)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(worker.run)
        await trio.sleep(30)
        assert told == []
        await trio.sleep(100)
        worker.stop()
    assert work.calls == [("x", 1), ("x", 2)]
    assert len(told) == 1
    assert "'a' could not be given back, it comes when its lease ends: the line is down" in caplog.text


async def test_a_lease_that_could_not_be_renewed_is_renewed_the_next_time(
    broker: Broker, autojump_clock: MockClock, caplog: pytest.LogCaptureFixture
) -> None:
    broker.declare_queue("jobs", QueueConfig(ack_timeout=30))
    line, work = Line(broker), Work(seconds=100)
    broker.put("jobs", "x", id="a")
    worker = Worker(line, "jobs", work)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(worker.run)
        for _ in range(4):
            await trio.sleep(15)
            line.errors["touch"] = BrokerUnavailableError("the line is down")
        await trio.sleep(60)
        worker.stop()
    assert work.calls == [("x", 1)]
    assert broker.stats("jobs").expired_leases == 0
    assert "the lease of 'a' could not be renewed: the line is down" in caplog.text


async def test_a_queue_that_another_program_declares_in_the_same_moment_is_taken_as_it_is(broker: Broker) -> None:
    line = Line(broker)
    broker.declare_queue("jobs", QueueConfig(max_attempts=7))
    line.errors["queue_config"] = QueueNotFoundError("no such queue 'jobs'")
    await Worker(line, "jobs", Work()).setup()
    assert broker.queue_config("jobs").max_attempts == 7


async def test_a_broker_that_refuses_ends_the_worker_once_what_runs_has_ended(
    broker: Broker, autojump_clock: MockClock
) -> None:
    line, work = Line(broker), Work(seconds=5)
    worker = Worker(line, "jobs", work, concurrency=2)
    await worker.setup()
    broker.put("jobs", "x")

    async def refuse() -> None:
        await trio.sleep(1)
        line.errors["lease"] = NoAuthError("log in first")

    start = trio.current_time()
    async with trio.open_nursery() as nursery:
        nursery.start_soon(refuse)
        with pytest.raises(NoAuthError, match="log in first"):
            await worker.run()
    assert trio.current_time() - start >= 5
    assert (work.calls, broker.stats("jobs").acked) == ([("x", 1)], 1)


async def test_a_refusal_while_it_is_set_up_anew_ends_it_too(broker: Broker, autojump_clock: MockClock) -> None:
    line = Line(broker)
    worker = Worker(line, "jobs", Work())

    async def forget() -> None:
        await trio.sleep(1)
        line.errors["queue_config"] = NoAuthError("log in first")
        broker.delete_queue("jobs")

    async with trio.open_nursery() as nursery:
        nursery.start_soon(forget)
        with pytest.raises(NoAuthError):
            await worker.run()
