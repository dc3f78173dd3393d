# pyright: strict
"""A program that uses every name of the in-process side and of workers: it runs, and strict checkers know its types."""

from __future__ import annotations

import uuid
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Literal, TypedDict, assert_type

import trio
from trio.testing import MockClock

import respmq
from respmq import (
    AsyncBroker,
    Body,
    BodyDecodeError,
    Broker,
    BrokerError,
    BrokerStats,
    BrokerUnavailableError,
    DeadLetter,
    Deliveries,
    Delivery,
    DeliveryError,
    Event,
    ExchangeNotFoundError,
    HardFailure,
    InvalidNameError,
    InvalidRequestError,
    InvalidTopicError,
    JsonValue,
    Message,
    MessageQueue,
    NoAuthError,
    OutOfMemoryError,
    PriorityMessageQueue,
    Publisher,
    PublishResult,
    PubSub,
    PutResult,
    QueueConfig,
    QueueConfigConflictError,
    QueueFullError,
    QueueNotFoundError,
    QueueStats,
    RetryPolicy,
    SoftFailure,
    TooBigError,
    Worker,
    WorkerHealth,
    WrongPasswordError,
    create_message,
    load_queues,
    run_workers,
    save_queues,
    topic_matches,
)


class Photo(TypedDict):
    """A body with known keys."""

    name: str
    sizes: list[int]


ERRORS: tuple[type[BrokerError], ...] = (
    BodyDecodeError,
    BrokerUnavailableError,
    DeliveryError,
    ExchangeNotFoundError,
    InvalidNameError,
    InvalidRequestError,
    InvalidTopicError,
    NoAuthError,
    OutOfMemoryError,
    QueueConfigConflictError,
    QueueFullError,
    QueueNotFoundError,
    TooBigError,
    WrongPasswordError,
)


async def test_a_broker_has_types(autojump_clock: MockClock, tmp_path: Path) -> None:
    config = QueueConfig(ack_timeout=60, overflow="DROPHEAD", ttl=None)
    assert_type(config.ack_timeout, float)
    assert_type(config.ttl, float | None)
    assert_type(config.overflow, Literal["REJECT", "DROPHEAD"])
    async with Broker() as broker:
        assert_type(broker, Broker)
        assert_type(broker.connected, bool)
        broker.declare_queue("jobs", config)
        assert_type(broker.queue_config("jobs"), QueueConfig)
        assert_type(broker.list_queues(), list[str])
        events: list[object] = []
        assert_type(
            broker.subscribe("$sys.dead.*", lambda sub, e: events.append((sub, e.topic, e.body["reason"]))), str
        )
        got: list[Delivery] = []
        tag = assert_type(broker.consume("jobs", got.append, prefetch=1), str)
        body: Mapping[str, JsonValue] = {"photo": 1007, "tags": ["a", None]}
        put = assert_type(
            broker.put("jobs", body, id="a", priority=1, headers={"h": "v"}, attachments=[b"x"], delay=0, ttl=5),
            PutResult,
        )
        assert_type(put.id, str)
        assert_type(put.duplicate, bool)
        photo: Photo = {"name": "cat", "sizes": [1, 2]}
        broker.put("jobs", photo)
        broker.put("jobs", [photo, photo])
        (job,) = got
        assert_type(job.body, Any)
        assert_type(job.raw, bytes)
        assert_type(job.headers, Mapping[str, str])
        assert_type(job.attachments, tuple[bytes, ...])
        assert_type(job.deadline, float)
        assert_type(broker.touch("jobs", job.lease, 5), bool)
        assert_type(broker.nack("jobs", job.lease, requeue=False, error="bad"), bool)
        assert_type(broker.ack("jobs", job.lease), bool)
        assert_type(broker.cancel(tag), int)
        letters = assert_type(broker.dead_letters("jobs", 5), list[DeadLetter])
        assert_type(letters[0].reason, Literal["max_attempts", "rejected", "ttl_expired", "max_length"])
        assert_type(letters[0].error, str | None)
        assert_type(broker.replay_dead("jobs", ["a"]), int)
        assert_type(broker.purge_dead("jobs"), int)
        assert_type(broker.lease("jobs", count=2), list[Delivery])
        assert_type(broker.purge_queue("jobs"), int)
        assert_type(broker.stats("jobs"), QueueStats)
        assert_type(broker.stats("jobs").oldest_ready_age, float | None)
        assert_type(broker.broker_stats(), BrokerStats)
        assert_type(broker.bind("a.#", "jobs"), bool)
        assert_type(broker.publish("a.b", "x"), PublishResult)
        assert_type(broker.unbind("a.#", "jobs"), bool)
        broker.declare_exchange("logs", "TOPIC")
        assert_type(broker.bind_exchange("logs", "jobs", "#"), bool)
        assert_type(broker.publish_exchange("logs", "web", b"x"), int)
        assert_type(broker.unbind_exchange("logs", "jobs", "#"), bool)
        assert_type(broker.unsubscribe("sub-1"), bool)
        side: AsyncBroker = broker.asynchronous()
        assert_type(await side.lease("jobs", wait=1), list[Delivery])
        broker.put("jobs", "last")
        async with broker.deliveries("jobs", prefetch=4) as jobs:
            assert_type(jobs, Deliveries)
            async for one in jobs:
                async with one as same:
                    assert_type(same, Delivery)
                assert_type(await one.ack(), bool)
                assert_type(await one.nack(release=True), bool)
                assert_type(await one.touch(), bool)
                break
        broker.save(tmp_path / "file")
        broker.delete_queue("jobs")
    async with Broker() as other:
        other.load(tmp_path / "file")
    assert events == [("sub-1", "$sys.dead.jobs", "rejected")]
    assert_type(Event("t", b"x").body, Any)
    assert_type(Event("t", b"x").headers, Mapping[str, str] | None)
    assert_type(topic_matches("a.#", "a"), bool)
    assert_type(respmq.__version__, str)


