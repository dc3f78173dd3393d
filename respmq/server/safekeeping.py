"""Between a journal and the answers: none leaves before what it tells of is as safe as the policy wants it.

An answer that has to wait is held here, in the order of the batches that it depends on, and its connection goes on
being served. Answers that tell nothing of queues and messages leave at once, if none is held before them. If the
journal fails, whoever waits is told that nothing was done for sure.
"""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING, Any

from respmq.errors import PersistenceError
from respmq.resp.reader import count_replies
from respmq.resp.writer import encode_error
from respmq.server.stateless import Stateless

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from respmq.engine.base import Durable
    from respmq.server.connection import Connection
    from respmq.server.state import State

#: For how many nanoseconds the journal is read before clients get their turn.
_SLICE = 5_000_000

#: How often the log says how far that is, in nanoseconds.
_SHOW_EVERY = 2_000_000_000


class Held:
    """Answers of one connection that wait for a batch, and what was delivered in them."""

    __slots__ = ("connection", "data", "handed", "sequence")

    def __init__(self, sequence: int, connection: Connection, data: bytes, handed: list[list[Any]]) -> None:
        self.sequence = sequence
        self.connection = connection
        self.data = data
        self.handed = handed


class Safekeeping:
    """Loads the journal, commits to it, and holds answers.

    Args:
        state: the server.
        durable: the engine.
        write: writes what a connection has to send.
        send: sends it these answers.
    """

    def __init__(
        self,
        state: State,
        durable: Durable,
        write: Callable[[Connection], None],
        send: Callable[[Connection, bytes], None],
    ) -> None:
        self._state = state
        self._durable = durable
        self._write = write
        self._send = send
        self._held: deque[Held] = deque()
        #: Connections that have something to send that needn't wait.
        self._leaving: list[Connection] = []
        self._steps: Iterator[None] | None = durable.loading()
        self._failed = False
        self._shown_at = state.timer()

    # -- loading ---------------------------------------------------------------------------------------------------

    @property
    def loading(self) -> bool:
        """Whether the journal is still being read."""
        return self._steps is not None

    def load(self) -> bool:
        """Read for a while; whether that was the end.

        Raises:
            JournalError: the journal is damaged or can't be used.
        """
        timer = self._state.timer
        until = timer() + _SLICE
        if self._steps is None:
            return True
        for _ in self._steps:
            if timer() >= until:
                self._show_progress()
                return False
        self._steps = None
        self._state.loaded()
        return True

    def _show_progress(self) -> None:
        self._state.loading = done, total = self._durable.progress
        now = self._state.timer()
        if now - self._shown_at > _SHOW_EVERY:
            self._shown_at = now
            self._state.notice("loading the journal", percent=100 * done // max(total, 1), bytes=total)

    # -- answers ---------------------------------------------------------------------------------------------------

    def commit(self, touched: Iterable[Connection]) -> None:
        """Write what has happened; hold the answers of these connections if they have to wait for it."""
        durable = self._durable
        before = durable.sequence
        durable.commit()
        if durable.failure is not None:
            if not self._failed:
                self._fail(durable.failure, touched)
            return
        holding = durable.sequence != before if durable.waiting else durable.holding
        for connection in touched:
            if holding or connection.held:
                self._let_go(connection)
                self._hold(connection, durable.sequence)
            elif connection.backlog:
                # It was safe to send: what comes next may not be.
                connection.release(connection.session.take_out())

    def _let_go(self, connection: Connection) -> None:
        """Let those answers leave that come before the first one that may tell of something that isn't safe."""
        out = connection.session.out
        if connection.held or not out or not isinstance(out[0], Stateless):
            return
        count = next((place for place, data in enumerate(out) if not isinstance(data, Stateless)), len(out))
        connection.release(b"".join(out[:count]))
        del out[:count]
        # Not here: what a broken connection gives back could go to one whose answers are yet to be held.
        self._leaving.append(connection)

    def _hold(self, connection: Connection, sequence: int) -> None:
        session = connection.session
        # Also if CLIENT REPLY has left nothing of the answers: what comes next says that they would have come.
        if session.out:
            data = session.take_out()
            self._held.append(Held(sequence, connection, data, session.handed))
            session.handed = []
            connection.held += 1

    def await_sync(self) -> bool:
        """Wait a moment for what answers wait for, if there are any; whether it has come."""
        return bool(self._held) and self._durable.await_sync()

    def release(self) -> None:
        """Send the answers that needn't wait, and those that have waited long enough."""
        held = self._held
        durable = self._durable
        if durable.failure is not None and not self._failed:
            self._fail(durable.failure, ())
        while self._leaving:
            connection = self._leaving.pop()
            if connection.backlog:
                self._write(connection)
        safe = durable.safe
        while held and (held[0].sequence <= safe or self._failed):
            item = held.popleft()
            connection = item.connection
            session = connection.session
            connection.held -= 1
            if session.closed:
                continue
            if item.handed:
                session.handed[:0] = item.handed
            if item.data:
                self._send(connection, item.data)
            else:
                session.wake()

    def take_back(self, connection: Connection) -> None:
        """A connection is about to be closed: what was delivered in its answers goes back."""
        if connection.held:
            for item in self._held:
                if item.connection is connection:
                    connection.session.handed += item.handed

    # -- when the disk fails ---------------------------------------------------------------------------------------

    def _fail(self, reason: str, touched: Iterable[Connection]) -> None:
        """Tell everybody whose answer isn't safe."""
        self._failed = True
        self._state.notice("the journal has failed", level="error", reason=reason)
        error = PersistenceError(reason)
        for connection in touched:
            self._let_go(connection)
            session = connection.session
            session.handed.clear()
            session.out.append(_instead_of(session.take_out(), error))
        for item in self._held:
            if item.sequence > self._durable.safe:
                item.data = _instead_of(item.data, error)
                item.handed = []
        self._state.note_stuck()
        for session in list(self._state.sessions.values()):
            session.unblock(error)
        self.release()

    def close(self) -> None:
        """Write and sync all that has happened, and let the answers go; what happens now isn't written down."""
        self._durable.close()
        self.release()


def _instead_of(data: bytes, error: PersistenceError) -> bytes:
    """As many errors as there are answers in `data`."""
    return encode_error(error) * count_replies(data)
