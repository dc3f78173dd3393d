"""A socket and the session behind it: reading, writing, and an end that the client can read."""

from __future__ import annotations

from typing import TYPE_CHECKING

from respmq.server.poller import READ, WRITE

if TYPE_CHECKING:
    import socket

    from respmq.server.heartbeat import Pulse
    from respmq.server.poller import Poller
    from respmq.server.session import Session

#: How much is read at once. More from a client that has sent as much, since the room for it has to be made each time;
#: not more than that, so that nobody who sends without end keeps the others waiting.
READ_SIZE = 16 * 1024
FLOOD_SIZE = 32 * 1024

#: How many bytes a client that waits for an answer may send ahead before the server stops reading.
_AHEAD = 1 << 20


_NOTHING = memoryview(b"")


class Connection:
    """A client's connection. `touched` says that it is on the list of those to be written to in this pass."""

    __slots__ = (
        "_backlog",
        "_poller",
        "ended",
        "fd",
        "held",
        "interest",
        "linger_until",
        "lost",
        "read_size",
        "recv",
        "send",
        "session",
        "sock",
        "touched",
    )

    def __init__(self, sock: socket.socket, session: Session, poller: Poller, pulse: Pulse) -> None:
        self.sock = sock
        self.recv = sock.recv
        self.send = sock.send
        self.fd = session.fd = sock.fileno()
        self.session = session
        self._poller = poller
        self._backlog = _NOTHING
        self.interest = READ
        self.read_size = READ_SIZE
        #: The client has closed its side.
        self.ended = False
        self.touched = False
        #: How many of its answers wait until what they tell of is safe.
        self.held = 0
        self.lost = pulse.lost
        #: When the server has closed its side: until when it waits for the client to do the same (None: it hasn't).
        self.linger_until: float | None = None
        poller.set(self.fd, READ)

    @property
    def backlog(self) -> int:
        """Bytes that wait for the client to read."""
        return len(self._backlog)

    def write(self) -> int:
        """Write what the session has to say, as far as the socket takes it; returns how many bytes it took.

        Raises:
            OSError: the connection is broken.
        """
        session = self.session
        data: bytes | memoryview = self._backlog
        if not data:
            data = session.take_out()
            if not data:
                return 0
        try:
            sent = self.send(data)
        except (BlockingIOError, InterruptedError):
            sent = 0
        if sent < len(data):
            self.hold(data, sent)
            return sent
        if self._backlog:
            self._backlog = _NOTHING
        if (session.handed or session.out_size or session.congested) and not session.out:
            session.written()
        return sent

    def release(self, data: bytes) -> None:
        """Let the next `write` begin with what waits already, and then this; nothing of it is to wait any longer."""
        self._backlog = memoryview(bytes(self._backlog) + data) if self._backlog else memoryview(data)

    def hold(self, data: bytes | memoryview, sent: int) -> None:
        """Keep what the socket has not taken of `data`, until it takes more."""
        self._backlog = memoryview(data)[sent:]
        self.session.congest()
        self.set_interest()

    def set_interest(self) -> None:
        """Watch the socket for what can be done with it now."""
        session = self.session
        interest = WRITE if self._backlog else 0
        if not self.ended and not session.stalled and not (session.blocked and session.reader.held > _AHEAD):
            interest |= READ
        if interest != self.interest or self.ended:
            self.interest = interest
            # That the client has closed its side is known then, and would be found again and again.
            self._poller.set(self.fd, interest, hang_up=not self.ended)
