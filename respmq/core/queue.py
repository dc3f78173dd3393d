"""One queue: where each of its messages is, and every way from one state to another.

    put --> READY or DELAYED --> LEASED --> acked (gone), back (RELEASE, failure with attempts left), or dead

Each message is in `live` by its id until it is gone. A change of state is made by the few methods at the end of the
class, so that counters, TTLs, leases and the line can't drift apart.
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
from respmq.core.lazyheap import delays, lapses
from respmq.core.leases import Leases
from respmq.core.line import Line
from respmq.core.model import DELAYED, GONE, LEASED, READY, DeadLetter, Extra, Message
from respmq.errors import QueueFullError, quote

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from respmq.core.consumers import Consumer
    from respmq.core.hub import Hub
    from respmq.core.model import QueueSettings, Reason
    from respmq.core.requests import Request, RequestKey
    from respmq.core.takers import Taker


class Queue:
    """A queue; its methods expect checked arguments and act at `hub.now`."""

    def __init__(self, name: bytes, settings: QueueSettings, hub: Hub) -> None:
        self.name = name
        self.settings = settings
        self._hub = hub
        self._ids = IdMaker(hub.random_bytes)
        #: Whether a message that waits has nothing to be kept account of but its place.
        self._plain = settings.ttl is None and settings.overflow == "REJECT"
        self.live: dict[bytes, Message] = {}
        self.ready: int = 0
        self.delayed: int = 0
        self.bytes: int = 0
        self.enqueued: int = 0
        self.acked: int = 0
        self.delivered = self.retried = self.duplicates = self.expired_leases = 0
        self._line = Line()
        self._delays = delays()
        self._lapsing = lapses()
        #: Only there under DROPHEAD.
        self._eviction = EvictionOrder() if settings.overflow == "DROPHEAD" else None
        self.leases = Leases()
        self.dead = DeadLetters(settings.max_dead, hub)
        self._window = DedupeWindow(settings.dedupe)
        self.requests: dict[RequestKey, Request] = {}
        #: Who takes what becomes ready, the one at the head first.
        self.takers: OrderedDict[Taker, None] = OrderedDict()
        self.consumers: dict[Consumer, None] = {}
        self._alarm = Alarm(hub.deadlines, self)

    # -- putting ---------------------------------------------------------------------------------------------------

    def put(self, body: bytes, id: bytes | None, priority: int, delay: int, extra: Extra | None) -> bytes | None:
        """Store a message and return its id, or None if it is a duplicate.

        Raises:
            QueueFullError: MAXLEN messages wait and OVERFLOW is REJECT.
        """
        now = self._hub.now
        if id is not None and self._is_duplicate(id):
            self.duplicates += 1
            return None
        if self.ready + self.delayed >= self.settings.max_len:
            self._make_room(1)
        if id is None:
            id = self._ids.make(now)
        else:
            self._ids.avoid(id)
            until = self._window.add(id, now)
            if until is not None:
                self._alarm.arm(until)
        message = Message(self.name, id, body, priority, now, extra)
        self.live[id] = message
        self.enqueued += 1
        self.bytes += message.size
        self._hub.used += message.size + MESSAGE_OVERHEAD
        self._enter(message, delay)
        return id

    def put_plain(self, bodies: Sequence[bytes], size: int) -> list[bytes]:
        """Store messages of `size` bytes in all in a plain queue that has room, by a shorter way; returns the ids."""
        hub = self._hub
        now = hub.now
        name, live, append, make_id = self.name, self.live, self._line.append, self._ids.make
        ids: list[bytes] = []
        for body in bodies:
            id = make_id(now)
            message = Message(name, id, body, 0, now, None)
            live[id] = message
            append(message)
            ids.append(id)
        self.bytes += size
        hub.used += size + len(ids) * MESSAGE_OVERHEAD
        self.enqueued += len(ids)
        self.ready += len(ids)
        if self.takers:
            hub.agenda[self] = None
        return ids

    def put_many(self, bodies: tuple[bytes, ...]) -> list[bytes]:
        """Store all of `bodies` and return their ids.

        Raises:
            QueueFullError: there is no room for all; none is stored.
        """
        self._make_room(len(bodies))
        if self._plain:
            return self.put_plain(bodies, sum(map(len, bodies)))
        # None doesn't come back: an id of our own is no duplicate.
        return [id for body in bodies if (id := self.put(body, None, 0, 0, None)) is not None]

    def _make_room(self, count: int) -> None:
        settings = self.settings
        excess = self.ready + self.delayed + count - settings.max_len
        if excess <= 0:
            return
        if settings.overflow == "REJECT" or count > settings.max_len:
            held = f"holds {self.ready + self.delayed} of at most {settings.max_len} messages"
            msg = f"queue '{quote(self.name)}' {held}, no room for {count} more: try again when some are done"
            raise QueueFullError(msg)
        for _ in range(excess):
            victim = None if self._eviction is None else self._eviction.pop()
            if victim is not None:
                self._withdraw(victim)
                self._bury(victim, "max_length", None)

    def _is_duplicate(self, id: bytes) -> bool:
        if id in self.live:
            return True
        now = self._hub.now
        return self._window.holds(id, now) or self._ids.made_since(id, now - self.settings.dedupe)

    # -- leasing and settling --------------------------------------------------------------------------------------

    def join(self, taker: Taker) -> None:
        """Stand at the end of the line."""
        self.takers[taker] = None
        if self.ready:
            self._hub.agenda[self] = None

    def take(self, count: int, duration: int | None, taken: list[Message]) -> None:
        """Lease up to `count` messages for `duration` (None: ACKTIMEOUT) and append them to `taken`."""
        hub = self._hub
        now = hub.now
        deadline = now + (self.settings.ack_timeout if duration is None else duration)
        leases = self.leases
        while count:
            message = self._line.pop()
            if message is None:
                break
            self.ready -= 1
            if message.expires_at:
                if message.expires_at <= now:
                    self._lapse(message)
                    continue
                message.expires_at = 0
            message.state = LEASED
            message.attempt += 1
            if message.lease is not None:
                leases.late.pop(message.lease, None)
            message.lease = token = hub.tokens.make()
            message.deadline = deadline
            if duration is None:
                leases.standard[token] = message
            else:
                leases.add_odd(message)
            taken.append(message)
            self.delivered += 1
            count -= 1
        if taken and deadline < self._alarm.at:
            self._alarm.arm(deadline)

    def ack(self, tokens: tuple[bytes, ...]) -> int:
        """Settle leases as done and return how many there were."""
        standard = self.leases.standard
        holders = self.leases.holders
        count = 0
        for token in tokens:
            message = standard.pop(token, None)
            if message is None:
                message = self.leases.pop_odd(token)
                if message is None:
                    message = self.leases.late.get(token)
                    if message is None:
                        continue
                    self._withdraw(message)
            if holders:
                self.leases.end_hold(token)
            self._discard(message)
            count += 1
        self.acked += count
        return count

    def fail(self, token: bytes, delay: int | None, error: bytes | None) -> int:
        """Settle a lease as failed: back after `delay` (None: the backoff), or dead after the last attempt."""
        message = self._end_lease(token)
        if message is None:
            return 0
        message.lease = None
        self._retry(message, delay, error)
        return 1

    def reject(self, token: bytes, error: bytes | None) -> int:
        """Settle a lease by letting its message die."""
        message = self._end_lease(token)
        if message is None:
            return 0
        message.state = GONE
        self._bury(message, "rejected", error)
        return 1

    def give_back(self, token: bytes, delay: int | None = None) -> int:
        """Settle a lease as if it had not been: where it stood, or after `delay`, and the attempt isn't counted."""
        message = self._end_lease(token)
        if message is None:
            return 0
        message.lease = None
        message.attempt -= 1
        if delay:
            self._enter(message, delay)
            return 1
        self._start_ttl(message)
        message.state = READY
        message.since = self._hub.now
        self.ready += 1
        self._line.give_back(message)
        if self._eviction is not None:
            self._eviction.return_to_place(message)
        if self.takers:
            self._hub.agenda[self] = None
        return 1

    def undeliver(self, token: bytes) -> None:
        """Give back what never reached its client: not even the delivery counts."""
        self.delivered -= self.give_back(token)

    def touch(self, tokens: tuple[bytes, ...], duration: int | None) -> int:
        """Renew leases for `duration` (None: ACKTIMEOUT) from now and return how many there were."""
        deadline = self._hub.now + (self.settings.ack_timeout if duration is None else duration)
        count = 0
        for token in tokens:
            count += self.leases.renew(token, deadline, standard=duration is None)
        if count:
            self._alarm.arm(deadline)
        return count

    def _end_lease(self, token: bytes) -> Message | None:
        message = self.leases.pop(token)
        if message is not None and self.leases.holders:
            self.leases.end_hold(token)
        return message

    def _retry(self, message: Message, delay: int | None, error: bytes | None) -> None:
        if message.attempt >= self.settings.max_attempts:
            message.state = GONE
            self._bury(message, "max_attempts", error)
            return
        self.retried += 1
        self._enter(message, self.settings.backoff(message.attempt, self._hub.uniform) if delay is None else delay)

    # -- removing and reading --------------------------------------------------------------------------------------

    def delete(self, ids: tuple[bytes, ...]) -> int:
        """Remove live messages and return how many there were."""
        count = 0
        for id in ids:
            message = self.live.get(id)
            if message is None:
                continue
            if message.state == LEASED and message.lease is not None:
                self._end_lease(message.lease)
            else:
                self._withdraw(message)
            self._discard(message)
            count += 1
        return count

    def purge(self) -> int:
        """Drop what is ready or delayed and return how many that were; what is leased stays."""
        count = self.ready + self.delayed
        if not count:
            return 0
        hub = self._hub
        leased = {message.id: message for message in self.leases}
        leased_bytes = sum(message.size for message in leased.values())
        hub.used -= self.bytes - leased_bytes + count * MESSAGE_OVERHEAD
        hub.bury(self.live, *self._line.containers(), *self._delays.clear(), *self._lapsing.clear())
        hub.bury(self.leases.late)
        if self._eviction is not None:
            hub.bury(*self._eviction.clear())
        self.live = leased
        self.bytes = leased_bytes
        self.ready = self.delayed = 0
        self.leases.late = {}
        self._line.clear()
        return count

    def close(self) -> None:
        """Free everything; the queue is not used afterwards."""
        self.purge()
        for token in list(self.leases.holders):
            # The holder may be another queue's request.
            self.leases.end_hold(token)
        hub = self._hub
        self.dead.purge(())
        hub.used -= self.bytes + len(self.leases) * MESSAGE_OVERHEAD
        hub.bury(self.live, *self.leases.containers())
        hub.bury(*self._window.containers())
        hub.agenda.pop(self, None)
        self.requests.clear()
        self._alarm.disarm()

    def peek(self, state: int) -> Iterator[Message]:
        """The messages in `state` in the order in which they will be handed out, fall due or expire."""
        if state == READY:
            return iter(self._line)
        return iter(self._delays) if state == DELAYED else iter(self.leases)

    def oldest_ready_age(self) -> float | None:
        """Seconds since the message that has been ready for the longest became ready, or None."""
        oldest = self._line.oldest()
        return None if oldest is None else (self._hub.now - oldest.since) / 1000

    # -- death -----------------------------------------------------------------------------------------------------

    def replay(self, ids: tuple[bytes, ...]) -> int:
        """Put dead letters (all, if no ids are given) back at the end of their priority with a fresh attempt count."""
        count = 0
        for id in ids or [letter.message.id for letter in self.dead]:
            letter = None if id in self.live else self.dead.take_for_replay(id, latest=bool(ids))
            if letter is None:
                continue
            old = letter.message
            message = Message(self.name, old.id, old.body, old.priority, self._hub.now, old.extra)
            message.enqueued_at = old.enqueued_at
            self.live[message.id] = message
            self.bytes += message.size
            self._enter(message, 0)
            count += 1
        return count

    def _bury(self, message: Message, reason: Reason, error: bytes | None) -> None:
        """A message that is in no structure but `live` any more becomes a dead letter."""
        del self.live[message.id]
        self.bytes -= message.size
        message.lease = None
        letter = DeadLetter(message, reason, error, self._hub.now)
        self.dead.add(letter)
        self._hub.obituaries.add(letter)

    # -- time ------------------------------------------------------------------------------------------------------

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
            self._retry(message, None, b"ack timeout")
            if message.state == GONE:
                del self.leases.late[token]
        while hub.budget > 0 and (at := self._lapsing.next()) is not None and at <= now:
            hub.budget -= 1
            lapsed = self._lapsing.pop_next()
            if lapsed is not None:
                self._withdraw(lapsed)
                self._lapse(lapsed)
        while hub.budget > 0 and (at := self._delays.next()) is not None and at <= now:
            hub.budget -= 1
            promoted = self._delays.pop_next()
            if promoted is not None:
                self.delayed -= 1
                self._make_ready(promoted)
        self._window.forget(now)
        self._rearm()

    def _rearm(self) -> None:
        moments = (
            self.leases.next_expiry(),
            self._lapsing.next(),
            self._delays.next(),
            self._window.next_end(),
        )
        when = min((moment for moment in moments if moment is not None), default=None)
        if when is not None:
            self._alarm.arm(max(when, self._hub.now))

    # -- changes of state ------------------------------------------------------------------------------------------

    def _enter(self, message: Message, delay: int) -> None:
        """The message begins to wait at the back: ready, or ready after `delay`."""
        self._start_ttl(message)
        if delay:
            message.state = DELAYED
            message.deadline = due = self._hub.now + delay
            self.delayed += 1
            self._delays.add(due, message)
            self._alarm.arm(due)
            if self._eviction is not None:
                self._eviction.enter(message)
        else:
            self._make_ready(message)

    def _make_ready(self, message: Message) -> None:
        message.state = READY
        message.order = 0
        message.since = self._hub.now
        self.ready += 1
        if self._eviction is not None:
            self._eviction.enter(message)
        self._line.append(message)
        if self.takers:
            self._hub.agenda[self] = None

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
        size = len(message.body) if message.extra is None else message.size
        self.bytes -= size
        self._hub.used -= size + MESSAGE_OVERHEAD
        # A stale entry in a heap may hold the message for a while: not its body.
        message.body = b""
        message.extra = None
