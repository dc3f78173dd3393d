"""RESP2 and RESP3 as a client sees them: requests out, replies in, with nothing guessed and nothing repaired."""

from dataclasses import dataclass, field
from typing import Any

AGGREGATES = frozenset("*~>%|")
NULL = "_"
_CONTROLS = {"\r": "\\r", "\n": "\\n", "\t": "\\t", "\0": "\\0"}


class Incomplete(Exception):
    """The buffer ends before the reply does."""


class BadReply(Exception):
    """Bytes that are no reply in either protocol."""


@dataclass(frozen=True)
class Reply:
    """One reply: its RESP type byte, its value, and its bytes as they came.

    ``value`` is bytes for ``+ - $ = ( ,``, an int for ``:``, a bool for ``#``, a list for ``* ~ >``, a list of
    pairs for ``%`` and None for every kind of null, whose ``kind`` is always ``_`` (``raw`` tells which it was).
    """

    kind: str
    value: Any
    raw: bytes = field(default=b"", compare=False, repr=False)


def encode_command(arguments: list[bytes]) -> bytes:
    """A command as clients send it: an array of bulk strings."""
    parts = [b"*%d\r\n" % len(arguments)]
    for argument in arguments:
        parts.append(b"$%d\r\n" % len(argument))
        parts.append(argument)
        parts.append(b"\r\n")
    return b"".join(parts)


def parse_reply(data: bytes | bytearray, at: int = 0) -> tuple[Reply, int]:
    """The reply that begins at ``at``, and where the next one begins."""
    start = at
    end = data.find(b"\r\n", at)
    if end < 0:
        if len(data) - at > 65536:
            raise BadReply(f"a line of more than 64 KiB: {bytes(data[at : at + 60])!r}...")
        raise Incomplete
    kind = chr(data[at]) if end > at else ""
    line = bytes(data[at + 1 : end])
    at = end + 2
    value: Any
    if kind in ("+", "-", "(", ","):
        value = line
    elif kind == ":":
        value = _integer(line)
    elif kind == "#":
        value = line == b"t"
        if line not in (b"t", b"f"):
            raise BadReply(f"a boolean that reads {line!r}")
    elif kind == NULL:
        if line:
            raise BadReply(f"a null that reads {line!r}")
        value = None
    elif kind in ("$", "=", "!"):
        length = _integer(line)
        if length == -1 and kind == "$":
            kind, value = NULL, None
        else:
            value, at = _bulk(data, at, length)
    elif kind in AGGREGATES:
        length = _integer(line)
        if length == -1 and kind == "*":
            kind, value = NULL, None
        else:
            value, at = _items(data, at, length * (2 if kind in "%|" else 1))
            if kind in "%|":
                value = list(zip(value[::2], value[1::2], strict=True))
    else:
        raise BadReply(f"a reply that begins with {bytes(data[start : start + 40])!r}")
    return Reply(kind, value, bytes(data[start:at])), at


def _integer(line: bytes) -> int:
    digits = line[1:] if line[:1] == b"-" else line
    if not digits.isdigit():
        raise BadReply(f"a number that reads {line[:40]!r}")
    return int(line)


def _bulk(data: bytes | bytearray, at: int, length: int) -> tuple[bytes, int]:
    if length < 0:
        raise BadReply(f"a bulk of length {length}")
    if len(data) < at + length + 2:
        raise Incomplete
    if data[at + length : at + length + 2] != b"\r\n":
        raise BadReply("a bulk that isn't followed by CR LF")
    return bytes(data[at : at + length]), at + length + 2


def _items(data: bytes | bytearray, at: int, count: int) -> tuple[list[Reply], int]:
    if count < 0:
        raise BadReply(f"an aggregate of length {count}")
    items: list[Reply] = []
    for _ in range(count):
        item, at = parse_reply(data, at)
        items.append(item)
    return items, at


def show(reply: Reply, limit: int = 600) -> str:
    """A reply for people: strings with their type byte, aggregates in brackets."""
    text = _show(reply)
    return text if len(text) <= limit else text[:limit] + f"... ({len(text)} characters)"


def _show(reply: Reply) -> str:
    value = reply.value
    if reply.kind == NULL:
        return f"null ({reply.raw.decode().strip()})"
    if reply.kind in "%|":
        return reply.kind + "{" + ", ".join(f"{_show(key)}: {_show(item)}" for key, item in value) + "}"
    if reply.kind in AGGREGATES:
        opening = "" if reply.kind == "*" else reply.kind
        return opening + "[" + ", ".join(_show(item) for item in value) + "]"
    if isinstance(value, bytes):
        return reply.kind + show_bytes(value)
    return f"{reply.kind}{value}"


def show_bytes(data: bytes, limit: int = 300) -> str:
    """Bytes as the vectors would write them."""
    text = data[:limit].decode("utf-8", "backslashreplace")
    text = "".join(char if char.isprintable() else _CONTROLS.get(char, f"\\x{ord(char):02x}") for char in text)
    return text if len(data) <= limit else text + f"... ({len(data)} bytes)"
