"""QLEASE that waits: who is served, when a wait ends, and what becomes of a message when its waiter goes away."""

from __future__ import annotations

import selectors
import time
from collections.abc import Callable

import pytest

from tests.support import (
    Arg,
    Conn,
    Connect,
    Error,
    ServerProcess,
    advance,
    block,
    bodies,
    counts,
    deliveries,
    encode,
    info,
    lease,
    lease_one,
    put,
    put_all,
    settle,
    start_server,
    stat,
    stats,
    wait_for_waiters,
    wait_until,
)

# -- Orphans

LEAVE = pytest.mark.parametrize("leave", [Conn.close, Conn.reset], ids=["fin", "rst"])


@LEAVE
@pytest.mark.parametrize("behind", [b"", encode("PING") * 100, encode("QPUT", "x", b"y" * 10_000)], ids=len)
def test_a_waiter_that_left_takes_no_message_with_it(
    leave: Callable[[Conn], None], behind: bytes, connect: Connect, conn: Conn, queue: str
) -> None:
    """A waits and leaves, also with commands still unread behind; the next put goes to B at once, as attempt 1."""
    conn.ok("QDECLARE", queue)
    for n in range(30):
        a = connect()
        block(a, conn, queue)
        a.send(behind)
        leave(a)
        put(conn, queue, str(n))
        found = lease_one(conn, queue)
        assert (found.body, found.attempt) == (str(n).encode(), 1)
        assert conn.integer("QACK", queue, found.lease) == 1
    assert counts(conn, queue, "waiters", "in_flight", "ready", "retried") == (0, 0, 0, 0)


@LEAVE
def test_a_waiter_that_left_stands_in_nobody_s_way(
    leave: Callable[[Conn], None], connect: Connect, conn: Conn, queue: str
) -> None:
    """Twenty waiters leave in front of one that stays: the first message is its."""
    conn.ok("QDECLARE", queue)
    gone = [connect() for _ in range(20)]
    for one in gone:
        block(one, conn, queue)
    stays = connect()
    block(stays, conn, queue)
    for one in gone:
        leave(one)
    put(conn, queue, "m")
    (found,) = deliveries(stays.read())
    assert (found.body, found.attempt) == (b"m", 1)
    wait_for_waiters(conn, queue, 0)


def test_a_client_killed_while_it_waits_takes_no_message_with_it(connect: Connect, conn: Conn, queue: str) -> None:
    """CLIENT KILL of a waiter, then a put in the same write."""
    conn.ok("QDECLARE", queue)
    a = connect()
    number = a.id()
    block(a, conn, queue)
    killed, _, found = conn.pipeline([("CLIENT", "KILL", "ID", number), ("QPUT", queue, "m"), ("QLEASE", queue)])
    assert killed == 1
    assert [(one.body, one.attempt) for one in deliveries(found)] == [(b"m", 1)]
    assert a.at_eof()


# -- How long


@pytest.mark.parametrize("wait", ["0.001", "0.0004", "0.0000001", "1ms", "0.5ms", "0.000000000000000001s"])
def test_a_small_wait_ends(wait: str, conn: Conn, queue: str) -> None:
    """What is above 0 never rounds to 0: the wait ends by itself."""
    conn.ok("QDECLARE", queue)
    assert lease(conn, queue, "WAIT", wait) == []


@pytest.mark.parametrize("wait", ["0.0004", "0.0000001", "0.1ms", "0.001"])
def test_a_wait_below_a_millisecond_is_one_millisecond(
    wait: str, virtual: Conn, virtual_server: ServerProcess, connect: Connect, queue: str
) -> None:
    """It neither returns without waiting nor waits for ever."""
    virtual.ok("QDECLARE", queue)
    a = connect(virtual_server)
    block(a, virtual, queue, "WAIT", wait)
    assert a.pending() == b""
    advance(virtual, "1ms")
    assert a.read_raw() == b"*0\r\n"


@pytest.mark.parametrize("wait", ["0", "0.0", "0s", "0ms", "0d"])
def test_a_wait_of_exactly_0_is_for_ever(
    wait: str, virtual: Conn, virtual_server: ServerProcess, connect: Connect, queue: str
) -> None:
    """It doesn't return empty, not after a year either, and is served by the next put."""
    virtual.ok("QDECLARE", queue)
    a = connect(virtual_server)
    block(a, virtual, queue, "WAIT", wait)
    advance(virtual, "365d")
    assert stat(virtual, queue, "waiters") == 1
    assert a.pending() == b""
    put(virtual, queue, "m")
    assert bodies(deliveries(a.read())) == [b"m"]


def test_without_wait_nothing_waits(conn: Conn, queue: str) -> None:
    """QLEASE without WAIT answers at once."""
    conn.ok("QDECLARE", queue)
    assert lease(conn, queue) == []


