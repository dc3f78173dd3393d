"""What a client gets without asking for it each time: events of its subscriptions, and messages of its consumers.

Events are written at once while the client keeps up. Once its socket takes no more, up to `max-pending` of them wait
for each subscription, and then the oldest goes: a slow subscriber costs nobody but itself. Messages of consumers are
never dropped. So a client that doesn't take what it was sent gets no more of them: its consumers leave their lines, and
others get the messages meanwhile.
"""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING

from respmq.core.topics import check_pattern, check_topic
from respmq.errors import InvalidRequestError, quote
from respmq.resp.writer import encode_array, encode_push

if TYPE_CHECKING:
    from collections.abc import Sequence

    from respmq.commands.context import SubscriptionKind
    from respmq.core.consumers import Consumer
    from respmq.core.events import Event
    from respmq.core.model import Description, Message
    from respmq.resp.values import Answer
    from respmq.server.client import Client

#: How many bytes of waiting events are written at a time, when the client reads again, and about how many of messages.
_AT_ONCE = 256 * 1024


class Subscriptions:
    """The subscriptions of one session of one kind. `kind` is the word of their frames: message, pmessage, smessage."""

    __slots__ = ("_mailbox", "kind", "pending")

    def __init__(self, mailbox: Mailbox, kind: bytes) -> None:
        self._mailbox: Mailbox | None = mailbox
        self.kind = kind
        #: By topic or pattern: the numbers of the events that wait.
        self.pending: dict[bytes, deque[int]] = {}

    def event(self, event: Event, pattern: bytes | None) -> None:
        """An event has come through one of the subscriptions."""
        mailbox = self._mailbox
        if mailbox is None:
            return
        resp3 = mailbox.session.resp3
        key = (self.kind, pattern, resp3)
        frame = event.frames.get(key)
        if frame is None:
            words: list[Answer] = (
                [self.kind, event.topic, event.body]
                if pattern is None
                else [self.kind, pattern, event.topic, event.body]
            )
            frame = event.frames[key] = encode_push(words) if resp3 else encode_array(words)
        mailbox.add(frame, self.pending[event.topic if pattern is None else pattern])

    def let_go(self) -> None:
        """Belong to nobody any more: no event comes again."""
        self._mailbox = None


