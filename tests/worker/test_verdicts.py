"""What becomes of a message, by what its handler does."""

from __future__ import annotations

from collections.abc import Awaitable

import pytest
import trio
from trio.testing import MockClock

from respmq import (
    BodyDecodeError,
    Broker,
    Delivery,
    HardFailure,
    Publisher,
    QueueConfig,
    RetryPolicy,
    SoftFailure,
    Worker,
)

#: Pauses that can be computed.
EXACT = RetryPolicy(initial_delay=10, jitter=False)


class Attempts:
    """A handler that does what each attempt is to do, and notes when it was called."""

    def __init__(self, *deeds: Exception | str | None) -> None:
        self.deeds = deeds
        self.start = trio.current_time()
        self.calls: list[tuple[float, int]] = []

    async def __call__(self, job: Delivery) -> str | None:
        deed = self.deeds[min(len(self.calls), len(self.deeds) - 1)]
        self.calls.append((round(trio.current_time() - self.start, 2), job.attempt))
        if isinstance(deed, Exception):
            raise deed
        return deed


async def run_for(seconds: float, *workers: Worker) -> None:
    """Let workers work for a while."""
    async with trio.open_nursery() as nursery:
        for worker in workers:
            await nursery.start(worker.run)
        await trio.sleep(seconds)
        for worker in workers:
            worker.stop()


async def test_returning_acks(broker: Broker, autojump_clock: MockClock) -> None:
    worker = Worker(broker, "jobs", Attempts(None))
    await worker.setup()
    broker.put("jobs", "x")
    await run_for(1, worker)
    assert broker.stats("jobs").acked == 1
    assert broker.queue_config("jobs") == QueueConfig(max_attempts=11)


async def test_a_soft_failure_comes_back_after_growing_pauses(broker: Broker, autojump_clock: MockClock) -> None:
    work = Attempts(SoftFailure("busy"), SoftFailure("busy"), SoftFailure("busy", retry_after=1), None)
    worker = Worker(broker, "jobs", work, retry=EXACT)
    await worker.setup()
    broker.put("jobs", "x")
    await run_for(100, worker)
    assert work.calls == [(0, 1), (10, 2), (30, 3), (31, 4)]
    assert broker.stats("jobs").acked == 1


async def test_the_default_pauses_are_random_within_their_bounds(broker: Broker, autojump_clock: MockClock) -> None:
    work = Attempts(SoftFailure("busy"))
    worker = Worker(broker, "jobs", work)
    await worker.setup()
    broker.put("jobs", "x")
    await run_for(3000, worker)
    moments = [moment for moment, _ in work.calls]
    assert len(moments) == 6
    for before, after, pause in zip(moments[:-1], moments[1:], (30, 60, 120, 240, 300), strict=True):
        assert 0.5 * pause - 0.1 <= after - before <= min(1.5 * pause, 300) + 0.1


@pytest.mark.parametrize(("retries", "calls"), [(0, 1), (2, 3), (10, 11)])
async def test_after_the_last_retry_it_is_a_dead_letter(
    retries: int, calls: int, broker: Broker, autojump_clock: MockClock
) -> None:
    work = Attempts(SoftFailure("still busy"))
    worker = Worker(broker, "jobs", work, retry=RetryPolicy(initial_delay=1, max_retries=retries))
    await worker.setup()
    broker.put("jobs", "x", id="a")
    await run_for(5000, worker)
    assert [attempt for _, attempt in work.calls] == list(range(1, calls + 1))
    assert [(one.id, one.error) for one in broker.dead_letters("jobs")] == [("a", "still busy")]


async def test_a_failure_may_say_how_often(broker: Broker, autojump_clock: MockClock) -> None:
    work = Attempts(SoftFailure("busy", retry_max=8, retry_after=1))
    worker = Worker(broker, "jobs", work, retry=EXACT)
    await worker.setup()
    broker.put("jobs", "x")
    await run_for(100, worker)
    assert len(work.calls) == 9


async def test_the_queue_s_own_limit_counts_too_and_is_warned_of(
    broker: Broker, autojump_clock: MockClock, caplog: pytest.LogCaptureFixture
) -> None:
    broker.declare_queue("jobs", QueueConfig(max_attempts=2))
    broker.put("jobs", "x")
    work = Attempts(SoftFailure("busy"))
    worker = Worker(broker, "jobs", work, retry=EXACT)
    await worker.setup()
    await run_for(1000, worker)
    assert work.calls == [(0, 1), (10, 2)]
    assert [one.error for one in broker.dead_letters("jobs")] == ["busy"]
    assert caplog.text.count("queue 'jobs' has max_attempts 2, so messages die before the 5 retries") == 1


