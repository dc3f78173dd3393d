"""Queues and messages of a broker in the program's own process."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import trio
from trio.testing import MockClock

from respmq import (
    Body,
    Broker,
    BrokerStats,
    Delivery,
    InvalidNameError,
    InvalidRequestError,
    InvalidTopicError,
    PublishResult,
    QueueConfig,
    QueueConfigConflictError,
    QueueFullError,
    QueueNotFoundError,
)


def nothing(*_: object) -> None:
    """A sink that does nothing."""


def test_a_program_sees_what_happens_in_the_order_in_which_it_does() -> None:
    lines: list[str] = []

    def say(*words: object) -> None:
        lines.append(" ".join(map(str, words)))

    async def main() -> None:
        async with Broker() as broker:
            broker.declare_queue("jobs")
            broker.subscribe("$sys.dead.*", lambda sub, e: say(sub, e.topic, e.body["reason"]))
            got: list[Delivery] = []
            tag = broker.consume("jobs", got.append)
            say("consumer:", tag)
            broker.put("jobs", "resize photo", id="job-1")
            say("nack accepted:", broker.nack("jobs", got[0].lease, requeue=False, error="bad file"))
            say("dead letters:", len(broker.dead_letters("jobs")))
            say("stats:", broker.broker_stats())

    trio.run(main, clock=MockClock(autojump_threshold=0))
    assert lines == [
        "consumer: ctag-1",
        "sub-1 $sys.dead.jobs rejected",
        "nack accepted: True",
        "dead letters: 1",
        "stats: BrokerStats(queues=1, subscriptions=1, bindings=0, binding_drops=0)",
    ]


async def test_declaring_again_is_idempotent_and_with_other_settings_a_conflict(broker: Broker) -> None:
    broker.declare_queue("jobs", QueueConfig(ack_timeout=60))
    broker.declare_queue("jobs", QueueConfig(ack_timeout=60.0))
    with pytest.raises(QueueConfigConflictError, match="ACKTIMEOUT is 60s, not 30s") as error:
        broker.declare_queue("jobs")
    assert error.value.code == "CONFLICT"
    assert broker.queue_config("jobs") == QueueConfig(ack_timeout=60)
    assert broker.list_queues() == ["jobs"]


QUEUE_METHODS: dict[str, Callable[[Broker], object]] = {
    "queue_config": lambda broker: broker.queue_config("none"),
    "delete_queue": lambda broker: broker.delete_queue("none"),
    "purge_queue": lambda broker: broker.purge_queue("none"),
    "stats": lambda broker: broker.stats("none"),
    "put": lambda broker: broker.put("none", "body"),
    "lease": lambda broker: broker.lease("none"),
    "consume": lambda broker: broker.consume("none", nothing),
    "deliveries": lambda broker: broker.deliveries("none"),
    "ack": lambda broker: broker.ack("none", "lease"),
    "nack": lambda broker: broker.nack("none", "lease"),
    "reject": lambda broker: broker.nack("none", "lease", requeue=False),
    "release": lambda broker: broker.nack("none", "lease", release=True),
    "touch": lambda broker: broker.touch("none", "lease"),
    "bind": lambda broker: broker.bind("#", "none"),
    "unbind": lambda broker: broker.unbind("#", "none"),
    "bind_exchange": lambda broker: broker.bind_exchange("logs", "none", "#"),
    "unbind_exchange": lambda broker: broker.unbind_exchange("logs", "none", "#"),
    "dead_letters": lambda broker: broker.dead_letters("none"),
    "replay_dead": lambda broker: broker.replay_dead("none"),
    "purge_dead": lambda broker: broker.purge_dead("none"),
}


@pytest.mark.parametrize("method", QUEUE_METHODS)
async def test_every_queue_method_raises_for_an_unknown_queue(method: str, broker: Broker) -> None:
    broker.declare_exchange("logs")
    with pytest.raises(QueueNotFoundError, match="no such queue 'none'"):
        QUEUE_METHODS[method](broker)
    assert broker.broker_stats() == BrokerStats(queues=0, subscriptions=0, bindings=0, binding_drops=0)


async def test_names_that_can_not_be(broker: Broker) -> None:
    with pytest.raises(InvalidNameError):
        broker.declare_queue("no blanks")
    with pytest.raises(InvalidNameError):
        broker.declare_queue("\N{SNOWMAN}")
    with pytest.raises(InvalidRequestError, match="surrogates not allowed"):
        broker.declare_queue("\ud800")
    with pytest.raises(InvalidTopicError):
        broker.publish("$sys.dead.jobs", "forged")


async def test_deleting_a_queue_forgets_its_bindings_and_its_consumers(broker: Broker) -> None:
    broker.declare_queue("jobs")
    broker.bind("job.#", "jobs")
    tag = broker.consume("jobs", nothing)
    broker.delete_queue("jobs")
    assert broker.broker_stats().bindings == 0
    with pytest.raises(InvalidRequestError, match=f"no such consumer '{tag}'"):
        broker.cancel(tag)
    broker.declare_queue("jobs")
    assert broker.publish("job.done", "x") == PublishResult(subscribers=0, queues=0)
    assert broker.stats("jobs").consumers == 0
    assert broker.consume("jobs", nothing) == "ctag-2"


async def test_purging_leaves_what_is_leased(broker: Broker) -> None:
    broker.declare_queue("jobs")
    for number in range(3):
        broker.put("jobs", number)
    (leased,) = broker.lease("jobs")
    assert broker.purge_queue("jobs") == 2
    assert broker.stats("jobs").in_flight == 1
    assert broker.ack("jobs", leased.lease)


async def test_a_message_with_all_that_it_can_have(broker: Broker) -> None:
    broker.declare_queue("jobs")
    made = broker.put(
        "jobs", {"photo": 1007}, id="job-1", priority=-3, headers={"user": "ann"}, attachments=[b"\x00\xff"], ttl=60
    )
    assert (made.id, made.duplicate) == ("job-1", False)
    (got,) = broker.lease("jobs")
    assert got.body == {"photo": 1007}
    assert got.raw == b'{"photo":1007}'
    assert got.headers == {"user": "ann", "content-type": "application/json"}
    assert (got.queue, got.id, got.attempt, got.priority, got.attachments) == ("jobs", "job-1", 1, -3, (b"\x00\xff",))
    assert got.deadline - got.enqueued_at == pytest.approx(30)


async def test_a_duplicate_is_not_stored(broker: Broker) -> None:
    broker.declare_queue("jobs")
    assert not broker.put("jobs", "first", id="job-1").duplicate
    again = broker.put("jobs", "second", id="job-1")
    assert (again.id, again.duplicate) == ("job-1", True)
    assert broker.stats("jobs").ready == 1
    assert broker.stats("jobs").duplicates == 1


async def test_what_python_puts_comes_out_equal_and_each_reader_has_its_own(broker: Broker) -> None:
    broker.declare_queue("jobs")
    bodies: list[Body] = ["text", "123", b"bytes", b"\xff", {"a": [1, 2.5, None, True]}, [], 7, None, False, ""]
    for body in bodies:
        broker.put("jobs", body)
        (got,) = broker.lease("jobs")
        assert got.body == body
        assert type(got.body) is type(body)
        assert broker.ack("jobs", got.lease)
    source = {"tags": ["a"]}
    broker.put("jobs", source)
    source["tags"].append("b")
    (first,) = broker.lease("jobs")
    first.body["tags"].append("c")
    broker.nack("jobs", first.lease, release=True)
    (second,) = broker.lease("jobs")
    assert second.body == {"tags": ["a"]}


#: Some of these no type checker would let through. Any, so that it does here.
WRONG: dict[str, tuple[Callable[[Any], object], str]] = {
    "set": (lambda b: b.put("jobs", {1, 2}), "a set, can't be encoded"),
    "nan": (lambda b: b.put("jobs", float("nan")), "a float, can't be encoded"),
    "surrogate": (lambda b: b.put("jobs", "\ud800"), "a str, can't be encoded"),
    "content-type": (lambda b: b.put("jobs", {"a": 1}, headers={"content-type": "text/plain"}), "sent as JSON"),
    "id": (lambda b: b.put("jobs", "x", id=""), "invalid message id: 1 to 255 bytes"),
    "header": (lambda b: b.put("jobs", "x", headers={"": "y"}), "invalid header name"),
    "attachment": (lambda b: b.put("jobs", "x", attachments=["text"]), "invalid attachment: bytes are wanted"),
    "priority": (lambda b: b.put("jobs", "x", priority=1 << 63), "invalid priority"),
    "bool": (lambda b: b.put("jobs", "x", priority=True), "invalid priority"),
    "delay": (lambda b: b.put("jobs", "x", delay=-1), "invalid delay -1"),
    "ttl": (lambda b: b.put("jobs", "x", ttl=0), "invalid ttl 0"),
    "delay and ttl": (lambda b: b.put("jobs", "x", delay=2, ttl=1), "DELAY 2s is not below its TTL 1s"),
    "count": (lambda b: b.lease("jobs", count=0), "invalid count 0"),
    "prefetch": (lambda b: b.consume("jobs", nothing, prefetch=0), "invalid prefetch 0"),
    "limit": (lambda b: b.dead_letters("jobs", -1), "invalid limit -1"),
    "reject and delay": (lambda b: b.nack("jobs", "x", requeue=False, delay=1), "neither delay nor release"),
    "reject and release": (lambda b: b.nack("jobs", "x", requeue=False, release=True), "neither delay nor release"),
    "duration": (lambda b: b.touch("jobs", "x", 0), "invalid duration 0"),
    "kind": (lambda b: b.declare_exchange("x", "HEADERS"), "invalid kind 'HEADERS' of exchange 'x'"),
}


@pytest.mark.parametrize("what", WRONG)
async def test_what_can_not_be_done_is_said_and_changes_nothing(what: str, broker: Broker) -> None:
    call, text = WRONG[what]
    broker.declare_queue("jobs")
    with pytest.raises(InvalidRequestError) as error:
        call(broker)
    assert text in str(error.value)
    assert broker.stats("jobs").enqueued == 0
    assert broker.stats("jobs").consumers == 0


async def test_a_full_queue_refuses(broker: Broker) -> None:
    broker.declare_queue("jobs", QueueConfig(max_len=1))
    broker.put("jobs", "x")
    with pytest.raises(QueueFullError, match="holds 1 of at most 1"):
        broker.put("jobs", "y")


async def test_settling_says_whether_the_lease_was_good(broker: Broker) -> None:
    broker.declare_queue("jobs")
    broker.put("jobs", "x")
    (got,) = broker.lease("jobs")
    assert broker.touch("jobs", got.lease, 5)
    assert broker.nack("jobs", got.lease, release=True)
    assert not broker.touch("jobs", got.lease)
    assert not broker.nack("jobs", got.lease)
    (again,) = broker.lease("jobs", count=5)
    assert again.attempt == 1
    assert broker.ack("jobs", again.lease)
    assert not broker.ack("jobs", again.lease)
    assert broker.lease("jobs") == []


async def test_dead_letters_are_listed_replayed_and_purged(broker: Broker) -> None:
    broker.declare_queue("jobs")
    for name in ("a", "b", "c"):
        broker.put("jobs", name, id=name)
        broker.nack("jobs", broker.lease("jobs")[0].lease, requeue=False, error=f"no {name}")
    letters = broker.dead_letters("jobs")
    assert [(one.id, one.body, one.reason, one.error, one.attempt) for one in letters] == [
        (name, name, "rejected", f"no {name}", 1) for name in ("a", "b", "c")
    ]
    assert [one.id for one in broker.dead_letters("jobs", 2)] == ["a", "b"]
    assert broker.replay_dead("jobs", []) == 0
    assert broker.replay_dead("jobs", ["b", "x"]) == 1
    assert broker.lease("jobs")[0].attempt == 1
    assert broker.purge_dead("jobs", []) == 0
    assert broker.purge_dead("jobs", ["a"]) == 1
    assert broker.replay_dead("jobs") == 1
    assert broker.purge_dead("jobs") == 0
