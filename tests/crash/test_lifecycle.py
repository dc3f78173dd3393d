"""A server and its folder: one at a time, loading before serving, and nothing half done at the end."""

from __future__ import annotations

import contextlib
import os
import re
import signal
import subprocess
import threading
from pathlib import Path

import pytest

from tests.crash.faults import LAUNCHER, Disk, Fault
from tests.crash.running import free_port, segments, serve, serve_with
from tests.crash.wire_dump import dump_queue
from tests.support import (
    ClosedError,
    Conn,
    Error,
    ServerProcess,
    as_bytes,
    block,
    counts,
    encode,
    put,
    put_all,
    run_to_end,
    stat,
    wait_until,
)
from tests.support.events import arrived, subscribe
from tests.support.server import PROGRAM, ROOT


@pytest.fixture
def data(tmp_path: Path) -> Path:
    return tmp_path / "data"


# -- The folder


def test_the_folder_is_made_and_has_the_files_that_the_docs_name(data: Path) -> None:
    """Segments by their numbers, and a lock; nobody else may read them."""
    folder = data / "deeper"
    with serve(folder) as server, Conn(server.port) as conn:
        conn.ok("QDECLARE", "q")
        names = sorted(path.name for path in folder.iterdir())
        assert server.stop() == 0
    assert "lock" in names
    others = [name for name in names if name != "lock"]
    assert others
    assert all(re.fullmatch(r"\d{20}\.journal", name) for name in others)
    assert all(path.stat().st_mode & 0o007 == 0 for path in folder.iterdir())


def test_a_second_server_on_the_folder_is_refused(data: Path) -> None:
    """It names the process that has it, and has touched no file; the first one goes on."""
    with serve(data) as server, Conn(server.port) as conn:
        conn.ok("QDECLARE", "q")
        put(conn, "q", "1")
        before = {path: path.read_bytes() for path in sorted(data.iterdir())}
        status, said = run_to_end("--port", "0", "--data", str(data))
        assert status > 0
        assert str(server.pid) in said
        assert str(data) in said
        assert "Traceback" not in said
        assert "Listening" not in said
        assert before == {path: path.read_bytes() for path in sorted(data.iterdir())}
        put(conn, "q", "2")
        server.kill()
    with serve(data) as server, Conn(server.port) as conn:
        assert stat(conn, "q", "ready") == 2
        assert server.stop() == 0


def test_many_servers_at_once_on_one_folder(data: Path) -> None:
    """One of them gets it."""
    processes = [
        subprocess.Popen(
            [*PROGRAM, "serve", "--port", "0", "--data", str(data)],
            cwd=ROOT,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
        )
        for _ in range(4)
    ]
    try:
        firsts = []
        for process in processes:
            assert process.stdout is not None
            firsts.append("Listening" in process.stdout.readline() + process.stdout.readline())
        assert sum(firsts) == 1
    finally:
        for process in processes:
            process.kill()
            process.communicate()


@pytest.mark.parametrize(
    "flags",
    [("--fsync", "sometimes"), ("--journal-segment-size", "1kb"), ("--journal-segment-size", "many")],
    ids=" ".join,
)
def test_settings_that_cannot_be_are_refused(flags: tuple[str, ...], data: Path) -> None:
    status, said = run_to_end("--port", "0", "--data", str(data), *flags)
    assert status > 0
    assert flags[0].strip("-") in said
    assert "Traceback" not in said
    assert not data.exists() or not segments(data)


@pytest.mark.parametrize("mode", [0o555, 0o000], ids=oct)
def test_a_folder_that_cannot_be_written_is_an_error(mode: int, tmp_path: Path) -> None:
    """It names the folder; root may write anywhere, so for root the folder's place is taken by a device."""
    data = tmp_path / "data"
    data.mkdir(mode=mode)
    target = data if os.geteuid() else Path("/dev/null")
    status, said = run_to_end("--port", "0", "--data", str(target))
    data.chmod(0o755)
    assert status > 0
    assert str(target) in said
    assert "Traceback" not in said


# -- Loading


def test_while_it_loads_commands_are_told_so(data: Path) -> None:
    """PING too, as in Redis; those that Redis answers are answered; and it serves as soon as it is done."""
    with serve(data, "--fsync", "no") as server, Conn(server.port) as conn:
        conn.ok("QDECLARE", "q", "MAXLEN", 10_000_000)
        conn.pipeline([("QMPUT", "q", *["x"] * 1000)] * 150)
        server.kill()
    port = free_port()
    with ServerProcess(["--port", str(port), "--data", str(data)]) as server, Conn(port) as conn:
        found = conn.cmd("PING")
        assert isinstance(found, Error), "150,000 messages are read faster than a PING: take more"
        assert found.code == b"LOADING"
        for command in (("QPUT", "q", "m"), ("QLEASE", "q", "WAIT", "0"), ("QSTATS", "q"), ("QDECLARE", "r")):
            assert conn.error(*command).code == b"LOADING"
        assert isinstance(conn.cmd("COMMAND", "COUNT"), int)
        assert "loading:1" in conn.text("INFO", "persistence")
        wait_until(lambda: not isinstance(conn.cmd("PING"), Error), "it has loaded")
        assert "loading:0" in conn.text("INFO", "persistence")
        assert stat(conn, "q", "ready") == 150_000
        assert server.stop() == 0


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGKILL])
def test_an_end_while_it_loads_does_no_harm(number: signal.Signals, data: Path) -> None:
    with serve(data, "--fsync", "no") as server, Conn(server.port) as conn:
        conn.ok("QDECLARE", "q", "MAXLEN", 10_000_000)
        conn.pipeline([("QMPUT", "q", *["x"] * 1000)] * 100)
        server.kill()
    port = free_port()
    for _ in range(2):
        with ServerProcess(["--port", str(port), "--data", str(data)]) as server:
            status = server.stop(number)
            assert status == (0 if number is signal.SIGTERM else -number)
            assert "Traceback" not in server.log
    with serve(data) as server, Conn(server.port) as conn:
        assert stat(conn, "q", "ready") == 100_000


