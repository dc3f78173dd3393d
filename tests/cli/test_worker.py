"""`respmq worker`, as a user starts it."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner

from respmq.cli import main
from tests.support import Conn, ServerProcess, wait_until
from tests.support.server import ROOT

PATIENCE = 20.0

TASKS = """\
import respmq


def resize(job):
    print("resize", job.body, flush=True)
    if job.body == "bad":
        raise respmq.HardFailure("not a picture")
    return {"resized": job.body}


class Tools:
    @staticmethod
    async def slow(job):
        import trio

        print("begin", job.body, flush=True)
        await trio.sleep(job.body)
        print("end", job.body, flush=True)


nothing = 5
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A folder with a module of tasks."""
    (tmp_path / "tasks.py").write_text(TASKS)
    (tmp_path / "broken.py").write_text("import no_such_module\n")
    return tmp_path


def body_of(delivery: object) -> bytes:
    """The body of a delivery."""
    assert isinstance(delivery, list)
    body: object = delivery[4]
    assert isinstance(body, bytes)
    return body


def start(folder: Path, port: int, *words: str) -> subprocess.Popen[str]:
    """Start a worker in a folder."""
    return subprocess.Popen(
        [sys.executable, "-m", "respmq", "worker", *words, "--url", f"respmq://127.0.0.1:{port}"],
        cwd=folder,
        env={**os.environ, "PYTHONPATH": str(ROOT), "PYTHONUNBUFFERED": "1"},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def lines(process: subprocess.Popen[str], count: int) -> list[str]:
    """The next lines that it prints."""
    assert process.stdout is not None
    return [process.stdout.readline().rstrip("\n") for _ in range(count)]


def test_it_works_until_it_is_stopped(server: ServerProcess, conn: Conn, queue: str, folder: Path) -> None:
    results = f"{queue}.results"
    conn.ok("QDECLARE", results)
    conn.ok("EXCHANGE", "DECLARE", results, "TOPIC")
    conn.cmd("EXCHANGE", "BIND", results, results, "#")
    words = ["tasks:resize", "--queue", queue, "--results", results, "--control", results, "--binding-key", "photos.#"]
    process = start(folder, server.port, *words, "--concurrency", "2")
    try:
        head = lines(process, 2)
        assert head[0].startswith("respmq ")
        assert head[1] == f"Working on queue '{queue}' with tasks:resize"
        conn.cmd("QPUT", queue, "cat.jpg")
        assert lines(process, 1) == ["resize cat.jpg"]
        conn.cmd("PUBLISH", "photos.new", "bad")
        assert lines(process, 1) == ["resize bad"]
        wait_until(lambda: conn.integer("QDEAD", "LEN", queue) == 1, "the dead letter")
        process.send_signal(signal.SIGTERM)
        _, log = process.communicate(timeout=PATIENCE)
    finally:
        process.kill()
        process.wait()
    assert process.returncode == 0, log
    assert "becomes a dead letter: not a picture" in log
    assert "Traceback" not in log
    (letter,) = conn.array("QDEAD", "POP", queue)
    assert isinstance(letter, list)
    id = letter[3]
    assert isinstance(id, bytes)
    assert sorted(body_of(one) for one in conn.array("QLEASE", results, "COUNT", 5)) == [
        b'{"resized":"cat.jpg"}',
        b'{"type":"hard-failure","data":"bad","job_id":"%b","origin":"%b","error":"not a picture"}'
        % (id, queue.encode()),
    ]


def test_what_runs_may_finish_and_what_does_not_is_given_back(
    server: ServerProcess, conn: Conn, queue: str, folder: Path
) -> None:
    conn.ok("QDECLARE", queue)
    conn.cmd("QPUT", queue, "0.2", "HEADER", "content-type", "application/json")
    conn.cmd("QPUT", queue, "1000", "HEADER", "content-type", "application/json")
    words = ["tasks:Tools.slow", "--queue", queue, "--concurrency", "2", "--shutdown-timeout", "500ms"]
    process = start(folder, server.port, *words)
    try:
        assert sorted(lines(process, 4)[2:]) == ["begin 0.2", "begin 1000"]
        process.send_signal(signal.SIGTERM)
        output, log = process.communicate(timeout=PATIENCE)
    finally:
        process.kill()
        process.wait()
    assert (process.returncode, output) == (0, "end 0.2\n"), log
    (back,) = conn.array("QLEASE", queue)
    assert isinstance(back, list)
    assert back[3:] == [1, b"1000"]


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("tasks", "--queue", "q"), "'tasks' names no function: MODULE:FUNCTION is wanted, such as tasks:resize"),
        (("none:f", "--queue", "q"), "there is no module 'none', neither in "),
        (("tasks:none", "--queue", "q"), "module 'tasks' has no 'none'"),
        (("tasks:nothing", "--queue", "q"), "'tasks:nothing' is a int, a function is wanted"),
        (("tasks:resize",), "Missing option '--queue'"),
        (("tasks:resize", "--queue", "q", "--concurrency", "0"), "0 is not in the range x>=1"),
        (("tasks:resize", "--queue", "q", "--handler-timeout", "0"), "invalid duration '0' for --handler-timeout"),
        (("tasks:resize", "--queue", "q", "--max-delay", "1x"), "invalid duration '1x' for --max-delay"),
        (("tasks:resize", "--queue", "q", "--url", "http://x"), "respmq://"),
        (("tasks:resize", "--queue", "q", "--url", "127.0.0.1:1"), "'127.0.0.1:1' is no URL: respmq://HOST:PORT is "),
        (("tasks:resize", "--queue", "q", "--queue", "r"), "a worker has one queue: start another one for 'r'"),
    ],
)
def test_what_can_go_wrong_is_said(
    words: tuple[str, ...], message: str, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(folder)
    monkeypatch.setattr(sys, "path", sys.path.copy())
    result = CliRunner().invoke(main, ["worker", *words])
    assert isinstance(result.exception, SystemExit), result.exception
    assert result.exit_code != 0
    assert message in result.stderr


def test_a_module_that_lacks_something_is_shown_with_its_traceback(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(folder)
    monkeypatch.setattr(sys, "path", sys.path.copy())
    result = CliRunner().invoke(main, ["worker", "broken:f", "--queue", "q"])
    assert isinstance(result.exception, ModuleNotFoundError)
    assert result.exception.name == "no_such_module"
