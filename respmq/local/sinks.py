"""Those whom the core hands messages and events to: each puts the call of a program's function into the outbox."""

from __future__ import annotations

import contextlib
import inspect
import logging
from collections import deque
from typing import TYPE_CHECKING, cast

import trio

from respmq.api.bodies import header_texts, octets, text
from respmq.api.messages import Delivery, Event
from respmq.errors import InvalidRequestError, QueueNotFoundError
from respmq.local.conversion import to_delivery

if TYPE_CHECKING:
    from collections.abc import Callable

    from respmq.api.ports import Settler
    from respmq.core import events
    from respmq.core.consumers import Consumer
    from respmq.core.model import Description, Message
    from respmq.local.machine import Machine

logger = logging.getLogger("respmq")

#: What a lease is given back with when its sink has raised.
SINK_FAILED = b"sink failed"


def check_function(sink: Callable[..., object]) -> None:
    """Refuse what can't be called as a sink.

    Raises:
        InvalidRequestError: it is an async function.
    """
    if inspect.iscoroutinefunction(sink):
        msg = f"{sink!r} is an async function, a sink is only called: use `deliveries`, or a `Worker`"
        raise InvalidRequestError(msg)


class FunctionSink:
    """Calls a function with each delivery. If it raises, that is logged, and the message has failed."""

    def __init__(self, function: Callable[[Delivery], object], machine: Machine, settler: Settler) -> None:
        self._function = function
        self._machine = machine
        self._settler = settler
        self.active = True

    def deliver(self, consumer: Consumer, delivery: Message | Description) -> None:
        """Put the call aside."""
        del consumer
        # Descriptions are for consumers that asked for them.
        made = to_delivery(cast("Message", delivery), self._settler)
        self._machine.outbox.append(lambda: self._call(made))

    def cancelled(self, consumer: Consumer, reason: str) -> None:
        """The queue is gone, and with it its messages."""
        del consumer, reason
        self.stop()

    def stop(self) -> None:
        """Call no more."""
        self.active = False

    def take_back(self) -> list[Delivery]:
        """What was not handed out yet: nothing."""
        return []

    def _call(self, delivery: Delivery) -> None:
        if not self.active:
            return
        try:
            self._function(delivery)
        except Exception:
            logger.exception("the sink of queue '%s' raised at message '%s'", delivery.queue, delivery.id)
            with contextlib.suppress(QueueNotFoundError):
                # Nothing to fail any more if the sink has deleted the queue.
                self._machine.core.nack(
                    octets(delivery.queue, "name"), octets(delivery.lease, "lease"), None, SINK_FAILED
                )


class Feed:
    """Keeps deliveries until somebody asks for the next one."""

    def __init__(self, settler: Settler) -> None:
        self._settler = settler
        self._waiting: deque[Delivery] = deque()
        self._lot = trio.lowlevel.ParkingLot()
        self.active = True
        self._error: QueueNotFoundError | None = None

    def deliver(self, consumer: Consumer, delivery: Message | Description) -> None:
        """Keep a delivery."""
        del consumer
        # As in FunctionSink.
        self._waiting.append(to_delivery(cast("Message", delivery), self._settler))
        self._lot.unpark()

    def cancelled(self, consumer: Consumer, reason: str) -> None:
        """The queue is gone: whoever waits is told."""
        del reason
        self._error = QueueNotFoundError.named(consumer.queue.name)
        self._waiting.clear()
        self.stop()

    def stop(self) -> None:
        """Nothing will come any more."""
        self.active = False
        self._lot.unpark_all()

    def take_back(self) -> list[Delivery]:
        """The deliveries that nobody has asked for; they are forgotten here."""
        waiting = list(self._waiting)
        self._waiting.clear()
        return waiting

    async def next(self) -> Delivery | None:
        """The next delivery, None if there won't be any.

        Raises:
            QueueNotFoundError: the queue was deleted.
        """
        await trio.lowlevel.checkpoint()
        while self.active:
            if self._waiting:
                return self._waiting.popleft()
            await self._lot.park()
        if self._error is not None:
            raise self._error
        return None


class SubscriberSink:
    """Calls a function with the number of its subscription and each event. If it raises, that is logged."""

    def __init__(self, name: str, function: Callable[[str, Event], object], machine: Machine) -> None:
        self._name = name
        self._function = function
        self._machine = machine
        self.active = True

    def event(self, event: events.Event, pattern: bytes | None) -> None:
        """Put the call aside. Each subscriber has an event of its own, so that nobody sees another's changes to it."""
        del pattern
        made = Event(text(event.topic), event.body, header_texts(event.headers))
        self._machine.outbox.append(lambda: self._call(made))

    def stop(self) -> None:
        """Call no more."""
        self.active = False

    def _call(self, event: Event) -> None:
        if not self.active:
            return
        try:
            self._function(self._name, event)
        except Exception:
            logger.exception("subscriber %s raised at an event of '%s'", self._name, event.topic)
