"""QCONSUME: tags, pushes, credit on every path that frees a slot, and the line that consumers and waiters stand in."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest

from tests.support import (
    Arg,
    Conn,
    Connect,
    Push,
    ServerProcess,
    Simple,
    advance,
    as_bytes,
    as_dict,
    as_int,
    block,
    bodies,
    counts,
    deliveries,
    encode,
    lease,
    put,
    put_all,
    start_server,
    stat,
)
from tests.support.events import (
    Pushed,
    arrived,
    consume,
    delivered,
    delivered_bodies,
    event,
    items,
    let_go,
    pushed,
    subscribe,
)

both_protocols = pytest.mark.parametrize("resp", [2, 3], ids=["resp2", "resp3"])


@pytest.fixture(autouse=True)
def _nothing_is_left(open_connections: list[Conn]) -> Iterator[None]:
    yield
    let_go(open_connections)


@pytest.fixture
def consumer(virtual_server: ServerProcess, connect: Connect) -> Callable[[], Conn]:
    """Opens RESP3 connections to the server with the virtual clock."""
    return lambda: connect(virtual_server, resp=3)


# -- Tags and frames


def test_tags_are_unique_across_queues(fresh_server: ServerProcess, connect: Connect) -> None:
    """ctag-1, ctag-2 and so on, for the whole server, never used again."""
    a, b = connect(fresh_server, resp=3), connect(fresh_server, resp=3)
    for name in ("q", "r"):
        a.ok("QDECLARE", name)
    assert [consume(a, "q"), consume(a, "r"), consume(b, "q"), consume(a, "q")] == [b"ctag-%d" % n for n in range(1, 5)]
    assert a.integer("QCANCEL", "ctag-4") == 0
    b.close()
    assert consume(a, "r") == b"ctag-5"


@both_protocols
def test_frames(resp: int, connect: Connect, conn: Conn, queue: str) -> None:
    """The tag as a bulk string, then what is ready, then what becomes ready: RESP3 pushes, RESP2 arrays."""
    conn.ok("QDECLARE", queue)
    first = put(conn, queue, "one")
    a = connect(resp=resp)
    tag = a.raw("QCONSUME", queue)
    size, name, _ = tag.split(b"\r\n")
    assert size == b"$%d" % len(name)
    assert name.startswith(b"ctag-")
    value = a.read()
    assert isinstance(value, Push) is (resp == 3)
    found = pushed(value)
    assert found == Pushed(name, queue.encode(), first, found.lease, 1, b"one")
    second = put(conn, queue, b"\x00\xff")
    found = pushed(a.read())
    assert found == Pushed(name, queue.encode(), second, found.lease, 1, b"\x00\xff")
    assert conn.integer("QACK", queue, found.lease) == 1
    assert arrived(a) == []


@both_protocols
def test_full_deliveries(resp: int, virtual_server: ServerProcess, virtual: Conn, connect: Connect, queue: str) -> None:
    """With FULL: the tag and the map of QLEASE's FULL."""
    virtual.ok("QDECLARE", queue, "ACKTIMEOUT", "7s")
    put(virtual, queue, "m", "ID", "k", "PRIORITY", -3, "HEADER", "h", "v", "ATTACH", b"\xff", "ATTACH", "")
    a = connect(virtual_server, resp=resp)
    tag = consume(a, queue, "FULL", "PREFETCH", 5)
    kind, its, value = items(a.read())
    assert (kind, its) == (b"deliver", tag)
    fields = as_dict(value)
    assert set(fields) == {
        *(b"queue", b"id", b"lease", b"attempt", b"body", b"headers", b"attachments", b"priority", b"enqueued_at"),
        b"deadline",
    }
    assert (fields[b"queue"], fields[b"id"], fields[b"body"]) == (queue.encode(), b"k", b"m")
    assert (fields[b"attempt"], fields[b"priority"], fields[b"attachments"]) == (1, -3, [b"\xff", b""])
    assert as_dict(fields[b"headers"]) == {b"h": b"v"}
    assert as_int(fields[b"deadline"]) == as_int(fields[b"enqueued_at"]) + 7000
    assert virtual.integer("QACK", queue, as_bytes(fields[b"lease"])) == 1


