"""A disk that fails: no reply pretends, nothing that was refused is delivered, and nothing is told of it."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.crash.faults import LAUNCHER, Disk, Fault
from tests.crash.running import SMALLEST, run, serve, serve_with
from tests.support import (
    PONG,
    Arg,
    ClosedError,
    Conn,
    Error,
    ServerProcess,
    Value,
    block,
    bodies,
    lease,
    lease_one,
    put,
    put_all,
    stat,
    wait_until,
)
from tests.support.events import delivered, subscribe

POLICIES = pytest.mark.parametrize("policy", ["always", "everysec", "no"])


@pytest.fixture
def data(tmp_path: Path) -> Path:
    return tmp_path / "data"


@pytest.fixture
def disk(tmp_path: Path) -> Disk:
    return Disk(tmp_path / "orders")


def serve_on(disk: Disk, data: Path, *flags: str) -> ServerProcess:
    """A server whose disk does what it is told."""
    return serve_with(LAUNCHER, disk.environment, data, *flags)


@pytest.fixture
def server(disk: Disk, data: Path) -> Iterator[ServerProcess]:
    with serve_on(disk, data) as running:
        yield running
        assert "Traceback" not in running.log


def outcome(server: ServerProcess, *command: Arg) -> Value | None:
    """The reply to a command, on a connection of its own; None if the server closed it instead."""
    with Conn(server.port) as conn:
        try:
            return conn.cmd(*command)
        except (ClosedError, ConnectionResetError):
            return None


def is_refused(reply: Value | None) -> bool:
    return reply is None or (isinstance(reply, Error) and reply.code == b"MISCONF")


WRITES: list[tuple[Arg, ...]] = [
    ("QPUT", "q", "refused"),
    ("QMPUT", "q", "refused", "refused"),
    ("QLEASE", "q"),
    ("QDECLARE", "new"),
    ("QBIND", "a", "q"),
    ("QDELETE", "q"),
    ("QPURGE", "q"),
    ("EXCHANGE", "DECLARE", "x", "FANOUT"),
]

READS: list[tuple[Arg, ...]] = [
    ("QLIST",),
    ("QSTATS", "empty"),
    ("QPEEK", "empty"),
    ("QSHOW", "q", "id"),
    ("QDEAD", "LEN", "q"),
    ("EXCHANGE", "LIST"),
]


# -- Errors that say that the disk can't be trusted


@pytest.mark.parametrize(
    "fault",
    [
        Fault("fdatasync", "EIO", times=1),
        Fault("pwrite", "EIO", times=1),
        Fault("pwrite", "EIO", times=1, half=True),
        Fault("pwrite", "EROFS", times=1),
    ],
    ids=["fdatasync EIO", "pwrite EIO", "half a pwrite, EIO", "pwrite EROFS"],
)
def test_an_error_refuses_all_until_a_restart(fault: Fault, disk: Disk, server: ServerProcess, data: Path) -> None:
    """The command that met it has no success to tell and its message goes to nobody; once is for ever; a restart
    reads again what is there, and all that was confirmed is.
    """
    with Conn(server.port) as conn, Conn(server.port) as waiter, Conn(server.port) as subscriber:
        conn.ok("QDECLARE", "q")
        conn.ok("QDECLARE", "empty")
        put_all(conn, "q", ["leased", "ready"])
        held = lease_one(conn, "q")
        block(waiter, conn, "empty")
        subscribe(subscriber, "t")
        assert conn.integer("PUBLISH", "t", "goes round the disk") == 1
        disk.order(fault)
        assert is_refused(outcome(server, "QPUT", "empty", "refused"))
        assert disk.happened("failed", fault.call) == 1
        disk.heal()
        assert is_refused(outcome(server, "QACK", "q", held.lease))
        for command in WRITES + READS:
            reply = conn.error(*command)
            assert reply.code == b"MISCONF", f"{command}: {reply}"
        assert "MISCONF" in str(conn.pipeline([("MULTI",), ("QPUT", "q", "refused"), ("EXEC",)]))
        assert conn.cmd("PING") == PONG
        assert b"aof_last_write_status:err" in conn.bulk("INFO", "persistence")
        assert conn.integer("PUBLISH", "t", "still goes round the disk") == 1
        assert b"refused" not in waiter.pending()
    assert server.running
    assert server.stop() in (0, 1), server.log
    with serve(data) as again, Conn(again.port) as conn:
        assert conn.integer("QACK", "q", held.lease) == 1
        assert bodies(lease(conn, "q", "COUNT", 9)) == [b"ready"]
        assert again.stop() == 0
    status, _, said = run("check", data)
    assert status == 0, said


@POLICIES
def test_a_failed_sync_is_never_taken_for_done(policy: str, disk: Disk, data: Path) -> None:
    """A second fdatasync would succeed though the first one's data are lost: it is not asked for."""
    with serve_on(disk, data, "--fsync", policy) as server:
        with Conn(server.port) as conn:
            conn.ok("QDECLARE", "q")
            disk.order(Fault("fdatasync", "EIO", times=1))
            if policy == "always":
                assert is_refused(outcome(server, "QPUT", "q", "refused"))
            elif policy == "everysec":
                put(conn, "q", "written, not yet synced")
                disk.wait_for("failed", "fdatasync")
                wait_until(lambda: is_refused(outcome(server, "QPUT", "q", "m")), "writes are refused")
            else:
                put(conn, "q", "nobody syncs")
            if policy != "no":
                assert conn.error("QPUT", "q", "later").code == b"MISCONF"
                server.wait_for_log("Input/output error")
        server.stop()
        assert "Traceback" not in server.log


