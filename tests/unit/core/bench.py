"""A broker with one queue, time and chance in the test's hand, and short words for what tests ask of it."""

from __future__ import annotations

import itertools
import random
from typing import Any

from respmq.core.hub import NO_LIMIT
from respmq.core.model import DELAYED, LEASED, READY, Extra, Message, QueueSettings
from respmq.core.waiting import LeaseWait
from respmq.engine.memory import MemoryEngine
from respmq.errors import BrokerError

START = 1_700_000_000_000


_orders = itertools.count(1)


def message(id: bytes = b"m", priority: int = 0, *, body: bytes = b"") -> Message:
    """A message that is in no queue, as if it had come to one after all that were made before."""
    one = Message(b"q", id, body, priority, START, None)
    one.order = next(_orders)
    return one


def _integer(value: object) -> int:
    assert isinstance(value, int)
    return value


class Bench:
    """A broker; `q` is declared with the settings given."""

    def __init__(self, **settings: Any) -> None:
        self.draws: list[tuple[float, float]] = []
        #: Where in the interval `uniform` falls, 0 to 1.
        self.fraction = 0.5
        self.broker = MemoryEngine(START, random.Random(1).randbytes, self._uniform)
        self.declare(b"q", **settings)

    def _uniform(self, low: float, high: float) -> float:
        self.draws.append((low, high))
        return low + (high - low) * self.fraction

    @property
    def now(self) -> int:
        """Milliseconds since the start."""
        return self.broker.now - START

    def declare(self, name: bytes, **settings: Any) -> None:
        self.broker.declare(name, QueueSettings(**settings))

    def after(self, millis: int) -> None:
        """Time goes on; everything that falls due on the way happens."""
        self.broker.advance(self.broker.now + millis)

    def put(self, *bodies: bytes, name: bytes = b"q", **options: Any) -> list[bytes]:
        """Put messages whose ids are their bodies."""
        ids: list[bytes] = []
        for body in bodies:
            extra = Extra({}, (), options["ttl"]) if "ttl" in options else None
            plain = {key: value for key, value in options.items() if key != "ttl"}
            id = self.broker.put(name, body, id=body or None, extra=extra, **plain)
            assert id is not None
            ids.append(id)
        self.broker.serve()
        return ids

    def lease(self, count: int = 1, *names: bytes, lease: int | None = None) -> list[Message]:
        found = self.broker.lease(names or (b"q",), count, None, lease)
        assert not isinstance(found, LeaseWait)
        return [m for m in found if isinstance(m, Message)]

    def take(self, count: int = 1, *names: bytes, lease: int | None = None) -> bytes:
        """Lease messages and return the token of the last one."""
        token = self.lease(count, *names, lease=lease)[-1].lease
        assert token is not None
        return token

    def bodies(self, state: int = READY, name: bytes = b"q") -> list[Any]:
        return [m["body"] for m in self.broker.peek(name, state, NO_LIMIT, 0)]

    @property
    def ready(self) -> list[Any]:
        return self.bodies(READY)

    @property
    def delayed(self) -> list[Any]:
        return self.bodies(DELAYED)

    @property
    def leased(self) -> list[Any]:
        return self.bodies(LEASED)

    @property
    def dead(self) -> list[tuple[Any, ...]]:
        """Body, reason, error and time of death of each dead letter."""
        letters = self.broker.dead_letters(b"q", NO_LIMIT)
        return [(m["body"], m["reason"], m["error"], _integer(m["dead_at"]) - START) for m in letters]

    def stat(self, name: str, queue: bytes = b"q") -> Any:
        return getattr(self.broker.stats(queue), name)

    def wait(self, *names: bytes, wait: int = 0, **options: Any) -> Waiting:
        """A client that blocks."""
        found = self.broker.lease(names or (b"q",), wait=wait, **options)
        assert isinstance(found, LeaseWait)
        return Waiting(found)


class Waiting:
    """A blocked QLEASE: `answer` is None, an error word, or the bodies that it got."""

    def __init__(self, wait: LeaseWait) -> None:
        self.wait = wait
        self.answer: str | list[bytes] | None = None
        self.tokens: list[bytes] = []
        wait.on_done = self._done

    def _done(self, answer: Any) -> None:
        assert self.answer is None
        if isinstance(answer, BrokerError):
            self.answer = answer.code
        else:
            self.answer = [m.body for m in answer]
            self.tokens = [m.lease for m in answer]
