"""The vectors that claim to be true of a stock Redis 7.0 are: what respmq is compared with isn't made up."""

from __future__ import annotations

import os
import shutil
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from conformance import report
from conformance.connection import Broken, Control
from conformance.model import load
from conformance.play import FAILED, Settings, play
from tests.conformance.ports import free_port

VECTORS = [vector for vector in load() if vector.redis]
REDIS = shutil.which("redis-server")


@pytest.fixture(scope="module")
def redis_port(tmp_path_factory: pytest.TempPathFactory) -> Iterator[int]:
    if REDIS is None:
        if os.environ.get("RESPMQ_REQUIRE_CLIENTS") == "1":
            pytest.fail("RESPMQ_REQUIRE_CLIENTS=1, but redis-server is not installed")
        pytest.skip("redis-server is not installed")
    version = subprocess.run([REDIS, "--version"], capture_output=True, text=True, check=True).stdout
    if " v=7.0." not in version:
        pytest.skip(f"redis-server is not 7.0: {version.strip()}")
    directory: Path = tmp_path_factory.mktemp("redis")
    port = free_port()
    command = [REDIS, "--port", str(port), "--bind", "127.0.0.1", "--save", "", "--dir", str(directory)]
    with subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as process:
        try:
            yield port
        finally:
            process.terminate()
            process.wait(10)


@pytest.fixture(scope="module")
def control(redis_port: int) -> Iterator[Control]:
    one = connected(redis_port)
    yield one
    one.close()


def connected(port: int) -> Control:
    """A control connection, as soon as the server accepts one."""
    deadline = time.monotonic() + 10
    while True:
        try:
            return Control(("127.0.0.1", port), 5.0)
        except Broken:
            if time.monotonic() > deadline:
                raise
            time.sleep(0.02)


@pytest.mark.parametrize("cut", ["whole", "bytes"])
@pytest.mark.parametrize("protocol", [2, 3])
def test_a_stock_redis_agrees(redis_port: int, control: Control, protocol: int, cut: str) -> None:
    settings = Settings(("127.0.0.1", redis_port), protocol, cut)
    lines: list[str] = []
    for vector in VECTORS:
        if protocol not in vector.protocols:
            continue
        result = play(vector, settings, control)
        if result.status == FAILED:
            lines += report.failure_lines(result, vector.promise)
    assert not lines, "\n".join(lines)
