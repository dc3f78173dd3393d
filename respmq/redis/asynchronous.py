"""`AsyncRespMQ`: redis-py for asyncio with the broker's commands."""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import Awaitable, Callable
from functools import partial
from typing import TYPE_CHECKING, Any, Self, TypeVar, cast

import redis
import redis.asyncio
from redis.client import NEVER_DECODE

from respmq.api.messages import describe_error
from respmq.calls.declare import declare
from respmq.calls.messages import qlease, qnack
from respmq.calls.methods import AsyncCommands
from respmq.errors import BrokerError, InvalidRequestError, QueueNotFoundError
from respmq.redis.common import FOREVER, LOG, NOT_NOW, Slices, longest_slice, pause_before, translated

if TYPE_CHECKING:
    from types import TracebackType

    from respmq.api.messages import Delivery
    from respmq.api.settings import QueueConfig
    from respmq.calls.call import Call

T = TypeVar("T")

#: Seconds that a program that is cancelled takes to give back what it has leased.
_LAST_WORD = 2.0


class AsyncRespMQ(AsyncCommands, redis.asyncio.Redis):  # type: ignore[misc] # two of redis-py's bases don't agree
    """A `redis.asyncio.Redis` that has a typed method for each command of the broker. See `RespMQ`.

    Deliveries can be settled by their own methods (`await delivery.ack()`) and as a context (`async with delivery:`).
    A lease that is cancelled gives back what it had leased already.
    """

    @classmethod
    def from_url(
        cls,
        url: str,
        single_connection_client: bool = False,  # noqa: FBT001, FBT002 - as redis-py has it
        auto_close_connection_pool: bool | None = None,  # noqa: FBT001 - as redis-py has it
        **kwargs: object,
    ) -> Self:
        """A client of the broker at a URL of redis-py's, `redis://user:password@host:port`."""
        make = cast("Callable[..., Self]", super().from_url)
        return make(url, single_connection_client, auto_close_connection_pool, **kwargs)

    def worker(
        self,
        queue: str,
        *,
        config: QueueConfig | None = None,
        lease: float | None = None,
        wait: float = FOREVER,
    ) -> AsyncJobs:
        """The deliveries of a queue, one after the other, for `async with` and `async for`. See `AsyncJobs`.

        Args:
            queue: the queue.
            config: declare it so, now and again when a broker that was restarted has forgotten it; None not to.
            lease: seconds that each lease lasts, instead of the queue's `ack_timeout`. It must be longer than the work.
            wait: seconds after which the loop ends if there is nothing to do.
        """
        again = None if config is None else partial(self._run_call, declare(queue, config))
        return AsyncJobs(self, queue, declare=again, lease=lease, wait=wait)

    async def _run_call(self, call: Call[T]) -> T:
        settler = _Settler(self)
        try:
            if not call.wait:
                return call.decode(await self._send(call.words, resend=call.resend), settler)
            slices = Slices(call.wait, longest_slice(self.connection_pool), time.monotonic())
            while True:
                piece = slices.next(time.monotonic())
                result = call.decode(await self._send(call.waiting(piece), resend=call.resend), settler)
                if result or not piece:
                    return result
        except redis.RedisError as error:
            raise translated(error) from error
        except asyncio.CancelledError:
            if call.words[0] == b"QLEASE":
                await self._give_back(call.words)
            raise

    async def _give_back(self, words: tuple[bytes, ...]) -> None:
        """Give back what a lease that was cancelled has got: the same REQID gets the same again."""
        with contextlib.suppress(redis.RedisError, TimeoutError):
            # What can't be given back comes back by itself when the lease ends.
            async with asyncio.timeout(_LAST_WORD):
                for delivery in qlease().decode(await self._send(words, resend=True), None):
                    release = qnack(delivery.queue, delivery.lease, mode="RELEASE")
                    await self._send(release.words, resend=True)

    async def _send(self, words: tuple[bytes, ...], *, resend: bool) -> object:
        if resend or self.connection is not None:
            execute = cast("Callable[..., Awaitable[object]]", self.execute_command)
            return await execute(*words, **{NEVER_DECODE: True})
        await self.initialize()
        pool: Any = self.connection_pool
        connection: Any = await pool.get_connection()
        try:
            await _refresh(connection)
            await connection.send_command(*words)
            reply: object = await connection.read_response(disable_decoding=True)
        except redis.ResponseError:
            raise
        except BaseException:
            # A reply that is still to come would be taken for that to the next command.
            await connection.disconnect(nowait=True)
            raise
        finally:
            await pool.release(connection)
        return reply


