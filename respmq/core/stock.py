"""What one queue holds, and each change of a message's state.

    put --> READY or DELAYED --> LEASED --> acked (gone), back (RELEASE, failure with attempts left), or dead

Each message is in `live` by its id until it is gone. Its state is changed by the few methods here, so that counters,
TTLs, leases, the line and who records the facts can't drift apart. What clients ask for is in `queue.py`.
"""

from __future__ import annotations

from collections import OrderedDict
from typing import TYPE_CHECKING

from respmq.core.dead import DeadLetters
from respmq.core.deadlines import Alarm
from respmq.core.dedupe import DedupeWindow
from respmq.core.eviction import EvictionOrder
from respmq.core.hub import MESSAGE_OVERHEAD
from respmq.core.ids import IdMaker
from respmq.core.image import Counters
from respmq.core.lazyheap import delays, lapses
from respmq.core.leases import Leases
from respmq.core.line import Line
from respmq.core.model import DELAYED, GONE, LEASED, READY, DeadLetter
from respmq.core.weight import HEAP_ENTRY, ID_LENGTH, remembered

if TYPE_CHECKING:
    from collections.abc import Iterator

    from respmq.core.consumers import Consumer
    from respmq.core.facts import Return
    from respmq.core.hub import Hub
    from respmq.core.image import QueueImage
    from respmq.core.model import Message, QueueSettings, Reason
    from respmq.core.requests import Request, RequestKey
    from respmq.core.takers import Taker