# -- The end


@pytest.mark.parametrize("policy", ["always", "everysec"])
def test_what_waits_for_the_disk_is_answered_before_the_end(policy: str, data: Path, tmp_path: Path) -> None:
    """SIGTERM while a QPUT waits for its fsync, one is blocked and one subscribed: the QPUT is answered, nothing is
    leased to the blocked one, the exit status is 0, and it is all there afterwards.
    """
    disk = Disk(tmp_path / "orders")
    flags = ("--fsync", policy)
    with serve_with(LAUNCHER, disk.environment, data, *flags) as server:
        with Conn(server.port) as a, Conn(server.port) as blocked, Conn(server.port) as subscriber:
            a.ok("QDECLARE", "q")
            a.ok("QDECLARE", "empty")
            block(blocked, a, "empty")
            subscribe(subscriber, "t")
            disk.order(Fault("fdatasync", hold=True))
            a.start("QPUT", "q", "m")
            disk.wait_for("held", "fdatasync")
            server.send_signal(signal.SIGTERM)
            threading.Event().wait(0.2)
            assert server.running
            disk.heal()
            id = as_bytes(a.read())
            assert server.wait() == 0, server.log
            assert rest(blocked) in (b"", b"*0\r\n")
            assert rest(subscriber) == b""
        assert "Traceback" not in server.log
    with serve(data) as server, Conn(server.port) as conn:
        assert counts(conn, "q", "ready", "in_flight") == (1, 0)
        assert as_bytes(conn.mapping("QSHOW", "q", id)[b"body"]) == b"m"
        assert counts(conn, "empty", "ready", "in_flight") == (0, 0)


def rest(conn: Conn) -> bytes:
    try:
        return conn.read_to_end()
    except ConnectionResetError:
        return b""


@pytest.mark.parametrize("policy", ["always", "everysec", "no"])
def test_a_stop_in_the_middle_of_a_pipeline(policy: str, data: Path) -> None:
    """What was answered is there; what wasn't may be."""
    with serve(data, "--fsync", policy) as server, Conn(server.port) as conn:
        conn.ok("QDECLARE", "q", "MAXLEN", 1_000_000)
        conn.send(encode("QPUT", "q", "m") * 5_000)
        answered = [as_bytes(conn.read())]
        server.send_signal(signal.SIGTERM)
        answered += [as_bytes(reply) for reply in conn.read_all()]
        assert server.wait() == 0
        assert "Traceback" not in server.log
    with serve(data) as server, Conn(server.port) as conn:
        stored = [one[b"id"] for one in dump_queue(conn, b"q").live["READY"]]
        assert stored[: len(answered)] == answered
        assert server.stop() == 0


def test_the_shutdown_command_leaves_all_on_the_disk(data: Path, tmp_path: Path) -> None:
    """Under everysec a stop syncs first; with NOW, too."""
    for how in ((), ("NOW",)):
        disk = Disk(tmp_path / f"orders{len(how)}")
        with serve_with(LAUNCHER, disk.environment, data, "--fsync", "everysec") as server:
            with Conn(server.port) as conn:
                conn.ok("QDECLARE", "q")
                put_all(conn, "q", ["m"] * 3)
                disk.order(Fault("fdatasync", count=True))
                put(conn, "q", "m")
                conn.start("SHUTDOWN", *how)
                assert rest(conn) == b""
            assert server.wait() == 0
            assert disk.happened("counted", "fdatasync") > 0
    with serve(data) as server, Conn(server.port) as conn, Conn(server.port) as subscriber:
        assert stat(conn, "q", "ready") == 8
        subscribe(subscriber, "t")
        assert arrived(subscriber) == []


def test_a_disk_that_hangs_does_not_keep_it_for_ever(data: Path, tmp_path: Path) -> None:
    """A second SIGTERM ends it, without an answer that says that all is well."""
    disk = Disk(tmp_path / "orders")
    with serve_with(LAUNCHER, disk.environment, data) as server, Conn(server.port) as conn:
        conn.ok("QDECLARE", "q")
        disk.order(Fault("fdatasync", hold=True))
        conn.start("QPUT", "q", "m")
        disk.wait_for("held", "fdatasync")
        server.send_signal(signal.SIGTERM)
        threading.Event().wait(0.2)
        server.send_signal(signal.SIGTERM)
        threading.Event().wait(0.2)
        assert conn.pending() == b""
        server.kill()
        with contextlib.suppress(ClosedError, ConnectionResetError):
            assert isinstance(conn.read(), Error)
