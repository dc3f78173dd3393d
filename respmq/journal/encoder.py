"""Facts to records. What has been told since the last batch waits in `records`."""

from __future__ import annotations

import dataclasses
import json
from struct import pack
from typing import TYPE_CHECKING, Final

from respmq.core.facts import Recorder
from respmq.journal import format as fmt
from respmq.journal.format import Kind

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from respmq.core.exchanges import Exchange
    from respmq.core.facts import Return
    from respmq.core.model import DeadLetter, Message
    from respmq.core.requests import Request
    from respmq.core.stock import Stock
    from respmq.journal.homes import Homes

# Looked up once and not for every message.
_pack_head: Final = fmt.RECORD_HEAD.pack
_pack_put_one: Final = fmt.PUT_ONE.pack
_pack_put_run: Final = fmt.PUT_RUN.pack
_pack_leased: Final = fmt.LEASED.pack
_pack_leased_run: Final = fmt.LEASED_RUN_RECORD.pack
_pack_acked_run: Final = fmt.ACKED_RUN_RECORD.pack
_pack_ids: Final = fmt.IDS.pack
_PUT: Final = int(Kind.PUT)
_PUT_RUN: Final = int(Kind.PUT_RUN)
_LEASED: Final = int(Kind.LEASED)
_LEASED_RUN: Final = int(Kind.LEASED_RUN)
_ACKED_RUN: Final = int(Kind.ACKED_RUN)
_HEAD_SIZE: Final = fmt.RECORD_HEAD.size
_PUT_ONE_SIZE: Final = fmt.PUT_ONE.size + fmt.ID_SIZE
_PUT_RUN_SIZE: Final = fmt.PUT_RUN.size
_LEASED_RUN_SIZE: Final = fmt.LEASED_RUN.size
_ACKED_RUN_SIZE: Final = fmt.ACKED_RUN.size


def encode_json(value: object) -> bytes:
    """A payload of the rare kinds. Bytes stand in it as Latin-1 text, which any bytes can."""
    return json.dumps(value, separators=(",", ":")).encode()


def encode_ids(ids: Sequence[bytes]) -> bytes:
    """Ids of at most 255 bytes each, with their sizes before them."""
    return _sizes(ids) + b"".join(ids)


def _sizes(words: Sequence[bytes]) -> bytes:
    """The sizes of words of at most 255 bytes, a byte each."""
    # Compiled, a list is filled faster than `map` runs.
    return bytes([len(word) for word in words])


def _is_run(messages: Sequence[Message]) -> bool:
    """Whether each message entered its queue right behind the one before it."""
    order = messages[0].order
    for message in messages:
        if message.order != order:
            return False
        order += 1
    return True


def encode_message(message: Message, flags: int) -> bytes:
    """The payload of a MESSAGE: everything that is to be known of it."""
    extra = message.extra
    lease = b""
    if message.lease is not None:
        lease = message.lease
        flags |= fmt.HAS_LEASE
    parts = [message.body]
    ttl = 0
    headers = attachments = 0
    if extra is not None:
        for pair in extra.headers.items():
            parts += pair
        parts += extra.attachments
        headers, attachments = len(extra.headers), len(extra.attachments)
        if extra.announcement:
            flags |= fmt.ANNOUNCEMENT
        if extra.ttl is not None:
            flags |= fmt.HAS_TTL
            ttl = extra.ttl
    head = fmt.MESSAGE.pack(
        flags,
        message.state,
        message.priority,
        message.enqueued_at,
        message.since,
        message.deadline,
        message.expires_at,
        message.order,
        message.attempt,
        ttl,
        len(message.id),
        len(lease),
        headers,
        attachments,
    )
    return b"".join((head, pack(f"<{len(parts)}I", *map(len, parts)), message.id, lease, *parts))


def encode_letter(letter: DeadLetter) -> bytes:
    """The payload of a LETTER."""
    error = letter.error or b""
    reason = fmt.REASONS.index(letter.reason)
    head = fmt.LETTER.pack(letter.number, letter.dead_at, reason, letter.error is not None, len(error))
    return head + error + encode_message(letter.message, fmt.CARRIED)


