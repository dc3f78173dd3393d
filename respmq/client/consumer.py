"""A push consumer of a client."""

from __future__ import annotations

import inspect
import logging
import math
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Self, TypeAlias

import trio

from respmq.api.messages import Delivery
from respmq.calls import consumers, decode, messages
from respmq.errors import BrokerError, QueueNotFoundError

if TYPE_CHECKING:
    from respmq.api.ports import Settler
    from respmq.client.connection import Connection, Pending

_LOG = logging.getLogger("respmq.client")

#: What works on deliveries: async, or a plain function that doesn't block.
Handler: TypeAlias = "Callable[[Delivery], Awaitable[object] | None]"


class Consumer:
    """The deliveries of one consumer, as an async iterator; several tasks may take from it. Made by `Client.consume`.

    It ends by an error only: QueueNotFoundError, when the queue is deleted or isn't there after a reconnect.
    """

    def __init__(self, queue: str, prefetch: int, settler: Settler) -> None:
        self.queue = queue
        self._words = consumers.qconsume(queue, prefetch=prefetch).words
        self._settler = settler
        self._arrived, self._buffer = trio.open_memory_channel[Delivery](math.inf)
        #: The connection that it lives on, and its tag there once it has begun.
        self.connection: Connection | None = None
        self.tag: bytes | None = None
        #: The error by which it ended.
        self._error: BrokerError | None = None
        self._changed = trio.Event()

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> Delivery:
        """The next delivery.

        Raises:
            QueueNotFoundError: the queue is gone.
        """
        try:
            return await self._buffer.receive()
        except trio.EndOfChannel:
            if self._error is None:
                raise StopAsyncIteration from None
            raise self._error.with_traceback(None) from None

    # -- for the client --------------------------------------------------------------------------------------------

    @property
    def ended(self) -> bool:
        """Whether it was ended by an error."""
        return self._error is not None

    def attach(self, connection: Connection) -> Pending:
        """Begin to consume on a connection."""
        self.connection = connection
        return connection.start(*self._words, on_result=lambda result: self._attached(connection, result))

    def _attached(self, connection: Connection, result: object) -> None:
        if connection is not self.connection or connection.ended.is_set():
            return
        if isinstance(result, BrokerError):
            self._end(result)
        elif isinstance(result, bytes):
            self.tag = result
            self._tell_change()

    def detach(self) -> list[Delivery]:
        """Its connection is gone; returns the deliveries that nobody has taken, which nobody may take any more."""
        self.connection = self.tag = None
        return self._take_back()

    def deliver(self, reply: object) -> None:
        """A message has come."""
        self._arrived.send_nowait(decode.delivery(reply, self._settler))

    def cancelled(self, reason: str) -> None:
        """The queue was deleted."""
        self.tag = None
        self._end(QueueNotFoundError(reason))

    async def wait_attached(self) -> None:
        """Wait until it consumes.

        Raises:
            BrokerError: it can't.
        """
        while self.tag is None:
            if self._error is not None:
                raise self._error
            await self._changed.wait()

    async def watch(self) -> None:
        """Wait until it ends by an error.

        Raises:
            BrokerError: that.
        """
        while self._error is None:
            await self._changed.wait()
        raise self._error

    async def leave(self) -> None:
        """End it, and give back as not delivered what nobody has taken.

        Raises:
            BrokerError: the connection broke meanwhile, which has the same effect.
        """
        connection = self.connection
        if connection is not None and not connection.ended.is_set():
            # What it is handed because it has begun, or because something was just settled, is pushed before this is
            # answered; else it would go back as failed.
            await connection.start(b"PING").wait()
        tag = self.tag
        untaken = self.detach()
        self._arrived.close()
        if connection is None or tag is None or connection.ended.is_set():
            return
        # In one transaction, or the server would deliver to it again what it has just given back.
        connection.start(b"MULTI")
        for delivery in untaken:
            connection.start(*messages.qnack(delivery.queue, delivery.lease, mode="RELEASE").words)
        connection.start(b"QCANCEL", tag)
        await connection.start(b"EXEC").wait()

    def _take_back(self) -> list[Delivery]:
        found: list[Delivery] = []
        while True:
            try:
                found.append(self._buffer.receive_nowait())
            except (trio.WouldBlock, trio.EndOfChannel):
                return found

    def _end(self, error: BrokerError) -> None:
        self._error = error
        self._arrived.close()
        self._tell_change()

    def _tell_change(self) -> None:
        self._changed.set()
        self._changed = trio.Event()

    async def work(self, handler: Handler) -> None:
        """Let a handler work on one delivery after the other; several of these may run."""
        async for delivery in self._buffer:
            try:
                async with delivery:
                    result = handler(delivery)
                    if inspect.isawaitable(result):
                        await result
            except Exception:  # noqa: BLE001 - the handler's failure is about this delivery alone
                _LOG.exception("the handler failed on the delivery '%s' of '%s'", delivery.id, self.queue)