@pytest.mark.parametrize("many", [1, 20])
def test_all_who_wait_for_a_sync_that_fails_are_told(many: int, disk: Disk, server: ServerProcess) -> None:
    """Many connections share one fsync, and its failure."""
    conns = [Conn(server.port) for _ in range(many)]
    with Conn(server.port) as conn:
        conn.ok("QDECLARE", "q")
        conn.ok("QDECLARE", "r")
        block(conns[0], conn, "r")
        disk.order(Fault("fdatasync", hold=True, error="EIO"))
        for one in conns[1:]:
            one.start("QPUT", "q", "m")
        conn.start("QPUT", "r", "m")
        disk.wait_for("held", "fdatasync")
        assert all(one.pending() == b"" for one in [conn, *conns])
        disk.heal()
        for one in [conn, *conns[1:]]:
            with contextlib.suppress(ClosedError):
                assert is_refused(one.read())
        assert b"$1\r\nm\r\n" not in conns[0].pending()
    for one in conns:
        one.close()


# -- Disks that are slow


def test_no_reply_leaves_before_its_change_is_on_disk(disk: Disk, server: ServerProcess) -> None:
    """Under always: puts, leases, acks and pushes wait for the disk; only what can tell of nothing doesn't."""
    with Conn(server.port) as a, Conn(server.port) as b, Conn(server.port) as waiter, Conn(server.port) as consumer:
        a.ok("QDECLARE", "q")
        a.ok("QDECLARE", "pushed")
        a.ok("QDECLARE", "waited")
        put_all(a, "q", ["1", "2"])
        held = lease_one(a, "q")
        consumer.hello(3)
        consumer.bulk("QCONSUME", "pushed")
        block(waiter, b, "waited")
        disk.order(Fault("fdatasync", hold=True))
        commands: list[tuple[Arg, ...]] = [
            ("QPUT", "q", "3"),
            ("QACK", "q", held.lease),
            ("QLEASE", "q"),
            ("QPUT", "pushed", "m"),
            ("QPUT", "waited", "m"),
            ("QDECLARE", "new"),
        ]
        conns = [Conn(server.port) for _ in commands]
        for one, command in zip(conns, commands, strict=True):
            one.start(*command)
        disk.wait_for("held", "fdatasync")
        threading.Event().wait(0.1)
        assert outcome(server, "PING") == PONG
        assert [one.pending() for one in [*conns, waiter, consumer]] == [b""] * (len(conns) + 2)
        disk.heal()
        for one in conns:
            assert not isinstance(one.read(), Error)
            one.close()
        assert isinstance(waiter.read(), list)
        wait_until(lambda: [found.body for found in delivered(consumer)] == [b"m"], "the push came")


