"""The broker: queues by name, and everything that involves more than one of them.

All methods act at the moment that `tick` was last given. They are synchronous and do all or nothing: an error means
that nothing has changed. Names, ids, tokens and bodies are bytes, durations and moments integer milliseconds.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from respmq.core.bounds import shown_letters, shown_messages
from respmq.core.deadlines import WAITER_RANK
from respmq.core.dispatch import Dispatch
from respmq.core.events import Router
from respmq.core.exchanges import Exchanges
from respmq.core.hub import NO_LIMIT, TICK_BUDGET, Hub
from respmq.core.load import load
from respmq.core.model import Description, describe_dead, describe_live
from respmq.core.stats import BrokerStats
from respmq.core.takers import serve_lines
from respmq.errors import InvalidRequestError, OutOfMemoryError, PersistenceError, TooBigError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from respmq.core.facts import Recorder
    from respmq.core.image import BrokerImage
    from respmq.core.model import Extra

#: How many deaths one call of `serve` announces, and how many times it hands out messages.
ANNOUNCE_AT_ONCE = 100
SERVE_AT_ONCE = 1_000
_UNLIMITED_BUDGET = 1 << 62


class Broker(Dispatch):
    """A broker.

    Args:
        now: the moment at which it starts, milliseconds since the epoch.
        random_bytes: `f(n)` gives n random bytes, for ids and tokens.
        uniform: `f(a, b)` gives a random number between a and b, for RETRYJITTER.
    """

    def __init__(
        self, now: int, random_bytes: Callable[[int], bytes], uniform: Callable[[float, float], float]
    ) -> None:
        hub = Hub(now, random_bytes, uniform)
        super().__init__(hub)
        #: What `serve` has to do: it is looked at after each command.
        self.unserved = hub.agenda
        #: Limits in bytes that the server's configuration may change at any time.
        self.max_message_size = NO_LIMIT
        self._max_memory = NO_LIMIT
        self.topics = Router(self.find, self._check_size, self._has_room, hub)
        self.exchanges = Exchanges(self.topics, self._check_size, self.find, hub)

    # -- time ------------------------------------------------------------------------------------------------------

    @property
    def now(self) -> int:
        """The moment at which everything happens."""
        return self._hub.now

    @property
    def used_memory(self) -> int:
        """Bytes that messages and dead letters take, as counted for `max_memory`."""
        return self._hub.used

    @property
    def max_memory(self) -> int:
        """How many bytes messages and dead letters may take."""
        return self._max_memory

    @max_memory.setter
    def max_memory(self, size: int) -> None:
        self._max_memory = size
        self.limit_room()

    def limit_room(self) -> None:
        """Find out anew how much may be stored before that has to be asked."""
        self._hub.limit = self._max_memory

    def record(self, recorder: Recorder | None) -> None:
        """Tell somebody every fact from now on, or nobody."""
        self._hub.recorder = recorder

    def load(self, image: BrokerImage, now: int) -> Iterator[None]:
        """Take over the state in `image` in place of none, in steps; what fell due since it was made does so in a tick.

        Args:
            image: it is used up.
            now: the moment at which the broker goes on; not later than the first tick's.
        """
        self._hub.now = now
        yield from load(image, self._hub, self._queues, self.topics, self.exchanges)

    def tick(self, now: int) -> int | None:
        """Move to `now` and do what fell due on the way, each thing at its own moment.

        Returns the moment of the next deadline, None if there is none. A tick does a bounded amount of work: if more
        is due, the moment that it returns is not later than `now`.
        """
        self._hub.budget = TICK_BUDGET
        return self._run_until(now)

    def advance(self, now: int) -> None:
        """Move to `now` like `tick`, but do all that falls due, however much it is."""
        self._hub.budget = _UNLIMITED_BUDGET
        self._run_until(now)

    def end_waits(self, now: int) -> None:
        """Answer those whose wait is over at `now`, though this isn't the moment yet and all else has to wait."""
        for waiter in self._hub.deadlines.take_due(WAITER_RANK, now):
            waiter.due()

    def _run_until(self, now: int) -> int | None:
        hub = self._hub
        deadlines = hub.deadlines
        hub.work_off()
        while hub.budget > 0:
            when = deadlines.next()
            if hub.agenda and (when is None or when > hub.now or deadlines.next_rank() == WAITER_RANK):
                # Not before all queues have come to this moment: a client may wait on several of them.
                self.serve()
                continue
            if when is None or when > now:
                break
            hub.now = max(hub.now, when)
            due = deadlines.pop_due(when)
            if due is not None:
                hub.budget -= 1
                due.due()
        if hub.agenda:
            self.serve()
        hub.now = max(hub.now, now)
        hub.dig()
        if hub.graveyard or hub.agenda or hub.chores:
            return hub.now
        return deadlines.next()

    # -- queues ----------------------------------------------------------------------------------------------------

    def delete(self, name: bytes) -> int:
        """Delete a queue with all that is in it; whoever waits for it is told. Returns 1.

        Raises:
            QueueNotFoundError: no such queue.
        """
        queue = self.find(name)
        del self._queues[name]
        for consumer in queue.consumers:
            del self._consumers[consumer.tag]
        for taker in dict.fromkeys([*queue.takers, *queue.consumers]):
            taker.queue_deleted(queue)
        self.topics.forget_queue(name)
        self.exchanges.forget_queue(name)
        queue.close()
        return 1

    def broker_stats(self) -> BrokerStats:
        """Counts over the whole broker."""
        return BrokerStats(
            queues=len(self._queues),
            subscriptions=self.topics.subscriptions,
            bindings=self.topics.bindings,
            binding_drops=self.topics.binding_drops,
        )

    # -- messages --------------------------------------------------------------------------------------------------

    def put(
        self,
        name: bytes,
        body: bytes,
        id: bytes | None = None,
        priority: int = 0,
        delay: int = 0,
        extra: Extra | None = None,
    ) -> bytes | None:
        """Store a message and return its id, or None if the id is a duplicate.

        Raises:
            QueueNotFoundError: no such queue.
            QueueFullError: MAXLEN messages wait and OVERFLOW is REJECT.
            TooBigError: it is above `max_message_size`.
            OutOfMemoryError: `max_memory` is used up.
            PersistenceError: the disk is full.
            InvalidRequestError: the delay is not below the TTL.
        """
        queue = self._queues.get(name)
        if queue is None:
            return self.declaring((name,), lambda: self.put(name, body, id, priority, delay, extra))
        size = len(body) if extra is None else len(body) + extra.size
        if size > self.max_message_size:
            self._check_size(size)
        if self._hub.used + size > self._hub.limit:
            self._check_room(size)
        if delay:
            _check_delay(delay, queue.settings.ttl, None if extra is None else extra.ttl)
        return queue.put(body, id, priority, delay, extra)

    def put_many(self, name: bytes, bodies: tuple[bytes, ...]) -> list[bytes]:
        """Store all of `bodies` or, on an error, none; return the ids.

        Raises:
            QueueNotFoundError: no such queue.
            QueueFullError: there is no room for all of them.
            TooBigError: one is above `max_message_size`.
            OutOfMemoryError: `max_memory` is used up.
        """
        queue = self._queues.get(name)
        if queue is None:
            return self.declaring((name,), lambda: self.put_many(name, bodies))
        size = max(map(len, bodies), default=0)
        if size > self.max_message_size:
            self._check_size(size)
        size = sum(map(len, bodies))
        if self._hub.used + size > self._hub.limit:
            self._check_room(size)
        return queue.put_many(bodies)

    def serve(self) -> None:
        """Hand ready messages to those who wait, the one who has waited longest first, and announce deaths.

        Of very many of them the first are done now, the others in the next calls. Announcements may have no end:
        one can push a message out of a full queue, whose death is announced in turn.
        """
        hub = self._hub
        agenda = hub.agenda
        announced = served = 0
        while agenda and served < SERVE_AT_ONCE:
            if hub.obituaries in agenda:
                if announced >= ANNOUNCE_AT_ONCE:
                    break
                del agenda[hub.obituaries]
                letters = hub.obituaries.take(ANNOUNCE_AT_ONCE)
                announced += len(letters)
                for letter in letters:
                    self.topics.announce(letter)
            served += serve_lines(agenda, SERVE_AT_ONCE - served)
        hub.budget -= announced + served
        if hub.obituaries:
            agenda[hub.obituaries] = None

    def undeliver(self, messages: Iterable[tuple[bytes, bytes]]) -> None:
        """Take back leases, as (queue, token), that never reached their client."""
        for name, token in messages:
            queue = self._queues.get(name)
            if queue is not None:
                queue.undeliver(token)
        self.serve()

    def ack(self, name: bytes, tokens: tuple[bytes, ...]) -> int:
        """Settle leases as done and return how many there were; stale ones count 0.

        Raises:
            QueueNotFoundError: no such queue.
        """
        queue = self._queues.get(name)
        return self.find(name).ack(tokens) if queue is None else queue.ack(tokens)

    def nack(self, name: bytes, token: bytes, delay: int | None = None, error: bytes | None = None) -> int:
        """Settle a lease as failed: the message is retried after `delay` (None: the backoff), or dies. 0: it was stale.

        Raises:
            QueueNotFoundError: no such queue.
            TooBigError: the error is above `max_message_size`.
        """
        queue = self.find(name)
        if error is not None:
            self._check_size(len(error), "error")
        return queue.fail(token, delay, error)

    def reject(self, name: bytes, token: bytes, error: bytes | None = None) -> int:
        """Settle a lease by letting its message die. 0: it was stale.

        Raises:
            QueueNotFoundError: no such queue.
            TooBigError: the error is above `max_message_size`.
        """
        queue = self.find(name)
        if error is not None:
            self._check_size(len(error), "error")
        return queue.reject(token, error)

    def release(self, name: bytes, token: bytes, delay: int | None = None) -> int:
        """Settle a lease as if it had not been: the message stands where it stood. 0: it was stale.

        Raises:
            QueueNotFoundError: no such queue.
        """
        return self.find(name).give_back(token, delay)

    def touch(self, name: bytes, tokens: tuple[bytes, ...], duration: int | None = None) -> int:
        """Renew leases for `duration` (None: ACKTIMEOUT) from now and return how many there were.

        Raises:
            QueueNotFoundError: no such queue.
        """
        return self.find(name).touch(tokens, duration)

    def peek(self, name: bytes, state: int, count: int, offset: int) -> list[Description]:
        """Descriptions of messages in `state`, in the order in which they are handed out, fall due or expire.

        There are at most `count` of them, and no more than one reply may hold.

        Raises:
            QueueNotFoundError: no such queue.
        """
        return [describe_live(m) for m in shown_messages(self.find(name).peek(state), offset, count)]

    def show(self, name: bytes, id: bytes) -> Description | None:
        """The description of a message by its id: the live one, else the latest dead one, else None.

        Raises:
            QueueNotFoundError: no such queue.
        """
        queue = self.find(name)
        message = queue.live.get(id)
        if message is not None:
            return describe_live(message)
        letter = queue.dead.latest(id)
        return None if letter is None else {**describe_dead(letter), "state": "dead"}

    def remove(self, name: bytes, ids: tuple[bytes, ...]) -> int:
        """Remove live messages by id and return how many there were.

        Raises:
            QueueNotFoundError: no such queue.
        """
        return self.find(name).delete(ids)

    # -- dead letters ----------------------------------------------------------------------------------------------

    def dead_letters(self, name: bytes, count: int, offset: int = 0) -> list[Description]:
        """Descriptions of dead letters, oldest first: at most `count`, and no more than one reply may hold.

        Raises:
            QueueNotFoundError: no such queue.
        """
        return [describe_dead(letter) for letter in shown_letters(self.find(name).dead, offset, count)]

    def dead_count(self, name: bytes) -> int:
        """How many dead letters a queue has.

        Raises:
            QueueNotFoundError: no such queue.
        """
        return len(self.find(name).dead)

    def pop_dead(self, name: bytes, count: int = 1) -> list[Description]:
        """Remove the oldest dead letters and return their descriptions: at most `count`, as many as one reply may hold.

        Raises:
            QueueNotFoundError: no such queue.
        """
        queue = self.find(name)
        return [describe_dead(letter) for letter in queue.pop_dead(len(shown_letters(queue.dead, 0, count)))]

    def replay_dead(self, name: bytes, ids: tuple[bytes, ...] = ()) -> int:
        """Put dead letters (without ids the oldest MOST_REPLAYED) back into the queue and return how many.

        Raises:
            QueueNotFoundError: no such queue.
        """
        return self.find(name).replay(ids)

    def purge_dead(self, name: bytes, ids: tuple[bytes, ...] = ()) -> int:
        """Remove dead letters (all without ids) and return how many there were.

        Raises:
            QueueNotFoundError: no such queue.
        """
        return self.find(name).purge_dead(ids)

    # -- limits ----------------------------------------------------------------------------------------------------

    def _check_size(self, size: int, what: str = "message") -> None:
        if size > self.max_message_size:
            msg = f"the {what} is {size} bytes, max-message-size allows {self.max_message_size}"
            raise TooBigError(msg)

    def _has_room(self, size: int) -> bool:
        if self._hub.used + size <= self._hub.limit:
            return True
        try:
            self._check_room(size)
        except (OutOfMemoryError, PersistenceError):
            return False
        return True

    def _check_room(self, size: int) -> None:
        """Make sure that `size` more bytes can be stored, since `hub.limit` says that this is to be asked.

        Raises:
            OutOfMemoryError: `max_memory` is used up.
            PersistenceError: what records the facts has no room.
        """
        if self._hub.used > self._max_memory:
            msg = (
                f"messages use {self._hub.used} bytes, maxmemory allows {self._max_memory}: "
                "lease and ack, purge, or raise maxmemory"
            )
            raise OutOfMemoryError(msg)
        self.make_room(size)

    def make_room(self, size: int) -> None:
        """Have whoever records the facts make room for `size` more bytes. Here nobody has to.

        Raises:
            PersistenceError: there is none.
        """


def _check_delay(delay: int, queue_ttl: int | None, own_ttl: int | None) -> None:
    for ttl, whose in ((own_ttl, "its TTL"), (queue_ttl, "the queue's TTL")):
        if ttl is not None and delay >= ttl:
            msg = (
                f"DELAY {delay / 1000:g}s is not below {whose} {ttl / 1000:g}s: "
                "the message would die before it is ready"
            )
            raise InvalidRequestError(msg)
