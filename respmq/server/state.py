"""What the sessions of one server share."""

from __future__ import annotations

import hmac
import secrets
from collections import Counter, deque
from typing import TYPE_CHECKING

from respmq.commands.unknown import UNKNOWN
from respmq.core.hub import NO_LIMIT
from respmq.errors import LoadingError, PersistenceError, WrongPasswordError
from respmq.resp.limits import Limits
from respmq.resp.reader import FastParser
from respmq.server.client import DEFAULT_USER
from respmq.server.entries import Entries, Entry
from respmq.server.observe import Rate, SlowLog, monitor_line
from respmq.server.pause import Pause

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from respmq.commands.registry import Table
    from respmq.config import Config
    from respmq.engine.base import Durable
    from respmq.engine.memory import MemoryEngine
    from respmq.errors import BrokerError, ProtocolError
    from respmq.server.client import Client
    from respmq.server.notice import Notice
    from respmq.server.session import Session


class State:
    """The server as its sessions and commands see it.

    Args:
        config: the settings; CONFIG SET changes them in place.
        engine: what holds the messages.
        table: all commands.
        timer: a running count of nanoseconds, for durations of commands.
        notice: writes a log line.
        durable: the engine once more, if it keeps its state on a disk.

    Attributes:
        loading: how many bytes of the journal were read and how many there are; None if it isn't being read.
        stuck: why nothing may change for now; None if it may.
    """

    def __init__(
        self,
        config: Config,
        engine: MemoryEngine,
        table: Table,
        timer: Callable[[], int],
        notice: Notice,
        durable: Durable | None = None,
    ) -> None:
        self.config = config
        self.engine = engine
        self.durable = durable
        self.loading = None if durable is None else durable.progress
        self.stuck: str | None = None
        #: Called once the journal has been read.
        self.when_loaded: Callable[[], None] = lambda: None
        self.timer = timer
        self.notice = notice
        self.entries = Entries(table, engine)
        self.fast = FastParser()
        self.sessions: dict[int, Session] = {}
        #: Sessions that have something to send or to run though nothing arrived from their clients.
        self.woken: deque[Client] = deque()
        self.monitors: dict[int, Client] = {}
        #: At most how many bytes of what was shown to each of them it hasn't read.
        self._shown: dict[int, int] = {}
        self.pause: Pause | None = None
        self.slow_log = SlowLog(config)
        self.started_at = engine.now
        #: The moment of this pass, milliseconds of the broker's time.
        self.now = engine.now
        self.run_id = secrets.token_hex(20)
        #: Where clients can connect, once the server listens.
        self.listening: list[str] = []
        #: Called by SHUTDOWN: the reason for the log, and whether not to wait for clients to read their answers.
        self.request_stop: Callable[[str, bool], None] = lambda _reason, _now: None
        #: Called with a session whose connection CLIENT KILL ends.
        self.disconnect: Callable[[Client], None] = lambda _session: None
        #: Bytes that wait for a session's client to read.
        self.backlog: Callable[[Client], int] = lambda _session: 0
        self.total_connections = self.rejected_connections = self.event_drops = 0
        self.input_bytes = self.output_bytes = 0
        self.errors: Counter[str] = Counter()
        self.failed_logins = 0
        self._rate = Rate()
        self._client_ids = 0
        self.limits = Limits()
        self.slow_nanos = 0
        #: What calls of unknown commands are counted under; it is in no table.
        self.unknown_entry = Entry(UNKNOWN, engine)
        self.configure()

    def configure(self) -> None:
        """Let changed settings take effect."""
        config = self.config
        self.limits = Limits(
            arguments=config.max_arguments,
            bulk=config.proto_max_bulk_len,
            request=config.client_query_buffer_limit,
        )
        slower_than = config.slowlog_log_slower_than
        self.slow_nanos = slower_than * 1000 if slower_than >= 0 else 1 << 62
        self.slow_log.trim()
        self.engine.auto_declare = config.auto_declare
        self.engine.max_message_size = config.max_message_size
        self.engine.max_memory = config.maxmemory or NO_LIMIT
        if self.durable is not None:
            self.durable.set_policy(config.fsync)
        for session in self.sessions.values():
            # As in Redis: who is logged in stays so, and nobody has to if there is no password any more.
            session.set_authenticated(authenticated=session.authenticated or not config.requirepass)

    # -- time ------------------------------------------------------------------------------------------------------

    def tick(self, now: int) -> int | None:
        """Move to `now`, do what fell due on the way, and return the moment of the next deadline, if there is one."""
        self.now = now
        following = self.engine.tick(now)
        if self.durable is not None and self.durable.stuck != self.stuck:
            self.note_stuck()
        if self.pause is None:
            return following
        if now >= self.pause.until:
            self.end_pause()
            return following
        return self.pause.until if following is None else min(following, self.pause.until)

    # -- the journal -----------------------------------------------------------------------------------------------

    def loaded(self) -> None:
        """The journal has been read."""
        self.loading = None
        self.refresh_sessions()
        self.when_loaded()

    def note_stuck(self) -> None:
        """Whether something may change may have changed."""
        if self.durable is None:
            return
        self.stuck = self.durable.stuck
        if self.stuck is None:
            self.notice("the journal can be written again")
        else:
            self.notice("nothing can be changed", level="error", reason=self.stuck)
        self.refresh_sessions()

    def check_allowed(self, entry: Entry) -> None:
        """Refuse a command that can't be run now.

        Raises:
            LoadingError: the journal is still being read, and the command needs what is in it.
            PersistenceError: nothing can be changed for now; or the journal has failed, and what memory tells of queues
                and messages is more than the disk may have.
        """
        flags = entry.spec.flags
        if self.loading is not None and "loading" not in flags:
            done, total = self.loading
            msg = f"respmq is loading the journal, {100 * done // max(total, 1)} % of {total} bytes are read"
            raise LoadingError(msg)
        if self.stuck is None:
            return
        failed = self.durable is not None and self.durable.failure is not None
        if "write" in flags or (failed and "readonly" in flags and "stateless" not in flags):
            raise PersistenceError(self.stuck)

    def advance(self, duration: int) -> None:
        """Move the clock of a server whose time stands still."""
        self.engine.advance(self.engine.now + duration)
        if self.pause is not None and self.engine.now >= self.pause.until:
            self.end_pause()

    # -- clients ---------------------------------------------------------------------------------------------------

    def next_client_id(self) -> int:
        """A number for a new client, never used before."""
        self._client_ids += 1
        return self._client_ids

    @property
    def connections(self) -> int:
        """How many clients are connected."""
        return len(self.sessions)

    @property
    def blocked_clients(self) -> int:
        """How many of them wait for something."""
        return sum(session.blocked is not None for session in self.sessions.values())

    @property
    def uptime(self) -> int:
        """Seconds since the start."""
        return (self.engine.now - self.started_at) // 1000

    def add(self, session: Session) -> None:
        """A client has connected."""
        self.sessions[session.id] = session
        self.total_connections += 1

    def forget(self, session: Session) -> None:
        """A client is gone."""
        self.sessions.pop(session.id, None)
        self.set_monitoring(session, on=False)

    def refresh_sessions(self) -> None:
        """Something changed by which sessions decide whether to look at each request."""
        for session in self.sessions.values():
            session.refresh()

    # -- MONITOR and CLIENT PAUSE ----------------------------------------------------------------------------------

    def set_monitoring(self, session: Client, *, on: bool) -> None:
        """Begin or end to show a session all commands."""
        session.monitoring = on
        if on:
            self.monitors[session.id] = session
            self._shown[session.id] = 0
        elif self.monitors.pop(session.id, None) is None:
            return
        else:
            del self._shown[session.id]
        self.refresh_sessions()

    def show_to_monitors(self, session: Session, entry: Entry, args: list[bytes]) -> None:
        """Show a command that was run to those who watch; not one with a wrong number of arguments, as in Redis."""
        arity = entry.spec.grammar.arity
        if len(args) < abs(arity) or len(args) > arity > 0:
            return
        line = monitor_line(self.engine.now, session.address, entry.spec, args)
        if not line:
            return
        for monitor in list(self.monitors.values()):
            monitor.push(line)
            shown = self._shown[monitor.id] + len(line)
            limit = self.config.client_output_buffer_limit
            if shown > limit:
                # It may have read most of it.
                shown = monitor.unsent
            self._shown[monitor.id] = shown
            if shown > limit:
                self.notice("closed a MONITOR that doesn't read", level="warning", client=monitor.address)
                monitor.kill()

    def set_pause(self, until: int, *, writes_only: bool) -> None:
        """Hold back commands until a moment. A pause that is on already only gets longer and stricter."""
        if self.pause is not None:
            until = max(until, self.pause.until)
            writes_only = writes_only and self.pause.writes_only
        held = self.pause.take_held() if self.pause is not None else []
        self.pause = Pause(until, writes_only=writes_only, held=held)
        self.refresh_sessions()

    def end_pause(self) -> None:
        """Let commands run again."""
        pause, self.pause = self.pause, None
        if pause is not None:
            self.refresh_sessions()
            pause.end()

    # -- users -----------------------------------------------------------------------------------------------------

    def authenticate(self, client: str, user: bytes, password: bytes) -> None:
        """Check a password; `client` is the address for the log.

        Raises:
            WrongPasswordError: there is no such user, or it is not the password.
        """
        expected = self.config.requirepass.encode()
        if self.has_user(user) and (not expected or hmac.compare_digest(password, expected)):
            return
        self.failed_logins += 1
        self.notice("login failed", level="warning", client=client)
        msg = "invalid username-password pair or user is disabled."
        raise WrongPasswordError(msg)

    def has_user(self, name: bytes) -> bool:
        """Whether there is a user of that name."""
        return name == DEFAULT_USER

    # -- counting --------------------------------------------------------------------------------------------------

    def count(self, entry: Entry, nanos: int) -> None:
        """A command that waits for its answer has been called."""
        entry.calls += 1
        entry.nanos += nanos

    def failed(self, entry: Entry | None, error: BrokerError) -> None:
        """A command was answered with an error."""
        if entry is not None:
            entry.failed += 1
        self.errors[error.code] += 1

    def log_slow(self, session: Session, entry: Entry, args: list[bytes], nanos: int) -> None:
        """A command took long. One that doesn't exist may be a mistyped AUTH, and isn't kept."""
        if entry is self.unknown_entry:
            return
        self.slow_log.add(session, entry.spec, args, self.engine.now // 1000, nanos // 1000)

    def protocol_error(self, session: Session, error: ProtocolError) -> None:
        """A client sent what can't be followed."""
        self.errors[error.code] += 1
        self.notice("protocol error", level="warning", client=session.address, error=error.text)

    @property
    def table(self) -> Table:
        """All commands."""
        return self.entries.table

    @property
    def calls(self) -> Iterable[Entry]:
        """What is counted about each command and subcommand."""
        return self.entries

    def call_counts(self) -> tuple[int, int]:
        """How many commands were called, and how many of them failed."""
        calls, failed = self.unknown_entry.calls, self.unknown_entry.failed
        for entry in self.entries:
            calls += entry.calls
            failed += entry.failed
        return calls, failed

    def sample_calls(self) -> None:
        """Note how many commands were called until now, for `calls_per_second`."""
        self._rate.add(self.timer(), self.call_counts()[0])

    def calls_per_second(self) -> int:
        """How many commands were called in each of the last seconds."""
        return self._rate.per_second()

    def reset_counts(self) -> None:
        """Begin to count anew."""
        for entry in (*self.entries, self.unknown_entry):
            entry.calls = entry.nanos = entry.rejected = entry.failed = 0
        self.total_connections = self.rejected_connections = self.event_drops = 0
        self.input_bytes = self.output_bytes = self.failed_logins = 0
        self.errors.clear()
        self._rate = Rate()
