"""How workers end, how many handlers they run, and how one can tell how they are."""

from __future__ import annotations

import os
import signal
import threading

import pytest
import trio
from trio.testing import MockClock

from respmq import (
    Broker,
    BrokerUnavailableError,
    Delivery,
    InvalidNameError,
    InvalidRequestError,
    RetryPolicy,
    Worker,
    run_workers,
)
from respmq.worker.handling import Threads
from tests.worker.waiting import until


class Slow:
    """A handler that takes as many seconds as the body says, and notes what it began, ended, and what was cancelled."""

    def __init__(self) -> None:
        self.notes: list[tuple[str, object]] = []
        self.running = self.most = 0

    async def __call__(self, job: Delivery) -> None:
        self.notes.append(("begin", job.body))
        self.running += 1
        self.most = max(self.most, self.running)
        try:
            await trio.sleep(job.body)
        except trio.Cancelled:
            self.notes.append(("cancelled", job.body))
            raise
        finally:
            self.running -= 1
        self.notes.append(("end", job.body))


async def prepared(broker: Broker, worker: Worker, *bodies: float) -> None:
    await worker.setup()
    for body in bodies:
        broker.put("jobs", body)


@pytest.mark.parametrize("concurrency", [1, 3])
async def test_so_many_handlers_run_at_a_time(concurrency: int, broker: Broker, autojump_clock: MockClock) -> None:
    work = Slow()
    worker = Worker(broker, "jobs", work, concurrency=concurrency)
    await prepared(broker, worker, *[1] * 9)
    start = trio.current_time()
    async with trio.open_nursery() as nursery:
        nursery.start_soon(worker.run)
        while broker.stats("jobs").acked < 9:
            await trio.sleep(0.1)
            assert broker.stats("jobs").in_flight <= concurrency
        worker.stop()
    assert work.most == concurrency
    assert trio.current_time() - start == pytest.approx(9 / concurrency, abs=0.2)


async def test_stopping_takes_no_more_and_waits_for_what_runs(broker: Broker, autojump_clock: MockClock) -> None:
    work = Slow()
    worker = Worker(broker, "jobs", work, concurrency=2)
    await prepared(broker, worker, 5, 8, 1)
    start = trio.current_time()
    async with trio.open_nursery() as nursery:
        await nursery.start(worker.run)
        await trio.sleep(1)
        worker.stop()
        assert not worker.health().consuming
    assert trio.current_time() - start == pytest.approx(8)
    assert sorted(work.notes[:2]) == [("begin", 5), ("begin", 8)]
    assert work.notes[2:] == [("end", 5), ("end", 8)]
    assert (broker.stats("jobs").ready, broker.stats("jobs").acked) == (1, 2)
    assert broker.stats("jobs").waiters == 0


async def test_after_the_shutdown_timeout_the_rest_is_given_back(broker: Broker, autojump_clock: MockClock) -> None:
    work = Slow()
    worker = Worker(broker, "jobs", work, concurrency=2, shutdown_timeout=4)
    await prepared(broker, worker, 3, 100)
    start = trio.current_time()
    async with trio.open_nursery() as nursery:
        nursery.start_soon(worker.run)
        await trio.sleep(1)
        worker.stop()
    assert trio.current_time() - start == pytest.approx(5)
    assert work.notes[2:] == [("end", 3), ("cancelled", 100)]
    # As if it had not been handed out.
    (back,) = broker.lease("jobs")
    assert (back.body, back.attempt) == (100, 1)


async def test_a_cancelled_worker_gives_back_what_runs(broker: Broker, autojump_clock: MockClock) -> None:
    worker = Worker(broker, "jobs", Slow(), concurrency=2)
    await prepared(broker, worker, 50, 60)
    with trio.move_on_after(1):
        await worker.run()
    assert [(job.body, job.attempt) for job in broker.lease("jobs", count=2)] == [(50, 1), (60, 1)]
    assert not worker.health().consuming


async def test_so_does_one_whose_handlers_have_nurseries(broker: Broker, autojump_clock: MockClock) -> None:
    async def work(job: Delivery) -> None:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(trio.sleep_forever)
            nursery.start_soon(trio.sleep_forever)

    worker = Worker(broker, "jobs", work, shutdown_timeout=1)
    await prepared(broker, worker, 1)
    async with trio.open_nursery() as nursery:
        await nursery.start(worker.run)
        await trio.sleep(1)
        worker.stop()
    (back,) = broker.lease("jobs")
    assert back.attempt == 1


async def test_a_worker_that_was_stopped_before_it_ran_ends_at_once(broker: Broker, autojump_clock: MockClock) -> None:
    worker = Worker(broker, "jobs", Slow())
    await prepared(broker, worker, 1)
    worker.stop()
    await worker.run()
    assert broker.stats("jobs").ready == 1


@pytest.mark.parametrize("asynchronous", [False, True])
async def test_a_worker_ends_with_its_broker(asynchronous: bool, autojump_clock: MockClock) -> None:
    async with Broker() as broker:
        worker = Worker(broker.asynchronous() if asynchronous else broker, "jobs", Slow())
        await worker.setup()

        async def close_later() -> None:
            await trio.sleep(1)
            broker.close()

        async with trio.open_nursery() as nursery:
            nursery.start_soon(close_later)
            with pytest.raises(BrokerUnavailableError, match="the broker is closed"):
                await worker.run()
        assert not worker.health().connected


