"""What a connection with consumers may do, and what becomes of consumers when they or their queue go."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator

import pytest

from tests.support import (
    Arg,
    Conn,
    Connect,
    Pinger,
    Push,
    ServerProcess,
    advance,
    as_bytes,
    block,
    bodies,
    counts,
    dead,
    deliveries,
    lease,
    lease_one,
    peeked_bodies,
    put,
    put_all,
    start_server,
    stat,
    wait_until,
)
from tests.support.events import (
    Pushed,
    arrived,
    consume,
    delivered,
    delivered_bodies,
    event,
    events,
    frame,
    items,
    let_go,
    psubscribe,
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


# -- What a RESP2 connection may do

RESP2_REFUSES: list[tuple[Arg, ...]] = [("QACK", "q", "x"), ("QPUT", "q", "x"), ("ECHO", "x"), ("HELLO", 3), ("MULTI",)]


@pytest.mark.parametrize("command", RESP2_REFUSES, ids=lambda command: command[0])
def test_resp2_behaves_as_a_subscribed_connection(
    command: tuple[Arg, ...], connect: Connect, conn: Conn, queue: str
) -> None:
    """Few commands are allowed while there is a consumer; those of subscriptions and QCANCEL are."""
    conn.ok("QDECLARE", queue)
    a = connect()
    tag = consume(a, queue)
    assert a.error(*command).text.startswith(f"ERR Can't execute '{str(command[0]).lower()}'".encode())
    assert a.raw("PING") == b"*2\r\n$4\r\npong\r\n$0\r\n\r\n"
    assert items(a.cmd("SUBSCRIBE", queue)) == [b"subscribe", queue.encode(), 1]
    other = consume(a, queue)
    assert a.integer("QCANCEL", tag) == 0
    assert items(a.cmd("UNSUBSCRIBE")) == [b"unsubscribe", queue.encode(), 0]
    assert a.error("ECHO", "x").code == b"ERR"
    assert a.integer("QCANCEL", other) == 0
    assert a.raw("ECHO", "free") == b"$4\r\nfree\r\n"


def test_resp3_may_do_anything(connect: Connect, conn: Conn, queue: str) -> None:
    """It settles on the same connection, puts, waits and publishes meanwhile; replies and pushes keep their order."""
    conn.ok("QDECLARE", queue)
    conn.ok("QDECLARE", f"{queue}.other")
    a = connect(resp=3)
    consume(a, queue)
    assert isinstance(put(a, f"{queue}.other", "x"), bytes)
    a.start("QPUT", queue, "own", "ID", "k")
    values = a.read_many(2)
    assert b"k" in values
    (delivery,) = [pushed(value) for value in values if isinstance(value, Push)]
    assert a.integer("QACK", queue, delivery.lease) == 1
    subscribe(a, queue)
    assert bodies(lease(a, f"{queue}.other")) == [b"x"]
    block(a, conn, f"{queue}.other")
    put(conn, queue, "pushed while it waits")
    conn.integer("PUBLISH", queue, "event")
    put(conn, f"{queue}.other", "waited for")
    assert pushed(a.read()).body == b"pushed while it waits"
    assert event(a.read()).body == b"event"
    assert bodies(deliveries(a.read())) == [b"waited for"]


# -- The queue goes


@both_protocols
def test_deleting_the_queue_cancels_its_consumers(
    resp: int, virtual_server: ServerProcess, connect: Connect, virtual: Conn, queue: str
) -> None:
    """A push `cancelled` with the tag and a reason, for each; nothing comes any more, and RESP2 is free again."""
    a, b = connect(virtual_server, resp=resp), connect(virtual_server, resp=resp)
    psubscribe(watcher := connect(virtual_server), "$sys.dead.#")
    virtual.ok("QDECLARE", queue, "MAXATTEMPTS", 1)
    tags = [consume(a, queue, "PREFETCH", 1), consume(a, queue, "PREFETCH", 1), consume(b, queue, "PREFETCH", 1)]
    put_all(virtual, queue, range(3))
    held = [*delivered(a), *delivered(b)]
    assert len(held) == 3
    assert virtual.integer("QDELETE", queue) == 1
    told = [items(value) for one in (a, a, b) for value in [one.read()]]
    assert [(kind, tag) for kind, tag, _ in told] == [
        (b"cancelled", tags[0]),
        (b"cancelled", tags[1]),
        (b"cancelled", tags[2]),
    ]
    assert all(as_bytes(reason) for _, _, reason in told)
    assert a.raw("ECHO", "free") == b"$4\r\nfree\r\n"
    assert a.error("QCANCEL", tags[0]).code == b"ERR"
    virtual.ok("QDECLARE", queue)
    assert virtual.integer("QACK", queue, *(one.lease for one in held)) == 0
    put(virtual, queue, "m")
    assert counts(virtual, queue, "ready", "consumers", "in_flight") == (1, 0, 0)
    assert (arrived(a), arrived(b), arrived(watcher)) == ([], [], [])


def test_other_queues_go_on_when_one_is_deleted(virtual: Conn, consumer: Callable[[], Conn], queue: str) -> None:
    """Only the consumers of the deleted queue are told."""
    other = f"{queue}.other"
    for name in (queue, other):
        virtual.ok("QDECLARE", name)
    a = consumer()
    tag = consume(a, queue)
    consume(a, other)
    virtual.integer("QDELETE", queue)
    cancelled = a.read()
    assert cancelled == frame(3, b"cancelled", tag, items(cancelled)[2])
    put(virtual, other, "m")
    assert delivered_bodies(a) == [b"m"]


# -- The consumer goes


def end(how: str, a: Conn, tag: bytes, observer: Conn, number: int) -> None:
    """Let a consumer end, one way or another."""
    if how == "cancelled":
        a.integer("QCANCEL", tag)
    elif how == "reset":
        assert a.raw("RESET") == b"+RESET\r\n"
    elif how == "killed":
        assert observer.integer("CLIENT", "KILL", "ID", number) == 1
    elif how == "quit":
        a.start("QUIT")
    elif how == "closed":
        a.close()
    else:
        a.reset()


ENDS = pytest.mark.parametrize("how", ["cancelled", "reset", "killed", "quit", "closed", "connection reset"])


@ENDS
@both_protocols
def test_leases_are_given_back_as_failures(
    how: str, resp: int, virtual_server: ServerProcess, connect: Connect, virtual: Conn, queue: str
) -> None:
    """The attempt counts, the backoff is waited out, they keep their order, and the tokens are stale."""
    virtual.ok("QDECLARE", queue, "RETRYDELAY", "3s")
    put_all(virtual, queue, range(4))
    a = connect(virtual_server, resp=resp)
    number = a.id()
    tag = consume(a, queue, "PREFETCH", 3)
    held = delivered(a)
    assert len(held) == 3
    end(how, a, tag, virtual, number)
    wait_until(lambda: counts(virtual, queue, "consumers", "in_flight") == (0, 0), "all is given back")
    assert counts(virtual, queue, "ready", "delayed", "retried", "expired_leases") == (1, 3, 3, 0)
    assert virtual.integer("QNACK", queue, held[0].lease) == 0
    advance(virtual, "2999ms")
    assert stat(virtual, queue, "delayed") == 3
    advance(virtual, "1ms")
    assert [(one.body, one.attempt) for one in lease(virtual, queue, "COUNT", 9)] == [
        (b"3", 1),
        (b"0", 2),
        (b"1", 2),
        (b"2", 2),
    ]
    assert virtual.integer("QACK", queue, *(one.lease for one in held)) == 0


@ENDS
def test_the_last_attempt_kills(how: str, virtual: Conn, consumer: Callable[[], Conn], queue: str) -> None:
    """MAXATTEMPTS deliveries and no more: dead with `max_attempts` and the error `consumer removed`, announced once."""
    watcher = consumer()
    subscribe(watcher, f"$sys.dead.{queue}")
    virtual.ok("QDECLARE", queue, "MAXATTEMPTS", 3, "RETRYDELAY", 0)
    put(virtual, queue, "m", "ID", "k")
    for attempt in (1, 2, 3):
        a = consumer()
        number = a.id()
        tag = consume(a, queue)
        assert [one.attempt for one in delivered(a)] == [attempt]
        end(how, a, tag, virtual, number)
        wait_until(lambda: stat(virtual, queue, "consumers") == 0, "the consumer is gone")
    (letter,) = dead(virtual, queue)
    assert (letter[b"id"], letter[b"attempt"]) == (b"k", 3)
    assert (letter[b"reason"], letter[b"error"]) == (b"max_attempts", b"consumer removed")
    assert counts(virtual, queue, "ready", "delayed", "in_flight", "delivered", "retried") == (0, 0, 0, 3, 2)
    assert len(events(watcher)) == 1


def test_several_that_come_back_keep_their_order(virtual: Conn, consumer: Callable[[], Conn], queue: str) -> None:
    """At the back of their priority, behind what is ready, whatever the order of leasing was."""
    virtual.ok("QDECLARE", queue, "RETRYDELAY", 0)
    put_all(virtual, queue, range(6))
    put(virtual, queue, "urgent", "PRIORITY", -1)
    a = consumer()
    consume(a, queue, "PREFETCH", 5)
    assert delivered_bodies(a) == [b"urgent", b"0", b"1", b"2", b"3"]
    a.close()
    wait_until(lambda: stat(virtual, queue, "in_flight") == 0, "all is given back")
    assert peeked_bodies(virtual, queue) == [b"urgent", b"4", b"5", b"0", b"1", b"2", b"3"]


def test_what_is_given_back_goes_to_those_who_wait(virtual: Conn, consumer: Callable[[], Conn], queue: str) -> None:
    """At once, without a delay: to the other consumer and to the blocked client."""
    virtual.ok("QDECLARE", queue, "RETRYDELAY", 0)
    put_all(virtual, queue, range(3))
    a, b, waiter = consumer(), consumer(), consumer()
    consume(a, queue)
    assert len(delivered(a)) == 3
    consume(b, queue)
    block(waiter, virtual, queue)
    a.close()
    (found,) = deliveries(waiter.read())
    assert (found.body, found.attempt) == (b"1", 2)
    assert [(one.body, one.attempt) for one in delivered(b)] == [(b"0", 2), (b"2", 2)]


def test_qcancel_tells_how_many(virtual: Conn, consumer: Callable[[], Conn], queue: str) -> None:
    """Its own leases, not those of another consumer of the same connection nor what is settled."""
    virtual.ok("QDECLARE", queue)
    a = consumer()
    first, second = consume(a, queue, "PREFETCH", 4), consume(a, queue, "PREFETCH", 3)
    put_all(virtual, queue, range(7))
    held = delivered(a)
    assert [one.tag for one in held].count(first) == 4
    assert virtual.integer("QACK", queue, held[0].lease) == 1
    assert a.integer("QCANCEL", first) == 3
    assert stat(virtual, queue, "in_flight") == 3
    assert a.integer("QCANCEL", second) == 3
    assert counts(virtual, queue, "in_flight", "delayed", "consumers") == (0, 6, 0)


def test_the_count_of_leases_returns_to_zero(virtual: Conn, consumer: Callable[[], Conn], queue: str) -> None:
    """Held messages expire, are deleted and acked late by others, then the consumer goes: in_flight is never wrong."""
    virtual.ok("QDECLARE", queue, "MAXATTEMPTS", 2, "RETRYDELAY", "1s", "ACKTIMEOUT", "10s")
    put_all(virtual, queue, range(6))
    a = consumer()
    consume(a, queue, "PREFETCH", 6)
    held = delivered(a)
    virtual.integer("QDEL", queue, held[0].id)
    virtual.integer("QTOUCH", queue, held[1].lease, "FOR", "1h")
    assert counts(virtual, queue, "in_flight") == (5,)
    advance(virtual, "10s")
    assert counts(virtual, queue, "in_flight", "delayed") == (1, 4)
    b = consumer()
    consume(b, queue, "PREFETCH", 6)
    advance(virtual, "1s")
    again = [*delivered(a), *delivered(b)]
    assert len(again) == 4
    assert virtual.integer("QACK", queue, *(one.lease for one in held[2:])) == 0
    assert counts(virtual, queue, "in_flight") == (5,)
    assert virtual.integer("QNACK", queue, again[0].lease) == 1
    assert counts(virtual, queue, "in_flight", "dead") == (4, 1)
    a.close()
    b.close()
    wait_until(lambda: counts(virtual, queue, "in_flight", "consumers") == (0, 0), "all is given back")
    assert counts(virtual, queue, "dead", "delayed", "ready") == (4, 1, 0)


def test_expiry_and_a_lost_consumer_count_alike(virtual: Conn, consumer: Callable[[], Conn], queue: str) -> None:
    """A message that kills its workers doesn't loop for ever, however they end."""
    virtual.ok("QDECLARE", queue, "MAXATTEMPTS", 3, "RETRYDELAY", 0, "ACKTIMEOUT", "1s")
    put(virtual, queue, "m")
    a = consumer()
    consume(a, queue)
    assert [one.attempt for one in delivered(a)] == [1]
    advance(virtual, "1s")
    assert [one.attempt for one in delivered(a)] == [2]
    a.reset()
    wait_until(lambda: stat(virtual, queue, "ready") == 1, "it is back")
    assert lease_one(virtual, queue).attempt == 3
    advance(virtual, "1s")
    (letter,) = dead(virtual, queue)
    assert (letter[b"reason"], letter[b"error"], letter[b"attempt"]) == (b"max_attempts", b"ack timeout", 3)


