"""The process: its banner, its log, its exit status."""

from __future__ import annotations

import json
import platform
import signal
import socket
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from respmq import __version__
from tests.support import Connect, ServerProcess, as_list, settle, start_server, wait_until
from tests.support.server import ROOT, START_DEADLINE


def stdout_and_log(server: ServerProcess) -> tuple[list[str], list[dict[str, Any]]]:
    """What a server with a JSON log has printed: its banner, and its log."""
    banner = [line for line in server.lines if not line.startswith("{")]
    return banner, [json.loads(line) for line in server.lines if line.startswith("{")]


def provoke_protocol_errors(connect: Connect, server: ServerProcess, count: int) -> None:
    for _ in range(count):
        bad = connect(server)
        bad.send(b"*1\r\n:1\r\n")
        bad.read_to_end()


def test_the_banner(tmp_path: Path) -> None:
    path = tmp_path / "socket"
    with start_server("--host", "127.0.0.1", "--host", "::1", "--unixsocket", str(path), listeners=3) as server:
        assert server.stop() == 0
        banner = [line for line in server.lines if "[info" not in line]
        assert banner == [
            f"respmq {__version__}, process {server.pid}, Python {platform.python_version()}",
            f"Listening on 127.0.0.1:{server.port}",
            f"Listening on [::1]:{server.port}",
            f"Listening on unix:{path}",
            f"Try: redis-cli -p {server.port} QDECLARE jobs",
        ]


@pytest.mark.parametrize(
    ("flags", "hint"),
    [
        (("--host", "::1"), "redis-cli -p PORT -h ::1 QDECLARE jobs"),
        (("--requirepass", "pw"), "redis-cli -p PORT --askpass QDECLARE jobs"),
        (("--host", "0.0.0.0", "--requirepass", "pw"), "redis-cli -p PORT --askpass QDECLARE jobs"),  # noqa: S104
    ],
)
def test_the_hint_fits_the_server(flags: tuple[str, ...], hint: str) -> None:
    with start_server(*flags) as server:
        assert server.wait_for_log("^Try:") == "Try: " + hint.replace("PORT", str(server.port))
        assert server.stop() == 0


def test_a_clock_that_stands_still_is_announced() -> None:
    with start_server("--virtual-clock") as server:
        server.wait_for_log("^Time stands still")
        assert server.stop() == 0


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_stop_as_soon_as_it_listens_is_graceful(number: signal.Signals) -> None:
    for _ in range(3):
        with start_server("--log-format", "json") as server:
            assert server.stop(number) == 0
            _, log = stdout_and_log(server)
            events = [(line["event"], line.get("reason"), line.get("status")) for line in log]
            assert events == [("stopping", number.name, None), ("stopped", None, 0)]


def test_a_second_signal_ends_it_with_status_1(connect: Connect) -> None:
    with start_server("--shutdown-timeout", "1h", "--log-format", "json") as server:
        slow, other = connect(server), connect(server)
        slow.start("ECHO", b"x" * 16_000_000)
        slow.sock.recv(1000)
        settle(other)
        server.send_signal(signal.SIGTERM)
        server.wait_for_log('"stopping"')
        assert server.stop(signal.SIGINT) == 1
        _, log = stdout_and_log(server)
        assert [line["event"] for line in log] == ["stopping", "stopping at once", "stopped"]
        assert "Traceback" not in server.log


def test_the_log_is_json_if_asked_for(connect: Connect) -> None:
    with start_server("--log-format", "json") as server:
        provoke_protocol_errors(connect, server, 1)
        assert server.stop() == 0
        banner, log = stdout_and_log(server)
        assert len(banner) == 3
        assert [line["event"] for line in log] == ["protocol error", "stopping", "stopped"]
        assert log[0]["level"] == "warning"
        assert log[0]["client"].startswith("127.0.0.1:")
        assert log[0]["error"].startswith("Protocol error: ")


def test_clients_cannot_flood_the_log(connect: Connect) -> None:
    with start_server("--log-format", "json") as server:
        provoke_protocol_errors(connect, server, 100)
        assert server.stop() == 0
        _, log = stdout_and_log(server)
        shown = sum(line["event"] == "protocol error" for line in log)
        left_out = sum(line["count"] for line in log if line["event"] == "lines left out")
        # A slow machine may need more than one interval.
        assert 10 <= shown < 100
        assert shown + left_out == 100


def test_the_level_can_be_changed_while_it_runs(connect: Connect) -> None:
    with start_server("--loglevel", "error", "--log-format", "json") as server:
        conn = connect(server)
        provoke_protocol_errors(connect, server, 1)
        conn.ok("CONFIG", "SET", "loglevel", "warning")
        provoke_protocol_errors(connect, server, 1)
        assert as_list(conn.cmd("CONFIG", "GET", "log-format")) == [b"log-format", b"json"]
        assert server.stop() == 0
        _, log = stdout_and_log(server)
        assert [line["event"] for line in log] == ["protocol error"]


@pytest.mark.parametrize("redirection", ["", "<&- >&- 2>&-"], ids=["nobody reads them", "they are closed"])
def test_it_runs_without_standard_streams(redirection: str, tmp_path: Path) -> None:
    path = tmp_path / "socket"
    command = [sys.executable, "-m", "respmq", "serve", "--port", "0", "--unixsocket", str(path)]
    with subprocess.Popen(
        ["sh", "-c", f'exec "$@" {redirection}', "sh", *command],
        cwd=ROOT,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
    ) as process:
        try:
            assert process.stdout is not None
            process.stdout.close()
            wait_until(path.exists, "it listens")
            assert exchange(path, b"nonsense ping\r\nPING\r\n").endswith(b"+PONG\r\n")
            assert exchange(path, b"*1\r\n:1\r\n").startswith(b"-ERR Protocol error")
            process.send_signal(signal.SIGTERM)
            assert process.wait(START_DEADLINE) == 0
        finally:
            process.kill()


def exchange(path: Path, request: bytes) -> bytes:
    """All that is answered to the request."""
    with socket.socket(socket.AF_UNIX) as sock:
        sock.settimeout(START_DEADLINE)
        wait_until(lambda: sock.connect_ex(str(path)) == 0, "it accepts connections")
        sock.sendall(request)
        sock.shutdown(socket.SHUT_WR)
        with sock.makefile("rb") as answers:
            return answers.read()
