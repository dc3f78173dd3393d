"""The bytes of one connection, without the connection: requests to bytes, bytes to replies and pushes."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass
from typing import Generic, TypeVar, cast

import hiredis

from respmq.errors import ProtocolError, error_from_line
from respmq.resp.reader import encode_request

K = TypeVar("K")

#: What the reader returns as long as a reply isn't complete.
_NOT_ALL = object()

#: Pushes that are the reply to a command: SUBSCRIBE and its relatives have no other.
_CONFIRMATIONS = frozenset({b"subscribe", b"unsubscribe", b"psubscribe", b"punsubscribe"})


@dataclass(frozen=True, slots=True)
class Reply(Generic[K]):
    """The reply to a request.

    Args:
        key: what `Wire.send` was given with the request.
        value: bytes, int, float, bool, None, list or dict of such, or a BrokerError.
    """

    key: K
    value: object


@dataclass(frozen=True, slots=True)
class Push:
    """What came unasked: the word that says what it is, and the rest."""

    kind: bytes
    items: list[object]


class Wire(Generic[K]):
    """One RESP3 connection. Replies come in the order of the requests, so each finds its key."""

    def __init__(self) -> None:
        self._reader = hiredis.Reader(replyError=error_from_line, notEnoughData=_NOT_ALL)
        self._unanswered: deque[K] = deque()

    def send(self, words: tuple[bytes, ...], key: K) -> bytes:
        """The bytes of a request, to be sent before those of the next one."""
        self._unanswered.append(key)
        return encode_request(list(words))

    def unanswered(self) -> list[K]:
        """The keys of the requests that have no reply yet, in their order."""
        return list(self._unanswered)

    def receive(self, data: bytes) -> list[Reply[K] | Push]:
        """What has become complete with these bytes.

        Raises:
            ProtocolError: the bytes are no RESP, or a reply came that nobody waits for. The connection can't be used
                any more.
        """
        self._reader.feed(data)
        found: list[Reply[K] | Push] = []
        try:
            while (value := cast("object", self._reader.gets())) is not _NOT_ALL:
                found.append(self._sort(value))
        except hiredis.ProtocolError as error:
            raise ProtocolError(str(error)) from error
        return found

    def _sort(self, value: object) -> Reply[K] | Push:
        if isinstance(value, hiredis.PushNotification):
            kind, *items = cast("list[object]", value)
            if not isinstance(kind, bytes):
                msg = f"a push begins with a word, not with {kind!r:.100}"
                raise ProtocolError(msg)
            if kind not in _CONFIRMATIONS:
                return Push(kind, items)
            value = [kind, *items]
        if not self._unanswered:
            msg = f"a reply came that nobody asked for: {value!r:.100}"
            raise ProtocolError(msg)
        return Reply(self._unanswered.popleft(), value)
