"""Keeps the journal small while it is written: the oldest segment goes as soon as nothing in it is needed.

If little in it is, and the journal has grown too large, that little is written down again, in steps so small that
nobody notices: one old message can't pin the disk. Segments go from the oldest on and in no other way, so that what a
record speaks of stands before it or was written down again behind it.
"""

from __future__ import annotations

import json
from functools import partial
from typing import TYPE_CHECKING

from respmq.core.ids import ids_from
from respmq.core.model import READY
from respmq.core.requests import Request
from respmq.journal import format as fmt
from respmq.journal.decoder import decode_ids, decode_plain_ids
from respmq.journal.format import Kind
from respmq.journal.segment import Segment, segment_path

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from respmq.core.exchanges import Exchange
    from respmq.core.model import Message
    from respmq.core.stock import Stock
    from respmq.journal.journal import Journal

#: How many records are looked at in one step.
_RECORDS_AT_ONCE = 200
#: How much of what is live the journal may be before it is compacted.
_GROWTH = 1.5
#: The same on a full disk.
_LEAST_GROWTH = 1.1
#: After how many milliseconds what is live is found out again, though nothing seems to have happened.
_LOOK_EVERY = 5_000
#: Above how many times of that there is more done at a time, and how much more.
_HURRY = 1.1
_FAST = 8


