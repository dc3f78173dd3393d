"""The request reader: fast ways where they are certain, the strict reader everywhere else, with the same result.

1. Split. A piece that is cut at its line ends is its own parse, if every header says what stands behind it; then no
   argument contains a line end, and nothing is left to doubt.
2. hiredis, for arguments with line ends in them. It parses replies, not requests: it accepts much that is no request
   (integers, nulls, nested arrays, a wrong end of a bulk), and would reserve gigabytes for `*200000000`. So it is only
   ever given a piece that begins where a request begins, followed by a sentinel request, and what it makes of it is
   believed only if the sentinel comes out last and the line ends add up: C requests with A arguments have exactly
   C + 2A of them outside the arguments. In any other case nothing of hiredis' state is kept.
3. The strict reader takes the same bytes from the last request that is certain, and everything before login.
"""

from __future__ import annotations

import re
from itertools import chain
from typing import TYPE_CHECKING, cast

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

#: Where a piece is shorter or has no second request within so many bytes, hiredis and its guard cost more than a split.
_SHORT = 256

_SENTINEL_WORD = b"respmq-end-of-piece-\r\n\xff"
_SENTINEL = b"*1\r\n$%d\r\n%b\r\n" % (len(_SENTINEL_WORD), _SENTINEL_WORD)


def encode_request(arguments: Request) -> bytes:
    """A request as clients send it."""
    parts = [b"*%d\r\n" % len(arguments)]
    parts += [b"$%d\r\n%b\r\n" % (len(argument), argument) for argument in arguments]
    return b"".join(parts)


class _BulkHeaders(dict[int, bytes]):
    """The header of a bulk by its length; the common ones are made once."""

    def __missing__(self, length: int) -> bytes:
        header = b"$%d" % length
        if length < _COMMON_LENGTH:
            self[length] = header
        return header


#: Headers of arguments below this length are kept.
_COMMON_LENGTH = 1 << 14
_COUNTS = {b"*%d" % count: count for count in range(1, 1025)}
_BULK_HEADERS = _BulkHeaders()


#: How many line ends a request of so many words has.
_TWO_WORDS = 5
_THREE_WORDS = 7


def split_requests(piece: bytes) -> tuple[list[Request], int]:
    """The requests at the beginning of `piece` whose arguments have no line ends, and how many bytes they are."""
    parts = piece.split(b"\r\n")
    end = len(parts) - 1
    headers = _BULK_HEADERS
    # One request of two or three words and nothing else: so they come from clients that wait for each answer.
    if end == _THREE_WORDS and parts[0] == b"*3":
        _, one_header, one, two_header, two, three_header, three, rest = parts
        if (
            one_header == headers[len(one)]
            and two_header == headers[len(two)]
            and three_header == headers[len(three)]
            and not rest
        ):
            return [[one, two, three]], len(piece)
    elif end == _TWO_WORDS and parts[0] == b"*2":
        _, one_header, one, two_header, two, rest = parts
        if one_header == headers[len(one)] and two_header == headers[len(two)] and not rest:
            return [[one, two]], len(piece)
    requests: list[Request] = []
    place = 0
    while place < end:
        count = _COUNTS.get(parts[place])
        if count is None:
            break
        following = place + 2 * count + 1
        arguments = parts[place + 2 : following : 2]
        if following > end or parts[place + 1 : following : 2] != [headers[len(a)] for a in arguments]:
            break
        requests.append(arguments)
        place = following
    if place == end and not parts[end]:
        return requests, len(piece)
    return requests, sum(map(len, parts[:place])) + 2 * place


