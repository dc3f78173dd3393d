"""Message ids and lease tokens: unique, cheap to make, and recognisable without a table of those made before.

An id is a UUIDv7 (RFC 9562) as 32 hex digits: 48 bits of milliseconds, then a counter in the places that the RFC
leaves to the maker (so that ids of one millisecond sort in the order in which they were made), then 48 random bits
that are the mark of the queue. The mark is why a queue can tell whether an id is one that it made within its DEDUPE
window, however many it made: nothing has to be remembered for generated ids.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

_HEX3 = [b"%03x" % i for i in range(4096)]
_COUNTER_LIMIT = 1 << 24
#: Where the last 12 bits of the counter and the mark begin.
_LOW_START = 17
_MARK_START = 20
_ID_LENGTH = 32


class IdMaker:
    """Makes the ids of one queue; `random_bytes(n)` gives the queue's mark."""

    __slots__ = ("_before", "_block", "_counter", "_mark", "_millis", "_random_bytes")

    def __init__(self, random_bytes: Callable[[int], bytes]) -> None:
        self._random_bytes = random_bytes
        self._mark = random_bytes(6).hex().encode()
        self._millis = -1
        self._counter = 0
        self._block = b""
        #: The greatest id of the maker before this one.
        self._before = b""

    def make(self, now: int) -> bytes:
        """A new id, greater than all before it. `now` is in milliseconds since the epoch."""
        if now > self._millis:
            self._millis = now
            self._counter = 0
            self._block = b"%012x70008" % now
        counter = self._counter
        self._counter = counter + 1
        low = counter & 4095
        if low == 0 and counter:
            # RFC 9562, 6.2: a counter that runs over borrows from the time.
            if counter == _COUNTER_LIMIT:
                self._millis += 1
                self._counter = 1
                counter = 0
            self._block = b"%012x7%03x8" % (self._millis, counter >> 12)
        return self._block + _HEX3[low] + self._mark

    def make_run(self, now: int, count: int) -> list[bytes]:
        """New ids, as `ids_from` tells them from the first: `count` of them (not 0), or what a millisecond has left."""
        first = self.make(now)
        count = min(count, _COUNTER_LIMIT - self._counter + 1)
        ids = ids_from(first, count)
        self._counter += count - 1
        self._block = ids[-1][:_LOW_START]
        return ids

    @property
    def mark(self) -> bytes:
        """What all ids end with."""
        return self._mark

    @property
    def last(self) -> bytes:
        """The greatest id made so far; empty if there is none."""
        if not self._counter:
            return self._before
        count = self._counter - 1
        return b"%012x7%03x8%03x" % (self._millis, count >> 12, count & 4095) + self._mark

    def load(self, mark: bytes, last: bytes) -> None:
        """Go on behind another maker, whose mark (empty: not known) and greatest id (empty: none) these are."""
        self._mark = mark or self._mark
        self._before = last
        self._counter = 0
        self._millis = int(last[:12], 16) if last else -1
        if last:
            # Behind all that it can have made in that millisecond.
            self._millis += 1
            self._block = b"%012x70008" % self._millis

    def made_since(self, id: bytes, since: int) -> bool:
        """Whether `id` is one that this maker made after `since`."""
        if not self._has_mark(id) or id >= self._next():
            return False
        try:
            return int(id[:12], 16) > since
        except ValueError:
            return False

    def avoid(self, id: bytes) -> bool:
        """Never make `id`, since a client has chosen it; returns whether the mark had to be changed for that.

        That it could be made means that the client has guessed: the ids made so far are no longer known then.
        """
        guessed = self._has_mark(id) and id >= self._next()
        if guessed:
            self._mark = self._random_bytes(6).hex().encode()
        return guessed

    def _has_mark(self, id: bytes) -> bool:
        return len(id) == _ID_LENGTH and id[_MARK_START:] == self._mark

    def _next(self) -> bytes:
        """What is greater than the ids made so far, and not greater than those to come."""
        millis, counter = self._millis, self._counter
        if counter == _COUNTER_LIMIT:
            millis, counter = millis + 1, 0
        return b"%012x7%03x8%03x" % (max(millis, 0), counter >> 12, counter & 4095) + self._mark


def mark_of(id: bytes) -> bytes:
    """The mark of the queue that made `id`."""
    return id[_MARK_START:]


def ids_from(first: bytes, count: int) -> list[bytes]:
    """The ids of a run.

    Raises:
        ValueError: no maker can have made `first`.
    """
    start, mark = first[:13], first[_MARK_START:]
    number = int(first[13:16] + first[_LOW_START:_MARK_START], 16)
    if number + count > _COUNTER_LIMIT:
        msg = f"a millisecond has no {count} ids from {first!r} on"
        raise ValueError(msg)
    ids: list[bytes] = []
    block = b""
    for each in range(number, number + count):
        low = each & 4095
        if not (block and low):
            block = b"%b%03x8" % (start, each >> 12)
        ids.append(block + _HEX3[low] + mark)
    return ids


class TokenMaker:
    """Makes lease tokens. The random start differs at each start of the broker, so no token is ever used twice."""

    __slots__ = ("_block", "_count", "_start")

    def __init__(self, random_bytes: Callable[[int], bytes]) -> None:
        self._start = random_bytes(6).hex().encode()
        self._count = 0
        self._block = b""

    def make(self) -> bytes:
        """A new token."""
        count = self._count
        self._count = count + 1
        low = count & 4095
        if low == 0:
            self._block = b"%b-%x" % (self._start, count >> 12)
        return self._block + _HEX3[low]


def tokens_from(first: bytes, count: int) -> list[bytes]:
    """`count` tokens as a maker makes them one after the other.

    Raises:
        ValueError: no maker can have made `first`.
    """
    start, _, digits = first.partition(b"-")
    number = int(digits, 16)
    return [b"%b-%x%03x" % (start, each >> 12, each & 4095) for each in range(number, number + count)]
