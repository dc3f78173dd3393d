"""`RespMQ`: redis-py with the broker's commands."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from functools import partial
from typing import TYPE_CHECKING, Any, Self, TypeVar, cast

import redis
from redis.client import NEVER_DECODE

from respmq.api.messages import describe_error
from respmq.calls.declare import declare
from respmq.calls.methods import Commands
from respmq.errors import BrokerError, QueueNotFoundError
from respmq.redis.common import FOREVER, LEFT, LOG, NOT_NOW, Slices, longest_slice, pause_before, translated

if TYPE_CHECKING:
    from types import TracebackType

    from respmq.api.messages import Delivery
    from respmq.api.settings import QueueConfig
    from respmq.calls.call import Call

T = TypeVar("T")


class RespMQ(Commands, redis.Redis):
    """A `redis.Redis` that has a typed method for each command of the broker: `qput`, `qlease`, `qack`, ...

    It is made as a `redis.Redis` is (`RespMQ(port=6390)`), and everything else of that works as before. The methods
    take and return what the rest of this package does, whether `protocol` is 2 or 3 and whatever `decode_responses` is.
    They raise the errors of `respmq.errors`: BrokerUnavailableError when the broker can't be reached.

    redis-py sends a command again when the connection breaks. Puts have ids and leases have REQIDs for that. What can't
    be made safe (`qmput`, `qpublish`, `exchange_publish`, `qpurge`, `qdel`, `qdead_pop`, ...) is sent once only, and if
    that fails, it may have been run or not. A lease may wait longer than the socket's time-out: it waits in slices.
    """

    # What redis-py has of these says nothing of this class to type checkers.

    def __enter__(self) -> Self:
        return self

    @classmethod
    def from_url(cls, url: str, **kwargs: object) -> Self:
        """A client of the broker at a URL of redis-py's, `redis://user:password@host:port`."""
        made: object = super().from_url(url, **kwargs)  # pyright: ignore[reportUnknownMemberType] - see above
        return cast("Self", made)

    def worker(
        self,
        queue: str,
        *,
        config: QueueConfig | None = None,
        lease: float | None = None,
        wait: float = FOREVER,
    ) -> Jobs:
        """The deliveries of a queue, one after the other, for a plain `for` loop. See `Jobs`.

        Args:
            queue: the queue.
            config: declare it so, now and again when a broker that was restarted has forgotten it; None not to.
            lease: seconds that each lease lasts, instead of the queue's `ack_timeout`. It must be longer than the work.
            wait: seconds after which the loop ends if there is nothing to do.
        """
        again = None if config is None else partial(self._run_call, declare(queue, config))
        return Jobs(self, queue, declare=again, lease=lease, wait=wait)

    def _run_call(self, call: Call[T]) -> T:
        try:
            if not call.wait:
                return call.decode(self._send(call.words, resend=call.resend), None)
            slices = Slices(call.wait, longest_slice(self.connection_pool), time.monotonic())
            while True:
                piece = slices.next(time.monotonic())
                result = call.decode(self._send(call.waiting(piece), resend=call.resend), None)
                if result or not piece:
                    return result
        except redis.RedisError as error:
            raise translated(error) from error

    def _send(self, words: tuple[bytes, ...], *, resend: bool) -> object:
        if resend or self.connection is not None:
            execute = cast("Callable[..., object]", self.execute_command)
            return execute(*words, **{NEVER_DECODE: True})
        pool: Any = self.connection_pool
        connection: Any = pool.get_connection()
        try:
            _refresh(connection)
            connection.send_command(*words)
            reply: object = connection.read_response(disable_decoding=True)
        except redis.ResponseError:
            raise
        except BaseException:
            # A reply that is still to come would be taken for that to the next command.
            connection.disconnect()
            raise
        finally:
            pool.release(connection)
        return reply


def _refresh(connection: Any) -> None:
    """See that a connection from the pool is still good: what is sent over it is sent only once."""
    try:
        if not connection.can_read():
            return
    except (redis.ConnectionError, redis.TimeoutError, OSError):
        LOG.debug("a connection of the pool has broken")
    connection.disconnect()
    connection.connect()


class Jobs:
    """A loop over the deliveries of a queue, made by `RespMQ.worker`.

        for job in r.worker("jobs"):
            work(job.body)

    When the body is through, the delivery is acked; if the body raises, it is nacked, and the error goes on its way.
    What the body has settled itself (`r.qack(job.queue, job.lease)`, `r.qnack(...)`) stays as it is.

    A `break` looks like an error to the loop, so it nacks, too. To end after this delivery, call `stop()`; or settle
    the delivery before the `break`; or use `with`, which can tell:

        with r.worker("jobs") as jobs:
            for job in jobs:
                work(job.body)
                if enough:
                    break                # acks

    There the nack has the text of the error, and KeyboardInterrupt and SystemExit give the delivery back uncounted.

    While the broker can't be reached the loop tries again, and logs that to `respmq.redis`; when `wait` is over, it
    raises BrokerUnavailableError.
    """

    def __init__(
        self, mq: RespMQ, queue: str, *, declare: Callable[[], None] | None, lease: float | None, wait: float
    ) -> None:
        self._mq = mq
        self._queue = queue
        self._declare = declare
        self._lease = lease
        self._wait = wait
        self._stopped = threading.Event()
        #: Within `with`, that settles what is left.
        self._entered = False
        self._current: Delivery | None = None

    def stop(self) -> None:
        """Let the loop end when the present delivery is done, or the present wait over. For signal handlers, too."""
        self._stopped.set()

    def __enter__(self) -> Self:
        self._entered = True
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._entered = False
        job, self._current = self._current, None
        if job is None:
            return
        if error is None:
            self._settle(job, partial(self._mq.qack, job.queue, job.lease))
        elif isinstance(error, Exception):
            self._settle(job, partial(self._mq.qnack, job.queue, job.lease, error=describe_error(error)))
        else:
            self._settle(job, partial(self._mq.qnack, job.queue, job.lease, mode="RELEASE"))

    def __iter__(self) -> Iterator[Delivery]:
        """The deliveries.

        Raises:
            QueueNotFoundError: there is no such queue, and no `config` to declare it with.
            BrokerError: it can't be declared, or the broker doesn't let us in.
        """
        while (job := self._next()) is not None:
            self._current = job
            left = True
            try:
                yield job
                left = False
            finally:
                if left and not self._entered:
                    self._current = None
                    self._settle(job, partial(self._mq.qnack, job.queue, job.lease, error=LEFT))
            self._current = None
            self._settle(job, partial(self._mq.qack, job.queue, job.lease))

    def _next(self) -> Delivery | None:
        """The next delivery; None if there is none any more."""
        attempt = 0
        declared = False
        slices = Slices(self._wait, longest_slice(self._mq.connection_pool), time.monotonic())
        while not self._stopped.is_set():
            piece = slices.next(time.monotonic())
            try:
                if self._declare is not None and not declared:
                    self._declare()
                    declared = True
                found = self._mq.qlease(self._queue, wait=piece or None, lease=self._lease)
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
                self._stopped.wait(pause_before(attempt))
                continue
            attempt = 0
            if found:
                return found[0]
            if not piece:
                return None
        return None

    def _settle(self, job: Delivery, settle: Callable[[], object]) -> None:
        """Settle a delivery. If that fails it comes again when its lease ends, which is no reason to end the loop."""
        try:
            settle()
        except BrokerError as error:
            LOG.warning("the delivery '%s' of '%s' could not be settled: %s", job.id, job.queue, error)
