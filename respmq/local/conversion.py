"""What the core holds, as programs see it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from respmq.api.bodies import header_texts, text
from respmq.api.messages import DeadLetter, Delivery
from respmq.api.results import BrokerStats, QueueStats

if TYPE_CHECKING:
    from respmq.api.ports import Settler
    from respmq.core import model, stats


def to_delivery(message: model.Message, settler: Settler) -> Delivery:
    """A message that was leased just now."""
    return Delivery(
        queue=text(message.queue),
        id=text(message.id),
        lease=text(message.lease or b""),
        attempt=message.attempt,
        raw=message.body,
        headers=header_texts(message.headers),
        attachments=message.attachments,
        priority=message.priority,
        enqueued_at=message.enqueued_at / 1000,
        deadline=message.deadline / 1000,
        settler=settler,
    )


def to_dead_letter(letter: model.DeadLetter) -> DeadLetter:
    """A dead letter."""
    message = letter.message
    return DeadLetter(
        queue=text(message.queue),
        id=text(message.id),
        attempt=message.attempt,
        raw=message.body,
        headers=header_texts(message.headers),
        attachments=message.attachments,
        priority=message.priority,
        enqueued_at=message.enqueued_at / 1000,
        reason=letter.reason,
        error=None if letter.error is None else text(letter.error),
        dead_at=letter.dead_at / 1000,
    )


def to_queue_stats(of: stats.QueueStats) -> QueueStats:
    """The statistics of a queue."""
    return QueueStats(
        name=text(of.name),
        ready=of.ready,
        delayed=of.delayed,
        in_flight=of.in_flight,
        dead=of.dead,
        consumers=of.consumers,
        waiters=of.waiters,
        oldest_ready_age=of.oldest_ready_age,
        enqueued=of.enqueued,
        delivered=of.delivered,
        acked=of.acked,
        retried=of.retried,
        dead_lettered=of.dead_lettered,
        dead_dropped=of.dead_dropped,
        duplicates=of.duplicates,
        expired_leases=of.expired_leases,
        bytes=of.bytes,
    )


def to_broker_stats(of: stats.BrokerStats) -> BrokerStats:
    """The counts over the whole broker."""
    return BrokerStats(
        queues=of.queues, subscriptions=of.subscriptions, bindings=of.bindings, binding_drops=of.binding_drops
    )
