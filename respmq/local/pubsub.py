"""Publish and subscribe for scripts without an event loop."""

from __future__ import annotations

import os
import random
from typing import TYPE_CHECKING, Any

from respmq.api.bodies import decode_body, header_texts
from respmq.engine.memory import MemoryEngine
from respmq.errors import BrokerError
from respmq.local import arguments as given

if TYPE_CHECKING:
    from collections.abc import Callable

    from respmq.api.bodies import Body
    from respmq.core.events import Event

    # Any, as for json.loads: the program knows what its bodies are like, and no checker does.
    Handler = Callable[[str, Any], object]


class DeliveryError(BrokerError):
    """Some handlers raised; all others were served.

    Args:
        topic: what was published to.
        failures: the handlers that raised, in the order in which they were called, each with what it raised.
    """

    def __init__(self, topic: str, failures: list[tuple[Handler, Exception]]) -> None:
        said = "; ".join(f"{_name(handler)}: {type(error).__name__}: {error}" for handler, error in failures)
        super().__init__(f"{len(failures)} of the handlers of '{topic}' failed: {said}")
        self.topic = topic
        self.failures = failures


def _name(handler: Handler) -> str:
    return getattr(handler, "__qualname__", repr(handler))


class _Subscriber:
    """A handler of one pattern, as the core sees it."""

    def __init__(self, handler: Handler, called: list[tuple[Handler, Event]]) -> None:
        self._handler = handler
        self._called = called

    def event(self, event: Event, pattern: bytes | None) -> None:
        """Note that the handler is to be called."""
        del pattern
        self._called.append((self._handler, event))


class PubSub:
    """Handlers by topic, for scripts: one publishes, all who have subscribed get a copy.

    ```python
    news = PubSub()
    news.subscribe("weather", lambda topic, message: print(topic, message))
    news.publish("weather", "sunny")
    ```

    It belongs to one thread at a time, and needs no event loop.
    """

    def __init__(self) -> None:
        self._core = MemoryEngine(0, os.urandom, random.uniform)
        self._subscribers: dict[str, dict[Handler, _Subscriber]] = {}
        self._called: list[tuple[Handler, Event]] = []

    @property
    def topics(self) -> list[str]:
        """The topics and patterns that somebody has subscribed to, in the order of their first subscription."""
        return list(self._subscribers)

    def subscribe(self, topic: str, handler: Handler) -> bool:
        """Call `handler(topic, message)` with what is published to a topic. False: that was so.

        Args:
            topic: a topic, or a pattern: see `topic_matches`. The handler is told the topic.
            handler: called by `publish`, in the order of subscriptions. One that has subscribed to several patterns
                that match is called for each.

        Raises:
            InvalidTopicError: neither a possible topic nor a pattern.
        """
        handlers = self._subscribers.get(topic, {})
        if handler in handlers:
            return False
        subscriber = _Subscriber(handler, self._called)
        self._core.topics.subscribe_pattern(given.name(topic), subscriber)
        self._subscribers.setdefault(topic, handlers)[handler] = subscriber
        return True

    def unsubscribe(self, topic: str, handler: Handler) -> bool:
        """Call the handler no longer. False: it has not subscribed."""
        handlers = self._subscribers.get(topic, {})
        subscriber = handlers.pop(handler, None)
        if subscriber is None:
            return False
        if not handlers:
            del self._subscribers[topic]
        return self._core.topics.unsubscribe_pattern(given.name(topic), subscriber)

    def publish(self, topic: str, message: Body) -> int:
        """Call all handlers of a topic, each with a copy of its own; returns how many there were.

        Raises:
            DeliveryError: some of them raised. All were called before.
            InvalidTopicError: not a possible topic.
            InvalidRequestError: the message can't be encoded: neither `str`, `bytes` nor a JSON value.
        """
        raw, headers, _ = given.content(message, None, ())
        self._core.topics.publish(given.name(topic), raw, headers)
        # Only now: handlers may subscribe, unsubscribe and publish in turn.
        called = self._called.copy()
        self._called.clear()
        failures: list[tuple[Handler, Exception]] = []
        marks = header_texts(headers)
        for handler, event in called:
            try:
                handler(topic, decode_body(event.body, marks))
            except Exception as error:  # noqa: BLE001 - it is raised below, once everybody has been served
                failures.append((handler, error))
        if failures:
            raise DeliveryError(topic, failures) from failures[0][1]
        return len(called)
