"""Which segments are needed still: where each message, dead letter, queue and exchange was last written down whole.

A message's home is counted per queue and segment, so that a million of them can be purged without a look at each.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from respmq.core.model import Home

if TYPE_CHECKING:
    from respmq.core.model import Message
    from respmq.core.stock import Stock


class QueueHome(Home):
    """What one queue has in one segment: messages, dead letters, and ids that are remembered until some moment.

    `written` messages and letters were written there, `size` bytes in all; the ids take `ids_size` bytes.
    """

    __slots__ = ("ids_size", "remembered", "size", "written")

    def __init__(self, segment: int) -> None:
        super().__init__(segment)
        self.remembered = 0
        self.written = 0
        self.size = 0
        self.ids_size = 0

    def write(self, count: int, size: int) -> None:
        """Messages or letters are written, in so many bytes."""
        self.written += count
        self.size += size


class Homes:
    """All homes. `segment` is the number of the one that is written to."""

    def __init__(self) -> None:
        self.segment = 0
        #: Whether much has gone without a word for each, so that `live_size` is to be asked again.
        self.shrunk = False
        #: Of the segment that is written to, by number of the queue.
        self._now: dict[int, QueueHome] = {}
        self._by_queue: dict[int, dict[int, QueueHome]] = {}
        self._by_segment: dict[int, dict[int, QueueHome]] = {}
        #: Segment and size of the record of each queue and each exchange.
        self._queues: dict[int, tuple[int, int]] = {}
        self._exchanges: dict[bytes, tuple[int, int]] = {}

    def begin(self, segment: int) -> None:
        """Go on in another segment."""
        self.segment = segment
        self._now = {}

    def shift(self, skew: int) -> None:
        """All moments are moved, also those until which ids are remembered."""
        for homes in self._by_queue.values():
            for home in homes.values():
                if home.remembered:
                    home.remembered += skew

    def finish(self, number: int, dedupe: int) -> None:
        """A queue has been read: how long it remembers ids."""
        for home in self._by_queue.get(number, {}).values():
            if home.remembered:
                home.remembered += dedupe

    def of(self, queue: Stock) -> QueueHome:
        """Where messages of a queue are written now."""
        return self._now.get(queue.number) or self.at(queue.number, self.segment)

    def at(self, number: int, segment: int) -> QueueHome:
        """The home of a queue, by its number, in a segment."""
        homes = self._by_queue.setdefault(number, {})
        home = homes.get(segment)
        if home is None:
            home = homes[segment] = QueueHome(segment)
            self._by_segment.setdefault(segment, {})[number] = home
        if segment == self.segment:
            self._now[number] = home
        return home

    # -- messages --------------------------------------------------------------------------------------------------

    def house(self, queue: Stock, message: Message, size: int) -> QueueHome:
        """A message is written down for the first time, in `size` bytes; returns its home."""
        message.home = home = self.of(queue)
        home.live += 1
        home.write(1, size)
        return home

    def move(self, queue: Stock, message: Message, size: int) -> None:
        """A message is written down again."""
        message.home.live -= 1
        self.house(queue, message, size)

    def purge(self, queue: Stock) -> None:
        """All messages of a queue that are not leased are about to go."""
        self.shrunk = True
        for home in self._by_queue.get(queue.number, {}).values():
            home.live = 0
        for message in queue.leases:
            message.home.live += 1

    # -- dead letters ----------------------------------------------------------------------------------------------

    def house_dead(self, queue: Stock, message: Message, size: int) -> None:
        """A dead letter is written down for the first time, in `size` bytes."""
        message.home = home = self.of(queue)
        home.dead += 1
        home.write(1, size)

    def move_dead(self, queue: Stock, message: Message, size: int) -> None:
        """A dead letter is written down again."""
        message.home.dead -= 1
        self.house_dead(queue, message, size)

    def clear_dead(self, queue: Stock) -> None:
        """All dead letters of a queue are about to go."""
        self.shrunk = True
        for home in self._by_queue.get(queue.number, {}).values():
            home.dead = 0

    # -- queues and exchanges --------------------------------------------------------------------------------------

    def settle(self, number: int, size: int, segment: int | None = None) -> None:
        """A queue was written down in `size` bytes (now, or in a certain segment)."""
        self._queues[number] = (self.segment if segment is None else segment, size)

    def forget(self, number: int) -> None:
        """A queue is gone, with all that was in it."""
        self.shrunk = True
        self._queues.pop(number, None)
        self._now.pop(number, None)
        for segment in self._by_queue.pop(number, {}):
            self._by_segment[segment].pop(number, None)

    def settle_exchange(self, name: bytes, size: int, segment: int | None = None) -> None:
        """An exchange was written down in `size` bytes (now, or in a certain segment)."""
        self._exchanges[name] = (self.segment if segment is None else segment, size)

    def forget_exchange(self, name: bytes) -> None:
        """An exchange is gone."""
        self._exchanges.pop(name, None)

    # -- segments --------------------------------------------------------------------------------------------------

    def holds_queue(self, number: int, segment: int) -> bool:
        """Whether a queue was last written down in a segment."""
        return self._queues.get(number, (-1, 0))[0] == segment

    def holds_exchange(self, name: bytes, segment: int) -> bool:
        """Whether an exchange was last written down in a segment."""
        return self._exchanges.get(name, (-1, 0))[0] == segment

    def live_size(self, now: int) -> int:
        """About how many bytes would be left if only what is needed were written. It takes a look at every home."""
        self.shrunk = False
        size = sum(size for _, size in self._queues.values()) + sum(size for _, size in self._exchanges.values())
        return size + sum(_live_size(home, now) for homes in self._by_segment.values() for home in homes.values())

    def size_of(self, segment: int, now: int) -> int:
        """About how many bytes of a segment are needed."""
        records = (*self._queues.values(), *self._exchanges.values())
        size = sum(size for number, size in records if number == segment)
        return size + sum(_live_size(home, now) for home in self._by_segment.get(segment, {}).values())

    def holds_messages(self, segment: int, now: int) -> bool:
        """Whether a message, a dead letter or an id that is remembered was last written down whole in a segment."""
        homes = self._by_segment.get(segment, {}).values()
        return any(home.live or home.dead or home.remembered > now for home in homes)

    def is_needed(self, segment: int, now: int) -> bool:
        """Whether something that is to be known still is written in a segment and nowhere later."""
        return (
            self.holds_messages(segment, now)
            or any(segment == number for number, _ in self._queues.values())
            or any(segment == number for number, _ in self._exchanges.values())
        )

    def drop(self, segment: int) -> None:
        """A segment is gone."""
        for number in self._by_segment.pop(segment, {}):
            homes = self._by_queue.get(number)
            if homes is not None:
                homes.pop(segment, None)


def _live_size(home: QueueHome, now: int) -> int:
    size = home.size * (home.live + home.dead) // home.written if home.written else 0
    return size + home.ids_size if home.remembered > now else size
