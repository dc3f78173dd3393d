"""The ready messages of one queue, in the order in which they are handed out.

Each priority has a first-in-first-out line and, before it, the messages that were taken from its head and came back to
where they stood. Those all stood before whatever is still in the line, so only their order among themselves matters.
"""

from __future__ import annotations

from collections import deque
from heapq import heapify, heappop, heappush
from itertools import chain
from typing import TYPE_CHECKING

from respmq.core.lazyheap import walk
from respmq.core.model import READY

if TYPE_CHECKING:
    from collections.abc import Iterator

    from respmq.core.hub import Container
    from respmq.core.model import Message

_SWEEP_FROM = 64
#: How many messages are looked at with each one that goes, while a sweep goes on.
_SWEEP_AT_ONCE = 8


#: Stand for containers that a level doesn't have yet, and are never changed.
_NO_MESSAGES: deque[Message] = deque()
_NONE_RETURNED: list[tuple[int, bytes, Message]] = []


class Level:
    """The messages of one priority. `stale` counts those in it that are no longer ready.

    `returned` stand before `only`, that before `swept`, those before `fifo`. Once most are stale, `fifo` is moved to
    `swept` a few at a time, without the stale ones: one look at a million of them would stop everybody.

    A level that has only ever had one message has no containers: priorities may be as many as messages (moments, say).
    """

    __slots__ = ("fifo", "only", "returned", "stale", "sweeping", "swept")

    def __init__(self) -> None:
        self.fifo: deque[Message] = _NO_MESSAGES
        self.swept: deque[Message] = _NO_MESSAGES
        self.only: Message | None = None
        self.returned = _NONE_RETURNED
        self.stale = 0
        self.sweeping = False

    def append(self, message: Message) -> None:
        """Put a message at the back."""
        if self.fifo is not _NO_MESSAGES:
            self.fifo.append(message)
        elif self.only is None:
            self.only = message
        else:
            self.fifo = deque((self.only, message))
            self.only = None

    def give_back(self, message: Message) -> None:
        """Put a message that was popped back to where it stood."""
        if self.returned is _NONE_RETURNED:
            self.returned = []
        # By their ids, if two have one order: it is no work of a broker, but may be in an old journal.
        heappush(self.returned, (message.order, message.id, message))

    def pop(self) -> Message | None:
        """Take the first message, ready or not; None if there is none."""
        if self.returned:
            return heappop(self.returned)[2]
        only = self.only
        if only is not None:
            self.only = None
            return only
        line = self.swept or self.fifo
        return line.popleft() if line else None

    @property
    def empty(self) -> bool:
        """Whether there is no message in it, not even a stale one."""
        return not (self.fifo or self.returned or self.swept or self.only)

    def discard_one(self) -> None:
        """One of the messages is no longer ready."""
        self.stale += 1
        if self.only is not None and self.only.state != READY:
            self.only = None
            self.stale -= 1
        while self.returned and self.returned[0][2].state != READY:
            heappop(self.returned)
            self.stale -= 1
        head = self.swept or self.fifo
        while head and head[0].state != READY:
            head.popleft()
            self.stale -= 1
        if self.sweeping:
            self._sweep()
        elif self.stale > _SWEEP_FROM and self.stale * 2 > len(self.fifo) + len(self.swept) + len(self.returned):
            self.swept = deque()
            self.sweeping = True

    def _sweep(self) -> None:
        fifo = self.fifo
        for _ in range(_SWEEP_AT_ONCE):
            if not fifo:
                self.fifo, self.swept = self.swept, _NO_MESSAGES
                self.sweeping = False
                return
            message = fifo.popleft()
            if message.state == READY:
                self.swept.append(message)
            else:
                self.stale -= 1

    def __iter__(self) -> Iterator[Message]:
        """All messages in order, those that are no longer ready among them."""
        for _, _, message in walk(self.returned):
            yield message
        if self.only is not None:
            yield self.only
        yield from self.swept
        yield from self.fifo


class Line:
    """All priorities of a queue, lowest number first."""

    __slots__ = ("_levels", "_priorities")

    def __init__(self) -> None:
        self._levels: dict[int, Level] = {}
        self._priorities: list[int] = []

    def append(self, message: Message) -> None:
        """Put a message at the back of its priority."""
        level = self._levels.get(message.priority)
        if level is None:
            level = self._open(message.priority)
        if level.fifo is _NO_MESSAGES:
            level.append(message)
        else:
            level.fifo.append(message)

    def give_back(self, message: Message) -> None:
        """Put a message that was popped back to where it stood."""
        level = self._levels.get(message.priority) or self._open(message.priority)
        level.give_back(message)

    def pop(self) -> Message | None:
        """Take the next message, or None."""
        priorities = self._priorities
        while priorities:
            level = self._levels.get(priorities[0])
            if level is None:
                heappop(priorities)
                continue
            while True:
                message = level.pop() if level.returned or level.swept or not level.fifo else level.fifo.popleft()
                if message is None:
                    break
                if message.state == READY:
                    return message
                level.stale -= 1
            if len(self._levels) == 1:
                # Kept: a queue that is mostly empty would otherwise make a new level for each message.
                return None
            del self._levels[heappop(priorities)]
        return None

    def discard(self, priority: int) -> None:
        """Note that a message of this priority is no longer ready; it is dropped when it is met or in a sweep."""
        level = self._levels[priority]
        level.discard_one()
        if level.empty and len(self._levels) > 1:
            del self._levels[priority]
            if len(self._priorities) > 2 * len(self._levels) + _SWEEP_FROM:
                self._priorities = list(self._levels)
                heapify(self._priorities)

    def __iter__(self) -> Iterator[Message]:
        """The ready messages in the order in which they will be handed out."""
        for priority in sorted(self._levels):
            yield from (message for message in self._levels[priority] if message.state == READY)

    def oldest(self) -> Message | None:
        """The message that has been ready for the longest, or None."""
        best: Message | None = None
        for level in self._levels.values():
            head = level.only
            if head is None or head.state != READY:
                head = next((m for m in chain(level.swept, level.fifo) if m.state == READY), None)
            for message in (head, *(m for _, _, m in level.returned if m.state == READY)):
                if message is not None and (best is None or message.since < best.since):
                    best = message
        return best

    def clear(self) -> None:
        """Forget all messages. Those that are leased now stand before all that come later, as they did."""
        self._levels = {}
        self._priorities = []

    def containers(self) -> list[Container]:
        """What holds the messages, for freeing them."""
        parts: list[Container] = [part for level in self._levels.values() for part in (level.fifo, level.swept)]
        return [*parts, *(level.returned for level in self._levels.values()), self._levels]

    def _open(self, priority: int) -> Level:
        level = Level()
        if not self._levels:
            # The first one is likely to be the only one, and to be used over and over.
            level.fifo = deque()
        self._levels[priority] = level
        heappush(self._priorities, priority)
        return level
