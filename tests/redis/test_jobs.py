"""The loops over deliveries: what becomes of a delivery, however its body is left."""

from __future__ import annotations

import asyncio
import logging
import threading
from collections.abc import Iterator

import pytest
import redis.backoff
import redis.retry

from respmq import BrokerError, BrokerUnavailableError, InvalidRequestError, QueueConfig, QueueNotFoundError
from respmq.redis import AsyncRespMQ, Jobs, RespMQ
from tests.support import ServerProcess, start_server, wait_until


@pytest.fixture
def jobs(mq: RespMQ, queue: str) -> Iterator[str]:
    """A queue with three messages."""
    mq.qdeclare(queue, maxattempts=1)
    mq.qmput(queue, "a", "b", "c")
    yield queue
    mq.qdelete(queue)


def counts(mq: RespMQ, queue: str) -> tuple[int, int, int, int]:
    """ready, in flight, acked, dead"""
    stats = mq.qstats(queue)
    return stats.ready, stats.in_flight, stats.acked, stats.dead


def fail(loop: Jobs, error: BaseException) -> None:
    """Work on the next delivery, and fail."""
    for _ in loop:
        raise error


def last_error(mq: RespMQ, queue: str) -> str | None:
    return mq.qdead_list(queue)[-1].error


# -- a plain for loop


def test_leaving_the_body_normally_acks(mq: RespMQ, jobs: str) -> None:
    got = []
    for job in mq.worker(jobs, wait=0):
        got.append(job.body)
        assert counts(mq, jobs) == (3 - len(got), 1, len(got) - 1, 0)
    assert got == ["a", "b", "c"]
    assert counts(mq, jobs) == (0, 0, 3, 0)


def test_an_exception_nacks_and_goes_on_its_way(mq: RespMQ, jobs: str) -> None:
    with pytest.raises(ValueError, match="no such file"):
        fail(mq.worker(jobs), ValueError("no such file"))
    assert counts(mq, jobs) == (2, 0, 0, 1)
    assert last_error(mq, jobs) == "the loop was left before the delivery was settled"


def test_a_break_nacks_unless_the_delivery_is_settled(mq: RespMQ, jobs: str) -> None:
    for _ in mq.worker(jobs):
        break
    assert counts(mq, jobs) == (2, 0, 0, 1)
    for job in mq.worker(jobs):
        mq.qack(job.queue, job.lease)
        break
    assert counts(mq, jobs) == (1, 0, 1, 1)


def test_a_loop_that_is_kept_in_a_variable(mq: RespMQ, jobs: str) -> None:
    loop = mq.worker(jobs)
    with pytest.raises(ValueError, match="no"):
        fail(loop, ValueError("no"))
    assert counts(mq, jobs) == (2, 0, 0, 1)
    for _ in loop:
        loop.stop()
    assert counts(mq, jobs) == (1, 0, 1, 1)
    assert list(loop) == []


def test_what_the_body_settles_stays_so(mq: RespMQ, jobs: str) -> None:
    for job in mq.worker(jobs, wait=0):
        mq.qnack(job.queue, job.lease, mode="REJECT", error="no")
    assert counts(mq, jobs) == (0, 0, 0, 3)


# -- with


def test_with_knows_a_break_from_an_error(mq: RespMQ, jobs: str) -> None:
    with mq.worker(jobs) as loop:
        for _ in loop:
            break
    assert counts(mq, jobs) == (2, 0, 1, 0)
    with pytest.raises(ValueError, match="no such file"), mq.worker(jobs) as loop:
        fail(loop, ValueError("no such file"))
    assert counts(mq, jobs) == (1, 0, 1, 1)
    assert last_error(mq, jobs) == "ValueError: no such file"
    with pytest.raises(KeyboardInterrupt), mq.worker(jobs) as loop:
        fail(loop, KeyboardInterrupt())
    assert counts(mq, jobs) == (1, 0, 1, 1)
    with mq.worker(jobs, wait=0) as loop:
        for _ in loop:
            pass
    assert counts(mq, jobs) == (0, 0, 2, 1)


# -- queues, waits and brokers that are gone


def test_a_queue_that_is_not_there(mq: RespMQ, queue: str) -> None:
    with pytest.raises(QueueNotFoundError):
        next(iter(mq.worker(queue)))
    assert list(mq.worker(queue, config=QueueConfig(max_attempts=3), wait=0)) == []
    assert mq.qconfig(queue).max_attempts == 3
    with pytest.raises(BrokerError, match="exists with other settings"):
        next(iter(mq.worker(queue, config=QueueConfig())))


def test_it_waits_for_work(mq: RespMQ, queue: str) -> None:
    mq.qdeclare(queue)
    mq.qput(queue, "x", delay=0.05)
    loop = mq.worker(queue, lease=60)
    for job in loop:
        assert job.body == "x"
        loop.stop()


def test_stopping_ends_a_wait(server: ServerProcess, queue: str) -> None:
    with RespMQ(port=server.port, socket_timeout=0.2) as mq:
        mq.qdeclare(queue)
        loop = mq.worker(queue)
        done: list[list[object]] = []
        thread = threading.Thread(target=lambda: done.append(list(loop)))
        thread.start()
        loop.stop()
        thread.join(10)
        assert done == [[]]


