"""Pushes of both protocols: events of topics and deliveries to consumers."""

from __future__ import annotations

import contextlib
from collections.abc import Iterable
from dataclasses import dataclass

from tests.support.broker import wait_until
from tests.support.conn import Conn
from tests.support.values import Arg, Push, Value, as_bytes, as_int, as_list


def frame(resp: int, *items: Value) -> Value:
    """A push as it reads under RESP2 (an array) or RESP3."""
    return Push(items) if resp == 3 else list(items)


def items(value: Value) -> list[Value]:
    """What is in a push of either protocol."""
    if isinstance(value, Push):
        return list(value.items)
    assert isinstance(value, list), f"expected a push: {value!r}"
    return value


def subscribe(conn: Conn, *topics: Arg) -> None:
    """SUBSCRIBE, and read the confirmations."""
    conn.start("SUBSCRIBE", *topics)
    for _ in topics:
        assert items(conn.read())[0] == b"subscribe"


def psubscribe(conn: Conn, *patterns: Arg) -> None:
    """PSUBSCRIBE, and read the confirmations."""
    conn.start("PSUBSCRIBE", *patterns)
    for _ in patterns:
        assert items(conn.read())[0] == b"psubscribe"


@dataclass(frozen=True, slots=True)
class Event:
    """One event, of a topic or (with the pattern) of a pattern."""

    topic: bytes
    body: bytes
    pattern: bytes | None = None


def event(value: Value) -> Event:
    """One `[message, topic, body]` or `[pmessage, pattern, topic, body]`."""
    kind, *rest = map(as_bytes, items(value))
    if kind == b"message":
        topic, body = rest
        return Event(topic, body)
    assert kind == b"pmessage", f"expected an event: {value!r}"
    pattern, topic, body = rest
    return Event(topic, body, pattern)


def arrived(conn: Conn) -> list[Value]:
    """The pushes that have come by now; a PING tells, its answer must come behind all of them."""
    mark = b"until here"
    conn.start("PING", mark)
    found: list[Value] = []
    while (value := conn.read()) not in (mark, [b"pong", mark]):
        found.append(value)
    return found


def events(conn: Conn) -> list[Event]:
    """The events that have come by now."""
    return [event(value) for value in arrived(conn)]


@dataclass(frozen=True, slots=True)
class Pushed:
    """One delivery to a consumer, without FULL."""

    tag: bytes
    queue: bytes
    id: bytes
    lease: bytes
    attempt: int
    body: bytes


def pushed(value: Value) -> Pushed:
    """One `[deliver, ctag, queue, id, lease, attempt, body]`."""
    kind, tag, queue, message_id, lease, attempt, body = items(value)
    assert kind == b"deliver", f"expected a delivery: {value!r}"
    return Pushed(
        as_bytes(tag), as_bytes(queue), as_bytes(message_id), as_bytes(lease), as_int(attempt), as_bytes(body)
    )


def consume(conn: Conn, queue: str, *options: Arg) -> bytes:
    """QCONSUME; the tag, which comes before any delivery."""
    return conn.bulk("QCONSUME", queue, *options)


def delivered(conn: Conn) -> list[Pushed]:
    """The deliveries that have come by now."""
    return [pushed(value) for value in arrived(conn)]


def delivered_bodies(conn: Conn) -> list[bytes]:
    """What was delivered by now."""
    return [one.body for one in delivered(conn)]


def let_go(connections: Iterable[Conn]) -> None:
    """Close connections, wait until their servers know, and unbind all: what the next test counts is its own."""
    ports = set()
    for one in connections:
        with contextlib.suppress(OSError):
            ports.add(one.sock.getpeername()[1])
        one.close()
    for port in ports:
        with contextlib.suppress(ConnectionRefusedError), Conn(port) as observer:
            wait_until(lambda: _subscriptions(observer) == 0, "all subscriptions are gone")
            for binding in observer.array("QBINDINGS"):
                observer.integer("QUNBIND", *map(as_bytes, as_list(binding)))


def _subscriptions(conn: Conn) -> int:
    return as_int(conn.mapping("QSTATS")[b"subscriptions"])
