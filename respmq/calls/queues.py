"""Commands on queues: QDECLARE to QSTATS.

Written by respmq/codegen/generate.py from the command table: change that, then run it.
"""

from __future__ import annotations

from typing import Literal, overload

from respmq.api.results import BrokerStats, QueueStats
from respmq.api.settings import QueueConfig
from respmq.calls import decode
from respmq.calls.call import Call, Words
from respmq.calls.runner import AsyncRunner, Runner


def qdeclare(
    queue: str,
    *,
    acktimeout: float | None = None,
    maxattempts: int | None = None,
    retrydelay: float | None = None,
    maxretrydelay: float | None = None,
    retryjitter: float | None = None,
    maxlen: int | None = None,
    overflow: Literal["REJECT", "DROPHEAD"] | None = None,
    ttl: float | None = None,
    maxdead: int | None = None,
    dedupe: float | None = None,
) -> Call[None]:
    """Creates a queue, or confirms that it exists with equal settings."""
    words = Words(b"QDECLARE")
    words.text("queue", queue)
    words.option_duration(b"ACKTIMEOUT", "acktimeout", acktimeout)
    words.option_integer(b"MAXATTEMPTS", "maxattempts", maxattempts)
    words.option_duration(b"RETRYDELAY", "retrydelay", retrydelay, zero=True)
    words.option_duration(b"MAXRETRYDELAY", "maxretrydelay", maxretrydelay)
    words.option_fraction(b"RETRYJITTER", "retryjitter", retryjitter)
    words.option_integer(b"MAXLEN", "maxlen", maxlen)
    words.option_text(b"OVERFLOW", "overflow", overflow)
    words.option_duration(b"TTL", "ttl", ttl)
    words.option_integer(b"MAXDEAD", "maxdead", maxdead)
    words.option_duration(b"DEDUPE", "dedupe", dedupe, zero=True)
    return Call(words.done(), decode.nothing, resend=True)


def qdelete(queue: str) -> Call[int]:
    """Deletes a queue with its messages; clients blocked on it get NOQUEUE."""
    words = Words(b"QDELETE")
    words.text("queue", queue)
    return Call(words.done(), decode.integer, resend=False)


def qpurge(queue: str) -> Call[int]:
    """Drops a queue's ready and delayed messages; leased ones and dead letters stay."""
    words = Words(b"QPURGE")
    words.text("queue", queue)
    return Call(words.done(), decode.integer, resend=False)


def qlist(*, match: str | None = None) -> Call[list[str]]:
    """Returns the names of the queues."""
    words = Words(b"QLIST")
    words.option_text(b"MATCH", "match", match)
    return Call(words.done(), decode.texts, resend=True)


def qconfig(queue: str) -> Call[QueueConfig]:
    """Returns a queue's settings: durations in seconds, null for none."""
    words = Words(b"QCONFIG")
    words.text("queue", queue)
    return Call(words.done(), decode.queue_config, resend=True)


@overload
def qstats(queue: str) -> Call[QueueStats]: ...
@overload
def qstats(queue: None = None) -> Call[BrokerStats]: ...
def qstats(queue: str | None = None) -> Call[QueueStats] | Call[BrokerStats]:
    """Returns statistics of a queue, or without a name of the whole broker."""
    words = Words(b"QSTATS")
    if queue is not None:
        words.text("queue", queue)
    if queue is None:
        return Call(words.done(), decode.broker_stats, resend=True)
    return Call(words.done(), decode.queue_stats, resend=True)


class QueueCommands(Runner):
    """Commands on queues, blocking."""

    def qdeclare(
        self,
        queue: str,
        *,
        acktimeout: float | None = None,
        maxattempts: int | None = None,
        retrydelay: float | None = None,
        maxretrydelay: float | None = None,
        retryjitter: float | None = None,
        maxlen: int | None = None,
        overflow: Literal["REJECT", "DROPHEAD"] | None = None,
        ttl: float | None = None,
        maxdead: int | None = None,
        dedupe: float | None = None,
    ) -> None:
        """Creates a queue, or confirms that it exists with equal settings.

        Args:
            queue: The name of the queue.
            acktimeout: How long a lease lasts. Seconds.
            maxattempts: Deliveries before a message dies.
            retrydelay: Wait before the first retry. Seconds.
            maxretrydelay: Cap of the backoff. Seconds.
            retryjitter: Each wait is multiplied by a random factor between 1-f and 1+f.
            maxlen: Most ready and delayed messages, applied when one is put.
            overflow: At MAXLEN: refuse the new message, or let the oldest of the least urgent die.
            ttl: How long a message may wait before it dies; none for ever. Seconds.
            maxdead: Dead letters kept.
            dedupe: How long an id is remembered after its put; 0: as long as its message is in the queue. Seconds.

        Raises:
            QueueConfigConflictError, InvalidNameError, InvalidRequestError, BrokerUnavailableError: see there.
        """
        return self._run_call(
            qdeclare(
                queue,
                acktimeout=acktimeout,
                maxattempts=maxattempts,
                retrydelay=retrydelay,
                maxretrydelay=maxretrydelay,
                retryjitter=retryjitter,
                maxlen=maxlen,
                overflow=overflow,
                ttl=ttl,
                maxdead=maxdead,
                dedupe=dedupe,
            )
        )

    def qdelete(self, queue: str) -> int:
        """Deletes a queue with its messages; clients blocked on it get NOQUEUE.

        Args:
            queue: The name of the queue.

        Raises:
            QueueNotFoundError, InvalidNameError, InvalidRequestError, BrokerUnavailableError: see there.
        """
        return self._run_call(qdelete(queue))

    def qpurge(self, queue: str) -> int:
        """Drops a queue's ready and delayed messages; leased ones and dead letters stay.

        Args:
            queue: The name of the queue.

        Raises:
            QueueNotFoundError, InvalidNameError, InvalidRequestError, BrokerUnavailableError: see there.
        """
        return self._run_call(qpurge(queue))

    def qlist(self, *, match: str | None = None) -> list[str]:
        """Returns the names of the queues.

        Args:
            match: Only names that match this glob.

        Raises:
            InvalidRequestError, BrokerUnavailableError: see there.
        """
        return self._run_call(qlist(match=match))

    def qconfig(self, queue: str) -> QueueConfig:
        """Returns a queue's settings: durations in seconds, null for none.

        Args:
            queue: The name of the queue.

        Raises:
            QueueNotFoundError, InvalidNameError, InvalidRequestError, BrokerUnavailableError: see there.
        """
        return self._run_call(qconfig(queue))

    @overload
    def qstats(self, queue: str) -> QueueStats: ...
    @overload
    def qstats(self, queue: None = None) -> BrokerStats: ...
    def qstats(self, queue: str | None = None) -> QueueStats | BrokerStats:
        """Returns statistics of a queue, or without a name of the whole broker.

        Args:
            queue: The name of a queue.

        Raises:
            QueueNotFoundError, InvalidNameError, InvalidRequestError, BrokerUnavailableError: see there.
        """
        if queue is None:
            return self._run_call(qstats())
        return self._run_call(qstats(queue))


