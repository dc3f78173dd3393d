"""The broker in the program's own process."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from itertools import islice
from typing import TYPE_CHECKING

from respmq.api.bodies import octets, text
from respmq.api.results import BrokerStats, PublishResult, PutResult, QueueStats
from respmq.api.settings import QueueConfig, milliseconds
from respmq.errors import BrokerUnavailableError, InvalidRequestError
from respmq.local import arguments as given
from respmq.local.asynchronous import AsynchronousBroker
from respmq.local.conversion import to_broker_stats, to_dead_letter, to_delivery, to_queue_stats
from respmq.local.deliveries import Deliveries
from respmq.local.lifecycle import Lifecycle
from respmq.local.loading import load_file
from respmq.local.saving import save_file
from respmq.local.sinks import Feed, FunctionSink, SubscriberSink, check_function

if TYPE_CHECKING:
    import os
    from collections.abc import Callable

    from respmq.api.bodies import Body
    from respmq.api.messages import DeadLetter, Delivery, Event
    from respmq.core.exchanges import ExchangeKind
    from respmq.core.model import Message
    from respmq.core.waiting import LeaseWait

_KINDS = ("FANOUT", "DIRECT", "TOPIC")


class Broker(Lifecycle):
    """A broker in the program's own process: the one that the server runs, on Trio's clock.

    ```python
    async with Broker() as broker:
        broker.declare_queue("jobs")
        broker.put("jobs", {"photo": 1007})
    ```

    Nothing here waits, so all methods are ordinary functions. They have to be called in the Trio task tree in which the
    broker was opened, never from other threads (`trio.from_thread.run_sync` brings a call over). Names, ids and headers
    are `str`, durations seconds. What can't be done raises a `BrokerError` and changes nothing; all methods raise
    `BrokerUnavailableError` before the broker is opened and after it is closed.

    Sinks (of `consume` and `subscribe`) are functions that are called before the method returns that made them have
    something to get: `put` has called the consumer, `publish` the subscribers, and a `nack` that kills a message those
    of `$sys.dead.`. A sink may call the broker; the sinks that this concerns are called once it has returned.
    """

    def __init__(self) -> None:
        super().__init__()
        self._subscriptions = 0
        self._subscribers: dict[str, tuple[bytes, SubscriberSink]] = {}
        self._consumers: dict[str, FunctionSink | Feed] = {}
        self._waits: set[LeaseWait] = set()
        self._asynchronous = AsynchronousBroker(self, self._acting, self._waits)

    def asynchronous(self) -> AsynchronousBroker:
        """The same broker with the asynchronous methods that a `Client` has, for programs that work with both."""
        return self._asynchronous

    def _forget(self, error: BrokerUnavailableError) -> None:
        for sink in self._consumers.values():
            sink.stop()
        for wait in list(self._waits):
            wait.resolve(error)

    # -- queues ----------------------------------------------------------------------------------------------------

    def declare_queue(self, name: str, config: QueueConfig | None = None) -> None:
        """Create a queue, or confirm that it exists with equal settings (None: the defaults).

        Raises:
            InvalidNameError: not a possible queue name.
            QueueConfigConflictError: it exists with other settings.
        """
        with self._acting() as core:
            core.declare(given.name(name), (config or QueueConfig()).to_settings())

    def queue_config(self, name: str) -> QueueConfig:
        """The settings of a queue.

        Raises:
            QueueNotFoundError: no such queue.
        """
        with self._acting() as core:
            return QueueConfig.from_settings(core.settings(given.name(name)))

    def delete_queue(self, name: str) -> None:
        """Delete a queue with all that is in it, its bindings and its consumers.

        Raises:
            QueueNotFoundError: no such queue.
        """
        with self._acting() as core:
            core.delete(given.name(name))
            self._consumers = {tag: sink for tag, sink in self._consumers.items() if sink.active}

    def purge_queue(self, name: str) -> int:
        """Drop what is ready or delayed and return how many messages that were; what is leased stays.

        Raises:
            QueueNotFoundError: no such queue.
        """
        with self._acting() as core:
            return core.purge(given.name(name))

    def list_queues(self) -> list[str]:
        """The names of all queues, sorted."""
        with self._acting() as core:
            return [text(name) for name in core.names()]

    def stats(self, queue: str) -> QueueStats:
        """The state of a queue, and what has happened in it.

        Raises:
            QueueNotFoundError: no such queue.
        """
        with self._acting() as core:
            return to_queue_stats(core.stats(given.name(queue)))

    def broker_stats(self) -> BrokerStats:
        """Counts over the whole broker."""
        with self._acting() as core:
            return to_broker_stats(core.broker_stats())

    # -- messages --------------------------------------------------------------------------------------------------

    def put(
        self,
        queue: str,
        body: Body,
        *,
        id: str | None = None,
        priority: int = 0,
        headers: Mapping[str, str] | None = None,
        attachments: Sequence[bytes] = (),
        delay: float = 0.0,
        ttl: float | None = None,
    ) -> PutResult:
        """Store a message.

        Args:
            queue: the queue.
            body: `str`, `bytes` or a JSON value; what `Delivery.body` gives back.
            id: 1 to 255 bytes; a message whose id was put before is a duplicate, and not stored. None makes one.
            priority: the lower number goes first.
            headers: names and values.
            attachments: blobs beside the body.
            delay: seconds until it is ready.
            ttl: seconds that it may wait until it dies; it can only shorten the queue's.

        Raises:
            QueueNotFoundError: no such queue.
            QueueFullError: the queue holds `max_len` messages and rejects.
            InvalidRequestError: the body can't be encoded, an argument is out of its range, or the delay is not below
                the TTL.
        """
        raw, encoded, blobs = given.content(body, headers, attachments)
        chosen = None if id is None else given.sized(id, "message id")
        rest = given.rare(encoded, blobs, ttl)
        wait = milliseconds(delay, "delay")
        with self._acting() as core:
            made = core.put(given.name(queue), raw, chosen, given.priority(priority), wait, rest)
        return PutResult(id or "", duplicate=True) if made is None else PutResult(text(made), duplicate=False)

    def lease(self, queue: str, *, count: int = 1) -> list[Delivery]:
        """Lease up to `count` messages, none if nothing is ready.

        Raises:
            QueueNotFoundError: no such queue.
            InvalidRequestError: `count` is below 1.
        """
        with self._acting() as core:
            taken: list[Message] = []
            core.find(given.name(queue)).take(given.count(count, "count"), None, taken)
        return [to_delivery(message, self._asynchronous) for message in taken]

    def consume(self, queue: str, sink: Callable[[Delivery], object], *, prefetch: int = 10) -> str:
        """Call `sink` with each message as long as fewer than `prefetch` are unsettled.

        A sink that raises is logged, and its message has failed (`sink failed`). One that returns has settled nothing:
        it, or somebody else, acks or nacks the lease.

        Returns:
            The consumer's tag, for `cancel`: `ctag-1`, `ctag-2`, ...

        Raises:
            QueueNotFoundError: no such queue.
            InvalidRequestError: `prefetch` is below 1, or the sink is an async function.
        """
        check_function(sink)
        machine = self._machine()
        return self._add_consumer(queue, FunctionSink(sink, machine, self._asynchronous), prefetch)

    def deliveries(self, queue: str, *, prefetch: int = 10) -> Deliveries:
        """The messages of a queue, to iterate over: `async for delivery in broker.deliveries("jobs"):`.

        Args:
            queue: the queue.
            prefetch: how many messages are leased and unsettled at most. Their leases run from then on.

        Raises:
            QueueNotFoundError: no such queue.
            InvalidRequestError: `prefetch` is below 1.
        """
        feed = Feed(self._asynchronous)
        return Deliveries(self._add_consumer(queue, feed, prefetch), feed, self._end_consumer)

    def _add_consumer(self, queue: str, sink: FunctionSink | Feed, prefetch: int) -> str:
        with self._acting() as core:
            tag = text(core.consume(given.name(queue), given.count(prefetch, "prefetch"), sink).tag)
            self._consumers[tag] = sink
        return tag

    def cancel(self, tag: str) -> int:
        """End a consumer; what it has unsettled goes back, as failed (`consumer removed`). Returns how many those were.

        What `deliveries` has not been asked for yet goes back as if it had not been handed out.

        Raises:
            InvalidRequestError: no such consumer.
        """
        with self._acting() as core:
            sink = self._consumers.pop(tag, None)
            untouched = 0
            if sink is not None:
                sink.stop()
                for delivery in sink.take_back():
                    untouched += core.release(given.name(delivery.queue), octets(delivery.lease, "lease"))
            return untouched + core.cancel(given.name(tag))

    def _end_consumer(self, tag: str) -> None:
        """End a consumer that may be gone already."""
        if self._open is not None and tag in self._consumers:
            self.cancel(tag)

    def ack(self, queue: str, lease: str) -> bool:
        """Settle a lease as done. False: it is stale.

        Raises:
            QueueNotFoundError: no such queue.
        """
        with self._acting() as core:
            return bool(core.ack(given.name(queue), (octets(lease, "lease"),)))

    def nack(
        self,
        queue: str,
        lease: str,
        *,
        requeue: bool = True,
        error: str | None = None,
        delay: float | None = None,
        release: bool = False,
    ) -> bool:
        """Settle a lease as failed: the message comes back after the queue's backoff, or dies after its last attempt.

        Args:
            queue: the queue.
            lease: the lease.
            requeue: False lets the message die now.
            error: kept with the dead letter, if the message dies of this.
            delay: seconds until it comes back, instead of the backoff; not with `requeue=False`.
            release: it is no failure: the attempt doesn't count, and without `delay` the message stands where it
                stood. Not with `requeue=False`.

        Returns:
            False if the lease is stale.

        Raises:
            QueueNotFoundError: no such queue.
            InvalidRequestError: the options don't go together.
        """
        if not requeue and (delay is not None or release):
            msg = "nack with requeue=False lets the message die now: it takes neither delay nor release"
            raise InvalidRequestError(msg)
        wait = None if delay is None else milliseconds(delay, "delay")
        name, token = given.name(queue), octets(lease, "lease")
        why = None if error is None else octets(error, "error")
        with self._acting() as core:
            if not requeue:
                return bool(core.reject(name, token, why))
            if release:
                return bool(core.release(name, token, wait))
            return bool(core.nack(name, token, wait, why))

    def touch(self, queue: str, lease: str, duration: float | None = None) -> bool:
        """Renew a lease for `duration` seconds (None: the queue's `ack_timeout`) from now. False: it is stale.

        Raises:
            QueueNotFoundError: no such queue.
            InvalidRequestError: the duration is out of its range.
        """
        millis = None if duration is None else milliseconds(duration, "duration", zero=False)
        with self._acting() as core:
            return bool(core.touch(given.name(queue), (octets(lease, "lease"),), millis))

    # -- topics ----------------------------------------------------------------------------------------------------

    def publish(
        self, topic: str, body: Body, *, headers: Mapping[str, str] | None = None, attachments: Sequence[bytes] = ()
    ) -> PublishResult:
        """Publish an event to those who have subscribed, and as a copy into the queues that are bound.

        Raises:
            InvalidTopicError: not a possible topic, or one of the broker's.
            InvalidRequestError: the body can't be encoded, or a header or an attachment can't be one.
        """
        raw, encoded, blobs = given.content(body, headers, attachments)
        with self._acting() as core:
            return PublishResult(*core.topics.publish(given.name(topic), raw, encoded, blobs))

    def subscribe(self, pattern: str, sink: Callable[[str, Event], object]) -> str:
        """Call `sink` with the subscription's name and each event whose topic matches, see `topic_matches`.

        A sink that raises is logged, and the others still get the event.

        Returns:
            The subscription's name, for `unsubscribe`: `sub-1`, `sub-2`, ...

        Raises:
            InvalidTopicError: not a possible pattern.
            InvalidRequestError: the sink is an async function.
        """
        check_function(sink)
        machine, encoded = self._machine(), given.name(pattern)
        with self._acting() as core:
            name = f"sub-{self._subscriptions + 1}"
            subscriber = SubscriberSink(name, sink, machine)
            core.topics.subscribe_pattern(encoded, subscriber)
            self._subscriptions += 1
            self._subscribers[name] = (encoded, subscriber)
        return name

    def unsubscribe(self, subscription: str) -> bool:
        """End a subscription. False: there is none of this name."""
        with self._acting() as core:
            pattern, subscriber = self._subscribers.pop(subscription, (b"", None))
            if subscriber is None:
                return False
            subscriber.stop()
            return core.topics.unsubscribe_pattern(pattern, subscriber)

    def bind(self, pattern: str, queue: str) -> bool:
        """Copy events whose topics match into a queue from now on. False: that was so.

        Raises:
            InvalidTopicError: not a possible pattern.
            QueueNotFoundError: no such queue.
        """
        with self._acting() as core:
            return core.topics.bind(given.name(pattern), given.name(queue))

    def unbind(self, pattern: str, queue: str) -> bool:
        """Copy them no longer. False: none were copied.

        Raises:
            InvalidTopicError: not a possible pattern.
            QueueNotFoundError: no such queue.
        """
        with self._acting() as core:
            return core.topics.unbind(given.name(pattern), given.name(queue))

    # -- exchanges -------------------------------------------------------------------------------------------------

    def declare_exchange(self, name: str, kind: ExchangeKind = "TOPIC") -> None:
        """Create an exchange, or confirm that it exists with the same kind.

        Args:
            name: its name.
            kind: `FANOUT` copies into all bound queues, `DIRECT` into those bound with the equal key, `TOPIC` into
                those bound with a pattern that matches.

        Raises:
            InvalidNameError: not a possible name.
            QueueConfigConflictError: it exists with another kind.
            InvalidRequestError: there is no such kind.
        """
        if kind not in _KINDS:
            msg = f"invalid kind {kind!r} of exchange '{name}': one of {', '.join(_KINDS)} is wanted"
            raise InvalidRequestError(msg)
        with self._acting() as core:
            core.exchanges.declare(given.name(name), kind)

    def bind_exchange(self, exchange: str, queue: str, key: str | None = None) -> bool:
        """Copy what is published to an exchange into a queue from now on. False: that was so.

        Args:
            exchange: the exchange.
            queue: the queue.
            key: which routing keys: a pattern for a `TOPIC` exchange, the key itself for a `DIRECT` one.

        Raises:
            ExchangeNotFoundError, QueueNotFoundError: no such exchange or queue.
            InvalidTopicError: the key of a `TOPIC` exchange is no pattern.
            InvalidRequestError: a `TOPIC` exchange needs a key.
        """
        with self._acting() as core:
            return core.exchanges.bind(given.name(exchange), given.name(queue), _key(key))

    def unbind_exchange(self, exchange: str, queue: str, key: str | None = None) -> bool:
        """Copy it no longer. False: it was not copied.

        Raises:
            BrokerError: as `bind_exchange`.
        """
        with self._acting() as core:
            return core.exchanges.unbind(given.name(exchange), given.name(queue), _key(key))

    def publish_exchange(
        self,
        exchange: str,
        key: str,
        body: Body,
        *,
        headers: Mapping[str, str] | None = None,
        attachments: Sequence[bytes] = (),
    ) -> int:
        """Copy a message into the queues that are bound for `key`; returns how many took one.

        Raises:
            ExchangeNotFoundError: no such exchange.
            InvalidTopicError: the key for a `TOPIC` exchange is neither a topic nor empty.
            InvalidRequestError: the body can't be encoded, or a header or an attachment can't be one.
        """
        raw, encoded, blobs = given.content(body, headers, attachments)
        with self._acting() as core:
            return core.exchanges.publish(given.name(exchange), given.name(key), raw, encoded, blobs)

    # -- dead letters ----------------------------------------------------------------------------------------------

    def dead_letters(self, queue: str, limit: int = 100) -> list[DeadLetter]:
        """The dead letters of a queue, oldest first, at most `limit`.

        Raises:
            QueueNotFoundError: no such queue.
            InvalidRequestError: `limit` is negative.
        """
        with self._acting() as core:
            letters = core.find(given.name(queue)).dead
            return [to_dead_letter(letter) for letter in islice(letters, given.count(limit, "limit", least=0))]

    def replay_dead(self, queue: str, ids: Iterable[str] | None = None) -> int:
        """Put dead letters (None: all) back into the queue with all their attempts; returns how many.

        Raises:
            QueueNotFoundError: no such queue.
        """
        with self._acting() as core:
            chosen = None if ids is None else given.ids(ids)
            # For the core, no ids are all of them.
            return core.replay_dead(given.name(queue), chosen or ()) if chosen != () else 0

    def purge_dead(self, queue: str, ids: Iterable[str] | None = None) -> int:
        """Remove dead letters (None: all) for good; returns how many there were.

        Raises:
            QueueNotFoundError: no such queue.
        """
        with self._acting() as core:
            chosen = None if ids is None else given.ids(ids)
            return core.purge_dead(given.name(queue), chosen or ()) if chosen != () else 0

    # -- saving ----------------------------------------------------------------------------------------------------

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write all queues, messages, dead letters, bindings and exchanges to a file, in one step: all or nothing.

        What is leased is saved as ready, where it stood. Consumers and subscriptions aren't saved. The event loop
        stands still meanwhile.

        Raises:
            OSError: the file can't be written; what was there before is still there.
        """
        with self._acting() as core:
            save_file(core, path)

    def load(self, path: str | os.PathLike[str]) -> None:
        """Take in what `save` has written, in one step: all or nothing. The broker must not have queues or exchanges.

        TTLs begin anew; a delay that was over in the meantime is over.

        Raises:
            OSError: the file can't be read.
            InvalidRequestError: the broker has queues or exchanges, or the file isn't what `save` writes.
        """
        with self._acting() as core:
            load_file(core, path)


def _key(key: str | None) -> bytes | None:
    return None if key is None else given.name(key)
