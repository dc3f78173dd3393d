"""A whole server: listening sockets, signals, the reactor, from the configuration to the exit."""

from __future__ import annotations

import errno
import gc
import os
import random
import signal
import socket
import stat
import time
from pathlib import Path
from typing import TYPE_CHECKING

import trio

from respmq.commands.registry import load
from respmq.config import ConfigError
from respmq.engine.journaled import JournaledEngine
from respmq.engine.memory import MemoryEngine
from respmq.errors import JournalError
from respmq.server.reactor import Reactor
from respmq.server.state import State

if TYPE_CHECKING:
    from collections.abc import Callable

    from respmq.config import Config
    from respmq.server.notice import Notice

_BACKLOG = 1024

#: What a user can do about it when the server can't listen.
_ADVICE = {
    errno.EADDRINUSE: " (is another server running? choose another with --port)",
    errno.EACCES: " (ports below 1024 need privileges, choose another with --port)",
}


class ListenError(Exception):
    """The server can't listen where it should."""


class Clock:
    """The broker's time: the wall clock at the start, moved on by a clock that never jumps and counts a suspend."""

    def __init__(self) -> None:
        self._clock = getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC)
        self._offset = time.time() - time.clock_gettime(self._clock)

    def __call__(self) -> int:
        """Milliseconds since the epoch."""
        return int((self._offset + time.clock_gettime(self._clock)) * 1000)


def open_listeners(config: Config) -> list[socket.socket]:
    """Sockets that listen at all addresses of the configuration.

    Raises:
        ListenError: one can't; the text says which and why. None is left open then.
    """
    listeners: list[socket.socket] = []
    try:
        port = config.port
        for host in config.host:
            listeners.append(_listen_tcp(host, port))
            port = listeners[0].getsockname()[1]
        if config.unixsocket:
            listeners.append(_listen_unix(config.unixsocket, config.unixsocketperm))
    except ListenError:
        for sock in listeners:
            sock.close()
        raise
    return listeners


def _listen_tcp(host: str, port: int) -> socket.socket:
    try:
        family, kind, protocol, _, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
        sock = socket.socket(family, kind, protocol)
    except (OSError, UnicodeError) as error:
        msg = f"can't listen on {host}: {_reason(error)}"
        raise ListenError(msg) from error
    try:
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        if family == socket.AF_INET6:
            sock.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
        sock.bind(address)
        sock.listen(_BACKLOG)
        sock.setblocking(False)
    except OSError as error:
        sock.close()
        msg = f"can't listen on {host} port {port}: {_reason(error)}{_ADVICE.get(error.errno or 0, '')}"
        raise ListenError(msg) from error
    return sock


def _listen_unix(path: str, permissions: int) -> socket.socket:
    sock = socket.socket(socket.AF_UNIX)
    try:
        _remove_stale(path)
        sock.bind(path)
        Path(path).chmod(permissions)
        sock.listen(_BACKLOG)
        sock.setblocking(False)
    except (OSError, ValueError) as error:
        sock.close()
        msg = f"can't listen on the Unix socket {path}: {_reason(error)}"
        raise ListenError(msg) from error
    return sock


def _reason(error: Exception) -> str:
    """The system's words for an error, without its number."""
    return getattr(error, "strerror", None) or str(error)


def _remove_stale(path: str) -> None:
    """Remove the socket that a server which is gone has left; never one that somebody listens on, or another file.

    Raises:
        OSError: something is in the way.
    """
    try:
        if not stat.S_ISSOCK(os.lstat(path).st_mode):
            msg = "the path exists and is not a socket"
            raise FileExistsError(msg)
    except FileNotFoundError:
        return
    with socket.socket(socket.AF_UNIX) as probe:
        try:
            probe.connect(path)
        except ConnectionRefusedError:
            Path(path).unlink()
            return
    msg = "another server listens there"
    raise FileExistsError(msg)


def _is_loopback(host: str) -> bool:
    try:
        addresses = {info[4][0] for info in socket.getaddrinfo(host, None)}
    except (OSError, UnicodeError) as error:
        msg = f"invalid value '{host}' of 'host': {_reason(error)}"
        raise ConfigError(msg) from error
    return all(str(address).startswith("127.") or address == "::1" for address in addresses)


def check_exposure(config: Config) -> None:
    """Refuse to serve the network without a password.

    Raises:
        ConfigError: an address is not loopback and there is no `requirepass`, or it can't be found out.
    """
    exposed = [host for host in config.host if not _is_loopback(host)]
    if exposed and not config.requirepass:
        msg = (
            f"refusing to listen on {exposed[0]} without a password: anybody who reaches it could read and delete "
            "messages. Set --requirepass, or listen on 127.0.0.1"
        )
        raise ConfigError(msg)


