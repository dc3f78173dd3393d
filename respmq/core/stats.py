"""What QSTATS tells."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class QueueStats:
    """The state of one queue and what has happened in it since it was declared.

    `oldest_ready_age` is in seconds, None if nothing is ready; `bytes` are bodies, headers and attachments of what is
    not dead; `delivered` counts deliveries, `retried` failures that were put back for another attempt.
    """

    name: bytes
    ready: int
    delayed: int
    in_flight: int
    dead: int
    consumers: int
    waiters: int
    oldest_ready_age: float | None
    enqueued: int
    delivered: int
    acked: int
    retried: int
    dead_lettered: int
    dead_dropped: int
    duplicates: int
    expired_leases: int
    bytes: int


@dataclass(frozen=True, slots=True, kw_only=True)
class BrokerStats:
    """Counts over the whole broker."""

    queues: int
    subscriptions: int = 0
    bindings: int = 0
    binding_drops: int = 0
