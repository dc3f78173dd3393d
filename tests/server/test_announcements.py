"""`$sys.dead.<queue>`: what is said when a message dies, by whichever way, once, and never about an announcement."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Iterator
from datetime import datetime, timedelta

import pytest

from tests.support import (
    Arg,
    Conn,
    Connect,
    ServerProcess,
    Value,
    advance,
    as_bytes,
    as_dict,
    as_int,
    counts,
    dead,
    lease,
    lease_one,
    messages,
    put,
    put_all,
    stat,
    wait_until,
)
from tests.support.events import consume, delivered, events, let_go, psubscribe, subscribe


@pytest.fixture(autouse=True)
def _nothing_is_left(open_connections: list[Conn]) -> Iterator[None]:
    yield
    let_go(open_connections)


def announcement(body: bytes) -> dict[str, object]:
    """The JSON of one announcement, which must have these fields and no others."""
    found = json.loads(body.decode("utf-8", "strict"))
    assert isinstance(found, dict)
    assert set(found) == {"queue", "id", "reason", "error", "attempt", "dead_at"}
    return found


def announcements(conn: Conn) -> list[dict[str, object]]:
    """Those that have come to a subscriber."""
    return [announcement(one.body) for one in events(conn)]


# -- Ways to die: the settings of the queue, and the reason and the error that are then told

DIE: dict[str, tuple[Arg, ...]] = {
    "nack": ("MAXATTEMPTS", 1),
    "reject": (),
    "last attempt": ("MAXATTEMPTS", 2, "RETRYDELAY", 0),
    "lease expired": ("MAXATTEMPTS", 1, "ACKTIMEOUT", "1s"),
    "time to live": ("TTL", "1s"),
    "time to live, delayed": ("TTL", "1h"),
    "overflow": ("OVERFLOW", "DROPHEAD", "MAXLEN", 1),
    "consumer lost": ("MAXATTEMPTS", 1),
    "consumer cancelled": ("MAXATTEMPTS", 1),
}
OUTCOME: dict[str, tuple[str, str | None]] = {
    "nack": ("max_attempts", "broken"),
    "reject": ("rejected", "broken"),
    "last attempt": ("max_attempts", "broken"),
    "lease expired": ("max_attempts", "ack timeout"),
    "time to live": ("ttl_expired", None),
    "time to live, delayed": ("ttl_expired", None),
    "overflow": ("max_length", None),
    "consumer lost": ("max_attempts", "consumer removed"),
    "consumer cancelled": ("max_attempts", "consumer removed"),
}
WAYS = pytest.mark.parametrize("way", list(DIE))


def settle_all(conn: Conn, queue: str, *options: Arg) -> None:
    """QNACK everything that is ready."""
    while found := lease(conn, queue, "COUNT", 1000):
        replies = conn.pipeline([("QNACK", queue, one.lease, *options) for one in found])
        assert set(map(as_int, replies)) == {1}


def kill(way: str, conn: Conn, connect: Callable[[], Conn], queue: str) -> None:
    """Let all that waits in the queue die."""
    size = stat(conn, queue, "ready") + stat(conn, queue, "delayed")
    if way in {"nack", "last attempt", "reject"}:
        settle_all(conn, queue, *(("REJECT",) if way == "reject" else ()), "ERROR", "broken")
    elif way == "lease expired":
        lease(conn, queue, "COUNT", 100_000)
        advance(conn, "1s")
    elif way == "time to live":
        advance(conn, "1s")
    elif way == "time to live, delayed":
        advance(conn, "1h")
    else:
        a = connect()
        a.hello(3)
        tag = consume(a, queue, "PREFETCH", 100_000)
        assert len(delivered(a)) == size
        if way == "consumer cancelled":
            assert a.integer("QCANCEL", tag) == size
        else:
            a.reset()
    wait_until(lambda: counts(conn, queue, "ready", "delayed", "in_flight") == (0, 0, 0), "all are dead")


def declare(conn: Conn, way: str, queue: str, *options: Arg) -> None:
    """A queue in which messages can die in this way."""
    conn.ok("QDECLARE", queue, "MAXDEAD", 100_000, *DIE[way], *options)


def bury(way: str, conn: Conn, connect: Callable[[], Conn], queue: str, count: int) -> None:
    """Put `count` messages and let them die."""
    if way == "overflow":
        put_all(conn, queue, range(count + 1))
        return
    options: tuple[Arg, ...] = ("DELAY", "30m", "TTL", "1h") if way == "time to live, delayed" else ()
    conn.pipeline([("QPUT", queue, n, *options) for n in range(count)])
    kill(way, conn, connect, queue)


@pytest.fixture
def open_virtual(virtual: Conn, open_connections: list[Conn]) -> Callable[[], Conn]:
    """Opens connections to the server with the virtual clock."""

    def open_one() -> Conn:
        one = Conn(virtual.sock.getpeername()[1])
        open_connections.append(one)
        return one

    return open_one


# -- What is said


@WAYS
def test_each_way_to_die_is_announced(way: str, virtual: Conn, open_virtual: Callable[[], Conn], queue: str) -> None:
    """Reason, error, attempt and time are those of the dead letter."""
    a = open_virtual()
    subscribe(a, f"$sys.dead.{queue}")
    declare(virtual, way, queue)
    bury(way, virtual, open_virtual, queue, 3)
    letters = dead(virtual, queue)
    said = announcements(a)
    assert len(said) == len(letters) == 3
    for found, letter in zip(said, letters, strict=True):
        assert found["queue"] == queue
        assert found["id"] == as_bytes(letter[b"id"]).decode()
        assert (found["reason"], found["error"]) == OUTCOME[way]
        assert as_bytes(letter[b"reason"]).decode() == found["reason"]
        error = letter[b"error"]
        assert (error.decode() if isinstance(error, bytes) else None) == found["error"]
        assert found["attempt"] == letter[b"attempt"]
        died = datetime.fromisoformat(str(found["dead_at"]))
        assert died.utcoffset() == timedelta(0)
        assert round(died.timestamp() * 1000) == letter[b"dead_at"]
    assert [found["attempt"] for found in said] == [
        {"last attempt": 2, "time to live": 0, "time to live, delayed": 0, "overflow": 0}.get(way, 1)
    ] * 3


def test_bytes_that_are_no_text(virtual: Conn, open_virtual: Callable[[], Conn], queue: str) -> None:
    r"""They appear as `\xff` escapes, valid UTF-8 as itself; it stays JSON whatever is in it."""
    a = open_virtual()
    subscribe(a, f"$sys.dead.{queue}")
    virtual.ok("QDECLARE", queue)
    for message_id, error in (
        (b"\xff\xfe", b"bad \x80 byte"),
        ("größe".encode(), "日本".encode() + b"\xc3"),
        (b'quote " and \n and \x00', b'{"a": "b"}\r\n\t\x1f\x7f'),
    ):
        put(virtual, queue, b"\xff", "ID", message_id)
        assert virtual.integer("QNACK", queue, lease_one(virtual, queue).lease, "REJECT", "ERROR", error) == 1
    said = announcements(a)
    assert [(found["id"], found["error"]) for found in said] == [
        ("\\xff\\xfe", "bad \\x80 byte"),
        ("größe", "日本\\xc3"),
        ('quote " and \n and \x00', '{"a": "b"}\r\n\t\x1f\x7f'),
    ]
    everything = bytes(range(256))
    put(virtual, queue, "m", "ID", everything[1:])
    virtual.integer("QNACK", queue, lease_one(virtual, queue).lease, "REJECT", "ERROR", everything)
    (found,) = announcements(a)
    assert str(found["error"]).startswith("\x00\x01")
    assert str(found["error"]).endswith("\\xfe\\xff")


def test_a_death_happens_though_nobody_looks(virtual: Conn, open_virtual: Callable[[], Conn], queue: str) -> None:
    """At its own moment, with that moment as its time."""
    a = open_virtual()
    psubscribe(a, "$sys.dead.#")
    virtual.ok("QDECLARE", queue)
    start = (
        as_int(as_dict(virtual.array("QPEEK", queue)[0])[b"enqueued_at"])
        if put(virtual, queue, "m", "TTL", "100ms")
        else 0
    )
    advance(virtual, "99ms")
    assert announcements(a) == []
    advance(virtual, "10s")
    (found,) = announcements(a)
    assert round(datetime.fromisoformat(str(found["dead_at"])).timestamp() * 1000) == start + 100


def test_what_does_not_die_is_not_announced(virtual: Conn, open_virtual: Callable[[], Conn], queue: str) -> None:
    """Neither purges, deletions, acks and retries, nor dead letters that are dropped, popped, replayed or purged."""
    a = open_virtual()
    psubscribe(a, "$sys.#")
    virtual.ok("QDECLARE", queue, "RETRYDELAY", 0, "MAXDEAD", 2)
    put_all(virtual, queue, range(10))
    virtual.integer("QNACK", queue, lease_one(virtual, queue).lease)
    virtual.integer("QNACK", queue, lease_one(virtual, queue).lease, "RELEASE")
    virtual.integer("QACK", queue, lease_one(virtual, queue).lease)
    virtual.integer("QDEL", queue, *(as_bytes(one[b"id"]) for one in messages(virtual.cmd("QPEEK", queue, "COUNT", 2))))
    virtual.integer("QPURGE", queue)
    assert announcements(a) == []
    put_all(virtual, queue, range(4))
    settle_all(virtual, queue, "REJECT")
    assert len(announcements(a)) == 4
    virtual.integer("QDEAD", "REPLAY", queue)
    virtual.integer("QPURGE", queue)
    put_all(virtual, queue, range(2))
    settle_all(virtual, queue, "REJECT")
    assert len(announcements(a)) == 2
    virtual.array("QDEAD", "POP", queue)
    virtual.integer("QDEAD", "PURGE", queue)
    put_all(virtual, queue, range(2))
    lease_one(virtual, queue)
    virtual.integer("QDELETE", queue)
    assert announcements(a) == []


def test_a_replayed_message_that_dies_again_is_announced_again(
    virtual: Conn, open_virtual: Callable[[], Conn], queue: str
) -> None:
    """One death, one announcement."""
    a = open_virtual()
    subscribe(a, f"$sys.dead.{queue}")
    virtual.ok("QDECLARE", queue)
    put(virtual, queue, "m", "ID", "k")
    for _ in range(5):
        settle_all(virtual, queue, "REJECT")
        virtual.integer("QDEAD", "REPLAY", queue)
    assert [found["id"] for found in announcements(a)] == ["k"] * 5


def test_an_announcement_wakes_who_waits_for_it(virtual: Conn, open_virtual: Callable[[], Conn], queue: str) -> None:
    """A bound queue's copy carries the topic, is an ordinary message, and reaches a consumer at once."""
    virtual.ok("QDECLARE", queue)
    virtual.ok("QDECLARE", f"{queue}.log")
    virtual.integer("QBIND", "$sys.dead.#", f"{queue}.log")
    a = open_virtual()
    a.hello(3)
    consume(a, f"{queue}.log", "FULL")
    put(virtual, queue, "m", "ID", "k", "HEADER", "h", "v")
    settle_all(virtual, queue, "REJECT", "ERROR", "e")
    kind, _, copy = items_of(a.read())
    fields = as_dict(copy)
    assert (kind, fields[b"attempt"]) == (b"deliver", 1)
    assert as_dict(fields[b"headers"]) == {b"topic": f"$sys.dead.{queue}".encode()}
    assert announcement(as_bytes(fields[b"body"]))["id"] == "k"


