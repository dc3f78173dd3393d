"""REQID: a QLEASE that a client library sends again is answered again, and takes nothing twice."""

from __future__ import annotations

from tests.support import (
    Conn,
    Connect,
    ServerProcess,
    advance,
    block,
    bodies,
    counts,
    deliveries,
    lease,
    lease_one,
    put,
    put_all,
    stat,
    wait_for_waiters,
)


def test_the_same_key_returns_the_same_deliveries(connect: Connect, conn: Conn, queue: str) -> None:
    """Same tokens, same attempts, from any connection, and nothing new is taken."""
    conn.ok("QDECLARE", queue)
    put_all(conn, queue, range(10))
    first = lease(conn, queue, "COUNT", 3, "REQID", "key")
    assert bodies(first) == [b"0", b"1", b"2"]
    assert lease(conn, queue, "COUNT", 3, "REQID", "key") == first
    assert lease(connect(resp=3), queue, "COUNT", 3, "REQID", "key") == first
    assert counts(conn, queue, "ready", "in_flight", "delivered") == (7, 3, 3)
    assert bodies(lease(conn, queue, "COUNT", 3, "REQID", "other")) == [b"3", b"4", b"5"]


def test_a_wait_that_was_answered_is_answered_again(connect: Connect, conn: Conn, queue: str) -> None:
    """The connection that waited is gone with its reply: the same key brings the same delivery."""
    conn.ok("QDECLARE", queue)
    a = connect()
    block(a, conn, queue, "WAIT", 0, "REQID", "key")
    put(conn, queue, "m")
    first = deliveries(a.read())
    a.close()
    assert lease(conn, queue, "WAIT", 0, "REQID", "key") == first
    assert counts(conn, queue, "ready", "in_flight", "delivered") == (0, 1, 1)


def test_only_what_is_still_live_is_returned(conn: Conn, queue: str) -> None:
    """Of a batch that is partly settled the rest; nothing new in the place of what was settled."""
    conn.ok("QDECLARE", queue)
    put_all(conn, queue, range(10))
    first = lease(conn, queue, "COUNT", 4, "REQID", "key")
    conn.integer("QACK", queue, first[0].lease)
    conn.integer("QNACK", queue, first[2].lease, "REJECT")
    assert lease(conn, queue, "COUNT", 4, "REQID", "key") == [first[1], first[3]]
    assert stat(conn, queue, "ready") == 6


def test_when_all_is_settled_the_key_is_a_new_one(conn: Conn, queue: str) -> None:
    """An ack of all ends the key's memory."""
    conn.ok("QDECLARE", queue)
    put_all(conn, queue, range(4))
    first = lease(conn, queue, "COUNT", 2, "REQID", "key")
    conn.integer("QACK", queue, *[found.lease for found in first])
    second = lease(conn, queue, "COUNT", 2, "REQID", "key")
    assert bodies(second) == [b"2", b"3"]
    assert lease(conn, queue, "COUNT", 2, "REQID", "key") == second


def test_the_key_lasts_as_long_as_the_leases(virtual: Conn, queue: str) -> None:
    """Not longer, and as long as a touch makes them last."""
    virtual.ok("QDECLARE", queue, "RETRYDELAY", 0)
    put_all(virtual, queue, range(4))
    first = lease(virtual, queue, "REQID", "key", "LEASE", "1s")
    advance(virtual, "999ms")
    assert virtual.integer("QTOUCH", queue, first[0].lease, "FOR", "1s") == 1
    advance(virtual, "999ms")
    assert lease(virtual, queue, "REQID", "key", "LEASE", "1s") == first
    advance(virtual, "1ms")
    second = lease_one(virtual, queue, "REQID", "key", "LEASE", "1s")
    assert (second.body, second.attempt) == (b"1", 1)


def test_a_redelivery_to_another_is_not_returned(virtual: Conn, queue: str) -> None:
    """The message of an expired lease is the next holder's; the old key doesn't show its new token."""
    virtual.ok("QDECLARE", queue, "RETRYDELAY", 0)
    put(virtual, queue, "m")
    lease_one(virtual, queue, "REQID", "key", "LEASE", "1s")
    advance(virtual, "1s")
    assert lease_one(virtual, queue).attempt == 2
    assert lease(virtual, queue, "REQID", "key") == []


def test_an_empty_answer_is_not_kept(conn: Conn, queue: str) -> None:
    """A key that found nothing looks anew."""
    conn.ok("QDECLARE", queue)
    assert lease(conn, queue, "REQID", "key") == []
    put(conn, queue, "m")
    assert bodies(lease(conn, queue, "REQID", "key")) == [b"m"]


def test_a_key_belongs_to_the_first_queue_named(conn: Conn, queue: str) -> None:
    """The same key with another queue first is another one."""
    other = queue + ".other"
    for name in (queue, other):
        conn.ok("QDECLARE", name)
        put_all(conn, name, [f"{name} 1", f"{name} 2"])
    first = lease(conn, queue, other, "REQID", "key")
    second = lease(conn, other, queue, "REQID", "key")
    assert bodies(first + second) == [f"{queue} 1".encode(), f"{other} 1".encode()]
    assert lease(conn, queue, "REQID", "key") == first
    assert lease(conn, other, "REQID", "key") == second


def test_keys_are_binary(conn: Conn, queue: str) -> None:
    """Any bytes, told apart byte by byte."""
    conn.ok("QDECLARE", queue)
    put_all(conn, queue, range(4))
    keys = [b"k", b"K", b"k\x00", b"\xff\xfe"]
    first = [lease_one(conn, queue, "REQID", key) for key in keys]
    assert bodies(first) == [b"0", b"1", b"2", b"3"]
    assert [lease_one(conn, queue, "REQID", key) for key in keys] == first


def test_a_wait_that_is_sent_again_takes_over_its_place(connect: Connect, conn: Conn, queue: str) -> None:
    """The first one is answered with an empty array, and the second stands where it stood, not at the back."""
    conn.ok("QDECLARE", queue)
    a, b, again = connect(), connect(), connect()
    block(a, conn, queue, "WAIT", 0, "REQID", "key")
    block(b, conn, queue)
    again.start("QLEASE", queue, "WAIT", 0, "REQID", "key")
    assert a.read_raw() == b"*0\r\n"
    wait_for_waiters(conn, queue, 2)
    put_all(conn, queue, ["first", "second"])
    assert bodies(deliveries(again.read())) == [b"first"]
    assert bodies(deliveries(b.read())) == [b"second"]
    assert a.pending() == b""


def test_a_place_taken_over_again_and_again_is_one_place(
    virtual: Conn, virtual_server: ServerProcess, connect: Connect, queue: str
) -> None:
    """Ten re-sendings: one waiter, one message; its wait is the last one's."""
    virtual.ok("QDECLARE", queue)
    sent = [connect(virtual_server) for _ in range(10)]
    for before, one in zip([None, *sent], sent, strict=False):
        one.start("QLEASE", queue, "WAIT", "1s", "REQID", "key")
        if before is not None:
            assert before.read_raw() == b"*0\r\n"
        wait_for_waiters(virtual, queue, 1)
        advance(virtual, "100ms")
    put_all(virtual, queue, ["m", "n"])
    assert bodies(deliveries(sent[-1].read())) == [b"m"]
    assert counts(virtual, queue, "ready", "in_flight", "waiters") == (1, 1, 0)
