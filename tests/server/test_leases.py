"""Leases: tokens that stand for one delivery, clocks that start with it, and counts that always add up."""

from __future__ import annotations

import random
import re
from dataclasses import dataclass, field

import pytest

from tests.support import (
    Conn,
    Connect,
    Delivery,
    ServerProcess,
    advance,
    block,
    bodies,
    counts,
    deliveries,
    lease,
    lease_one,
    peek,
    put,
    put_all,
    stat,
)

# -- The clock of a lease


@pytest.mark.parametrize("waited", [False, True])
def test_a_lease_ends_by_itself_whatever_wait_said(
    waited: bool, virtual: Conn, virtual_server: ServerProcess, connect: Connect, queue: str
) -> None:
    """The lease's deadline and the wait's are two: m is back after LEASE, though its holder stays and is silent."""
    virtual.ok("QDECLARE", queue, "RETRYDELAY", 0)
    a = connect(virtual_server)
    if waited:
        block(a, virtual, queue, "LEASE", "1s", "WAIT", "0.5")
        put(virtual, queue, "m")
    else:
        put(virtual, queue, "m")
        a.start("QLEASE", queue, "LEASE", "1s", "WAIT", "0.5")
    assert bodies(deliveries(a.read())) == [b"m"]
    advance(virtual, "999ms")
    assert counts(virtual, queue, "in_flight", "ready") == (1, 0)
    advance(virtual, "1ms")
    assert counts(virtual, queue, "in_flight", "ready", "expired_leases") == (0, 1, 1)
    assert a.pending() == b""
    assert lease_one(virtual, queue).attempt == 2


def test_a_lease_begins_with_its_delivery(virtual: Conn, queue: str) -> None:
    """However long a message waited before, its lease lasts the full ACKTIMEOUT."""
    virtual.ok("QDECLARE", queue, "ACKTIMEOUT", "1s", "RETRYDELAY", 0)
    put(virtual, queue, "m")
    advance(virtual, "10s")
    found = lease_one(virtual, queue)
    advance(virtual, "999ms")
    assert virtual.integer("QACK", queue, found.lease) == 1


def test_a_lease_of_a_waiter_begins_when_it_is_served(
    virtual: Conn, virtual_server: ServerProcess, connect: Connect, queue: str
) -> None:
    """Time spent waiting for a message is no time of its lease."""
    virtual.ok("QDECLARE", queue, "ACKTIMEOUT", "1s")
    a = connect(virtual_server)
    block(a, virtual, queue)
    advance(virtual, "10s")
    put(virtual, queue, "m")
    (found,) = deliveries(a.read())
    advance(virtual, "999ms")
    assert virtual.integer("QACK", queue, found.lease) == 1


def test_a_delayed_message_is_leased_by_nobody_before_it_is_due(
    virtual: Conn, virtual_server: ServerProcess, connect: Connect, queue: str
) -> None:
    """DELAY 5s: not leased, not in flight, no lease time used up until 5 s have passed."""
    virtual.ok("QDECLARE", queue, "ACKTIMEOUT", "1s")
    put(virtual, queue, "m", "DELAY", "5s")
    assert lease(virtual, queue) == []
    a = connect(virtual_server)
    block(a, virtual, queue)
    advance(virtual, "4999ms")
    assert counts(virtual, queue, "ready", "delayed", "in_flight", "waiters") == (0, 1, 0, 1)
    assert a.pending() == b""
    advance(virtual, "1ms")
    (found,) = deliveries(a.read())
    assert found.attempt == 1
    advance(virtual, "999ms")
    assert virtual.integer("QACK", queue, found.lease) == 1


def test_touch_renews_from_now(virtual: Conn, queue: str) -> None:
    """For ACKTIMEOUT, or for FOR, counted from the touch and not added to what was left."""
    virtual.ok("QDECLARE", queue, "ACKTIMEOUT", "10s", "RETRYDELAY", 0)
    put(virtual, queue, "m")
    token = lease_one(virtual, queue, "LEASE", "2s").lease
    advance(virtual, "1s")
    assert virtual.integer("QTOUCH", queue, token) == 1
    advance(virtual, "9s")
    assert virtual.integer("QTOUCH", queue, token, "FOR", "3s") == 1
    advance(virtual, "2999ms")
    assert stat(virtual, queue, "in_flight") == 1
    assert virtual.integer("QTOUCH", queue, token, "FOR", "1s") == 1
    advance(virtual, "1s")
    assert counts(virtual, queue, "in_flight", "ready") == (0, 1)
    assert virtual.integer("QTOUCH", queue, token) == 0
    assert stat(virtual, queue, "in_flight") == 0