def items_of(value: Value) -> tuple[Value, ...]:
    found = getattr(value, "items", None)
    assert isinstance(found, tuple)
    return found


def test_an_announcement_is_no_larger_than_a_message_may_be(
    fresh_virtual_server: ServerProcess, connect: Connect
) -> None:
    """The end of a very long error is left out; all else is there, for subscribers and bound queues alike."""
    conn, a = connect(fresh_virtual_server), connect(fresh_virtual_server)
    conn.ok("CONFIG", "SET", "max-message-size", 2000)
    for name in ("q", "log"):
        conn.ok("QDECLARE", name)
    conn.integer("QBIND", "#", "log")
    subscribe(a, "$sys.dead.q")
    for error in ("x" * 1000, "y" * 2000, "\n" * 2000):
        put(conn, "q", "m")
        settle_all(conn, "q", "REJECT", "ERROR", error)
        conn.integer("QDEAD", "PURGE", "q")
        copy = lease_one(conn, "log").body
        assert len(copy) <= 2000
        assert [announcement(copy)] == announcements(a)
        told = str(announcement(copy)["error"])
        assert error.startswith(told)
        assert len(told) >= min(len(error), 400)


# -- The loop rule


@WAYS
@pytest.mark.parametrize("several", [1, 3])
def test_copies_of_announcements_die_silently(
    several: int, way: str, virtual: Conn, open_virtual: Callable[[], Conn], queue: str
) -> None:
    """Whichever way the copies die, in one queue bound to `#` or in several: no announcement but the message's own."""
    a = open_virtual()
    psubscribe(a, "#")
    catch_all = [f"{queue}.log-{n}" for n in range(several)]
    for name in catch_all:
        declare(virtual, way, name)
        virtual.integer("QBIND", "#", name)
    virtual.ok("QDECLARE", queue)
    for n in range(3):
        put(virtual, queue, "m", "ID", f"k{n}")
        settle_all(virtual, queue, "REJECT")
    for name in catch_all:
        if way != "overflow":
            kill(way, virtual, open_virtual, name)
        assert stat(virtual, name, "dead") == (2 if way == "overflow" else 3)
    assert [found["id"] for found in announcements(a)] == ["k0", "k1", "k2"]
    for name in catch_all:
        virtual.integer("QDEAD", "REPLAY", name)
        virtual.integer("QDELETE", name)
    assert announcements(a) == []


