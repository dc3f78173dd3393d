"""Topics, exchanges, and the announcements of deaths."""

from __future__ import annotations

import logging

import pytest
import trio
from trio.testing import MockClock

from respmq import (
    Broker,
    BrokerStats,
    Delivery,
    Event,
    ExchangeNotFoundError,
    PublishResult,
    QueueConfig,
    QueueConfigConflictError,
)


async def test_a_publish_reaches_two_subscribers_and_a_bound_queue(broker: Broker) -> None:
    broker.declare_queue("audit")
    seen: list[tuple[str, str, object]] = []
    names = [
        broker.subscribe(pattern, lambda *a: seen.append((a[0], a[1].topic, a[1].body))) for pattern in ("#", "a.*")
    ]
    assert names == ["sub-1", "sub-2"]
    assert broker.bind("a.#", "audit")
    assert not broker.bind("a.#", "audit")
    assert broker.publish("a.b", {"n": 1}, headers={"user": "ann"}) == PublishResult(subscribers=2, queues=1)
    assert sorted(seen) == [("sub-1", "a.b", {"n": 1}), ("sub-2", "a.b", {"n": 1})]
    (copy,) = broker.lease("audit")
    assert copy.body == {"n": 1}
    assert copy.headers == {"user": "ann", "topic": "a.b", "content-type": "application/json"}
    assert broker.broker_stats() == BrokerStats(queues=1, subscriptions=2, bindings=1, binding_drops=0)
    assert broker.unsubscribe("sub-1")
    assert not broker.unsubscribe("sub-1")
    assert broker.unbind("a.#", "audit")
    assert not broker.unbind("a.#", "audit")
    assert broker.publish("a.b", 1) == PublishResult(subscribers=1, queues=0)


async def test_events_carry_what_was_published_and_each_subscriber_its_own(broker: Broker) -> None:
    bodies: list[object] = []

    def see(sub: str, event: Event) -> None:
        bodies.append(event.body)
        if isinstance(event.body, list):
            event.body.append("mine")

    broker.subscribe("t", see)
    broker.subscribe("t", see)
    for body in ("text", '{"a": 1}', b"bytes", 5, None):
        broker.publish("t", body)
        assert bodies[-2:] == [body, body]
    broker.publish("t", [1])
    assert bodies[-2:] == [[1, "mine"], [1, "mine"]]


async def test_a_raising_subscriber_is_logged_and_the_others_get_the_event(
    broker: Broker, caplog: pytest.LogCaptureFixture
) -> None:
    seen: list[str] = []

    def fail(sub: str, event: Event) -> None:
        raise RuntimeError("not today")

    broker.subscribe("news", fail)
    broker.subscribe("news", lambda sub, event: seen.append(sub))
    with caplog.at_level(logging.ERROR, logger="respmq"):
        assert broker.publish("news", "x").subscribers == 2
    assert seen == ["sub-2"]
    assert "subscriber sub-1 raised at an event of 'news'" in caplog.text
    assert "RuntimeError: not today" in caplog.text


async def test_a_subscriber_that_was_unsubscribed_by_another_is_not_called(broker: Broker) -> None:
    seen: list[str] = []
    broker.subscribe("news", lambda sub, event: broker.unsubscribe("sub-2"))
    broker.subscribe("news", lambda sub, event: seen.append(sub))
    broker.publish("news", "x")
    assert seen == []


async def test_what_a_subscriber_publishes_comes_after_what_it_was_called_with(broker: Broker) -> None:
    seen: list[str] = []

    def chain(sub: str, event: Event) -> None:
        seen.append(event.topic)
        if event.topic == "first":
            broker.publish("second", "x")
            assert seen == ["first"]

    broker.subscribe("#", chain)
    broker.publish("first", "x")
    assert seen == ["first", "second"]


