"""What a client can do, in the words that it shares with `Broker`; each is one of the commands, sent as a call."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING

from respmq.calls import dead, exchanges, messages, queues, topics
from respmq.calls.declare import declare
from respmq.calls.methods import AsyncCommands
from respmq.errors import InvalidRequestError

if TYPE_CHECKING:
    from respmq.api.bodies import Body
    from respmq.api.messages import DeadLetter, Delivery
    from respmq.api.results import BrokerStats, PublishResult, PutResult, QueueStats
    from respmq.api.settings import QueueConfig
    from respmq.core.exchanges import ExchangeKind


class Vocabulary(AsyncCommands):
    """Queues, messages, topics, exchanges and dead letters.

    Every method raises BrokerUnavailableError if the broker can't be reached in time, and InvalidRequestError for an
    argument that it can't have.
    """

    # -- queues ----------------------------------------------------------------------------------------------------

    async def declare_queue(self, name: str, config: QueueConfig | None = None) -> None:
        """Create a queue, or confirm that it exists with equal settings (None: the defaults).

        Raises:
            InvalidNameError: not a possible queue name.
            QueueConfigConflictError: it exists with other settings.
        """
        await self._run_call(declare(name, config))

    async def queue_config(self, name: str) -> QueueConfig:
        """The settings of a queue.

        Raises:
            QueueNotFoundError: no such queue.
        """
        return await self.qconfig(name)

    async def delete_queue(self, name: str) -> None:
        """Delete a queue with all that is in it, its bindings and its consumers.

        Raises:
            QueueNotFoundError: no such queue.
        """
        await self.qdelete(name)

    async def purge_queue(self, name: str) -> int:
        """Drop what is ready or delayed and return how many messages that were; what is leased stays.

        Raises:
            QueueNotFoundError: no such queue.
        """
        return await self.qpurge(name)

    async def list_queues(self) -> list[str]:
        """The names of all queues, sorted."""
        return await self.qlist()

    async def stats(self, queue: str) -> QueueStats:
        """The state of a queue, and what has happened in it.

        Raises:
            QueueNotFoundError: no such queue.
        """
        return await self._run_call(queues.qstats(queue))

    async def broker_stats(self) -> BrokerStats:
        """Counts over the whole broker."""
        return await self._run_call(queues.qstats())

    # -- messages --------------------------------------------------------------------------------------------------

    async def put(
        self,
        queue: str,
        body: Body,
        *,
        id: str | None = None,
        priority: int = 0,
        headers: Mapping[str, str] | None = None,
        attachments: Sequence[bytes] = (),
        delay: float = 0.0,
        ttl: float | None = None,
    ) -> PutResult:
        """Store a message.

        It always goes with an id, so that it can be sent again if a connection breaks: one copy is kept.

        Args:
            queue: where.
            body: `bytes`, a `str` or any other JSON value.
            id: one is made if there is none. A put with an id that is known already stores nothing. With an id of your
                own, `duplicate` can also mean this very put, if the connection broke while it was on its way.
            priority: the lower number goes first.
            headers: names and values.
            attachments: blobs beside the body.
            delay: seconds until it is ready.
            ttl: seconds that it may wait; can only shorten the queue's.

        Raises:
            QueueNotFoundError: no such queue.
            QueueFullError: the queue has no room, and refuses what is new.
            TooBigError: the message is above the broker's limit.
            OutOfMemoryError: the broker's memory is used up.
        """
        call = messages.qput(
            queue,
            body,
            id=id,
            priority=priority or None,
            delay=delay or None,
            ttl=ttl,
            headers=headers,
            attachments=attachments,
        )
        return await self._run_call(call)

    async def lease(self, queue: str, *, count: int = 1, wait: float | None = None) -> list[Delivery]:
        """Lease up to `count` messages.

        A lease that waits has a connection of its own, so that it doesn't hold up the other calls. One that is
        cancelled leaves nothing leased: what had been leased for it already is given back.

        Args:
            queue: the queue.
            count: the most messages to lease.
            wait: seconds to wait if nothing is ready; None not at all, `math.inf` for ever.

        Returns:
            The deliveries; none if nothing became ready in time.

        Raises:
            QueueNotFoundError: no such queue, or it was deleted meanwhile.
            UnblockedError: somebody else ended the wait.
        """
        return await self._run_call(messages.qlease(queue, count=count, wait=wait))

    async def ack(self, queue: str, lease: str) -> bool:
        """Settle a lease as done. False: it is stale.

        If the connection breaks on the way it is sent again. Then False can also mean that the first one had arrived:
        the message is done, or it comes again.

        Raises:
            QueueNotFoundError: no such queue.
        """
        return bool(await self.qack(queue, lease))

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
        """Settle a lease as failed: the message comes back after the queue's backoff, or dies after its last attempt.

        Args:
            queue: the queue.
            lease: the lease.
            requeue: False lets the message die now.
            error: kept with the dead letter, if the message dies of this.
            delay: seconds until it comes back, instead of the backoff; not with `requeue=False`.
            release: it is no failure: the attempt doesn't count, and without `delay` the message stands where it
                stood. Not with `requeue=False`.

        Returns:
            False if the lease is stale, see `ack`.

        Raises:
            QueueNotFoundError: no such queue.
        """
        if not requeue and (delay is not None or release):
            msg = "nack with requeue=False lets the message die now: it takes neither delay nor release"
            raise InvalidRequestError(msg)
        if not requeue:
            return await self.qnack(queue, lease, mode="REJECT", error=error)
        return await self.qnack(queue, lease, mode="RELEASE" if release else None, delay=delay, error=error)

    async def touch(self, queue: str, lease: str, duration: float | None = None) -> bool:
        """Renew a lease for `duration` seconds (None: the queue's `ack_timeout`) from now. False: it is stale.

        Raises:
            QueueNotFoundError: no such queue.
        """
        return bool(await self.qtouch(queue, lease, for_=duration))

    # -- topics and exchanges --------------------------------------------------------------------------------------

    async def publish(
        self, topic: str, body: Body, *, headers: Mapping[str, str] | None = None, attachments: Sequence[bytes] = ()
    ) -> PublishResult:
        """Publish an event to those who have subscribed, and as a copy into the queues that are bound.

        It is not sent again if the connection breaks, since nobody could tell that it is the same.

        Raises:
            InvalidTopicError: not a possible topic, or one of the broker's.
            TooBigError: it is above the broker's limit.
        """
        return await self._run_call(topics.qpublish(topic, body, headers=headers, attachments=attachments))

    async def bind(self, pattern: str, queue: str) -> bool:
        """Copy events whose topics match into a queue. False: that was so.

        Raises:
            InvalidTopicError: not a possible pattern.
            QueueNotFoundError: no such queue.
        """
        return await self.qbind(pattern, queue)

    async def unbind(self, pattern: str, queue: str) -> bool:
        """Copy such events no longer. False: there was no such binding.

        Raises:
            InvalidTopicError: not a possible pattern.
            QueueNotFoundError: no such queue.
        """
        return await self.qunbind(pattern, queue)

    async def declare_exchange(self, name: str, kind: ExchangeKind = "TOPIC") -> None:
        """Create an exchange, or confirm that it exists with the same kind: `FANOUT`, `DIRECT` or `TOPIC`.

        Raises:
            InvalidNameError: not a possible name.
            QueueConfigConflictError: it exists with another kind.
        """
        await self.exchange_declare(name, kind)

    async def bind_exchange(self, exchange: str, queue: str, key: str | None = None) -> bool:
        """Copy what is published to an exchange into a queue. False: that was so.

        Args:
            exchange: the exchange.
            queue: the queue.
            key: the routing key (DIRECT) or a pattern for it (TOPIC); FANOUT ignores it.

        Raises:
            ExchangeNotFoundError, QueueNotFoundError: no such exchange or queue.
            InvalidTopicError: the key of a TOPIC exchange is no pattern.
        """
        return await self.exchange_bind(exchange, queue, key)

    async def unbind_exchange(self, exchange: str, queue: str, key: str | None = None) -> bool:
        """Undo a binding. False: there was none.

        Raises:
            ExchangeNotFoundError, QueueNotFoundError: no such exchange or queue.
            InvalidTopicError: the key of a TOPIC exchange is no pattern.
        """
        return await self.exchange_unbind(exchange, queue, key)

    async def publish_exchange(
        self,
        exchange: str,
        key: str,
        body: Body,
        *,
        headers: Mapping[str, str] | None = None,
        attachments: Sequence[bytes] = (),
    ) -> int:
        """Copy a message into the queues that are bound for `key`; returns how many took one.

        It is not sent again if the connection breaks.

        Raises:
            ExchangeNotFoundError: no such exchange.
            InvalidTopicError: the key for a TOPIC exchange is neither a topic nor empty.
            TooBigError: it is above the broker's limit.
        """
        call = exchanges.exchange_publish(exchange, key, body, headers=headers, attachments=attachments)
        return await self._run_call(call)

    # -- dead letters ----------------------------------------------------------------------------------------------

    async def dead_letters(self, queue: str, limit: int = 100) -> list[DeadLetter]:
        """The dead letters of a queue, oldest first, at most `limit`.

        Raises:
            QueueNotFoundError: no such queue.
        """
        return await self._run_call(dead.qdead_list(queue, count=limit)) if limit else []

    async def replay_dead(self, queue: str, ids: Iterable[str] | None = None) -> int:
        """Put dead letters (None: all) back into the queue with all their attempts; returns how many.

        Raises:
            QueueNotFoundError: no such queue.
        """
        chosen = None if ids is None else _several(ids)
        # For the server, no ids are all of them.
        return await self.qdead_replay(queue, *(chosen or ())) if chosen != () else 0

    async def purge_dead(self, queue: str, ids: Iterable[str] | None = None) -> int:
        """Remove dead letters (None: all) for good; returns how many there were.

        Raises:
            QueueNotFoundError: no such queue.
        """
        chosen = None if ids is None else _several(ids)
        return await self.qdead_purge(queue, *(chosen or ())) if chosen != () else 0


def _several(ids: Iterable[str]) -> tuple[str, ...]:
    if isinstance(ids, str):
        msg = f"ids are wanted, not the one text {ids!r}: put it into a list"
        raise InvalidRequestError(msg)
    return tuple(ids)