async def test_a_deferral_uses_up_no_attempt(broker: Broker, autojump_clock: MockClock) -> None:
    work = Attempts(*[SoftFailure("not yet", retry_after=60, counts=False)] * 20, None)
    worker = Worker(broker, "jobs", work, retry=RetryPolicy(max_retries=0))
    await worker.setup()
    broker.put("jobs", "x")
    await run_for(1300, worker)
    assert work.calls == [(60.0 * n, 1) for n in range(21)]
    assert broker.stats("jobs").acked == 1


@pytest.mark.parametrize(
    ("deed", "error"),
    [
        (HardFailure("no such customer"), "no such customer"),
        (KeyError("photo"), "KeyError: 'photo'"),
        (ExceptionGroup("from a nursery", [HardFailure("alone")]), "alone"),
        (RuntimeError(), "RuntimeError"),
    ],
    ids=["hard", "any other", "in a group", "without a text"],
)
async def test_a_hard_failure_or_any_other_exception_is_a_dead_letter_at_once(
    deed: Exception, error: str, broker: Broker, autojump_clock: MockClock
) -> None:
    work = Attempts(deed)
    worker = Worker(broker, "jobs", work)
    await worker.setup()
    broker.put("jobs", "x")
    await run_for(1000, worker)
    assert len(work.calls) == 1
    assert [(one.reason, one.error) for one in broker.dead_letters("jobs")] == [("rejected", error)]


async def test_a_soft_failure_out_of_a_nursery_is_one(broker: Broker, autojump_clock: MockClock) -> None:
    calls: list[int] = []

    async def fail() -> None:
        raise SoftFailure("busy", retry_after=1)

    async def work(job: Delivery) -> None:
        calls.append(job.attempt)
        if job.attempt == 1:
            async with trio.open_nursery() as nursery:
                nursery.start_soon(fail)

    worker = Worker(broker, "jobs", work)
    await worker.setup()
    broker.put("jobs", "x")
    await run_for(10, worker)
    assert calls == [1, 2]


async def test_an_undecodable_body_is_a_dead_letter_and_the_handler_is_not_called(
    broker: Broker, autojump_clock: MockClock
) -> None:
    work = Attempts(None)
    control: list[object] = []

    async def tell(message: object) -> None:
        control.append(message)

    worker = Worker(broker, "jobs", work, control=tell)
    await worker.setup()
    broker.put("jobs", b"{\xff", id="a", headers={"content-type": "application/json"})
    await run_for(1, worker)
    assert work.calls == []
    (letter,) = broker.dead_letters("jobs")
    assert letter.error is not None
    assert letter.error.startswith("BodyDecodeError: the body is marked as JSON")
    with pytest.raises(BodyDecodeError):
        _ = letter.body
    assert control == [
        {"type": "hard-failure", "data": {"base64": "e/8="}, "job_id": "a", "origin": "jobs", "error": letter.error}
    ]


async def test_a_handler_that_takes_too_long_is_a_soft_failure(broker: Broker, autojump_clock: MockClock) -> None:
    attempts: list[int] = []

    async def work(job: Delivery) -> None:
        attempts.append(job.attempt)
        await trio.sleep(5 if job.attempt < 3 else 3)

    worker = Worker(broker, "jobs", work, handler_timeout=4, retry=EXACT)
    await worker.setup()
    broker.put("jobs", "x")
    await run_for(100, worker)
    assert attempts == [1, 2, 3]
    assert broker.stats("jobs").acked == 1
    # Its reason is kept if that was the last time.
    worker = Worker(broker, "jobs", work, handler_timeout=4, retry=RetryPolicy(max_retries=0))
    broker.put("jobs", "y")
    await run_for(100, worker)
    assert [one.error for one in broker.dead_letters("jobs")] == ["the handler has not returned within 4 seconds"]


async def test_a_lease_is_renewed_while_the_handler_runs(broker: Broker, autojump_clock: MockClock) -> None:
    broker.declare_queue("jobs", QueueConfig(ack_timeout=9))
    calls: list[int] = []

    async def work(job: Delivery) -> None:
        calls.append(job.attempt)
        await trio.sleep(200)

    broker.put("jobs", "x")
    await run_for(300, Worker(broker, "jobs", work, concurrency=2))
    assert calls == [1]
    assert (broker.stats("jobs").acked, broker.stats("jobs").expired_leases) == (1, 0)


