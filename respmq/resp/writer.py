"""Answers to bytes, in RESP2 and RESP3."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from respmq.errors import BrokerError
from respmq.resp.values import ItemSet, Status, Statuses, Verbatim

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from respmq.resp.values import Answer


OK = b"+OK\r\n"


class _Integers(dict[int, bytes]):
    """Integers as they are written; the common ones are made once."""

    def __missing__(self, value: int) -> bytes:
        return b":%d\r\n" % value


#: An integer.
encode_integer: Callable[[int], bytes] = _Integers((i, b":%d\r\n" % i) for i in range(1024)).__getitem__


def encode_bulk(value: bytes) -> bytes:
    """A bulk string."""
    return b"$%d\r\n%b\r\n" % (len(value), value)


def encode_ids(ids: list[bytes]) -> bytes:
    """Bulk strings of 32 bytes, as the ids are that the broker makes, one behind the other."""
    return b"$32\r\n" + b"\r\n$32\r\n".join(ids) + b"\r\n"


def encode_flags(values: list[int]) -> bytes:
    """Integers that are 0 or 1, one behind the other."""
    return b":1\r\n" * len(values) if all(values) else b"".join(map(encode_integer, values))


def encode_error(error: BrokerError) -> bytes:
    """An error line."""
    return b"-%b\r\n" % error.line()


def encode_array(values: Sequence[Answer]) -> bytes:
    """An array in RESP2."""
    return b"*%d\r\n" % len(values) + _join(values, resp3=False)


def encode_push(values: Sequence[Answer]) -> bytes:
    """A push, RESP3 only: something that answers no request."""
    return b">%d\r\n" % len(values) + _join(values, resp3=True)


def encode2(value: Answer) -> bytes:
    """Any answer in RESP2."""
    return _encode(value, resp3=False)


def encode3(value: Answer) -> bytes:
    """Any answer in RESP3."""
    return _encode(value, resp3=True)


def _encode(value: Answer, *, resp3: bool) -> bytes:
    match value:
        case bytes():
            return encode_bulk(value)
        case None:
            return b"_\r\n" if resp3 else b"$-1\r\n"
        case bool():
            return (b"#t\r\n" if value else b"#f\r\n") if resp3 else encode_integer(int(value))
        case int():
            return encode_integer(value)
        case float():
            text = f"{value:.17g}" if value != round(value, 6) else f"{value:.6f}".rstrip("0").rstrip(".")
            return f",{text}\r\n".encode() if resp3 else encode_bulk(text.encode())
        case Status():
            return f"+{value}\r\n".encode()
        case Verbatim():
            data = value.encode()
            return b"=%d\r\ntxt:%b\r\n" % (len(data) + 4, data) if resp3 else encode_bulk(data)
        case str():
            return encode_bulk(value.encode())
        case BrokerError():
            return encode_error(value)
        case Statuses():
            head = b"~%d\r\n" if resp3 else b"*%d\r\n"
            return head % len(value) + b"".join(f"+{item}\r\n".encode() for item in value)
        case ItemSet():
            head = b"~%d\r\n" if resp3 else b"*%d\r\n"
            return head % len(value) + _join(value, resp3=resp3)
        case Mapping():
            head = b"%%%d\r\n" % len(value) if resp3 else b"*%d\r\n" % (2 * len(value))
            return head + _join((item for pair in value.items() for item in pair), resp3=resp3)
        case Sequence():
            return b"*%d\r\n" % len(value) + _join(value, resp3=resp3)


def _join(values: Iterable[Answer], *, resp3: bool) -> bytes:
    return b"".join([_encode(value, resp3=resp3) for value in values])
