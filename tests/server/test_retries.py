"""Failures: what counts as one, how long the next attempt waits, where a message stands when it is back; priorities."""

from __future__ import annotations

import random

import pytest

from tests.support import (
    Arg,
    Conn,
    Connect,
    ServerProcess,
    advance,
    as_bytes,
    as_int,
    block,
    bodies,
    counts,
    dead,
    deliveries,
    lease,
    lease_one,
    messages,
    pages,
    peek,
    peeked_bodies,
    put,
    put_all,
    stat,
)


def declare(conn: Conn, queue: str, *options: Arg) -> None:
    """A queue whose retries need no waiting, unless the options say otherwise."""
    conn.ok(
        "QDECLARE", queue, "ACKTIMEOUT", "1s", *(options if "RETRYDELAY" in options else ("RETRYDELAY", 0, *options))
    )


def nack(conn: Conn, queue: str, token: bytes, *options: Arg) -> None:
    assert conn.integer("QNACK", queue, token, *options) == 1


# -- How often


def test_a_worker_that_never_answers_uses_its_attempts_up(
    virtual: Conn, virtual_server: ServerProcess, connect: Connect, queue: str
) -> None:
    """MAXATTEMPTS 3: three times leased by a client that disconnects; dead at the third expiry, never a fourth time."""
    declare(virtual, queue, "MAXATTEMPTS", 3)
    put(virtual, queue, "m")
    for attempt in (1, 2, 3):
        a = connect(virtual_server)
        assert lease_one(a, queue).attempt == attempt
        a.close()
        advance(virtual, "1s")
    (letter,) = dead(virtual, queue)
    assert (letter[b"reason"], letter[b"error"], letter[b"attempt"]) == (b"max_attempts", b"ack timeout", 3)
    advance(virtual, "1h")
    assert lease(virtual, queue) == []
    assert counts(virtual, queue, "delivered", "retried", "dead_lettered", "expired_leases") == (3, 2, 1, 3)


def test_silent_and_explicit_failures_count_alike(virtual: Conn, queue: str) -> None:
    """A nack, an expiry, a nack: three attempts, and the last error is the one that is kept."""
    declare(virtual, queue, "MAXATTEMPTS", 3)
    put(virtual, queue, "m")
    nack(virtual, queue, lease_one(virtual, queue).lease, "ERROR", "first")
    lease_one(virtual, queue)
    advance(virtual, "1s")
    found = lease_one(virtual, queue)
    assert found.attempt == 3
    nack(virtual, queue, found.lease, "ERROR", "last")
    (letter,) = dead(virtual, queue)
    assert (letter[b"reason"], letter[b"error"], letter[b"attempt"]) == (b"max_attempts", b"last", 3)


@pytest.mark.parametrize("limit", [1, 2, 7])
def test_it_is_delivered_exactly_maxattempts_times(limit: int, virtual: Conn, queue: str) -> None:
    """No delivery more, none less."""
    declare(virtual, queue, "MAXATTEMPTS", limit)
    put(virtual, queue, "m")
    seen = []
    while found := lease(virtual, queue):
        seen.append(found[0].attempt)
        nack(virtual, queue, found[0].lease)
    assert seen == list(range(1, limit + 1))
    assert counts(virtual, queue, "ready", "delayed", "dead") == (0, 0, 1)


def test_a_nack_with_a_delay_counts_too(virtual: Conn, queue: str) -> None:
    """DELAY says when, not whether."""
    declare(virtual, queue, "MAXATTEMPTS", 2)
    put(virtual, queue, "m")
    nack(virtual, queue, lease_one(virtual, queue).lease, "DELAY", "1s")
    advance(virtual, "1s")
    nack(virtual, queue, lease_one(virtual, queue).lease, "DELAY", "1s")
    assert counts(virtual, queue, "ready", "delayed", "dead") == (0, 0, 1)


