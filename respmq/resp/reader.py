"""The request reader: hiredis where that is safe, the strict reader everywhere else, with the same result.

hiredis parses replies, not requests. It accepts much that is no request (integers, nulls, nested arrays, a wrong end of
a bulk), and would reserve gigabytes for `*200000000`. So it is only ever given a piece that begins where a request
begins, followed by a sentinel request, and what it makes of it is believed only if the sentinel comes out last and the
line ends add up: C requests with A arguments have exactly C + 2A of them outside the arguments. In any other case
nothing of hiredis' state is kept, and the strict reader takes the same bytes from the last request that is certain.
"""

from __future__ import annotations

import re
from itertools import chain
from typing import TYPE_CHECKING

import hiredis

from respmq.errors import ProtocolError
from respmq.resp.strict import StrictReader

if TYPE_CHECKING:
    from respmq.resp.limits import Limits

Request = list[bytes]

_ARRAY = ord("*")

#: What hiredis must not see: long counts (it would reserve the memory), and what it would show as bytes or as a list
#: though it is a verbatim string, a map, a set, a push or an attribute. (A body may begin like that, too: no harm.)
_DOUBTFUL = re.compile(rb"\n(?:\*\d{6}|[=%~>|])")

_SENTINEL_WORD = b"respmq-end-of-piece-\r\n\xff"
_SENTINEL = b"*1\r\n$%d\r\n%b\r\n" % (len(_SENTINEL_WORD), _SENTINEL_WORD)


def encode_request(arguments: Request) -> bytes:
    """A request as clients send it."""
    parts = [b"*%d\r\n" % len(arguments)]
    parts += [b"$%d\r\n%b\r\n" % (len(argument), argument) for argument in arguments]
    return b"".join(parts)


class FastParser:
    """Parses whole pieces with hiredis. It keeps nothing between pieces, so all connections can share one."""

    __slots__ = ("_hiredis",)

    def __init__(self) -> None:
        self._hiredis = hiredis.Reader()

    def parse(self, piece: bytes) -> tuple[list[Request], int]:
        """The requests at the beginning of `piece`, which begins with `*`, that are certain; and how many bytes they are."""
        if _DOUBTFUL.search(piece) is not None or piece[1:7].isdigit():
            return [], 0
        reader = self._hiredis
        reader.feed(piece)
        reader.feed(_SENTINEL)
        gets = reader.gets
        found: list[object] = []
        try:
            while (item := gets()) is not False:
                found.append(item)
        except (hiredis.ProtocolError, TypeError):
            # TypeError: a map or set of what cannot be hashed.
            self._hiredis = hiredis.Reader()
        else:
            if found and found[-1] == [_SENTINEL_WORD]:
                found.pop()
                requests = self._certain(found, piece)
                return ([], 0) if requests is None else (requests, len(piece))
            self._hiredis = hiredis.Reader()
        return self._whole(found, piece)

    def _certain(self, found: list[object], piece: bytes) -> list[Request] | None:
        """`found` as requests, if it is exactly what `piece` says."""
        requests: list[Request] = []
        arguments = 0
        for item in found:
            if type(item) is not list or not item:
                return None
            requests.append(item)
            arguments += len(item)
        try:
            text = b"".join(chain.from_iterable(requests))
        except TypeError:
            # Something in it is no byte string.
            return None
        line_ends = len(requests) + 2 * arguments
        if b"\r" in text:
            for argument in chain.from_iterable(requests):
                if argument.endswith(b"\r"):
                    return None
                line_ends += argument.count(b"\r\n")
        return requests if piece.count(b"\r\n") == line_ends else None

    def _whole(self, found: list[object], piece: bytes) -> tuple[list[Request], int]:
        """Of a piece that ends within a request or has a fault in it: what stands before that, byte for byte."""
        end = 0
        whole: list[Request] = []
        for item in found:
            if type(item) is not list or not item:
                break
            request: Request = item
            if not all(type(argument) is bytes for argument in request):
                break
            encoded = encode_request(request)
            if not piece.startswith(encoded, end):
                break
            end += len(encoded)
            whole.append(request)
        return whole, end


class RequestReader:
    """Reads the requests of one connection.

    `feed` what arrived, then call `read` until it returns nothing. The same bytes give the same requests and the same
    error, however they were cut.
    """

    __slots__ = ("_doubted", "_error", "_fast", "_piece", "_strict")

    def __init__(self, fast: FastParser, limits: Limits) -> None:
        self._fast = fast
        self._strict = StrictReader(limits)
        #: What arrived where a request begins, not parsed yet.
        self._piece = b""
        self._doubted = False
        self._error: ProtocolError | None = None

    def set_limits(self, limits: Limits) -> None:
        """Change the limits, from the next request on."""
        self._strict.limits = limits

    @property
    def held(self) -> int:
        """Bytes that have arrived and were not returned as requests."""
        return len(self._piece) + self._strict.held

    def feed(self, data: bytes) -> None:
        """Add what arrived."""
        if self._piece or self._strict.in_request:
            if self._piece:
                self._strict.feed(self._piece)
                self._piece = b""
            self._strict.feed(data)
        else:
            self._piece = data

    def read(self) -> list[Request]:
        """Requests that have arrived in whole; empty if there are none.

        Before login they come one at a time, since each may change what the next one may be.

        Raises:
            ProtocolError: the stream can't be followed from here on; all before was returned.
        """
        if self._error is not None:
            raise self._error
        strict = self._strict
        if strict.limits.before_login:
            if self._piece:
                strict.feed(self._piece)
                self._piece = b""
            request = self._next()
            return [] if request is None else [request]
        if not self._piece and strict.in_request:
            return self._read_strict()
        piece, self._piece = self._piece, b""
        if not piece:
            return []
        if piece[0] == _ARRAY:
            requests, end = self._fast.parse(piece)
            if end == len(piece):
                return requests
            strict.feed(piece[end:] if end else piece)
            self._doubted = True
            return requests or self._read_strict()
        strict.feed(piece)
        return self._read_strict()

    def _read_strict(self) -> list[Request]:
        """Requests by the strict reader, until the fast one can take over again.

        What the fast one has doubted it isn't shown again: every byte is parsed twice at most.
        """
        strict = self._strict
        requests: list[Request] = []
        once = True
        while once or self._doubted or strict.next_is_inline():
            once = False
            try:
                request = strict.next()
            except ProtocolError as error:
                self._error = error
                if requests:
                    return requests
                raise
            if request is None:
                self._doubted = False
                return requests
            requests.append(request)
        self._piece = strict.take_rest()
        return requests

    def _next(self) -> Request | None:
        try:
            return self._strict.next()
        except ProtocolError as error:
            self._error = error
            raise
