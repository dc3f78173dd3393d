"""The broker's commands as typed calls, for the tests in which they are the means and not the subject."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass

from tests.support.conn import DEADLINE, Conn
from tests.support.values import Arg, Map, Null, Value, as_bytes, as_dict, as_int, as_list


@dataclass(frozen=True, slots=True)
class Delivery:
    """One message of a QLEASE reply without FULL."""

    queue: bytes
    id: bytes
    lease: bytes
    attempt: int
    body: bytes


def delivery(value: Value) -> Delivery:
    """One `[queue, id, lease, attempt, body]`."""
    queue, message_id, lease_token, attempt, body = as_list(value)
    return Delivery(as_bytes(queue), as_bytes(message_id), as_bytes(lease_token), as_int(attempt), as_bytes(body))


def deliveries(reply: Value) -> list[Delivery]:
    """A whole QLEASE reply."""
    return [delivery(value) for value in as_list(reply)]


def lease(conn: Conn, *args: Arg) -> list[Delivery]:
    """QLEASE queue [queue ...] [option value ...]"""
    return deliveries(conn.cmd("QLEASE", *args))


def lease_one(conn: Conn, *args: Arg) -> Delivery:
    """QLEASE, where exactly one message must come."""
    (only,) = lease(conn, *args)
    return only


def bodies(found: Iterable[Delivery]) -> list[bytes]:
    """What the messages hold."""
    return [one.body for one in found]


def put(conn: Conn, queue: str, body: Arg, *options: Arg) -> bytes:
    """QPUT; the message's id."""
    return conn.bulk("QPUT", queue, body, *options)


def put_all(conn: Conn, queue: str, messages: Iterable[Arg]) -> list[bytes]:
    """QPUT of each, in one write; their ids."""
    return [as_bytes(reply) for reply in conn.pipeline([("QPUT", queue, body) for body in messages])]


def advance(conn: Conn, duration: str) -> None:
    """Move a virtual clock on; everything that falls due on the way has happened when this returns."""
    conn.ok("DEBUG", "ADVANCE", duration)


def stats(conn: Conn, queue: str) -> dict[str, Value]:
    """QSTATS of a queue."""
    return {name.decode(): value for name, value in conn.mapping("QSTATS", queue).items()}


def stat(conn: Conn, queue: str, name: str) -> int:
    """One number of QSTATS."""
    return as_int(stats(conn, queue)[name])


def counts(conn: Conn, queue: str, *names: str) -> tuple[int, ...]:
    """Several numbers of one QSTATS."""
    found = stats(conn, queue)
    return tuple(as_int(found[name]) for name in names)


def info(conn: Conn, *sections: str) -> dict[str, str]:
    """INFO, as a flat dictionary."""
    lines = conn.text("INFO", *sections).split("\r\n")
    return dict(line.split(":", 1) for line in lines if line and not line.startswith("#"))


def messages(reply: Value) -> list[dict[bytes, Value]]:
    """An array of maps, as QPEEK, QDEAD LIST and QLEASE ... FULL answer."""
    return [as_dict(item) for item in as_list(reply)]


def peek(conn: Conn, queue: str, *options: Arg) -> list[dict[bytes, Value]]:
    """QPEEK"""
    return messages(conn.cmd("QPEEK", queue, *options))


def dead(conn: Conn, queue: str, *options: Arg) -> list[dict[bytes, Value]]:
    """QDEAD LIST"""
    return messages(conn.cmd("QDEAD", "LIST", queue, *options))


def pages(ask: Callable[[int], list[dict[bytes, Value]]]) -> list[dict[bytes, Value]]:
    """All that there is, where a reply has a limit: `ask` gives what stands behind so many."""
    found: list[dict[bytes, Value]] = []
    while page := ask(len(found)):
        found += page
    return found


def peeked_bodies(conn: Conn, queue: str, count: int = 1000) -> list[bytes]:
    """The bodies of what is ready, in the order in which it will be handed out."""
    return [as_bytes(found[b"body"]) for found in peek(conn, queue, "COUNT", count)]


def dead_bodies(conn: Conn, queue: str) -> list[bytes]:
    """The bodies of the dead letters, oldest first."""
    return [as_bytes(found[b"body"]) for found in dead_letters(conn, queue)]


def dead_letters(conn: Conn, queue: str) -> list[dict[bytes, Value]]:
    """All dead letters, oldest first."""
    return pages(lambda offset: dead(conn, queue, "COUNT", 1000, "OFFSET", offset))


def is_null(value: Value) -> bool:
    """Whether it is any of the nulls."""
    return isinstance(value, Null)


def is_empty_map(value: Value) -> bool:
    """Whether it is the empty map of either protocol."""
    return value == [] or value == Map(())


def wait_until(holds: Callable[[], bool], what: str, timeout: float = DEADLINE) -> None:
    """Ask again and again (each question is a round trip to the server) until it holds."""
    deadline = time.monotonic() + timeout
    while not holds():
        assert time.monotonic() < deadline, f"never happened: {what}"


def wait_for_waiters(conn: Conn, queue: str, count: int) -> None:
    """Wait until so many clients are blocked on the queue."""
    wait_until(lambda: stat(conn, queue, "waiters") == count, f"{count} waiters on {queue}")


def settle(conn: Conn) -> None:
    """Give the server a pass or two in which it reads what other connections have sent."""
    for _ in range(3):
        conn.cmd("PING")


def block(conn: Conn, observer: Conn, queue: str, *options: Arg) -> None:
    """Start a QLEASE that waits, and return once the server has it in its line."""
    before = stat(observer, queue, "waiters")
    conn.start("QLEASE", queue, *(options or ("WAIT", 0)))
    wait_for_waiters(observer, queue, before + 1)
