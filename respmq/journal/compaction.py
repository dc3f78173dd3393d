"""Keeps the journal small while it is written: the oldest segment goes as soon as nothing in it is needed.

If little in it is, and the journal has grown too large, that little is written down again, in steps so small that
nobody notices: one old message can't pin the disk. Segments go from the oldest on and in no other way, so that what a
record speaks of stands before it or was written down again behind it.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from respmq.core.requests import Request
from respmq.journal import format as fmt
from respmq.journal.format import Kind
from respmq.journal.replay import decode_ids
from respmq.journal.segment import Segment, segment_path

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from respmq.core.exchanges import Exchange
    from respmq.core.stock import Stock
    from respmq.journal.journal import Journal

#: How many records are looked at in one step.
_RECORDS_AT_ONCE = 200
#: How much of what is live the journal may be before it is compacted.
_GROWTH = 1.5


class Compactor:
    """Compacts a journal.

    Args:
        journal: the journal.
        segment_size: about how large its segments become, in bytes.
        queues: all queues by name.
        exchange: the exchange with a name, if it is there, and its bindings as pairs of queue number and key.
        describe: writes down what belongs to no queue, with the number of the first segment that is needed.
    """

    def __init__(
        self,
        journal: Journal,
        segment_size: int,
        queues: Mapping[bytes, Stock],
        exchange: Callable[[bytes], tuple[Exchange, list[tuple[int, bytes]]] | None],
        describe: Callable[[int], None],
    ) -> None:
        self._journal = journal
        self._segment_size = segment_size
        self._queues = queues
        #: Those that were there when a segment began to be emptied: what is newer has nothing in it.
        self._by_number: dict[int, Stock] = {}
        self._exchange = exchange
        self._describe = describe
        self._steps: Iterator[None] | None = None
        #: Those that were written down again while the segment is emptied.
        self._requests: set[Request] = set()
        self._busy = False
        #: How many segments were deleted so far, and whether all old ones are to be.
        self.dropped = 0
        self._through = 0

    @property
    def busy(self) -> bool:
        """Whether a segment is on its way out."""
        return self._busy

    @property
    def running(self) -> bool:
        """Whether a segment is being emptied, so that `step` has something to do."""
        return self._steps is not None

    def compact_all(self) -> None:
        """Empty all segments there are now but the one that is written to."""
        self._through = max(self._journal.sizes)

    def look(self, now: int) -> None:
        """See whether there is something to do, at the broker's time; now and then."""
        journal = self._journal
        if self._busy or journal.stuck or len(journal.sizes) < 2:
            return
        oldest = min(journal.sizes)
        if not journal.homes.is_needed(oldest, now):
            self._drop(oldest, now)
            return
        total = sum(journal.sizes.values())
        if oldest < self._through or total > _GROWTH * journal.homes.live_bytes + self._segment_size:
            self._busy = True
            path = segment_path(journal.folder, oldest)
            journal.read(lambda: Segment(path, oldest), self._begin)

    def step(self, now: int) -> None:
        """Do a little, at the broker's time."""
        if self._steps is None or self._journal.stuck:
            return
        for _ in self._steps:
            return
        self._steps = None
        oldest = min(self._journal.sizes)
        self._drop(oldest, now)

    def _begin(self, segment: Segment) -> None:
        self._by_number = {queue.number: queue for queue in self._queues.values()}
        self._steps = self._carry(segment)

    def _drop(self, number: int, now: int) -> None:
        self._describe(number + 1)
        # What was written down again, and that the segment isn't needed, has to be there before it goes.
        self._journal.commit(now)
        self._busy = not self._journal.stuck
        if not self._busy:
            return

        def dropped() -> None:
            self._busy = False
            self.dropped += 1
            self.look(now)

        self._journal.drop(number, dropped)

    # -- writing down again ----------------------------------------------------------------------------------------

    def _carry(self, segment: Segment) -> Iterator[None]:
        """Write down again what is needed of a segment."""
        self._requests.clear()
        looked = 0
        head = fmt.RECORD_HEAD
        for batch in segment.batches():
            records = batch.records
            at = 0
            while at < len(records):
                kind, size, number = head.unpack_from(records, at)
                at += head.size
                looked += self._look_at(kind, number, records[at : at + size], segment.number)
                at += size
                if looked >= _RECORDS_AT_ONCE:
                    looked = 0
                    yield

    def _look_at(self, kind: int, number: int, payload: bytes, segment: int) -> int:
        """Write down again what a record is the home of; returns about how much there was to look at."""
        journal = self._journal
        if kind == Kind.EXCHANGE:
            self._carry_exchange(json.loads(payload)["name"].encode("latin-1"), segment)
            return 1
        queue = self._by_number.get(number)
        if queue is None or self._queues.get(queue.name) is not queue:
            return 1
        if kind == Kind.PUT:
            count: int = fmt.PUT.unpack_from(payload)[-1]
            at = fmt.PUT.size + 4 * count
            for place in range(at, at + count * fmt.ID_SIZE, fmt.ID_SIZE):
                self._carry_message(queue, payload[place : place + fmt.ID_SIZE], segment)
            return count
        if kind == Kind.MESSAGE:
            self._carry_stored(queue, payload, 0, segment)
        elif kind == Kind.LETTER:
            size = fmt.LETTER.unpack_from(payload)[-1]
            self._carry_stored(queue, payload, fmt.LETTER.size + size, segment)
        elif kind == Kind.QUEUE and journal.homes.holds_queue(number, segment):
            journal.encoder.declared(queue)
        elif kind == Kind.REMEMBERED:
            count = fmt.REMEMBERED.unpack_from(payload)[0]
            self._remember(queue, decode_ids(payload, fmt.REMEMBERED.size + 8 * count, count))
            return count
        return 1

    def _carry_stored(self, queue: Stock, payload: bytes, at: int, segment: int) -> None:
        flags, *_, id_size, lease_size, headers, attachments = fmt.MESSAGE.unpack_from(payload, at)
        del lease_size
        at += fmt.MESSAGE.size + 4 * (1 + 2 * headers + attachments)
        id = payload[at : at + id_size]
        self._carry_message(queue, id, segment)
        if flags & fmt.CHOSEN:
            self._remember(queue, [id])

    def _carry_message(self, queue: Stock, id: bytes, segment: int) -> None:
        message = queue.live.get(id)
        if message is not None and message.home.segment == segment:
            self._journal.encoder.carried(queue, message)
            holder = None if message.lease is None else queue.leases.holders.get(message.lease)
            if isinstance(holder, Request) and holder not in self._requests:
                # It was written down behind the message, and may stand in a segment that is needed for nothing else.
                self._requests.add(holder)
                self._journal.encoder.requested(holder.queue, holder)
        for letter in queue.dead.all_of(id):
            if letter.message.home.segment == segment:
                self._journal.encoder.letter(queue, letter)

    def _remember(self, queue: Stock, ids: list[bytes]) -> None:
        window = [(id, put) for id in ids if (put := queue.window.put_at(id))]
        if window:
            self._journal.encoder.remembered(queue, window)

    def _carry_exchange(self, name: bytes, segment: int) -> None:
        found = self._exchange(name)
        if found is not None and self._journal.homes.holds_exchange(name, segment):
            exchange, bindings = found
            self._journal.encoder.exchange(name, exchange, bindings)