class Restart(logging.Handler):
    """Starts the server again once the loop has noticed that it is gone."""

    def __init__(self, port: int) -> None:
        super().__init__()
        self.port = port
        self.server: ServerProcess | None = None

    def emit(self, record: logging.LogRecord) -> None:
        if self.server is None and "can't be reached" in record.getMessage():
            self.server = start_server("--port", str(self.port))


def test_a_broker_that_is_gone_for_a_while() -> None:
    """It comes back without its queue; the delivery that was being worked on is lost with it, which ends no loop."""
    first = start_server()
    restart = Restart(first.port)
    log = logging.getLogger("respmq.redis")
    log.addHandler(restart)
    got = []
    try:
        with RespMQ(port=first.port, retry=redis.retry.Retry(redis.backoff.NoBackoff(), 0)) as mq:
            mq.qdeclare("jobs")
            mq.qput("jobs", "x")
            loop = mq.worker("jobs", config=QueueConfig(), wait=30)
            for job in loop:
                got.append(job.body)
                if restart.server is None:
                    first.kill()
                    threading.Thread(target=put_when_it_is_back, args=(first.port,)).start()
                else:
                    loop.stop()
    finally:
        log.removeHandler(restart)
        first.kill()
        if restart.server is not None:
            restart.server.kill()
    assert got == ["x", "y"]


def test_a_broker_that_stays_away() -> None:
    with start_server() as server:
        port = server.port
    with RespMQ(port=port, retry=redis.retry.Retry(redis.backoff.NoBackoff(), 0)) as mq:
        for wait in (0, 0.05):
            with pytest.raises(BrokerUnavailableError):
                list(mq.worker("jobs", wait=wait))


def put_when_it_is_back(port: int) -> None:
    with RespMQ(port=port, retry=redis.retry.Retry(redis.backoff.NoBackoff(), 0)) as mq:
        wait_until(lambda: is_there(mq), "the broker is back")
        mq.qdeclare("jobs")
        mq.qput("jobs", "y")


def is_there(mq: RespMQ) -> bool:
    try:
        mq.qlist()
    except BrokerUnavailableError:
        return False
    return True


# -- asyncio


def test_the_loop_of_asyncio(mq: RespMQ, jobs: str, server: ServerProcess) -> None:
    async def main() -> None:
        async with AsyncRespMQ(port=server.port) as r:
            with pytest.raises(InvalidRequestError, match="async with"):
                async for _ in r.worker(jobs):
                    pass
            async with r.worker(jobs) as loop:
                async for job in loop:
                    assert job.body == "a"
                    break
            assert counts(mq, jobs) == (2, 0, 1, 0)

            async def fail() -> None:
                async with r.worker(jobs) as loop:
                    async for _ in loop:
                        raise ValueError("no such file")

            with pytest.raises(ValueError, match="no such file"):
                await fail()
            assert counts(mq, jobs) == (1, 0, 1, 1)
            assert last_error(mq, jobs) == "ValueError: no such file"

            async def hang(begun: asyncio.Event) -> None:
                async with r.worker(jobs) as loop:
                    async for _ in loop:
                        begun.set()
                        await asyncio.Event().wait()

            begun = asyncio.Event()
            task = asyncio.create_task(hang(begun))
            await begun.wait()
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task
            assert counts(mq, jobs) == (1, 0, 1, 1)
            async with r.worker(jobs, wait=0) as loop:
                async for job in loop:
                    assert (job.body, job.attempt) == ("c", 1)
                    assert await job.ack()
                    loop.stop()
            assert counts(mq, jobs) == (0, 0, 2, 1)
            with pytest.raises(QueueNotFoundError):
                async with r.worker("nowhere") as loop:
                    await anext(loop)
            async with r.worker(f"{jobs}.new", config=QueueConfig(), wait=0) as loop:
                assert [job async for job in loop] == []

    asyncio.run(main())


def test_deliveries_of_asyncio_settle_themselves(mq: RespMQ, jobs: str, server: ServerProcess) -> None:
    async def main() -> None:
        async with AsyncRespMQ(port=server.port) as r:
            a, b, c = await r.qlease(jobs, count=3)
            async with a:
                assert await a.touch(60)
            assert await b.nack(requeue=False, error="no")
            assert counts(mq, jobs) == (0, 1, 1, 1)

            async def work() -> None:
                async with c:
                    await asyncio.Event().wait()

            task = asyncio.create_task(work())
            await asyncio.sleep(0)
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task
            assert counts(mq, jobs) == (1, 0, 1, 1)
            with pytest.raises(InvalidRequestError, match="takes neither delay nor release"):
                await c.nack(requeue=False, delay=1)

    asyncio.run(main())


def test_a_cancelled_lease_of_asyncio_leaves_nothing_leased(mq: RespMQ, jobs: str, server: ServerProcess) -> None:
    async def main() -> None:
        async with AsyncRespMQ(port=server.port) as r:
            for steps in range(12):
                task = asyncio.create_task(r.qlease(jobs, count=2))
                for _ in range(steps):
                    await asyncio.sleep(0)
                task.cancel()
                try:
                    found = await task
                except asyncio.CancelledError:
                    found = []
                for delivery in found:
                    await delivery.nack(release=True)
                assert counts(mq, jobs) == (3, 0, 0, 0)
            assert await r.ping()

    asyncio.run(main())
