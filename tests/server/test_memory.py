"""Large numbers: what goes leaves nothing behind, and no single long job holds the others up."""

from __future__ import annotations

import time
from collections.abc import Callable

import pytest

from tests.support import (
    Conn,
    Connect,
    Pinger,
    ServerProcess,
    advance,
    as_bytes,
    counts,
    deliveries,
    encode,
    lease,
    stat,
    wait_for_waiters,
    wait_until,
)

MANY = 200_000
PAUSE = 0.15
"""Seconds: well above the promise of about 50 ms, far below what the whole job takes in one piece."""


def declare(conn: Conn, queue: str, *options: str | int) -> None:
    conn.ok("QDECLARE", queue, "MAXLEN", 10_000_000, "MAXDEAD", 10_000_000, "RETRYDELAY", 0, *options)


def fill(conn: Conn, queue: str, count: int) -> None:
    """Put so many small messages."""
    batch = encode("QMPUT", queue, *["x"] * 1000)
    for _ in range(count // 1000):
        conn.send(batch)
        assert len(conn.read_raw()) > 1000


def ping_until(pinger: Pinger, is_done: Callable[[], bool]) -> None:
    """PING until a while after the job is done: some of its work may follow its reply."""
    deadline = time.monotonic() + 50
    while not pinger.measure(is_done):
        pinger.ping()
        assert time.monotonic() < deadline, "it never ends"
    for _ in range(300):
        pinger.ping()


@pytest.mark.parametrize("job", ["QPURGE", "QDELETE", "QDEAD PURGE"])
def test_others_are_served_while_very_many_are_dropped(
    job: str, fresh_virtual_server: ServerProcess, connect: Connect
) -> None:
    """A purge and a deletion of a few hundred thousand messages: a PING never waits for the whole."""
    a, b = connect(fresh_virtual_server), connect(fresh_virtual_server)
    declare(a, "q", "TTL", "1s")
    fill(a, "q", MANY)
    if job == "QDEAD PURGE":
        advance(a, "1s")
    a.start(*job.split(), "q")
    pinger = Pinger(fresh_virtual_server, b)
    ping_until(pinger, lambda: a.pending() != b"")
    assert a.read() == (1 if job == "QDELETE" else MANY)
    if job == "QDELETE":
        assert a.error("QSTATS", "q").code == b"NOQUEUE"
    else:
        assert counts(a, "q", "ready", "in_flight", "dead") == (0, 0, 0)
    assert pinger.worst < PAUSE


@pytest.mark.parametrize("job", ["time to live", "leases and delays"])
def test_others_are_served_while_very_many_fall_due(job: str, fresh_server: ServerProcess, connect: Connect) -> None:
    """TTLs, leases, delays that end in one millisecond of the real clock: a PING never waits for all of them."""
    a, b, c = (connect(fresh_server) for _ in range(3))
    a.ok(
        "QDECLARE",
        "q",
        "MAXLEN",
        MANY,
        "MAXDEAD",
        MANY,
        "RETRYDELAY",
        "2s",
        "TTL",
        "3s" if job == "time to live" else "1h",
    )
    a.start("QMPUT", "q", *["x"] * MANY)  # its reply is left unread: decoding it would take longer than the TTL
    wait_until(lambda: stat(b, "q", "enqueued") == MANY, "all are put")
    pinger = Pinger(fresh_server, b)
    if job == "time to live":
        ping_until(pinger, lambda: counts(c, "q", "ready", "dead") == (0, MANY))
    else:
        # In one step, so that they end at one moment.
        c.send(
            encode("MULTI") + encode("QLEASE", "q", "COUNT", MANY, "LEASE", "2s") * (MANY // 10_000) + encode("EXEC")
        )
        wait_until(lambda: stat(b, "q", "delivered") == MANY, "all are leased")
        d = connect(fresh_server)
        ping_until(pinger, lambda: counts(d, "q", "expired_leases", "ready") == (MANY, MANY))
    assert pinger.worst < PAUSE


@pytest.mark.parametrize("job", ["QPURGE", "QDELETE"])
def test_a_purge_takes_time_in_proportion(job: str, fresh_server: ServerProcess, connect: Connect) -> None:
    """Four times the messages, about four times the time, until all is done and the server idle again."""
    a, b = connect(fresh_server), connect(fresh_server)

    def cost(count: int) -> float:
        declare(a, "q")
        fill(a, "q", count)
        before = fresh_server.cpu_seconds()
        a.start(job, "q")
        ping_until(Pinger(fresh_server, b), lambda: a.pending() != b"")
        assert a.read() == (1 if job == "QDELETE" else count)
        a.cmd("QDELETE", "q")
        return fresh_server.cpu_seconds() - before

    cost(10_000)
    assert cost(4 * MANY // 4) < 10 * cost(MANY // 4) + 0.3


def assert_flat(server: ServerProcess, cycle: Callable[[], None], *, warm_up: int, cycles: int) -> None:
    """Memory after many cycles more is what it was when the first ones had filled every cache and pool."""
    for _ in range(warm_up):
        cycle()
    before = server.memory()
    for _ in range(cycles):
        cycle()
    after = server.memory()
    assert after < before * 1.08 + (1 << 20), f"{before >> 10} KiB became {after >> 10} KiB"


def test_queues_that_come_and_go_leave_nothing(fresh_server: ServerProcess, connect: Connect) -> None:
    """Declare, put, lease, ack, delete, tens of thousands of times with new names: no memory is kept."""
    a = connect(fresh_server)
    number = 0

    def cycle() -> None:
        nonlocal number
        names = [f"q.{n}" for n in range(number, number + 100)]
        number += 100
        replies = a.pipeline(
            command
            for name in names
            for command in (("QDECLARE", name), ("QPUT", name, "m", "ID", "an id of its own"), ("QLEASE", name))
        )
        tokens = [deliveries(reply)[0].lease for reply in replies[2::3]]
        settled = a.pipeline(
            command
            for name, token in zip(names, tokens, strict=True)
            for command in (("QACK", name, token), ("QDELETE", name))
        )
        assert settled == [1] * 200

    assert_flat(fresh_server, cycle, warm_up=400, cycles=250)
    assert a.integer("DBSIZE") == 0
    assert a.array("QLIST") == []


def test_messages_that_come_and_go_leave_nothing(fresh_virtual_server: ServerProcess, connect: Connect) -> None:
    """Put with an id, lease, touch, ack, a hundred thousand times, the dedupe window passing: no memory is kept."""
    a = connect(fresh_virtual_server)
    declare(a, "q", "DEDUPE", "10s")
    number = 0

    def cycle() -> None:
        nonlocal number
        a.pipeline([("QPUT", "q", "m" * 50, "ID", f"id {n}") for n in range(number, number + 500)])
        number += 500
        tokens = [found.lease for found in lease(a, "q", "COUNT", 500, "LEASE", "1h", "REQID", str(number))]
        assert a.integer("QTOUCH", "q", *tokens, "FOR", "2h") == 500
        assert a.integer("QACK", "q", *tokens) == 500
        advance(a, "1s")

    assert_flat(fresh_virtual_server, cycle, warm_up=40, cycles=200)
    assert counts(a, "q", "ready", "delayed", "in_flight", "bytes") == (0, 0, 0, 0)


def test_deadlines_that_are_moved_do_not_pile_up(fresh_server: ServerProcess, connect: Connect) -> None:
    """One lease touched, one message released and one delayed message deleted, very often: no memory is kept."""
    a = connect(fresh_server)
    declare(a, "q", "ACKTIMEOUT", "1h", "DEDUPE", 0)
    a.bulk("QPUT", "q", "touched")
    token = deliveries(a.cmd("QLEASE", "q"))[0].lease

    def cycle() -> None:
        assert a.pipeline([("QTOUCH", "q", token, "FOR", "2h")] * 500) == [1] * 500
        replies = a.pipeline([("QPUT", "q", "m", "DELAY", "1h", "TTL", "2h"), ("QPURGE", "q")] * 200)
        assert replies[1::2] == [1] * 200

    assert_flat(fresh_server, cycle, warm_up=20, cycles=200)
    assert stat(a, "q", "in_flight") == 1


def test_waits_that_end_leave_nothing(fresh_server: ServerProcess, connect: Connect) -> None:
    """Connect, wait, hang up, thousands of times; and waits that end by themselves or by UNBLOCK."""
    observer = connect(fresh_server)
    declare(observer, "q")

    def cycle() -> None:
        opened = [Conn(fresh_server.port) for _ in range(50)]
        for one in opened:
            one.start("QLEASE", "q", "WAIT", 0, "REQID", str(one.local_port))
        for one in opened:
            one.close()
        wait_for_waiters(observer, "q", 0)
        for _ in range(20):
            assert lease(observer, "q", "WAIT", "0.0001") == []

    assert_flat(fresh_server, cycle, warm_up=20, cycles=80)


def test_memory_of_what_was_purged_is_used_again(fresh_server: ServerProcess, connect: Connect) -> None:
    """Filling and emptying a queue again and again needs no more than the first time."""
    a = connect(fresh_server)

    def cycle() -> None:
        declare(a, "q")
        fill(a, "q", 20_000)
        assert a.integer("QPURGE", "q") == 20_000
        fill(a, "q", 20_000)
        assert a.integer("QDELETE", "q") == 1

    assert_flat(fresh_server, cycle, warm_up=4, cycles=10)


def test_a_large_lease_reply_is_whole(fresh_server: ServerProcess, connect: Connect) -> None:
    """100,000 messages in ten replies: all there, in order, each leased once."""
    a = connect(fresh_server)
    declare(a, "q")
    a.pipeline([("QMPUT", "q", *range(n, n + 1000)) for n in range(0, 100_000, 1000)])
    found = [one for _ in range(10) for one in lease(a, "q", "COUNT", 1_000_000)]
    assert [one.body for one in found] == [b"%d" % n for n in range(100_000)]
    assert len({as_bytes(one.lease) for one in found}) == 100_000
    assert counts(a, "q", "ready", "in_flight") == (0, 100_000)
