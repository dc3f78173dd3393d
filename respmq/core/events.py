"""What is published: to subscribers, and as copies into bound queues; and the announcements of deaths."""

from __future__ import annotations

import json
from collections.abc import Mapping
from datetime import UTC, datetime
from types import MappingProxyType
from typing import TYPE_CHECKING, Protocol

from respmq.core.model import Extra
from respmq.core.topics import PatternTrie, check_pattern, check_topic
from respmq.errors import QueueFullError, TooBigError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from respmq.core.hub import Hub
    from respmq.core.model import DeadLetter
    from respmq.core.queue import Queue

DEAD_TOPIC = b"$sys.dead."
_NO_HEADERS: Mapping[bytes, bytes] = MappingProxyType({})


class Event:
    """Something published. `frames` is for those who write it: the same event goes to many in the same bytes.

    `headers` reach bound queues, and subscribers in the broker's own process; there is no place for them on the wire.
    """

    __slots__ = ("body", "frames", "headers", "topic")

    def __init__(self, topic: bytes, body: bytes, headers: Mapping[bytes, bytes] = _NO_HEADERS) -> None:
        self.topic = topic
        self.body = body
        self.headers = headers
        self.frames: dict[object, bytes] = {}


class Subscriber(Protocol):
    """Somebody who gets events."""

    def event(self, event: Event, pattern: bytes | None) -> None:
        """An event has come, through the subscription to `pattern` or (None) to the topic itself."""


class Channels:
    """Subscriptions to topics by name."""

    def __init__(self) -> None:
        self._topics: dict[bytes, dict[Subscriber, None]] = {}

    def subscribe(self, topic: bytes, subscriber: Subscriber) -> bool:
        """Send events of a topic to a subscriber; False if that was so.

        Raises:
            InvalidTopicError: not a possible topic.
        """
        check_topic(topic)
        subscribers = self._topics.setdefault(topic, {})
        if subscriber in subscribers:
            return False
        subscribers[subscriber] = None
        return True

    def unsubscribe(self, topic: bytes, subscriber: Subscriber) -> bool:
        """Send events of a topic to a subscriber no longer; False if none were sent."""
        subscribers = self._topics.get(topic, {})
        if subscriber not in subscribers:
            return False
        del subscribers[subscriber]
        if not subscribers:
            del self._topics[topic]
        return True

    def names(self, pattern: bytes | None = None) -> list[bytes]:
        """The topics (that match a pattern) to which somebody has subscribed.

        Raises:
            InvalidTopicError: not a possible pattern.
        """
        if pattern is None:
            return list(self._topics)
        check_pattern(pattern)
        trie: PatternTrie[None] = PatternTrie()
        trie.add(pattern, None)
        return [topic for topic in self._topics if any(True for _ in trie.match(topic))]

    def count(self, topic: bytes) -> int:
        """How many have subscribed to a topic."""
        return len(self._topics.get(topic, ()))

    def send(self, event: Event) -> int:
        """Send an event to all who have subscribed to its topic; returns how many they are."""
        subscribers = list(self._topics.get(event.topic, ()))
        for subscriber in subscribers:
            subscriber.event(event, None)
        return len(subscribers)


