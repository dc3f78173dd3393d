"""The server's life: where it listens, what it refuses to do, how it stops, and what it does without descriptors."""

from __future__ import annotations

import contextlib
import re
import signal
import socket
import stat as file_modes
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support import (
    PONG,
    Conn,
    Connect,
    Error,
    ServerProcess,
    Simple,
    block,
    deliveries,
    encode,
    info,
    lease_one,
    put,
    run_to_end,
    settle,
    start_server,
    stat,
    wait_until,
)

STOPS = pytest.mark.parametrize("stop", [signal.SIGTERM, signal.SIGINT], ids=["SIGTERM", "SIGINT"])


def refuses_connections(port: int) -> bool:
    try:
        Conn(port).close()
    except ConnectionRefusedError:
        return True
    except ConnectionResetError:  # it stopped listening between the two halves of this connect()
        return False
    return False


# -- Stopping


@STOPS
def test_a_signal_stops_it_in_order(stop: signal.Signals) -> None:
    """Exit status 0, nobody connected or somebody idle."""
    for clients in (0, 3):
        with start_server() as server, contextlib.ExitStack() as stack:
            idle = [stack.enter_context(Conn(server.port)) for _ in range(clients)]
            for one in idle:
                assert one.cmd("PING") == PONG
            assert server.stop(stop) == 0
            assert "Traceback" not in server.log
            assert all(one.read_to_end() == b"" for one in idle)


@STOPS
def test_a_waiter_ends_with_nothing_leased_to_it(stop: signal.Signals, connect: Connect) -> None:
    """A blocked client is told that there is nothing, or just hung up on; it holds the stop up in no case."""
    with start_server() as server:
        a, b = connect(server), connect(server)
        b.ok("QDECLARE", "q")
        block(a, b, "q")
        assert server.stop(stop) == 0
        assert rest_of(a) in (b"", b"*0\r\n")


def rest_of(conn: Conn) -> bytes:
    try:
        return conn.read_to_end()
    except ConnectionResetError:
        return b""


@STOPS
def test_what_was_sent_behind_a_wait_is_answered(stop: signal.Signals, connect: Connect) -> None:
    """Waits behind the wait, too: they all end at once, and what stands between them is carried out."""
    with start_server() as server:
        a, b, c = connect(server), connect(server), connect(server)
        b.ok("QDECLARE", "q")
        b.ok("QDECLARE", "r")
        block(a, b, "q")
        a.send(
            encode("QPUT", "r", "m") + encode("QLEASE", "q", "WAIT", 0) + encode("QLEASE", "r") + encode("ECHO", "end")
        )
        b.ok("CLIENT", "PAUSE", 3_600_000, "ALL")
        c.start("ECHO", "paused")
        wait_until(lambda: len(re.findall("flags=b", b.text("CLIENT", "LIST"))) == 2, "both wait")
        server.send_signal(stop)
        nothing, put_id, nothing_again, leased, end = a.read_all()
        (found,) = deliveries(leased)
        assert (nothing, nothing_again, end) == ([], [], b"end")
        assert (found.id, found.body) == (put_id, b"m")
        assert c.read_all() == [b"paused"]
        assert server.wait() == 0


@STOPS
def test_an_answer_that_has_begun_is_finished(stop: signal.Signals, connect: Connect) -> None:
    """A reply larger than any socket buffer, half-read when the signal comes, arrives whole."""
    size = 16_000_000
    with start_server() as server:
        a = connect(server)
        a.start("ECHO", b"x" * size)
        head = a.sock.recv(1000)
        server.send_signal(stop)
        wait_until(lambda: refuses_connections(server.port), "it takes no new connections")
        everything = head + a.read_to_end()
        assert len(everything) == len(b"$%d\r\n" % size) + size + 2
        assert server.wait() == 0


@STOPS
def test_what_was_carried_out_before_the_signal_is_answered(stop: signal.Signals, connect: Connect) -> None:
    """Puts in a pipeline, then the signal: the stream of replies ends between two of them."""
    with start_server() as server:
        a, b = connect(server), connect(server)
        b.ok("QDECLARE", "q", "MAXLEN", 1_000_000)
        a.send(encode("QPUT", "q", "m") * 20_000)
        wait_until(lambda: stat(b, "q", "enqueued") > 0, "the first put")
        done = stat(b, "q", "enqueued")
        server.send_signal(stop)
        replies = a.read_all()
        assert len(replies) >= done
        assert all(isinstance(reply, bytes) and len(reply) == 32 for reply in replies)
        assert server.wait() == 0


def test_a_client_that_does_not_read_cannot_keep_it_from_stopping(connect: Connect) -> None:
    """The grace time ends; and a second signal ends it sooner."""
    took = []
    for signals in (1, 2):
        with start_server() as server:
            a, b = connect(server), connect(server)
            a.start("ECHO", b"x" * 16_000_000)
            a.sock.recv(1000)
            settle(b)
            start = time.monotonic()
            server.send_signal(signal.SIGTERM)
            if signals == 2:
                wait_until(lambda: refuses_connections(server.port), "it takes no new connections")
                server.send_signal(signal.SIGTERM)
            status = server.wait()
            took.append(time.monotonic() - start)
            assert signals == 2 or status == 0
            assert "Traceback" not in server.log
    assert took[1] < max(took[0], 2)