def test_each_lease_of_a_batch_has_its_own_end(virtual: Conn, queue: str) -> None:
    """Leases of different lengths on one queue end each in their time, whatever the order they were taken in."""
    virtual.ok("QDECLARE", queue, "RETRYDELAY", 0)
    order = [5, 1, 4, 2, 3]
    for seconds in order:
        put(virtual, queue, str(seconds))
        lease_one(virtual, queue, "LEASE", f"{seconds}s")
    came: list[bytes] = []
    for _ in order:
        advance(virtual, "1s")
        found = lease_one(virtual, queue)
        came.append(found.body)
    assert came == [b"1", b"2", b"3", b"4", b"5"]


# -- Tokens


def test_a_token_stands_for_the_delivery_not_for_the_holder(virtual: Conn, queue: str) -> None:
    """The same connection leases the same message twice: only the second token is good, and only once."""
    virtual.ok("QDECLARE", queue, "ACKTIMEOUT", "1s", "RETRYDELAY", 0)
    put(virtual, queue, "m")
    first = lease_one(virtual, queue)
    advance(virtual, "1s")
    second = lease_one(virtual, queue)
    assert first.lease != second.lease
    assert (first.attempt, second.attempt) == (1, 2)
    assert virtual.integer("QACK", queue, first.lease) == 0
    assert virtual.integer("QNACK", queue, first.lease) == 0
    assert virtual.integer("QNACK", queue, first.lease, "REJECT") == 0
    assert virtual.integer("QTOUCH", queue, first.lease) == 0
    assert stat(virtual, queue, "in_flight") == 1
    assert virtual.integer("QACK", queue, second.lease) == 1
    assert virtual.integer("QACK", queue, second.lease) == 0
    assert counts(virtual, queue, "in_flight", "ready", "acked") == (0, 0, 1)


def test_a_lease_is_good_from_any_connection(connect: Connect, conn: Conn, queue: str) -> None:
    """Also when the connection that took it is gone."""
    conn.ok("QDECLARE", queue)
    put_all(conn, queue, "abc")
    taker = connect(resp=3)
    one, two, three = lease(taker, queue, "COUNT", 3)
    taker.close()
    assert conn.integer("QTOUCH", queue, one.lease, two.lease, three.lease) == 3
    assert connect().integer("QACK", queue, one.lease) == 1
    assert connect().integer("QNACK", queue, two.lease, "REJECT") == 1
    assert connect().integer("QNACK", queue, three.lease, "RELEASE") == 1
    assert counts(conn, queue, "in_flight", "ready", "dead") == (0, 1, 1)


def test_a_lease_that_ran_out_can_still_be_acked_until_it_is_handed_out_again(virtual: Conn, queue: str) -> None:
    """The work is done, so nobody should do it twice; but it can't be nacked, touched or acked a second time."""
    virtual.ok("QDECLARE", queue, "ACKTIMEOUT", "1s", "RETRYDELAY", "10s")
    put(virtual, queue, "m")
    found = lease_one(virtual, queue)
    advance(virtual, "1s")
    assert virtual.integer("QTOUCH", queue, found.lease) == 0
    assert virtual.integer("QNACK", queue, found.lease) == 0
    assert counts(virtual, queue, "in_flight", "delayed") == (0, 1)
    assert virtual.integer("QACK", queue, found.lease) == 1
    assert virtual.integer("QACK", queue, found.lease) == 0
    advance(virtual, "1h")
    assert counts(virtual, queue, "in_flight", "ready", "delayed", "dead", "acked") == (0, 0, 0, 0, 1)


def test_a_lease_of_a_message_that_died_is_stale(virtual: Conn, queue: str) -> None:
    """An ack that comes after the death doesn't take the dead letter away."""
    virtual.ok("QDECLARE", queue, "ACKTIMEOUT", "1s", "MAXATTEMPTS", 1)
    put(virtual, queue, "m")
    found = lease_one(virtual, queue)
    advance(virtual, "1s")
    assert virtual.integer("QACK", queue, found.lease) == 0
    assert counts(virtual, queue, "dead", "acked") == (1, 0)
    virtual.integer("QDEAD", "REPLAY", queue)
    assert virtual.integer("QACK", queue, found.lease) == 0
    assert stat(virtual, queue, "ready") == 1