@pytest.mark.parametrize(
    "wait",
    [
        *("-1", "-0", "+1", "1e3", "nan", "inf", "", " 1", "1 ", "1 s", "1S", "1MS", "1us", "0x1", "1_0", "1,5", "s"),
        *(".5", "5.", "1.2.3", "1ss", "3651d", "87601h", "9" * 30, "\N{ARABIC-INDIC DIGIT ONE}", "1\x00"),
    ],
)
def test_what_is_no_duration_is_refused(wait: str, conn: Conn, queue: str) -> None:
    """Digits with an optional fraction and a lower-case unit, up to 3650d; anything else is an error and waits not."""
    conn.ok("QDECLARE", queue)
    assert conn.error("QLEASE", queue, "WAIT", wait).text.startswith(b"ERR invalid duration")
    assert stat(conn, queue, "waiters") == 0


@pytest.mark.parametrize("zero", ["0", "0.0", "0ms"])
def test_durations_that_must_not_be_0(zero: str, virtual: Conn, queue: str) -> None:
    """LEASE, TTL, FOR, ACKTIMEOUT and MAXRETRYDELAY are above 0; a refused command changes nothing."""
    for option in ("ACKTIMEOUT", "MAXRETRYDELAY", "TTL"):
        assert virtual.error("QDECLARE", queue, option, zero).code == b"ERR", option
    assert virtual.error("QSTATS", queue).code == b"NOQUEUE"
    virtual.ok("QDECLARE", queue, "RETRYDELAY", zero, "DEDUPE", zero)
    virtual.error("QPUT", queue, "m", "TTL", zero)
    assert stat(virtual, queue, "enqueued") == 0
    put(virtual, queue, "m", "DELAY", zero)
    virtual.error("QLEASE", queue, "LEASE", zero)
    found = lease_one(virtual, queue)
    virtual.error("QTOUCH", queue, found.lease, "FOR", zero)
    assert virtual.integer("QNACK", queue, found.lease, "DELAY", zero) == 1
    assert stat(virtual, queue, "ready") == 1


def test_each_wait_ends_at_its_own_moment(
    virtual: Conn, virtual_server: ServerProcess, connect: Connect, queue: str
) -> None:
    """100 waits of 10, 20, 30 ... ms: with each step of the clock exactly one ends, the one whose time it is."""
    virtual.ok("QDECLARE", queue)
    waiting = [connect(virtual_server) for _ in range(100)]
    order = [(7 * n) % 100 for n in range(100)]
    for n in order:
        block(waiting[n], virtual, queue, "WAIT", f"{10 * (n + 1)}ms")
    for n in range(100):
        advance(virtual, "9ms")
        assert stat(virtual, queue, "waiters") == 100 - n
        advance(virtual, "1ms")
        assert waiting[n].read_raw() == b"*0\r\n"
        assert stat(virtual, queue, "waiters") == 99 - n


def test_waits_that_began_apart_end_apart(connect: Connect, conn: Conn, queue: str) -> None:
    """On the real clock: 300 clients that began over some time end over about the same time, not in one bunch."""
    conn.ok("QDECLARE", queue)
    clients = [connect() for _ in range(300)]
    began: dict[Conn, float] = {}
    ended: dict[Conn, float] = {}
    with selectors.DefaultSelector() as selector:
        for one in clients:
            selector.register(one.sock, selectors.EVENT_READ, one)
            began[one] = time.monotonic()
            one.start("QLEASE", queue, "WAIT", "0.5")
            conn.pipeline([("PING",)] * 100)
        while len(ended) < len(clients):
            ready = selector.select(timeout=10)
            assert ready, "a wait never ended"
            for key, _ in ready:
                selector.unregister(key.fileobj)
                ended[key.data] = time.monotonic()
    assert all(one.read() == [] for one in clients)
    early = [0.5 - (ended[one] - began[one]) for one in clients]
    assert max(early) < 0.002, "nobody is sent away early, but for the millisecond that clocks are read in"
    assert list(ended) == sorted(ended, key=lambda one: ended[one])
    spread_of_starts = max(began.values()) - min(began.values())
    assert max(ended.values()) - min(ended.values()) > spread_of_starts / 2


# -- Who is served


def test_waiters_are_served_in_the_order_in_which_they_came(connect: Connect, conn: Conn, queue: str) -> None:
    """Clients 1 to 20 block in turn: client i gets message i."""
    conn.ok("QDECLARE", queue)
    waiting = [connect() for _ in range(20)]
    for one in waiting:
        block(one, conn, queue)
    put_all(conn, queue, [str(n) for n in range(20)])
    assert [bodies(deliveries(one.read())) for one in waiting] == [[str(n).encode()] for n in range(20)]


