"""The commands on redis-py: both kinds of client, both protocols, the same results."""

from __future__ import annotations

import socket
from typing import Any

import pytest

from respmq import (
    BrokerError,
    BrokerStats,
    BrokerUnavailableError,
    DeadLetter,
    Delivery,
    InvalidNameError,
    InvalidRequestError,
    InvalidTopicError,
    NoAuthError,
    OutOfMemoryError,
    PublishResult,
    PutResult,
    QueueConfig,
    QueueConfigConflictError,
    QueuedMessage,
    QueueFullError,
    QueueNotFoundError,
    QueueStats,
    WrongPasswordError,
)
from respmq.codegen import table
from respmq.redis import AsyncRespMQ, RespMQ
from tests.redis.conftest import KINDS, make
from tests.support import Connect, ServerProcess, start_server


def test_there_is_a_method_for_each_command() -> None:
    for module, commands in table.MODULES.items():
        for name in commands:
            method = name.lower().replace(" ", "_")
            for kind in (RespMQ, AsyncRespMQ):
                # Pushes come on one connection, and clients of redis-py have many.
                assert hasattr(kind, method) == (module not in table.WITHOUT_METHODS)


def test_queues(r: Any, queue: str) -> None:
    r.qdeclare(queue, acktimeout=0.5, maxattempts=2, retryjitter=0.25, overflow="DROPHEAD", ttl=3600, dedupe=0)
    config = QueueConfig(ack_timeout=0.5, max_attempts=2, retry_jitter=0.25, overflow="DROPHEAD", ttl=3600, dedupe=0)
    assert r.qconfig(queue) == config
    with pytest.raises(QueueConfigConflictError):
        r.qdeclare(queue)
    assert r.qlist(match=queue) == [queue]
    r.qput(queue, "x")
    stats = r.qstats(queue)
    assert isinstance(stats, QueueStats)
    assert (stats.name, stats.ready, stats.bytes) == (queue, 1, 1)
    assert isinstance(stats.oldest_ready_age, float | int)
    assert isinstance(r.qstats(), BrokerStats)
    assert r.qpurge(queue) == 1
    assert r.qdelete(queue) == 1


def test_messages(r: Any, queue: str) -> None:
    r.qdeclare(queue, retrydelay=0)
    assert r.qput(queue, {"n": 1}, id="a", priority=-1, headers={"by": "ann"}, attachments=[b"\xff"]) == PutResult(
        "a", duplicate=False
    )
    assert r.qput(queue, "again", id="a") == PutResult("a", duplicate=True)
    made = r.qput(queue, b"\x00\xff")
    assert len(made.id) == 32
    b, c = r.qmput(queue, "b", b"c")
    shown = r.qshow(queue, b)
    assert isinstance(shown, QueuedMessage)
    assert (shown.state, shown.body) == ("ready", "b")
    assert [found.id for found in r.qpeek(queue, count=2)] == ["a", made.id]
    first, second = r.qlease(queue, count=2)
    assert isinstance(first, Delivery)
    assert (first.queue, first.id, first.attempt, first.body) == (queue, "a", 1, {"n": 1})
    assert (first.priority, first.attachments, first.headers["by"]) == (-1, (b"\xff",), "ann")
    assert second.body == b"\x00\xff"
    assert r.qtouch(queue, first.lease, second.lease, for_=60) == 2
    assert r.qack(queue, first.lease) == 1
    assert r.qack(queue, first.lease) == 0
    assert r.qnack(queue, second.lease, mode="REJECT", error="bad file") is True
    [letter] = r.qdead_list(queue)
    assert isinstance(letter, DeadLetter)
    assert (letter.body, letter.reason, letter.error) == (b"\x00\xff", "rejected", "bad file")
    assert r.qdead_len(queue) == 1
    assert r.qdead_replay(queue, made.id) == 1
    assert r.qdead_pop(queue) == []
    assert r.qdead_purge(queue) == 0
    assert r.qdel(queue, b, c, "x") == 2
    assert r.qlease(queue, wait=5)[0].id == made.id
    assert r.qlease(queue, wait=0.01) == r.qlease(queue, wait=0) == r.qlease(queue) == []


