"""The journal stays small while it is used, whatever old message is still in it, and is whole at every moment."""

from __future__ import annotations

import random
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.crash.faults import LAUNCHER, Disk, Fault, used
from tests.crash.running import SMALLEST, run, segments, serve, serve_with
from tests.crash.wire_dump import differences, dump
from tests.support import (
    Conn,
    as_bytes,
    as_int,
    as_list,
    counts,
    encode,
    is_null,
    lease,
    lease_one,
    put,
    put_all,
)

SEGMENT = 65536

#: In the active segment some room is kept for acks: by so much it may be larger than asked for.
SET_ASIDE = 4 * SEGMENT


@pytest.fixture
def data(tmp_path: Path) -> Path:
    return tmp_path / "data"


def put_and_ack(conn: Conn, rounds: int, size: int = 1000) -> None:
    """So many messages come and go, ten at a time."""
    body = b"x" * size
    for _ in range(rounds):
        put_all(conn, "q", [body] * 10)
        found = lease(conn, "q", "COUNT", 10)
        assert conn.integer("QACK", "q", *(one.lease for one in found)) == len(found) == 10


def old_state(conn: Conn) -> None:
    """What is written once and needed for ever."""
    conn.ok("QDECLARE", "q", "DEDUPE", "1s", "MAXDEAD", 3)
    conn.ok("QDECLARE", "old", "ACKTIMEOUT", "10d", "DEDUPE", "30d")
    put(conn, "old", "m", "DELAY", "30d", "HEADER", "h", b"\xff", "ATTACH", b"\x00")
    put_all(conn, "old", ["leased", "dead", "ready", "done"])
    held = lease(conn, "old", "COUNT", 1, "REQID", "r")
    assert conn.integer("QNACK", "old", lease_one(conn, "old").lease, "REJECT", "ERROR", "e") == 1
    put(conn, "old", "known", "ID", "k", "PRIORITY", -1)
    assert conn.integer("QACK", "old", lease_one(conn, "old").lease) == 1
    conn.integer("QBIND", "a.#", "old")
    conn.ok("EXCHANGE", "DECLARE", "x", "TOPIC")
    conn.integer("EXCHANGE", "BIND", "x", "old", "b.*")
    assert len(held) == 1


def assert_it_gets_small(data: Path, live: int) -> None:
    """Below twice of what is live and two segments, as soon as the disk has synced what it takes.

    A disk that others write to as well may need seconds for each sync.
    """
    deadline = time.monotonic() + 60
    while (size := used(data)) > (most := 2 * live + 2 * SEGMENT + SET_ASIDE):
        assert time.monotonic() < deadline, f"{size} bytes in {len(segments(data))} segments, at most {most} are wanted"
        time.sleep(0.02)


@pytest.mark.parametrize("policy", ["always", "no"])
def test_one_old_message_does_not_keep_the_journal(policy: str, data: Path) -> None:
    """A DELAY of 30 days and all other kinds of state, then many messages that come and go: the folder stays below
    twice the live data and two segments, and all of it is there after kill -9. Without fsync a fast client may be
    ahead of the thread that deletes files.
    """
    with serve(data, "--fsync", policy, *SMALLEST) as server, Conn(server.port) as conn:
        old_state(conn)
        sizes = []
        for _ in range(10):
            put_and_ack(conn, 30)
            sizes.append(used(data))
        assert_it_gets_small(data, 2000)
        assert policy == "no" or max(sizes) < 2_000_000, sizes
        expected = dump(conn, ages=False)
        assert as_int(expected.queues[b"q"].stats[b"enqueued"]) == 3000
        server.kill()
        assert "Traceback" not in server.log
    status, _, said = run("check", data)
    assert status == 0, said
    with serve(data, *SMALLEST) as server, Conn(server.port) as conn:
        assert not differences(dump(conn, ages=False), expected)
        assert [one.body for one in lease(conn, "old", "COUNT", 9, "REQID", "r")] == [b"leased"]
        assert is_null(conn.cmd("QPUT", "old", "a duplicate", "ID", "k"))
        assert server.stop() == 0


def test_much_live_data_among_what_comes_and_goes(data: Path) -> None:
    """Every tenth message stays: the folder stays below twice of those and two segments."""
    with serve(data, "--fsync", "no", *SMALLEST) as server, Conn(server.port) as conn:
        conn.ok("QDECLARE", "q", "DEDUPE", 0)
        conn.ok("QDECLARE", "stays", "DEDUPE", 0)
        for _ in range(30):
            put_and_ack(conn, 9)
            put_all(conn, "stays", [random.randbytes(1000) for _ in range(10)])
        live = as_int(conn.mapping("QSTATS", "stays")[b"bytes"])
        assert live == 300_000
        # What a message takes besides its body is part of it.
        assert_it_gets_small(data, live + 300 * 200)
        expected = dump(conn, ages=False)
        server.kill()
    with serve(data, *SMALLEST) as server, Conn(server.port) as conn:
        assert not differences(dump(conn, ages=False), expected)


