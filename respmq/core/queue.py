"""What is asked of one queue: putting, leasing, settling, removing, reading, and its dead letters.

Each method checks what has to be checked, then changes states by the methods of `Stock`, and tells the facts.
"""

from __future__ import annotations

from itertools import chain
from typing import TYPE_CHECKING

from respmq.core.bounds import MOST_BYTES, MOST_REPLAYED
from respmq.core.chores import Failures
from respmq.core.hub import MESSAGE_OVERHEAD, TICK_BUDGET
from respmq.core.leases import Leases
from respmq.core.model import DELAYED, GONE, LEASED, READY, DeadLetter, Extra, Message
from respmq.core.stock import Stock
from respmq.core.weight import remembered
from respmq.errors import QueueFullError, quote

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from respmq.core.facts import Return
    from respmq.core.requests import Request

#: To take the next of the leases with an own length takes about as long as to look at so many messages.
_ORDERED_COST = 16


class Queue(Stock):
    """A queue; its methods expect checked arguments and act at `hub.now`."""

    # -- putting ---------------------------------------------------------------------------------------------------

    def put(self, body: bytes, id: bytes | None, priority: int, delay: int, extra: Extra | None) -> bytes | None:
        """Store a message and return its id, or None if it is a duplicate.

        Raises:
            QueueFullError: MAXLEN messages wait and OVERFLOW is REJECT.
        """
        now = self._hub.now
        if id is not None and self._is_duplicate(id):
            self.duplicates += 1
            if self._hub.recorder is not None:
                self._hub.recorder.duplicate(self)
            return None
        if self.ready + self.delayed >= self.settings.max_len:
            self._make_room(1)
        chosen = id is not None
        if id is None:
            id = self.id_maker.make(now)
        else:
            if self.id_maker.avoid(id) and self._hub.recorder is not None:
                self._hub.recorder.renamed(self)
            until = self.window.add(id, now)
            if until is not None:
                self._hub.used += remembered(id)
                self._alarm.arm(until)
        message = Message(self.name, id, body, priority, now, extra)
        self.live[id] = message
        self.enqueued += 1
        self.bytes += message.size
        surplus = self._whole_surplus(message) if chosen or extra is not None else self._each
        message.surplus = surplus
        self._surplus += surplus
        self._hub.used += message.size + MESSAGE_OVERHEAD + surplus
        self._enter(message, delay)
        if self._hub.recorder is not None:
            self._hub.recorder.stored(self, message, chosen=chosen)
        return id

    def put_plain(self, bodies: Sequence[bytes], size: int) -> list[bytes]:
        """Store messages of `size` bytes in all in a plain queue that has room, by a shorter way; returns the ids."""
        hub = self._hub
        now = hub.now
        recorder = hub.recorder
        ids = self.id_maker.make_run(now, len(bodies))
        count = len(ids)
        rest = bodies[count:]
        if rest:
            size -= sum(map(len, rest))
        name, live, append = self.name, self.live, self._line.append
        recorded: list[Message] = []
        order = self._entered
        for place, id in enumerate(ids):
            message = Message(name, id, bodies[place], 0, now, None)
            order += 1
            message.order = order
            live[id] = message
            append(message)
            if recorder is not None:
                recorded.append(message)
        self._entered = order
        self.bytes += size
        hub.used += size + count * MESSAGE_OVERHEAD
        self.enqueued += count
        self.ready += count
        if recorder is not None:
            recorder.stored_plain(self, recorded)
        if self.takers:
            hub.agenda[self] = None
        return ids + self.put_plain(rest, sum(map(len, rest))) if rest else ids

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
        return self.window.holds(id, now) or self.id_maker.made_since(id, now - self.settings.dedupe)

    # -- leasing and settling --------------------------------------------------------------------------------------

    def take(self, count: int, duration: int | None, taken: list[Message]) -> None:
        """Lease up to `count` messages for `duration` (None: ACKTIMEOUT) and append them to `taken`.

        They are fewer if they come to MOST_BYTES.
        """
        hub = self._hub
        now = hub.now
        deadline = now + (self.settings.ack_timeout if duration is None else duration)
        leases = self.leases
        begin = len(taken)
        room = MOST_BYTES
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
            if count:
                room -= len(message.body) if message.extra is None else message.size
                if room <= 0:
                    break
        if len(taken) > begin:
            if hub.recorder is not None:
                hub.recorder.leased(self, taken[begin:] if begin else taken)
            if deadline < self._alarm.at:
                self._alarm.arm(deadline)

    def ack(self, tokens: tuple[bytes, ...]) -> int:
        """Settle leases as done and return how many there were."""
        standard = self.leases.standard
        holders = self.leases.holders
        done: list[Message] = []
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
            done.append(message)
        if done and self._hub.recorder is not None:
            self._hub.recorder.acked(self, done)
        for message in done:
            self._discard(message)
        self.acked += len(done)
        return len(done)

    def fail(self, token: bytes, delay: int | None, error: bytes | None) -> int:
        """Settle a lease as failed: back after `delay` (None: the backoff), or dead after the last attempt."""
        message = self._end_lease(token)
        if message is None:
            return 0
        message.lease = None
        self._retry(message, delay, error, "failed")
        return 1

    def fail_many(self, tokens: Sequence[bytes], error: bytes) -> None:
        """Settle leases as failed: the first of them now, very many little by little."""
        chore = Failures(self, tokens, error)
        if chore.work(TICK_BUDGET) == TICK_BUDGET:
            self._hub.chores.append(chore)

    def reject(self, token: bytes, error: bytes | None) -> int:
        """Settle a lease by letting its message die."""
        message = self._end_lease(token)
        if message is None:
            return 0
        message.state = GONE
        self._bury(message, "rejected", error)
        return 1

    def give_back(self, token: bytes, delay: int | None = None, how: Return = "released") -> int:
        """Settle a lease as if it had not been: where it stood, or after `delay`, and the attempt isn't counted."""
        message = self._end_lease(token)
        if message is None:
            return 0
        message.lease = None
        message.attempt -= 1
        if delay:
            self._enter(message, delay)
        else:
            self._start_ttl(message)
            message.state = READY
            message.since = self._hub.now
            self.ready += 1
            self._line.give_back(message)
            if self._eviction is not None:
                self._eviction.add(message)
            if self.takers:
                self._hub.agenda[self] = None
        if self._hub.recorder is not None:
            self._hub.recorder.returned(self, message, how)
        return 1

    def record_request(self, request: Request) -> None:
        """Have it written down what a request of this queue's book has leased."""
        if self._hub.recorder is not None:
            self._hub.recorder.requested(self, request)

    def undeliver(self, token: bytes) -> None:
        """Give back what never reached its client: not even the delivery counts. What another one has, too, stays."""
        holder = self.leases.holders.get(token)
        if holder is None or not holder.keeps(token):
            self.delivered -= self.give_back(token, None, "undelivered")

    def touch(self, tokens: tuple[bytes, ...], duration: int | None) -> int:
        """Renew leases for `duration` (None: ACKTIMEOUT) from now and return how many there were."""
        deadline = self._hub.now + (self.settings.ack_timeout if duration is None else duration)
        renewed: list[Message] = []
        for token in tokens:
            message = self.leases.renew(token, deadline, standard=duration is None)
            if message is not None:
                renewed.append(message)
        if renewed:
            self._alarm.arm(deadline)
            if self._hub.recorder is not None:
                self._hub.recorder.touched(self, renewed)
        return len(renewed)

    # -- removing and reading --------------------------------------------------------------------------------------

    def delete(self, ids: tuple[bytes, ...]) -> int:
        """Remove live messages and return how many there were."""
        removed = [message for id in dict.fromkeys(ids) if (message := self.live.get(id)) is not None]
        if removed and self._hub.recorder is not None:
            self._hub.recorder.removed(self, removed)
        for message in removed:
            if message.state == LEASED and message.lease is not None:
                self._end_lease(message.lease)
            else:
                self._withdraw(message)
            self._discard(message)
        return len(removed)

    def purge(self) -> int:
        """Drop what is ready or delayed and return how many that were; what is leased stays."""
        count = self.ready + self.delayed
        if not count:
            return 0
        hub = self._hub
        if hub.recorder is not None:
            hub.recorder.purged(self)
        before = self.bytes + self._surplus
        # Whatever there is less of is walked over.
        if count < len(self.leases):
            for message in chain(self._line, self._delays):
                del self.live[message.id]
                self.bytes -= message.size
                self._surplus -= message.surplus
        else:
            hub.bury(self.live)
            self.live = {message.id: message for message in self._leased()}
            self.bytes = sum(message.size for message in self.live.values())
            self._surplus = sum(message.surplus for message in self.live.values())
        hub.used -= before - self.bytes - self._surplus + count * MESSAGE_OVERHEAD
        hub.bury(*self._line.containers(), *self._delays.clear(), *self._lapsing.clear(), self.leases.late)
        if self._eviction is not None:
            hub.bury(*self._eviction.clear())
        self.ready = self.delayed = 0
        self.leases.late = {}
        self._line.clear()
        return count

    def _leased(self) -> Iterable[Message]:
        """What is leased, in any order, by a short way: there may be very many."""
        odd = len(self.leases) - len(self.leases.standard)
        if not odd:
            return self.leases.standard.values()
        if odd * _ORDERED_COST < len(self.live):
            return self.leases
        return [message for message in self.live.values() if message.state == LEASED]

    def close(self) -> None:
        """Free everything; the queue takes no part in anything afterwards."""
        hub = self._hub
        if hub.recorder is not None:
            hub.recorder.deleted(self)
        for token, holder in self.leases.holders.items():
            # It may be another queue's request.
            holder.ended(token)
        self.dead.clear()
        hub.used -= self.bytes + self._surplus + len(self.live) * MESSAGE_OVERHEAD + self.window.used
        hub.bury(self.live, *self._line.containers(), *self._delays.clear(), *self._lapsing.clear())
        hub.bury(*self.leases.containers(), self.leases.holders, *self.window.containers())
        if self._eviction is not None:
            hub.bury(*self._eviction.clear())
        # Even empty they are large, and the queue may be kept for long by what refers to it.
        self.live = {}
        self._line.clear()
        # What is left to be done for the leases of a consumer that has gone finds none.
        self.leases = Leases()
        hub.agenda.pop(self, None)
        self.requests.clear()
        self._alarm.close()

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
        """Put dead letters back at the end of their priority with a fresh attempt count.

        If no ids are given, all of them, but no more than MOST_REPLAYED, the oldest first.
        """
        count = 0
        for id in ids or [letter.message.id for letter in self.dead]:
            if count >= MOST_REPLAYED and not ids:
                break
            letter = None if id in self.live else self.dead.take(id, latest=bool(ids))
            if letter is None:
                continue
            old = letter.message
            message = Message(self.name, old.id, old.body, old.priority, self._hub.now, old.extra)
            message.enqueued_at = old.enqueued_at
            self.live[message.id] = message
            self.bytes += message.size
            self._hub.used += message.size + MESSAGE_OVERHEAD
            self._add_surplus(message, self._whole_surplus(message))
            self._enter(message, 0)
            if self._hub.recorder is not None:
                self._hub.recorder.replayed(self, letter, message)
            count += 1
        return count

    def pop_dead(self, count: int) -> list[DeadLetter]:
        """Remove and return the oldest dead letters."""
        letters = self.dead.pop(count)
        if letters and self._hub.recorder is not None:
            self._hub.recorder.dead_removed(self, letters, dropped=False)
        return letters

    def purge_dead(self, ids: tuple[bytes, ...]) -> int:
        """Remove dead letters (all, if no ids are given) and return how many there were."""
        recorder = self._hub.recorder
        if not ids:
            if recorder is not None and self.dead:
                recorder.dead_cleared(self)
            return self.dead.clear()
        letters = self.dead.remove(ids)
        if letters and recorder is not None:
            recorder.dead_removed(self, letters, dropped=False)
        return len(letters)
