"""What a command can see of the connection and the server it runs on."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, Protocol

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from respmq.commands.registry import Table
    from respmq.commands.spec import Spec
    from respmq.config import Config
    from respmq.engine.base import Durable, Engine
    from respmq.errors import BrokerError


class CallStats(Protocol):
    """What is counted about the calls of one command; `nanos` is the time that they took in all."""

    spec: Spec
    calls: int
    nanos: int
    rejected: int
    failed: int


@dataclass(frozen=True, slots=True)
class SlowCall:
    """An entry of the slow log; `at` in seconds since the epoch."""

    number: int
    at: int
    micros: int
    args: list[bytes]
    address: str
    name: bytes


class SlowLog(Protocol):
    """The latest slow commands, newest first."""

    def __len__(self) -> int: ...
    def latest(self, count: int) -> Sequence[SlowCall]:
        """The latest `count` calls; all of them for -1."""
        ...

    def clear(self) -> None:
        """Forget all calls."""


class Client(Protocol):
    """A connection, as commands on others see it. Moments are milliseconds of the broker's time."""

    id: int
    #: `host:port`, or `path:0` for a Unix socket.
    address: str
    local_address: str
    fd: int
    connected_at: int
    last_active: int
    #: Empty if it has none.
    name: bytes
    #: The name of the user who is logged in.
    user: bytes
    resp3: bool
    monitoring: bool
    #: Whether it is closed once it has its answers.
    closing: bool
    #: What it has said about itself: lib-name, lib-ver, no-evict, no-touch.
    info: dict[str, str]

    @property
    def waits(self) -> bool:
        """Whether a command of it waits for something."""
        ...

    @property
    def command(self) -> Spec | None:
        """The command that waits, else the one that ran last."""
        ...

    @property
    def unread(self) -> int:
        """Bytes that have arrived from it and were not run yet."""
        ...

    @property
    def unsent(self) -> int:
        """Bytes of answers that it hasn't taken yet."""
        ...

    @property
    def subscription_counts(self) -> tuple[int, int, int]:
        """How many topics, patterns and shard topics it has subscribed to."""
        ...

    @property
    def event_drops(self) -> int:
        """How many events were dropped because it didn't read them."""
        ...

    @property
    def in_transaction(self) -> bool:
        """Whether it has opened a transaction."""
        ...

    @property
    def queued(self) -> int:
        """How many commands its transaction has so far; -1 if it has none."""
        ...

    def kill(self) -> None:
        """End the connection at once."""

    def unblock(self, error: BrokerError | None) -> bool:
        """End its wait for a message, with nothing or with an error; False if it waits for none."""
        ...


class ServerView(Protocol):
    """The server, as commands see it."""

    config: Config
    #: When it was started, milliseconds of the broker's time.
    started_at: int
    run_id: str
    #: `host:port` or `unix:path`, of every listening socket.
    listening: list[str]
    failed_logins: int
    #: Events that were dropped because a subscriber didn't read them.
    event_drops: int
    total_connections: int
    rejected_connections: int
    input_bytes: int
    output_bytes: int

    @property
    def connections(self) -> int:
        """How many clients are connected."""
        ...

    @property
    def blocked_clients(self) -> int:
        """How many of them wait for something."""
        ...

    @property
    def uptime(self) -> int:
        """Seconds since the start."""
        ...

    @property
    def sessions(self) -> Mapping[int, Client]:
        """All clients by their numbers."""
        ...

    @property
    def table(self) -> Table:
        """All commands."""
        ...

    @property
    def calls(self) -> Iterable[CallStats]:
        """What is counted about each command and subcommand."""
        ...

    @property
    def errors(self) -> Mapping[str, int]:
        """How often each error word was answered."""
        ...

    @property
    def slow_log(self) -> SlowLog:
        """The slow log."""
        ...

    @property
    def durable(self) -> Durable | None:
        """What keeps the state on a disk, if anything does."""
        ...

    @property
    def loading(self) -> tuple[int, int] | None:
        """How many bytes of the journal were read and how many there are; None if it isn't being read."""
        ...

    @property
    def request_stop(self) -> Callable[[str, bool], None]:
        """Let the server end: the reason for the log, and whether not to wait for clients to read their answers."""
        ...

    def call_counts(self) -> tuple[int, int]:
        """How many commands were called, and how many of them failed."""
        ...

    def calls_per_second(self) -> int:
        """How many commands were called in each of the last seconds."""
        ...

    def reset_counts(self) -> None:
        """Begin to count anew."""

    def configure(self) -> None:
        """Let changed settings take effect."""

    def advance(self, duration: int) -> None:
        """Move the clock of a server whose time stands still, by milliseconds."""

    def set_pause(self, until: int, *, writes_only: bool) -> None:
        """Hold back commands until a moment. A pause that is on already only gets longer and stricter."""

    def end_pause(self) -> None:
        """Let commands run again."""

    def authenticate(self, client: str, user: bytes, password: bytes) -> None:
        """Check a password; `client` is the address for the log.

        Raises:
            WrongPasswordError: there is no such user, or it is not the password.
        """

    def has_user(self, name: bytes) -> bool:
        """Whether there is a user of that name."""
        ...


