"""Servers that a command starts for itself, each in a process of its own, and ends when it has done its work."""

from __future__ import annotations

import contextlib
import os
import re
import signal
import socket
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import TYPE_CHECKING

import click

if TYPE_CHECKING:
    from collections.abc import Generator, Sequence

#: How long a server may take to start or to stop, in seconds.
PATIENCE = 20.0

_LISTENING = re.compile(r"Listening on 127\.0\.0\.1:([0-9]+)\n")


class StartError(click.ClickException):
    """A server did not start."""


@contextlib.contextmanager
def own_broker(*flags: str, lifetime: float | None = None) -> Generator[int]:
    """A respmq server of this very installation, for as long as the context lasts; its port.

    Args:
        flags: more flags for `respmq serve`.
        lifetime: after how many seconds it is killed, whatever goes on, so that nobody waits for it for ever.

    Raises:
        StartError: it did not start; it has said why on the standard error.
    """
    command = [sys.executable, "-m", "respmq", "serve", "--port", "0", "--loglevel", "warning", *flags]
    # What is set for the user's broker is not meant for this one.
    environment = {name: value for name, value in os.environ.items() if not name.startswith("RESPMQ_")}
    with contextlib.ExitStack() as stack:
        with _undisturbed():
            process = subprocess.Popen(  # noqa: S603 - ourselves
                command, env=environment, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, text=True
            )
            stack.enter_context(process)
            stack.callback(_end, process)
        watchdog = threading.Timer(lifetime or PATIENCE, process.kill)
        stack.callback(watchdog.cancel)
        watchdog.start()
        port = _port(process)
        if lifetime is None:
            watchdog.cancel()
        yield port


@contextlib.contextmanager
def own_redis(program: str, folder: Path, flags: Sequence[str]) -> Generator[int]:
    """A Redis server on the loopback interface, for as long as the context lasts; its port.

    Args:
        program: the path of redis-server.
        folder: an empty folder, for its log and what it keeps.
        flags: more flags.

    Raises:
        StartError: it did not start; with the last line of its log.
    """
    with socket.socket() as probe:
        # Redis takes no port 0. This one is free again when the block is left.
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
    log = folder / "redis.log"
    places = ["--port", str(port), "--bind", "127.0.0.1", "--dir", str(folder), "--logfile", str(log), "--save", ""]
    with contextlib.ExitStack() as stack:
        with _undisturbed():
            process = subprocess.Popen(  # noqa: S603 - found on the PATH, as the user asked for
                [program, *places, *flags], stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE
            )
            stack.enter_context(process)
            stack.callback(_end, process)
        _wait_for(process, log)
        yield port


@contextlib.contextmanager
def _undisturbed() -> Generator[None]:
    """Let signals that end the command wait: between a process and the note that it has to be ended is no good time."""
    came: list[int] = []
    numbers = (signal.SIGTERM, signal.SIGINT)
    handlers = {number: signal.signal(number, lambda number, _frame: came.append(number)) for number in numbers}
    try:
        yield
    finally:
        for number, handler in handlers.items():
            signal.signal(number, handler)
    for late in came:
        signal.raise_signal(late)


def _port(process: subprocess.Popen[str]) -> int:
    """The port that the broker says it listens on."""
    for line in process.stdout or ():
        match = _LISTENING.fullmatch(line)
        if match is not None:
            return int(match[1])
    raise StartError("the respmq server of this run did not start")


def _wait_for(process: subprocess.Popen[bytes], log: Path) -> None:
    """Wait until Redis says in its log that it listens; to try its port might find another that has taken it."""
    deadline = time.monotonic() + PATIENCE
    while time.monotonic() < deadline:
        try:
            process.wait(0.02)
        except subprocess.TimeoutExpired:
            if "Ready to accept connections" in _text(log):
                return
        else:
            errors = b"" if process.stderr is None else process.stderr.read()
            last = (_text(log) + errors.decode("utf-8", "replace")).strip().rpartition("\n")[2]
            raise StartError(f"redis-server did not start: {last or f'it ended with status {process.returncode}'}")
    raise StartError(f"redis-server did not start: it is not ready after {PATIENCE:g} seconds")


def _text(log: Path) -> str:
    return log.read_text("utf-8", "replace") if log.exists() else ""


def _end(process: subprocess.Popen[str] | subprocess.Popen[bytes]) -> None:
    process.terminate()
    try:
        process.wait(PATIENCE)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()
