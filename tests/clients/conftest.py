"""What is collected here: the tests whose programs are on this machine, never a skip.

RESPMQ_REQUIRE_CLIENTS=1, which CI sets, makes a missing program an error.
"""

import os
import shutil
import socket
import subprocess
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import pytest

from tests.clients.support import PATIENCE

HERE: Final = Path(__file__).parent
PROGRAMS: Final = {
    "test_against_redis.py": ("redis-server",),
    "test_bench.py": ("redis-server",),
    "test_node.py": ("node",),
    "test_pubsub_against_redis.py": ("redis-server",),
    "test_redis_tools.py": ("redis-cli", "redis-benchmark"),
}


def missing(file: str) -> list[str]:
    lacking = [program for program in PROGRAMS[file] if shutil.which(program) is None]
    if file == "test_node.py" and not (HERE / "node" / "node_modules").is_dir():
        lacking.append("the clients (run `npm ci` in tests/clients/node)")
    return lacking


NOT_COLLECTED: Final = {file: lacking for file in PROGRAMS if (lacking := missing(file))}
collect_ignore: Final = list(NOT_COLLECTED)


def explanation() -> list[str]:
    return [
        f"not collected: tests/clients/{file}, it needs {', '.join(names)}" for file, names in NOT_COLLECTED.items()
    ]


if NOT_COLLECTED and os.environ.get("RESPMQ_REQUIRE_CLIENTS") == "1":
    raise pytest.UsageError("RESPMQ_REQUIRE_CLIENTS=1, but\n" + "\n".join(explanation()))


def pytest_report_collectionfinish() -> list[str]:
    return explanation()


@pytest.fixture(scope="session")
def redis_socket() -> Iterator[str]:
    """The socket of a redis-server without data."""
    folder = Path(tempfile.mkdtemp(prefix="respmq-redis-"))
    path = folder / "redis.sock"
    options = ["--port", "0", "--unixsocket", str(path), "--save", "", "--dir", str(folder)]
    with subprocess.Popen(["redis-server", *options], stdout=subprocess.DEVNULL) as process:
        try:
            wait_for(path, process)
            yield str(path)
        finally:
            process.terminate()
            process.wait(PATIENCE)
            shutil.rmtree(folder)


def wait_for(path: Path, process: "subprocess.Popen[bytes]") -> None:
    give_up_at = time.monotonic() + PATIENCE
    while True:
        assert process.poll() is None, "redis-server ended"
        assert time.monotonic() < give_up_at, "redis-server doesn't listen"
        with socket.socket(socket.AF_UNIX) as probe:
            if path.exists() and probe.connect_ex(str(path)) == 0:
                return
