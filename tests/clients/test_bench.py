"""`respmq bench` with a real Redis: everything is measured, and nothing is left behind."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from respmq.bench.control import Address, BenchError, Control
from respmq.bench.rounds import Settings, measure_all
from respmq.bench.targets import TARGETS, Mode, Target
from respmq.cli.own_servers import StartError, own_redis
from tests.support import Conn, ServerProcess
from tests.support.server import ROOT

COMMAND = [sys.executable, "-m", "respmq", "bench"]
SHORT = ["--seconds", "0.05", "--rounds", "1", "--connections", "2"]
PATIENCE = 60.0
REDIS = [target for target in TARGETS if target.server == "redis"]
PROGRAM = shutil.which("redis-server") or ""


def run(*args: str, env: dict[str, str] | None = None) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [*COMMAND, *SHORT, *args],
        cwd=ROOT,
        env={**os.environ, **(env or {})},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=PATIENCE,
        check=False,
    )


@pytest.fixture(scope="module")
def redis(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Address]:
    """A Redis without data that runs already."""
    with own_redis(PROGRAM, tmp_path_factory.mktemp("redis"), []) as port:
        yield Address("127.0.0.1", port)


@pytest.fixture
def control(redis: Address) -> Iterator[Control]:
    with Control(redis) as opened:
        yield opened
        opened.call("FLUSHALL")


def test_the_table(tmp_path: Path) -> None:
    done = run(env={"TMPDIR": str(tmp_path)})
    assert (done.returncode, done.stderr) == (0, "")
    lines = done.stdout.splitlines()
    assert re.fullmatch(r"respmq [0-9.]+( \(not compiled\))? in memory, (redis|valkey) [0-9.]+ in memory", lines[0])
    rows = re.findall(
        r"^  (respmq|Redis Streams|Redis lists) +[0-9,]+ +[0-9.]+x +- +[0-9.]+ +[0-9.]+ +\d+%\*?$",
        done.stdout,
        re.MULTILINE,
    )
    assert rows == ["respmq", "Redis Streams", "Redis lists"] * 3
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("flags", [[], ["--fsync", "everysec"]])
def test_on_disk(flags: list[str], tmp_path: Path) -> None:
    done = run("--json", "--data", str(tmp_path), *flags)
    assert (done.returncode, done.stderr) == (0, "")
    found = json.loads(done.stdout)
    policy = (flags or ["always"])[-1]
    assert all(server.endswith(f" on disk with fsync {policy}") for server in found["servers"].values())
    assert len(found["servers"]) == 2
    results = found["results"]
    assert [(one["target"], one["mode"]) for one in results] == [
        (target.key, mode.value) for mode in Mode for target in TARGETS
    ]
    assert all(one["error"] is None and one["jobs_per_second"] > 0 and one["ratio"] > 0 for one in results)
    assert list(tmp_path.iterdir()) == []


def test_redis_gets_the_policy(tmp_path: Path) -> None:
    flags = ["--appendonly", "yes", "--appendfsync", "always"]
    with own_redis(PROGRAM, tmp_path, flags) as port, Control(Address("127.0.0.1", port)) as control:
        assert control.call("CONFIG", "GET", "appendfsync") == [b"appendfsync", b"always"]
        assert control.call("CONFIG", "GET", "appendonly") == [b"appendonly", b"yes"]
        assert control.call("CONFIG", "GET", "save") == [b"save", b""]
        assert control.call("CONFIG", "GET", "bind") == [b"bind", b"127.0.0.1"]


def test_a_redis_that_refuses_its_flags(tmp_path: Path) -> None:
    with pytest.raises(StartError) as caught, own_redis(PROGRAM, tmp_path, ["--appendfsync", "sometimes"]):
        pass
    assert caught.value.message.startswith("redis-server did not start: ")


def test_servers_that_run_already_are_left_as_they_were(
    server: ServerProcess, redis: Address, control: Control
) -> None:
    control.call("SET", "mine", "1")
    done = run("--respmq", f"127.0.0.1:{server.port}", "--redis", str(redis))
    assert (done.returncode, done.stderr) == (0, "")
    assert f" as it runs at {redis}\n" in done.stdout
    assert control.call("KEYS", "*") == [b"mine"]
    with Conn(server.port) as conn:
        queues = conn.cmd("QLIST")
        assert isinstance(queues, list)
        assert not [name for name in queues if str(name).startswith("b'respmq-bench-")]


def test_a_redis_is_no_respmq(redis: Address) -> None:
    done = run("--respmq", str(redis))
    assert done.returncode == 1
    assert re.fullmatch(rf"Error: --respmq: redis [0-9.]+ listens on {redis}, a respmq is wanted\n", done.stderr)


@pytest.mark.parametrize("target", REDIS, ids=lambda target: target.key)
@pytest.mark.parametrize("key", ["mine", "mine:processing"])
def test_a_key_that_is_there_is_not_touched(target: Target, key: str, control: Control) -> None:
    control.call("SET", key, "1")
    with pytest.raises(BenchError, match="there is a key 'mine' already"):
        target.check(control, "mine")
    assert control.call("GET", key) == b"1"


def test_an_error_is_told_and_not_counted(redis: Address, control: Control) -> None:
    """A Redis that is full refuses all that would take memory."""
    control.call("CONFIG", "SET", "maxmemory", "1")
    try:
        targets = [(target, redis) for target in REDIS]
        outcomes = measure_all(targets, Settings(seconds=0.05, rounds=2), lambda _target, _mode: None)
    finally:
        control.call("CONFIG", "SET", "maxmemory", "0")
    assert {str(outcome.error).partition(" ")[0] for outcome in outcomes if outcome.target.key == "lists"} == {"OOM"}
    assert all(outcome.error is not None and "OOM" in outcome.error for outcome in outcomes)
    assert not [outcome for outcome in outcomes if outcome.measurements]
    assert control.call("KEYS", "*") == []