def test_mistakes(conn: Conn, queue: str) -> None:
    """Each is named, and there is no consumer afterwards."""
    assert conn.error("QCONSUME", queue).text == f"NOQUEUE no such queue '{queue}'".encode()
    assert conn.error("QCONSUME", "no..name").code == b"INVALIDNAME"
    conn.ok("QDECLARE", queue)
    for options, word in (
        (("PREFETCH",), b"PREFETCH"),
        (("PREFETCH", 0), b"PREFETCH"),
        (("PREFETCH", -1), b"PREFETCH"),
        (("PREFETCH", "x"), b"PREFETCH"),
        (("PREFETCH", "1.5"), b"PREFETCH"),
        (("FOO",), b"FOO"),
        (("COUNT", 3), b"COUNT"),
    ):
        arguments: list[Arg] = list(options)
        error = conn.error("QCONSUME", queue, *arguments)
        assert error.code == b"ERR", options
        assert word in error.text.upper(), options
    assert conn.error("QCONSUME").code == b"ERR"
    assert conn.error("QCANCEL").code == b"ERR"
    assert stat(conn, queue, "consumers") == 0
    assert conn.raw("ECHO", "still free") == b"$10\r\nstill free\r\n"


def test_only_its_own_connection_may_cancel(connect: Connect, conn: Conn, queue: str) -> None:
    """An error for any other, and for a tag that is not there or no more."""
    conn.ok("QDECLARE", queue)
    a = connect(resp=3)
    tag = consume(a, queue)
    assert tag in conn.error("QCANCEL", tag).text
    assert stat(conn, queue, "consumers") == 1
    assert conn.error("QCANCEL", "ctag-999999999").code == b"ERR"
    assert a.integer("QCANCEL", tag) == 0
    assert a.error("QCANCEL", tag).code == b"ERR"
    assert stat(conn, queue, "consumers") == 0


def test_auto_declare(connect: Connect) -> None:
    """With that option QCONSUME declares the queue with the defaults."""
    with start_server("--auto-declare", "yes") as server:
        a, b = connect(server, resp=3), connect(server)
        consume(a, "new")
        b.ok("QDECLARE", "new")
        put(b, "new", "m")
        assert delivered_bodies(a) == [b"m"]


# -- Credit


def test_prefetch_is_ten_by_default(conn: Conn, connect: Connect, queue: str) -> None:
    """At most PREFETCH unsettled ones; each one settled makes room for one."""
    conn.ok("QDECLARE", queue)
    put_all(conn, queue, range(30))
    a = connect(resp=3)
    consume(a, queue)
    found = delivered(a)
    assert [one.body for one in found] == [b"%d" % n for n in range(10)]
    assert counts(conn, queue, "ready", "in_flight", "delivered") == (20, 10, 10)
    assert conn.integer("QACK", queue, *(one.lease for one in found[:3])) == 3
    assert delivered_bodies(a) == [b"10", b"11", b"12"]
    assert a.integer("QACK", queue, found[3].lease, found[3].lease) == 1
    assert delivered_bodies(a) == [b"13"]


def with_one_slot(virtual: Conn, a: Conn, queue: str, *options: Arg) -> Pushed:
    """A consumer with PREFETCH 1 that holds `held`, while `next` is ready behind it."""
    virtual.ok("QDECLARE", queue, "RETRYDELAY", "100s", "MAXRETRYDELAY", "100s", *options)
    put(virtual, queue, "held", "ID", "held")
    consume(a, queue, "PREFETCH", 1)
    put(virtual, queue, "next")
    (held,) = delivered(a)
    assert held.body == b"held"
    return held