def test_queues_for_scripts_have_types(tmp_path: Path) -> None:
    queue = MessageQueue("orders", max_retries=2)
    message = assert_type(queue.put("rye"), Message)
    assert_type(message.id, uuid.UUID)
    assert_type(message.body, Any)
    assert_type(message.timestamp, str)
    taken = assert_type(queue.get(), Message | None)
    assert taken is not None
    assert_type(queue.acknowledge(taken), bool)
    assert_type(queue.reject(taken), bool)
    assert_type(queue.get_dead_letter(), Message | None)
    assert_type(queue.size + queue.dead_letter_count + queue.max_retries, int)
    urgent = PriorityMessageQueue("urgent")
    assert_type(urgent.put({"a": [1]}, priority=1), Message)
    save_queues([queue, urgent], tmp_path / "file")
    assert_type(load_queues(tmp_path / "file"), dict[str, MessageQueue | PriorityMessageQueue])
    assert_type(create_message("x", priority=1), Message)
    news = PubSub()
    heard: list[tuple[str, object]] = []
    assert_type(news.subscribe("weather", lambda topic, message: heard.append((topic, message))), bool)
    assert_type(news.publish("weather", "sunny"), int)
    assert_type(news.topics, list[str])

    def fail(topic: str, message: Any) -> None:
        raise ValueError(topic)

    news.subscribe("weather", fail)
    try:
        news.publish("weather", "rain")
    except DeliveryError as error:
        assert_type(error.failures[0][1], Exception)
    assert_type(news.unsubscribe("weather", fail), bool)
    assert heard == [("weather", "sunny"), ("weather", "rain")]


async def resize(job: Delivery) -> dict[str, int]:
    """An async handler with a result."""
    if job.body == "busy":
        raise SoftFailure("busy", retry_after=1, retry_max=2, backoff_base=2, jitter=False, counts=False)
    if job.body == "bad":
        raise HardFailure("bad")
    return {"size": len(job.raw)}


def note(job: Delivery) -> None:
    """A plain handler without one."""


def key_of(message: Body) -> str:
    """A routing key."""
    return type(message).__name__


async def test_workers_have_types(autojump_clock: MockClock) -> None:
    async with Broker() as broker:
        publisher = Publisher(broker, "results", route="x", route_func=key_of)
        assert_type(publisher.route({"a": 1}), str)
        assert_type(await publisher({"a": 1}), int)
        worker = Worker(
            broker,
            "jobs",
            resize,
            exchange="jobs",
            binding_keys=["photo.#"],
            concurrency=2,
            handler_timeout=5,
            shutdown_timeout=1,
            retry=RetryPolicy(initial_delay=1, backoff_base=2, max_delay=10, max_retries=3, jitter=True),
            results=publisher,
            control=publisher,
            observer=publisher,
            extract_identity=lambda job: str(job.body),
            publish_hard_failures=True,
        )
        other = Worker(broker.asynchronous(), "notes", note)
        third = Worker(broker, "lambdas", lambda job: job.body)
        await worker.setup()
        health = assert_type(worker.health(), WorkerHealth)
        assert_type(health.connected, bool)
        assert_type(health.last_success, float | None)
        assert_type(health.oldest_running, float | None)
        assert_type(worker.live(), bool)
        assert_type(RetryPolicy().delay(1), float)
        async with trio.open_nursery() as nursery:
            await nursery.start(other.run)
            nursery.start_soon(run_workers, worker, third)
            broker.put("jobs", "x")
            await trio.sleep(1)
            for one in (worker, other, third):
                one.stop()
        assert broker.stats("jobs").acked == 1


def test_all_errors_are_broker_errors_with_a_code() -> None:
    assert all(kind.code.isupper() for kind in ERRORS)
    public = {name for name in respmq.__all__ if name.endswith("Error")}
    assert public >= {kind.__name__ for kind in ERRORS} | {"BrokerError"}