SubscriptionKind = Literal["topic", "pattern", "shard"]


class Mailbox(Protocol):
    """What a connection gets without asking each time: its subscriptions and consumers."""

    @property
    def in_use(self) -> bool:
        """Whether there are any."""
        ...

    def names(self, kind: SubscriptionKind) -> list[bytes]:
        """The topics or patterns of one kind of subscription."""
        ...

    def subscribe(self, kind: SubscriptionKind, names: Sequence[bytes]) -> list[tuple[bytes, int]]:
        """Subscribe to all of `names` or, on an error, to none; returns each with the number of subscriptions then.

        Raises:
            InvalidTopicError: one is not a possible topic or pattern.
        """
        ...

    def unsubscribe(self, kind: SubscriptionKind, names: Sequence[bytes]) -> list[tuple[bytes | None, int]]:
        """End subscriptions, all of the kind if no names are given; returns each with the number that is left then."""
        ...

    def consume(self, queue: bytes, prefetch: int, *, full: bool) -> bytes:
        """Begin to consume a queue; returns the consumer's tag.

        Raises:
            QueueNotFoundError: no such queue.
        """
        ...

    def cancel(self, tag: bytes) -> int:
        """End a consumer of this connection; returns how many leases were given back.

        Raises:
            InvalidRequestError: this connection has no such consumer.
        """
        ...


class Context(Client, Protocol):
    """The connection on which a command runs."""

    authenticated: bool

    @property
    def engine(self) -> Engine:
        """What holds the messages."""
        ...

    @property
    def server(self) -> ServerView:
        """The server."""
        ...

    @property
    def mailbox(self) -> Mailbox:
        """Subscriptions and consumers."""
        ...

    @property
    def may_wait(self) -> bool:
        """Whether a command may block; not within EXEC."""
        ...

    def begin(self) -> None:
        """Open a transaction."""

    def discard(self) -> None:
        """Forget the transaction."""

    def execute(self) -> bytes:
        """Run the transaction; returns the reply.

        Raises:
            ExecAbortError: one of its commands could not be queued, so none is run.
        """
        ...

    def speak(self, version: int) -> None:
        """Answer in RESP2 or RESP3 from now on."""

    def log_in(self, user: bytes) -> None:
        """Be that user from now on."""

    def reset(self) -> None:
        """Be as a new connection is."""

    def set_reply_mode(self, mode: str) -> None:
        """Answer everything (`on`), nothing (`off`), or all but the next command (`skip`)."""

    def monitor(self) -> None:
        """Show the client all commands from now on."""

    def request_close(self) -> None:
        """Close the connection once the answers so far have been written."""

    def leave(self) -> None:
        """Close the connection as `request_close` does, and send it nothing more than what it is owed."""
