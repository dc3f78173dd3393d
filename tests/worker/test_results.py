"""What a worker publishes: results, to the observer, and on the control channel; and whole pipelines."""

from __future__ import annotations

import pytest
import trio
from trio.testing import MockClock

from respmq import Body, Broker, Delivery, HardFailure, Publisher, RetryPolicy, SoftFailure, Worker
from tests.worker.test_verdicts import EXACT, Attempts, run_for


class Notes:
    """A publisher that only notes, and fails as often as it is told."""

    def __init__(self, failures: int = 0) -> None:
        self.failures = failures
        self.notes: list[Body] = []

    async def __call__(self, message: Body) -> None:
        await trio.lowlevel.checkpoint()
        if self.failures:
            self.failures -= 1
            raise ConnectionError("nobody there")
        self.notes.append(message)


async def test_what_a_handler_returns_goes_to_results_and_observer(broker: Broker, autojump_clock: MockClock) -> None:
    results, observer = Notes(), Notes()
    worker = Worker(broker, "jobs", Attempts("first", None), results=results, observer=observer)
    await worker.setup()
    broker.put("jobs", "x")
    broker.put("jobs", "y")
    await run_for(1, worker)
    assert results.notes == observer.notes == ["first"]
    assert broker.stats("jobs").acked == 2


async def test_a_result_that_can_not_be_published_gives_the_work_back_for_a_while(
    broker: Broker, autojump_clock: MockClock, caplog: pytest.LogCaptureFixture
) -> None:
    results, observer = Notes(failures=2), Notes()
    work = Attempts("done")
    worker = Worker(
        broker,
        "jobs",
        work,
        results=results,
        observer=observer,
        retry=RetryPolicy(initial_delay=10, max_retries=0, jitter=False),
    )
    await worker.setup()
    broker.put("jobs", "x", id="a")
    await run_for(100, worker)
    # No attempt is used up.
    assert work.calls == [(0, 1), (10, 1), (20, 1)]
    assert results.notes == observer.notes == ["done"]
    assert broker.stats("jobs").acked == 1
    assert "the result of 'a' could not be published" in caplog.text
    assert "nobody there" in caplog.text


async def test_a_result_that_can_not_be_encoded_is_a_hard_failure(broker: Broker, autojump_clock: MockClock) -> None:
    calls: list[int] = []

    async def work(job: Delivery) -> float:
        calls.append(job.attempt)
        return float("nan")

    worker = Worker(broker, "jobs", work, results=Publisher(broker, "out"))
    await worker.setup()
    broker.put("jobs", "x")
    await run_for(1000, worker)
    assert calls == [1]
    (letter,) = broker.dead_letters("jobs")
    assert letter.error is not None
    assert letter.error.startswith("the result can't be published: the body, a float, can't be encoded")


async def test_an_observer_that_fails_is_logged_and_that_is_all(
    broker: Broker, autojump_clock: MockClock, caplog: pytest.LogCaptureFixture
) -> None:
    worker = Worker(broker, "jobs", Attempts("done"), observer=Notes(failures=1))
    await worker.setup()
    broker.put("jobs", "x")
    await run_for(1, worker)
    assert broker.stats("jobs").acked == 1
    assert "nobody there" in caplog.text


async def test_control_is_told_of_each_death(broker: Broker, autojump_clock: MockClock) -> None:
    control = Notes()
    work = Attempts(HardFailure("no customer"), ValueError("bad"), SoftFailure("busy", retry_max=0), None)
    worker = Worker(broker, "jobs", work, control=control, extract_identity=lambda job: f"job-{job.body['n']}")
    await worker.setup()
    for n in range(4):
        broker.put("jobs", {"n": n})
    await run_for(100, worker)
    assert control.notes == [
        {"type": "hard-failure", "data": {"n": n}, "job_id": f"job-{n}", "origin": "jobs", "error": error}
        for n, error in enumerate(["no customer", "ValueError: bad", "busy"])
    ]


async def test_control_that_fails_does_no_harm_and_one_that_is_not_wanted_is_not_told(
    broker: Broker, autojump_clock: MockClock, caplog: pytest.LogCaptureFixture
) -> None:
    failing, unwanted = Notes(failures=1), Notes()

    def no_identity(job: Delivery) -> str:
        raise LookupError("no id in it")

    first = Worker(broker, "one", Attempts(HardFailure("x")), control=failing, extract_identity=no_identity)
    second = Worker(broker, "two", Attempts(HardFailure("x")), control=unwanted, publish_hard_failures=False)
    for worker, queue in ((first, "one"), (second, "two")):
        await worker.setup()
        broker.put(queue, "x", id="a")
        broker.put(queue, "y", id="b")
    await run_for(1, first, second)
    assert [len(broker.dead_letters(queue)) for queue in ("one", "two")] == [2, 2]
    assert failing.notes == [{"type": "hard-failure", "data": "y", "job_id": "b", "origin": "one", "error": "x"}]
    assert unwanted.notes == []
    assert "the death of 'a' could not be published" in caplog.text
    assert "extract_identity raised at 'b', the message's id is told instead" in caplog.text


async def test_a_whole_pipeline_runs_in_one_process(broker: Broker, autojump_clock: MockClock) -> None:
    archived: list[object] = []

    async def resize(job: Delivery) -> Body:
        await trio.sleep(job.body["seconds"])
        if job.body["photo"] == "bad":
            raise HardFailure("not a picture")
        return {"photo": job.body["photo"], "size": "small"}

    async def archive(job: Delivery) -> None:
        archived.append((job.body["photo"], job.body["size"], job.headers["routing-key"]))

    deaths: list[object] = []

    async def mourn(job: Delivery) -> None:
        deaths.append((job.body["origin"], job.body["error"]))

    workers = [
        Worker(
            broker,
            "resize",
            resize,
            exchange="photos",
            binding_keys=["photo.new"],
            concurrency=2,
            results=Publisher(broker, "photos", route_func=lambda message: "photo.resized"),
            control=Publisher(broker, "control"),
        ),
        Worker(broker, "archive", archive, exchange="photos", binding_keys=["photo.resized"]),
        Worker(broker, "deaths", mourn, exchange="control"),
    ]
    for worker in workers:
        await worker.setup()
    upload = Publisher(broker, "photos", "photo.new")
    for photo, seconds in (("slow", 3), ("bad", 1), ("quick", 1)):
        assert await upload({"photo": photo, "seconds": seconds}) == 1
    await run_for(100, *workers)
    assert archived == [("quick", "small", "photo.resized"), ("slow", "small", "photo.resized")]
    assert deaths == [("resize", "not a picture")]


async def test_workers_of_one_queue_compete_and_topics_reach_a_queue_too(
    broker: Broker, autojump_clock: MockClock
) -> None:
    took: list[tuple[str, object]] = []

    def worker(name: str) -> Worker:
        async def work(job: Delivery) -> None:
            took.append((name, job.body))
            await trio.sleep(1)

        return Worker(broker, "jobs", work, binding_keys=["orders.#"], retry=EXACT)

    one, two = worker("one"), worker("two")
    await one.setup()
    await two.setup()
    for number in range(4):
        assert broker.publish("orders.eu", number).queues == 1
    await run_for(10, one, two)
    assert sorted(str(body) for _, body in took) == ["0", "1", "2", "3"]
    assert {name for name, _ in took} == {"one", "two"}