def test_a_lease_belongs_to_its_queue(conn: Conn, queue: str) -> None:
    """Named with another queue it is stale, and stays good with its own."""
    other = queue + ".other"
    for name in (queue, other):
        conn.ok("QDECLARE", name)
        put(conn, name, "m")
    token = lease_one(conn, queue).lease
    lease_one(conn, other)
    assert conn.integer("QACK", other, token) == 0
    assert conn.integer("QNACK", other, token) == 0
    assert conn.integer("QTOUCH", other, token) == 0
    assert conn.integer("QACK", queue, token) == 1


@pytest.mark.parametrize("token", ["", "x", "0", "-1", "1", "99999999999999999999", b"\xff\x00", "a" * 1000])
def test_a_token_that_was_never_given_is_stale_and_no_error(token: str | bytes, conn: Conn, queue: str) -> None:
    """Whatever it looks like."""
    conn.ok("QDECLARE", queue)
    put(conn, queue, "m")
    found = lease_one(conn, queue)
    assert found.lease != token
    assert conn.integer("QACK", queue, token) == 0
    assert conn.integer("QNACK", queue, token) == 0
    assert conn.integer("QTOUCH", queue, token) == 0
    assert stat(conn, queue, "in_flight") == 1


def test_one_command_settles_many_and_counts_the_good_ones(conn: Conn, queue: str) -> None:
    """Stale ones and repetitions among them count nothing."""
    conn.ok("QDECLARE", queue)
    put_all(conn, queue, "abcd")
    tokens = [found.lease for found in lease(conn, queue, "COUNT", 4)]
    assert conn.integer("QTOUCH", queue, *tokens, "nonsense") == 4
    assert conn.integer("QACK", queue, tokens[0], "nonsense", tokens[1], tokens[0]) == 2
    assert conn.integer("QACK", queue, *tokens) == 2
    assert counts(conn, queue, "in_flight", "acked") == (0, 4)


def test_tokens_are_not_used_again(virtual: Conn, queue: str) -> None:
    """Neither by later deliveries, nor after the queue was deleted and declared anew."""
    seen: set[bytes] = set()
    for _ in range(20):
        virtual.ok("QDECLARE", queue)
        put_all(virtual, queue, range(50))
        tokens = {found.lease for found in lease(virtual, queue, "COUNT", 50)}
        assert len(tokens) == 50
        assert not tokens & seen
        seen |= tokens
        virtual.integer("QDELETE", queue)
    virtual.ok("QDECLARE", queue)
    assert virtual.integer("QACK", queue, *seen) == 0


def test_generated_ids_are_unique_and_sorted(conn: Conn, queue: str) -> None:
    """A UUIDv7 as 32 hex digits unless ID was given."""
    conn.ok("QDECLARE", queue)
    ids = put_all(conn, queue, range(1000))
    assert len(set(ids)) == 1000
    assert all(re.fullmatch(rb"[0-9a-f]{12}7[0-9a-f]{3}[89ab][0-9a-f]{15}", one) for one in ids)
    assert [one[:12] for one in ids] == sorted(one[:12] for one in ids)


# -- What is out


def test_the_count_of_leases_is_charged_to_the_right_delivery(virtual: Conn, queue: str) -> None:
    """A's lease expires, B has the message; A acks with its old token, B nacks, A leaves: 0 at the end, never below."""
    virtual.ok("QDECLARE", queue, "ACKTIMEOUT", "1s", "RETRYDELAY", 0)
    put(virtual, queue, "m")
    old = lease_one(virtual, queue).lease
    advance(virtual, "1s")
    new = lease_one(virtual, queue).lease
    assert virtual.integer("QACK", queue, old) == 0
    assert stat(virtual, queue, "in_flight") == 1
    assert virtual.integer("QNACK", queue, new) == 1
    assert stat(virtual, queue, "in_flight") == 0
    assert virtual.integer("QNACK", queue, old) == 0
    assert virtual.integer("QNACK", queue, new, "RELEASE") == 0
    assert counts(virtual, queue, "in_flight", "ready", "waiters", "consumers") == (0, 1, 0, 0)


