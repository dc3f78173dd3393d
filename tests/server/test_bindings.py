"""QBIND: copies of events in queues, and the limits that hold for them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

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
    block,
    bodies,
    counts,
    dead_bodies,
    dead_letters,
    deliveries,
    lease,
    lease_one,
    messages,
    peek,
    peeked_bodies,
    put,
    stat,
)
from tests.support.events import arrived, consume, delivered_bodies, event, let_go, subscribe

both_protocols = pytest.mark.parametrize("resp", [2, 3], ids=["resp2", "resp3"])


@pytest.fixture(autouse=True)
def _nothing_is_left(open_connections: list[Conn]) -> Iterator[None]:
    yield
    let_go(open_connections)


def pairs(reply: Value) -> list[tuple[bytes, bytes]]:
    """QBINDINGS, sorted."""
    assert isinstance(reply, list)
    found = []
    for one in reply:
        assert isinstance(one, list)
        pattern, queue = map(as_bytes, one)
        found.append((pattern, queue))
    return sorted(found)


def broker(conn: Conn, name: str) -> int:
    """A number of the whole broker's QSTATS."""
    return as_int(conn.mapping("QSTATS")[name.encode()])


def full(conn: Conn, queue: str) -> dict[bytes, Value]:
    """The only message that can be leased, as a map."""
    (found,) = messages(conn.cmd("QLEASE", queue, "FULL", "COUNT", 10))
    return found


# -- QBIND, QUNBIND, QBINDINGS


@both_protocols
def test_binding_and_unbinding(resp: int, connect: Connect, queue: str) -> None:
    """1 if it is new or was there, else 0; QBINDINGS lists pairs, of one queue or of all."""
    conn, other = connect(resp=resp), f"{queue}.other"
    for name in (queue, other):
        conn.ok("QDECLARE", name)
    before = broker(conn, "bindings")
    assert conn.raw("QBIND", "a.*", queue) == b":1\r\n"
    assert conn.raw("QBIND", "a.*", queue) == b":0\r\n"
    assert conn.raw("QBIND", "a.*", other) == b":1\r\n"
    assert conn.raw("QBIND", "#", queue) == b":1\r\n"
    assert broker(conn, "bindings") == before + 3
    own, others = queue.encode(), other.encode()
    assert pairs(conn.cmd("QBINDINGS", queue)) == [(b"#", own), (b"a.*", own)]
    assert pairs(conn.cmd("QBINDINGS", other)) == [(b"a.*", others)]
    assert set(pairs(conn.cmd("QBINDINGS"))) >= {(b"#", own), (b"a.*", own), (b"a.*", others)}
    assert conn.raw("QUNBIND", "a.*", queue) == b":1\r\n"
    assert conn.raw("QUNBIND", "a.*", queue) == b":0\r\n"
    assert conn.raw("QUNBIND", "#", queue) == b":1\r\n"
    assert conn.raw("QBINDINGS", queue) == b"*0\r\n"
    assert pairs(conn.cmd("QBINDINGS", other)) == [(b"a.*", others)]


def test_unknown_queues_and_wrong_arguments(conn: Conn, queue: str) -> None:
    """-NOQUEUE, -INVALIDNAME, -INVALIDTOPIC; nothing is bound."""
    commands: list[tuple[str, ...]] = [("QBIND", "a", queue), ("QUNBIND", "a", queue), ("QBINDINGS", queue)]
    for command in commands:
        assert conn.error(*command).text == f"NOQUEUE no such queue '{queue}'".encode()
    assert conn.error("QBIND", "a", "no..name").code == b"INVALIDNAME"
    assert conn.error("QBINDINGS", "no..name").code == b"INVALIDNAME"
    conn.ok("QDECLARE", queue)
    assert conn.error("QBIND", "a*", queue).code == b"INVALIDTOPIC"
    commands = [("QBIND",), ("QBIND", "a"), ("QBIND", "a", queue, "x"), ("QUNBIND", "a"), ("QBINDINGS", "a", "b")]
    for command in commands:
        assert conn.error(*command).text.startswith(b"ERR wrong number of arguments"), command


def test_deleting_a_queue_forgets_its_bindings(conn: Conn, queue: str) -> None:
    """Its own only; a queue of the same name begins without."""
    other = f"{queue}.other"
    for name in (queue, other):
        conn.ok("QDECLARE", name)
        conn.integer("QBIND", f"{queue}.#", name)
    before = broker(conn, "bindings")
    assert conn.integer("QDELETE", queue) == 1
    assert broker(conn, "bindings") == before - 1
    assert conn.cmd("QPUBLISH", f"{queue}.x", "1") == [0, 1]
    conn.ok("QDECLARE", queue)
    assert conn.array("QBINDINGS", queue) == []
    assert conn.cmd("QPUBLISH", f"{queue}.x", "2") == [0, 1]
    assert (stat(conn, queue, "ready"), stat(conn, other, "ready")) == (0, 2)


# -- Copies


