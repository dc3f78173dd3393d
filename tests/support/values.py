"""What a RESP2 or RESP3 reply can be, every wire type told apart from every other.

Bulk strings are `bytes`, integers `int` and arrays `list`; everything else has a type of its own here, so that
`+OK` never compares equal to a bulk `OK`, nor the null of RESP2 to the one of RESP3.
"""

from __future__ import annotations

import enum
from dataclasses import dataclass
from typing import TypeAlias

Arg: TypeAlias = "bytes | str | int"


@dataclass(frozen=True, slots=True)
class Simple:
    """A simple string, `+OK`."""

    text: bytes


@dataclass(frozen=True, slots=True)
class Error:
    """An error reply, `-ERR what is wrong`."""

    text: bytes

    @property
    def code(self) -> bytes:
        """Its first word."""
        return self.text.split(b" ", 1)[0]


class Null(enum.Enum):
    """The three spellings of nothing."""

    BULK = b"$-1\r\n"
    ARRAY = b"*-1\r\n"
    RESP3 = b"_\r\n"


@dataclass(frozen=True, slots=True)
class Double:
    """A RESP3 double, as it was written."""

    text: bytes


@dataclass(frozen=True, slots=True)
class Bool:
    """A RESP3 boolean."""

    value: bool


@dataclass(frozen=True, slots=True)
class BigNumber:
    """A RESP3 big number, as it was written."""

    text: bytes


@dataclass(frozen=True, slots=True)
class Verbatim:
    """A RESP3 verbatim string."""

    kind: bytes
    data: bytes


@dataclass(frozen=True, slots=True)
class Map:
    """A RESP3 map, its pairs in the order in which they came."""

    pairs: tuple[tuple[Value, Value], ...]


@dataclass(frozen=True, slots=True)
class SetReply:
    """A RESP3 set."""

    items: tuple[Value, ...]


@dataclass(frozen=True, slots=True)
class Push:
    """A RESP3 push frame."""

    items: tuple[Value, ...]


Value: TypeAlias = (
    "Simple | Error | Null | Double | Bool | BigNumber | Verbatim | Map | SetReply | Push | bytes | int | list[Value]"
)

OK = Simple(b"OK")
PONG = Simple(b"PONG")
NULLS = frozenset(Null)


def encode(*args: Arg) -> bytes:
    """One command as an array of bulk strings."""
    parts = [b"*%d\r\n" % len(args)]
    for arg in args:
        data = arg if isinstance(arg, bytes) else str(arg).encode()
        parts.append(b"$%d\r\n%b\r\n" % (len(data), data))
    return b"".join(parts)


def as_dict(reply: Value) -> dict[bytes, Value]:
    """A map of either protocol (RESP3: a map, RESP2: a flat array) whose keys are strings."""
    if isinstance(reply, Map):
        pairs = list(reply.pairs)
    elif isinstance(reply, list):
        assert len(reply) % 2 == 0, f"a flat map has an even length: {reply!r}"
        pairs = list(zip(reply[::2], reply[1::2], strict=True))
    else:
        raise AssertionError(f"expected a map: {reply!r}")
    result: dict[bytes, Value] = {}
    for key, value in pairs:
        name = key.text if isinstance(key, Simple) else key
        assert isinstance(name, bytes), f"a map's key is a string: {key!r}"
        assert name not in result, f"a map names each key once: {name!r}"
        result[name] = value
    return result


def as_list(reply: Value) -> list[Value]:
    """The reply, which must be an array."""
    assert isinstance(reply, list), f"expected an array: {reply!r}"
    return reply


def as_int(reply: Value) -> int:
    """The reply, which must be an integer."""
    assert isinstance(reply, int), f"expected an integer: {reply!r}"
    return reply


def as_bytes(reply: Value) -> bytes:
    """The reply, which must be a bulk string."""
    assert isinstance(reply, bytes), f"expected a bulk string: {reply!r}"
    return reply
