"""A subscription of a client."""

from __future__ import annotations

import inspect
import logging
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Self, TypeAlias

import trio

from respmq.api.bodies import octets, text
from respmq.api.messages import Event
from respmq.errors import BrokerError

if TYPE_CHECKING:
    from respmq.client.connection import Connection, Pending

_LOG = logging.getLogger("respmq.client")

#: How many events wait for the program, as many as the server keeps for a slow subscriber by default.
MAX_PENDING = 1000

#: What works on events: async, or a plain function that doesn't block.
EventHandler: TypeAlias = "Callable[[Event], Awaitable[object] | None]"


class Subscription:
    """The events of one subscription, as an async iterator. Made by `Client.subscribe`.

    At most 1000 events wait for the program; then the oldest is dropped and counted in `dropped`.
    """

    def __init__(self, pattern: str) -> None:
        self.pattern = pattern
        #: How many events were dropped because the program didn't take them.
        self.dropped = 0
        self.key = octets(pattern, "pattern")
        self._arrived, self._buffer = trio.open_memory_channel[Event](MAX_PENDING)
        #: The connection on which it was asked for, and whether that has been confirmed at all.
        self.connection: Connection | None = None
        self._confirmed = False
        self._error: BrokerError | None = None
        self._changed = trio.Event()

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> Event:
        """The next event."""
        try:
            return await self._buffer.receive()
        except trio.EndOfChannel:
            raise StopAsyncIteration from None

    # -- for the client --------------------------------------------------------------------------------------------

    def attach(self, connection: Connection) -> Pending:
        """Subscribe on a connection."""
        self.connection = connection
        return connection.start(b"PSUBSCRIBE", self.key, on_result=lambda result: self._attached(connection, result))

    def _attached(self, connection: Connection, result: object) -> None:
        if connection.ended.is_set():
            return
        if isinstance(result, BrokerError):
            self._error = result
        else:
            self._confirmed = True
        self._changed.set()
        self._changed = trio.Event()

    def take(self, topic: bytes, body: bytes) -> None:
        """An event has come."""
        event = Event(text(topic), body)
        try:
            self._arrived.send_nowait(event)
        except trio.WouldBlock:
            self.dropped += 1
            self._buffer.receive_nowait()
            self._arrived.send_nowait(event)

    async def wait_attached(self) -> None:
        """Wait until it is subscribed.

        Raises:
            BrokerError: it can't be.
        """
        while not self._confirmed:
            if self._error is not None:
                raise self._error
            await self._changed.wait()

    def close(self) -> None:
        """Nothing more comes."""
        self._arrived.close()

    async def work(self, handler: EventHandler) -> None:
        """Let a handler work on one event after the other."""
        async for event in self:
            try:
                result = handler(event)
                if inspect.isawaitable(result):
                    await result
            except Exception:  # noqa: BLE001 - the handler's failure is about this event alone
                _LOG.exception("the handler failed on an event of '%s'", event.topic)