class Stock:
    """The messages of a queue; the methods act at `hub.now`."""

    def __init__(self, name: bytes, settings: QueueSettings, hub: Hub) -> None:
        self.name = name
        self.settings = settings
        self._hub = hub
        hub.queues_made += 1
        #: No other queue of this broker ever has the same.
        self.number: int = hub.queues_made
        self.id_maker = IdMaker(hub.random_bytes)
        #: Whether a message that waits has nothing to be kept account of but its place.
        self._plain = settings.ttl is None and settings.overflow == "REJECT"
        self.live: dict[bytes, Message] = {}
        self.ready: int = 0
        self.delayed: int = 0
        self.bytes: int = 0
        #: What the live messages have of it in all.
        self._surplus: int = 0
        #: What each message has of it because of the settings.
        self._each = HEAP_ENTRY * ((settings.ttl is not None) + (settings.overflow == "DROPHEAD"))
        self.enqueued: int = 0
        self.acked: int = 0
        self.delivered: int = 0
        self.retried: int = 0
        self.duplicates: int = 0
        self.expired_leases: int = 0
        #: How often a message has entered at the back.
        self._entered: int = 0
        self._line = Line()
        self._delays = delays()
        self._lapsing = lapses()
        #: Only there under DROPHEAD.
        self._eviction = EvictionOrder() if settings.overflow == "DROPHEAD" else None
        self.leases = Leases()
        self.dead = DeadLetters(settings.max_dead, hub)
        self.window = DedupeWindow(settings.dedupe)
        self.requests: dict[RequestKey, Request] = {}
        #: Topics of which copies come here, in the order in which they were bound; the router's.
        self.patterns: dict[bytes, None] = {}
        #: Who takes what becomes ready, the one at the head first.
        self.takers: OrderedDict[Taker, None] = OrderedDict()
        self.consumers: dict[Consumer, None] = {}
        self._alarm = Alarm(hub.deadlines, self)

    def join(self, taker: Taker) -> None:
        """Stand at the end of the line."""
        self.takers[taker] = None
        if self.ready:
            self._hub.agenda[self] = None

    # -- time ----------------------------------------------------------------------------------------------------------

    def due(self) -> None:
        """Do all that is due at `hub.now`, within the budget of the tick."""
        self._alarm.disarm()
        hub = self._hub
        now = hub.now
        for token, message in self.leases.expired(now, hub.budget):
            hub.budget -= 1
            self.expired_leases += 1
            self.leases.end_hold(token)
            self.leases.late[token] = message
            self._retry(message, None, b"ack timeout", "expired")
            if message.state == GONE:
                del self.leases.late[token]
        while hub.budget > 0 and (at := self._lapsing.next()) is not None and at <= now:
            hub.budget -= 1
            lapsed = self._lapsing.pop_next()
            if lapsed is not None:
                self._withdraw(lapsed)
                self._lapse(lapsed)
        promoted: list[Message] = []
        while hub.budget > 0 and (at := self._delays.next()) is not None and at <= now:
            hub.budget -= 1
            delayed = self._delays.pop_next()
            if delayed is not None:
                self.delayed -= 1
                self._make_ready(delayed)
                promoted.append(delayed)
        if promoted and hub.recorder is not None:
            hub.recorder.promoted(self, promoted)
        self._forget_ids()
        self._rearm()

    def _forget_ids(self) -> None:
        hub = self._hub
        for id in self.window.forget(hub.now, hub.budget):
            hub.budget -= 1
            hub.used -= remembered(id)
            message = self.live.get(id)
            if message is not None and not self.window.put_at(id):
                # From now on nothing but the message has the id.
                self._add_surplus(message, len(id) - ID_LENGTH)

    def _add_surplus(self, message: Message, surplus: int) -> None:
        message.surplus += surplus
        self._surplus += surplus
        self._hub.used += surplus

    def _own_surplus(self, message: Message) -> int:
        """What a message has of it for all but its id, and a dead one in all."""
        return self._each if message.extra is None else self._each + message.extra.overhead

    def _whole_surplus(self, message: Message) -> int:
        """What a live message has of it. The bytes of an id that is remembered count there."""
        surplus = self._own_surplus(message)
        return surplus if self.window.put_at(message.id) else surplus + len(message.id) - ID_LENGTH

    def _rearm(self) -> None:
        moments = (
            self.leases.next_expiry(),
            self._lapsing.next(),
            self._delays.next(),
            self.window.next_end(),
        )
        when = min((moment for moment in moments if moment is not None), default=None)
        if when is not None:
            self._alarm.arm(max(when, self._hub.now))

    # -- ways out of a lease -------------------------------------------------------------------------------------------

    def _end_lease(self, token: bytes) -> Message | None:
        message = self.leases.pop(token)
        if message is not None and self.leases.holders:
            self.leases.end_hold(token)
        return message

    def _retry(self, message: Message, delay: int | None, error: bytes | None, how: Return) -> None:
        if message.attempt >= self.settings.max_attempts:
            message.state = GONE
            self._bury(message, "max_attempts", error, expired=how == "expired")
            return
        self.retried += 1
        self._enter(message, self.settings.backoff(message.attempt, self._hub.uniform) if delay is None else delay)
        if self._hub.recorder is not None:
            self._hub.recorder.returned(self, message, how)

    def _bury(self, message: Message, reason: Reason, error: bytes | None, *, expired: bool = False) -> None:
        """A message that is in no structure but `live` any more becomes a dead letter."""
        del self.live[message.id]
        self.bytes -= message.size
        own = self._own_surplus(message)
        self._surplus -= message.surplus
        if message.surplus != own:
            self._hub.used += own - message.surplus
            message.surplus = own
        message.lease = None
        letter = DeadLetter(message, reason, error, self._hub.now)
        dropped = self.dead.add(letter)
        recorder = self._hub.recorder
        if recorder is not None:
            recorder.died(self, letter, expired=expired)
            if dropped:
                recorder.dead_removed(self, dropped, dropped=True)
        self._hub.obituaries.add(letter)

    # -- changes of state ----------------------------------------------------------------------------------------------

    def _enter(self, message: Message, delay: int) -> None:
        """The message begins to wait at the back: ready, or ready after `delay`."""
        self._start_ttl(message)
        if delay:
            message.state = DELAYED
            message.deadline = due = self._hub.now + delay
            self.delayed += 1
            self._delays.add(due, message)
            self._alarm.arm(due)
            self._stand_last(message)
        else:
            self._make_ready(message)

    def _make_ready(self, message: Message) -> None:
        message.state = READY
        message.since = self._hub.now
        self.ready += 1
        self._stand_last(message)
        self._line.append(message)
        if self.takers:
            self._hub.agenda[self] = None

    def _stand_last(self, message: Message) -> None:
        self._entered += 1
        message.order = self._entered
        if self._eviction is not None:
            self._eviction.add(message)

    def _start_ttl(self, message: Message) -> None:
        ttl = self.settings.ttl
        extra = message.extra
        if extra is not None and extra.ttl is not None and (ttl is None or extra.ttl < ttl):
            ttl = extra.ttl
        if ttl is not None:
            message.expires_at = at = self._hub.now + ttl
            self._lapsing.add(at, message)
            self._alarm.arm(at)

    def _withdraw(self, message: Message) -> None:
        """Take a waiting message out of the line; what remains of it there is skipped."""
        if message.state == READY:
            message.state = GONE
            self.ready -= 1
            self._line.discard(message.priority)
        else:
            message.state = GONE
            self.delayed -= 1
        if message.lease is not None:
            self.leases.late.pop(message.lease, None)

    def _lapse(self, message: Message) -> None:
        """A message that is out of the line dies because its TTL has passed."""
        message.state = GONE
        if message.lease is not None:
            self.leases.late.pop(message.lease, None)
        self._bury(message, "ttl_expired", None)

    def _discard(self, message: Message) -> None:
        """A message that is in no structure but `live` any more is gone for good."""
        message.state = GONE
        del self.live[message.id]
        # A stale entry in a heap may hold the message for a while: not its body.
        size = len(message.body)
        if message.extra is not None:
            size = message.size
            message.extra = None
        message.body = b""
        self.bytes -= size
        self._hub.used -= size + MESSAGE_OVERHEAD
        if message.surplus:
            self._add_surplus(message, -message.surplus)

    # -- the whole of it as data ---------------------------------------------------------------------------------------

    def counters(self) -> Counters:
        """What has happened so far, in numbers."""
        return Counters(
            entered=self._entered,
            enqueued=self.enqueued,
            delivered=self.delivered,
            acked=self.acked,
            retried=self.retried,
            duplicates=self.duplicates,
            expired_leases=self.expired_leases,
            dead=self.dead.added,
            dead_dropped=self.dead.dropped,
        )

    def load(self, image: QueueImage) -> Iterator[None]:
        """Take over a queue's number, messages and counters, in place of none; a step for every thousand messages."""
        self.number = image.number
        counters = image.counters
        self._entered = counters.entered
        self.enqueued = counters.enqueued
        self.delivered = counters.delivered
        self.acked = counters.acked
        self.retried = counters.retried
        self.duplicates = counters.duplicates
        self.expired_leases = counters.expired_leases
        self.id_maker.load(image.mark, image.last_id)
        self.window.load(image.window, self._hub.now)
        self._hub.used += self.window.used
        letters = sorted(image.letters.values(), key=lambda letter: letter.number)
        for letter in letters:
            letter.message.queue = self.name
            letter.message.surplus = self._own_surplus(letter.message)
        self.dead.load(letters, counters.dead, counters.dead_dropped)
        self.live = image.messages
        messages = list(self.live.values())
        #: Of each priority, the order of the last message that is leased: it may come back before those behind it.
        leased: dict[int, int] = {}
        last, sorted_ = 0, True
        for place, message in enumerate(messages):
            sorted_ = sorted_ and message.order >= last
            last = message.order
            if message.state == LEASED:
                leased[message.priority] = max(last, leased.get(message.priority, 0))
            if place % 1000 == 0:
                yield
        if not sorted_:
            messages.sort(key=lambda message: message.order)
        for place, message in enumerate(messages):
            self._load_message(message, came_back=message.order < leased.get(message.priority, 0))
            if place % 1000 == 0:
                yield
        self.leases.load(
            [message for message in self.live.values() if message.state == LEASED],
            self._hub.now + self.settings.ack_timeout,
        )
        self._rearm()

    def _load_message(self, message: Message, *, came_back: bool) -> None:
        """A message is there again; those of one priority come in the order of their entry.

        `came_back`: it stands before one that is leased, so it has been leased, too, and came back to where it stood.
        """
        message.queue = self.name
        size = message.size
        self.bytes += size
        self._hub.used += size + MESSAGE_OVERHEAD
        self._add_surplus(message, self._whole_surplus(message))
        if message.state == LEASED:
            return
        if message.state == READY:
            self.ready += 1
            if came_back:
                self._line.give_back(message)
            else:
                self._line.append(message)
        else:
            self.delayed += 1
            self._delays.add(message.deadline, message)
        if message.expires_at:
            self._lapsing.add(message.expires_at, message)
        if self._eviction is not None:
            self._eviction.add(message)
        if message.lease is not None:
            self.leases.late[message.lease] = message