FREES: dict[str, Callable[[Conn, str, Pushed], object]] = {
    "ack": lambda conn, queue, held: conn.integer("QACK", queue, held.lease),
    "nack": lambda conn, queue, held: conn.integer("QNACK", queue, held.lease),
    "nack with a delay": lambda conn, queue, held: conn.integer("QNACK", queue, held.lease, "DELAY", "50s"),
    "reject": lambda conn, queue, held: conn.integer("QNACK", queue, held.lease, "REJECT"),
    "release with a delay": lambda conn, queue, held: conn.integer(
        "QNACK", queue, held.lease, "RELEASE", "DELAY", "9s"
    ),
    "delete": lambda conn, queue, held: conn.integer("QDEL", queue, held.id),
    "expiry": lambda conn, queue, held: advance(conn, "30s"),
}


@pytest.mark.parametrize("how", FREES)
def test_whatever_ends_a_lease_frees_its_slot(
    how: str, virtual: Conn, consumer: Callable[[], Conn], queue: str
) -> None:
    """One slot, one message: the next one comes at once, and only that one."""
    a = consumer()
    held = with_one_slot(virtual, a, queue)
    put(virtual, queue, "one more")
    FREES[how](virtual, queue, held)
    assert delivered_bodies(a) == [b"next"]
    assert stat(virtual, queue, "in_flight") == 1


def test_a_released_message_comes_back_uncounted(virtual: Conn, consumer: Callable[[], Conn], queue: str) -> None:
    """RELEASE without a delay: it stands where it stood, and comes again as attempt 1 with a new lease."""
    a = consumer()
    held = with_one_slot(virtual, a, queue)
    virtual.integer("QNACK", queue, held.lease, "RELEASE")
    (again,) = delivered(a)
    assert (again.body, again.attempt) == (b"held", 1)
    assert again.lease != held.lease
    assert virtual.integer("QACK", queue, held.lease) == 0
    assert virtual.integer("QACK", queue, again.lease) == 1
    assert delivered_bodies(a) == [b"next"]


def test_what_settles_nothing_frees_nothing(virtual: Conn, consumer: Callable[[], Conn], queue: str) -> None:
    """Touching, a stale or foreign lease, a purge, and messages that others lease, leave the slot in use."""
    a = consumer()
    held = with_one_slot(virtual, a, queue)
    virtual.ok("QDECLARE", f"{queue}.other")
    assert virtual.integer("QTOUCH", queue, held.lease, "FOR", "1h") == 1
    assert virtual.integer("QACK", queue, "nonsense", held.lease[:-1]) == 0
    assert virtual.integer("QACK", f"{queue}.other", held.lease) == 0
    advance(virtual, "59m")
    (other,) = lease(virtual, queue)
    assert other.body == b"next"
    assert virtual.integer("QACK", queue, other.lease) == 1
    put_all(virtual, queue, range(3))
    assert virtual.integer("QPURGE", queue) == 3
    put(virtual, queue, "last")
    assert delivered_bodies(a) == []
    assert virtual.integer("QACK", queue, held.lease) == 1
    assert delivered_bodies(a) == [b"last"]


def test_an_expired_lease_frees_its_slot_once(virtual: Conn, consumer: Callable[[], Conn], queue: str) -> None:
    """It is freed when the lease ends; the late ack still counts, but makes no more room."""
    a = consumer()
    held = with_one_slot(virtual, a, queue)
    put(virtual, queue, "one more")
    advance(virtual, "30s")
    (following,) = delivered(a)
    assert following.body == b"next"
    assert virtual.integer("QACK", queue, held.lease) == 1
    assert delivered_bodies(a) == []
    assert virtual.integer("QACK", queue, following.lease) == 1
    assert delivered_bodies(a) == [b"one more"]
    assert counts(virtual, queue, "in_flight", "delayed", "acked") == (1, 0, 2)


def test_what_dies_in_the_queue_takes_no_slot(virtual: Conn, consumer: Callable[[], Conn], queue: str) -> None:
    """A time to live that ends before there is room; the clock of the held one doesn't run."""
    a = consumer()
    held = with_one_slot(virtual, a, queue, "TTL", "10s", "ACKTIMEOUT", "1h")
    advance(virtual, "20s")
    assert counts(virtual, queue, "ready", "dead", "in_flight") == (0, 1, 1)
    put(virtual, queue, "later")
    assert virtual.integer("QACK", queue, held.lease) == 1
    assert delivered_bodies(a) == [b"later"]