@pytest.mark.parametrize("how", [(), ("NOSAVE",), ("SAVE",), ("NOW",), ("FORCE",)])
def test_the_shutdown_command_stops_it(how: tuple[str, ...], connect: Connect) -> None:
    """As Redis': no reply, the connection closes, exit status 0."""
    with start_server() as server:
        a = connect(server)
        a.start("SHUTDOWN", *how)
        assert rest_of(a) == b""
        assert server.wait() == 0


def test_a_shutdown_that_is_not_there_cannot_be_aborted(conn: Conn) -> None:
    """SHUTDOWN ABORT, and words that it doesn't know, are errors and stop nothing."""
    assert conn.cmd("SHUTDOWN", "ABORT") == Error(b"ERR No shutdown in progress.")
    assert conn.error("SHUTDOWN", "NONSENSE").code == b"ERR"
    assert conn.cmd("PING") == PONG


# -- Listening


def test_it_says_where_it_listens(connect: Connect) -> None:
    """--port 0 takes a free port, each server its own, and `Listening on ...` is printed through a pipe at once."""
    with start_server("--port", "0") as one, start_server("--port", "0") as two:
        assert one.listening == [f"127.0.0.1:{one.port}"]
        assert one.port != two.port
        assert connect(one).cmd("PING") == PONG
        assert info(connect(two), "server")["tcp_port"] == str(two.port)
        assert info(connect(two), "server")["process_id"] == str(two.pid)


def test_a_port_that_is_taken_is_an_error_that_names_it() -> None:
    """Exit status above 0 and one clear message, no traceback."""
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        status, said = run_to_end("--port", str(port))
    assert status > 0
    assert str(port) in said
    assert "Traceback" not in said
    assert "Listening" not in said


def test_a_port_is_free_again_as_soon_as_it_has_stopped(connect: Connect) -> None:
    """Connections of before don't keep the next server from the same port."""
    with start_server() as first:
        connect(first).cmd("PING")
        port = first.port
        assert first.stop() == 0
    with start_server("--port", str(port)) as second:
        assert second.port == port
        assert connect(second).cmd("PING") == PONG


def test_a_unix_socket(tmp_path: Path) -> None:
    """It listens there besides the port, removes the socket at the end, and starts over one that a crash has left."""
    path = tmp_path / "respmq.sock"
    flags = ("--unixsocket", str(path))
    with start_server(*flags, listeners=2) as server:
        assert f"unix:{path}" in server.listening
        assert file_modes.S_ISSOCK(path.stat().st_mode)
        with Conn(path=str(path)) as a, Conn(server.port) as b:
            a.ok("QDECLARE", "q")
            block(a, b, "q")
            put(b, "q", "m")
            assert isinstance(a.read(), list)
        assert server.stop() == 0
        assert not path.exists()
    with start_server(*flags, listeners=2) as server:
        server.kill()
        assert path.exists()
    with start_server(*flags, listeners=2) as server, Conn(path=str(path)) as a:
        assert a.cmd("PING") == PONG


def test_a_unix_socket_in_use_is_not_taken_away(tmp_path: Path) -> None:
    """A second server on the same path refuses, and the first one goes on being reached there."""
    path = tmp_path / "respmq.sock"
    with start_server("--unixsocket", str(path), listeners=2):
        status, said = run_to_end("--port", "0", "--unixsocket", str(path))
        assert status > 0
        assert str(path) in said
        assert "Traceback" not in said
        with Conn(path=str(path)) as a:
            assert a.cmd("PING") == PONG


def test_a_file_is_no_unix_socket(tmp_path: Path) -> None:
    """What stands at the path and is no socket is not removed."""
    path = tmp_path / "precious"
    path.write_text("data")
    status, said = run_to_end("--port", "0", "--unixsocket", str(path))
    assert status > 0
    assert str(path) in said
    assert "Traceback" not in said
    assert path.read_text() == "data"


def test_ipv6() -> None:
    """::1 is loopback too."""
    with start_server("--host", "::1") as server:
        assert server.listening == [f"[::1]:{server.port}"]
        with Conn(server.port, host="::1") as a:
            assert a.cmd("PING") == PONG
            assert f"addr=[::1]:{a.local_port} " in a.text("CLIENT", "INFO")


def test_off_loopback_it_wants_a_password(connect: Connect) -> None:
    """Refused to start without one; with one it starts."""
    status, said = run_to_end("--port", "0", "--host", "0.0.0.0")  # noqa: S104
    assert status > 0
    assert "password" in said.lower() or "requirepass" in said.lower()
    assert "Traceback" not in said
    assert "Listening" not in said
    with start_server("--host", "0.0.0.0", "--requirepass", "pw") as server:  # noqa: S104
        a = connect(server)
        a.ok("AUTH", "pw")