def test_a_release_is_no_attempt(virtual: Conn, queue: str) -> None:
    """Released a hundred times, with and without a delay, it is still at its first attempt."""
    declare(virtual, queue, "MAXATTEMPTS", 1)
    put(virtual, queue, "m")
    for n in range(100):
        found = lease_one(virtual, queue)
        assert found.attempt == 1
        nack(virtual, queue, found.lease, "RELEASE", *(("DELAY", "1s") if n % 2 else ()))
        advance(virtual, "1s")
    assert counts(virtual, queue, "ready", "dead", "retried") == (1, 0, 0)


def test_a_reject_is_death_at_once(virtual: Conn, queue: str) -> None:
    """Whatever attempts are left; it takes no DELAY, and the refused command leaves the lease as it was."""
    declare(virtual, queue)
    put(virtual, queue, "m")
    token = lease_one(virtual, queue).lease
    virtual.error("QNACK", queue, token, "REJECT", "DELAY", "1s")
    virtual.error("QNACK", queue, token, "REJECT", "RELEASE")
    virtual.error("QNACK", queue, token, "NONSENSE")
    assert counts(virtual, queue, "in_flight", "dead") == (1, 0)
    nack(virtual, queue, token, "REJECT", "ERROR", "no good")
    (letter,) = dead(virtual, queue)
    assert (letter[b"reason"], letter[b"error"], letter[b"attempt"]) == (b"rejected", b"no good", 1)


# -- How long it waits


def test_the_backoff_doubles_up_to_its_cap(virtual: Conn, queue: str) -> None:
    """min(RETRYDELAY * 2^(attempt-1), MAXRETRYDELAY), to the millisecond, also where 2^n is beyond any clock."""
    declare(virtual, queue, "RETRYDELAY", "100ms", "MAXRETRYDELAY", "1s", "MAXATTEMPTS", 2000)
    put(virtual, queue, "m")
    for attempt in range(1, 1200):
        found = lease_one(virtual, queue)
        assert found.attempt == attempt
        nack(virtual, queue, found.lease)
        wait = min(100 * 2 ** (attempt - 1), 1000)
        if attempt < 10 or attempt % 100 == 0:
            advance(virtual, f"{wait - 1}ms")
            assert counts(virtual, queue, "ready", "delayed") == (0, 1)
            advance(virtual, "1ms")
        else:
            advance(virtual, f"{wait}ms")
        assert counts(virtual, queue, "ready", "delayed") == (1, 0)


def test_an_expiry_backs_off_as_a_nack_does(virtual: Conn, queue: str) -> None:
    """It begins to wait when the lease ends."""
    declare(virtual, queue, "RETRYDELAY", "2s")
    put(virtual, queue, "m")
    lease_one(virtual, queue)
    advance(virtual, "2999ms")
    assert counts(virtual, queue, "ready", "delayed", "in_flight") == (0, 1, 0)
    advance(virtual, "1ms")
    assert counts(virtual, queue, "ready", "delayed", "in_flight") == (1, 0, 0)


def test_jitter_spreads_the_waits_within_its_bounds(virtual: Conn, queue: str) -> None:
    """RETRYJITTER 0.5: each wait between half and one and a half of the backoff, and not all alike."""
    declare(virtual, queue, "RETRYDELAY", "10s", "RETRYJITTER", "0.5")
    put_all(virtual, queue, range(200))
    for found in lease(virtual, queue, "COUNT", 200):
        nack(virtual, queue, found.lease)
    advance(virtual, "4999ms")
    assert stat(virtual, queue, "ready") == 0
    advance(virtual, "5s")
    assert 20 < stat(virtual, queue, "ready") < 180
    advance(virtual, "5001ms")
    assert stat(virtual, queue, "ready") == 200


# -- Where it stands


@pytest.mark.parametrize(
    ("back", "order"),
    [
        ("nack", [b"2", b"3", b"1"]),
        ("nack delay", [b"2", b"3", b"1"]),
        ("expiry", [b"2", b"3", b"1"]),
        ("release", [b"1", b"2", b"3"]),
        ("release delay", [b"2", b"3", b"1"]),
    ],
)
def test_where_one_that_returns_stands(back: str, order: list[bytes], virtual: Conn, queue: str) -> None:
    """Put 1, 2, 3; lease 1: a failure brings it to the back of its priority, a release to where it stood."""
    declare(virtual, queue)
    put_all(virtual, queue, "123")
    put(virtual, queue, "less urgent", "PRIORITY", 1)
    token = lease_one(virtual, queue).lease
    if back != "expiry":
        options: list[Arg] = ["RELEASE"] if back.startswith("release") else []
        nack(virtual, queue, token, *options, *(["DELAY", "1s"] if back.endswith("delay") else []))
    advance(virtual, "1s")
    assert peeked_bodies(virtual, queue) == [*order, b"less urgent"]
    assert bodies(lease(virtual, queue, "COUNT", 10)) == [*order, b"less urgent"]