class Compactor:
    """Compacts a journal.

    Args:
        journal: the journal.
        segment_size: about how large its segments become, in bytes.
        queues: all queues by name.
        exchange: the exchange with a name, if it is there, and its bindings as pairs of queue number and key.
        exchange_names: the names of all exchanges.
        describe: writes down what belongs to no queue, with the number of the first segment that is needed.
    """

    def __init__(
        self,
        journal: Journal,
        segment_size: int,
        queues: Mapping[bytes, Stock],
        exchange: Callable[[bytes], tuple[Exchange, list[tuple[int, bytes]]] | None],
        exchange_names: Callable[[], list[bytes]],
        describe: Callable[[int], None],
    ) -> None:
        self._journal = journal
        self._segment_size = segment_size
        self._queues = queues
        #: Those that were there when a segment began to be emptied: what is newer has nothing in it.
        self._by_number: dict[int, Stock] = {}
        self._exchange = exchange
        self._exchange_names = exchange_names
        self._describe = describe
        self._steps: Iterator[None] | None = None
        #: Those that were written down again while the segment is emptied.
        self._requests: set[Request] = set()
        self._reading = False
        #: The segment that is being emptied, and those that are being deleted.
        self._emptied = 0
        self._dropping: set[int] = set()
        #: How many segments were deleted so far; those below `_through` are to be, whatever is in them.
        self.dropped = 0
        self._through = 0
        #: How large the journal was when `_live_size` was found out, and when that was, by the broker's time.
        self._total = self._live_size = self._looked_at = 0
        #: Bytes that were written again; what `_foreign` and `_live_size` were when the last round began (None: there
        #: was none).
        self._carried = 0
        self._mark: int | None = None
        self._live_at_mark = 0
        #: The segment that was written to when this round began.
        self._end: int | None = None
        self._pace = 1

    @property
    def busy(self) -> bool:
        """Whether a segment is on its way out."""
        return self._reading or self._steps is not None or bool(self._dropping)

    @property
    def running(self) -> bool:
        """Whether a segment is being emptied, so that `step` has something to do."""
        return self._steps is not None

    @property
    def live_size(self) -> int:
        """About how many bytes the journal would have if only what is needed were written, as last found out."""
        return self._live_size

    def compact_all(self) -> None:
        """Empty all segments there are now but the one that is written to."""
        self._through = max(self._journal.sizes)

    def look(self, now: int) -> None:
        """See whether there is something to do, at the broker's time; now and then."""
        journal = self._journal
        while not (self._reading or self._steps is not None or journal.waiting or journal.failure):
            old = [number for number in sorted(journal.sizes)[:-1] if number not in self._dropping]
            if not old:
                return
            oldest = old[0]
            if not journal.homes.is_needed(oldest, now):
                self._drop(oldest, now)
                continue
            large = self._is_too_large(now)
            if journal.full:
                # There may be room for what is little, which may be all that keeps a segment there.
                large = large and 2 * journal.homes.size_of(oldest, now) < journal.space
            if self._end is not None and oldest >= self._end:
                # All that there was has been written again.
                self._end = None
            large = large and (self._end is not None or self._is_worth_it())
            if not large and oldest >= self._through:
                self._end = None
                return
            if self._end is None:
                self._end = max(journal.sizes)
                self._mark = self._foreign
                self._live_at_mark = self._live_size
            if journal.homes.holds_messages(oldest, now):
                self._reading = True
                path = segment_path(journal.folder, oldest)
                journal.read(partial(Segment, path, oldest), self._begin)
            else:
                # As with messages that come and go: nothing in it has to be looked for.
                self._emptied = oldest
                self._steps = self._carry_descriptions(oldest)
            return

    def _is_too_large(self, now: int) -> bool:
        total = sum(size for number, size in self._journal.sizes.items() if number not in self._dropping)
        grown = abs(total - self._total) > self._segment_size // 4
        if self._journal.homes.shrunk or grown or now >= self._looked_at + _LOOK_EVERY:
            # It takes a look at everything, so not each time.
            self._total = total
            self._looked_at = now
            self._live_size = self._journal.homes.live_size(now)
        growth = _LEAST_GROWTH if self._journal.full else _GROWTH
        limit = growth * self._live_size + self._segment_size
        self._pace = 1 if total < _HURRY * limit else _FAST
        return total > limit

    @property
    def _foreign(self) -> int:
        """How many bytes were written so far that were not written again."""
        return self._journal.written_size - self._carried

    def _is_worth_it(self) -> bool:
        """Whether the journal can be smaller than the last round has left it: else rounds would have no end."""
        if self._mark is None:
            return True
        news = self._foreign - self._mark
        return news > min(self._segment_size // 2, self._total // 10) or self._live_size < 0.9 * self._live_at_mark

    def step(self, now: int) -> None:
        """Do a little, at the broker's time."""
        if self._steps is None or self._journal.waiting or self._journal.failure:
            return
        for _ in range(self._pace):
            before = self._journal.told
            try:
                next(self._steps)
                self._carried += self._journal.told - before
            except StopIteration:
                self._carried += self._journal.told - before
                self._steps = None
                self._drop(self._emptied, now)
                self.look(now)
                return

    def _begin(self, segment: Segment) -> None:
        self._reading = False
        self._by_number = {queue.number: queue for queue in self._queues.values()}
        self._emptied = segment.number
        self._steps = self._carry(segment)

    def _drop(self, number: int, now: int) -> None:
        # Behind a repair there may be none with the next number.
        self._describe(min(each for each in self._journal.sizes if each > number))
        # What was written down again, and that the segment isn't needed, has to be there before it goes.
        self._journal.commit(now)
        if self._journal.waiting or self._journal.failure:
            return
        self._dropping.add(number)

        def dropped() -> None:
            self._dropping.discard(number)
            self.dropped += 1

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
        if segment.damage is not None:
            self._journal.warn(f"a part of the journal can't be read any more, and is written again: {segment.damage}")
            yield from self._carry_from_memory(segment.number)

    def _carry_from_memory(self, segment: int) -> Iterator[None]:
        """Write down again all that has its home in a segment, without reading it."""
        yield from self._carry_descriptions(segment)
        for queue in list(self._queues.values()):
            self._remember(queue, queue.window.ids())
            yield
            ids = [*queue.live, *(letter.message.id for letter in queue.dead)]
            for place, id in enumerate(dict.fromkeys(ids)):
                if self._is_there(queue):
                    self._carry_message(queue, id, segment)
                if place % _RECORDS_AT_ONCE == 0:
                    yield

    def _carry_descriptions(self, segment: int) -> Iterator[None]:
        """Write down again the queues and exchanges whose home is a segment."""
        for name in self._exchange_names():
            self._carry_exchange(name, segment)
        yield
        for place, queue in enumerate(list(self._queues.values())):
            if self._journal.homes.holds_queue(queue.number, segment) and self._is_there(queue):
                self._journal.encoder.declared(queue)
            if place % _RECORDS_AT_ONCE == 0:
                yield

    def _look_at(self, kind: int, number: int, payload: bytes, segment: int) -> int:
        """Write down again what a record is the home of; returns about how much there was to look at."""
        journal = self._journal
        if kind == Kind.EXCHANGE:
            self._carry_exchange(json.loads(payload)["name"].encode("latin-1"), segment)
            return 1
        queue = self._by_number.get(number)
        if queue is None or not self._is_there(queue):
            return 1
        if kind == Kind.PUT:
            count: int = fmt.PUT.unpack_from(payload)[-1]
            return self._carry_plain(queue, decode_plain_ids(payload, fmt.PUT.size + 4 * count, count), segment)
        if kind == Kind.PUT_AGAIN:
            count = fmt.PUT_AGAIN.unpack_from(payload)[0]
            return self._carry_plain(queue, decode_plain_ids(payload, fmt.PUT_AGAIN.size + 20 * count, count), segment)
        if kind == Kind.PUT_RUN:
            *_, count, first = fmt.PUT_RUN.unpack_from(payload)
            return self._carry_plain(queue, ids_from(first, count), segment)
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

    def _carry_plain(self, queue: Stock, ids: list[bytes], segment: int) -> int:
        """Write down again what is left of messages that were put without options; returns how many they were."""
        untouched: list[Message] = []
        for id in ids:
            message = queue.live.get(id)
            if message is not None and message.home.segment == segment and _is_untouched(message):
                untouched.append(message)
            else:
                self._carry_message(queue, id, segment)
        if untouched:
            self._journal.encoder.carried_plain(queue, untouched)
        return len(ids)

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
            if isinstance(holder, Request) and holder not in self._requests and self._is_there(holder.queue):
                # It was written down behind the message, and may stand in a segment that is needed for nothing else.
                self._requests.add(holder)
                self._journal.encoder.requested(holder.queue, holder)
        for letter in queue.dead.all_of(id):
            if letter.message.home.segment == segment:
                self._journal.encoder.letter(queue, letter)

    def _is_there(self, queue: Stock) -> bool:
        """Whether a queue was not deleted meanwhile, or before a request of it whose other leases go on."""
        return self._queues.get(queue.name) is queue

    def _remember(self, queue: Stock, ids: list[bytes]) -> None:
        window = [(id, put) for id in ids if (put := queue.window.put_at(id))]
        if window:
            self._journal.encoder.remembered(queue, window)

    def _carry_exchange(self, name: bytes, segment: int) -> None:
        found = self._exchange(name)
        if found is not None and self._journal.homes.holds_exchange(name, segment):
            exchange, bindings = found
            self._journal.encoder.exchange(name, exchange, bindings)


def _is_untouched(message: Message) -> bool:
    """Whether a message that was put without options is as it was then."""
    return (
        message.state == READY
        # Its id may have been made for another message, and chosen again for this one.
        and not message.priority
        and not message.attempt
        and message.since == message.enqueued_at
        and not message.expires_at
        and message.extra is None
    )