def test_a_delayed_message_takes_no_slot(virtual: Conn, consumer: Callable[[], Conn], queue: str) -> None:
    """Neither before its first delivery nor while it waits for the next attempt; it comes when it is due."""
    virtual.ok("QDECLARE", queue, "RETRYDELAY", "5s", "ACKTIMEOUT", "1h")
    a = consumer()
    consume(a, queue, "PREFETCH", 2)
    put(virtual, queue, "late", "DELAY", "5s")
    put_all(virtual, queue, ["a", "b", "c"])
    first, second = delivered(a)
    assert (first.body, second.body) == (b"a", b"b")
    virtual.integer("QNACK", queue, first.lease)
    (third,) = delivered(a)
    assert third.body == b"c"
    virtual.integer("QACK", queue, second.lease, third.lease)
    advance(virtual, "4999ms")
    assert delivered_bodies(a) == []
    advance(virtual, "1ms")
    assert [(one.body, one.attempt) for one in delivered(a)] == [(b"late", 1), (b"a", 2)]


def test_a_lease_begins_with_its_delivery(virtual: Conn, consumer: Callable[[], Conn], queue: str) -> None:
    """PREFETCH 10, ACKTIMEOUT 1 s, 300 ms of work each: what isn't settled in time is handed out again, once each."""
    virtual.ok("QDECLARE", queue, "ACKTIMEOUT", "1s", "RETRYDELAY", 0)
    a = consumer()
    consume(a, queue, "PREFETCH", 10)
    advance(virtual, "1h")
    put_all(virtual, queue, range(12))
    acked: list[int] = []
    work = delivered(a)
    for one in work:
        advance(virtual, "300ms" if len(acked) < 4 else "1ms")
        acked.append(virtual.integer("QACK", queue, one.lease))
    assert acked == [1] * 3 + [0] * 7
    again = delivered(a)
    assert [(one.body, one.attempt) for one in again] == [
        (b"10", 1),
        (b"11", 1),
        *((b"%d" % n, 2) for n in range(3, 10)),
    ]
    assert counts(virtual, queue, "in_flight", "expired_leases", "acked") == (9, 7, 3)
    assert virtual.integer("QACK", queue, *(one.lease for one in again)) == 9
    assert counts(virtual, queue, "ready", "delayed", "in_flight", "dead") == (0, 0, 0, 0)


def test_each_consumer_has_its_own_credit(virtual: Conn, consumer: Callable[[], Conn], queue: str) -> None:
    """Two on one connection and on different queues: settling for one makes room for that one."""
    other = f"{queue}.other"
    for name in (queue, other):
        virtual.ok("QDECLARE", name)
    a = consumer()
    tags = [consume(a, queue, "PREFETCH", 1), consume(a, queue, "PREFETCH", 2), consume(a, other, "PREFETCH", 1)]
    put_all(virtual, queue, range(6))
    put_all(virtual, other, ["x", "y"])
    held = delivered(a)
    assert sorted((one.tag, one.body) for one in held) == sorted(
        [(tags[0], b"0"), (tags[1], b"1"), (tags[1], b"2"), (tags[2], b"x")]
    )
    assert virtual.integer("QACK", queue, *(one.lease for one in held if one.tag == tags[1])) == 2
    assert [(one.tag, one.body) for one in delivered(a)] == [(tags[1], b"3"), (tags[1], b"4")]
    assert virtual.integer("QACK", other, *(one.lease for one in held if one.tag == tags[2])) == 1
    assert [(one.tag, one.body) for one in delivered(a)] == [(tags[2], b"y")]


# -- The line


