"""Runs a handler over a queue."""

from __future__ import annotations

import logging
import math
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import trio

from respmq.api.settings import QueueConfig
from respmq.errors import (
    BrokerError,
    BrokerUnavailableError,
    ExchangeNotFoundError,
    InvalidRequestError,
    QueueConfigConflictError,
    QueueNotFoundError,
)
from respmq.local.asynchronous import AsynchronousBroker
from respmq.local.broker import Broker
from respmq.nursery import open_background
from respmq.worker.handling import (
    Dead,
    Done,
    Failed,
    Handler,
    Publish,
    Threads,
    Unpublished,
    Verdict,
    hard_failure,
    judge,
)
from respmq.worker.policy import MOST_RETRIES, RetryPolicy, SoftFailure
from respmq.worker.publisher import asynchronous

if TYPE_CHECKING:
    from respmq.api.bodies import Body
    from respmq.api.messages import Delivery
    from respmq.api.ports import AsyncBroker

logger = logging.getLogger("respmq")

#: Seconds for which a worker waits for a message at a time.
_PATIENCE = 10.0
#: Seconds between attempts to reach a broker that can't be reached.
_PAUSE = 1.0
#: Seconds that giving back a message takes at most when the worker is cancelled.
_LAST_WORD = 2.0
#: How often a lease is renewed while it lasts. Two attempts in a row may fail.
_RENEWALS = 4


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkerHealth:
    """How a worker is.

    Args:
        connected: whether it can reach the broker.
        consuming: whether it asks for messages: it has been set up, and not stopped.
        last_success: how many seconds ago the last message was done; None if none was yet.
        oldest_running: for how many seconds the oldest handler has been running; None if none is.
    """

    connected: bool
    consuming: bool
    last_success: float | None
    oldest_running: float | None


