"""What wakes the event loop from another thread, or from the kernel: a descriptor that becomes readable."""

from __future__ import annotations

import contextlib
import os
import socket
from typing import Protocol


class Wake(Protocol):
    """`set` makes `fileno` readable until `clear`. Both may be called at any time, `set` by any thread."""

    def fileno(self) -> int:
        """The descriptor."""
        ...

    def set(self) -> None:
        """Make it readable."""

    def clear(self) -> None:
        """Make it unreadable."""

    def close(self) -> None:
        """Close it."""


class EventWake:
    """An eventfd, which Linux has."""

    def __init__(self) -> None:
        self._fd = os.eventfd(0, os.EFD_CLOEXEC | os.EFD_NONBLOCK)

    def fileno(self) -> int:
        """The descriptor."""
        return self._fd

    def set(self) -> None:
        """Make it readable."""
        os.eventfd_write(self._fd, 1)

    def clear(self) -> None:
        """Make it unreadable."""
        with contextlib.suppress(BlockingIOError):
            # Unless nobody has set it.
            os.eventfd_read(self._fd)

    def close(self) -> None:
        """Close it."""
        os.close(self._fd)


class SocketWake:
    """A pair of sockets, for everywhere else."""

    def __init__(self) -> None:
        self._in, self._out = socket.socketpair()
        self._in.setblocking(False)
        self._out.setblocking(False)

    def fileno(self) -> int:
        """The descriptor."""
        return self._in.fileno()

    def set(self) -> None:
        """Make it readable."""
        with contextlib.suppress(BlockingIOError):
            # Unless that has been done very often already.
            self._out.send(b"x")

    def clear(self) -> None:
        """Make it unreadable."""
        with contextlib.suppress(BlockingIOError):
            # Unless nobody has set it. What is left of very many is found next time.
            self._in.recv(4096)

    def close(self) -> None:
        """Close it."""
        self._in.close()
        self._out.close()


def make_wake() -> Wake:
    """The one for this platform."""
    return EventWake() if hasattr(os, "eventfd") else SocketWake()