class Encoder(Recorder):
    """Makes records of facts."""

    def __init__(self, homes: Homes) -> None:
        self.records: list[bytes] = []
        self._homes = homes

    def _add(self, kind: Kind, number: int, payload: bytes) -> None:
        self.records.append(_pack_head(kind, len(payload), number) + payload)

    # -- queues, bindings and exchanges ----------------------------------------------------------------------------

    def declared(self, queue: Stock) -> None:
        """A queue is there, or is written down again with all that is known of it but its messages."""
        payload = encode_json(describe_queue(queue))
        self._homes.settle(queue.number, len(payload))
        self._add(Kind.QUEUE, queue.number, payload)

    def deleted(self, queue: Stock) -> None:
        """A queue is gone, with all that was in it and all bindings to it."""
        self._homes.forget(queue.number)
        self._add(Kind.DELETED, queue.number, b"")

    def purged(self, queue: Stock) -> None:
        """All ready and delayed messages of a queue are about to go."""
        self._homes.purge(queue)
        self._add(Kind.PURGED, queue.number, b"")

    def renamed(self, queue: Stock) -> None:
        """A queue marks the ids that it makes in another way."""
        self._add(Kind.RENAMED, queue.number, queue.id_maker.mark)

    def bound(self, queue: Stock, pattern: bytes) -> None:
        """A queue gets copies of what is published under a pattern."""
        self._add(Kind.BOUND, queue.number, pattern)

    def unbound(self, queue: Stock, pattern: bytes) -> None:
        """It no longer does."""
        self._add(Kind.UNBOUND, queue.number, pattern)

    def exchange_declared(self, name: bytes, exchange: Exchange) -> None:
        """An exchange is there."""
        self.exchange(name, exchange, [])

    def exchange(self, name: bytes, exchange: Exchange, bindings: list[tuple[int, bytes]]) -> None:
        """An exchange with its bindings, as pairs of queue number and key."""
        pairs = [[number, key.decode("latin-1")] for number, key in bindings]
        value = {"name": name.decode("latin-1"), "kind": exchange.kind, "bindings": pairs}
        payload = encode_json(value)
        self._homes.settle_exchange(name, len(payload))
        self._add(Kind.EXCHANGE, 0, payload)

    def exchange_deleted(self, name: bytes) -> None:
        """An exchange is gone, with its bindings."""
        self._homes.forget_exchange(name)
        self._add(Kind.EXCHANGE_DELETED, 0, name)

    def exchange_bound(self, name: bytes, queue: Stock, key: bytes) -> None:
        """A queue is bound to an exchange."""
        value = [name.decode("latin-1"), key.decode("latin-1")]
        self._add(Kind.EXCHANGE_BOUND, queue.number, encode_json(value))

    def exchange_unbound(self, name: bytes, queue: Stock, key: bytes) -> None:
        """It no longer is."""
        value = [name.decode("latin-1"), key.decode("latin-1")]
        self._add(Kind.EXCHANGE_UNBOUND, queue.number, encode_json(value))

    def copy_dropped(self) -> None:
        """A copy found no room in its queue."""
        self._add(Kind.COPY_DROPPED, 0, b"")

    def shifted(self, skew: int) -> None:
        """All deadlines were moved at the start, since the wall clock was set while the broker ran before."""
        self._add(Kind.SHIFTED, 0, fmt.SHIFTED.pack(skew))

    def broker(self, queues_made: int, binding_drops: int, floor: int) -> None:
        """What belongs to no queue; segments below `floor` are needed no longer."""
        value = {"queues_made": queues_made, "binding_drops": binding_drops, "floor": floor}
        self._add(Kind.BROKER, 0, encode_json(value))

    # -- messages --------------------------------------------------------------------------------------------------

    def stored(self, queue: Stock, message: Message, *, chosen: bool) -> None:
        """A message was put."""
        payload = encode_message(message, fmt.CHOSEN if chosen else 0)
        home = self._homes.house(queue, message, len(payload) + fmt.RECORD_HEAD.size)
        if chosen:
            home.remembered = max(home.remembered, message.enqueued_at + queue.settings.dedupe)
            home.ids_size += len(message.id) + fmt.REMEMBERED_ID
        self._add(Kind.MESSAGE, queue.number, payload)

    def carried(self, queue: Stock, message: Message) -> None:
        """A message is written down again, as it is now."""
        payload = encode_message(message, fmt.CARRIED)
        self._homes.move(queue, message, len(payload) + fmt.RECORD_HEAD.size)
        self._add(Kind.MESSAGE, queue.number, payload)

    def carried_plain(self, queue: Stock, messages: Sequence[Message]) -> None:
        """Messages that were put by `stored_plain`, and nothing has happened to since, are written down again."""
        count = len(messages)
        bodies = [message.body for message in messages]
        orders = [message.order for message in messages]
        moments = [message.enqueued_at for message in messages]
        head = pack(f"<{count}Q{count}q{count}I", *orders, *moments, *map(len, bodies))
        payload = b"".join((fmt.PUT_AGAIN.pack(count), head, *[message.id for message in messages], *bodies))
        home = self._homes.of(queue)
        home.write(count, len(payload) + fmt.RECORD_HEAD.size)
        home.live += count
        for message in messages:
            message.home.live -= 1
            message.home = home
        self._add(Kind.PUT_AGAIN, queue.number, payload)

    def stored_again(self, queue: Stock, message: Message) -> None:
        """A message that was never written down here is, as it is now."""
        payload = encode_message(message, fmt.CARRIED)
        self._homes.house(queue, message, len(payload) + fmt.RECORD_HEAD.size)
        self._add(Kind.MESSAGE, queue.number, payload)

    def stored_plain(self, queue: Stock, messages: Sequence[Message]) -> None:
        """Messages without options were put, and are ready one behind the other. Their ids are a run."""
        first = messages[0]
        count = len(messages)
        home = self._homes.of(queue)
        home.live += count
        if count == 1:
            first.home = home
            body = first.body
            size = len(body)
            home.written += 1
            size += _PUT_ONE_SIZE
            home.size += size
            number, at, order = queue.number, first.enqueued_at, first.order
            head = _pack_put_one(_PUT, size - _HEAD_SIZE, number, at, order, 1, len(body))
            self.records.append(head + first.id + body)
            return
        bodies: list[bytes] = []
        sizes: list[int] = []
        size = _PUT_RUN_SIZE + 4 * count
        for message in messages:
            message.home = home
            body = message.body
            bodies.append(body)
            sizes.append(len(body))
            size += len(body)
        home.write(count, size + _HEAD_SIZE)
        head = _pack_head(_PUT_RUN, size, queue.number)
        head += _pack_put_run(first.enqueued_at, first.order, count, first.id)
        # Bodies may be large: they are not put together here and then once more for the batch.
        self.records.append(head + pack(f"<{count}I", *sizes))
        self.records += bodies

    def duplicate(self, queue: Stock) -> None:
        """A put was turned away because its id is known."""
        self._add(Kind.DUPLICATE, queue.number, b"")

    def remembered(self, queue: Stock, window: Sequence[tuple[bytes, int]]) -> None:
        """Ids are remembered, of messages that were put at certain moments: written down again."""
        home = self._homes.of(queue)
        home.remembered = max(home.remembered, *(put + queue.settings.dedupe for _, put in window), 0)
        puts = pack(f"<{len(window)}q", *(put for _, put in window))
        ids = encode_ids([id for id, _ in window])
        home.ids_size += len(puts) + len(ids)
        self._add(Kind.REMEMBERED, queue.number, fmt.REMEMBERED.pack(len(window)) + puts + ids)

    def leased(self, queue: Stock, messages: Sequence[Message]) -> None:
        """Messages were handed out, all until the same moment. Their tokens were made one after the other."""
        first = messages[0]
        token = first.lease or b""
        count = len(messages)
        if _is_run(messages):
            size = _LEASED_RUN_SIZE + len(token)
            head = _pack_leased_run(_LEASED_RUN, size, queue.number, first.deadline, first.order, count)
            self.records.append(head + token)
            return
        ids = [message.id for message in messages]
        tokens = [message.lease or b"" for message in messages]
        payload = b"".join((_pack_leased(first.deadline, count), _sizes(ids), _sizes(tokens), *ids, *tokens))
        self.records.append(_pack_head(_LEASED, len(payload), queue.number) + payload)

    def requested(self, queue: Stock, request: Request) -> None:
        """The leases of a request that may be sent again, which is kept by `queue`, are these."""
        user, key = request.key
        held = [(number, message.lease or b"") for number, message in request.held()]
        items = b"".join(fmt.REQUESTED_ITEM.pack(number, len(token)) for number, token in held)
        head = fmt.REQUESTED.pack(len(user), len(key), len(held))
        tokens = b"".join(token for _, token in held)
        self._add(Kind.REQUESTED, queue.number, b"".join((head, items, user, key, tokens)))

    def touched(self, queue: Stock, messages: Sequence[Message]) -> None:
        """Leases were renewed, all until the same moment."""
        ids = [message.id for message in messages]
        head = fmt.TOUCHED.pack(messages[0].deadline, len(ids))
        self._add(Kind.TOUCHED, queue.number, head + encode_ids(ids))

    def acked(self, queue: Stock, messages: Sequence[Message]) -> None:
        """Messages are about to go, since they were done."""
        if not _is_run(messages):
            self._gone(Kind.ACKED, queue, messages)
            return
        for message in messages:
            message.home.live -= 1
        number, order, count = queue.number, messages[0].order, len(messages)
        self.records.append(_pack_acked_run(_ACKED_RUN, _ACKED_RUN_SIZE, number, order, count))

    def removed(self, queue: Stock, messages: Sequence[Message]) -> None:
        """Messages are about to be deleted."""
        self._gone(Kind.REMOVED, queue, messages)

    def _gone(self, kind: Kind, queue: Stock, messages: Iterable[Message]) -> None:
        ids: list[bytes] = []
        for message in messages:
            message.home.live -= 1
            ids.append(message.id)
        self._add(kind, queue.number, _pack_ids(len(ids)) + encode_ids(ids))

    def returned(self, queue: Stock, message: Message, how: Return) -> None:
        """A lease has ended, and its message waits again."""
        due = message.deadline if message.state else 0
        head = fmt.RETURNED.pack(fmt.RETURNS.index(how), message.since, due, message.expires_at, message.order)
        self._add(Kind.RETURNED, queue.number, head + message.id)

    def promoted(self, queue: Stock, messages: Sequence[Message]) -> None:
        """Delayed messages are ready now, one behind the other."""
        first = messages[0]
        head = fmt.PROMOTED.pack(first.since, first.order, len(messages))
        self._add(Kind.PROMOTED, queue.number, head + encode_ids([message.id for message in messages]))

    # -- dead letters ----------------------------------------------------------------------------------------------

    def died(self, queue: Stock, letter: DeadLetter, *, expired: bool) -> None:
        """A message has become a dead letter."""
        message = letter.message
        message.home.live -= 1
        message.home.dead += 1
        reason = fmt.REASONS.index(letter.reason)
        error = letter.error
        head = fmt.DIED.pack(letter.number, letter.dead_at, reason, expired, error is not None, len(message.id))
        self._add(Kind.DIED, queue.number, head + message.id + (error or b""))

    def letter_again(self, queue: Stock, letter: DeadLetter) -> None:
        """A dead letter that was never written down here is."""
        payload = encode_letter(letter)
        self._homes.house_dead(queue, letter.message, len(payload) + fmt.RECORD_HEAD.size)
        self._add(Kind.LETTER, queue.number, payload)

    def letter(self, queue: Stock, letter: DeadLetter) -> None:
        """A dead letter is written down again."""
        payload = encode_letter(letter)
        self._homes.move_dead(queue, letter.message, len(payload) + fmt.RECORD_HEAD.size)
        self._add(Kind.LETTER, queue.number, payload)

    def dead_removed(self, queue: Stock, letters: Sequence[DeadLetter], *, dropped: bool) -> None:
        """Dead letters are gone; `dropped` since there were too many."""
        numbers: list[int] = []
        for letter in letters:
            letter.message.home.dead -= 1
            numbers.append(letter.number)
        head = fmt.DEAD_REMOVED.pack(dropped, len(numbers))
        self._add(Kind.DEAD_REMOVED, queue.number, head + pack(f"<{len(numbers)}Q", *numbers))

    def dead_cleared(self, queue: Stock) -> None:
        """All dead letters are gone."""
        self._homes.clear_dead(queue)
        self._add(Kind.DEAD_CLEARED, queue.number, b"")

    def replayed(self, queue: Stock, letter: DeadLetter, message: Message) -> None:
        """A dead letter is a ready message again."""
        message.home = letter.message.home
        message.home.dead -= 1
        message.home.live += 1
        head = fmt.REPLAYED.pack(letter.number, message.since, message.expires_at, message.order)
        self._add(Kind.REPLAYED, queue.number, head)


def describe_queue(queue: Stock) -> dict[str, object]:
    """What is written down of a queue, but its messages."""
    makes = queue.id_maker
    return {
        "name": queue.name.decode("latin-1"),
        "settings": dataclasses.asdict(queue.settings),
        "mark": makes.mark.decode("latin-1"),
        "last_id": makes.last.decode("latin-1"),
        "counters": dataclasses.asdict(queue.counters()),
        "patterns": [pattern.decode("latin-1") for pattern in queue.patterns],
    }
