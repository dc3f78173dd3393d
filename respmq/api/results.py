"""What a broker answers: to a put, to a publish, and when it is asked how things are."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class PutResult:
    """What became of a put.

    Args:
        id: the message's id.
        duplicate: whether a message with this id was there before, so that nothing was stored.
    """

    id: str
    duplicate: bool


@dataclass(frozen=True, slots=True)
class PublishResult:
    """Who took an event.

    Args:
        subscribers: how many subscriptions.
        queues: how many bound queues; a full one loses its copy and isn't counted.
    """

    subscribers: int
    queues: int


@dataclass(frozen=True, slots=True, kw_only=True)
class QueueStats:
    """The state of one queue, and what has happened in it since it was declared.

    Args:
        name: the queue.
        ready: messages that wait to be handed out.
        delayed: messages that wait out a delay or the pause before a retry.
        in_flight: messages that are leased.
        dead: dead letters.
        consumers: consumers of this queue.
        waiters: callers that wait for a message.
        oldest_ready_age: seconds for which the oldest ready message has been ready; None if none is.
        enqueued: messages put.
        delivered: deliveries.
        acked: messages done.
        retried: failures after which the message was put back.
        dead_lettered: messages that died.
        dead_dropped: dead letters dropped because of `max_dead`.
        duplicates: puts that were recognised as duplicates.
        expired_leases: leases that ended by themselves.
        bytes: bodies, headers and attachments of all that is not dead.
    """

    name: str
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
    """Counts over the whole broker.

    Args:
        queues: queues that there are.
        subscriptions: subscriptions of all programs, to topics and to patterns.
        bindings: patterns bound to queues; those of exchanges are not counted.
        binding_drops: copies of events that full queues lost since the start.
    """

    queues: int
    subscriptions: int
    bindings: int
    binding_drops: int
