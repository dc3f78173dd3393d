"""`respmq.testing`, used as the tests of a user's program use it: by a pytest of its own."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from respmq import BrokerUnavailableError, InvalidRequestError
from respmq.redis import RespMQ
from respmq.testing import run_server
from tests.support.server import ROOT

PROGRAM = """
import pytest
from respmq import Client, QueueConfig
from respmq.redis import RespMQ

ports = []


def test_a_server(respmq_server):
    ports.append(respmq_server.port)
    mq = RespMQ(port=respmq_server.port)
    mq.qdeclare("jobs", acktimeout=30, retrydelay=1)
    mq.qput("jobs", "x")
    [first] = mq.qlease("jobs")
    respmq_server.advance(31)
    assert mq.qlease("jobs") != []
    mq.close()


@pytest.mark.trio
async def test_each_test_has_its_own(respmq_server):
    async with Client(respmq_server.url) as mq:
        assert await mq.list_queues() == []


@pytest.mark.trio
async def test_a_broker(respmq_broker, autojump_clock):
    respmq_broker.declare_queue("jobs", QueueConfig(ack_timeout=30, retry_delay=1))
    respmq_broker.put("jobs", "x")
    respmq_broker.lease("jobs")
    import trio
    await trio.sleep(31)
    [again] = respmq_broker.lease("jobs")
    assert again.attempt == 2
"""


def run_pytest(folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    """A pytest that knows the plugins named, and none of what is set up for this project."""
    return subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "respmq.testing", *arguments, str(folder)],
        cwd=folder,
        env={**os.environ, "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1", "PYTHONPATH": str(ROOT), "RESPMQ_REQUIREPASS": "x"},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )


def test_the_fixtures_in_a_program_of_somebody_else(tmp_path: Path) -> None:
    (tmp_path / "test_program.py").write_text(PROGRAM)
    done = run_pytest(tmp_path, "-p", "pytest_trio.plugin")
    assert done.returncode == 0, done.stdout + done.stderr
    assert "3 passed" in done.stdout


def test_the_test_on_the_page(tmp_path: Path) -> None:
    page = (ROOT / "docs" / "clients-python.md").read_text(encoding="utf-8")
    code = re.findall(r"```python\n(.*?)```", page, re.DOTALL)[-1]
    assert "def test_" in code
    (tmp_path / "test_page.py").write_text(code)
    done = run_pytest(tmp_path)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "1 passed" in done.stdout


def test_the_server_does_not_need_pytest_trio(tmp_path: Path) -> None:
    (tmp_path / "test_program.py").write_text(PROGRAM.partition("@pytest.mark.trio")[0])
    done = run_pytest(tmp_path)
    assert done.returncode == 0, done.stdout + done.stderr


def test_pytest_finds_them_by_an_entry_point() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    assert project["entry-points"]["pytest11"] == {"respmq": "respmq.testing"}


def test_flags_are_those_of_the_server() -> None:
    with run_server("--maxclients", "5", "--virtual-clock", "no") as server, RespMQ(port=server.port) as mq:
        assert mq.config_get("maxclients") == {"maxclients": "5"}
        with pytest.raises(
            InvalidRequestError, match="the server can't be advanced: ERR DEBUG ADVANCE needs a virtual"
        ):
            server.advance(1)
        with pytest.raises(InvalidRequestError, match="invalid seconds -1"):
            server.advance(-1)
    with pytest.raises(OSError, match="refused"):
        server.advance(1)


def test_a_server_that_does_not_start_says_why() -> None:
    with (
        pytest.raises(BrokerUnavailableError, match=r"status 2 and said: .*maxclients"),
        run_server("--maxclients", "x"),
    ):
        pass


def test_what_the_body_raises_comes_out_and_ends_the_server() -> None:
    with pytest.raises(ZeroDivisionError), run_server() as server:
        raise ZeroDivisionError
    with pytest.raises(OSError, match="refused"):
        server.advance(1)
