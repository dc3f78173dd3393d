"""A client: who it is, what it may do, and what it is to be told.

What runs its requests is in `session.py`. Commands, and the commands of others, see and change a client here.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from respmq.pending import Pending
from respmq.resp.limits import BEFORE_LOGIN
from respmq.resp.reader import RequestReader
from respmq.server.mailbox import Mailbox
from respmq.server.transaction import Transaction

if TYPE_CHECKING:
    from respmq.server.entries import Entry
    from respmq.server.state import State

DEFAULT_USER = b"default"

#: Nanoseconds that a plain call takes at most. If the slow log wants calls that take less, each one is looked at.
_PLAIN_AT_MOST = 1_000_000


class Client:
    """One client.

    Attributes:
        out: answers that were not taken away yet.
        out_size: bytes of the large ones among them, and of messages for consumers.
        blocked: what the client waits for, if anything.
        closing: the connection is to be closed once `out` has been written.
        stalled: it has so many unread answers that nothing is run for it until it reads.
        congested: the socket takes no more for now.
        handed: deliveries in `out`; they go back to their queues if `out` can't be written.
        guarded: its requests have to be looked at one by one before they run.
    """

    __slots__ = (
        "_mailbox",
        "_woken",
        "address",
        "authenticated",
        "blocked",
        "closed",
        "closing",
        "congested",
        "connected_at",
        "engine",
        "fd",
        "guarded",
        "handed",
        "id",
        "info",
        "last_active",
        "last_entry",
        "local_address",
        "may_wait",
        "monitoring",
        "name",
        "out",
        "out_size",
        "reader",
        "reply_mode",
        "resp3",
        "server",
        "stalled",
        "transaction",
        "user",
        "waiting_entry",
    )

    def __init__(self, server: State, address: str, local_address: str) -> None:
        self.server = server
        self.engine = server.engine
        self.id = server.next_client_id()
        self.address = address
        self.local_address = local_address
        self.fd = -1
        self.connected_at = self.last_active = server.engine.now
        self.reader = RequestReader(server.fast, BEFORE_LOGIN)
        self.out: list[bytes] = []
        self.out_size = 0
        self.handed: list[list[Any]] = []
        self.blocked: Pending[Any] | None = None
        self.closing = False
        self.closed = False
        self.stalled = False
        self.monitoring = False
        self.last_entry: Entry | None = None
        #: The command that is owed a reply while the client waits.
        self.waiting_entry: Entry | None = None
        self.name = b""
        #: What CLIENT SETINFO and NO-EVICT have set: lib-name, lib-ver, no-evict, no-touch.
        self.info: dict[str, str] = {}
        self.reply_mode = "on"
        self.resp3 = False
        #: The commands since MULTI.
        self.transaction: Transaction | None = None
        #: Whether a command may block; not within EXEC.
        self.may_wait = True
        self._mailbox: Mailbox | None = None
        self.congested = False
        self._woken = False
        self.user = DEFAULT_USER
        self.authenticated = False
        self.guarded = True
        self.reset_user()

    # -- state that commands change --------------------------------------------------------------------------------

    def reset_user(self) -> None:
        """Be who a new connection is: the default user, logged in if that one has no password."""
        self.user = DEFAULT_USER
        self.set_authenticated(authenticated=not self.server.config.requirepass)

    def set_authenticated(self, *, authenticated: bool) -> None:
        """Log in or out; the limits of requests follow."""
        self.authenticated = authenticated
        self.reader.set_limits(self.server.limits if authenticated else BEFORE_LOGIN)
        self.refresh()

    def refresh(self) -> None:
        """Find out anew whether requests have to be looked at one by one before they run."""
        server = self.server
        self.guarded = (
            self.closing
            or self.transaction is not None
            or (self.subscribed and not self.resp3)
            or not self.authenticated
            or self.reply_mode != "on"
            or bool(server.monitors)
            or server.slow_nanos < _PLAIN_AT_MOST
            or server.pause is not None
            or server.loading is not None
            or server.stuck is not None
        )

    def speak(self, version: int) -> None:
        """Answer in RESP2 or RESP3 from now on."""
        if self._mailbox is not None:
            # They are encoded already.
            self._mailbox.relieve_all()
        self.resp3 = version == 3
        self.refresh()

    def log_in(self, user: bytes) -> None:
        """Be that user from now on."""
        self.user = user
        self.set_authenticated(authenticated=True)

    def reset(self) -> None:
        """Be as a new connection is; what the client has said about its library stays."""
        self.name = b""
        self.resp3 = False
        self.reply_mode = "on"
        for key in ("no-evict", "no-touch"):
            self.info.pop(key, None)
        self.server.set_monitoring(self, on=False)
        self.transaction = None
        if self._mailbox is not None:
            self._mailbox.close()
        self.reset_user()

    def set_reply_mode(self, mode: str) -> None:
        """Answer everything (`on`), nothing (`off`), or all but the next command (`skip`)."""
        if mode != "skip":
            self.reply_mode = mode
        elif self.reply_mode != "off":
            self.reply_mode = "skip-next"
        self.refresh()

    def begin(self) -> None:
        """Open a transaction."""
        self.transaction = Transaction(self.server.config.client_query_buffer_limit)
        self.refresh()

    def discard(self) -> None:
        """Forget the transaction."""
        self.transaction = None
        self.refresh()

    @property
    def subscribed(self) -> bool:
        """Whether there is a subscription or a consumer."""
        return self._mailbox is not None and self._mailbox.in_use

    @property
    def in_transaction(self) -> bool:
        """Whether MULTI has opened a transaction."""
        return self.transaction is not None

    @property
    def queued(self) -> int:
        """How many commands the transaction has so far; -1 if there is none."""
        return -1 if self.transaction is None else len(self.transaction)

    @property
    def subscription_counts(self) -> tuple[int, int, int]:
        """How many topics, patterns and shard topics the client has subscribed to."""
        box = self._mailbox
        if box is None:
            return 0, 0, 0
        return len(box.topics.pending), len(box.patterns.pending), len(box.shards.pending)

    @property
    def event_drops(self) -> int:
        """How many events were dropped because the client didn't read them."""
        return 0 if self._mailbox is None else self._mailbox.drops

    @property
    def mailbox(self) -> Mailbox:
        """Subscriptions and consumers."""
        if self._mailbox is None:
            self._mailbox = Mailbox(self)
        return self._mailbox

    def monitor(self) -> None:
        """Show the client all commands from now on."""
        self.server.set_monitoring(self, on=True)

    # -- what others see and do ------------------------------------------------------------------------------------

    @property
    def unsent(self) -> int:
        """Bytes of answers that the client hasn't taken yet."""
        return sum(map(len, self.out)) + self.server.backlog(self)

    def kill(self) -> None:
        """End the connection at once."""
        self.server.disconnect(self)

    # -- what it is told -------------------------------------------------------------------------------------------

    def take_out(self) -> bytes:
        """The answers that were not taken away yet."""
        out = self.out
        data = out[0] if len(out) == 1 else b"".join(out)
        out.clear()
        return data

    def written(self) -> None:
        """All that was taken away has been written; what was delivered is with the client."""
        if self.handed:
            self.handed.clear()
        if self.out_size:
            self.out_size = 0
            self.stalled = False
        if self._mailbox is not None:
            if self.congested:
                self.congested = self._mailbox.relieve()
            if not self.congested:
                self._mailbox.release_consumers()
        else:
            self.congested = False

    def congest(self) -> None:
        """The socket takes no more for now."""
        self.congested = True
        if self._mailbox is not None:
            self._mailbox.hold_consumers()

    def push(self, data: bytes) -> None:
        """Send something that answers no request."""
        self.out.append(data)
        self.wake()

    def wake(self) -> None:
        """Have this session looked at in this pass: it has something to send or to run."""
        if not self._woken:
            self._woken = True
            self.server.woken.append(self)

    def request_close(self) -> None:
        """Close the connection once the answers so far have been written."""
        self.closing = self.guarded = True

    def leave(self) -> None:
        """Close the connection as `request_close` does, and send it nothing more than what it is owed."""
        self.request_close()
        if self._mailbox is not None:
            self._mailbox.relieve_all()
            self._mailbox.close()
