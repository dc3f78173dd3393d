"""How connections begin: the sockets that listen, how many clients may come, and how they are called."""

from __future__ import annotations

import errno
from typing import TYPE_CHECKING, Protocol

import trio

from respmq.server.poller import READ

if TYPE_CHECKING:
    import socket
    from collections.abc import Callable, Sized

    from respmq.server.poller import Poller
    from respmq.server.state import State

#: Of a client: host and port, and more of them for IPv6; a path or nothing for a Unix socket.
SocketAddress = tuple[str, int] | tuple[str, int, int, int] | str

#: How many connections are accepted in one pass.
_BATCH = 256

#: How long accepting stops when the process has no descriptors left, in seconds.
_PAUSE = 0.2

#: What says that the listening socket itself is of no use, and not that it can't accept for now.
_BROKEN = frozenset({errno.EBADF, errno.EINVAL, errno.ENOTSOCK, errno.EFAULT})


class Report(Protocol):
    """Writes a fault of ours to the log."""

    def __call__(self, error: Exception, **details: object) -> None:
        """Write it."""


class Acceptor:
    """Accepts the connections of `listeners`, sockets that listen already.

    Args:
        state: what the sessions share.
        listeners: the sockets.
        poller: where they are watched.
        connections: those there are.
        connect: takes a new one over; it may raise OSError if the client is gone already.
        report: writes a fault of ours to the log.

    Attributes:
        paused: whether nobody is accepted for now.
        again: until when, if the process has no descriptors left, in Trio's time.
    """

    def __init__(
        self,
        state: State,
        listeners: list[socket.socket],
        poller: Poller,
        connections: Sized,
        connect: Callable[[socket.socket, SocketAddress], None],
        report: Report,
    ) -> None:
        self._state = state
        self._listeners = {sock.fileno(): sock for sock in listeners}
        self._poller = poller
        self._connections = connections
        self._connect = connect
        self._report = report
        self.paused = True
        self.again = 0.0

    def resume(self) -> None:
        """Accept who comes."""
        self.paused = False
        for fd in self._listeners:
            self._poller.set(fd, READ)

    def _stop(self) -> None:
        self.paused = True
        for fd in self._listeners:
            self._poller.forget(fd)

    def close(self) -> None:
        """Stop listening."""
        self._stop()
        for sock in self._listeners.values():
            sock.close()

    def accept(self, fd: int) -> bool:
        """Accept who waits at a socket, if `fd` is one that listens; whether it is.

        Raises:
            OSError: nobody can ever be accepted there any more.
        """
        listener = self._listeners.get(fd)
        if listener is None:
            return False
        for _ in range(_BATCH):
            try:
                sock, address = listener.accept()
            except (BlockingIOError, InterruptedError, ConnectionError):
                break
            except OSError as error:
                if error.errno in _BROKEN:
                    raise
                self._state.notice(
                    "can't accept connections for now",
                    level="warning",
                    error=error.strerror,
                    connections=len(self._connections),
                )
                self._stop()
                self.again = trio.current_time() + _PAUSE
                break
            sock.setblocking(False)
            if len(self._connections) >= self._state.config.maxclients:
                self._refuse(sock)
                continue
            try:
                self._connect(sock, address)
            except OSError:
                # The client is gone already.
                sock.close()
            except Exception as error:  # noqa: BLE001 - a fault of ours must end this connection only
                self._report(error)
                sock.close()
        return True

    def _refuse(self, sock: socket.socket) -> None:
        state = self._state
        state.rejected_connections += 1
        state.notice("refused a client, maxclients are connected", level="warning", maxclients=state.config.maxclients)
        try:
            sock.send(b"-ERR max number of clients reached\r\n")
        except OSError:
            # It is being closed anyway.
            state.notice("a refused client could not be told", level="debug")
        sock.close()


def shown_address(sock: socket.socket, address: SocketAddress) -> str:
    """An address as in CLIENT LIST; for a Unix socket, that of the listening side."""
    if isinstance(address, tuple):
        host, port = address[:2]
        return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
    return f"{sock.getsockname()}:0"