def test_consumers_and_waiters_stand_in_one_line(virtual: Conn, consumer: Callable[[], Conn], queue: str) -> None:
    """The head is served; a waiter leaves the line then, a consumer goes to the back."""
    virtual.ok("QDECLARE", queue)
    first, waiter, second, late = (consumer() for _ in range(4))
    consume(first, queue, "PREFETCH", 2)
    block(waiter, virtual, queue)
    consume(second, queue, "PREFETCH", 100)
    assert counts(virtual, queue, "consumers", "waiters") == (2, 1)
    put_all(virtual, queue, range(5))
    block(late, virtual, queue)
    put_all(virtual, queue, [5, 6])
    assert bodies(deliveries(waiter.read())) == [b"1"]
    held = delivered(first)
    assert [one.body for one in held] == [b"0", b"3"], "no more than its PREFETCH"
    assert delivered_bodies(second) == [b"2", b"4", b"5"]
    assert bodies(deliveries(late.read())) == [b"6"]
    assert virtual.integer("QACK", queue, held[0].lease) == 1
    put_all(virtual, queue, [7, 8, 9])
    assert delivered_bodies(first) == [b"8"]
    assert delivered_bodies(second) == [b"7", b"9"]


def test_a_backlog_is_shared_among_those_who_have_room(virtual: Conn, consumer: Callable[[], Conn], queue: str) -> None:
    """Four consumers: each gets every fourth message; one that is full is passed over and joins at the back again."""
    virtual.ok("QDECLARE", queue)
    four = [consumer() for _ in range(4)]
    for one in four:
        consume(one, queue, "PREFETCH", 10)
    put_all(virtual, queue, range(100))
    held = [delivered(one) for one in four]
    assert [[int(got.body) for got in got_by_one] for got_by_one in held] == [list(range(n, 40, 4)) for n in range(4)]
    for n in (2, 0):
        assert virtual.integer("QACK", queue, *(got.lease for got in held[n][:5])) == 5
    assert [len(delivered(one)) for one in four] == [5, 0, 5, 0]


def test_a_waiter_on_two_queues_and_consumers(virtual: Conn, consumer: Callable[[], Conn], queue: str) -> None:
    """Whoever came first to a queue is served first there; one served elsewhere is out of all lines."""
    other = f"{queue}.other"
    for name in (queue, other):
        virtual.ok("QDECLARE", name)
    waiter, a = consumer(), consumer()
    waiter.start("QLEASE", queue, other, "WAIT", 0)
    consume(a, queue)
    consume(a, other)
    put(virtual, other, "1")
    put(virtual, queue, "2")
    put(virtual, other, "3")
    assert bodies(deliveries(waiter.read())) == [b"1"]
    assert delivered_bodies(a) == [b"2", b"3"]


def test_a_queue_is_drained_in_its_order(virtual: Conn, consumer: Callable[[], Conn], queue: str) -> None:
    """Consumers get the most urgent first, then first in, first out."""
    virtual.ok("QDECLARE", queue)
    for n, priority in enumerate([5, 0, -1, 5, 0, -1]):
        put(virtual, queue, n, "PRIORITY", priority)
    a = consumer()
    consume(a, queue)
    assert delivered_bodies(a) == [b"2", b"5", b"1", b"4", b"0", b"3"]


def test_unblock_of_a_consumer_s_connection_does_nothing(connect: Connect, conn: Conn, queue: str) -> None:
    """It isn't blocked: 0, and it goes on."""
    conn.ok("QDECLARE", queue)
    a = connect(resp=3)
    number = a.id()
    consume(a, queue)
    assert conn.integer("CLIENT", "UNBLOCK", number) == 0
    assert conn.integer("CLIENT", "UNBLOCK", number, "ERROR") == 0
    put(conn, queue, "m")
    assert delivered_bodies(a) == [b"m"]


def test_replies_may_be_switched_off(connect: Connect, conn: Conn, queue: str) -> None:
    """CLIENT REPLY OFF silences replies, never deliveries or events."""
    conn.ok("QDECLARE", queue)
    a = connect(resp=3)
    consume(a, queue)
    subscribe(a, queue)
    a.send(encode("CLIENT", "REPLY", "OFF") + encode("QPUT", queue, "1") + encode("PUBLISH", queue, "e"))
    assert pushed(a.read()).body == b"1"
    assert event(a.read()).body == b"e"
    put(conn, queue, "2")
    assert pushed(a.read()).body == b"2"
    a.send(encode("QPUT", queue, "3") + encode("CLIENT", "REPLY", "ON"))
    assert pushed(a.read()).body == b"3"
    assert a.read() == Simple(b"OK")
