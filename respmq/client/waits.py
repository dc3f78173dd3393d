"""Leases that wait: each blocks a connection, so they have connections of their own.

A wait that is cancelled is ended by closing our side of its connection. The server then either finds it waiting, and
hands it nothing, or has answered already; so what comes until the server closes its side is all that was leased. TLS
can't close one side. There a second lease with the same REQID, which doesn't wait, takes the place of the first,
and that one is answered with nothing.
"""

from __future__ import annotations

import contextlib
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeVar

import trio

from respmq.client.connection import Connection, LineBrokenError, Pending
from respmq.client.greeting import greet
from respmq.client.line import pause_before
from respmq.errors import BrokerError, BrokerUnavailableError
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

#: Seconds before a wait that should have been answered is looked after again; then twice as long, and so on.
_FIRST_PAUSE = 0.01


class _WaitConnection:
    """A connection for one wait at a time."""

    def __init__(self, stream: trio.abc.Stream, connection: Connection) -> None:
        self.connection = connection
        self._stream = stream

    async def finish(self) -> bool:
        """Close our side and take in what is still to come; False if only both sides can be closed."""
        if not isinstance(self._stream, trio.abc.HalfCloseableStream):
            return False
        try:
            await self._stream.send_eof()
        except (trio.BusyResourceError, trio.BrokenResourceError, trio.ClosedResourceError):
            # The request is not there in whole, or the connection is gone: nothing was taken that is known of.
            self.connection.end("the wait was cancelled")
        await self.connection.ended.wait()
        return True


@dataclass
class _Attempts:
    """How often a lease was tried, and whether the broker may have answered one and the answer was lost."""

    made: int = 0
    lost: bool = False


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
        self._living: set[Connection] = set()
        self._leaving = 0
        self._left = trio.Event()

    async def lease(self, call: Call[T]) -> object:
        """Send a lease that waits; returns the reply.

        Raises:
            BrokerUnavailableError: the broker couldn't be reached for the client's timeout.
            BrokerError: the server answered with an error.
        """
        attempts = _Attempts()
        try:
            return await self._lease(call, attempts)
        except (trio.Cancelled, BrokerUnavailableError):
            if attempts.lost:
                self._sweep(call)
            raise

    async def _lease(self, call: Call[T], attempts: _Attempts) -> object:
        timeout = self._line.timeout
        deadline = trio.current_time() + (call.wait or 0)
        while True:
            try:
                await self._line.wait_ready()
                connection = await self._take()
            except (OSError, trio.TooSlowError, LineBrokenError) as error:
                trouble = str(error)
            else:
                left = max(deadline - trio.current_time(), 0)
                trouble = "there was no answer"
                try:
                    with trio.move_on_after(left + timeout):
                        return await self._ask(connection, call, left)
                except LineBrokenError as error:
                    attempts.lost = True
                    trouble = str(error)
            if trio.current_time() >= deadline + timeout:
                msg = f"no answer to QLEASE from the broker at {self._line.address}: {trouble}"
                raise BrokerUnavailableError(msg)
            attempts.made += 1
            await trio.sleep(pause_before(attempts.made))

    def close(self) -> None:
        """End all connections."""
        for connection in list(self._living):
            connection.end("the client was closed")

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
            self._nursery.start_soon(self._leave, own, call, pending)
            raise
        self._keep(own)
        return reply

    def _keep(self, own: _WaitConnection) -> None:
        if len(self._idle) < _KEPT:
            self._idle.append(own)
        else:
            own.connection.end("it isn't needed")

    async def _leave(self, own: _WaitConnection, call: Call[T], pending: Pending) -> None:
        """End a wait that was cancelled."""
        try:
            with trio.move_on_after(_LAST_WORD, shield=True):
                if not await own.finish():
                    await self._take_over(call, pending)
                elif not own.connection.orderly:
                    # It has broken meanwhile, perhaps before the answer came.
                    await self._sweep(call).over()
            own.connection.end("the wait was cancelled")
        finally:
            self._leaving -= 1
            self._left.set()
            self._left = trio.Event()

    def _sweep(self, call: Call[T]) -> Pending:
        """Give back what a lease has taken whose answer was lost: the same REQID gets the same."""
        sweep = Pending(call.words, resend=True, on_result=self._give_back)
        self._line.submit(sweep)
        return sweep

    async def _take_over(self, call: Call[T], pending: Pending) -> None:
        """Have the server answer a wait now; what has been leased is given back."""
        pause = _FIRST_PAUSE
        while not pending.done:
            second = Pending(call.words, resend=True, undo=self._give_back)
            self._line.submit(second)
            with contextlib.suppress(BrokerError):
                self._give_back(await second.wait())
            # The first may not even have arrived. Then it takes its turn after the second, and there has to be a third.
            with trio.move_on_after(pause):
                await pending.over()
            pause *= 2

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
            with trio.CancelScope() as life:
                async with open_background() as nursery:
                    connection = Connection(stream, _ignore)
                    nursery.start_soon(connection.read)
                    nursery.start_soon(connection.write)
                    with trio.fail_after(self._line.timeout):
                        await greet(connection, self._line.address, self._name)
                    # From here on cancelling ends the wait, see `_leave`, which takes the connection a moment.
                    life.shield = True
                    self._living.add(connection)
                    task_status.started(_WaitConnection(stream, connection))
                    await connection.ended.wait()
                    self._living.discard(connection)
        finally:
            await trio.aclose_forcefully(stream)


def _ignore(_push: Push) -> None:
    """Nothing is subscribed to here."""
