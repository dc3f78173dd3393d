"""Leases that wait: each blocks a connection, so they have connections of their own.

A wait that is cancelled is ended by closing our side of its connection. The server then either finds it waiting, and
hands it nothing, or has answered already; so what comes until the server closes its side is all that was leased.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeVar

import trio

from respmq.client.connection import Connection, LineBrokenError, Pending
from respmq.client.greeting import greet
from respmq.client.line import pause_before
from respmq.errors import BrokerUnavailableError
from respmq.nursery import open_background

if TYPE_CHECKING:
    from collections.abc import Callable

    from respmq.calls.call import Call
    from respmq.client.line import Line
    from respmq.client.wire import Push

T = TypeVar("T")

#: How many connections are kept for the waits to come.
_KEPT = 4

#: Seconds that the end of a cancelled wait may take.
_LAST_WORD = 2.0


class _WaitConnection:
    """A connection for one wait at a time."""

    def __init__(self, stream: trio.abc.Stream, connection: Connection) -> None:
        self.connection = connection
        self._stream = stream

    async def finish(self) -> bool:
        """Close our side and take in what is still to come; False where only both sides can be closed (TLS)."""
        if isinstance(self._stream, trio.abc.HalfCloseableStream):
            try:
                await self._stream.send_eof()
            except (trio.BusyResourceError, trio.BrokenResourceError, trio.ClosedResourceError):
                # The request is not there in whole, or the connection is gone: nothing was taken that is known of.
                self.connection.end("the wait was cancelled")
            await self.connection.ended.wait()
            return True
        await self._stream.aclose()
        self.connection.end("the wait was cancelled")
        return False


class Waits:
    """The connections for leases that wait.

    Args:
        line: the connection that all else goes over; while there is none, nothing is leased either.
        name: the client's name.
        nursery: where the connections live.
        give_back: called with the reply to a lease that nobody waits for any more.
    """

    def __init__(self, line: Line, name: str, nursery: trio.Nursery, give_back: Callable[[object], None]) -> None:
        self._line = line
        self._name = name
        self._nursery = nursery
        self._give_back = give_back
        self._idle: list[_WaitConnection] = []
        self._leaving = 0
        self._left = trio.Event()

    async def lease(self, call: Call[T]) -> object:
        """Send a lease that waits; returns the reply.

        Raises:
            BrokerUnavailableError: the broker couldn't be reached for the client's timeout.
            BrokerError: the server answered with an error.
        """
        timeout = self._line.timeout
        deadline = trio.current_time() + (call.wait or 0)
        attempt = 0
        while True:
            try:
                await self._line.wait_ready()
                connection = await self._take()
                left = max(deadline - trio.current_time(), 0)
                with trio.move_on_after(left + timeout):
                    return await self._ask(connection, call, left)
                trouble = "there was no answer"
            except (OSError, trio.TooSlowError, LineBrokenError) as error:
                trouble = str(error)
            if trio.current_time() >= deadline + timeout:
                msg = f"no answer to QLEASE from the broker at {self._line.address}: {trouble}"
                raise BrokerUnavailableError(msg)
            attempt += 1
            await trio.sleep(pause_before(attempt))

    async def settled(self) -> None:
        """Wait until all waits that were cancelled have ended."""
        while self._leaving:
            await self._left.wait()

    async def _ask(self, own: _WaitConnection, call: Call[T], left: float) -> object:
        pending = Pending(call.waiting(left), undo=self._give_back, local=True)
        own.connection.submit(pending)
        try:
            reply = await pending.wait()
        except trio.Cancelled:
            self._leaving += 1
            self._nursery.start_soon(self._leave, own, call)
            raise
        self._keep(own)
        return reply

    def _keep(self, own: _WaitConnection) -> None:
        if len(self._idle) < _KEPT:
            self._idle.append(own)
        else:
            own.connection.end("it isn't needed")

    async def _leave(self, own: _WaitConnection, call: Call[T]) -> None:
        """End a wait that was cancelled."""
        try:
            with trio.move_on_after(_LAST_WORD, shield=True):
                if not await own.finish():
                    # The same REQID gets the same leases, if there are any.
                    self._line.submit(Pending(call.words, resend=True, on_result=self._give_back))
            own.connection.end("the wait was cancelled")
        finally:
            self._leaving -= 1
            self._left.set()
            self._left = trio.Event()

    async def _take(self) -> _WaitConnection:
        while self._idle:
            own = self._idle.pop()
            if not own.connection.ended.is_set():
                return own
        started: _WaitConnection = await self._nursery.start(self._live)
        return started

    async def _live(self, task_status: trio.TaskStatus[_WaitConnection]) -> None:
        """Keep a connection until it ends."""
        with trio.fail_after(self._line.timeout):
            stream = await self._line.address.connect()
        try:
            async with open_background() as nursery:
                connection = Connection(stream, _ignore)
                nursery.start_soon(connection.read)
                nursery.start_soon(connection.write)
                with trio.fail_after(self._line.timeout):
                    await greet(connection, self._line.address, self._name)
                task_status.started(_WaitConnection(stream, connection))
                await connection.ended.wait()
        finally:
            await trio.aclose_forcefully(stream)


def _ignore(_push: Push) -> None:
    """Nothing is subscribed to here."""