@pytest.mark.parametrize(
    "flags",
    [
        ("--port", "nonsense"),
        ("--port", "65536"),
        ("--port", "-1"),
        ("--no-such-flag",),
        ("--maxclients", "0"),
        ("--maxclients", "many"),
        ("--heartbeat", "-1"),
        ("--heartbeat", "soon"),
    ],
    ids=" ".join,
)
def test_settings_that_cannot_be_are_refused_at_the_start(flags: tuple[str, ...]) -> None:
    """With a message that names the setting, a status above 0 and no traceback."""
    status, said = run_to_end(*(() if "--port" in flags else ("--port", "0")), *flags)
    assert status > 0
    assert flags[0].strip("-") in said
    assert "Traceback" not in said
    assert "Listening" not in said


# -- Connections


def test_one_client_too_many_is_told_so(connect: Connect) -> None:
    """maxclients: an error and a close for the new one, nothing for the others, and room again when one leaves."""
    with start_server("--maxclients", "3") as server:
        inside = [connect(server) for _ in range(3)]
        for one in inside:
            assert one.cmd("PING") == PONG
        for _ in range(5):
            outside = connect(server)
            assert outside.read_raw() == b"-ERR max number of clients reached\r\n"
            assert outside.at_eof()
        assert [one.cmd("PING") for one in inside] == [PONG] * 3
        inside[0].close()
        wait_until(lambda: info(inside[1], "clients")["connected_clients"] == "2", "one has left")
        late = connect(server)
        assert late.cmd("PING") == PONG
        late.ok("CONFIG", "SET", "maxclients", 4)
        assert connect(server).cmd("PING") == PONG
        assert connect(server).read_raw() == b"-ERR max number of clients reached\r\n"


@pytest.fixture
def poor_server() -> Iterator[ServerProcess]:
    """A server that may open 64 files."""
    with start_server(nofile=64) as running:
        yield running
        assert running.stop() == 0
        assert "Traceback" not in running.log


def test_out_of_descriptors_it_serves_those_it_has(poor_server: ServerProcess) -> None:
    """200 connections where 64 files are allowed: no busy loop, no flood of log lines, and all is well afterwards."""
    with contextlib.ExitStack() as stack:
        old = [stack.enter_context(Conn(poor_server.port)) for _ in range(5)]
        for one in old:
            assert one.cmd("PING") == PONG
        old[0].ok("QDECLARE", "q")
        crowd = [stack.enter_context(Conn(poor_server.port)) for _ in range(200)]
        assert [one.cmd("PING") for one in old] == [PONG] * 5
        lines, used = len(poor_server.lines), poor_server.cpu_seconds()
        threading.Event().wait(2)
        assert poor_server.cpu_seconds() - used < 0.5, "it must not spin while it can't accept"
        assert len(poor_server.lines) - lines < 10, poor_server.log
        put(old[1], "q", "m")
        assert lease_one(old[2], "q").body == b"m"
        for one in crowd:
            one.close()
        with Conn(poor_server.port) as new:
            assert new.cmd("PING") == PONG
        assert [one.cmd("PING") for one in old] == [PONG] * 5
        assert len(poor_server.lines) < 30, poor_server.log


def test_an_idle_server_sleeps(fresh_server: ServerProcess, connect: Connect) -> None:
    """With clients connected, blocked and messages delayed, it uses next to no processor time."""
    a, b = connect(fresh_server), connect(fresh_server)
    b.ok("QDECLARE", "q")
    put(b, "q", "m", "DELAY", "1h")
    block(a, b, "q")
    used = fresh_server.cpu_seconds()
    threading.Event().wait(2)
    assert fresh_server.cpu_seconds() - used < 0.2


def test_quit_answers_and_closes(connect: Connect) -> None:
    """QUIT: +OK, then the end; what was sent behind it is not carried out."""
    a = connect()
    a.send(encode("PING") + encode("QUIT") + encode("PING"))
    assert a.read_to_end() == b"+PONG\r\n+OK\r\n"


def test_killed_connections_end(connect: Connect, conn: Conn) -> None:
    """CLIENT KILL by id and by address ends just that one; one's own answer comes before one's own end."""
    a, b = connect(), connect()
    assert conn.integer("CLIENT", "KILL", "ID", a.id()) == 1
    assert a.at_eof()
    conn.ok("CLIENT", "KILL", f"127.0.0.1:{b.local_port}")
    assert b.at_eof()
    assert conn.error("CLIENT", "KILL", f"127.0.0.1:{b.local_port}").text.startswith(b"ERR No such client")
    c = connect()
    c.ok("CLIENT", "KILL", f"127.0.0.1:{c.local_port}")
    assert c.at_eof()


def test_the_environment_changes_nothing_that_matters(connect: Connect) -> None:
    """A C locale and another time zone: the same answers to the same bytes."""
    with start_server(env={"LC_ALL": "C", "LANG": "C", "TZ": "Pacific/Kiritimati", "PYTHONUTF8": "0"}) as server:
        a = connect(server)
        assert a.cmd("ECHO", b"\xc3\xa9\xff") == b"\xc3\xa9\xff"
        assert a.cmd("PING") == Simple(b"PONG")
        seconds = a.array("TIME")[0]
        assert isinstance(seconds, bytes)
        assert abs(int(seconds) - time.time()) < 60