class Worker:
    """Runs a handler over a queue: `await worker.run()`, until it is stopped.

    The handler gets a `Delivery` and settles nothing itself:

    - It returns: the message is acked. What it returns, if that isn't None, goes to `results` and `observer` first.
    - It raises `SoftFailure`, or takes longer than `handler_timeout`: the message comes back after a pause, as often as
      `retry` says, and is then a dead letter.
    - It raises `HardFailure` or any other exception: the message is a dead letter. So is one whose body can't be
      decoded, for which the handler isn't called.

    The lease is renewed while the handler runs. A message can come more than once, also if all goes well: a worker may
    do the work and lose the broker before its ack.

    Several workers of one queue compete for its messages. A queue that isn't there is declared, with settings that let
    `retry` decide about retries (`max_attempts=11`). Of one that is there, `max_attempts` counts, too.

    Args:
        client: a `Client`, or a `Broker` in the same process.
        queue: where the work comes from.
        handler: an async function, or a plain one, which runs in a thread.
        exchange: bind the queue to this exchange; one that isn't there is declared, as one of the kind `TOPIC`.
        binding_keys: for which routing keys; none is `#`, all of a `TOPIC` exchange. Without an exchange: for which
            topics of `publish`.
        concurrency: how many handlers run at a time.
        handler_timeout: seconds that one call may take; None for ever. A thread can't be stopped: one that goes on is
            left alone, and its place is not free before it ends.
        shutdown_timeout: seconds that handlers get to finish once the worker is stopped.
        retry: how often and when messages come back after a soft failure.
        results: gets what the handler returns. If it raises, the message is given back for a while, and the work is
            done again; what can't be encoded is a hard failure.
        control: gets an envelope for each message that became a dead letter here, best effort:
            `{"type": "hard-failure", "data": body, "job_id": ..., "origin": queue, "error": text}`.
        observer: gets what the handler returns, best effort.
        extract_identity: gives the `job_id` of a delivery, instead of the message's id.
        publish_hard_failures: False: `control` gets nothing.

    Raises:
        InvalidRequestError: a number is out of its range.
    """

    def __init__(
        self,
        client: AsyncBroker | Broker,
        queue: str,
        handler: Handler,
        *,
        exchange: str | None = None,
        binding_keys: Sequence[str] = (),
        concurrency: int = 1,
        handler_timeout: float | None = None,
        shutdown_timeout: float = 30.0,
        retry: RetryPolicy | None = None,
        results: Publish | None = None,
        control: Publish | None = None,
        observer: Publish | None = None,
        extract_identity: Callable[[Delivery], str] | None = None,
        publish_hard_failures: bool = True,
    ) -> None:
        if concurrency < 1:
            msg = f"invalid concurrency {concurrency!r}: an integer of at least 1 is wanted"
            raise InvalidRequestError(msg)
        if handler_timeout is not None and not handler_timeout > 0:
            msg = f"invalid handler_timeout {handler_timeout!r}: a number of seconds above 0 is wanted, or None"
            raise InvalidRequestError(msg)
        if not shutdown_timeout >= 0:
            msg = f"invalid shutdown_timeout {shutdown_timeout!r}: a number of seconds from 0 is wanted"
            raise InvalidRequestError(msg)
        self._broker = asynchronous(client)
        #: A broker in the same process that is closed won't come back.
        self._comes_back = not isinstance(self._broker, AsynchronousBroker)
        self._queue = queue
        self._handler = handler
        self._exchange = exchange
        self._binding_keys = tuple(binding_keys)
        self._timeout = math.inf if handler_timeout is None else handler_timeout
        self._shutdown_timeout = shutdown_timeout
        self._retry = RetryPolicy() if retry is None else retry
        self._results = results
        self._control = control if publish_hard_failures else None
        self._observer = observer
        self._identity = extract_identity
        #: Those of the queue, once the worker is set up.
        self._config = QueueConfig()
        self._free = concurrency
        self._freed = trio.Event()
        self._threads = Threads(self._finished)
        #: Those that are to be renewed.
        self._leases: dict[str, Delivery] = {}
        #: Since when the handler of each lease has been running.
        self._running: dict[str, float] = {}
        self._success: float | None = None
        self._is_set_up = False
        self._consuming = False
        self._stopping = False
        self._fetching = trio.CancelScope()

    # -- from outside ----------------------------------------------------------------------------------------------

    async def setup(self) -> None:
        """Declare the queue and its bindings, so that what is published from now on reaches it.

        `run` does it, too, if it wasn't done before.

        Raises:
            BrokerError: the broker can't be reached, or refuses a name or a key.
        """
        self._config = await self._declare()
        keys = self._binding_keys
        if self._exchange is None:
            for key in keys:
                await self._broker.bind(key, self._queue)
        else:
            for key in keys or ("#",):
                await self._bind(self._exchange, key)
        if self._config.max_attempts <= self._retry.max_retries:
            logger.warning(
                "queue '%s' has max_attempts %d, so messages die before the %d retries of the worker's policy",
                self._queue,
                self._config.max_attempts,
                self._retry.max_retries,
            )
        self._is_set_up = True

    async def run(self, *, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> None:
        """Work until `stop` is called. With `nursery.start(worker.run)`, the worker is set up when that returns.

        Cancelling it gives back what runs, as if it had not been handed out.

        Raises:
            BrokerError: as `setup`; later only if the broker refuses to hand out messages.
        """
        if not self._is_set_up:
            await self.setup()
        task_status.started()
        self._consuming = not self._stopping
        failure: BrokerError | None = None
        try:
            async with open_background() as background:
                background.start_soon(self._renew)
                async with trio.open_nursery() as handlers:
                    try:
                        with self._fetching:
                            while not self._stopping:
                                await self._fetch(handlers)
                    except BrokerError as error:
                        # What runs may end, as it may when the worker is stopped.
                        failure = error
                    self._consuming = False
                    handlers.cancel_scope.deadline = trio.current_time() + self._shutdown_timeout
        finally:
            self._consuming = False
        if failure is not None:
            raise failure

    def stop(self) -> None:
        """Take no more work. `run` returns when the handlers have, after `shutdown_timeout` at the latest."""
        self._stopping = True
        self._consuming = False
        self._fetching.cancel()

    def health(self) -> WorkerHealth:
        """How the worker is."""
        now = trio.current_time()
        return WorkerHealth(
            connected=self._broker.connected,
            consuming=self._consuming,
            last_success=None if self._success is None else now - self._success,
            oldest_running=now - min(self._running.values()) if self._running else None,
        )

    def live(self) -> bool:
        """Whether no handler has been running for twice its `handler_timeout`: one that has will never return."""
        oldest = self.health().oldest_running
        return oldest is None or oldest < 2 * self._timeout

    # -- setting up ------------------------------------------------------------------------------------------------

    async def _declare(self) -> QueueConfig:
        try:
            return await self._broker.queue_config(self._queue)
        except QueueNotFoundError:
            try:
                await self._broker.declare_queue(self._queue, QueueConfig(max_attempts=MOST_RETRIES + 1))
            except QueueConfigConflictError:
                # Somebody else has declared it in the meantime: that is how it is.
                logger.info("queue '%s' has been declared by another program", self._queue)
            return await self._broker.queue_config(self._queue)

    async def _bind(self, exchange: str, key: str) -> None:
        try:
            await self._broker.bind_exchange(exchange, self._queue, key)
        except ExchangeNotFoundError:
            await self._broker.declare_exchange(exchange, "TOPIC")
            await self._broker.bind_exchange(exchange, self._queue, key)

    # -- fetching --------------------------------------------------------------------------------------------------

    async def _fetch(self, handlers: trio.Nursery) -> None:
        while not self._free:
            await self._freed.wait()
        try:
            deliveries = await self._broker.lease(self._queue, count=self._free, wait=_PATIENCE)
        except QueueNotFoundError:
            logger.warning("queue '%s' is gone, it is declared again", self._queue)
            await self._try(self.setup)
        except BrokerUnavailableError as error:
            await self._pause(error)
        else:
            for delivery in deliveries:
                self._free -= 1
                self._leases[delivery.lease] = delivery
                self._running[delivery.lease] = trio.current_time()
                handlers.start_soon(self._process, delivery)

    async def _try(self, action: Callable[[], Awaitable[None]]) -> None:
        try:
            await action()
        except BrokerUnavailableError as error:
            await self._pause(error)

    async def _pause(self, error: BrokerUnavailableError) -> None:
        if not self._comes_back:
            raise error
        logger.warning("the worker of '%s' can't reach the broker: %s", self._queue, error)
        await trio.sleep(_PAUSE)

    def _finished(self, delivery: Delivery) -> None:
        del self._running[delivery.lease]
        self._free += 1
        self._freed.set()
        self._freed = trio.Event()

    # -- renewing --------------------------------------------------------------------------------------------------

    async def _renew(self) -> None:
        """Renew all leases, often enough."""
        while True:
            await trio.sleep(self._config.ack_timeout / _RENEWALS)
            for delivery in list(self._leases.values()):
                try:
                    renewed = await self._broker.touch(self._queue, delivery.lease)
                except BrokerError as error:
                    logger.warning("the lease of '%s' could not be renewed: %s", delivery.id, error)
                    continue
                # Unless it has been settled in the meantime.
                if not renewed and self._leases.pop(delivery.lease, None) is not None:
                    logger.warning("the lease of '%s' is lost: somebody else may do the work, too", delivery.id)

    # -- one message -----------------------------------------------------------------------------------------------

    async def _process(self, delivery: Delivery) -> None:
        death: str | None = None
        try:
            verdict = await judge(self._handler, delivery, self._threads, self._timeout)
            if isinstance(verdict, Done) and verdict.result is not None:
                verdict = await self._publish(delivery, verdict)
            self._leases.pop(delivery.lease, None)
            with trio.CancelScope(shield=True):
                # What is done is done, even if the worker is cancelled now.
                death = await self._settle(delivery, verdict)
            if death is not None and self._control is not None:
                await self._announce(delivery, death, self._control)
        except BaseException:
            # Not only Cancelled: out of a handler with a nursery it comes in a group.
            with trio.move_on_after(_LAST_WORD, shield=True):
                await self._nack(delivery, release=True)
            raise
        finally:
            self._leases.pop(delivery.lease, None)
            if delivery.lease not in self._threads.left_alone:
                self._finished(delivery)

    async def _publish(self, delivery: Delivery, done: Done) -> Verdict:
        """Hand on what the handler has returned; what is to become of the message then."""
        if self._results is not None:
            try:
                await self._results(done.result)
            except InvalidRequestError as error:
                # Not to be encoded now, and never: the handler would be called for ever.
                return Dead(f"the result can't be published: {error}")
            except Exception:
                logger.exception("the result of '%s' could not be published", delivery.id)
                return Unpublished()
        if self._observer is not None:
            await self._publish_best_effort(self._observer, done.result, "result", delivery)
        return done

    @staticmethod
    async def _publish_best_effort(publish: Publish, message: Body, what: str, delivery: Delivery) -> None:
        try:
            await publish(message)
        except Exception:
            logger.exception("the %s of '%s' could not be published", what, delivery.id)

    async def _settle(self, delivery: Delivery, verdict: Verdict) -> str | None:
        """Settle a delivery; of what the message has died, if it has."""
        match verdict:
            case Done():
                await self._ack(delivery)
            case Failed(failure):
                return await self._fail(delivery, failure)
            case Unpublished():
                await self._nack(delivery, release=True, delay=self._retry.delay(1))
            case Dead(error, cause):
                return await self._bury(delivery, error, cause)
        return None

    async def _ack(self, delivery: Delivery) -> None:
        try:
            if await self._broker.ack(self._queue, delivery.lease):
                self._success = trio.current_time()
            else:
                logger.warning("'%s' is done, but its lease was lost: it may be done again", delivery.id)
        except BrokerError as error:
            logger.warning("'%s' is done, but could not be acked, so it may be done again: %s", delivery.id, error)

    async def _fail(self, delivery: Delivery, failure: SoftFailure) -> str | None:
        attempt = delivery.attempt
        if failure.counts and (attempt > self._retry.retries(failure) or self._is_last(attempt)):
            return await self._bury(delivery, failure.reason)
        delay = self._retry.delay(attempt, failure)
        said = f"has failed in attempt {attempt}" if failure.counts else "is put off"
        logger.info("'%s' of '%s' %s, back in %.3g s: %s", delivery.id, self._queue, said, delay, failure.reason)
        await self._nack(delivery, error=failure.reason, delay=delay, release=not failure.counts)
        return None

    def _is_last(self, attempt: int) -> bool:
        """Whether the broker lets a message die that fails in this attempt."""
        return attempt >= self._config.max_attempts

    async def _bury(self, delivery: Delivery, error: str, cause: Exception | None = None) -> str | None:
        logger.error("'%s' of '%s' becomes a dead letter: %s", delivery.id, self._queue, error, exc_info=cause)
        return error if await self._nack(delivery, requeue=False, error=error) else None

    async def _announce(self, delivery: Delivery, error: str, control: Publish) -> None:
        job_id = delivery.id
        if self._identity is not None:
            try:
                job_id = self._identity(delivery)
            except Exception:
                logger.exception("extract_identity raised at '%s', the message's id is told instead", delivery.id)
        await self._publish_best_effort(control, hard_failure(delivery, job_id, error), "death", delivery)

    async def _nack(
        self,
        delivery: Delivery,
        *,
        requeue: bool = True,
        error: str | None = None,
        delay: float | None = None,
        release: bool = False,
    ) -> bool:
        try:
            return await self._broker.nack(
                self._queue, delivery.lease, requeue=requeue, error=error, delay=delay, release=release
            )
        except BrokerError as failure:
            logger.warning("'%s' could not be given back, it comes when its lease ends: %s", delivery.id, failure)
            return False
