"""`respmq bench` without Redis: what it prints and leaves behind, and what a user can get wrong."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
from pathlib import Path

import click
import pytest
from click.testing import CliRunner

from respmq.bench.rounds import MOST_SECONDS
from respmq.cli import main
from respmq.cli.bench import bench
from tests.support import Conn, Connect, ServerProcess, info, start_server, stat, wait_until
from tests.support.server import ROOT

COMMAND = [sys.executable, "-m", "respmq", "bench"]
SHORT = ["--seconds", "0.05", "--rounds", "1", "--connections", "2"]
PATIENCE = 60.0


def run(*args: str, env: dict[str, str] | None = None) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [*COMMAND, *args],
        cwd=ROOT,
        env={**os.environ, **(env or {})},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=PATIENCE,
        check=False,
    )


def at(server: ServerProcess) -> str:
    return f"127.0.0.1:{server.port}"


def benchmarks(conn: Conn) -> list[object]:
    """The queues of a benchmark that are there."""
    queues = conn.cmd("QLIST")
    assert isinstance(queues, list)
    return [name for name in queues if str(name).startswith("b'respmq-bench-")]


# -- Its own server ----------------------------------------------------------------------------------------------------


def test_it_measures_and_leaves_nothing_behind(tmp_path: Path) -> None:
    """Whatever is set for the user's broker is not meant for this one."""
    env = {"RESPMQ_PORT": "1", "RESPMQ_REQUIREPASS": "pw", "TMPDIR": str(tmp_path)}
    done = run("--no-redis", *SHORT, env=env)
    assert (done.returncode, done.stderr) == (0, "")
    head, machine, how, *rows = done.stdout.splitlines()
    assert re.fullmatch(r"respmq [0-9.]+( \(not compiled\))? in memory", head)
    assert re.fullmatch(r"\d+ processors?, .+, Python 3\.[0-9.]+", machine)
    assert how == "2 connections, bodies of 64 bytes, one round of 0.05 s"
    measured = [row for row in rows if re.match(r"  respmq +[0-9,]+ +1\.00x +- +[0-9.]+ +[0-9.]+ +\d+%\*?$", row)]
    assert len(measured) == 3
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("fsync", [None, "no"])
def test_with_a_journal(fsync: str | None, tmp_path: Path) -> None:
    flags = [] if fsync is None else ["--fsync", fsync]
    done = run("--no-redis", "--data", str(tmp_path), *flags, *SHORT)
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.splitlines()[0].endswith(f" on disk with fsync {fsync or 'always'}")
    assert list(tmp_path.iterdir()) == []


def test_json() -> None:
    done = run("--no-redis", "--json", "--depth", "3", "--body", "0", *SHORT)
    assert (done.returncode, done.stderr) == (0, "")
    found = json.loads(done.stdout)
    assert (found["connections"], found["depth"], found["body_bytes"], found["seconds"]) == (2, 3, 0, 0.05)
    assert found["notes"] == []
    results = found["results"]
    assert [(one["target"], one["mode"], one["error"]) for one in results] == [
        ("respmq", "single", None),
        ("respmq", "pipelined", None),
        ("respmq", "batch", None),
    ]
    assert all(one["jobs_per_second"] > 0 and one["ratio"] == 1 and len(one["rounds"]) == 1 for one in results)


def test_without_redis_it_measures_respmq_alone_and_says_so(tmp_path: Path) -> None:
    done = run(*SHORT, env={"PATH": str(tmp_path)})
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.endswith("\n\nThere is no redis-server on the PATH, so respmq was measured alone.\n")


