"""One connection while it lasts, and the requests that are on their way over it."""

from __future__ import annotations

from typing import TYPE_CHECKING

import trio

from respmq.client.wire import Push, Wire
from respmq.errors import BrokerError, BrokerUnavailableError, ProtocolError

if TYPE_CHECKING:
    from collections.abc import Callable

_READ_SIZE = 1 << 16


class LineBrokenError(BrokerUnavailableError):
    """`UNAVAILABLE`: a connection broke before a reply came; the line that made it decides what becomes of that."""


class Pending:
    """A request and, once it is there, what it came to.

    Args:
        words: the request.
        resend: whether it may be sent again on another connection.
        undo: called with the reply if it comes when nobody waits for it any more.
        local: whether it makes sense on its own connection only, and fails with that.
        on_result: called with the reply or the error as soon as it is there, before anything that came behind it is
            looked at.
    """

    __slots__ = ("_done", "abandoned", "local", "on_result", "resend", "result", "sent", "undo", "words")

    def __init__(
        self,
        words: tuple[bytes, ...],
        *,
        resend: bool = False,
        undo: Callable[[object], None] | None = None,
        local: bool = False,
        on_result: Callable[[object], None] | None = None,
    ) -> None:
        self.words = words
        self.resend = resend
        self.undo = undo
        self.local = local
        self.on_result = on_result
        self.result: object = None
        self.sent = False
        self.abandoned = False
        self._done = trio.Event()

    @property
    def name(self) -> str:
        """The command's name."""
        return self.words[0].decode()

    @property
    def done(self) -> bool:
        """Whether there is a result."""
        return self._done.is_set()

    @property
    def wanted(self) -> bool:
        """Whether anything depends on its being sent (again)."""
        return not self.abandoned or (self.sent and self.undo is not None)

    def finish(self, result: object) -> None:
        """The reply has come, or it is known that none will: a BrokerError then."""
        self.result = result
        self._done.set()
        if self.on_result is not None:
            self.on_result(result)
        if self.abandoned:
            self._undo()

    def abandon(self) -> None:
        """Nobody waits for it any more."""
        self.abandoned = True
        if self.done:
            self._undo()

    async def wait(self) -> object:
        """The reply.

        Raises:
            BrokerError: the server's answer is an error, or there is none.
        """
        try:
            await self._done.wait()
        except trio.Cancelled:
            self.abandon()
            raise
        if isinstance(self.result, BrokerError):
            raise self.result
        return self.result

    async def over(self) -> None:
        """Wait until there is a result, whatever it is."""
        await self._done.wait()

    def _undo(self) -> None:
        if self.undo is not None and not isinstance(self.result, BrokerError):
            self.undo(self.result)


class Connection:
    """Sends requests one behind the other and hands out what comes. `read` and `write` have to run, until `ended`."""

    def __init__(self, stream: trio.abc.Stream, on_push: Callable[[Push], None]) -> None:
        self.ended = trio.Event()
        #: Why it ended, and whether by what the server did last: then nothing that it had sent was lost.
        self.reason = ""
        self.orderly = False
        self._stream = stream
        self._on_push = on_push
        self._wire: Wire[Pending] = Wire()
        self._out: list[bytes] = []
        self._more = trio.Event()

    def start(self, *words: bytes, on_result: Callable[[object], None] | None = None) -> Pending:
        """Send a request that makes sense on this connection only."""
        pending = Pending(words, local=True, on_result=on_result)
        self.submit(pending)
        return pending

    def submit(self, pending: Pending) -> None:
        """Send a request behind those that were submitted before."""
        if pending.local and self.ended.is_set():
            pending.finish(LineBrokenError(self.reason))
            return
        pending.sent = True
        self._out.append(self._wire.send(pending.words, pending))
        self._more.set()

    def unanswered(self) -> list[Pending]:
        """The requests that have no reply."""
        return self._wire.unanswered()

    async def write(self) -> None:
        """Send what is submitted."""
        while not self.ended.is_set():
            if not self._out:
                self._more = trio.Event()
                await self._more.wait()
            data, self._out = b"".join(self._out), []
            try:
                await self._stream.send_all(data)
            except (trio.BrokenResourceError, trio.ClosedResourceError) as error:
                self.end(reason_of(error))

    async def read(self) -> None:
        """Take in what comes."""
        while not self.ended.is_set():
            try:
                data = await self._stream.receive_some(_READ_SIZE)
            except (trio.BrokenResourceError, trio.ClosedResourceError) as error:
                self.end(reason_of(error))
                return
            if not data:
                self.orderly = not self.ended.is_set()
                self.end("the broker closed the connection")
                return
            try:
                for item in self._wire.receive(bytes(data)):
                    if isinstance(item, Push):
                        self._on_push(item)
                    else:
                        item.key.finish(item.value)
            except ProtocolError as error:
                self.end(error.text)

    def end(self, reason: str) -> None:
        """It is of no more use."""
        if self.ended.is_set():
            return
        self.reason = reason
        self.ended.set()
        for pending in self.unanswered():
            if pending.local:
                pending.finish(LineBrokenError(reason))


def reason_of(error: BaseException) -> str:
    """What the system says about a connection that broke or wasn't made: Trio's own words are about what it tried."""
    cause: BaseException = error.__cause__ or error
    if isinstance(cause, ExceptionGroup):
        # One for each address of the host.
        failures: tuple[Exception, ...] = cause.exceptions
        cause = failures[0]
    return str(cause) or type(cause).__name__
