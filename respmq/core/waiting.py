"""Blocked QLEASEs: each stands in the line of every queue that it named."""

from __future__ import annotations

from typing import TYPE_CHECKING

from respmq.core.bounds import MOST_BYTES
from respmq.core.model import Description, Message, describe
from respmq.errors import QueueNotFoundError
from respmq.pending import Pending

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from respmq.core.deadlines import Deadline, Deadlines
    from respmq.core.queue import Queue
    from respmq.core.requests import Request

#: What QLEASE hands out: messages, or with FULL their descriptions.
Deliveries = list[Message] | list[Description]


def take(queues: Iterable[Queue], count: int, lease: int | None, request: Request | None) -> list[Message]:
    """Lease up to `count` messages from the queues in their order, on the account of `request`, if there is one."""
    taken: list[Message] = []
    room = MOST_BYTES
    for queue in queues:
        if queue.ready and len(taken) < count and room > 0:
            before = len(taken)
            queue.take(count - before, lease, taken)
            room -= sum(message.size for message in taken[before:])
            if request is not None:
                request.hold(queue, taken[before:])
    if request is not None and taken:
        request.granted()
    return taken


class LeaseWait(Pending[Deliveries]):
    """The answer to a blocked QLEASE."""

    __slots__ = ("waiter",)

    def __init__(self, waiter: Waiter) -> None:
        super().__init__()
        self.waiter = waiter

    def release(self) -> None:
        """Leave the line, unless a re-sent QLEASE has taken over the place in it."""
        if self.waiter.wait is self:
            self.waiter.leave()


class Waiter:
    """A place in the lines of one or several queues. `wait` is the answer that is owed to the one who stands there.

    `number` tells who has waited longer: a smaller one came first.
    """

    __slots__ = ("_deadline", "_deadlines", "count", "full", "lease", "number", "queues", "request", "wait")

    def __init__(
        self,
        number: int,
        queues: Sequence[Queue],
        count: int,
        lease: int | None,
        request: Request | None,
        deadlines: Deadlines,
    ) -> None:
        self.number = number
        self.queues = queues
        self.count = count
        self.lease = lease
        self.request = request
        self.full = False
        self._deadlines = deadlines
        self._deadline: Deadline | None = None
        self.wait = LeaseWait(self)
        if request is not None:
            request.waits(self)
        for queue in queues:
            queue.join(self)

    def set_deadline(self, deadline: Deadline | None) -> None:
        """When the wait ends without a message (None: never), in place of what was set before."""
        if self._deadline is not None:
            self._deadlines.cancel(self._deadline)
        self._deadline = deadline

    def take_over(self) -> LeaseWait:
        """Hand the place to a re-sent QLEASE: the one that stood here gets an empty answer."""
        before, self.wait = self.wait, LeaseWait(self)
        before.resolve([])
        return self.wait

    def serve(self) -> None:
        """Take what one of the queues has ready, and end the wait with it."""
        taken = take(self.queues, self.count, self.lease, self.request)
        if taken:
            self.wait.resolve([describe(message) for message in taken] if self.full else taken)

    def queue_deleted(self, queue: Queue) -> None:
        """One of the queues is gone: the wait ends, even if it is for others too."""
        self.wait.resolve(QueueNotFoundError.named(queue.name))

    def due(self) -> None:
        """The wait is over."""
        self.wait.resolve([])

    def leave(self) -> None:
        """Give up the place in every line."""
        for queue in self.queues:
            queue.takers.pop(self, None)
        self.set_deadline(None)
        if self.request is not None and self.request.waiter is self:
            self.request.gave_up()
