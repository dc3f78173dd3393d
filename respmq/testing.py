"""Brokers for the tests of programs that use respmq: pytest finds these fixtures by itself.

- `respmq_server`: a real server in a process of its own, on a free port, whose clock stands still until
  `respmq_server.advance(seconds)`: leases, delays and retries are tested without sleeping.
- `respmq_broker`: a broker in the test's own process, on Trio's clock, for tests that pytest-trio runs.

`run_server` is the first of them without pytest, or for a fixture of another scope.
"""

from __future__ import annotations

import os
import re
import socket
import subprocess
import sys
import tempfile
from collections.abc import AsyncIterator, Generator, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, TYPE_CHECKING

import pytest

from respmq.api.settings import milliseconds
from respmq.errors import BrokerUnavailableError, InvalidRequestError

if TYPE_CHECKING:
    from respmq.local.broker import Broker

__all__ = ["RunningServer", "respmq_broker", "respmq_server", "run_server"]

_LISTENING = re.compile(r"Listening on (?P<host>127\.0\.0\.1):(?P<port>[0-9]+)\n")

#: Seconds that a server may take to stop, and to answer.
_PATIENCE = 20.0


class RunningServer:
    """A server in a process of its own.

    Args:
        host: the address that it listens on.
        port: the TCP port.
        log: where it writes its log.
    """

    def __init__(self, host: str, port: int, log: IO[bytes]) -> None:
        self.host = host
        self.port = port
        self._log = log

    @property
    def url(self) -> str:
        """Where it is, for `Client`."""
        return f"respmq://{self.host}:{self.port}"

    @property
    def log(self) -> str:
        """What it has logged so far."""
        return _read(self._log)

    def advance(self, seconds: float) -> None:
        """Move its clock on; returns when all that fell due on the way has happened.

        Args:
            seconds: by how much.

        Raises:
            InvalidRequestError: not a possible duration, or the server runs on the real clock or wants a password.
            OSError: it can't be reached.
        """
        millis = milliseconds(seconds, "seconds")
        with socket.create_connection((self.host, self.port), _PATIENCE) as sock, sock.makefile("rb") as replies:
            sock.sendall(b"DEBUG ADVANCE %dms\r\n" % millis)
            reply = replies.readline().decode().rstrip()
        if reply != "+OK":
            raise InvalidRequestError(f"the server can't be advanced: {reply.lstrip('-')}")


@contextmanager
def run_server(*flags: str) -> Generator[RunningServer]:
    """Run a server in a process of its own, on a free port of 127.0.0.1 with a clock that stands still.

    Args:
        flags: more of what `respmq serve` takes, such as `--maxclients 5` or `--virtual-clock no`.

    Raises:
        BrokerUnavailableError: it didn't start; the text says what it wrote.
    """
    command = [sys.executable, "-m", "respmq", "serve", "--port", "0", "--virtual-clock", *flags]
    with (
        tempfile.TemporaryFile() as log,
        subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=log, env=_env()) as process,  # noqa: S603 - our own program
    ):
        try:
            host, port = _wait_for_address(process, log)
            yield RunningServer(host, port, log)
        finally:
            process.terminate()
            try:
                process.wait(_PATIENCE)
            except subprocess.TimeoutExpired:
                process.kill()


def _env() -> dict[str, str]:
    """The environment, without settings of another server, in which this very package is found."""
    found = {name: value for name, value in os.environ.items() if not name.startswith("RESPMQ_")}
    here = str(Path(__file__).resolve().parent.parent)
    return {**found, "PYTHONPATH": os.pathsep.join(filter(None, (here, found.get("PYTHONPATH"))))}


def _wait_for_address(process: subprocess.Popen[bytes], log: IO[bytes]) -> tuple[str, int]:
    said = ""
    if process.stdout is not None:
        for line in process.stdout:
            said += line.decode()
            match = _LISTENING.search(said)
            if match is not None:
                return match["host"], int(match["port"])
    process.wait(_PATIENCE)
    msg = f"the server ended with status {process.returncode} and said: {said}{_read(log)}".rstrip()
    raise BrokerUnavailableError(msg)


def _read(log: IO[bytes]) -> str:
    return os.pread(log.fileno(), os.fstat(log.fileno()).st_size, 0).decode("utf-8", "replace")


@pytest.fixture
def respmq_server() -> Iterator[RunningServer]:
    """A server of this test's own, in its own process, whose clock stands still until it is advanced."""
    with run_server() as server:
        yield server


@pytest.fixture
async def respmq_broker() -> AsyncIterator[Broker]:
    """A broker of this test's own in this process, on Trio's clock."""
    from respmq.local.broker import Broker  # noqa: PLC0415 - tests that don't want it shouldn't load it

    async with Broker() as broker:
        yield broker