def test_several_that_expire_together_keep_their_order(virtual: Conn, queue: str) -> None:
    """They come back behind those that waited, as they stood among themselves."""
    declare(virtual, queue)
    put_all(virtual, queue, range(20))
    taken = bodies(lease(virtual, queue, "COUNT", 10))
    advance(virtual, "1s")
    assert peeked_bodies(virtual, queue) == [*(b"%d" % n for n in range(10, 20)), *taken]


def test_several_that_wait_out_the_same_backoff_keep_their_order(virtual: Conn, queue: str) -> None:
    """Nacked in one order, back in that order."""
    declare(virtual, queue, "RETRYDELAY", "1s")
    put_all(virtual, queue, range(10))
    found = lease(virtual, queue, "COUNT", 10)
    random.Random(7).shuffle(found)
    for one in found:
        nack(virtual, queue, one.lease)
    advance(virtual, "1s")
    assert peeked_bodies(virtual, queue) == bodies(found)


def test_several_that_are_released_stand_where_they_stood(virtual: Conn, queue: str) -> None:
    """In whatever order they are released, also between messages of other priorities and ones put meanwhile."""
    declare(virtual, queue)
    for n in range(12):
        put(virtual, queue, str(n), "PRIORITY", n % 3)
    before = peeked_bodies(virtual, queue)
    found = lease(virtual, queue, "COUNT", 9)
    put(virtual, queue, "new", "PRIORITY", 0)
    random.Random(3).shuffle(found)
    for one in found:
        nack(virtual, queue, one.lease, "RELEASE")
    assert peeked_bodies(virtual, queue) == [*before[:4], b"new", *before[4:]]


def test_a_lease_that_is_not_taken_over_goes_back_to_where_it_stood(
    virtual: Conn, virtual_server: ServerProcess, connect: Connect, queue: str
) -> None:
    """A waiter that left before the put changes nothing about the order."""
    declare(virtual, queue)
    a = connect(virtual_server)
    block(a, virtual, queue)
    a.close()
    put_all(virtual, queue, "123")
    assert bodies(lease(virtual, queue, "COUNT", 3)) == [b"1", b"2", b"3"]


# -- Delays


def test_a_delayed_message_is_ready_in_its_time_among_many(virtual: Conn, queue: str) -> None:
    """500 messages of 100 ms are always on their way; z with 3 s is ready at 3 s and not before."""
    declare(virtual, queue, "MAXLEN", 1_000_000)
    put(virtual, queue, "z", "DELAY", "3s", "PRIORITY", -1)
    for step in range(30):
        virtual.pipeline([("QPUT", queue, "x", "DELAY", "100ms")] * 500)
        advance(virtual, "99ms")
        assert bodies(lease(virtual, queue)) == []
        advance(virtual, "1ms")
        found = bodies(lease(virtual, queue, "COUNT", 1000, "LEASE", "1h"))
        assert found == ([b"x"] * 500 if step < 29 else [b"z", *[b"x"] * 500])


@pytest.mark.parametrize("steps", [1, 7, 50])
def test_messages_become_ready_in_the_order_of_their_due_times(steps: int, virtual: Conn, queue: str) -> None:
    """However many fall due in one step of the clock: all of them, by due time and then by the order of the puts."""
    declare(virtual, queue, "MAXLEN", 100_000)
    pick = random.Random(steps)
    delays = [pick.randint(1, 700) for _ in range(5000)]
    virtual.pipeline([("QPUT", queue, n, "DELAY", f"{delay}ms") for n, delay in enumerate(delays)])
    expected = [b"%d" % n for n, _ in sorted(enumerate(delays), key=lambda item: item[1])]
    upcoming = pages(lambda offset: peek(virtual, queue, "STATE", "DELAYED", "COUNT", 1000, "OFFSET", offset))
    assert [message[b"body"] for message in upcoming] == expected
    for _ in range(steps):
        advance(virtual, f"{700 // steps}ms")
    assert counts(virtual, queue, "ready", "delayed") == (5000, 0)
    assert bodies(lease(virtual, queue, "COUNT", 5000)) == expected


