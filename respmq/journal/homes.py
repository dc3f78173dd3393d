"""Which segments are needed still: where each message, dead letter, queue and exchange was last written down whole.

A message's home is counted per queue and segment, so that a million of them can be purged without a look at each.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable

    from respmq.core.model import DeadLetter, Message
    from respmq.core.model import Home as AnyHome
    from respmq.core.stock import Stock

#: About what the records of a message take beside its body, headers and attachments.
RECORDS_SIZE = 128


class Home:
    """What one queue has in one segment: messages, dead letters, and ids that are remembered until some moment."""

    __slots__ = ("dead", "live", "remembered", "segment")

    def __init__(self, segment: int) -> None:
        self.segment = segment
        self.live = 0
        self.dead = 0
        self.remembered = 0


class Homes:
    """All homes. `segment` is the number of the one that is written to, `live_bytes` what a journal needs at least."""

    def __init__(self) -> None:
        self.segment = 0
        self.live_bytes = 0
        #: Of the segment that is written to, by number of the queue.
        self._now: dict[int, Home] = {}
        self._by_queue: dict[int, dict[int, Home]] = {}
        self._by_segment: dict[int, dict[int, Home]] = {}
        self._queues: dict[int, int] = {}
        self._exchanges: dict[bytes, int] = {}

    def begin(self, segment: int) -> None:
        """Go on in another segment."""
        self.segment = segment
        self._now = {}

    def finish(self, number: int, dedupe: int, size: int, count: int) -> None:
        """A queue has been read: how long it remembers ids, and the bytes of its messages and dead letters."""
        self.live_bytes += size + count * RECORDS_SIZE
        for home in self._by_queue.get(number, {}).values():
            if home.remembered:
                home.remembered += dedupe

    def of(self, queue: Stock) -> Home:
        """Where messages of a queue are written now."""
        return self._now.get(queue.number) or self.at(queue.number, self.segment)

    def at(self, number: int, segment: int) -> Home:
        """The home of a queue, by its number, in a segment."""
        homes = self._by_queue.setdefault(number, {})
        home = homes.get(segment)
        if home is None:
            home = homes[segment] = Home(segment)
            self._by_segment.setdefault(segment, {})[number] = home
        if segment == self.segment:
            self._now[number] = home
        return home

    # -- messages --------------------------------------------------------------------------------------------------

    def house(self, queue: Stock, message: Message, *, remembered: int = 0) -> None:
        """A message was written down; its id is remembered until a moment (0: it isn't)."""
        message.home = home = self.of(queue)
        home.live += 1
        home.remembered = max(home.remembered, remembered)
        self.live_bytes += message.size + RECORDS_SIZE

    def move(self, queue: Stock, message: Message) -> None:
        """A message was written down again."""
        message.home.live -= 1
        message.home = home = self.of(queue)
        home.live += 1

    def leave(self, messages: Iterable[Message]) -> None:
        """Messages are about to go for good."""
        gone = 0
        for message in messages:
            message.home.live -= 1
            gone += len(message.body) + RECORDS_SIZE
            if message.extra is not None:
                gone += message.extra.size
        self.live_bytes -= gone

    def purge(self, queue: Stock) -> None:
        """All messages of a queue that are not leased are about to go."""
        for home in self._by_queue.get(queue.number, {}).values():
            home.live = 0
        kept = 0
        for message in queue.leases:
            message.home.live += 1
            kept += message.size
        gone = queue.ready + queue.delayed
        self.live_bytes -= queue.bytes - kept + gone * RECORDS_SIZE

    # -- dead letters ----------------------------------------------------------------------------------------------

    def die(self, message: Message) -> None:
        """A message has become a dead letter."""
        message.home.live -= 1
        message.home.dead += 1

    def move_dead(self, queue: Stock, message: Message) -> None:
        """A dead letter was written down again."""
        message.home.dead -= 1
        message.home = home = self.of(queue)
        home.dead += 1

    def bury(self, letters: Iterable[DeadLetter]) -> None:
        """Dead letters are gone."""
        for letter in letters:
            letter.message.home.dead -= 1
            self.live_bytes -= letter.message.size + RECORDS_SIZE

    def clear_dead(self, queue: Stock) -> None:
        """All dead letters of a queue are about to go."""
        for home in self._by_queue.get(queue.number, {}).values():
            home.dead = 0
        self.live_bytes -= queue.dead.size + len(queue.dead) * RECORDS_SIZE

    def revive(self, home: AnyHome) -> None:
        """A dead letter has become a message again."""
        home.dead -= 1
        home.live += 1

    # -- queues and exchanges --------------------------------------------------------------------------------------

    def settle(self, number: int, segment: int | None = None) -> None:
        """A queue was written down (now, or in a certain segment)."""
        self._queues[number] = self.segment if segment is None else segment

    def forget(self, queue: Stock) -> None:
        """A queue is about to go, with all that is in it."""
        messages = len(queue.live) + len(queue.dead)
        self.live_bytes -= queue.bytes + queue.dead.size + messages * RECORDS_SIZE
        self.forget_number(queue.number)

    def forget_number(self, number: int) -> None:
        """A queue is gone."""
        self._queues.pop(number, None)
        self._now.pop(number, None)
        for segment in self._by_queue.pop(number, {}):
            self._by_segment[segment].pop(number, None)

    def settle_exchange(self, name: bytes, segment: int | None = None) -> None:
        """An exchange was written down (now, or in a certain segment)."""
        self._exchanges[name] = self.segment if segment is None else segment

    def forget_exchange(self, name: bytes) -> None:
        """An exchange is gone."""
        self._exchanges.pop(name, None)

    # -- segments --------------------------------------------------------------------------------------------------

    def holds_queue(self, number: int, segment: int) -> bool:
        """Whether a queue was last written down in a segment."""
        return self._queues.get(number) == segment

    def holds_exchange(self, name: bytes, segment: int) -> bool:
        """Whether an exchange was last written down in a segment."""
        return self._exchanges.get(name) == segment

    def is_needed(self, segment: int, now: int) -> bool:
        """Whether something that is to be known still is written in a segment and nowhere later."""
        homes = self._by_segment.get(segment, {}).values()
        return (
            any(home.live or home.dead or home.remembered > now for home in homes)
            or segment in self._queues.values()
            or segment in self._exchanges.values()
        )

    def drop(self, segment: int) -> None:
        """A segment is gone."""
        for number in self._by_segment.pop(segment, {}):
            homes = self._by_queue.get(number)
            if homes is not None:
                homes.pop(segment, None)
