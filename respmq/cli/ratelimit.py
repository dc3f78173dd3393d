"""A limit on repeated log lines: clients can cause the same event in a loop, and a log must not fill the disk."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable


@dataclass(slots=True)
class _Window:
    """The present interval of one event."""

    ends: float
    admitted: int = 0
    left_out: int = 0


class RateLimiter:
    """Admits at most `limit` events of the same name in `interval` seconds and counts the others.

    Args:
        limit: how many are admitted.
        interval: counted from the first one that is admitted.
        clock: seconds, never going back.
    """

    def __init__(self, limit: int, interval: float, clock: Callable[[], float]) -> None:
        self._limit = limit
        self._interval = interval
        self._clock = clock
        self._windows: dict[str, _Window] = {}

    def admit(self, event: str) -> bool:
        """Whether `event` may be logged now. Call `take_left_out` before."""
        window = self._windows.get(event)
        if window is None:
            window = self._windows[event] = _Window(self._clock() + self._interval)
        if window.admitted < self._limit:
            window.admitted += 1
            return True
        window.left_out += 1
        return False

    def take_left_out(self, *, all: bool = False) -> list[tuple[str, int]]:
        """The events that were left out in intervals that are over (or in all), each with how many they were."""
        now = self._clock()
        over = [event for event, window in self._windows.items() if all or window.ends <= now]
        taken = [(event, self._windows.pop(event).left_out) for event in over]
        return [(event, count) for event, count in taken if count]