@pytest.mark.parametrize("policy", ["always", "no"])
def test_kill_9_while_it_is_compacted(policy: str, data: Path) -> None:
    """Again and again, at any moment: what was confirmed is there, and the journal stays small."""
    flags = ("--fsync", policy, *SMALLEST)
    kept: list[bytes] = []
    lives = 4
    with serve(data, *flags) as server, Conn(server.port) as conn:
        old_state(conn)
        expected = dump(conn, ages=False).queues[b"old"]
        server.kill()
    for life in range(lives):
        with serve(data, *flags) as server, Conn(server.port) as conn:
            found = dump(conn, ages=False)
            assert found.queues[b"old"] == expected
            assert {as_bytes(one[b"body"]) for one in found.queues[b"q"].live["READY"]} >= set(kept)
            for one in lease(conn, "q", "COUNT", 900):
                if one.body not in kept:
                    conn.integer("QACK", "q", one.lease)
                else:
                    conn.integer("QNACK", "q", one.lease, "RELEASE")
            until = time.monotonic() + random.uniform(0.1, 0.5)
            number = 0
            while time.monotonic() < until:
                put_and_ack_but_for(conn, kept, b"%d-%d" % (life, number))
                number += 1
            # In the middle of a burst, which is what compaction works on.
            conn.send(b"".join(encode("QPUT", "q", b"y" * 1000) for _ in range(100)))
            server.kill()
            assert "Traceback" not in server.log
    with serve(data, *flags) as server, Conn(server.port) as conn:
        conn.integer("QPURGE", "q")
        for _ in range(3):
            conn.cmd("QLEASE", "q")
        put_and_ack(conn, 300)
        assert_it_gets_small(data, 5000)
        assert server.stop() == 0


def put_and_ack_but_for(conn: Conn, kept: list[bytes], name: bytes) -> None:
    """Nine come and go, and one stays."""
    put(conn, "q", name, "PRIORITY", 1)
    kept.append(name)
    put_and_ack(conn, 1)


def test_the_right_file_is_synced_once(data: Path, tmp_path: Path) -> None:
    """Segments are begun and dropped while an fsync runs in its thread: no sync of a file that was closed meanwhile."""
    disk = Disk(tmp_path / "orders")
    with serve_with(LAUNCHER, disk.environment, data, *SMALLEST) as server, Conn(server.port) as conn:
        conn.ok("QDECLARE", "q", "DEDUPE", 0)
        conns = [Conn(server.port) for _ in range(4)]
        for _ in range(6):
            disk.order(Fault("fdatasync", hold=True))
            for one in conns:
                one.send(b"".join(encode("QPUT", "q", b"x" * 20_000) for _ in range(5)))
            disk.wait_for("held", "fdatasync")
            disk.heal()
            for one in conns:
                for _ in range(5):
                    as_bytes(one.read())
            while found := lease(conn, "q", "COUNT", 20):
                assert conn.integer("QACK", "q", *(one.lease for one in found)) == len(found)
        for one in conns:
            one.close()
        assert_it_gets_small(data, 5000)
        assert [line for line in disk.trace() if line["event"] == "swapped"] == []
        assert server.stop() == 0
        assert "Traceback" not in server.log
    with serve(data, *SMALLEST) as server, Conn(server.port) as conn:
        assert counts(conn, "q", "enqueued", "acked", "ready") == (120, 120, 0)


def words(conn: Conn) -> Iterator[bytes]:
    """The names of all queues."""
    yield from map(as_bytes, as_list(conn.cmd("QLIST")))


def test_queues_that_come_and_go_leave_nothing_behind(data: Path) -> None:
    """Declared, used, deleted, thousands of times, with names of their own."""
    with serve(data, "--fsync", "no", *SMALLEST) as server, Conn(server.port) as conn:
        for number in range(150):
            commands = []
            for name in (f"q.{number}.{part}" for part in range(20)):
                commands += [("QDECLARE", name), ("QPUT", name, b"x" * 300), ("QBIND", "a.#", name), ("QDELETE", name)]
            conn.pipeline(commands)
        assert_it_gets_small(data, 5000)
        assert list(words(conn)) == []
        server.kill()
    with serve(data, *SMALLEST) as server, Conn(server.port) as conn:
        assert list(words(conn)) == []
        assert conn.array("QBINDINGS") == []