@pytest.mark.parametrize(
    ("script", "reason"),
    [
        ("echo 'Bad directive' >&2; exit 1", "Bad directive"),
        ("exit 3", "it ended with status 3"),
    ],
)
def test_a_redis_that_does_not_start(script: str, reason: str, tmp_path: Path) -> None:
    program = tmp_path / "redis-server"
    program.write_text(f"#!/bin/sh\n{script}\n")
    program.chmod(0o755)
    done = run(*SHORT, env={"PATH": f"{tmp_path}:{os.environ['PATH']}"})
    message = f"Error: redis-server did not start: {reason} (--no-redis measures respmq alone)\n"
    assert (done.returncode, done.stdout, done.stderr) == (1, "", message)


def test_a_respmq_that_does_not_start(monkeypatch: pytest.MonkeyPatch) -> None:
    """Here there is no Python to start it with."""
    monkeypatch.setattr(sys, "executable", "/bin/false")
    monkeypatch.setattr(signal, "signal", lambda _number, _handler: None)
    assert fail("--no-redis", *SHORT) == (1, "the respmq server of this run did not start")


# -- A server that runs already ----------------------------------------------------------------------------------------


def test_a_running_server_is_left_as_it_was(fresh_server: ServerProcess, connect: Connect) -> None:
    conn = connect(fresh_server)
    conn.cmd("QDECLARE", "mine")
    conn.cmd("QPUT", "mine", "x")
    done = run("--respmq", at(fresh_server), "--no-redis", *SHORT)
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.splitlines()[0].endswith(f" as it runs at {at(fresh_server)}")
    assert conn.cmd("QLIST") == [b"mine"]
    wait_until(lambda: info(conn, "clients")["connected_clients"] == "1", "the clients to be gone")


def test_an_answer_that_is_an_error_is_told_and_not_counted(connect: Connect) -> None:
    with start_server("--maxmemory", "1kb") as server:
        done = run("--respmq", at(server), "--no-redis", *SHORT, "--body", "2000")
        assert done.returncode == 1
        assert len(re.findall(r"^  respmq( +-){6}$", done.stdout, re.MULTILINE)) == 3
        last = done.stdout.splitlines()[-1]
        assert last.startswith("not measured: respmq, 16 jobs at a time, many in one command: OOM messages use ")
        assert benchmarks(connect(server)) == []
        assert server.stop() == 0