@pytest.mark.parametrize("policy", ["everysec", "no"])
def test_replies_do_not_wait_for_a_slow_disk(policy: str, disk: Disk, data: Path) -> None:
    """Under everysec a sync that takes long holds up nobody, under no there is none."""
    with serve_on(disk, data, "--fsync", policy) as server, Conn(server.port) as conn:
        conn.ok("QDECLARE", "q")
        disk.order(Fault("fdatasync", hold=True))
        put(conn, "q", "1")
        if policy == "everysec":
            disk.wait_for("held", "fdatasync")
        put_all(conn, "q", ["2", "3"])
        assert bodies(lease(conn, "q", "COUNT", 3)) == [b"1", b"2", b"3"]
        assert policy == "everysec" or disk.happened("held", "fdatasync") == 0
        disk.heal()
        assert server.stop() == 0
    with serve(data) as server, Conn(server.port) as conn:
        assert stat(conn, "q", "in_flight") == 3


def test_many_connections_share_one_sync(disk: Disk, server: ServerProcess) -> None:
    """While one is under way, all that comes waits for one more."""
    with Conn(server.port) as conn:
        conn.ok("QDECLARE", "q", "MAXLEN", 1000)
        disk.order(Fault("fdatasync", hold=True))
        conns = [Conn(server.port) for _ in range(50)]
        conns[0].start("QPUT", "q", "m")
        disk.wait_for("held", "fdatasync")
        for one in conns[1:]:
            one.start("QPUT", "q", "m")
        threading.Event().wait(0.1)
        disk.order(Fault("fdatasync", count=True))
        for one in conns:
            assert isinstance(one.read(), bytes)
            one.close()
        assert stat(conn, "q", "ready") == 50
        assert disk.happened("counted", "fdatasync") <= 5


# -- Errors that pass


def test_half_a_record_is_cut_off(disk: Disk, data: Path) -> None:
    """A write that stops in its middle, again and again, and a restart each time: what comes next is whole."""
    for life in range(3):
        with serve_on(disk, data, *SMALLEST) as server:
            with Conn(server.port) as conn:
                conn.ok("QDECLARE", "q")
                put(conn, "q", f"before {life}")
                disk.order(Fault("pwrite", "ENOSPC", times=1, half=True))
                assert is_refused(outcome(server, "QPUT", "q", b"refused" * 2000))
                assert disk.happened("failed", "pwrite") == 1
                disk.heal()
            server.kill()
            assert "Traceback" not in server.log
        status, out, said = run("check", data)
        assert status in (0, 1), out.decode() + said
    with serve(data, *SMALLEST) as server, Conn(server.port) as conn:
        assert bodies(lease(conn, "q", "COUNT", 9)) == [b"before 0", b"before 1", b"before 2"]
        assert server.stop() == 0
    assert run("check", data)[0] == 0


def test_a_short_write_is_gone_on_with(disk: Disk, server: ServerProcess, data: Path) -> None:
    """The system may write less than it was asked for, without an error: the rest is written then."""
    with Conn(server.port) as conn:
        conn.ok("QDECLARE", "q")
        disk.order(Fault("pwrite", short=True))
        ids = put_all(conn, "q", [b"x" * size for size in (1, 100, 10_000)])
        disk.heal()
        server.kill()
    with serve(data) as again, Conn(again.port) as conn:
        assert [found.id for found in lease(conn, "q", "COUNT", 9)] == ids