class Mailbox:
    """Subscriptions and consumers of one session."""

    __slots__ = ("_count", "_held", "_waiting", "consumers", "drops", "patterns", "session", "shards", "topics")

    def __init__(self, session: Client) -> None:
        self.session = session
        self.topics = Subscriptions(self, b"message")
        self.patterns = Subscriptions(self, b"pmessage")
        self.shards = Subscriptions(self, b"smessage")
        self.consumers: dict[bytes, Consumer] = {}
        #: Whether the consumers are held back until the client has taken what it was sent.
        self._held = False
        #: How many events were dropped.
        self.drops = 0
        #: Events that wait for the client to read, by number, each with the list in which its subscription counts it.
        self._waiting: dict[int, tuple[bytes, deque[int]]] = {}
        self._count = 0

    @property
    def in_use(self) -> bool:
        """Whether there is a subscription or a consumer: in RESP2 little else is allowed then."""
        return bool(self.topics.pending or self.patterns.pending or self.shards.pending or self.consumers)

    # -- subscriptions ---------------------------------------------------------------------------------------------

    def names(self, kind: SubscriptionKind) -> list[bytes]:
        """The topics or patterns of one kind of subscription."""
        return list(self._of(kind).pending)

    def subscribe(self, kind: SubscriptionKind, names: Sequence[bytes]) -> list[tuple[bytes, int]]:
        """Subscribe to all of `names` or, on an error, to none; returns each with the number of subscriptions then.

        Raises:
            InvalidTopicError: one is not a possible topic or pattern.
        """
        for name in names:
            (check_pattern if kind == "pattern" else check_topic)(name)
        topics = self.session.engine.topics
        add = {"topic": topics.subscribe, "pattern": topics.subscribe_pattern, "shard": topics.shards.subscribe}[kind]
        subscriptions = self._of(kind)
        counted: list[tuple[bytes, int]] = []
        for name in names:
            if add(name, subscriptions):
                subscriptions.pending[name] = deque()
            counted.append((name, self._number(kind)))
        self.session.refresh()
        return counted

    def unsubscribe(self, kind: SubscriptionKind, names: Sequence[bytes]) -> list[tuple[bytes | None, int]]:
        """End subscriptions, all of the kind if no names are given; returns each with the number that is left then."""
        self.relieve_all()
        topics = self.session.engine.topics
        remove = {
            "topic": topics.unsubscribe,
            "pattern": topics.unsubscribe_pattern,
            "shard": topics.shards.unsubscribe,
        }[kind]
        subscriptions = self._of(kind)
        counted: list[tuple[bytes | None, int]] = []
        for name in names or self.names(kind):
            if remove(name, subscriptions):
                del subscriptions.pending[name]
            counted.append((name, self._number(kind)))
        self.session.refresh()
        return counted or [(None, self._number(kind))]

    def _of(self, kind: SubscriptionKind) -> Subscriptions:
        return {"topic": self.topics, "pattern": self.patterns, "shard": self.shards}[kind]

    def _number(self, kind: SubscriptionKind) -> int:
        if kind == "shard":
            return len(self.shards.pending)
        return len(self.topics.pending) + len(self.patterns.pending)

    # -- events ----------------------------------------------------------------------------------------------------

    def add(self, frame: bytes, pending: deque[int]) -> None:
        """Send an event, or let it wait in the line of its subscription."""
        session = self.session
        if not session.congested and not self._waiting:
            session.out.append(frame)
            session.wake()
            return
        self._count += 1
        self._waiting[self._count] = (frame, pending)
        pending.append(self._count)
        if len(pending) > session.server.config.max_pending:
            del self._waiting[pending.popleft()]
            self.drops += 1
            session.server.event_drops += 1

    def relieve(self, most: int = _AT_ONCE) -> bool:
        """Move events that wait to the answers, about `most` bytes of them; whether there were any."""
        moved: list[int] = []
        for number, (frame, pending) in self._waiting.items():
            if most <= 0:
                break
            most -= len(frame)
            self.session.out.append(frame)
            pending.popleft()
            moved.append(number)
        for number in moved:
            del self._waiting[number]
        return bool(moved)

    def relieve_all(self) -> None:
        """Move all events that wait to the answers, since what comes now must come behind them."""
        if self._waiting:
            session = self.session
            session.out_size += sum(len(frame) for frame, _ in self._waiting.values())
            session.stalled = session.out_size > session.server.config.client_output_buffer_limit
            self.relieve(1 << 62)

    # -- consumers -------------------------------------------------------------------------------------------------

    def consume(self, queue: bytes, prefetch: int, *, full: bool) -> bytes:
        """Begin to consume a queue; returns the consumer's tag.

        Raises:
            QueueNotFoundError: no such queue.
        """
        consumer = self.session.engine.consume(queue, prefetch, self, full)
        self.consumers[consumer.tag] = consumer
        if self._held:
            consumer.hold()
        self.session.refresh()
        return consumer.tag

    def cancel(self, tag: bytes) -> int:
        """End a consumer of this connection; returns how many leases were given back.

        Raises:
            InvalidRequestError: this connection has no such consumer.
        """
        if tag not in self.consumers:
            msg = f"no consumer '{quote(tag)}' on this connection: only the one that made a consumer may cancel it"
            raise InvalidRequestError(msg)
        del self.consumers[tag]
        count = self.session.engine.cancel(tag)
        self.session.refresh()
        return count

    def deliver(self, consumer: Consumer, delivery: Message | Description) -> None:
        """A message for a consumer."""
        words: list[Answer] = (
            [b"deliver", consumer.tag, delivery]
            if isinstance(delivery, dict)
            else [
                b"deliver",
                consumer.tag,
                delivery.queue,
                delivery.id,
                delivery.lease or b"",
                delivery.attempt,
                delivery.body,
            ]
        )
        session = self.session
        session.out_size += self._push(words)
        if session.out_size > _AT_ONCE:
            self.hold_consumers()

    def hold_consumers(self) -> None:
        """Deliver nothing more until the client has taken what it was sent."""
        if not self._held:
            self._held = True
            for consumer in self.consumers.values():
                consumer.hold()

    def release_consumers(self) -> None:
        """The client has taken all that it was sent."""
        if self._held:
            self._held = False
            for consumer in self.consumers.values():
                consumer.go_on()

    def cancelled(self, consumer: Consumer, reason: str) -> None:
        """A consumer was removed though the client didn't ask for it."""
        self._push([b"cancelled", consumer.tag, reason])
        del self.consumers[consumer.tag]
        self.session.refresh()

    def _push(self, words: list[Answer]) -> int:
        """Send a push; returns its size."""
        session = self.session
        frame = encode_push(words) if session.resp3 else encode_array(words)
        session.out.append(frame)
        session.wake()
        return len(frame)

    # -- the end ---------------------------------------------------------------------------------------------------

    def end(self) -> None:
        """Undo everything for good, and let go of the parts that refer to this.

        The collector, which hardly ever runs, would have to find that out.
        """
        self.close()
        for subscriptions in (self.topics, self.patterns, self.shards):
            subscriptions.let_go()

    def close(self) -> None:
        """Undo everything: subscriptions are gone, leases are given back. Nothing is told to the client."""
        topics = self.session.engine.topics
        for topic in self.topics.pending:
            topics.unsubscribe(topic, self.topics)
        for pattern in self.patterns.pending:
            topics.unsubscribe_pattern(pattern, self.patterns)
        for topic in self.shards.pending:
            topics.shards.unsubscribe(topic, self.shards)
        for subscriptions in (self.topics, self.patterns, self.shards):
            subscriptions.pending.clear()
        for tag in list(self.consumers):
            self.session.engine.cancel(tag)
        self.consumers.clear()
        self._waiting.clear()
