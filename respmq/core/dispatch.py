"""Handing out: leases to those who ask, places in the lines of those who wait, and push consumers."""

from __future__ import annotations

from typing import TYPE_CHECKING

from respmq.core.bounds import MOST_LEASED, MOST_SHOWN
from respmq.core.consumers import Consumer
from respmq.core.deadlines import WAITER_RANK
from respmq.core.directory import Directory
from respmq.core.model import describe
from respmq.core.requests import Request
from respmq.core.waiting import Waiter, take
from respmq.errors import InvalidRequestError, quote

if TYPE_CHECKING:
    from collections.abc import Sequence

    from respmq.core.consumers import Sink
    from respmq.core.hub import Hub
    from respmq.core.model import Message
    from respmq.core.queue import Queue
    from respmq.core.waiting import Deliveries, LeaseWait


class Dispatch(Directory):
    """The queues, and those who take from them."""

    def __init__(self, hub: Hub) -> None:
        super().__init__(hub)
        self._takers = 0
        self._tags = 0
        self._consumers: dict[bytes, Consumer] = {}

    def lease(
        self,
        names: tuple[bytes, ...],
        count: int = 1,
        wait: int | None = None,
        lease: int | None = None,
        request: tuple[bytes, bytes] | None = None,
        full: bool = False,  # noqa: FBT001, FBT002 - by place: a keyword would cost a tenth of the call
    ) -> Deliveries | LeaseWait:
        """Lease up to `count` messages from the queues in the order given, or as many as one reply may hold.

        Args:
            names: at least one queue.
            count: the most messages to lease.
            wait: how long to wait if nothing is ready, 0 for ever, None not at all.
            lease: how long the leases last instead of ACKTIMEOUT.
            request: user and key of a request that may be sent again (REQID).
            full: answer with descriptions instead of messages.

        Raises:
            QueueNotFoundError: one of the queues doesn't exist; nothing was leased.
        """
        if count > MOST_SHOWN:
            count = min(count, MOST_SHOWN if full else MOST_LEASED)
        if len(names) == 1 and request is None:
            # The common case, kept short.
            queue = self._queues.get(names[0])
            if queue is None:
                return self.declaring(names, lambda: self.lease(names, count, wait, lease, full=full))
            taken: list[Message] = []
            if queue.ready:
                queue.take(count, lease, taken)
            if taken:
                return [describe(m) for m in taken] if full else taken
            if wait is None:
                return taken
            return self._wait([queue], count, wait, lease, None, full=full)
        queues = [self._queues[name] for name in dict.fromkeys(names) if name in self._queues]
        if len(queues) < len(set(names)):
            return self.declaring(names, lambda: self.lease(names, count, wait, lease, request, full=full))
        known = None
        if request is not None:
            known = queues[0].requests.get(request)
            if known is not None:
                if known.waiter is not None:
                    return self._take_over(known.waiter, wait, full=full)
                held = known.repeated()
                return [describe(m) for m in held] if full else held
            known = Request(queues[0], request)
        taken = take(queues, count, lease, known)
        if taken or wait is None:
            return [describe(m) for m in taken] if full else taken
        return self._wait(queues, count, wait, lease, known, full=full)

    def _wait(
        self, queues: Sequence[Queue], count: int, wait: int, lease: int | None, request: Request | None, *, full: bool
    ) -> LeaseWait:
        waiter = Waiter(self._next_taker(), queues, count, lease, request, self._hub.deadlines)
        waiter.full = full
        self._set_wait(waiter, wait)
        return waiter.wait

    def _take_over(self, waiter: Waiter, wait: int | None, *, full: bool) -> Deliveries | LeaseWait:
        answer = waiter.take_over()
        waiter.full = full
        if wait is None:
            answer.cancel()
            return []
        self._set_wait(waiter, wait)
        return answer

    def _set_wait(self, waiter: Waiter, wait: int) -> None:
        hub = self._hub
        waiter.set_deadline(hub.deadlines.set(hub.now + wait, WAITER_RANK, waiter) if wait else None)

    def _next_taker(self) -> int:
        self._takers += 1
        return self._takers

    def consume(self, name: bytes, prefetch: int, sink: Sink, full: bool = False) -> Consumer:  # noqa: FBT001, FBT002
        """Add a consumer: messages are delivered to `sink` as long as fewer than `prefetch` are unsettled.

        Raises:
            QueueNotFoundError: no such queue.
        """
        queue = self._queues.get(name)
        if queue is None:
            return self.declaring((name,), lambda: self.consume(name, prefetch, sink, full))
        self._tags += 1
        consumer = Consumer(b"ctag-%d" % self._tags, queue, prefetch, sink, self._next_taker, full=full)
        self._consumers[consumer.tag] = consumer
        return consumer

    def cancel(self, tag: bytes) -> int:
        """Remove a consumer; its leases are given back as failures. Returns how many there were.

        Raises:
            InvalidRequestError: no such consumer.
        """
        consumer = self._consumers.pop(tag, None)
        if consumer is None:
            msg = f"no such consumer '{quote(tag)}'"
            raise InvalidRequestError(msg)
        return consumer.remove()