def test_a_copy_is_a_new_message(virtual: Conn, queue: str) -> None:
    """It has an id of its own, priority 0, the queue's settings, and what QPUBLISH gave it, with the topic's header."""
    other = f"{queue}.other"
    for name in (queue, other):
        virtual.ok("QDECLARE", name)
        virtual.integer("QBIND", f"{queue}.*", name)
    topic = f"{queue}.\xe9"
    options: list[Arg] = [
        "HEADER",
        "h",
        "1",
        "HEADER",
        "topic",
        "forged",
        "HEADER",
        "h",
        "2",
        "ATTACH",
        b"\xff",
        "ATTACH",
        "",
    ]
    assert virtual.cmd("QPUBLISH", topic, b"b\x00dy", *options) == [0, 2]
    first, second = full(virtual, queue), full(virtual, other)
    assert first[b"id"] != second[b"id"]
    for found in (first, second):
        assert len(as_bytes(found[b"id"])) == 32
        assert as_dict(found[b"headers"]) == {b"h": b"2", b"topic": topic.encode()}
        assert found[b"attachments"] == [b"\xff", b""]
        assert (found[b"body"], found[b"attempt"], found[b"priority"]) == (b"b\x00dy", 1, 0)
    virtual.integer("PUBLISH", topic, "plain")
    found = full(virtual, queue)
    assert (as_dict(found[b"headers"]), found[b"attachments"]) == ({b"topic": topic.encode()}, [])


def test_one_copy_for_each_queue(conn: Conn, queue: str) -> None:
    """However many of its bindings match; binding again or removing one of several changes nothing."""
    conn.ok("QDECLARE", queue)
    for pattern in (f"{queue}.#", f"{queue}.*", f"{queue}.x", "#.x", "*.*.x"):
        conn.integer("QBIND", pattern, queue)
    assert conn.cmd("QPUBLISH", f"{queue}.x", "1") == [0, 1]
    conn.integer("QUNBIND", f"{queue}.*", queue)
    assert conn.cmd("QPUBLISH", f"{queue}.x", "2") == [0, 1]
    assert peeked_bodies(conn, queue) == [b"1", b"2"]


def test_two_events_alike_are_two_messages(conn: Conn, queue: str) -> None:
    """A copy is never a duplicate of another."""
    conn.ok("QDECLARE", queue, "DEDUPE", "1h")
    conn.integer("QBIND", queue, queue)
    assert conn.pipeline([("PUBLISH", queue, "same")] * 3) == [1, 1, 1]
    assert len({as_bytes(one[b"id"]) for one in peek(conn, queue)}) == 3


@pytest.mark.parametrize("taker", ["waiter", "consumer"])
def test_a_copy_wakes_who_waits(taker: str, connect: Connect, conn: Conn, queue: str) -> None:
    """As a put does."""
    conn.ok("QDECLARE", queue)
    conn.integer("QBIND", queue, queue)
    a = connect(resp=3)
    if taker == "waiter":
        block(a, conn, queue)
    else:
        consume(a, queue)
    assert conn.integer("PUBLISH", queue, "m") == 1
    if taker == "waiter":
        assert bodies(deliveries(a.read())) == [b"m"]
    else:
        assert delivered_bodies(a) == [b"m"]


def test_copies_obey_the_queue_s_time_to_live(virtual: Conn, queue: str) -> None:
    """They die like other messages that wait too long."""
    virtual.ok("QDECLARE", queue, "TTL", "10s")
    virtual.integer("QBIND", queue, queue)
    virtual.integer("PUBLISH", queue, "m")
    advance(virtual, "9999ms")
    assert counts(virtual, queue, "ready", "dead") == (1, 0)
    advance(virtual, "1ms")
    assert counts(virtual, queue, "ready", "dead") == (0, 1)


# -- Limits


def test_a_full_queue_loses_the_copy_and_stops_nobody(connect: Connect, conn: Conn, queue: str) -> None:
    """REJECT: the copy is lost and counted, others get theirs, and the publisher is told who took it."""
    other, a = f"{queue}.other", connect()
    conn.ok("QDECLARE", queue, "MAXLEN", 2)
    conn.ok("QDECLARE", other)
    for name in (queue, other):
        conn.integer("QBIND", queue, name)
    subscribe(a, queue)
    before = broker(conn, "binding_drops")
    assert conn.pipeline([("PUBLISH", queue, n) for n in range(5)]) == [3, 3, 2, 2, 2]
    assert broker(conn, "binding_drops") == before + 3
    assert peeked_bodies(conn, queue) == [b"0", b"1"]
    assert peeked_bodies(conn, other) == [b"0", b"1", b"2", b"3", b"4"]
    assert [event(value).body for value in arrived(a)] == [b"0", b"1", b"2", b"3", b"4"]
    found = lease_one(conn, queue)
    assert conn.cmd("QPUBLISH", queue, "5") == [1, 2]
    assert conn.cmd("QPUBLISH", queue, "6") == [1, 1]
    assert conn.integer("QACK", queue, found.lease) == 1
    assert counts(conn, queue, "ready", "enqueued", "dead") == (2, 3, 0)