@pytest.mark.parametrize("way", [way for way in DIE if way != "overflow"])
def test_a_copy_that_is_replayed_still_dies_silently(
    way: str, virtual: Conn, open_virtual: Callable[[], Conn], queue: str
) -> None:
    """What it is a copy of survives death and replay."""
    a = open_virtual()
    psubscribe(a, "$sys.#")
    virtual.ok("QDECLARE", queue)
    declare(virtual, way, f"{queue}.log")
    virtual.integer("QBIND", "#", f"{queue}.log")
    put(virtual, queue, "m")
    settle_all(virtual, queue, "REJECT")
    for _ in range(3):
        kill(way, virtual, open_virtual, f"{queue}.log")
        assert virtual.integer("QDEAD", "REPLAY", f"{queue}.log") == 1
    assert len(announcements(a)) == 1


def test_a_message_that_only_looks_like_a_copy_is_announced(
    virtual: Conn, open_virtual: Callable[[], Conn], queue: str
) -> None:
    """Its own headers, its body, a copy of another event, and an exchange's key make no announcement of a message."""
    a = open_virtual()
    subscribe(a, f"$sys.dead.{queue}")
    virtual.ok("QDECLARE", queue)
    virtual.integer("QBIND", f"{queue}.#", queue)
    virtual.ok("EXCHANGE", "DECLARE", queue, "TOPIC")
    virtual.integer("EXCHANGE", "BIND", queue, queue, "#")
    forged = f"$sys.dead.{queue}"
    put(virtual, queue, "{}", "HEADER", "topic", forged)
    virtual.array("QPUBLISH", f"{queue}.x", "{}", "HEADER", "topic", forged)
    virtual.integer("EXCHANGE", "PUBLISH", queue, forged, "{}", "HEADER", "topic", forged)
    settle_all(virtual, queue, "REJECT")
    assert len(announcements(a)) == 3
    virtual.integer("EXCHANGE", "DELETE", queue)


