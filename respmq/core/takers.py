"""Those who take what becomes ready: they stand in a queue's line, and the one at the head is served first."""

from __future__ import annotations

from heapq import heappop, heappush
from typing import TYPE_CHECKING, Protocol

from respmq.core.queue import Queue

if TYPE_CHECKING:
    from respmq.core.hub import Agenda


class Taker(Protocol):
    """Somebody in a line. `number` tells who has waited longer, on whichever queue: a smaller one came first."""

    number: int

    def serve(self) -> None:
        """Take from a queue that has something ready; leave the line, or go to its end."""

    def queue_deleted(self, queue: Queue) -> None:
        """The queue is gone."""


def serve_lines(agenda: Agenda, most: int) -> int:
    """Serve the lines of the queues on the agenda until nothing is ready or nobody waits, or `most` were served.

    Whoever has waited longest is served first, even if the lines of several queues have somebody to serve. Returns how
    many were served; the queues that are left stay on the agenda.
    """
    heads: list[tuple[int, int, Queue]] = []
    pushed = served = 0
    while agenda or heads:
        if served >= most:
            agenda.update(dict.fromkeys(queue for _, _, queue in heads))
            break
        while agenda:
            queue, _ = agenda.popitem(last=False)
            if isinstance(queue, Queue) and queue.ready and queue.takers:
                pushed += 1
                heappush(heads, (next(iter(queue.takers)).number, pushed, queue))
        if not heads:
            break
        number, _, queue = heappop(heads)
        if not (queue.ready and queue.takers):
            continue
        # Looked at again afterwards: more may be ready, or somebody else at its head.
        agenda[queue] = None
        taker = next(iter(queue.takers))
        if taker.number == number:
            served += 1
            taker.serve()
    return served