class AsyncQueueCommands(AsyncRunner):
    """Commands on queues, awaited."""

    async def qdeclare(
        self,
        queue: str,
        *,
        acktimeout: float | None = None,
        maxattempts: int | None = None,
        retrydelay: float | None = None,
        maxretrydelay: float | None = None,
        retryjitter: float | None = None,
        maxlen: int | None = None,
        overflow: Literal["REJECT", "DROPHEAD"] | None = None,
        ttl: float | None = None,
        maxdead: int | None = None,
        dedupe: float | None = None,
    ) -> None:
        """Creates a queue, or confirms that it exists with equal settings.

        Args:
            queue: The name of the queue.
            acktimeout: How long a lease lasts. Seconds.
            maxattempts: Deliveries before a message dies.
            retrydelay: Wait before the first retry. Seconds.
            maxretrydelay: Cap of the backoff. Seconds.
            retryjitter: Each wait is multiplied by a random factor between 1-f and 1+f.
            maxlen: Most ready and delayed messages, applied when one is put.
            overflow: At MAXLEN: refuse the new message, or let the oldest of the least urgent die.
            ttl: How long a message may wait before it dies; none for ever. Seconds.
            maxdead: Dead letters kept.
            dedupe: How long an id is remembered after its put; 0: as long as its message is in the queue. Seconds.

        Raises:
            QueueConfigConflictError, InvalidNameError, InvalidRequestError, BrokerUnavailableError: see there.
        """
        return await self._run_call(
            qdeclare(
                queue,
                acktimeout=acktimeout,
                maxattempts=maxattempts,
                retrydelay=retrydelay,
                maxretrydelay=maxretrydelay,
                retryjitter=retryjitter,
                maxlen=maxlen,
                overflow=overflow,
                ttl=ttl,
                maxdead=maxdead,
                dedupe=dedupe,
            )
        )

    async def qdelete(self, queue: str) -> int:
        """Deletes a queue with its messages; clients blocked on it get NOQUEUE.

        Args:
            queue: The name of the queue.

        Raises:
            QueueNotFoundError, InvalidNameError, InvalidRequestError, BrokerUnavailableError: see there.
        """
        return await self._run_call(qdelete(queue))

    async def qpurge(self, queue: str) -> int:
        """Drops a queue's ready and delayed messages; leased ones and dead letters stay.

        Args:
            queue: The name of the queue.

        Raises:
            QueueNotFoundError, InvalidNameError, InvalidRequestError, BrokerUnavailableError: see there.
        """
        return await self._run_call(qpurge(queue))

    async def qlist(self, *, match: str | None = None) -> list[str]:
        """Returns the names of the queues.

        Args:
            match: Only names that match this glob.

        Raises:
            InvalidRequestError, BrokerUnavailableError: see there.
        """
        return await self._run_call(qlist(match=match))

    async def qconfig(self, queue: str) -> QueueConfig:
        """Returns a queue's settings: durations in seconds, null for none.

        Args:
            queue: The name of the queue.

        Raises:
            QueueNotFoundError, InvalidNameError, InvalidRequestError, BrokerUnavailableError: see there.
        """
        return await self._run_call(qconfig(queue))

    @overload
    async def qstats(self, queue: str) -> QueueStats: ...
    @overload
    async def qstats(self, queue: None = None) -> BrokerStats: ...
    async def qstats(self, queue: str | None = None) -> QueueStats | BrokerStats:
        """Returns statistics of a queue, or without a name of the whole broker.

        Args:
            queue: The name of a queue.

        Raises:
            QueueNotFoundError, InvalidNameError, InvalidRequestError, BrokerUnavailableError: see there.
        """
        if queue is None:
            return await self._run_call(qstats())
        return await self._run_call(qstats(queue))