async def test_exchanges_copy_into_the_queues_that_are_bound(broker: Broker) -> None:
    for queue in ("all", "errors", "exact"):
        broker.declare_queue(queue)
    broker.declare_exchange("logs")
    broker.declare_exchange("logs", "TOPIC")
    broker.declare_exchange("direct", "DIRECT")
    broker.declare_exchange("fan", "FANOUT")
    with pytest.raises(QueueConfigConflictError, match="it is TOPIC, not FANOUT"):
        broker.declare_exchange("logs", "FANOUT")
    assert broker.bind_exchange("logs", "all", "#")
    assert not broker.bind_exchange("logs", "all", "#")
    assert broker.bind_exchange("logs", "errors", "*.error")
    assert broker.bind_exchange("direct", "exact", "web.error")
    assert broker.bind_exchange("fan", "all")
    assert broker.publish_exchange("logs", "web.error", {"no": "space"}, headers={"host": "a1"}) == 2
    assert broker.publish_exchange("logs", "", "empty keys are none") == 1
    assert broker.publish_exchange("direct", "web.error", "x") == 1
    assert broker.publish_exchange("direct", "web", "x") == 0
    assert broker.publish_exchange("fan", "", "x", attachments=[b"y"]) == 1
    (error,) = broker.lease("errors")
    assert error.body == {"no": "space"}
    assert error.headers == {
        "host": "a1",
        "content-type": "application/json",
        "exchange": "logs",
        "routing-key": "web.error",
    }
    assert broker.unbind_exchange("logs", "errors", "*.error")
    assert not broker.unbind_exchange("logs", "errors", "*.error")
    with pytest.raises(ExchangeNotFoundError):
        broker.publish_exchange("nowhere", "a", "x")


def waiting(broker: Broker, queue: str) -> int:
    stats = broker.stats(queue)
    return stats.ready + stats.delayed + stats.in_flight


async def test_a_queue_bound_to_everything_gets_one_copy_of_a_death_and_its_death_is_not_announced(
    broker: Broker,
) -> None:
    broker.declare_queue("all")
    broker.bind("#", "all")
    announced: list[str] = []
    broker.subscribe("$sys.#", lambda sub, event: announced.append(event.topic))
    broker.put("all", "x")
    broker.nack("all", broker.lease("all")[0].lease, requeue=False)
    assert waiting(broker, "all") == 1
    (copy,) = broker.lease("all")
    assert copy.headers == {"topic": "$sys.dead.all"}
    assert copy.body["reason"] == "rejected"
    broker.nack("all", copy.lease, requeue=False)
    assert waiting(broker, "all") == 0
    assert announced == ["$sys.dead.all"]


async def test_nor_is_it_if_the_copy_dies_of_its_age(broker: Broker, autojump_clock: MockClock) -> None:
    broker.declare_queue("all", QueueConfig(ttl=10))
    broker.bind("#", "all")
    announced: list[str] = []
    broker.subscribe("$sys.#", lambda sub, event: announced.append(event.body["reason"]))
    broker.put("all", "x")
    await trio.sleep(11)
    assert announced == ["ttl_expired"]
    assert waiting(broker, "all") == 1
    await trio.sleep(100)
    assert waiting(broker, "all") == 0
    assert announced == ["ttl_expired"]
    assert len(broker.dead_letters("all")) == 2


async def test_nor_if_its_consumer_raises(broker: Broker, autojump_clock: MockClock) -> None:
    broker.declare_queue("all", QueueConfig(max_attempts=1))
    broker.bind("#", "all")
    announced: list[str] = []
    broker.subscribe("$sys.#", lambda sub, event: announced.append(event.topic))
    calls: list[Delivery] = []

    def fail(job: Delivery) -> None:
        calls.append(job)
        raise ValueError

    broker.consume("all", fail)
    broker.put("all", "x")
    await trio.sleep(100)
    assert [job.headers.get("topic") for job in calls] == [None, "$sys.dead.all"]
    assert announced == ["$sys.dead.all"]
    assert len(broker.dead_letters("all")) == 2


async def test_two_queues_bound_to_everything_do_not_play_ping_pong(broker: Broker, autojump_clock: MockClock) -> None:
    for queue in ("one", "two"):
        broker.declare_queue(queue, QueueConfig(max_attempts=1))
        broker.bind("#", queue)
        broker.consume(queue, lambda job: broker.nack(job.queue, job.lease))
    announced: list[str] = []
    broker.subscribe("$sys.#", lambda sub, event: announced.append(event.topic))
    broker.put("one", "x")
    await trio.sleep(100)
    assert announced == ["$sys.dead.one"]
    assert [len(broker.dead_letters(queue)) for queue in ("one", "two")] == [2, 1]