def test_topics_and_exchanges(r: Any, queue: str) -> None:
    r.qdeclare(queue)
    assert r.qbind(f"{queue}.#", queue) is True
    assert r.qbind(f"{queue}.#", queue) is False
    assert r.qbindings(queue) == [(f"{queue}.#", queue)]
    assert r.qpublish(f"{queue}.x", {"n": 1}) == PublishResult(subscribers=0, queues=1)
    assert r.qlease(queue)[0].body == {"n": 1}
    assert r.qunbind(f"{queue}.#", queue) is True
    r.exchange_declare(queue, "TOPIC")
    assert (queue, "TOPIC") in r.exchange_list()
    assert r.exchange_bind(queue, queue, "a.*") is True
    assert r.exchange_bindings(queue) == [(queue, "a.*")]
    assert r.exchange_publish(queue, "a.b", "x") == 1
    assert r.exchange_unbind(queue, queue, "a.*") is True
    assert r.exchange_delete(queue) == 1


def test_a_virtual_clock(virtual_server: ServerProcess, queue: str) -> None:
    for kind in KINDS:
        r = make(kind, virtual_server.port)
        r.qdeclare(queue)
        r.qput(queue, "x", delay=60)
        r.debug_advance(60)
        [delivery] = r.qlease(queue)
        assert r.qack(queue, delivery.lease) == 1
        r.close()


@pytest.mark.parametrize("kind", KINDS)
def test_decoded_replies_make_no_difference(kind: str, server: ServerProcess, queue: str) -> None:
    r = make(kind, server.port, decode_responses=True)
    r.qdeclare(queue)
    r.qput(queue, b"\x00\xff")
    [delivery] = r.qlease(queue)
    assert delivery.body == b"\x00\xff"
    assert r.ping() is True
    assert r.execute_command("QDEAD", "LEN", queue) == 0
    r.close()


def test_errors_are_ours(r: Any, queue: str) -> None:
    with pytest.raises(QueueNotFoundError, match="no such queue") as caught:
        r.qput(queue, "x")
    assert caught.value.code == "NOQUEUE"
    with pytest.raises(InvalidNameError):
        r.qdeclare("a..b")
    with pytest.raises(InvalidTopicError):
        r.qpublish("a*", "x")
    r.qdeclare(queue, maxlen=1)
    r.qput(queue, "x")
    with pytest.raises(QueueFullError):
        r.qmput(queue, "x")
    with pytest.raises(InvalidRequestError, match="DEBUG ADVANCE needs a virtual clock"):
        r.debug_advance(1)
    with pytest.raises(InvalidRequestError, match="invalid delay -1"):
        r.qput(queue, "x", delay=-1)
    assert r.qstats(queue).ready == 1


@pytest.mark.parametrize("kind", KINDS)
def test_errors_that_redis_py_has_classes_for(kind: str, connect: Connect) -> None:
    with start_server("--requirepass", "secret", "--maxmemory", "1") as server:
        r = make(kind, server.port, password="secret")
        r.qdeclare("jobs")
        r.qput("jobs", "x")
        with pytest.raises(OutOfMemoryError) as caught:
            r.qput("jobs", "y")
        assert caught.value.code == "OOM"
        r.close()
        for options, error in (({"password": "wrong"}, WrongPasswordError), ({}, NoAuthError)):
            # redis-py tries again ten times, as if the password could change.
            r = make(kind, server.port, **options, retry=None)
            with pytest.raises(BrokerError) as refused:
                r.qlist()
            assert type(refused.value) is error, refused.value
            r.close()


@pytest.mark.parametrize("kind", KINDS)
def test_a_broker_that_cannot_be_reached(kind: str) -> None:
    with socket.socket() as sock:
        sock.bind(("127.0.0.1", 0))
        r = make(kind, sock.getsockname()[1], retry=None)
        for name, arguments in (("qlist", ()), ("qpurge", ("jobs",)), ("qlease", ("jobs",))):
            with pytest.raises(BrokerUnavailableError) as caught:
                getattr(r, name)(*arguments)
            assert caught.value.code == "UNAVAILABLE"
        r.close()