def test_a_delayed_message_stands_where_one_put_at_that_moment_would(virtual: Conn, queue: str) -> None:
    """Behind what was put before it fell due, in front of what is put after."""
    declare(virtual, queue)
    put(virtual, queue, "delayed", "DELAY", "1s")
    put(virtual, queue, "before")
    advance(virtual, "1s")
    put(virtual, queue, "after")
    assert peeked_bodies(virtual, queue) == [b"before", b"delayed", b"after"]


def test_waiters_get_what_falls_due_in_its_order(
    virtual: Conn, virtual_server: ServerProcess, connect: Connect, queue: str
) -> None:
    """Several due times in one advance, several waiters: the first due goes to the first that waited."""
    declare(virtual, queue)
    for delay in (3, 1, 2):
        put(virtual, queue, str(delay), "DELAY", f"{delay}s")
    waiting = [connect(virtual_server) for _ in range(3)]
    for one in waiting:
        block(one, virtual, queue, "WAIT", 0, "LEASE", "1h")
    advance(virtual, "10s")
    assert [bodies(deliveries(one.read())) for one in waiting] == [[b"1"], [b"2"], [b"3"]]


# -- Priorities

LEVELS = [2**63 - 1, -(2**63), -1, 0, 2**53, 2**53 + 1, 2**53 - 1, 2**63 - 2, -(2**63) + 1, 1]


def test_each_priority_is_a_line_of_its_own(conn: Conn, queue: str) -> None:
    """Lower numbers first, first in first out in each level, over the whole of 64 bits without rounding."""
    declare(conn, queue)
    pick = random.Random(33)
    work = [(level, n) for n in range(5) for level in pick.sample(LEVELS, len(LEVELS))]
    conn.pipeline([("QPUT", queue, f"{level}/{n}", "PRIORITY", level) for level, n in work])
    expected = [b"%d/%d" % (level, n) for level in sorted(LEVELS) for n in range(5)]
    assert [as_int(message[b"priority"]) for message in peek(conn, queue, "COUNT", 100)] == [
        level for level in sorted(LEVELS) for _ in range(5)
    ]
    assert bodies(lease(conn, queue, "COUNT", 100)) == expected


def test_a_priority_survives_every_return(virtual: Conn, queue: str) -> None:
    """The extreme ones too."""
    declare(virtual, queue)
    for level in LEVELS:
        put(virtual, queue, str(level), "PRIORITY", level)
    expected = [b"%d" % level for level in sorted(LEVELS)]
    for found in lease(virtual, queue, "COUNT", 100):
        nack(virtual, queue, found.lease)
    found_again = messages(virtual.cmd("QLEASE", queue, "COUNT", 100, "FULL"))
    assert [message[b"body"] for message in found_again] == expected
    assert [message[b"priority"] for message in found_again] == sorted(LEVELS)
    for message in found_again:
        nack(virtual, queue, as_bytes(message[b"lease"]), "REJECT")
    assert virtual.integer("QDEAD", "REPLAY", queue) == len(LEVELS)
    assert peeked_bodies(virtual, queue) == expected


@pytest.mark.parametrize(
    "priority",
    [2**63, -(2**63) - 1, 10**30, "1e3", "nan", "inf", "1.0", "", " 1", "1 ", "0x10", "1_000", "--1", "-", "one"],
)
def test_what_is_no_64_bit_integer_is_no_priority(priority: Arg, conn: Conn, queue: str) -> None:
    """Refused with an error, and nothing is enqueued."""
    declare(conn, queue)
    assert conn.error("QPUT", queue, "m", "PRIORITY", priority).code == b"ERR"
    assert stat(conn, queue, "enqueued") == 0