def test_a_queue_that_is_there_is_not_touched(
    fresh_server: ServerProcess, connect: Connect, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("secrets.token_hex", lambda _: "mine")
    monkeypatch.setattr(signal, "signal", lambda _number, _handler: None)
    conn = connect(fresh_server)
    conn.cmd("QDECLARE", "respmq-bench-mine")
    conn.cmd("QPUT", "respmq-bench-mine", "x")
    result = CliRunner().invoke(main, ["bench", "--respmq", at(fresh_server), "--no-redis", *SHORT])
    assert result.exit_code == 1
    assert "one job at a time: there is a queue 'respmq-bench-mine' already\n" in result.stdout
    assert stat(conn, "respmq-bench-mine", "ready") == 1


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_it_tidies_up_when_it_is_ended(number: signal.Signals, fresh_server: ServerProcess, connect: Connect) -> None:
    conn = connect(fresh_server)
    flags = ["--respmq", at(fresh_server), "--no-redis", "--seconds", "60"]
    with subprocess.Popen(
        [*COMMAND, *flags], cwd=ROOT, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE
    ) as process:
        wait_until(lambda: int(info(conn, "clients")["connected_clients"]) > 50, "the load")
        assert len(benchmarks(conn)) == 1
        process.send_signal(number)
        assert process.wait(PATIENCE) == 1
        assert process.stderr is not None
        assert b"Traceback" not in process.stderr.read()
    assert benchmarks(conn) == []


def test_its_own_server_ends_with_it() -> None:
    """Even if it is ended in the moment in which it has begun to start that."""
    with subprocess.Popen(
        [*COMMAND, "--no-redis", "--seconds", "60"], cwd=ROOT, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE
    ) as process:
        children = Path(f"/proc/{process.pid}/task/{process.pid}/children")
        wait_until(lambda: children.read_text() != "", "its server")
        (child,) = children.read_text().split()
        process.send_signal(signal.SIGTERM)
        assert process.wait(PATIENCE) == 1
    assert not Path(f"/proc/{child}").exists()


# -- What a user can get wrong -----------------------------------------------------------------------------------------


def fail(*args: str) -> tuple[int, str]:
    """The exit status and the message of what must fail before anything is started."""
    result = CliRunner().invoke(main, ["bench", *args])
    assert isinstance(result.exception, SystemExit), result.exception
    assert result.stdout == ""
    *_, message = result.stderr.splitlines()
    assert message.startswith("Error: ")
    return result.exit_code, message.removeprefix("Error: ")


@pytest.mark.parametrize(
    ("flags", "message"),
    [
        (("--fsync", "no"), "--fsync is for what is kept on disk: name a folder with --data"),
        (
            ("--data", ".", "--redis", "127.0.0.1:6379"),
            (
                "--data is for servers that this command starts: those of --respmq and --redis have settings of their "
                "own"
            ),
        ),
        (("--no-redis", "--redis", "127.0.0.1:6379"), "--redis and --no-redis exclude each other"),
        (("--data", "missing"), "Invalid value for '--data': Directory 'missing' does not exist."),
        (("--rounds", "0"), "Invalid value for '--rounds': 0 is not in the range 1<=x<=1000."),
        (("--seconds", "soon"), "Invalid value for '--seconds': 'soon' is not a valid float range."),
        (("--seconds", "61"), "Invalid value for '--seconds': 61.0 is not in the range 0.01<=x<=60."),
        (
            ("--seconds", "nan"),
            "Invalid value for '--seconds': 'nan' is no number of seconds: one from 0.01 to 60 is wanted",
        ),
        (("more",), "Got unexpected extra argument (more)"),
        *(
            (
                ("--redis", wrong),
                f"Invalid value for '--redis': '{wrong}' is no address: HOST:PORT is wanted, such as 127.0.0.1:6390",
            )
            for wrong in ("", "6379", ":6379", "localhost:", "localhost:x", "localhost:0", "localhost:65536")
        ),
    ],
)
def test_wrong_flags(flags: tuple[str, ...], message: str) -> None:
    assert fail(*flags) == (2, message)


def test_it_never_suggests_what_it_refuses() -> None:
    """The table says how many --seconds would be enough."""
    (seconds,) = [parameter for parameter in bench.params if parameter.name == "seconds"]
    assert isinstance(seconds.type, click.FloatRange)
    assert seconds.type.max == MOST_SECONDS


def test_nobody_listens_there() -> None:
    done = run("--respmq", "127.0.0.1:1")
    message = "Error: --respmq: can't connect to 127.0.0.1:1: Connection refused\n"
    assert (done.returncode, done.stdout, done.stderr) == (1, "", message)


def test_another_server_listens_there(server: ServerProcess) -> None:
    done = run("--respmq", at(server), "--redis", at(server))
    assert (done.returncode, done.stdout) == (1, "")
    assert re.fullmatch(
        rf"Error: --redis: respmq [0-9.]+( \(not compiled\))? listens on {at(server)}, a Redis is wanted\n", done.stderr
    )


def test_a_password_is_wanted() -> None:
    with start_server("--requirepass", "pw") as server:
        done = run("--respmq", at(server))
        assert (done.returncode, done.stdout) == (1, "")
        assert done.stderr.startswith(f"Error: --respmq: {at(server)} answers INFO with 'NOAUTH ")
        assert server.stop() == 0


def test_help_says_what_it_does() -> None:
    result = CliRunner().invoke(main, ["bench", "--help"])
    assert result.exit_code == 0
    for words in ("QPUT, QLEASE, QACK", "XREADGROUP", "LMOVE", "--data DIR", "  respmq bench\n"):
        assert words in result.stdout
    assert "  bench " in CliRunner().invoke(main, ["--help"]).stdout