def test_who_timed_out_and_waits_again_stands_at_the_back(
    virtual: Conn, virtual_server: ServerProcess, connect: Connect, queue: str
) -> None:
    """A lost its place when its wait ended."""
    virtual.ok("QDECLARE", queue)
    a, b = connect(virtual_server), connect(virtual_server)
    block(a, virtual, queue, "WAIT", "1s")
    block(b, virtual, queue)
    advance(virtual, "1s")
    assert a.read() == []
    block(a, virtual, queue)
    put_all(virtual, queue, ["first", "second"])
    assert bodies(deliveries(b.read())) == [b"first"]
    assert bodies(deliveries(a.read())) == [b"second"]


def test_a_waiter_on_several_queues_keeps_its_place_in_each(connect: Connect, conn: Conn, queue: str) -> None:
    """One line a queue, in the order of arrival; who was served elsewhere has left all its lines."""
    other = queue + ".other"
    for name in (queue, other):
        conn.ok("QDECLARE", name)
    a, b, c = connect(), connect(), connect()
    a.start("QLEASE", queue, other, "WAIT", 0)
    wait_for_waiters(conn, other, 1)
    block(b, conn, other)
    block(c, conn, queue)
    put(conn, other, "1")
    put(conn, queue, "2")
    put(conn, other, "3")
    assert [bodies(deliveries(one.read())) for one in (a, c, b)] == [[b"1"], [b"2"], [b"3"]]
    assert (stat(conn, queue, "waiters"), stat(conn, other, "waiters")) == (0, 0)


def test_queues_are_tried_in_the_order_given(conn: Conn, queue: str) -> None:
    """The first queue named that has something is drained before the next is looked at."""
    other = queue + ".other"
    for name in (queue, other):
        conn.ok("QDECLARE", name)
        put_all(conn, name, [f"{name}.{n}" for n in range(2)])
    found = lease(conn, other, queue, "COUNT", 3)
    assert [one.body.decode() for one in found] == [f"{other}.0", f"{other}.1", f"{queue}.0"]
    assert [one.queue.decode() for one in found] == [other, other, queue]


@pytest.mark.parametrize("options", [("WAIT", 0), ("COUNT", 10, "WAIT", 0)])
def test_a_count_is_no_minimum(options: tuple[Arg, ...], connect: Connect, conn: Conn, queue: str) -> None:
    """WAIT ends as soon as one message is ready, however many were asked for."""
    conn.ok("QDECLARE", queue)
    a = connect()
    block(a, conn, queue, *options)
    put(conn, queue, "m")
    assert bodies(deliveries(a.read())) == [b"m"]


@pytest.mark.parametrize("way", ["due", "expiry", "nack", "release", "replay", "batch"])
def test_a_waiter_is_woken_by_whatever_makes_a_message_ready(
    way: str, virtual: Conn, virtual_server: ServerProcess, connect: Connect, queue: str
) -> None:
    """Not only by a put: by a delay that ends, a lease that expires, a nack, a release and a replay as well."""
    virtual.ok("QDECLARE", queue, "RETRYDELAY", 0, "ACKTIMEOUT", "1s")
    a = connect(virtual_server)
    token = b""
    if way == "due":
        put(virtual, queue, "m", "DELAY", "1s")
    elif way != "batch":
        put(virtual, queue, "m")
        token = lease_one(virtual, queue).lease
    if way == "replay":
        virtual.integer("QNACK", queue, token, "REJECT")
    block(a, virtual, queue)
    if way in {"due", "expiry"}:
        advance(virtual, "1s")
    elif way == "replay":
        assert virtual.integer("QDEAD", "REPLAY", queue) == 1
    elif way == "batch":
        virtual.array("QMPUT", queue, "m")
    else:
        assert virtual.integer("QNACK", queue, token, *(["RELEASE"] if way == "release" else [])) == 1
    assert bodies(deliveries(a.read())) == [b"m"]


def test_deleting_a_queue_tells_its_waiters(connect: Connect, conn: Conn, queue: str) -> None:
    """-NOQUEUE at once, also for one that waits on other queues too; the others' lines are left."""
    other = queue + ".other"
    for name in (queue, other):
        conn.ok("QDECLARE", name)
    a, b = connect(), connect()
    block(a, conn, queue)
    block(b, conn, queue, other, "WAIT", 0)
    assert conn.integer("QDELETE", queue) == 1
    for one in (a, b):
        reply = one.read()
        assert isinstance(reply, Error)
        assert reply.code == b"NOQUEUE"
        assert queue.encode() in reply.text
    assert stat(conn, other, "waiters") == 0


# -- CLIENT UNBLOCK


