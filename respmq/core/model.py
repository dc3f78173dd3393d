"""What the broker holds: settings, messages and dead letters. Durations and times are integer milliseconds."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Literal

from respmq.core.weight import extra_overhead
from respmq.errors import InvalidRequestError

if TYPE_CHECKING:
    from collections.abc import Callable

State = Literal[0, 1, 2, 3]
#: Handed out in order of priority.
READY: Final = 0
#: Waits out a DELAY or a backoff.
DELAYED: Final = 1
#: Handed out under a lease.
LEASED: Final = 2
#: Acked, dead, deleted or purged. A structure that still holds such a message skips it; it never comes back to life
#: (a replayed dead letter is a new `Message`), so "skip what is gone" is always right.
GONE: Final = 3

STATE_NAMES: Final = ("ready", "delayed", "leased", "gone")

Reason = Literal["max_attempts", "rejected", "ttl_expired", "max_length"]
Overflow = Literal["REJECT", "DROPHEAD"]


@dataclass(frozen=True, slots=True, kw_only=True)
class QueueSettings:
    """A queue's settings, durations in milliseconds. The defaults are those of QDECLARE."""

    ack_timeout: int = 30_000
    max_attempts: int = 5
    retry_delay: int = 1_000
    max_retry_delay: int = 60_000
    retry_jitter: float = 0.0
    max_len: int = 10_000
    overflow: Overflow = "REJECT"
    ttl: int | None = None
    max_dead: int = 1_000
    dedupe: int = 300_000

    def __post_init__(self) -> None:
        """Check what no single setting shows.

        Raises:
            InvalidRequestError: MAXRETRYDELAY is below RETRYDELAY.
        """
        if self.max_retry_delay < self.retry_delay:
            msg = (
                f"MAXRETRYDELAY {self.max_retry_delay / 1000:g}s is below RETRYDELAY {self.retry_delay / 1000:g}s: "
                "set MAXRETRYDELAY to at least RETRYDELAY"
            )
            raise InvalidRequestError(msg)

    def backoff(self, attempt: int, uniform: Callable[[float, float], float]) -> int:
        """How long a message waits after its `attempt`th delivery has failed."""
        # The shift is bounded: after 40 doublings of a millisecond any cap is reached.
        wait = min(self.retry_delay << min(attempt - 1, 40), self.max_retry_delay)
        if self.retry_jitter:
            wait = round(wait * uniform(1 - self.retry_jitter, 1 + self.retry_jitter))
        return wait


class Extra:
    """What most messages don't have, kept apart so that those that have none don't pay for it."""

    __slots__ = ("announcement", "attachments", "headers", "overhead", "size", "ttl")

    def __init__(self, headers: dict[bytes, bytes], attachments: tuple[bytes, ...], ttl: int | None) -> None:
        self.headers = headers
        self.attachments = attachments
        self.ttl = ttl
        #: Whether the message is a copy of the announcement of a death: its own death is not announced.
        self.announcement = False
        self.size = sum(len(k) + len(v) for k, v in headers.items()) + sum(map(len, attachments))
        #: What it takes beside these bytes.
        self.overhead = extra_overhead(len(headers), len(attachments), ttl=ttl is not None)


class Home:
    """A place where messages are written down: of how many of them, live and dead, it is the last one."""

    __slots__ = ("dead", "live", "segment")

    def __init__(self, segment: int) -> None:
        self.segment = segment
        self.live = 0
        self.dead = 0


class Message:
    """One message in one queue. What `deadline` means depends on the state: due time (delayed) or end of the lease.

    `since` is when the message became ready, `expires_at` the end of its TTL while it waits (0: none), `order` the
    number of its last entry into the queue at the back: of two messages of one priority the one with the smaller number
    is handed out first. `home` belongs to who records the facts, and says where the message was written down. `surplus`
    is what the message takes in memory beside its bytes and what the usual message takes.
    """

    __slots__ = (
        "attempt",
        "body",
        "deadline",
        "enqueued_at",
        "expires_at",
        "extra",
        "home",
        "id",
        "lease",
        "order",
        "priority",
        "queue",
        "since",
        "state",
        "surplus",
    )

    def __init__(self, queue: bytes, id: bytes, body: bytes, priority: int, now: int, extra: Extra | None) -> None:
        self.queue = queue
        self.id = id
        self.body = body
        self.priority = priority
        self.enqueued_at = self.since = now
        self.extra = extra
        self.attempt = self.deadline = self.expires_at = self.order = self.surplus = 0
        self.state: State = READY
        self.lease: bytes | None = None
        self.home: Home

    @property
    def size(self) -> int:
        """Bytes of body, headers and attachments."""
        return len(self.body) if self.extra is None else len(self.body) + self.extra.size

    @property
    def headers(self) -> dict[bytes, bytes]:
        """The headers; empty if there are none."""
        return {} if self.extra is None else self.extra.headers

    @property
    def attachments(self) -> tuple[bytes, ...]:
        """The attachments in the order in which they were given."""
        return () if self.extra is None else self.extra.attachments


class DeadLetter:
    """A message that died, and of what. `error` is the text of the failure that killed it, if there was one.

    `number` counts the deaths in its queue, from 1; 0 until the letter is kept there. `weight` is what the letter and
    its message count for `maxmemory` while it is.
    """

    __slots__ = ("dead_at", "error", "message", "number", "reason", "weight")

    def __init__(self, message: Message, reason: Reason, error: bytes | None, dead_at: int) -> None:
        self.message = message
        self.reason: Reason = reason
        self.error = error
        self.dead_at = dead_at
        self.number = self.weight = 0


#: What a FULL delivery, QPEEK, QSHOW and QDEAD show of a message.
Value = None | int | float | bytes | str | Sequence["Value"] | Mapping[str, "Value"] | Mapping[bytes, "Value"]
Description = dict[str, Value]


def describe(message: Message) -> Description:
    """The FULL map of a message."""
    headers: dict[bytes, Value] = {}
    headers.update(message.headers)
    leased = message.state == LEASED
    return {
        "queue": message.queue,
        "id": message.id,
        "lease": message.lease if leased else None,
        "attempt": message.attempt,
        "body": message.body,
        "headers": headers,
        "attachments": list(message.attachments),
        "priority": message.priority,
        "enqueued_at": message.enqueued_at,
        "deadline": message.deadline if leased else None,
    }


def describe_live(message: Message) -> Description:
    """The FULL map of a message plus its state, as QPEEK shows it."""
    return {**describe(message), "state": STATE_NAMES[message.state]}


def describe_dead(letter: DeadLetter) -> Description:
    """The FULL map of a dead letter, as QDEAD shows it."""
    return {
        **describe(letter.message),
        "reason": letter.reason,
        "error": letter.error,
        "dead_at": letter.dead_at,
    }
