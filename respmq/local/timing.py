"""The time of a broker in the program's own process: Trio's clock, as milliseconds since the epoch."""

from __future__ import annotations

import math
import time

import trio

#: What a float may have lost on the way: far less than a millisecond, far more than its last digit.
_TOLERANCE = 1e-3


class TrioTime:
    """Trio's clock, which may be a mock, from the wall clock's time at the start on."""

    def __init__(self) -> None:
        self._start = trio.current_time()
        self._epoch = int(time.time() * 1000)

    def now(self) -> int:
        """Milliseconds since the epoch."""
        return self._epoch + math.floor((trio.current_time() - self._start) * 1000 + _TOLERANCE)

    def deadline(self, moment: int | None) -> float:
        """A moment of the broker as a deadline of Trio; None is never."""
        return math.inf if moment is None else self._start + (moment - self._epoch) / 1000
