"""The one structure of deadlines: a heap whose cancelled entries don't pile up.

Whatever falls due at the same moment falls due in order of rank, then in the order in which it was set: queues come
before waiters, so that a message that becomes ready at the very moment at which a wait ends still reaches the waiter.
"""

from __future__ import annotations

from heapq import heapify, heappop, heappush
from typing import Protocol

#: Ranks of what may be due at the same moment.
QUEUE_RANK = 0
WAITER_RANK = 1

_SWEEP_FROM = 64


class Due(Protocol):
    """Something that has a deadline."""

    def due(self) -> None:
        """Called once when the deadline has passed."""


class Deadline:
    """An entry; `target` is None once it was cancelled or has fallen due."""

    __slots__ = ("target", "when")

    def __init__(self, when: int, target: Due) -> None:
        self.when = when
        self.target: Due | None = target


class Deadlines:
    """All deadlines of a broker, in milliseconds of its time."""

    __slots__ = ("_cancelled", "_count", "_heap")

    def __init__(self) -> None:
        self._heap: list[tuple[int, int, int, Deadline]] = []
        self._count = 0
        self._cancelled = 0

    def __len__(self) -> int:
        """How many deadlines are set."""
        return len(self._heap) - self._cancelled

    def set(self, when: int, rank: int, target: Due) -> Deadline:
        """Set a deadline and return the entry, by which it can be cancelled."""
        self._count += 1
        deadline = Deadline(when, target)
        heappush(self._heap, (when, rank, self._count, deadline))
        return deadline

    def cancel(self, deadline: Deadline) -> None:
        """Take a deadline back; one that has passed or was taken back is left alone."""
        if deadline.target is None:
            return
        deadline.target = None
        self._cancelled += 1
        if self._cancelled > _SWEEP_FROM and self._cancelled * 2 > len(self._heap):
            self._heap = [entry for entry in self._heap if entry[3].target is not None]
            heapify(self._heap)
            self._cancelled = 0

    def next(self) -> int | None:
        """The moment of the next deadline, or None."""
        heap = self._heap
        while heap and heap[0][3].target is None:
            heappop(heap)
            self._cancelled -= 1
        return heap[0][0] if heap else None

    def next_rank(self) -> int:
        """The rank of the deadline of which `next` has just told the moment."""
        return self._heap[0][1]

    def pop_due(self, now: int) -> Due | None:
        """Remove the first deadline that has passed at `now` and return its target, or None."""
        when = self.next()
        if when is None or when > now:
            return None
        deadline = heappop(self._heap)[3]
        target, deadline.target = deadline.target, None
        return target

    def take_due(self, rank: int, now: int) -> list[Due]:
        """Remove the deadlines of one rank that have passed at `now`, and return their targets in order.

        It looks at every deadline there is.
        """
        targets: list[Due] = []
        for _, _, _, deadline in sorted(entry for entry in self._heap if entry[0] <= now and entry[1] == rank):
            if deadline.target is not None:
                targets.append(deadline.target)
                self.cancel(deadline)
        return targets


#: Later than any moment.
_NEVER = 1 << 62


class Alarm:
    """The one deadline of something that has many moments to be called at: the earliest of those it was armed for."""

    __slots__ = ("_deadline", "_deadlines", "_target", "at")

    def __init__(self, deadlines: Deadlines, target: Due) -> None:
        self._deadlines = deadlines
        self._target: Due | None = target
        self.at = _NEVER
        self._deadline: Deadline | None = None

    def arm(self, when: int) -> None:
        """Make sure that the target is called at `when` or before."""
        if when < self.at and self._target is not None:
            self.disarm()
            self.at = when
            self._deadline = self._deadlines.set(when, QUEUE_RANK, self._target)

    def disarm(self) -> None:
        """Forget the moment: it has come, or nothing is to be called any more."""
        if self._deadline is not None:
            self._deadlines.cancel(self._deadline)
            self._deadline = None
        self.at = _NEVER

    def close(self) -> None:
        """Nothing is to be called ever again; the target is let go, which may have the alarm."""
        self.disarm()
        self._target = None