class FastParser:
    """Parses whole pieces. It keeps nothing between them, so all connections can share one."""

    __slots__ = ("_hiredis",)

    def __init__(self) -> None:
        self._hiredis = hiredis.Reader()

    def parse(self, piece: bytes) -> tuple[list[Request], int]:
        """The requests at the beginning of `piece` that are certain, and how many bytes they are."""
        requests, end = self._parse_with_hiredis(piece)
        return (requests, end) if end else split_requests(piece)

    def _parse_with_hiredis(self, piece: bytes) -> tuple[list[Request], int]:
        if _DOUBTFUL.search(piece) is not None or piece[1:7].isdigit():
            return [], 0
        reader = self._hiredis
        reader.feed(piece)
        reader.feed(_SENTINEL)
        found: list[object] = []
        try:
            found += iter(reader.gets, False)
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
        if not all(found):
            return None
        requests = cast("list[Request]", found)
        try:
            text = b"".join(chain.from_iterable(requests))
        except TypeError:
            # Something in it is no list of byte strings.
            return None
        line_ends = len(requests) + 2 * sum(map(len, requests))
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
            arguments = cast("list[object]", item)
            request = [argument for argument in arguments if isinstance(argument, bytes)]
            if len(request) < len(arguments):
                break
            encoded = encode_request(request)
            if not piece.startswith(encoded, end):
                break
            end += len(encoded)
            whole.append(request)
        return whole, end


class RequestReader:
    """Reads the requests of one connection.

    `read` what arrived, and again while there is `more`. The same bytes give the same requests and the same error,
    however they were cut.
    """

    __slots__ = ("_doubted", "_error", "_fast", "_piece", "_strict", "_strictly")

    def __init__(self, fast: FastParser, limits: Limits) -> None:
        self._fast = fast
        self._strict = StrictReader(limits)
        #: What arrived where a request begins, not parsed yet.
        self._piece = b""
        #: Whether the strict reader has the next byte: within a request, before login, after an error.
        self._strictly = limits.before_login
        #: Whether it goes on to the end of what it has, since the fast parser has doubted that already.
        self._doubted = False
        self._error: ProtocolError | None = None

    def set_limits(self, limits: Limits) -> None:
        """Change the limits, from the next request on."""
        self._strict.limits = limits
        if not self._strictly:
            self._strict.feed(self._piece)
            self._piece = b""
        self._strictly = True

    @property
    def held(self) -> int:
        """Bytes that have arrived and were not returned as requests."""
        return len(self._piece) + self._strict.held

    @property
    def more(self) -> bool:
        """Whether `read` may find more requests in what has arrived."""
        return self._strictly or bool(self._piece)

    def feed(self, data: bytes) -> None:
        """Add what arrived, for a `read` later on."""
        if self._strictly:
            self._strict.feed(data)
        else:
            self._piece += data

    def read(self, data: bytes = b"") -> list[Request]:
        """Add what arrived and return requests that have arrived in whole; empty if there are none.

        Before login they come one at a time, since each may change what the next one may be.

        Raises:
            ProtocolError: the stream can't be followed from here on; all before was returned.
        """
        if self._strictly:
            if data:
                self._strict.feed(data)
            return self._read_strictly()
        piece = self._piece + data if self._piece else data
        if not piece:
            return []
        if len(piece) < _SHORT or piece.find(b"\n*", 0, _SHORT) < 0:
            requests, end = split_requests(piece)
            if end < len(piece) and piece[end] == _ARRAY:
                requests, end = self._fast.parse(piece)
        else:
            requests, end = self._fast.parse(piece)
        self._piece = b""
        if end == len(piece):
            return requests
        self._strict.feed(piece[end:])
        self._strictly = True
        self._doubted = True
        return requests or self._read_strictly()

    def _read_strictly(self) -> list[Request]:
        """Requests by the strict reader, until the fast one can take over again.

        What the fast one has doubted it isn't shown again: every byte is parsed twice at most.
        """
        if self._error is not None:
            raise self._error
        strict = self._strict
        requests: list[Request] = []
        while True:
            try:
                request = strict.next()
            except ProtocolError as error:
                self._error = error
                if requests:
                    return requests
                raise
            if request is None:
                self._doubted = False
                if not strict.in_request and not strict.limits.before_login:
                    self._strictly = False
                return requests
            requests.append(request)
            if strict.limits.before_login:
                return requests
            if not self._doubted and not strict.next_is_inline():
                self._piece = strict.take_rest()
                self._strictly = False
                return requests


def count_replies(data: bytes) -> int:
    """How many replies there are in what a server sends; pushes of RESP3 are none."""
    reader = hiredis.Reader(notEnoughData=Ellipsis)
    reader.feed(data)
    count = 0
    while (reply := reader.gets()) is not Ellipsis:
        count += not isinstance(reply, hiredis.PushNotification)
    return count