async def test_a_lost_lease_is_told_of(
    broker: Broker, autojump_clock: MockClock, caplog: pytest.LogCaptureFixture
) -> None:
    broker.declare_queue("jobs", QueueConfig(ack_timeout=9))

    async def work(job: Delivery) -> None:
        broker.nack("jobs", job.lease, requeue=False)
        await trio.sleep(100)

    broker.put("jobs", "x", id="a")
    await run_for(300, Worker(broker, "jobs", work))
    assert "the lease of 'a' is lost: somebody else may do the work, too" in caplog.text
    assert "'a' is done, but its lease was lost: it may be done again" in caplog.text


async def test_a_queue_that_is_deleted_under_the_work_is_declared_again(
    broker: Broker, autojump_clock: MockClock, caplog: pytest.LogCaptureFixture
) -> None:
    done: list[object] = []

    async def work(job: Delivery) -> None:
        done.append(job.body)
        if job.body == "x":
            broker.delete_queue("jobs")
            await trio.sleep(100)

    worker = Worker(broker, "jobs", work, concurrency=2, exchange="work")
    await worker.setup()
    broker.put("jobs", "x", id="a")
    async with trio.open_nursery() as nursery:
        nursery.start_soon(worker.run)
        await trio.sleep(50)
        assert await Publisher(broker, "work")("y") == 1
        await trio.sleep(100)
        worker.stop()
    assert done == ["x", "y"]
    assert "queue 'jobs' is gone, it is declared again" in caplog.text
    assert "the lease of 'a' is lost" in caplog.text


async def test_plain_functions_run_in_threads(broker: Broker) -> None:
    done = trio.Event()
    token = trio.lowlevel.current_trio_token()
    main = trio.lowlevel.current_task()
    seen: list[object] = []

    def work(job: Delivery) -> str:
        with pytest.raises(RuntimeError):
            trio.lowlevel.current_task()
        seen.append(job.body)
        if job.body == "bad":
            raise HardFailure("bad")
        return f"{job.body} done"

    async def publish(result: object) -> None:
        assert trio.lowlevel.current_task() is not main
        seen.append(result)
        token.run_sync_soon(done.set)

    worker = Worker(broker, "jobs", work, results=publish)
    await worker.setup()
    broker.put("jobs", "bad")
    broker.put("jobs", "good")
    async with trio.open_nursery() as nursery:
        nursery.start_soon(worker.run)
        with trio.fail_after(10):
            await done.wait()
        worker.stop()
    assert seen == ["bad", "good", "good done"]
    assert broker.stats("jobs").acked == 1
    assert [one.error for one in broker.dead_letters("jobs")] == ["bad"]


async def test_a_plain_function_may_return_something_to_await(broker: Broker) -> None:
    done = trio.Event()

    async def later(job: Delivery) -> None:
        done.set()

    def work(job: Delivery) -> Awaitable[None]:
        return later(job)

    worker = Worker(broker, "jobs", work)
    await worker.setup()
    broker.put("jobs", "x")
    async with trio.open_nursery() as nursery:
        nursery.start_soon(worker.run)
        with trio.fail_after(10):
            await done.wait()
        worker.stop()
    assert broker.stats("jobs").acked == 1


async def test_the_log_tells_of_what_comes_back_and_where_what_nobody_foresaw_was_raised(
    broker: Broker, autojump_clock: MockClock, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO")
    broker.declare_queue("jobs", QueueConfig(max_attempts=11))
    broker.put("jobs", "x")

    async def work(job: Delivery) -> None:
        if job.attempt == 1:
            raise SoftFailure("busy")
        unforeseen(job)

    def unforeseen(job: Delivery) -> None:
        raise ValueError(job.body)

    await run_for(1000, Worker(broker, "jobs", work, retry=EXACT))
    (back,) = [record for record in caplog.records if "back in" in record.message]
    assert back.message.endswith("of 'jobs' has failed in attempt 1, back in 10 s: busy")
    (dead,) = [record for record in caplog.records if record.levelname == "ERROR"]
    assert dead.message.endswith("becomes a dead letter: ValueError: x")
    assert dead.exc_text is not None
    assert "in unforeseen" in dead.exc_text
