"""Push consumers: messages are handed to them as long as fewer than PREFETCH are unsettled."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from respmq.core.model import describe

if TYPE_CHECKING:
    from collections.abc import Callable

    from respmq.core.model import Description, Message
    from respmq.core.queue import Queue

#: What a lease is given back with when its consumer goes.
REMOVED = b"consumer removed"


class Sink(Protocol):
    """Where the messages of a consumer go."""

    def deliver(self, consumer: Consumer, delivery: Message | Description) -> None:
        """A message was leased to the consumer; with FULL it comes as its description."""

    def cancelled(self, consumer: Consumer, reason: str) -> None:
        """The consumer was removed though nobody asked for it."""


class Consumer:
    """A consumer of one queue. While it has room it stands in the queue's line; served, it goes to the end.

    `tag` is unique among all consumers of the broker. While it is `held` nothing is delivered to it, room or not.
    """

    __slots__ = ("_next_number", "_sink", "_unsettled", "full", "held", "number", "prefetch", "queue", "tag")

    def __init__(
        self, tag: bytes, queue: Queue, prefetch: int, sink: Sink, next_number: Callable[[], int], *, full: bool
    ) -> None:
        self.tag = tag
        self.queue = queue
        self.prefetch = prefetch
        self.full = full
        self.held = False
        self.number = 0
        self._sink = sink
        self._next_number = next_number
        #: Tokens of the leases that it holds, in the order in which they were handed out.
        self._unsettled: dict[bytes, None] = {}
        queue.consumers[self] = None
        self._join()

    def serve(self) -> None:
        """Take one message, and go to the end of the line, or out of it if there is no room for another."""
        queue = self.queue
        taken: list[Message] = []
        queue.take(1, None, taken)
        if not taken:
            return
        message = taken[0]
        token = message.lease
        if token is not None:
            self._unsettled[token] = None
            queue.leases.holders[token] = self
        del queue.takers[self]
        if len(self._unsettled) < self.prefetch:
            self._join()
        self._sink.deliver(self, describe(message) if self.full else message)

    def ended(self, token: bytes) -> None:
        """A lease that it held is over: there is room again."""
        self._unsettled.pop(token, None)
        if self in self.queue.consumers and self not in self.queue.takers and not self.held:
            self._join()

    def hold(self) -> None:
        """Leave the line: what it was sent has to be taken first. Its leases stay, and their time runs."""
        self.held = True
        self.queue.takers.pop(self, None)

    def go_on(self) -> None:
        """Stand at the end of the line again, if there is room."""
        self.held = False
        if self not in self.queue.takers and len(self._unsettled) < self.prefetch:
            self._join()

    def keeps(self, token: bytes) -> bool:
        """No: what a consumer gets is sent once."""
        del token
        return False

    def queue_deleted(self, queue: Queue) -> None:
        """The queue is gone."""
        self._leave()
        self._unsettled.clear()
        self._sink.cancelled(self, f"queue '{queue.name.decode()}' was deleted")

    def remove(self) -> int:
        """Give back all leases, as failures; returns how many there were. Of very many, the last ones take a while."""
        self._leave()
        tokens = list(self._unsettled)
        self.queue.fail_many(tokens, REMOVED)
        return len(tokens)

    def _join(self) -> None:
        self.number = self._next_number()
        self.queue.join(self)

    def _leave(self) -> None:
        del self.queue.consumers[self]
        self.queue.takers.pop(self, None)
