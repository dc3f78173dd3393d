"""The connection of a client, made anew whenever it breaks."""

from __future__ import annotations

import logging
import random
from enum import StrEnum
from typing import TYPE_CHECKING

import trio

from respmq.client.connection import Connection, LineBrokenError, Pending, reason_of
from respmq.client.greeting import LOADING
from respmq.errors import BrokerError, BrokerUnavailableError
from respmq.nursery import open_background

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from respmq.client.address import Address
    from respmq.client.wire import Push

_LOG = logging.getLogger("respmq.client")

#: Seconds before the second attempt to connect, and the most; the pause doubles, and varies by half.
_FIRST_PAUSE = 0.05
_LONGEST_PAUSE = 5.0

#: From which attempt on it is more than a restart of the broker that there is no connection.
_WORRYING = 5


class ConnectionEvent(StrEnum):
    """What `Client.on_event` tells."""

    CONNECTED = "connected"
    DISCONNECTED = "disconnected"
    RECONNECTED = "reconnected"


def pause_before(attempt: int) -> float:
    """Seconds to wait before the `attempt`th attempt in a row, counted from 1."""
    longest = min(_FIRST_PAUSE * (1 << min(attempt - 1, 20)), _LONGEST_PAUSE)
    return longest * random.uniform(0.5, 1.5)  # noqa: S311 - so that clients don't come back all at once


class Line:
    """Sends requests over one connection, over the next one if it breaks.

    Args:
        address: where the broker is.
        timeout: seconds that connecting, and that a request, may take.
        greet: makes a new connection ready for use: logs in, and restores what the one before had.
        on_push: takes pushes.
        on_event: told what becomes of the connection.
    """

    def __init__(
        self,
        address: Address,
        timeout: float,
        *,
        greet: Callable[[Connection], Awaitable[None]],
        on_push: Callable[[Push], None],
        on_event: Callable[[ConnectionEvent], None],
    ) -> None:
        self.address = address
        self.timeout = timeout
        self._greet = greet
        self._on_push = on_push
        self._on_event = on_event
        #: The connection, when it is ready for use.
        self.connection: Connection | None = None
        #: Requests for the next one: first those that were on their way when the last one broke.
        self._waiting: list[Pending] = []
        #: Why there is no connection.
        self._trouble = ""
        #: What was wrong with the greeting before there ever was a connection.
        self._refusal: BrokerError | None = None
        self._changed = trio.Event()
        self._life = trio.CancelScope(shield=True)

    # -- requests --------------------------------------------------------------------------------------------------

    def submit(self, pending: Pending) -> None:
        """Send a request, now or when there is a connection."""
        if self.connection is None:
            self._waiting.append(pending)
        else:
            self.connection.submit(pending)

    async def ask(self, pending: Pending) -> object:
        """Send a request and wait for the reply.

        Raises:
            BrokerUnavailableError: none came within `timeout`, or the connection broke and it can't be sent again.
            BrokerError: the server answered with an error.
        """
        self.submit(pending)
        with trio.move_on_after(self.timeout):
            return await pending.wait()
        raise self._unavailable(pending.name)

    def _unavailable(self, what: str) -> BrokerUnavailableError:
        trouble = f": {self._trouble}" if self.connection is None and self._trouble else ""
        msg = f"no answer to {what} from the broker at {self.address} within {self.timeout:g} seconds{trouble}"
        return BrokerUnavailableError(msg)

    async def wait_ready(self) -> None:
        """Wait until there is a connection.

        Raises:
            BrokerUnavailableError: there was none within `timeout`.
            BrokerError: there never was one, since the server doesn't let us in.
        """
        with trio.move_on_after(self.timeout):
            while self.connection is None:
                if self._refusal is not None:
                    raise self._refusal
                await self._changed.wait()
            return
        raise self._unavailable("HELLO")

    # -- connections -----------------------------------------------------------------------------------------------

    def close(self) -> None:
        """Let `run` end."""
        self._life.cancel()

    async def run(self) -> None:
        """Connect, again and again, until `close`: cancelling from outside leaves time for last words."""
        with self._life:
            await self._run()
        for pending in self._waiting:
            pending.finish(BrokerUnavailableError(f"the client was closed before {pending.name} was answered"))

    async def _run(self) -> None:
        attempt = 0
        before = False
        while True:
            attempt += 1
            try:
                with trio.fail_after(self.timeout):
                    stream = await self.address.connect()
            except OSError as error:
                self._trouble = reason_of(error)
            except trio.TooSlowError:
                self._trouble = "it took too long to connect"
            else:
                if await self._serve(stream, again=before):
                    attempt = 0
                    before = True
            self._tell_change()
            level = logging.INFO if attempt < _WORRYING else logging.WARNING
            _LOG.log(level, "no connection to %s: %s", self.address, self._trouble)
            await trio.sleep(pause_before(attempt + 1))

    async def _serve(self, stream: trio.abc.Stream, *, again: bool) -> bool:
        """Use a connection until it ends; returns whether it was ready for use at all."""
        connection = Connection(stream, self._on_push)
        ready = False
        try:
            async with open_background() as nursery:
                nursery.start_soon(connection.write)
                nursery.start_soon(connection.read)
                ready = await self._make_ready(connection, again=again)
                if ready:
                    self._take_up(connection, again=again)
                    await connection.ended.wait()
                    self._trouble = connection.reason
        finally:
            self.connection = None
            self._sort_out(connection)
            await trio.aclose_forcefully(stream)
        if ready:
            self._on_event(ConnectionEvent.DISCONNECTED)
        return ready

    async def _make_ready(self, connection: Connection, *, again: bool) -> bool:
        """Greet; False if that failed."""
        try:
            with trio.fail_after(self.timeout):
                await self._greet(connection)
        except trio.TooSlowError:
            self._trouble = "it took too long to log in and restore what there was"
        except LineBrokenError as error:
            self._trouble = error.text
        except BrokerError as error:
            self._trouble = str(error)
            if not again and error.code != LOADING:
                self._refusal = error
        else:
            return not connection.ended.is_set()
        return False

    def _take_up(self, connection: Connection, *, again: bool) -> None:
        """A connection is ready for use."""
        self.connection = connection
        waiting, self._waiting = self._waiting, []
        for pending in waiting:
            if pending.wanted:
                connection.submit(pending)
        self._tell_change()
        self._on_event(ConnectionEvent.RECONNECTED if again else ConnectionEvent.CONNECTED)

    def _sort_out(self, connection: Connection) -> None:
        """Decide what becomes of the requests that had no reply when their connection ended."""
        connection.end("it was closed")
        again: list[Pending] = []
        for pending in connection.unanswered():
            if pending.done or not pending.wanted:
                continue
            if pending.resend:
                again.append(pending)
            else:
                msg = (
                    f"the connection to the broker at {self.address} broke ({connection.reason}) before {pending.name} "
                    "was answered: it may have been run or not"
                )
                pending.finish(LineBrokenError(msg))
        self._waiting = again + self._waiting

    def _tell_change(self) -> None:
        self._changed.set()
        self._changed = trio.Event()
