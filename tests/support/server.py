"""A real server in a process of its own, started as a user would start it and always ended by its process id."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import IO, Self

ROOT = Path(__file__).resolve().parents[2]
START_DEADLINE = 30.0
STOP_DEADLINE = 30.0

_LISTENING = re.compile(r"^Listening on (?:unix:(?P<path>.+)|(?P<host>\[[^\]]+\]|[^\s:]+):(?P<port>\d+))$")
_LIMITED = 'ulimit -n "$0" && exec "$@"'

#: How a user starts it.
PROGRAM = (sys.executable, "-m", "respmq")


class StartError(AssertionError):
    """The server ended, or said nothing, where `Listening on ...` was due."""


class ServerProcess:
    """One running server. `lines` is what it printed, `listening` where it listens, in the order it said so."""

    def __init__(
        self,
        flags: Sequence[str],
        *,
        env: Mapping[str, str] | None = None,
        listeners: int = 1,
        nofile: int | None = None,
        program: Sequence[str] = PROGRAM,
    ) -> None:
        command = [*program, "serve", *flags]
        if nofile is not None:
            command = ["sh", "-c", _LIMITED, str(nofile), *command]
        self.lines: list[str] = []
        self.listening: list[str] = []
        self.port = 0
        self._said = threading.Condition()
        self._open_streams = 2
        self._process = subprocess.Popen(
            command,
            cwd=ROOT,
            env={**os.environ, **(env or {})},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            encoding="utf-8",
            errors="backslashreplace",
        )
        self.pid = self._process.pid
        assert self._process.stdout is not None
        assert self._process.stderr is not None
        self._readers = [
            threading.Thread(target=self._collect, args=(self._process.stdout, True), daemon=True),
            threading.Thread(target=self._collect, args=(self._process.stderr, False), daemon=True),
        ]
        for reader in self._readers:
            reader.start()
        try:
            self._wait_for_listeners(listeners)
        except BaseException:
            self.kill()
            raise

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, tb: TracebackType | None) -> None:
        self.kill()

    @property
    def log(self) -> str:
        """Everything that it has printed so far, on stdout and stderr."""
        with self._said:
            return "\n".join(self.lines)

    @property
    def running(self) -> bool:
        """Whether the process is still there."""
        return self._process.poll() is None

    def send_signal(self, number: signal.Signals) -> None:
        """Send it a signal."""
        os.kill(self.pid, number)

    def wait(self, timeout: float = STOP_DEADLINE) -> int:
        """Its exit status; below 0 is the signal that ended it."""
        try:
            status = self._process.wait(timeout)
        except subprocess.TimeoutExpired:
            self.kill()
            raise AssertionError(f"still running after {timeout} s:\n{self.log}") from None
        self._finish()
        return status

    def stop(self, number: signal.Signals = signal.SIGTERM, timeout: float = STOP_DEADLINE) -> int:
        """Send it a signal and return its exit status."""
        if self.running:
            self.send_signal(number)
        return self.wait(timeout)

    def kill(self) -> None:
        """End it now, whatever it does."""
        if self.running:
            self.send_signal(signal.SIGKILL)
        self._process.wait(STOP_DEADLINE)
        self._finish()

    def wait_for_log(self, pattern: str, timeout: float = START_DEADLINE) -> str:
        """The first line of the log that the regular expression is found in."""
        deadline = time.monotonic() + timeout
        with self._said:
            while True:
                for line in self.lines:
                    if re.search(pattern, line):
                        return line
                left = deadline - time.monotonic()
                if left <= 0 or not self._said.wait(left):
                    raise AssertionError(f"no line like {pattern!r}:\n" + "\n".join(self.lines))

    def memory(self) -> int:
        """Its resident memory in bytes."""
        pages = int(Path(f"/proc/{self.pid}/statm").read_text().split()[1])
        return pages * os.sysconf("SC_PAGE_SIZE")

    def cpu_seconds(self) -> float:
        """The processor time that it has used so far."""
        fields = Path(f"/proc/{self.pid}/stat").read_text().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")

    def _collect(self, stream: IO[str], is_stdout: bool) -> None:
        with stream:
            for raw in stream:
                line = raw.rstrip("\n")
                with self._said:
                    self.lines.append(line)
                    if is_stdout and (match := _LISTENING.match(line)):
                        self.listening.append(line.removeprefix("Listening on "))
                        if match["port"] and not self.port:
                            self.port = int(match["port"])
                    self._said.notify_all()
        with self._said:
            self._open_streams -= 1
            self._said.notify_all()

    def _wait_for_listeners(self, count: int) -> None:
        deadline = time.monotonic() + START_DEADLINE
        with self._said:
            while len(self.listening) < count:
                left = deadline - time.monotonic()
                if left <= 0 or not self._open_streams:
                    raise StartError(
                        f"{len(self.listening)} of {count} `Listening on ...` lines:\n" + "\n".join(self.lines)
                    )
                self._said.wait(left)

    def _finish(self) -> None:
        for reader in self._readers:
            reader.join(STOP_DEADLINE)


def start_server(
    *flags: str,
    env: Mapping[str, str] | None = None,
    listeners: int = 1,
    nofile: int | None = None,
    program: Sequence[str] = PROGRAM,
) -> ServerProcess:
    """Start a server on a free port (unless the flags name one) and return once it says that it listens.

    `listeners` is how many `Listening on ...` lines to wait for, `nofile` a limit of open files for it, `program` what
    is run instead of `python -m respmq`.
    """
    port = () if "--port" in flags else ("--port", "0")
    return ServerProcess([*port, *flags], env=env, listeners=listeners, nofile=nofile, program=program)


def run_to_end(*flags: str, timeout: float = STOP_DEADLINE) -> tuple[int, str]:
    """Start a server that is expected to refuse; its exit status and everything that it printed."""
    done = subprocess.run(
        [*PROGRAM, "serve", *flags],
        cwd=ROOT,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=timeout,
        check=False,
    )
    return done.returncode, done.stdout + done.stderr
