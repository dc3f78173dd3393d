"""Which sockets are ready: epoll where there is one, else whatever `selectors` finds. Trio can wait for both."""

from __future__ import annotations

import select
import selectors
from typing import Final, Protocol

#: Interests, and what is found; the values are epoll's.
READ: Final = 1
WRITE: Final = 4
#: The peer has closed its side, or the connection is broken (only seen with epoll; otherwise by reading).
HANG_UP: Final = 8 | 16 | 0x2000


class Poller(Protocol):
    """A set of file descriptors that are watched."""

    def fileno(self) -> int:
        """The descriptor that becomes readable when one of the watched ones is ready."""
        ...

    def set(self, fd: int, interest: int, *, hang_up: bool = True) -> None:
        """Watch `fd` for READ, WRITE, both or (0) for HANG_UP alone, in place of what was set before.

        Without `hang_up` it isn't found any more that the peer has closed its side, only that the connection is broken.
        """

    def forget(self, fd: int) -> None:
        """Watch `fd` no longer."""

    def ready(self) -> list[tuple[int, int]]:
        """Descriptors that are ready now, with READ, WRITE and HANG_UP."""
        ...

    def close(self) -> None:
        """Release the poller."""


if hasattr(select, "epoll"):

    class EpollPoller:
        """epoll, level-triggered."""

        def __init__(self) -> None:
            self._epoll = select.epoll()
            self._watched: set[int] = set()

        def fileno(self) -> int:
            """The epoll descriptor."""
            return self._epoll.fileno()

        def set(self, fd: int, interest: int, *, hang_up: bool = True) -> None:
            """Watch `fd`."""
            events = interest | select.EPOLLRDHUP if hang_up else interest
            if fd in self._watched:
                self._epoll.modify(fd, events)
            else:
                self._epoll.register(fd, events)
                self._watched.add(fd)

        def forget(self, fd: int) -> None:
            """Watch `fd` no longer."""
            if fd in self._watched:
                self._watched.remove(fd)
                self._epoll.unregister(fd)

        def ready(self) -> list[tuple[int, int]]:
            """Descriptors that are ready now."""
            return self._epoll.poll(0, 4096)

        def close(self) -> None:
            """Close the epoll descriptor."""
            self._epoll.close()


class SelectorPoller:
    """The best that `selectors` has whose descriptor can be waited for, kqueue on BSD and macOS."""

    def __init__(self) -> None:
        self._selector = selectors.DefaultSelector()

    def fileno(self) -> int:
        """The descriptor of the selector."""
        fileno: int = getattr(self._selector, "fileno")()  # noqa: B009 - only some selectors have it
        return fileno

    def set(self, fd: int, interest: int, *, hang_up: bool = True) -> None:
        """Watch `fd`; there is no way to watch for a hang-up alone, so it isn't watched then."""
        del hang_up
        events = (selectors.EVENT_READ if interest & READ else 0) | (selectors.EVENT_WRITE if interest & WRITE else 0)
        known = fd in self._selector.get_map()
        if not events:
            self.forget(fd)
        elif known:
            self._selector.modify(fd, events)
        else:
            self._selector.register(fd, events)

    def forget(self, fd: int) -> None:
        """Watch `fd` no longer."""
        if fd in self._selector.get_map():
            self._selector.unregister(fd)

    def ready(self) -> list[tuple[int, int]]:
        """Descriptors that are ready now."""
        return [
            (
                key.fd,
                (READ if events & selectors.EVENT_READ else 0) | (WRITE if events & selectors.EVENT_WRITE else 0),
            )
            for key, events in self._selector.select(0)
        ]

    def close(self) -> None:
        """Close the selector."""
        self._selector.close()


def make_poller() -> Poller:
    """The poller for this platform."""
    return EpollPoller() if hasattr(select, "epoll") else SelectorPoller()
