"""What deliveries, `Worker` and `Publisher` need of a broker, wherever it is.

A `Client` has all of it, and so has what `Broker.asynchronous()` returns.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from respmq.api.bodies import Body
    from respmq.api.messages import Delivery
    from respmq.api.settings import QueueConfig
    from respmq.core.exchanges import ExchangeKind


class Settler(Protocol):
    """Where deliveries are settled. All methods raise a `BrokerError` if the queue is gone or the broker is."""

    async def ack(self, queue: str, lease: str) -> bool:
        """Settle a lease as done. False: it is stale."""
        ...

    async def nack(
        self,
        queue: str,
        lease: str,
        *,
        requeue: bool = True,
        error: str | None = None,
        delay: float | None = None,
        release: bool = False,
    ) -> bool:
        """Settle a lease as failed: the message comes back after a pause, or dies after its last attempt.

        Args:
            queue: the queue.
            lease: the lease.
            requeue: False lets the message die now.
            error: kept with the dead letter, if the message dies of this.
            delay: seconds until it comes back, instead of the queue's backoff; not with `requeue=False`.
            release: it is no failure: the attempt doesn't count, and without `delay` the message stands where it
                stood. Not with `requeue=False`.

        Returns:
            False if the lease is stale.
        """
        ...

    async def touch(self, queue: str, lease: str, duration: float | None = None) -> bool:
        """Renew a lease for `duration` seconds (None: the queue's `ack_timeout`) from now. False: it is stale."""
        ...


class AsyncBroker(Settler, Protocol):
    """What `Worker` and `Publisher` work with. All methods raise a `BrokerError` for what can't be done."""

    @property
    def connected(self) -> bool:
        """Whether the broker can be reached now."""
        ...

    async def declare_queue(self, name: str, config: QueueConfig | None = None) -> None:
        """Create a queue, or confirm that it exists with equal settings (None: the defaults)."""
        ...

    async def queue_config(self, name: str) -> QueueConfig:
        """The settings of a queue."""
        ...

    async def bind(self, pattern: str, queue: str) -> bool:
        """Copy events whose topics match into a queue. False: that was so."""
        ...

    async def declare_exchange(self, name: str, kind: ExchangeKind) -> None:
        """Create an exchange, or confirm that it exists with the same kind."""
        ...

    async def bind_exchange(self, exchange: str, queue: str, key: str | None = None) -> bool:
        """Copy what is published to an exchange into a queue. False: that was so."""
        ...

    async def publish_exchange(
        self,
        exchange: str,
        key: str,
        body: Body,
        *,
        headers: Mapping[str, str] | None = None,
        attachments: Sequence[bytes] = (),
    ) -> int:
        """Copy a message into the queues that are bound for `key`; returns how many took one."""
        ...

    async def lease(self, queue: str, *, count: int = 1, wait: float | None = None) -> list[Delivery]:
        """Lease up to `count` messages.

        Args:
            queue: the queue.
            count: the most messages to lease.
            wait: seconds to wait if nothing is ready; None not at all.

        Returns:
            The deliveries; none if nothing became ready in time. One that is cancelled leaves nothing leased that
            nobody knows of: what had been leased for it is given back.
        """
        ...