def addresses(listeners: list[socket.socket]) -> list[str]:
    """Where the listeners listen, as the banner and INFO show it."""
    shown: list[str] = []
    for sock in listeners:
        name = sock.getsockname()
        if sock.family == socket.AF_UNIX:
            shown.append(f"unix:{name}")
        elif sock.family == socket.AF_INET6:
            shown.append(f"[{name[0]}]:{name[1]}")
        else:
            shown.append(f"{name[0]}:{name[1]}")
    return shown


def make_engine(config: Config, wall: Callable[[], int]) -> MemoryEngine:
    """What holds the messages: memory, or memory and a folder.

    Raises:
        JournalError: another process uses the folder, or it can't be used.
    """
    if not config.data:
        return MemoryEngine(wall(), os.urandom, random.uniform)
    return JournaledEngine(
        wall(),
        os.urandom,
        random.uniform,
        Path(config.data),
        segment_size=config.journal_segment_size,
        wall=lambda: time.time_ns() // 1_000_000,
        stands_still=config.virtual_clock,
    )


def _say_loaded(engine: JournaledEngine, notice: Notice) -> None:
    """Log what was read, and keep the collector away from it."""
    gc.freeze()
    recovery = engine.recovery
    notice(
        "the journal is loaded",
        folder=str(engine.path),
        queues=len(engine.names()),
        records=recovery.records,
        bytes=recovery.total,
    )
    if recovery.torn is not None:
        notice(
            "the end of the journal was cut off in a write: what had not been confirmed is gone",
            level="warning",
            file=str(recovery.torn.path),
            offset=recovery.torn.offset,
            bytes=recovery.torn.lost,
            reason=recovery.torn.reason,
        )


def make_reactor(config: Config, listeners: list[socket.socket], notice: Notice) -> tuple[State, Reactor]:
    """A server that only has to be run.

    Args:
        config: the settings.
        listeners: from `open_listeners`; they are closed when the reactor has run.
        notice: writes a log line.

    Raises:
        JournalError: the folder of the journal can't be used.
    """
    wall = Clock()
    engine = make_engine(config, wall)
    clock = (lambda: engine.now) if config.virtual_clock else wall
    durable = engine if isinstance(engine, JournaledEngine) else None
    state = State(config, engine, load(), time.perf_counter_ns, notice, durable)
    state.listening = addresses(listeners)
    if durable is not None:
        state.when_loaded = lambda: _say_loaded(durable, notice)
    return state, Reactor(state, listeners, clock)


def spare_collector() -> None:
    """Let Python's garbage collector look at few objects at a time.

    Broker state has no reference cycles, so there is nothing to find in it; a full collection over a million messages
    would stop every client for a third of a second. So would one of the middle generation, which grows as messages are
    put, if it were collected less often.
    """
    gc.collect()
    gc.freeze()
    gc.set_threshold(10_000, 3, 1_000_000)


async def serve(
    config: Config,
    listeners: list[socket.socket],
    notice: Notice,
    ready: Callable[[list[str]], None],
) -> int:
    """Run a server that has the process to itself until it is stopped; returns the exit status.

    Args:
        config: the settings.
        listeners: from `open_listeners`; they are closed at the end.
        notice: writes a log line.
        ready: called with the addresses once clients can connect.

    Raises:
        JournalError: the folder of the journal can't be used, or what is in it is damaged.
    """
    state, reactor = make_reactor(config, listeners, notice)
    spare_collector()
    failed: JournalError | None = None
    async with trio.open_nursery() as nursery:
        stop = Stop(state, reactor, nursery)
        await nursery.start(stop.watch_signals)
        nursery.start_soon(reactor.tidy)
        ready(state.listening)
        try:
            await reactor.run()
        except JournalError as error:
            # Raised below, since a nursery would make a group of it.
            failed = error
        nursery.cancel_scope.cancel()
    if config.unixsocket:
        await trio.Path(config.unixsocket).unlink(missing_ok=True)
    if failed is not None:
        raise failed
    return stop.status


class Stop:
    """How a server ends: the first SIGTERM, SIGINT or SHUTDOWN lets it finish, a second signal ends it at once."""

    def __init__(self, state: State, reactor: Reactor, nursery: trio.Nursery) -> None:
        self._state = state
        self._reactor = reactor
        self._nursery = nursery
        self._requested = False
        self.status = 0
        state.request_stop = self.request

    def request(self, reason: str, now: bool = False) -> None:  # noqa: FBT001, FBT002 - as `State.request_stop`
        """Let the server finish; `now` without waiting for clients to read their answers."""
        self._requested = True
        self._state.notice("stopping", reason=reason)
        self._reactor.stop(now=now)

    async def watch_signals(self, task_status: trio.TaskStatus[None]) -> None:
        """Wait for signals."""
        with trio.open_signal_receiver(signal.SIGTERM, signal.SIGINT) as signals:
            task_status.started()
            async for number in signals:
                if self._requested:
                    self._state.notice("stopping at once", level="warning", reason=signal.Signals(number).name)
                    self.status = 1
                    self._nursery.cancel_scope.cancel()
                    return
                self.request(signal.Signals(number).name)
