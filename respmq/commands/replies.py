"""What commands answer: a shape for the docs and the encoders for both protocols."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from respmq.commands.deliveries import encode_deliveries2, encode_deliveries3
from respmq.resp.writer import OK as OK_LINE
from respmq.resp.writer import (
    encode2,
    encode3,
    encode_array,
    encode_bulk,
    encode_ids,
    encode_integer,
    encode_push,
)

if TYPE_CHECKING:
    from collections.abc import Callable


@dataclass(frozen=True)
class Reply:
    """A reply: `shape` in the words of the docs, and how it is written in RESP2 and RESP3."""

    shape: str
    encode2: Callable[[Any], bytes] = encode2
    encode3: Callable[[Any], bytes] = encode3

    def saying(self, shape: str) -> Reply:
        """The same encoding under another description."""
        return Reply(shape, self.encode2, self.encode3)


def _nothing(_value: None) -> bytes:
    return b""


def _ok(_value: None) -> bytes:
    return OK_LINE


def _bulk_or_null2(value: bytes | None) -> bytes:
    return b"$-1\r\n" if value is None else encode_bulk(value)


def _bulk_or_null3(value: bytes | None) -> bytes:
    return b"_\r\n" if value is None else encode_bulk(value)


def _id_array(ids: list[bytes]) -> bytes:
    return b"*%d\r\n" % len(ids) + encode_ids(ids)


def _bulks(values: list[bytes]) -> bytes:
    return b"*%d\r\n" % len(values) + b"".join(map(encode_bulk, values))


def _frames2(frames: list[Any]) -> bytes:
    return b"".join(map(encode_array, frames))


def _frames3(frames: list[Any]) -> bytes:
    return b"".join(map(encode_push, frames))


def _raw(reply: bytes) -> bytes:
    return reply


OK = Reply("`OK`", _ok, _ok)
INTEGER = Reply("integer", encode_integer, encode_integer)
BULK = Reply("bulk string", encode_bulk, encode_bulk)
BULK_OR_NULL = Reply("bulk string or null", _bulk_or_null2, _bulk_or_null3)
IDS = Reply("array of the messages' ids", _id_array, _id_array)
BULKS = Reply("array of bulk strings", _bulks, _bulks)
DELIVERIES = Reply("array of deliveries", encode_deliveries2, encode_deliveries3)
MAP = Reply("map")
MAP_OR_NULL = Reply("map or null")
MAPS = Reply("array of maps")
ANY = Reply("see below")
STATUS = Reply("simple string")
LINES = Reply("array of simple strings")
VERBATIM = Reply("verbatim string; bulk string in RESP2")
FRAMES = Reply("one push for each name; array in RESP2", _frames2, _frames3)
#: For a reply that is made of others' replies, encoded already.
REPLIES = Reply("array of the replies", _raw, _raw)
NOTHING = Reply("nothing", _nothing, _nothing)