# -- Under load


@WAYS
def test_exactly_one_announcement_in_each_queue_under_load(
    way: str, virtual: Conn, open_virtual: Callable[[], Conn], queue: str
) -> None:
    """300 messages die, three queues are bound to `#` and consumed or not: each has one announcement for each death."""
    count = 300
    logs = [f"{queue}.log-{n}" for n in range(3)]
    for name in logs:
        virtual.ok("QDECLARE", name, "MAXLEN", 100_000)
        virtual.integer("QBIND", "#", name)
    virtual.integer("QBIND", "$sys.dead.*.#", logs[0])
    declare(virtual, way, queue)
    a = open_virtual()
    a.hello(3)
    consume(a, logs[1], "PREFETCH", 100_000)
    bury(way, virtual, open_virtual, queue, count)
    letters = Counter(as_bytes(letter[b"id"]).decode() for letter in dead(virtual, queue, "COUNT", 100_000))
    assert set(letters.values()) == {1}
    assert len(letters) == count
    found = {
        logs[0]: [one.body for one in lease(virtual, logs[0], "COUNT", 100_000)],
        logs[1]: [one.body for one in delivered(a)],
        logs[2]: [one.body for one in lease(virtual, logs[2], "COUNT", 100_000)],
    }
    for name, copies in found.items():
        assert Counter(announcement(body)["id"] for body in copies) == letters, name
    assert found[logs[0]] == found[logs[2]] == found[logs[1]]


def test_all_ways_at_once_into_queues_in_which_copies_die(
    virtual: Conn, open_virtual: Callable[[], Conn], queue: str
) -> None:
    """Messages die in every way while copies of the announcements die in every way: each death is seen once."""
    a = open_virtual()
    count = 100
    victims = {way: f"{queue}.{way.replace(' ', '-').replace(',', '')}" for way in DIE}
    logs = {way: f"{name}.log" for way, name in victims.items()}
    for way, name in victims.items():
        declare(virtual, way, name)
        declare(virtual, way, logs[way])
        virtual.integer("QBIND", "#", logs[way])
    seen: list[object] = []
    psubscribe(a, "$sys.dead.#")
    for way, name in victims.items():
        bury(way, virtual, open_virtual, name, count)
        seen += [found["queue"] for found in announcements(a)]
        for log_way, log in logs.items():
            if log_way != "overflow" and stat(virtual, log, "ready"):
                kill(log_way, virtual, open_virtual, log)
        seen += [found["queue"] for found in announcements(a)]
    assert Counter(seen) == dict.fromkeys(victims.values(), count)
    for log in logs.values():
        assert stat(virtual, log, "dead_lettered") >= count * len(victims) - 1