def test_a_consumer_killed_together_with_a_put(connect: Connect, conn: Conn, queue: str) -> None:
    """CLIENT KILL and QPUT in one write: the message is nobody's, attempt 1 for the next."""
    conn.ok("QDECLARE", queue)
    a = connect(resp=3)
    number = a.id()
    consume(a, queue)
    assert conn.pipeline([("CLIENT", "KILL", "ID", number), ("QPUT", queue, "m", "ID", "k")]) == [1, b"k"]
    found = lease_one(conn, queue)
    assert (found.body, found.attempt) == (b"m", 1)


# -- A slow reader, and the end of the server


def test_deliveries_are_never_dropped(connect: Connect) -> None:
    """Far more than max-pending for a consumer that doesn't read: all come, in order, though its events don't."""
    with start_server("--max-pending", "10") as server:
        a, b = connect(server, resp=3), connect(server)
        b.ok("QDECLARE", "q", "MAXLEN", 100_000, "ACKTIMEOUT", "1h")
        consume(a, "q", "PREFETCH", 100_000)
        subscribe(a, "t")
        body = b"x" * 10_000
        for n in range(15):
            b.pipeline([("QPUT", "q", b"%d " % m + body) for m in range(100 * n, 100 * n + 100)])
            b.pipeline([("PUBLISH", "t", body)] * 20)
        assert 0 < stat(b, "q", "in_flight") < 1500
        found: list[Pushed] = []
        while len(found) < 1500:
            value = a.read()
            if items(value)[0] == b"deliver":
                found.append(pushed(value))
        assert [int(one.body.split()[0]) for one in found] == list(range(1500))
        assert b.integer("QACK", "q", *(one.lease for one in found)) == 1500


