"""Deliveries on the wire: the one reply whose speed decides that of the main job."""

from __future__ import annotations

from typing import Any

from respmq.core.model import Message
from respmq.resp.writer import encode2, encode3


class _Headers(dict[int, bytes]):
    """The header of a bulk behind the end of what stands before it, by length; the common ones are made once."""

    def __missing__(self, length: int) -> bytes:
        header = b"\r\n$%d\r\n" % length
        if length < _COMMON_LENGTH:
            self[length] = header
        return header


#: Headers of bulks below this length are kept.
_COMMON_LENGTH = 1 << 14
_HEADERS = _Headers()


class _Attempts(dict[int, bytes]):
    """The attempt behind the end of the lease."""

    def __missing__(self, attempt: int) -> bytes:
        return b"\r\n:%d" % attempt


_ATTEMPTS = _Attempts((attempt, b"\r\n:%d" % attempt) for attempt in range(64))


def encode_delivery(message: Message, head: bytes = b"*5") -> bytes:
    """A delivery as `[queue, id, lease, attempt, body]`, behind `head`; the same bytes in both protocols."""
    queue, id, lease, body, headers = message.queue, message.id, message.lease or b"", message.body, _HEADERS
    # Half the time of one format string.
    return b"".join(
        (
            head,
            headers[len(queue)],
            queue,
            headers[len(id)],
            id,
            headers[len(lease)],
            lease,
            _ATTEMPTS[message.attempt],
            headers[len(body)],
            body,
            b"\r\n",
        )
    )


def encode_single_deliveries(messages: list[Message | None]) -> bytes:
    """The replies of several QLEASEs of one message each, one behind the other; None where there was no message."""
    return b"".join([b"*0\r\n" if message is None else encode_delivery(message, b"*1\r\n*5") for message in messages])


def encode_deliveries2(values: list[Any]) -> bytes:
    """The reply of QLEASE in RESP2: messages, or with FULL their descriptions."""
    if not values:
        return b"*0\r\n"
    if type(values[0]) is not Message:
        return encode2(values)
    if len(values) == 1:
        return encode_delivery(values[0], b"*1\r\n*5")
    return b"*%d\r\n" % len(values) + b"".join(map(encode_delivery, values))


def encode_deliveries3(values: list[Any]) -> bytes:
    """The reply of QLEASE in RESP3."""
    return encode3(values) if values and type(values[0]) is not Message else encode_deliveries2(values)