def test_a_queue_that_drops_its_head_takes_the_copy(conn: Conn, queue: str) -> None:
    """DROPHEAD: the oldest dies, counted and kept as at a put; nothing is lost uncounted."""
    conn.ok("QDECLARE", queue, "MAXLEN", 2, "OVERFLOW", "DROPHEAD", "MAXDEAD", 2)
    conn.integer("QBIND", queue, queue)
    before = broker(conn, "binding_drops")
    assert conn.pipeline([("PUBLISH", queue, n) for n in range(6)]) == [1] * 6
    assert broker(conn, "binding_drops") == before
    assert peeked_bodies(conn, queue) == [b"4", b"5"]
    assert dead_bodies(conn, queue) == [b"2", b"3"]
    assert counts(conn, queue, "dead", "dead_lettered", "dead_dropped") == (2, 4, 2)


def test_exchange_copies_obey_the_limits_too(conn: Conn, queue: str) -> None:
    """A full queue loses the exchange's copy, and the same number counts it."""
    conn.ok("QDECLARE", queue, "MAXLEN", 1)
    conn.ok("EXCHANGE", "DECLARE", queue, "FANOUT")
    conn.integer("EXCHANGE", "BIND", queue, queue)
    before = broker(conn, "binding_drops")
    assert [conn.integer("EXCHANGE", "PUBLISH", queue, "", n) for n in range(3)] == [1, 0, 0]
    assert broker(conn, "binding_drops") == before + 2
    assert peeked_bodies(conn, queue) == [b"0"]


def test_announcements_obey_the_limits_too(virtual: Conn, queue: str) -> None:
    """`$sys.dead.` copies into a full queue are lost and counted; dead letters above MAXDEAD as well."""
    other = f"{queue}.other"
    virtual.ok("QDECLARE", queue, "MAXDEAD", 3)
    virtual.ok("QDECLARE", other, "MAXLEN", 2)
    virtual.integer("QBIND", f"$sys.dead.{queue}", other)
    before = broker(virtual, "binding_drops")
    for n in range(7):
        put(virtual, queue, n, "TTL", "1s")
    advance(virtual, "1s")
    assert counts(virtual, other, "ready", "enqueued") == (2, 2)
    assert broker(virtual, "binding_drops") == before + 5
    assert counts(virtual, queue, "dead", "dead_lettered", "dead_dropped") == (3, 7, 4)


def test_a_message_that_is_too_big_is_copied_nowhere(connect: Connect, conn: Conn, queue: str) -> None:
    """-TOOBIG before anybody gets it."""
    a = connect()
    conn.ok("QDECLARE", queue)
    conn.integer("QBIND", queue, queue)
    subscribe(a, queue)
    half = b"x" * (9 << 20)
    assert conn.error("QPUBLISH", queue, half, "ATTACH", half).code == b"TOOBIG"
    assert stat(conn, queue, "ready") == 0
    assert arrived(a) == []


@pytest.mark.parametrize("extra", [(), ("HEADER", "h", "v"), ("ATTACH", "a")], ids=["bare", "header", "attachment"])
def test_subscribers_get_the_body_alone(extra: Sequence[Arg], connect: Connect, conn: Conn, queue: str) -> None:
    """Headers and attachments are for queues; a subscriber's frame is Redis'."""
    a = connect()
    subscribe(a, queue)
    assert conn.cmd("QPUBLISH", queue, "x", *extra) == [1, 0]
    assert arrived(a) == [[b"message", queue.encode(), b"x"]]


def test_a_chain_of_copies_ends(virtual_server: ServerProcess, connect: Connect, virtual: Conn, queue: str) -> None:
    """Two full queues that each take the other's announcements: one put, bounded work, one announcement a message."""
    names = [f"{queue}.a", f"{queue}.b"]
    size = 1000
    for name in names:
        virtual.ok("QDECLARE", name, "MAXLEN", size, "OVERFLOW", "DROPHEAD", "MAXDEAD", 10 * size)
        virtual.array("QMPUT", name, *(f"{name} {n}" for n in range(size)))
    virtual.ok("QDECLARE", queue, "MAXLEN", 10 * size)
    for name, other in (names, names[::-1]):
        virtual.integer("QBIND", f"$sys.dead.{other}", name)
        virtual.integer("QBIND", f"$sys.dead.{name}", queue)
    put(virtual, names[0], "one more", "ID", "one")
    other_client = connect(virtual_server)
    assert other_client.raw("PING") == b"+PONG\r\n"
    for name in names:
        assert stat(virtual, name, "ready") == size
    originals: list[bytes] = []
    for name in names:
        originals += [
            as_bytes(fields[b"id"])
            for fields in dead_letters(virtual, name)
            if b"topic" not in as_dict(fields[b"headers"])
        ]
    announced = [one.body for one in lease(virtual, queue, "COUNT", 100 * size)]
    assert len(originals) == len(set(originals)) == len(announced) <= 2 * size + 1
    assert all(any(message_id in body for body in announced) for message_id in originals[:50])