def test_a_slow_consumer_that_goes_gives_all_back(connect: Connect) -> None:
    """Also what was never read."""
    with start_server() as server:
        a, b = connect(server, resp=3), connect(server)
        b.ok("QDECLARE", "q", "RETRYDELAY", 0, "ACKTIMEOUT", "1h")
        consume(a, "q", "PREFETCH", 100_000)
        for _ in range(20):
            b.pipeline([("QPUT", "q", "x" * 10_000)] * 100)
        held = stat(b, "q", "in_flight")
        assert 0 < held < 2000
        a.close()
        wait_until(lambda: counts(b, "q", "ready", "in_flight", "retried") == (2000, 0, held), "all is given back")


def test_who_does_not_read_gets_no_more_and_others_do(connect: Connect) -> None:
    """Leases that end over and over were written over and over; it is served again once it has read."""
    with start_server() as server:
        a, b, c = connect(server, resp=3), connect(server), connect(server, resp=3)
        b.ok("QDECLARE", "q", "ACKTIMEOUT", "20ms", "RETRYDELAY", 0, "MAXATTEMPTS", 1_000_000)
        consume(a, "q", "PREFETCH", 100_000)
        for _ in range(15):
            b.pipeline([("QPUT", "q", b"x" * 10_000)] * 100)
        wait_until(lambda: stat(b, "q", "in_flight") == 0, "its leases have ended")
        before, expired = server.memory(), stat(b, "q", "expired_leases")
        time.sleep(0.5)
        assert counts(b, "q", "ready", "in_flight", "expired_leases") == (1500, 0, expired)
        assert server.memory() - before < 5 << 20
        tag = consume(c, "q", "PREFETCH", 5)
        acked = 0
        while acked < 1500:
            acked += b.integer("QACK", "q", pushed(c.read()).lease)
        assert counts(b, "q", "ready", "in_flight", "acked") == (0, 0, 1500)
        c.close()
        wait_until(lambda: stat(b, "q", "consumers") == 1, f"{tag!r} is gone")
        put(b, "q", "last")
        while pushed(a.read()).body != b"last":
            pass


