"""Servers that start fast: a process that has imported respmq forks one for each start.

They are what `python -m respmq serve` is but for the half second that its imports take; tests that start hundreds of
servers use them. `python -m tests.crash.preloaded` is that process: it reads requests from its standard input.
"""

from __future__ import annotations

import importlib
import json
import os
import re
import signal
import subprocess
import sys
import tempfile
import threading
import time
import traceback
from collections.abc import Sequence
from pathlib import Path

from tests.support import ServerProcess, StartError
from tests.support.server import ROOT, START_DEADLINE, STOP_DEADLINE

_LISTENING = re.compile(r"^Listening on \S+:(\d+)$", re.MULTILINE)

#: What `respmq serve` imports when it is asked to start.
_MODULES = ("trio", "respmq.cli", "respmq.cli.log", "respmq.server.app", "respmq.commands.registry")


class Nest:
    """The process that forks."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._folder = tempfile.TemporaryDirectory()
        self._started = 0
        self._process = subprocess.Popen(
            [sys.executable, "-m", "tests.crash.preloaded"],
            cwd=ROOT,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )

    def start(self, flags: Sequence[str]) -> tuple[int, Path]:
        """Fork a server; its process id and the file that it prints to."""
        with self._lock:
            self._started += 1
            log = Path(self._folder.name) / str(self._started)
            return self._ask({"flags": flags, "log": str(log)}), log

    def wait(self, pid: int, *, block: bool) -> int | None:
        """The exit status of a server, below 0 the signal that ended it; None if it runs, unless this shall `block`."""
        with self._lock:
            answer = self._ask({"wait": pid, "block": block})
        return None if answer == _RUNNING else answer

    def close(self) -> None:
        """End it; servers that it started must have ended."""
        assert self._process.stdin is not None
        self._process.stdin.close()
        self._process.wait(STOP_DEADLINE)
        assert self._process.stdout is not None
        self._process.stdout.close()
        self._folder.cleanup()

    def _ask(self, request: object) -> int:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(json.dumps(request) + "\n")
        self._process.stdin.flush()
        return int(self._process.stdout.readline())


_RUNNING = 1 << 16


class Preloaded(ServerProcess):
    """One of its servers; unless it `listens`, it is expected to end by itself."""

    def __init__(self, nest: Nest, flags: Sequence[str], *, listens: bool = True) -> None:
        self._nest = nest
        self._status: int | None = None
        self.pid, self._log = nest.start([*(() if "--port" in flags else ("--port", "0")), *flags])
        self.port = 0
        if not listens:
            return
        try:
            self._wait_until_it_listens()
        except BaseException:
            self.kill()
            raise

    @property
    def log(self) -> str:
        """Everything that it has printed so far."""
        return self._log.read_text("utf-8", "backslashreplace") if self._log.exists() else ""

    @property
    def running(self) -> bool:
        """Whether the process is still there."""
        if self._status is None:
            self._status = self._nest.wait(self.pid, block=False)
        return self._status is None

    def wait(self, timeout: float = STOP_DEADLINE) -> int:
        """Its exit status; below 0 is the signal that ended it."""
        deadline = time.monotonic() + timeout
        while self.running:
            if time.monotonic() > deadline:
                self.kill()
                raise AssertionError(f"still running after {timeout} s:\n{self.log}")
            time.sleep(0.003)
        assert self._status is not None
        return self._status

    def kill(self) -> None:
        """End it now, whatever it does."""
        if self.running:
            self.send_signal(signal.SIGKILL)
            self._status = self._nest.wait(self.pid, block=True)

    def _wait_until_it_listens(self) -> None:
        deadline = time.monotonic() + START_DEADLINE
        while (match := _LISTENING.search(self.log)) is None:
            if not self.running or time.monotonic() > deadline:
                raise StartError(f"no `Listening on ...` line:\n{self.log}")
            time.sleep(0.003)
        self.port = int(match[1])


def main() -> None:
    """Import what a server needs, then fork and wait as asked."""
    for module in _MODULES:
        importlib.import_module(module)
    servers: set[int] = set()
    for line in sys.stdin:
        request = json.loads(line)
        if "flags" in request:
            pid = os.fork()
            if pid == 0:
                _become_server(request["flags"], request["log"])
            servers.add(pid)
            answer = pid
        else:
            pid, status = os.waitpid(request["wait"], 0 if request["block"] else os.WNOHANG)
            servers.discard(pid)
            answer = _RUNNING if pid == 0 else os.waitstatus_to_exitcode(status)
        sys.stdout.write(f"{answer}\n")
        sys.stdout.flush()
    # Whoever asked is gone, perhaps by force: nobody else would end them.
    for pid in servers:
        os.kill(pid, signal.SIGKILL)


def _become_server(flags: Sequence[str], log: str) -> None:
    """Be `respmq serve` to the end."""
    output = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
    os.dup2(output, 1)
    os.dup2(output, 2)
    status: object = 1
    try:
        importlib.import_module("respmq.cli").main(["serve", *flags], prog_name="respmq")
    except SystemExit as end:
        status = end.code or 0
    except Exception:  # noqa: BLE001  # as the interpreter does when a program ends by one
        traceback.print_exc()
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(status if isinstance(status, int) else 1)


if __name__ == "__main__":
    main()
