"""Records to an image. Nothing here asks a clock, draws a number or does what a queue does: it only writes down.

Records may speak of what is not known: of a queue whose QUEUE record comes later, since the segment with the first one
is gone, or of a message that has been written down again further on. Such a record changes what it can, and no more.
"""

from __future__ import annotations

import json
from struct import unpack_from
from typing import TYPE_CHECKING, Any

from respmq.core.ids import ids_from, tokens_from
from respmq.core.image import BrokerImage, Counters, ExchangeImage, QueueImage
from respmq.core.model import DELAYED, GONE, LEASED, READY, DeadLetter, Message, QueueSettings
from respmq.journal import format as fmt
from respmq.journal.byorder import ByOrder
from respmq.journal.decoder import decode_ids, decode_message, decode_plain_ids
from respmq.journal.format import Kind

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from respmq.journal.homes import Homes


def _lease(message: Message, token: bytes, deadline: int) -> None:
    message.state = LEASED
    message.attempt += 1
    message.lease = token
    message.deadline = deadline
    message.expires_at = 0


def _check_run(count: int) -> None:
    if count > fmt.MOST_IN_RUN:
        msg = f"a run of {count} messages"
        raise ValueError(msg)


def shift(queue: QueueImage, skew: int) -> None:
    """Move all deadlines, because the wall clock was set while the broker ran: a DELAY is a stretch of time."""
    for message in queue.messages.values():
        if message.state:
            message.deadline += skew
        if message.expires_at and message.state != LEASED:
            message.expires_at += skew
        message.since += skew
    for id in queue.window:
        queue.window[id] += skew


