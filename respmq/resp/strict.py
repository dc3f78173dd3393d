"""The exact request reader: looks at every byte, and checks every limit as soon as it sees the header that breaks it.

It is slower than the fast path in `reader.py` and takes over whatever that one doubts, a command that is cut into
several pieces, inline commands, and everything before login.
"""

from __future__ import annotations

import re

from respmq.errors import ProtocolError, quote
from respmq.resp.inline import split_inline
from respmq.resp.limits import MAX_HEADER, MAX_INLINE, Limits

_NUMBER = re.compile(rb"(?:0|-?[1-9][0-9]{0,17})")
#: A bulk header as it nearly always is.
_PLAIN_BULK = re.compile(rb"\$(0|[1-9][0-9]{0,8})\r\n")
_ARRAY = ord("*")
_BULK = ord("$")


class StrictReader:
    """Reads requests one at a time from bytes that arrive in pieces."""

    __slots__ = ("_args", "_buffer", "_bulk", "_missing", "_place", "_size", "limits")

    def __init__(self, limits: Limits) -> None:
        self.limits = limits
        self._buffer = bytearray()
        self._place = 0
        #: Arguments that are still to come; 0 between requests.
        self._missing = 0
        self._args: list[bytes] = []
        #: Length of the argument that is being read, -1 if its header is still to come.
        self._bulk = -1
        #: Bytes of the arguments read so far.
        self._size = 0

    def feed(self, data: bytes) -> None:
        """Add what arrived."""
        if self._place:
            del self._buffer[: self._place]
            self._place = 0
        self._buffer += data

    @property
    def held(self) -> int:
        """Bytes that have arrived and don't make a whole request yet."""
        return len(self._buffer) - self._place + self._size

    @property
    def in_request(self) -> bool:
        """Whether a request has begun and not ended."""
        return self._missing > 0 or self._place < len(self._buffer)

    def next_is_inline(self) -> bool:
        """Whether, between two requests, the next one that has arrived is an inline command."""
        return self._place < len(self._buffer) and self._buffer[self._place] != _ARRAY

    def take_rest(self) -> bytes:
        """Between two requests: remove and return what has arrived after the last one."""
        rest = bytes(memoryview(self._buffer)[self._place :])
        self._buffer = bytearray()
        self._place = 0
        return rest

    def next(self) -> list[bytes] | None:
        """The next request, or None if not all of it has arrived. Empty requests are skipped, as in Redis.

        Raises:
            ProtocolError: the stream can't be followed any more.
        """
        while True:
            if not self._missing:
                if self._place == len(self._buffer):
                    return None
                if self._buffer[self._place] != _ARRAY:
                    line = self._inline_line()
                    if line is None:
                        return None
                    words = split_inline(line)
                    if words:
                        return words
                    continue
                if not self._begin_array():
                    return None
                continue
            if not self._arguments():
                return None
            args, self._args = self._args, []
            self._size = 0
            return args

    def _inline_line(self) -> bytes | None:
        end = self._buffer.find(b"\n", self._place, self._place + MAX_INLINE + 1)
        if end < 0:
            if len(self._buffer) - self._place > MAX_INLINE:
                msg = "too big inline request"
                raise ProtocolError(msg)
            return None
        line = bytes(self._buffer[self._place : end])
        self._place = end + 1
        return line.removesuffix(b"\r")

    def _header(self, what: str) -> int | None:
        """The number in the header line at the current place, which begins with its type byte; None if incomplete."""
        end = self._buffer.find(b"\n", self._place, self._place + MAX_HEADER)
        line = bytes(self._buffer[self._place + 1 : self._place + MAX_HEADER if end < 0 else end])
        if end < 0:
            if len(self._buffer) - self._place >= MAX_HEADER:
                msg = f"too big {what} count string"
                raise ProtocolError(msg)
            return None
        if not line.endswith(b"\r") or _NUMBER.fullmatch(line[:-1]) is None:
            name = "multibulk" if what == "mbulk" else "bulk"
            msg = f"invalid {name} length '{quote(line.removesuffix(bytes([13])))}'"
            raise ProtocolError(msg)
        self._place = end + 1
        return int(line)

    def _begin_array(self) -> bool:
        count = self._header("mbulk")
        if count is None:
            return False
        if count > self.limits.arguments:
            if self.limits.before_login:
                msg = "unauthenticated multibulk length"
                raise ProtocolError(msg)
            msg = f"invalid multibulk length: {count} arguments, at most {self.limits.arguments} are allowed"
            raise ProtocolError(msg)
        self._missing = max(count, 0)
        return True

    def _arguments(self) -> bool:
        """Read arguments; whether the request is complete."""
        buffer = self._buffer
        while self._missing:
            if self._bulk < 0 and not self._begin_bulk():
                return False
            end = self._place + self._bulk
            if len(buffer) < end + 2:
                # A terminator that is wrong already isn't waited for.
                if len(buffer) == end + 1 and buffer[end] != 13:
                    raise self._unterminated()
                return False
            if buffer[end] != 13 or buffer[end + 1] != 10:
                raise self._unterminated()
            self._args.append(bytes(buffer[self._place : end]))
            self._place = end + 2
            self._size += self._bulk
            self._bulk = -1
            self._missing -= 1
        return True

    def _begin_bulk(self) -> bool:
        plain = _PLAIN_BULK.match(self._buffer, self._place)
        limits = self.limits
        if plain is not None and (length := int(plain[1])) <= limits.bulk and self._size + length <= limits.request:
            self._place = plain.end()
            self._bulk = length
            return True
        if self._place == len(self._buffer):
            return False
        kind = self._buffer[self._place]
        if kind != _BULK:
            msg = f"expected '$', got '{quote(bytes([kind]))}'"
            raise ProtocolError(msg)
        header = self._header("bulk")
        if header is None:
            return False
        length = header
        if length > limits.bulk and limits.before_login:
            msg = "unauthenticated bulk length"
            raise ProtocolError(msg)
        if not 0 <= length <= limits.bulk:
            msg = f"invalid bulk length: {length}, 0 to {limits.bulk} (proto-max-bulk-len) is allowed"
            raise ProtocolError(msg)
        if self._size + length > limits.request:
            msg = f"the request is above {limits.request} bytes (client-query-buffer-limit)"
            raise ProtocolError(msg)
        self._bulk = length
        return True

    def _unterminated(self) -> ProtocolError:
        return ProtocolError(f"expected CR LF after a bulk of {self._bulk} bytes")