@pytest.mark.parametrize("end", ["expiry", "death", "deletion", "ack", "reject", "release"])
def test_nothing_stays_in_flight_when_the_holder_is_gone(
    end: str, virtual: Conn, virtual_server: ServerProcess, connect: Connect, queue: str
) -> None:
    """Leased messages whose client went away expire, die, are deleted or settled by another: in_flight ends at 0."""
    virtual.ok("QDECLARE", queue, "ACKTIMEOUT", "1s", "RETRYDELAY", 0, "MAXATTEMPTS", 1 if end == "death" else 5)
    ids = put_all(virtual, queue, range(5))
    a = connect(virtual_server)
    tokens = [found.lease for found in lease(a, queue, "COUNT", 5)]
    a.close()
    assert stat(virtual, queue, "in_flight") == 5
    if end in {"expiry", "death"}:
        advance(virtual, "1s")
    elif end == "deletion":
        assert virtual.integer("QDEL", queue, *ids) == 5
        assert virtual.integer("QACK", queue, *tokens) == 0
    elif end == "ack":
        assert virtual.integer("QACK", queue, *tokens) == 5
    else:
        for token in tokens:
            assert virtual.integer("QNACK", queue, token, end) == 1
    ready = 5 if end in {"expiry", "release"} else 0
    letters = 5 if end in {"death", "reject"} else 0
    assert counts(virtual, queue, "in_flight", "ready", "delayed", "dead") == (0, ready, 0, letters)
    advance(virtual, "1h")
    assert counts(virtual, queue, "in_flight", "ready", "delayed", "dead") == (0, ready, 0, letters)


def test_a_purge_leaves_what_is_leased(conn: Conn, queue: str) -> None:
    """QPURGE drops and counts what is ready or delayed; a worker's message stays its."""
    conn.ok("QDECLARE", queue)
    put_all(conn, queue, range(5))
    put(conn, queue, "later", "DELAY", "1h")
    tokens = [found.lease for found in lease(conn, queue, "COUNT", 2)]
    assert conn.integer("QPURGE", queue) == 4
    assert counts(conn, queue, "ready", "delayed", "in_flight") == (0, 0, 2)
    assert conn.integer("QACK", queue, *tokens) == 2


@dataclass
class Model:
    """What must be true of one queue: who is ready, who is out under which token."""

    ready: list[bytes] = field(default_factory=list)
    out: dict[bytes, tuple[bytes, int]] = field(default_factory=dict)
    expired: dict[bytes, bytes] = field(default_factory=dict)
    now: int = 0
    acked: int = 0

    def take(self, found: list[Delivery], seconds: int) -> None:
        for one in found:
            assert one.body == self.ready.pop(0)
            self.expired = {token: body for token, body in self.expired.items() if body != one.body}
            assert one.lease not in self.out
            self.out[one.lease] = (one.body, self.now + seconds)

    def pass_time(self, seconds: int) -> None:
        self.now += seconds
        for token, (body, end) in sorted(self.out.items(), key=lambda item: item[1][1]):
            if end <= self.now:
                del self.out[token]
                self.expired[token] = body
                self.ready.append(body)

    def ack(self, token: bytes) -> int:
        if token in self.out:
            del self.out[token]
        elif token in self.expired:
            self.ready.remove(self.expired.pop(token))
        else:
            return 0
        self.acked += 1
        return 1

    def nack(self, token: bytes) -> int:
        if token not in self.out:
            return 0
        self.ready.append(self.out.pop(token)[0])
        return 1


@pytest.mark.parametrize("seed", range(8))
def test_counts_always_sum_to_the_leases_that_are_out(seed: int, virtual: Conn, queue: str) -> None:
    """A few hundred random puts, leases, acks, nacks and expiries, with live and old tokens, against a small model."""
    pick = random.Random(seed)
    virtual.ok("QDECLARE", queue, "RETRYDELAY", 0, "MAXATTEMPTS", 1_000_000)
    model = Model()
    tokens: list[bytes] = []
    for step in range(400):
        what = pick.choice(["put", "lease", "ack", "nack", "time"])
        if what == "put":
            body = b"%d" % step
            put(virtual, queue, body)
            model.ready.append(body)
        elif what == "lease":
            count, seconds = pick.randint(1, 3), 2 * pick.randint(1, 5)
            found = lease(virtual, queue, "COUNT", count, "LEASE", f"{seconds}s")
            assert len(found) == min(count, len(model.ready))
            model.take(found, seconds)
            tokens += [one.lease for one in found]
        elif what == "time":
            model.pass_time(1)
            advance(virtual, "1s")
        elif tokens:
            token = pick.choice(tokens[-12:])
            if what == "ack":
                assert virtual.integer("QACK", queue, token) == model.ack(token)
            else:
                assert virtual.integer("QNACK", queue, token) == model.nack(token)
        assert counts(virtual, queue, "in_flight", "ready", "delayed", "acked") == (
            len(model.out),
            len(model.ready),
            0,
            model.acked,
        )
    assert [message[b"lease"] for message in peek(virtual, queue, "STATE", "LEASED", "COUNT", 1000)] == [
        token for token, _ in sorted(model.out.items(), key=lambda item: item[1][1])
    ]