async def test_health(broker: Broker, autojump_clock: MockClock) -> None:
    worker = Worker(broker, "jobs", Slow(), concurrency=2, handler_timeout=100)
    health = worker.health()
    assert (health.connected, health.consuming, health.last_success, health.oldest_running) == (True, False, None, None)
    await prepared(broker, worker, 10)
    async with trio.open_nursery() as nursery:
        await nursery.start(worker.run)
        await trio.sleep(1)
        broker.put("jobs", 5)
        await trio.sleep(2)
        health = worker.health()
        assert (health.connected, health.consuming, health.last_success) == (True, True, None)
        assert health.oldest_running == pytest.approx(3)
        await trio.sleep(10)
        health = worker.health()
        assert health.last_success == pytest.approx(3)
        assert health.oldest_running is None
        assert worker.live()
        worker.stop()
    assert not worker.health().consuming


async def test_a_handler_that_does_not_end_makes_the_worker_fail_its_liveness(
    broker: Broker, autojump_clock: MockClock
) -> None:
    async def deaf(job: Delivery) -> None:
        with trio.CancelScope(shield=True):
            await trio.sleep(100)

    worker = Worker(broker, "jobs", deaf, handler_timeout=10)
    await prepared(broker, worker, 0)
    async with trio.open_nursery() as nursery:
        await nursery.start(worker.run)
        await trio.sleep(19.9)
        assert worker.live()
        await trio.sleep(0.2)
        alive = worker.live()
        worker.stop()
    assert not alive
    # Without a limit nothing can be told.
    assert Worker(broker, "jobs", deaf).live()


async def test_a_thread_that_runs_out_of_time_is_left_alone_and_keeps_its_place(broker: Broker) -> None:
    begun, go_on = threading.Event(), threading.Event()
    calls: list[object] = []

    def work(job: Delivery) -> None:
        calls.append(job.body)
        begun.set()
        if job.body == "stuck":
            go_on.wait(20)

    worker = Worker(
        broker,
        "jobs",
        work,
        handler_timeout=0.05,
        shutdown_timeout=0,
        retry=RetryPolicy(initial_delay=100, max_delay=100),
    )
    await worker.setup()
    broker.put("jobs", "stuck")
    broker.put("jobs", "next")
    try:
        async with trio.open_nursery() as nursery:
            await nursery.start(worker.run)
            with trio.fail_after(10):
                await until(lambda: broker.stats("jobs").delayed == 1)
                await until(lambda: not worker.live())
                assert (calls, broker.stats("jobs").ready) == (["stuck"], 1)
                go_on.set()
                await until(lambda: broker.stats("jobs").acked == 1)
            assert worker.live()
            worker.stop()
    finally:
        go_on.set()
    assert calls == ["stuck", "next"]


async def test_a_signal_stops_workers_and_a_second_one_cancels_them(broker: Broker, autojump_clock: MockClock) -> None:
    for signals, notes in ((1, ("end", 5)), (2, ("cancelled", 5))):
        work = Slow()
        first, second = Worker(broker, "jobs", work), Worker(broker, "others", work)
        await prepared(broker, first, 5)
        async with trio.open_nursery() as nursery:
            nursery.start_soon(run_workers, first, second)
            await trio.sleep(1)
            for _ in range(signals):
                os.kill(os.getpid(), signal.SIGTERM)
                await trio.sleep(0.1)
        assert work.notes == [("begin", 5), notes]
    assert signal.getsignal(signal.SIGTERM) == signal.SIG_DFL


async def test_workers_that_end_by_themselves_end_the_run(broker: Broker, autojump_clock: MockClock) -> None:
    worker = Worker(broker, "jobs", Slow())
    async with trio.open_nursery() as nursery:
        nursery.start_soon(run_workers, worker)
        await trio.sleep(1)
        worker.stop()


async def test_what_ends_a_worker_comes_out_as_it_is(broker: Broker) -> None:
    with pytest.raises(InvalidNameError):
        await run_workers(Worker(broker, "jobs", Slow()), Worker(broker, "no blanks", Slow()))


async def test_numbers_that_can_not_be(broker: Broker) -> None:
    work = Slow()
    with pytest.raises(InvalidRequestError, match="invalid concurrency 0"):
        Worker(broker, "jobs", work, concurrency=0)
    with pytest.raises(InvalidRequestError, match="invalid handler_timeout 0"):
        Worker(broker, "jobs", work, handler_timeout=0)
    with pytest.raises(InvalidRequestError, match="invalid shutdown_timeout -1"):
        Worker(broker, "jobs", work, shutdown_timeout=-1)


async def test_a_thread_that_was_not_begun_keeps_no_place() -> None:
    called: list[Delivery] = []
    threads = Threads(called.append)
    job = Delivery(queue="jobs", id="a", attempt=1, raw=b"x", lease="l", deadline=0.0)
    with trio.CancelScope() as scope:
        scope.cancel()
        await threads.run(called.append, job)
    assert scope.cancelled_caught
    assert not threads.left_alone
    assert await threads.run(lambda job: job.id, job) == "a"
    assert called == []