def test_others_are_served_while_a_consumer_takes_very_many(fresh_server: ServerProcess, connect: Connect) -> None:
    """PREFETCH and a backlog of 50,000: nobody waits until all of them are handed out."""
    a, b, c = connect(fresh_server, resp=3), connect(fresh_server), connect(fresh_server)
    b.ok("QDECLARE", "q", "MAXLEN", 100_000, "ACKTIMEOUT", "1h")
    for n in range(50):
        b.array("QMPUT", "q", *range(1000 * n, 1000 * n + 1000))
    pinger = Pinger(fresh_server, c)
    a.start("QCONSUME", "q", "PREFETCH", 1_000_000)
    pinger.ping()
    assert isinstance(a.read(), bytes)
    for n in range(50_000):
        assert int(pushed(a.read()).body) == n
        if n % 250 == 0:
            pinger.ping()
    assert pinger.worst < 0.15
    assert counts(b, "q", "ready", "in_flight") == (0, 50_000)


@both_protocols
def test_a_stop_of_the_server_is_no_failure(resp: int, connect: Connect) -> None:
    """Consumers and subscribers see the end and nothing else: no announcement, no cancelled push."""
    with start_server() as server:
        a, b, watcher = connect(server, resp=resp), connect(server), connect(server, resp=resp)
        b.ok("QDECLARE", "q", "MAXATTEMPTS", 1)
        b.ok("QDECLARE", "log")
        b.integer("QBIND", "#", "log")
        psubscribe(watcher, "#")
        put_all(b, "q", range(3))
        consume(a, "q")
        assert len(delivered(a)) == 3
        assert server.stop() == 0
        assert a.read_all() == []
        assert watcher.read_all() == []