async def _refresh(connection: Any) -> None:
    """See that a connection from the pool is still good: what is sent over it is sent only once."""
    # Before version 8, redis-py has this under another name.
    can_read: Callable[[], Awaitable[bool]] = getattr(connection, "can_read", None) or connection.can_read_destructive
    # Two turns of the loop: one sees that the connection has ended, the next one tells it.
    for _ in range(2):
        await asyncio.sleep(0)
    # A reset, unlike an orderly end, redis-py doesn't notice before it reads.
    reader: asyncio.StreamReader | None = getattr(connection, "_reader", None)
    broken = reader is not None and reader.exception() is not None
    try:
        if not broken and not await can_read():
            return
    except (redis.ConnectionError, redis.TimeoutError, OSError):
        LOG.debug("a connection of the pool has broken")
    await connection.disconnect(nowait=True)
    await connection.connect()


class _Settler:
    """Settles deliveries."""

    def __init__(self, mq: AsyncRespMQ) -> None:
        self._mq = mq

    async def ack(self, queue: str, lease: str) -> bool:
        return bool(await self._mq.qack(queue, lease))

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
        if not requeue and (delay is not None or release):
            msg = "nack with requeue=False lets the message die now: it takes neither delay nor release"
            raise InvalidRequestError(msg)
        if not requeue:
            return await self._mq.qnack(queue, lease, mode="REJECT", error=error)
        return await self._mq.qnack(queue, lease, mode="RELEASE" if release else None, delay=delay, error=error)

    async def touch(self, queue: str, lease: str, duration: float | None = None) -> bool:
        return bool(await self._mq.qtouch(queue, lease, for_=duration))


class AsyncJobs:
    """A loop over the deliveries of a queue, made by `AsyncRespMQ.worker`.

        async with r.worker("jobs") as jobs:
            async for job in jobs:
                await work(job.body)

    When the body is through, or left by a `break`, the delivery is acked; if the body raises, it is nacked with the
    text of the error, which goes on its way; if it is cancelled, the delivery is given back uncounted. What the body
    has settled itself (`await job.ack()`) stays as it is.

    While the broker can't be reached the loop tries again, and logs that to `respmq.redis`; when `wait` is over, it
    raises BrokerUnavailableError.
    """

    def __init__(
        self,
        mq: AsyncRespMQ,
        queue: str,
        *,
        declare: Callable[[], Awaitable[None]] | None,
        lease: float | None,
        wait: float,
    ) -> None:
        self._mq = mq
        self._queue = queue
        self._declare = declare
        self._lease = lease
        self._wait = wait
        self._stopped = False
        self._entered = False
        self._current: Delivery | None = None

    def stop(self) -> None:
        """Let the loop end when the present delivery is done, or the present wait over."""
        self._stopped = True

    async def __aenter__(self) -> Self:
        self._entered = True
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._entered = False
        job, self._current = self._current, None
        if job is None:
            return
        if error is None:
            await _settle(job, job.ack())
        elif isinstance(error, Exception):
            await _settle(job, job.nack(error=describe_error(error)))
        else:
            await _settle(job, job.nack(release=True))

    def __aiter__(self) -> Self:
        if not self._entered:
            msg = "the loop has to know how it is left: use it within 'async with r.worker(...) as jobs:'"
            raise InvalidRequestError(msg)
        return self

    async def __anext__(self) -> Delivery:
        """The next delivery.

        Raises:
            QueueNotFoundError: there is no such queue, and no `config` to declare it with.
            BrokerError: it can't be declared, or the broker doesn't let us in.
        """
        job, self._current = self._current, None
        if job is not None:
            await _settle(job, job.ack())
        self._current = await self._next()
        if self._current is None:
            raise StopAsyncIteration
        return self._current

    async def _next(self) -> Delivery | None:
        """The next delivery; None if there is none any more."""
        attempt = 0
        declared = False
        slices = Slices(self._wait, longest_slice(self._mq.connection_pool), time.monotonic())
        while not self._stopped:
            piece = slices.next(time.monotonic())
            try:
                if self._declare is not None and not declared:
                    await self._declare()
                    declared = True
                found = await self._mq.qlease(self._queue, wait=piece or None, lease=self._lease)
            except QueueNotFoundError:
                if self._declare is None:
                    raise
                declared = False
                continue
            except BrokerError as error:
                if error.code not in NOT_NOW or not piece:
                    raise
                attempt += 1
                declared = False
                LOG.warning("the broker can't be reached, trying again: %s", error)
                await asyncio.sleep(pause_before(attempt))
                continue
            attempt = 0
            if found:
                return found[0]
            if not piece:
                return None
        return None


async def _settle(job: Delivery, settled: Awaitable[bool]) -> None:
    """Settle a delivery. If that fails it comes again when its lease ends, which is no reason to end the loop."""
    try:
        await settled
    except BrokerError as error:
        LOG.warning("the delivery '%s' of '%s' could not be settled: %s", job.id, job.queue, error)
