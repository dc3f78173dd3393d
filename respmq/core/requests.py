"""REQID: what makes a re-sent QLEASE safe. The key lasts as long as the leases that it took."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from respmq.core.model import Message
    from respmq.core.queue import Queue
    from respmq.core.waiting import Waiter

#: The user and the key that the client chose.
RequestKey = tuple[bytes, bytes]


class Request:
    """One QLEASE with a REQID: waiting (`waiter`), or holding the messages that it took and that are still leased.

    It stands in the book of `queue`, the first one that was named, under its key from `waits` or `granted` on, until
    neither is the case any more.
    """

    __slots__ = ("_copies", "_held", "key", "queue", "waiter")

    def __init__(self, queue: Queue, key: RequestKey) -> None:
        self.queue = queue
        self.key = key
        #: By token, each message with the number of its queue.
        self._held: dict[bytes, tuple[int, Message]] = {}
        #: How many answers beside the first one have a lease.
        self._copies: Counter[bytes] = Counter()
        self.waiter: Waiter | None = None

    def waits(self, waiter: Waiter) -> None:
        """Remember who waits."""
        self.waiter = waiter
        self.queue.requests[self.key] = self

    def hold(self, queue: Queue, messages: list[Message]) -> None:
        """Keep account of leases from one of the queues."""
        for message in messages:
            if message.lease is not None:
                self._held[message.lease] = (queue.number, message)
                queue.leases.holders[message.lease] = self

    def granted(self) -> None:
        """The wait, if there was one, has ended with what is held."""
        self.waiter = None
        self.queue.requests[self.key] = self
        self._forget_if_over()
        self.queue.record_request(self)

    def repeated(self) -> list[Message]:
        """What was handed out and is still leased, for one more answer."""
        self._copies.update(list(self._held))
        return [message for _, message in self._held.values()]

    def keeps(self, token: bytes) -> bool:
        """Whether another answer has the lease, too."""
        kept = self._copies[token] > 0
        self._copies[token] -= kept
        return kept

    def held(self) -> list[tuple[int, Message]]:
        """The messages that are still leased, each with the number of its queue."""
        return list(self._held.values())

    def ended(self, token: bytes) -> None:
        """A lease ended; with the last one the key is forgotten."""
        self._held.pop(token, None)
        self._copies.pop(token, None)
        self._forget_if_over()

    def gave_up(self) -> None:
        """The wait ended without a message."""
        self.waiter = None
        self._forget_if_over()

    def _forget_if_over(self) -> None:
        if not self._held and self.waiter is None and self.queue.requests.get(self.key) is self:
            del self.queue.requests[self.key]
