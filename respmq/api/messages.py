"""What a broker hands out: deliveries, dead letters and events.

Moments are seconds since 1970 (UTC), as `time.time()` gives them. Names, ids and headers are `str`; bytes in them that
are no UTF-8 are lone surrogates.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Self

import trio

from respmq.api.bodies import decode_body, decode_event_body
from respmq.errors import BrokerError, InvalidRequestError

if TYPE_CHECKING:
    from types import TracebackType

    from respmq.api.ports import Settler
    from respmq.core.model import Reason


#: Seconds that a cancelled program takes to give a delivery back.
_LAST_WORD = 2.0


def describe_error(error: BaseException) -> str:
    """An exception as the text of a failure: its type and what it says."""
    said = str(error)
    return f"{type(error).__name__}: {said}" if said else type(error).__name__


class _Undecoded:
    """Stands for a body that nobody has looked at yet."""


_UNDECODED = _Undecoded()


@dataclass(slots=True)
class _Decoded:
    """A body once it is decoded. Frozen objects keep it in here."""

    value: object = _UNDECODED


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredMessage:
    """What deliveries and dead letters have in common.

    Args:
        queue: where the message is.
        id: the message's id.
        attempt: which delivery this is or was, from 1; 0 if it was never handed out.
        raw: the body as bytes.
        headers: names and values.
        attachments: blobs beside the body.
        priority: the lower number goes first.
        enqueued_at: when it was put.
    """

    queue: str
    id: str
    attempt: int
    raw: bytes
    headers: Mapping[str, str] = field(default_factory=dict[str, str], hash=False)
    attachments: tuple[bytes, ...] = ()
    priority: int = 0
    enqueued_at: float = 0.0
    _decoded: _Decoded = field(default_factory=_Decoded, init=False, repr=False, compare=False)

    # Any, as for json.loads: the program knows what its bodies are like, and no checker does.
    @property
    def body(self) -> Any:
        """The body's value, decoded when it is first asked for: `str`, `bytes` or a JSON value, this reader's own.

        Raises:
            BodyDecodeError: the bytes aren't what the header `content-type` says.
        """
        if self._decoded.value is _UNDECODED:
            self._decoded.value = decode_body(self.raw, self.headers)
        return self._decoded.value


@dataclass(frozen=True, slots=True, kw_only=True)
class Delivery(StoredMessage):
    """A message that is leased: to be settled before `deadline`, else it comes back or dies.

    `async with delivery:` settles it: leaving normally acks, an exception nacks (with its text) and goes on its way,
    and a cancellation gives it back as if it had not been handed out. What was settled inside stays as it is.

    Args:
        lease: the token with which it is settled.
        deadline: when the lease ends.
        settler: where it came from and is settled. A delivery made by hand may have none.
    """

    lease: str
    deadline: float
    settler: Settler | None = field(default=None, repr=False, compare=False)

    def _settler(self) -> Settler:
        if self.settler is None:
            msg = f"the delivery of '{self.id}' was made by hand: there is no broker to settle it with"
            raise InvalidRequestError(msg)
        return self.settler

    async def ack(self) -> bool:
        """Settle it as done. False: the lease is stale.

        Raises:
            BrokerError: the queue is gone, or the broker can't be reached.
        """
        return await self._settler().ack(self.queue, self.lease)

    async def nack(
        self,
        *,
        requeue: bool = True,
        error: str | None = None,
        delay: float | None = None,
        release: bool = False,
    ) -> bool:
        """Settle it as failed, see `Settler.nack`. False: the lease is stale.

        Raises:
            BrokerError: the queue is gone, the options don't go together, or the broker can't be reached.
        """
        return await self._settler().nack(
            self.queue, self.lease, requeue=requeue, error=error, delay=delay, release=release
        )

    async def touch(self, duration: float | None = None) -> bool:
        """Renew the lease for `duration` seconds (None: the queue's `ack_timeout`) from now. False: it is stale.

        Raises:
            BrokerError: the queue is gone, or the broker can't be reached.
        """
        return await self._settler().touch(self.queue, self.lease, duration)

    async def __aenter__(self) -> Self:
        self._settler()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        if error is None:
            await self.ack()
            return
        try:
            if isinstance(error, Exception):
                await self.nack(error=describe_error(error))
            else:
                await self._last_word()
        except BrokerError as failure:
            # What went wrong inside is the news; this is only why the message will come back later.
            error.add_note(f"The delivery '{self.id}' could not be given back to '{self.queue}': {failure}")

    async def _last_word(self) -> None:
        """Give it back though the program is being cancelled."""
        if not trio.lowlevel.in_trio_run():
            # asyncio cancels once, not for ever.
            await self.nack(release=True)
            return
        with trio.move_on_after(_LAST_WORD, shield=True):
            await self.nack(release=True)


@dataclass(frozen=True, slots=True, kw_only=True)
class DeadLetter(StoredMessage):
    """A message that died.

    Args:
        reason: `max_attempts`, `rejected`, `ttl_expired` or `max_length`.
        error: the text of the failure that killed it, if there was one.
        dead_at: when it died.
    """

    reason: Reason
    error: str | None
    dead_at: float


@dataclass(frozen=True, slots=True)
class Event:
    """Something published.

    Args:
        topic: where.
        raw: the body as bytes.
        headers: as they were published; None where they don't come with the event, as over the network.
    """

    topic: str
    raw: bytes
    headers: Mapping[str, str] | None = field(default=None, hash=False)
    _decoded: _Decoded = field(default_factory=_Decoded, init=False, repr=False, compare=False)

    # Any, as in StoredMessage.
    @property
    def body(self) -> Any:
        """The body's value, decoded when it is first asked for, this reader's own.

        Topics that begin with `$sys.` carry JSON. Without headers, a JSON object or array is decoded, other UTF-8 is a
        `str`, the rest `bytes`; where the difference matters, look at `raw`.

        Raises:
            BodyDecodeError: the bytes aren't what the headers or the topic say.
        """
        if self._decoded.value is _UNDECODED:
            self._decoded.value = decode_event_body(self.raw, self.topic, self.headers)
        return self._decoded.value
