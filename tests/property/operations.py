"""Random operations for the broker and its model, as plain data: what is done, and to what.

Leases and ids are meant by how long ago they were (the last one, the last but one ...), so that a sequence still means
something when some of its operations are left out.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeVar

from respmq.core.hub import NO_LIMIT
from respmq.core.model import QueueSettings

T = TypeVar("T")
Id = bytes | int
#: Headers, attachments and TTL of a message.
Options = tuple[dict[bytes, bytes], tuple[bytes, ...], int | None] | None

#: A token that never was.
NO_LEASE = 99

IDS: tuple[Id, ...] = (b"k0", b"k1", b"k2", *range(8))
DURATIONS = (1, 2, 3, 30, 49, 50, 51, 60, 100, 150, 1000)
REQUESTS = ((b"u", b"r1"), (b"u", b"r1"), (b"u", b"r2"), (b"v", b"r1"))


@dataclass(frozen=True)
class Operation:
    """One call of a method of `Player`."""

    method: str
    arguments: dict[str, Any] = field(default_factory=dict)

    def __str__(self) -> str:
        return f"{self.method}({', '.join(f'{name}={value!r}' for name, value in self.arguments.items())})"


class Chooser:
    """Chooses operations. How often each kind comes differs from one chooser to the next; some don't come at all."""

    def __init__(self, seed: int) -> None:
        self.chance = random.Random(seed)
        self.weights = {kind: often * self.chance.choice((0, 0.3, 1, 1, 1, 3)) for kind, often in KINDS.items()}
        for needed in (Chooser.put, Chooser.lease):
            self.weights[needed] = max(self.weights[needed], KINDS[needed])

    def operations(self, count: int) -> list[Operation]:
        kinds = self.chance.choices(list(self.weights), list(self.weights.values()), k=count)
        return [self.begin(), *(kind(self) for kind in kinds)]

    # -- parts

    def one(self, *values: T) -> T:
        return self.chance.choice(values)

    def maybe(self, probability: float, value: T) -> T | None:
        return value if self.chance.random() < probability else None

    def some(self, choose: Callable[[], T], lengths: Sequence[int] = (1, 1, 2, 4)) -> list[T]:
        return [choose() for _ in range(self.chance.choice(lengths))]

    def name(self) -> bytes:
        return self.chance.choices((b"a", b"b", b"c", b"no name"), (60, 32, 6, 2))[0]

    def id(self) -> Id:
        return self.chance.choice(IDS)

    def lease_number(self) -> int:
        return self.one(0, 0, 0, 1, 1, 2, 3, 5, 8, NO_LEASE)

    def other(self) -> bytes | None:
        """The queue that is named instead of the lease's own."""
        return self.maybe(0.05, self.name())

    def duration(self) -> int:
        return self.chance.choice(DURATIONS)

    def delay(self) -> int | None:
        return self.one(None, None, 0, self.duration(), self.duration())

    def error(self) -> bytes | None:
        return self.one(None, b"e", b"")

    def bodies(self) -> tuple[bytes, ...]:
        return tuple(self.some(lambda: b"x" * self.chance.randrange(12), (1, 2, 3, 6)))

    def settings(self) -> QueueSettings:
        retry_delay = self.one(0, 0, 1, 40, 100)
        return QueueSettings(
            ack_timeout=self.one(1, 50, 52, 100, 1000),
            max_attempts=self.one(1, 2, 3, 3),
            retry_delay=retry_delay,
            max_retry_delay=max(retry_delay, self.one(1, 60, 200)),
            max_len=self.one(1, 2, 3, 5, 10_000),
            overflow=self.one("REJECT", "DROPHEAD"),
            ttl=self.one(None, None, 1, 60, 150),
            max_dead=self.one(0, 1, 2, 5, 1000),
            dedupe=self.one(0, 30, 100, 300_000),
        )

    # -- operations

    def begin(self) -> Operation:
        return Operation(
            "begin",
            {
                "seed": self.chance.randrange(1 << 30),
                "size": self.one(*[NO_LIMIT] * 5, 1, 5, 10),
                "memory": self.one(*[NO_LIMIT] * 5, 700, 1500),
                "short": self.one(True, False),
                "auto_declare": self.one(True, False, False, False),
                "sweep_from": self.one(0, 1, 3, 64),
                "sweep_at_once": self.one(1, 1, 2, 8),
                "a": self.settings(),
                "b": self.maybe(0.7, self.settings()),
            },
        )

    def put(self) -> Operation:
        plain = self.chance.random() < 0.5
        extra: Options = self.chance.choice(
            (None, None, ({b"h": b"v"}, (b"attached",), None), ({}, (), 1), ({}, (), 60))
        )
        arguments = {
            "name": self.name(),
            "id": self.maybe(0.5, self.id()),
            "body": b"x" * self.chance.randrange(8),
            "priority": 0 if plain else self.one(0, 0, 1, -1, 2**63 - 1, -(2**63)),
            "delay": 0 if plain else self.one(0, 0, self.duration()),
            "extra": None if plain else extra,
        }
        return Operation("put", arguments)

    def put_many(self) -> Operation:
        return Operation("put_many", {"name": self.name(), "bodies": self.bodies()})

    def lease(self) -> Operation:
        return self._lease(None, self.maybe(0.3, self.one(*REQUESTS)))

    def wait(self) -> Operation:
        return self._lease(self.one(0, 0, 1, 50, 100), self.maybe(0.5, self.one(*REQUESTS)))

    def _lease(self, wait: int | None, request: tuple[bytes, bytes] | None) -> Operation:
        arguments = {
            "names": tuple(self.some(self.name, (1, 1, 1, 2, 3))),
            "count": self.one(1, 1, 1, 2, 4),
            "wait": wait,
            "length": self.maybe(0.5, self.duration()),
            "request": request,
            "full": self.one(True, False, False),
        }
        return Operation("lease", arguments)

    def stretch(self) -> Operation:
        """Several plain calls in a row."""
        match self.one("put", "lease", "ack"):
            case "put":
                return Operation("put_stretch", {"name": self.name(), "bodies": self.bodies()})
            case "lease":
                return Operation("lease_stretch", {"name": self.name(), "count": self.one(1, 2, 3, 5)})
            case _:
                numbers = self.some(self.lease_number, (1, 2, 3, 5))
                return Operation("ack_stretch", {"numbers": numbers, "other": self.other()})

    def settle(self) -> Operation:
        method = self.chance.choices(("ack", "nack", "reject", "release", "touch"), (3, 4, 1, 3, 3))[0]
        arguments: dict[str, Any] = {"numbers": self.some(self.lease_number), "other": self.other()}
        if method in {"nack", "release"}:
            arguments["delay"] = self.delay()
        if method in {"nack", "reject"}:
            arguments["error"] = self.error()
        if method == "touch":
            arguments["length"] = self.maybe(0.6, self.duration())
        return Operation(method, arguments)

    def next(self) -> Operation:
        return Operation("to_the_next_moment", {"step": self.one(0, 0, 0, 1, -1), "advance": self.one(True, False)})

    def on(self) -> Operation:
        by = self.one(1, 10, 30, 49, 50, 100, 400, 5000)
        return Operation("on", {"by": by, "advance": self.one(True, False)})

    def slices(self) -> Operation:
        return Operation("in_slices", {"budget": self.one(2, 3, 4)})

    def consume(self) -> Operation:
        arguments = {"name": self.name(), "prefetch": self.one(1, 1, 2, 3), "full": self.one(True, False)}
        return Operation("consume", arguments)

    def cancel(self) -> Operation:
        return Operation("cancel", {"number": self.one(0, 0, 1, 2, 5)})

    def leave(self) -> Operation:
        return Operation("leave", {"number": self.chance.randrange(6)})

    def undeliver(self) -> Operation:
        return Operation("undeliver", {"numbers": self.some(lambda: self.chance.randrange(6))})

    def replay(self) -> Operation:
        return Operation("replay", {"name": self.name(), "ids": self.one([], self.some(self.id))})

    def multi(self) -> Operation:
        return Operation("begin_multi", {"number": self.one(1, 2, 3, 4)})

    def remove(self) -> Operation:
        return Operation("remove", {"name": self.name(), "ids": self.some(self.id)})

    def look(self) -> Operation:
        arguments = {"name": self.name(), "id": self.id(), "state": self.one("ready", "delayed", "leased")}
        return Operation("look", {**arguments, "count": self.one(1, 2, 3), "offset": self.one(0, 1, 2)})

    def pop_dead(self) -> Operation:
        return Operation("pop_dead", {"name": self.name(), "count": self.one(1, 2, 3)})

    def purge_dead(self) -> Operation:
        return Operation("purge_dead", {"name": self.name(), "ids": self.one([], self.some(self.id))})

    def purge(self) -> Operation:
        return Operation("purge", {"name": self.name()})

    def declare(self) -> Operation:
        return Operation("declare", {"name": self.name(), "chosen": self.settings()})

    def delete(self) -> Operation:
        return Operation("delete", {"name": self.name()})


#: How often each kind of operation comes, on an average.
KINDS: dict[Callable[[Chooser], Operation], float] = {
    Chooser.put: 25,
    Chooser.put_many: 5,
    Chooser.lease: 15,
    Chooser.wait: 8,
    Chooser.settle: 22,
    Chooser.stretch: 6,
    Chooser.next: 8,
    Chooser.on: 3,
    Chooser.slices: 2,
    Chooser.consume: 1.5,
    Chooser.cancel: 1.5,
    Chooser.leave: 2,
    Chooser.undeliver: 2,
    Chooser.replay: 2,
    Chooser.multi: 3,
    Chooser.remove: 2,
    Chooser.look: 1.5,
    Chooser.pop_dead: 0.5,
    Chooser.purge_dead: 0.5,
    Chooser.purge: 0.8,
    Chooser.declare: 0.8,
    Chooser.delete: 0.4,
}
