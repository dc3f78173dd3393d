"""A broker's whole state as plain data: what is rebuilt from recorded facts, and what a broker is loaded from.

Nothing in it acts. A queue is known by its number, and may be spoken of before its name and settings are.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from respmq.core.exchanges import ExchangeKind
    from respmq.core.model import DeadLetter, Message, QueueSettings


@dataclass(slots=True)
class Counters:
    """What QSTATS counts; `entered` and `dead` give the next numbers of a message's entry and of a dead letter."""

    entered: int = 0
    enqueued: int = 0
    delivered: int = 0
    acked: int = 0
    retried: int = 0
    duplicates: int = 0
    expired_leases: int = 0
    dead: int = 0
    dead_dropped: int = 0


@dataclass(slots=True)
class QueueImage:
    """One queue.

    Attributes:
        name: empty until it is known.
        mark: of the ids that it makes; `last_id` is the greatest of those made so far.
        messages: by id, each in its state; a lease of one that is not leased has expired and can still be acked.
        letters: dead letters by number.
        window: when the messages with chosen ids were put, in milliseconds since the epoch, for DEDUPE.
        patterns: bindings, in the order in which they were made.
        requests: by user and key, the (queue number, token) of what they leased.
    """

    number: int
    name: bytes = b""
    settings: QueueSettings | None = None
    mark: bytes = b""
    last_id: bytes = b""
    counters: Counters = field(default_factory=Counters)
    messages: dict[bytes, Message] = field(default_factory=dict)
    letters: dict[int, DeadLetter] = field(default_factory=dict)
    window: dict[bytes, int] = field(default_factory=dict)
    patterns: dict[bytes, None] = field(default_factory=dict)
    requests: dict[tuple[bytes, bytes], list[tuple[int, bytes]]] = field(default_factory=dict)

    @property
    def has_only_requests(self) -> bool:
        """Whether nothing is in it but requests."""
        return bool(self.requests) and not (self.messages or self.letters or self.window or self.patterns)


@dataclass(slots=True)
class ExchangeImage:
    """One exchange; its bindings are pairs of queue number and key."""

    kind: ExchangeKind
    bindings: dict[tuple[int, bytes], None] = field(default_factory=dict)


@dataclass(slots=True)
class BrokerImage:
    """A broker at the moment `now`, milliseconds since the epoch."""

    now: int = 0
    queues: dict[int, QueueImage] = field(default_factory=dict)
    exchanges: dict[bytes, ExchangeImage] = field(default_factory=dict)
    queues_made: int = 0
    binding_drops: int = 0
