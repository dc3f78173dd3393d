"""Exchanges: named points to publish to, which copy into bound queues by the kind of exchange and a routing key."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

from respmq.core.names import check_name
from respmq.core.topics import PatternTrie, check_pattern, check_topic
from respmq.errors import ExchangeNotFoundError, InvalidRequestError, QueueConfigConflictError, quote

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from respmq.core.events import Router
    from respmq.core.hub import Hub
    from respmq.core.queue import Queue

ExchangeKind = Literal["FANOUT", "DIRECT", "TOPIC"]


class Exchange:
    """One exchange. Its bindings are pairs of queue and key, kept in the order in which they were made."""

    def __init__(self, kind: ExchangeKind) -> None:
        self.kind: ExchangeKind = kind
        self.bindings: dict[tuple[bytes, bytes], None] = {}
        self._keys: dict[bytes, dict[bytes, None]] = {}
        self._by_key: dict[bytes, dict[bytes, None]] = {}
        self._patterns: PatternTrie[bytes] = PatternTrie()

    def bind(self, queue: bytes, key: bytes) -> bool:
        """Add a binding; False if it was there."""
        if (queue, key) in self.bindings:
            return False
        self.bindings[queue, key] = None
        self._keys.setdefault(queue, {})[key] = None
        if self.kind == "TOPIC":
            self._patterns.add(key, queue)
        else:
            self._by_key.setdefault(key, {})[queue] = None
        return True

    def unbind(self, queue: bytes, key: bytes) -> bool:
        """Remove a binding; False if it was not there."""
        if (queue, key) not in self.bindings:
            return False
        del self.bindings[queue, key]
        keys = self._keys[queue]
        del keys[key]
        if not keys:
            del self._keys[queue]
        if self.kind == "TOPIC":
            self._patterns.remove(key, queue)
        else:
            queues = self._by_key[key]
            del queues[queue]
            if not queues:
                del self._by_key[key]
        return True

    def keys(self, queue: bytes) -> list[bytes]:
        """The keys with which a queue is bound."""
        return list(self._keys.get(queue, ()))

    def route(self, key: bytes) -> Iterable[bytes]:
        """The queues that get a copy, each once."""
        if self.kind == "TOPIC":
            return dict.fromkeys(self._patterns.match(key))
        return self._by_key.get(b"" if self.kind == "FANOUT" else key, ())


class Exchanges:
    """All exchanges by name.

    Args:
        router: puts the copies into queues.
        check_size: raises TooBigError if a message of so many bytes is above the limit.
        find: the queue with a name; raises QueueNotFoundError.
        hub: knows who records what happens.
    """

    def __init__(
        self, router: Router, check_size: Callable[[int], None], find: Callable[[bytes], Queue], hub: Hub
    ) -> None:
        self._router = router
        self._check_size = check_size
        self._find_queue = find
        self._hub = hub
        self._exchanges: dict[bytes, Exchange] = {}

    def declare(self, name: bytes, kind: ExchangeKind) -> None:
        """Create an exchange, or confirm that it exists with the same kind.

        Raises:
            InvalidNameError: not a possible name.
            QueueConfigConflictError: it exists with another kind.
        """
        check_name(name, "exchange")
        exchange = self._exchanges.get(name)
        if exchange is None:
            exchange = self._exchanges[name] = Exchange(kind)
            if self._hub.recorder is not None:
                self._hub.recorder.exchange_declared(name, exchange)
        if exchange.kind != kind:
            msg = f"exchange '{quote(name)}' exists with another type: it is {exchange.kind}, not {kind}"
            raise QueueConfigConflictError(msg)

    def delete(self, name: bytes) -> int:
        """Delete an exchange with its bindings. Returns 1.

        Raises:
            ExchangeNotFoundError: no such exchange.
        """
        self._find(name)
        del self._exchanges[name]
        if self._hub.recorder is not None:
            self._hub.recorder.exchange_deleted(name)
        return 1

    def bind(self, name: bytes, queue: bytes, key: bytes | None) -> bool:
        """Bind a queue to an exchange; False if it was bound with this key.

        Raises:
            ExchangeNotFoundError, QueueNotFoundError: no such exchange or queue.
            InvalidTopicError: the key of a TOPIC exchange is no pattern.
            InvalidRequestError: a TOPIC exchange needs a key.
        """
        exchange = self._find(name)
        key = self._binding_key(exchange, name, key)
        found = self._find_queue(queue)
        bound = exchange.bind(queue, key)
        if bound and self._hub.recorder is not None:
            self._hub.recorder.exchange_bound(name, found, key)
        return bound

    def unbind(self, name: bytes, queue: bytes, key: bytes | None) -> bool:
        """Undo a binding; False if there was none.

        Raises:
            ExchangeNotFoundError, QueueNotFoundError: no such exchange or queue.
            InvalidTopicError: the key of a TOPIC exchange is no pattern.
            InvalidRequestError: a TOPIC exchange needs a key.
        """
        exchange = self._find(name)
        key = self._binding_key(exchange, name, key)
        found = self._find_queue(queue)
        unbound = exchange.unbind(queue, key)
        if unbound and self._hub.recorder is not None:
            self._hub.recorder.exchange_unbound(name, found, key)
        return unbound

    def publish(
        self, name: bytes, key: bytes, body: bytes, headers: dict[bytes, bytes], attachments: tuple[bytes, ...]
    ) -> int:
        """Copy a message into the queues that are bound for `key`; returns how many took one.

        Raises:
            ExchangeNotFoundError: no such exchange.
            InvalidTopicError: the routing key for a TOPIC exchange is neither a topic nor empty.
            TooBigError: the message is above the limit.
        """
        exchange = self._find(name)
        if exchange.kind == "TOPIC" and key:
            check_topic(key)
        self._check_size(len(body) + sum(len(k) + len(v) for k, v in headers.items()) + sum(map(len, attachments)))
        headers = {**headers, b"exchange": name, b"routing-key": key}
        return self._router.copy(list(exchange.route(key)), body, headers, attachments)

    def all(self) -> list[tuple[bytes, Exchange]]:
        """All exchanges with their names."""
        return list(self._exchanges.items())

    def kinds(self) -> list[tuple[bytes, str]]:
        """Name and kind of each exchange, sorted by name."""
        return sorted((name, exchange.kind) for name, exchange in self._exchanges.items())

    def bindings(self, name: bytes) -> list[tuple[bytes, bytes]]:
        """The bindings of an exchange as (queue, key). A FANOUT exchange has no use for keys, they are empty.

        Raises:
            ExchangeNotFoundError: no such exchange.
        """
        return [*self._find(name).bindings]

    def forget_queue(self, queue: bytes) -> None:
        """A queue is gone: its bindings go with it."""
        for exchange in self._exchanges.values():
            for key in exchange.keys(queue):
                exchange.unbind(queue, key)

    def _find(self, name: bytes) -> Exchange:
        exchange = self._exchanges.get(name)
        if exchange is None:
            check_name(name, "exchange")
            raise ExchangeNotFoundError.named(name)
        return exchange

    @staticmethod
    def _binding_key(exchange: Exchange, name: bytes, key: bytes | None) -> bytes:
        if exchange.kind == "FANOUT":
            return b""
        if exchange.kind == "DIRECT":
            return key or b""
        if key is None:
            msg = f"exchange '{quote(name)}' is of type TOPIC: a binding needs a key, such as # or order.*.paid"
            raise InvalidRequestError(msg)
        check_pattern(key)
        return key