class Router:
    """Subscriptions and bindings. All names of topics, patterns and queues are checked here.

    Args:
        find: the queue with a name; raises QueueNotFoundError.
        check_size: raises TooBigError if a message of so many bytes is above the limit.
        has_room: whether there is room for a copy of so many bytes.
        hub: its obituaries are told whether there are subscriptions or bindings at all.
    """

    def __init__(
        self,
        find: Callable[[bytes], Queue],
        check_size: Callable[[int], None],
        has_room: Callable[[int], bool],
        hub: Hub,
    ) -> None:
        self._find = find
        self._check_size = check_size
        self._has_room = has_room
        self._hub = hub
        self.channels = Channels()
        #: What SPUBLISH reaches: subscriptions of their own, and no queues.
        self.shards = Channels()
        self._patterns: PatternTrie[tuple[Subscriber, bytes]] = PatternTrie()
        self._bound: PatternTrie[bytes] = PatternTrie()
        #: Patterns by queue, in the order in which they were bound.
        self._bindings: dict[bytes, dict[bytes, None]] = {}
        self._subscriptions = self._binding_count = self.binding_drops = 0

    @property
    def subscriptions(self) -> int:
        """How many subscriptions there are, to topics and to patterns."""
        return self._subscriptions

    @property
    def bindings(self) -> int:
        """How many bindings there are."""
        return self._binding_count

    def _count(self, *, subscriptions: int = 0, bindings: int = 0) -> None:
        self._subscriptions += subscriptions
        self._binding_count += bindings
        self._hub.obituaries.wanted = bool(self._subscriptions or self._binding_count)

    # -- subscriptions ---------------------------------------------------------------------------------------------

    def subscribe(self, topic: bytes, subscriber: Subscriber) -> bool:
        """Send events of a topic to a subscriber; False if that was so.

        Raises:
            InvalidTopicError: not a possible topic.
        """
        added = self.channels.subscribe(topic, subscriber)
        self._count(subscriptions=added)
        return added

    def unsubscribe(self, topic: bytes, subscriber: Subscriber) -> bool:
        """Send events of a topic to a subscriber no longer; False if none were sent."""
        removed = self.channels.unsubscribe(topic, subscriber)
        self._count(subscriptions=-removed)
        return removed

    def subscribe_pattern(self, pattern: bytes, subscriber: Subscriber) -> bool:
        """Send events of all topics that match a pattern to a subscriber; False if that was so.

        Raises:
            InvalidTopicError: not a possible pattern.
        """
        check_pattern(pattern)
        added = self._patterns.add(pattern, (subscriber, pattern))
        self._count(subscriptions=added)
        return added

    def unsubscribe_pattern(self, pattern: bytes, subscriber: Subscriber) -> bool:
        """Send events of a pattern to a subscriber no longer; False if none were sent."""
        removed = self._patterns.remove(pattern, (subscriber, pattern))
        self._count(subscriptions=-removed)
        return removed

    @property
    def pattern_count(self) -> int:
        """How many different patterns somebody has subscribed to."""
        return self._patterns.patterns

    # -- bindings --------------------------------------------------------------------------------------------------

    def bind(self, pattern: bytes, queue: bytes) -> bool:
        """Copy events that match a pattern into a queue; False if that was so.

        Raises:
            InvalidTopicError: not a possible pattern.
            QueueNotFoundError: no such queue.
        """
        check_pattern(pattern)
        found = self._find(queue)
        added = self._bound.add(pattern, queue)
        if added:
            found.patterns[pattern] = None
            self._bindings[queue] = found.patterns
            self._count(bindings=1)
            if self._hub.recorder is not None:
                self._hub.recorder.bound(found, pattern)
        return added

    def unbind(self, pattern: bytes, queue: bytes) -> bool:
        """Copy events of a pattern into a queue no longer; False if none were copied.

        Raises:
            InvalidTopicError: not a possible pattern.
            QueueNotFoundError: no such queue.
        """
        check_pattern(pattern)
        found = self._find(queue)
        removed = self._bound.remove(pattern, queue)
        if removed:
            self._bindings[queue].pop(pattern)
            self._count(bindings=-1)
            if self._hub.recorder is not None:
                self._hub.recorder.unbound(found, pattern)
        return removed

    def bound(self, queue: bytes | None = None) -> list[tuple[bytes, bytes]]:
        """The bindings (of a queue) as (pattern, queue).

        Raises:
            QueueNotFoundError: no such queue.
        """
        if queue is not None:
            self._find(queue)
        names = list(self._bindings) if queue is None else [queue]
        return [(pattern, name) for name in names for pattern in self._bindings.get(name, ())]

    def forget_queue(self, queue: bytes) -> None:
        """A queue is gone: its bindings go with it."""
        for pattern in self._bindings.pop(queue, {}):
            self._bound.remove(pattern, queue)
            self._count(bindings=-1)

    # -- publishing ------------------------------------------------------------------------------------------------

    def publish(
        self, topic: bytes, body: bytes, headers: dict[bytes, bytes] | None = None, attachments: tuple[bytes, ...] = ()
    ) -> tuple[int, int]:
        """Publish for a client; returns how many subscriptions and queues took it.

        Raises:
            InvalidTopicError: not a possible topic, or one of the broker's.
            TooBigError: it is above the limit of a message.
        """
        check_topic(topic, from_client=True)
        headers = headers or {}
        self._check_size(len(body) + sum(len(k) + len(v) for k, v in headers.items()) + sum(map(len, attachments)))
        return self._publish(topic, body, headers, attachments, announcement=False)

    def _publish(
        self,
        topic: bytes,
        body: bytes,
        headers: dict[bytes, bytes],
        attachments: tuple[bytes, ...],
        *,
        announcement: bool,
    ) -> tuple[int, int]:
        event = Event(topic, body, headers)
        received = self.channels.send(event)
        for subscriber, pattern in self._patterns.match(topic):
            subscriber.event(event, pattern)
            received += 1
        if not self._binding_count:
            return received, 0
        names = dict.fromkeys(self._bound.match(topic))
        return received, self.copy(names, body, {**headers, b"topic": topic}, attachments, announcement=announcement)

    def copy(
        self,
        names: Iterable[bytes],
        body: bytes,
        headers: dict[bytes, bytes],
        attachments: tuple[bytes, ...],
        *,
        announcement: bool = False,
    ) -> int:
        """Put a copy into each of the queues; returns how many took one. A full queue loses its copy."""
        taken = 0
        size = len(body) + sum(len(k) + len(v) for k, v in headers.items()) + sum(map(len, attachments))
        for name in names:
            if not self._has_room(size):
                self._drop()
                continue
            extra = Extra(dict(headers), attachments, None)
            extra.announcement = announcement
            try:
                self._find(name).put(body, None, 0, 0, extra)
            except QueueFullError:
                self._drop()
            else:
                taken += 1
        return taken

    def _drop(self) -> None:
        self.binding_drops += 1
        if self._hub.recorder is not None:
            self._hub.recorder.copy_dropped()

    def publish_shard(self, topic: bytes, body: bytes) -> int:
        """Publish to those who have subscribed to a topic with SSUBSCRIBE; returns how many they are.

        Raises:
            InvalidTopicError: not a possible topic, or one of the broker's.
            TooBigError: it is above the limit of a message.
        """
        check_topic(topic, from_client=True)
        self._check_size(len(body))
        return self.shards.send(Event(topic, body))

    # -- deaths ----------------------------------------------------------------------------------------------------

    def announce(self, letter: DeadLetter) -> None:
        """Publish a death. If the error is so long that no message may have it, its end is left out."""
        error = letter.error
        while True:
            encoded = _obituary(letter, error)
            try:
                self._check_size(len(encoded))
            except TooBigError:
                if error:
                    error = error[: len(error) // 2]
                    continue
            break
        self._publish(DEAD_TOPIC + letter.message.queue, encoded, {}, (), announcement=True)


def _obituary(letter: DeadLetter, error: bytes | None) -> bytes:
    message = letter.message
    moment = datetime.fromtimestamp(letter.dead_at / 1000, UTC)
    body = {
        "queue": message.queue.decode("ascii"),
        "id": message.id.decode("utf-8", "backslashreplace"),
        "reason": letter.reason,
        "error": None if error is None else error.decode("utf-8", "backslashreplace"),
        "attempt": message.attempt,
        "dead_at": moment.isoformat(timespec="milliseconds").replace("+00:00", "Z"),
    }
    return json.dumps(body, ensure_ascii=False, separators=(",", ":")).encode()