class Replay:
    """Builds `image` from records, in their order. `homes` is told where what is left was written."""

    def __init__(self, homes: Homes) -> None:
        self.image = BrokerImage()
        #: Segments below this one are needed no longer.
        self.floor = 0
        self.records = 0
        self._homes = homes
        self._segment = 0
        #: The messages of each queue, which is known by its number.
        self._by_order: dict[int, ByOrder] = {}
        self._do: dict[int, Callable[[QueueImage, bytes], None]] = {
            Kind.QUEUE: self._queue,
            Kind.PURGED: self._purged,
            Kind.RENAMED: self._renamed,
            Kind.BOUND: self._bound,
            Kind.UNBOUND: self._unbound,
            Kind.EXCHANGE_BOUND: self._exchange_bound,
            Kind.EXCHANGE_UNBOUND: self._exchange_unbound,
            Kind.PUT: self._put,
            Kind.PUT_AGAIN: self._put_again,
            Kind.MESSAGE: self._message,
            Kind.DUPLICATE: self._duplicate,
            Kind.LEASED: self._leased,
            Kind.REQUESTED: self._requested,
            Kind.TOUCHED: self._touched,
            Kind.ACKED: self._acked,
            Kind.RETURNED: self._returned,
            Kind.PROMOTED: self._promoted,
            Kind.REMOVED: self._gone,
            Kind.DIED: self._died,
            Kind.LETTER: self._letter,
            Kind.DEAD_REMOVED: self._dead_removed,
            Kind.DEAD_CLEARED: self._dead_cleared,
            Kind.REPLAYED: self._replayed,
            Kind.REMEMBERED: self._remembered,
            Kind.PUT_RUN: self._put_run,
            Kind.LEASED_RUN: self._leased_run,
            Kind.ACKED_RUN: self._acked_run,
        }

    def begin(self, segment: int) -> None:
        """The records that follow stand in this segment."""
        self._segment = segment

    def apply(self, records: bytes) -> None:
        """Apply the records of a batch.

        Raises:
            ValueError: this is no batch that this version can have written.
        """
        at = 0
        end = len(records)
        head = fmt.RECORD_HEAD
        queues = self.image.queues
        while at < end:
            kind, size, number = head.unpack_from(records, at)
            at += head.size
            payload = records[at : at + size]
            at += size
            self.records += 1
            if number == 0:
                self._apply_to_broker(kind, payload)
                continue
            if kind == Kind.DELETED:
                queues.pop(number, None)
                self._by_order.pop(number, None)
                self._homes.forget(number)
                continue
            queue = queues.get(number)
            if queue is None:
                queue = queues[number] = QueueImage(number)
                self.image.queues_made = max(self.image.queues_made, number)
                self._by_order[number] = ByOrder()
            action = self._do.get(kind)
            if action is None:
                msg = f"a record of an unknown kind {kind}"
                raise ValueError(msg)
            action(queue, payload)

    def end(self) -> None:
        """All records were applied."""
        self._by_order.clear()

    def _apply_to_broker(self, kind: int, payload: bytes) -> None:
        image = self.image
        if kind == Kind.BROKER:
            value = json.loads(payload)
            image.queues_made = value["queues_made"]
            image.binding_drops = value["binding_drops"]
            self.floor = max(self.floor, value["floor"])
        elif kind == Kind.EXCHANGE:
            value = json.loads(payload)
            name = value["name"].encode("latin-1")
            bindings = {(number, key.encode("latin-1")): None for number, key in value["bindings"]}
            image.exchanges[name] = ExchangeImage(value["kind"], bindings)
            self._homes.settle_exchange(name, len(payload), self._segment)
        elif kind == Kind.EXCHANGE_DELETED:
            image.exchanges.pop(payload, None)
            self._homes.forget_exchange(payload)
        elif kind == Kind.SHIFTED:
            (skew,) = fmt.SHIFTED.unpack(payload)
            for queue in image.queues.values():
                shift(queue, skew)
            self._homes.shift(skew)
        elif kind == Kind.COPY_DROPPED:
            image.binding_drops += 1
        else:
            msg = f"a record of an unknown kind {kind} for the broker"
            raise ValueError(msg)

    # -- queues, bindings and exchanges ----------------------------------------------------------------------------

    def _queue(self, queue: QueueImage, payload: bytes) -> None:
        value: dict[str, Any] = json.loads(payload)
        queue.name = value["name"].encode("latin-1")
        queue.settings = QueueSettings(**value["settings"])
        queue.mark = value["mark"].encode("latin-1")
        queue.last_id = value["last_id"].encode("latin-1")
        queue.counters = Counters(**value["counters"])
        queue.patterns = {pattern.encode("latin-1"): None for pattern in value["patterns"]}
        self._homes.settle(queue.number, len(payload), self._segment)

    def _purged(self, queue: QueueImage, payload: bytes) -> None:
        del payload
        for message in list(queue.messages.values()):
            if message.state != LEASED:
                self._remove(queue, message)

    def _renamed(self, queue: QueueImage, payload: bytes) -> None:
        queue.mark = payload

    def _bound(self, queue: QueueImage, payload: bytes) -> None:
        queue.patterns[payload] = None

    def _unbound(self, queue: QueueImage, payload: bytes) -> None:
        queue.patterns.pop(payload, None)

    def _exchange_bound(self, queue: QueueImage, payload: bytes) -> None:
        name, key = json.loads(payload)
        exchange = self.image.exchanges.get(name.encode("latin-1"))
        if exchange is not None:
            exchange.bindings[queue.number, key.encode("latin-1")] = None

    def _exchange_unbound(self, queue: QueueImage, payload: bytes) -> None:
        name, key = json.loads(payload)
        exchange = self.image.exchanges.get(name.encode("latin-1"))
        if exchange is not None:
            exchange.bindings.pop((queue.number, key.encode("latin-1")), None)

    # -- messages --------------------------------------------------------------------------------------------------

    def _take_in(self, queue: QueueImage, message: Message) -> None:
        """A message is known, or is written down again."""
        before = queue.messages.get(message.id)
        if before is not None:
            before.home.live -= 1
            self._by_order[queue.number].remove(before)
        queue.messages[message.id] = message
        self._by_order[queue.number].add(message)

    def _move(self, queue: QueueImage, message: Message, order: int) -> None:
        """A message enters its queue again."""
        by_order = self._by_order[queue.number]
        by_order.remove(message)
        message.order = order
        by_order.add(message)

    def _remove(self, queue: QueueImage, message: Message) -> None:
        """A message is no longer in its queue."""
        del queue.messages[message.id]
        self._by_order[queue.number].remove(message)
        message.home.live -= 1

    def _put(self, queue: QueueImage, payload: bytes) -> None:
        now, order, count = fmt.PUT.unpack_from(payload)
        at = fmt.PUT.size
        sizes = unpack_from(f"<{count}I", payload, at)
        at += 4 * count
        ids = decode_plain_ids(payload, at, count)
        self._store(queue, payload, at + count * fmt.ID_SIZE, now, order, ids, sizes)

    def _put_run(self, queue: QueueImage, payload: bytes) -> None:
        now, order, count, first = fmt.PUT_RUN.unpack_from(payload)
        sizes = unpack_from(f"<{count}I", payload, fmt.PUT_RUN.size)
        self._store(queue, payload, fmt.PUT_RUN.size + 4 * count, now, order, ids_from(first, count), sizes)

    def _store(
        self,
        queue: QueueImage,
        payload: bytes,
        at: int,
        now: int,
        order: int,
        ids: list[bytes],
        sizes: tuple[int, ...],
    ) -> None:
        """Messages were put, one behind the other; their bodies stand in the payload."""
        count = len(ids)
        home = self._homes.at(queue.number, self._segment)
        home.live += count
        home.write(count, len(payload) + fmt.RECORD_HEAD.size)
        messages = queue.messages
        by_order = self._by_order[queue.number]
        for id, size in zip(ids, sizes, strict=True):
            message = Message(b"", id, payload[at : at + size], 0, now, None)
            at += size
            message.order = order
            order += 1
            message.home = home
            messages[id] = message
            by_order.add(message)
        counters = queue.counters
        counters.enqueued += count
        counters.entered = max(counters.entered, order - 1)
        queue.last_id = max(queue.last_id, ids[-1])

    def _put_again(self, queue: QueueImage, payload: bytes) -> None:
        (count,) = fmt.PUT_AGAIN.unpack_from(payload)
        numbers = unpack_from(f"<{count}Q{count}q{count}I", payload, fmt.PUT_AGAIN.size)
        at = fmt.PUT_AGAIN.size + 20 * count
        ids = decode_plain_ids(payload, at, count)
        body_at = at + count * fmt.ID_SIZE
        home = self._homes.at(queue.number, self._segment)
        home.live += count
        home.write(count, len(payload) + fmt.RECORD_HEAD.size)
        for place, id in enumerate(ids):
            size = numbers[2 * count + place]
            message = Message(b"", id, payload[body_at : body_at + size], 0, numbers[count + place], None)
            body_at += size
            message.order = numbers[place]
            message.home = home
            self._take_in(queue, message)
        queue.counters.entered = max(queue.counters.entered, *numbers[:count])

    def _message(self, queue: QueueImage, payload: bytes) -> None:
        message, flags = decode_message(payload, 0)
        message.home = home = self._homes.at(queue.number, self._segment)
        home.live += 1
        home.write(1, len(payload) + fmt.RECORD_HEAD.size)
        self._take_in(queue, message)
        counters = queue.counters
        counters.entered = max(counters.entered, message.order)
        if flags & fmt.CARRIED:
            return
        counters.enqueued += 1
        if flags & fmt.CHOSEN:
            self._remember(queue, [message.id], [message.enqueued_at])
        else:
            queue.last_id = max(queue.last_id, message.id)

    def _remembered(self, queue: QueueImage, payload: bytes) -> None:
        (count,) = fmt.REMEMBERED.unpack_from(payload)
        at = fmt.REMEMBERED.size
        puts = unpack_from(f"<{count}q", payload, at)
        ids = decode_ids(payload, at + 8 * count, count)
        self._remember(queue, ids, puts)

    def _remember(self, queue: QueueImage, ids: Sequence[bytes], puts: Sequence[int]) -> None:
        queue.window.update(zip(ids, puts, strict=True))
        home = self._homes.at(queue.number, self._segment)
        # Until when is the queue's setting, which may not be known yet: `Homes.finish` adds it.
        home.remembered = max(home.remembered, *puts, 0)
        home.ids_size += sum(map(len, ids)) + fmt.REMEMBERED_ID * len(ids)

    def _duplicate(self, queue: QueueImage, payload: bytes) -> None:
        del payload
        queue.counters.duplicates += 1

    def _leased(self, queue: QueueImage, payload: bytes) -> None:
        deadline, count = fmt.LEASED.unpack_from(payload)
        at = fmt.LEASED.size
        place = at + 2 * count
        id_sizes = payload[at : at + count]
        token_place = place + sum(id_sizes)
        messages = queue.messages
        for id_size, token_size in zip(id_sizes, payload[at + count : place], strict=True):
            message = messages.get(payload[place : place + id_size])
            place += id_size
            token = payload[token_place : token_place + token_size]
            token_place += token_size
            if message is not None:
                _lease(message, token, deadline)
        queue.counters.delivered += count

    def _leased_run(self, queue: QueueImage, payload: bytes) -> None:
        deadline, order, count = fmt.LEASED_RUN.unpack_from(payload)
        _check_run(count)
        token = payload[fmt.LEASED_RUN.size :]
        tokens = [token] if count == 1 else tokens_from(token, count)
        by_order = self._by_order[queue.number]
        for place, token in enumerate(tokens):
            message = by_order.get(order + place)
            if message is not None:
                _lease(message, token, deadline)
        queue.counters.delivered += count

    def _requested(self, queue: QueueImage, payload: bytes) -> None:
        user_size, key_size, count = fmt.REQUESTED.unpack_from(payload)
        at = fmt.REQUESTED.size
        items: list[tuple[int, int]] = []
        for _ in range(count):
            items.append(fmt.REQUESTED_ITEM.unpack_from(payload, at))
            at += fmt.REQUESTED_ITEM.size
        user = payload[at : at + user_size]
        at += user_size
        key = payload[at : at + key_size]
        at += key_size
        leased: list[tuple[int, bytes]] = []
        for number, size in items:
            leased.append((number, payload[at : at + size]))
            at += size
        queue.requests[user, key] = leased

    def _touched(self, queue: QueueImage, payload: bytes) -> None:
        deadline, count = fmt.TOUCHED.unpack_from(payload)
        for id in decode_ids(payload, fmt.TOUCHED.size, count):
            message = queue.messages.get(id)
            if message is not None:
                message.deadline = deadline

    def _acked(self, queue: QueueImage, payload: bytes) -> None:
        (count,) = fmt.IDS.unpack_from(payload)
        queue.counters.acked += count
        self._gone(queue, payload)

    def _acked_run(self, queue: QueueImage, payload: bytes) -> None:
        order, count = fmt.ACKED_RUN.unpack_from(payload)
        _check_run(count)
        queue.counters.acked += count
        by_order = self._by_order[queue.number]
        for each in range(order, order + count):
            message = by_order.get(each)
            if message is not None:
                self._remove(queue, message)

    def _gone(self, queue: QueueImage, payload: bytes) -> None:
        (count,) = fmt.IDS.unpack_from(payload)
        for id in decode_ids(payload, fmt.IDS.size, count):
            message = queue.messages.get(id)
            if message is not None:
                self._remove(queue, message)

    def _returned(self, queue: QueueImage, payload: bytes) -> None:
        how: int
        how, since, due, expires_at, order = fmt.RETURNED.unpack_from(payload)
        way = fmt.RETURNS[how]
        counters = queue.counters
        counters.entered = max(counters.entered, order)
        if way in {"failed", "expired"}:
            counters.retried += 1
            counters.expired_leases += way == "expired"
        elif way == "undelivered":
            counters.delivered = max(counters.delivered - 1, 0)
        message = queue.messages.get(payload[fmt.RETURNED.size :])
        if message is None:
            return
        if way != "expired":
            message.lease = None
        if way in {"released", "undelivered"} and message.state == LEASED:
            # Else the lease is not known, and did not count: its batch was damaged.
            message.attempt -= 1
        message.state = DELAYED if due else READY
        if due:
            message.deadline = due
        message.since = since
        message.expires_at = expires_at
        self._move(queue, message, order)

    def _promoted(self, queue: QueueImage, payload: bytes) -> None:
        since, order, count = fmt.PROMOTED.unpack_from(payload)
        for id in decode_ids(payload, fmt.PROMOTED.size, count):
            message = queue.messages.get(id)
            if message is not None:
                message.state = READY
                message.since = since
                self._move(queue, message, order)
            order += 1
        queue.counters.entered = max(queue.counters.entered, order - 1)

    # -- dead letters ----------------------------------------------------------------------------------------------

    def _died(self, queue: QueueImage, payload: bytes) -> None:
        reason: int
        number, dead_at, reason, expired, has_error, id_size = fmt.DIED.unpack_from(payload)
        queue.counters.dead = max(queue.counters.dead, number)
        queue.counters.expired_leases += expired
        at = fmt.DIED.size
        message = queue.messages.get(payload[at : at + id_size])
        if message is None:
            return
        self._remove(queue, message)
        message.lease = None
        message.state = GONE
        message.home.dead += 1
        letter = DeadLetter(message, fmt.REASONS[reason], payload[at + id_size :] if has_error else None, dead_at)
        letter.number = number
        queue.letters[number] = letter

    def _letter(self, queue: QueueImage, payload: bytes) -> None:
        reason: int
        number, dead_at, reason, has_error, size = fmt.LETTER.unpack_from(payload)
        at = fmt.LETTER.size
        message, _ = decode_message(payload, at + size)
        letter = DeadLetter(message, fmt.REASONS[reason], payload[at : at + size] if has_error else None, dead_at)
        letter.number = number
        queue.counters.dead = max(queue.counters.dead, number)
        before = queue.letters.get(number)
        if before is not None:
            before.message.home.dead -= 1
        message.home = home = self._homes.at(queue.number, self._segment)
        home.dead += 1
        home.write(1, len(payload) + fmt.RECORD_HEAD.size)
        queue.letters[number] = letter

    def _dead_removed(self, queue: QueueImage, payload: bytes) -> None:
        dropped, count = fmt.DEAD_REMOVED.unpack_from(payload)
        for number in unpack_from(f"<{count}Q", payload, fmt.DEAD_REMOVED.size):
            letter = queue.letters.pop(number, None)
            if letter is not None:
                letter.message.home.dead -= 1
        if dropped:
            queue.counters.dead_dropped += count

    def _dead_cleared(self, queue: QueueImage, payload: bytes) -> None:
        del payload
        for letter in queue.letters.values():
            letter.message.home.dead -= 1
        queue.letters.clear()

    def _replayed(self, queue: QueueImage, payload: bytes) -> None:
        number, since, expires_at, order = fmt.REPLAYED.unpack_from(payload)
        queue.counters.entered = max(queue.counters.entered, order)
        letter = queue.letters.pop(number, None)
        if letter is None:
            return
        message = letter.message
        message.home.dead -= 1
        message.home.live += 1
        message.attempt = message.deadline = 0
        message.state = READY
        message.since = since
        message.expires_at = expires_at
        message.order = order
        self._take_in(queue, message)
