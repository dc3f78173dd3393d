"""QDECLARE with the settings of a `QueueConfig`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from respmq.calls import queues

if TYPE_CHECKING:
    from respmq.api.settings import QueueConfig
    from respmq.calls.call import Call


def declare(name: str, config: QueueConfig | None) -> Call[None]:
    """The call that declares a queue; None for the defaults."""
    if config is None:
        return queues.qdeclare(name)
    return queues.qdeclare(
        name,
        acktimeout=config.ack_timeout,
        maxattempts=config.max_attempts,
        retrydelay=config.retry_delay,
        maxretrydelay=config.max_retry_delay,
        retryjitter=config.retry_jitter,
        maxlen=config.max_len,
        overflow=config.overflow,
        ttl=config.ttl,
        maxdead=config.max_dead,
        dedupe=config.dedupe,
    )