def test_unblock_ends_a_wait_as_its_time_would(connect: Connect, conn: Conn, queue: str) -> None:
    """CLIENT UNBLOCK answers 1, the waiter gets the empty array, and goes on with what it sent behind."""
    conn.ok("QDECLARE", queue)
    a = connect()
    number = a.id()
    for reason in ((), ("TIMEOUT",)):
        block(a, conn, queue)
        a.start("PING")
        assert conn.integer("CLIENT", "UNBLOCK", number, *reason) == 1
        assert a.read_raw() == b"*0\r\n"
        assert a.read_raw() == b"+PONG\r\n"


def test_unblock_can_end_a_wait_with_an_error(connect: Connect, conn: Conn, queue: str) -> None:
    """CLIENT UNBLOCK id ERROR: the waiter is told."""
    conn.ok("QDECLARE", queue)
    a = connect()
    number = a.id()
    block(a, conn, queue)
    assert conn.integer("CLIENT", "UNBLOCK", number, "ERROR") == 1
    assert a.read() == Error(b"UNBLOCKED client unblocked via CLIENT UNBLOCK")
    put(conn, queue, "m")
    assert bodies(lease(conn, queue)) == [b"m"]


def test_unblock_of_one_that_does_not_wait_does_nothing(connect: Connect, conn: Conn, queue: str) -> None:
    """0 for an idle client, for oneself, for one that was served just now and for a number that nobody has."""
    conn.ok("QDECLARE", queue)
    a = connect()
    number = a.id()
    assert conn.integer("CLIENT", "UNBLOCK", number) == 0
    assert conn.integer("CLIENT", "UNBLOCK", number, "ERROR") == 0
    assert conn.integer("CLIENT", "UNBLOCK", conn.id()) == 0
    assert conn.integer("CLIENT", "UNBLOCK", 2**40) == 0
    block(a, conn, queue)
    replies = conn.pipeline([("QPUT", queue, "m"), ("CLIENT", "UNBLOCK", number)])
    assert replies[1] == 0
    assert bodies(deliveries(a.read())) == [b"m"]
    assert a.pending() == b""
    assert a.raw("PING") == b"+PONG\r\n"


def test_unblock_of_a_paused_client_does_nothing(fresh_server: ServerProcess, connect: Connect) -> None:
    """A command that CLIENT PAUSE holds back is no wait: 0, and it runs when the pause ends."""
    a, b = connect(fresh_server), connect(fresh_server)
    a.ok("QDECLARE", "q")
    number = a.id()
    b.ok("CLIENT", "PAUSE", 600_000, "WRITE")
    a.start("QPUT", "q", "m")
    settle(b)
    assert b.integer("CLIENT", "UNBLOCK", number) == 0
    assert b.integer("CLIENT", "UNBLOCK", number, "ERROR") == 0
    assert a.pending() == b""
    b.ok("CLIENT", "UNPAUSE")
    assert isinstance(a.read(), bytes)
    assert stat(b, "q", "ready") == 1


def test_blocked_clients_are_counted(fresh_server: ServerProcess, connect: Connect) -> None:
    """INFO clients and QSTATS tell how many wait, and go back to 0."""
    observer = connect(fresh_server)
    observer.ok("QDECLARE", "q")
    clients = [connect(fresh_server) for _ in range(10)]
    for one in clients:
        one.start("QLEASE", "q", "WAIT", 0)
    wait_until(lambda: info(observer, "clients")["blocked_clients"] == "10", "10 blocked clients")
    assert stats(observer, "q")["waiters"] == 10
    for one in clients[:5]:
        one.close()
    put_all(observer, "q", ["m"] * 5)
    wait_until(lambda: info(observer, "clients")["blocked_clients"] == "0", "nobody blocked")
    assert stats(observer, "q")["waiters"] == 0


# -- Peers that are silent


def test_a_waiter_whose_packets_vanish_is_given_up(connect: Connect) -> None:
    """--heartbeat ends a half-open connection by itself; what is put then is another's."""
    with start_server("--heartbeat", "1") as server:
        a, b = connect(server), connect(server)
        b.ok("QDECLARE", "q")
        block(a, b, "q")
        a.vanish()
        wait_until(lambda: stat(b, "q", "waiters") == 0, "the half-open waiter is given up", timeout=40)
        put(b, "q", "m")
        found = lease_one(b, "q")
        assert (found.body, found.attempt) == (b"m", 1)


def test_a_message_sent_into_the_void_comes_back(connect: Connect) -> None:
    """A message handed to a peer that is gone is another's at the latest when the lease ends."""
    with start_server("--heartbeat", "1") as server:
        a, b = connect(server), connect(server)
        b.ok("QDECLARE", "q", "ACKTIMEOUT", "2s", "RETRYDELAY", 0)
        block(a, b, "q")
        a.vanish()
        put(b, "q", "m")
        assert lease_one(b, "q", "WAIT", 15).body == b"m"
