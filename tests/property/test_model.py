"""Random operations on the broker and on a model that is simple enough to be right, compared after every step.

A failure shows the shortest sequence of operations that still fails, and the seed from which it was made. (Not with
hypothesis: what it chooses is too often the same to come to states that take several different operations.)
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable

import pytest

import respmq.core.deadlines
import respmq.core.lazyheap
import respmq.core.line
from respmq.core.model import Extra, QueueSettings
from tests.property.effort import examples
from tests.property.operations import NO_LEASE, Chooser, Id, Operation, Options
from tests.property.twins import Twins

STEPS = 120


class Player:
    """Does operations on both. Those that change something are followed by `serve`, as in the server."""

    twins_class = Twins

    def __init__(self) -> None:
        self.twins = self.twins_class()
        self.patch = pytest.MonkeyPatch()
        #: Operations that still belong to one step (MULTI), which nobody is served in the middle of.
        self.together = 0

    def play(self, operations: list[Operation]) -> None:
        try:
            for operation in operations:
                getattr(self, operation.method)(**operation.arguments)
                self.twins.compare()
        finally:
            self.patch.undo()
            self.twins.close()

    def begin(
        self,
        *,
        seed: int,
        size: int,
        memory: int,
        short: bool,
        auto_declare: bool,
        sweep_from: int,
        sweep_at_once: int,
        a: QueueSettings,
        b: QueueSettings | None,
    ) -> None:
        """Small numbers make sweeps begin soon and take long: most of what happens, happens in the middle of one."""
        self.twins.close()
        self.twins = self.twins_class(seed, size=size, memory=memory, short=short)
        self.twins.real.auto_declare = self.twins.model.auto_declare = auto_declare
        for module in (respmq.core.deadlines, respmq.core.lazyheap, respmq.core.line):
            self.patch.setattr(module, "_SWEEP_FROM", sweep_from)
        for module in (respmq.core.lazyheap, respmq.core.line):
            self.patch.setattr(module, "_SWEEP_AT_ONCE", sweep_at_once)
        self.twins.declare(b"a", a)
        if b is not None:
            self.twins.declare(b"b", b)

    # -- what operations are about

    def place(self, number: int) -> int:
        return max(len(self.twins.leases) - 1 - number, 0) if number != NO_LEASE else 1 << 30

    def places(self, numbers: list[int], other: bytes | None) -> tuple[bytes, list[int]]:
        """A queue and places of leases; the queue is the first lease's, if no other one is wanted."""
        places = [self.place(number) for number in numbers]
        known = places[0] < len(self.twins.leases)
        return other or (self.twins.leases[places[0]][0] if known else b"a"), places

    def id(self, id: Id) -> bytes:
        return id if isinstance(id, bytes) else self.twins.ids[-1 - id] if id < len(self.twins.ids) else b"k0"

    def ids(self, ids: list[Id]) -> tuple[bytes, ...]:
        return tuple(map(self.id, ids))

    def done(self) -> None:
        if self.together:
            self.together -= 1
        else:
            self.twins.serve()

    # -- messages

    def put(self, *, name: bytes, id: Id | None, body: bytes, priority: int, delay: int, extra: Options) -> None:
        full = None if extra is None else Extra(*extra)
        self.twins.put(name, None if id is None else self.id(id), body, priority, delay, full)
        self.done()

    def put_many(self, *, name: bytes, bodies: tuple[bytes, ...]) -> None:
        self.twins.put_many(name, bodies)
        self.done()

    def lease(
        self,
        *,
        names: tuple[bytes, ...],
        count: int,
        wait: int | None,
        length: int | None,
        request: tuple[bytes, bytes] | None,
        full: bool,
    ) -> None:
        self.twins.lease(names, count, wait, length, request, full=full)

    def ack(self, *, numbers: list[int], other: bytes | None) -> None:
        self.twins.ack(*self.places(numbers, other))
        self.done()

    def nack(self, *, numbers: list[int], other: bytes | None, delay: int | None, error: bytes | None) -> None:
        name, places = self.places(numbers, other)
        self.twins.nack(name, places[0], delay, error)
        self.done()

    def reject(self, *, numbers: list[int], other: bytes | None, error: bytes | None) -> None:
        name, places = self.places(numbers, other)
        self.twins.reject(name, places[0], error)
        self.done()

    def release(self, *, numbers: list[int], other: bytes | None, delay: int | None) -> None:
        name, places = self.places(numbers, other)
        self.twins.release(name, places[0], delay)
        self.done()

    def touch(self, *, numbers: list[int], other: bytes | None, length: int | None) -> None:
        name, places = self.places(numbers, other)
        self.twins.touch(name, places, length)

    def undeliver(self, *, numbers: list[int]) -> None:
        if self.twins.leases:
            self.twins.undeliver([self.place(number) for number in numbers])

    def remove(self, *, name: bytes, ids: list[Id]) -> None:
        self.twins.remove(name, self.ids(ids))
        self.done()

    def look(self, *, name: bytes, id: Id, state: str, count: int, offset: int) -> None:
        self.twins.look(name, self.id(id), state, count, offset)

    # -- plain calls, several in a row

    def put_stretch(self, *, name: bytes, bodies: tuple[bytes, ...]) -> None:
        self.twins.put_stretch(name, bodies)
        self.done()

    def lease_stretch(self, *, name: bytes, count: int) -> None:
        self.twins.lease_stretch(name, count)
        self.done()

    def ack_stretch(self, *, numbers: list[int], other: bytes | None) -> None:
        self.twins.ack_stretch(*self.places(numbers, other))
        self.done()

    # -- those who wait

    def leave(self, *, number: int) -> None:
        if self.twins.clients:
            self.twins.leave(self.twins.clients[number % len(self.twins.clients)])

    def consume(self, *, name: bytes, prefetch: int, full: bool) -> None:
        self.twins.consume(name, prefetch, full=full)
        self.done()

    def cancel(self, *, number: int) -> None:
        self.twins.cancel(number)
        self.done()

    # -- dead letters

    def replay(self, *, name: bytes, ids: list[Id]) -> None:
        self.twins.replay(name, self.ids(ids))
        self.done()

    def pop_dead(self, *, name: bytes, count: int) -> None:
        self.twins.pop_dead(name, count)

    def purge_dead(self, *, name: bytes, ids: list[Id]) -> None:
        self.twins.purge_dead(name, self.ids(ids))

    # -- queues

    def purge(self, *, name: bytes) -> None:
        self.twins.purge(name)

    def declare(self, *, name: bytes, chosen: QueueSettings) -> None:
        self.twins.declare(name, chosen)

    def delete(self, *, name: bytes) -> None:
        self.twins.delete(name)

    # -- time

    def to_the_next_moment(self, *, step: int, advance: bool) -> None:
        moment = self.twins.model.next_moment()
        if moment is not None:
            self.move(max(moment + step, self.twins.model.now), advance)

    def on(self, *, by: int, advance: bool) -> None:
        self.move(self.twins.model.now + by, advance)

    def in_slices(self, *, budget: int) -> None:
        self.together = 0
        self.twins.tick_in_slices(budget)

    def move(self, to: int, advance: bool) -> None:
        self.together = 0
        (self.twins.advance if advance else self.twins.tick)(to)

    def begin_multi(self, *, number: int) -> None:
        """The next operations are one step."""
        self.together = number


def fault(operations: list[Operation], player: type[Player] = Player) -> Exception | None:
    """How broker and model differ, if they do."""
    try:
        player().play(operations)
    except Exception as error:  # noqa: BLE001 - an unexpected one is a difference, too
        return error
    return None


def shortest(operations: list[Operation], player: type[Player] = Player) -> list[Operation]:
    """What is left of a sequence that fails when all is taken out that isn't needed for that."""
    size = len(operations)
    while size := size // 2:
        place = 1
        while place < len(operations):
            without = operations[:place] + operations[place + size :]
            if fault(without, player) is None:
                place += size
            else:
                operations = without
        if size == 1 and len(operations) > 1:
            again = [operations[:i] + operations[i + 1 :] for i in range(1, len(operations))]
            shorter = next((some for some in again if fault(some, player) is not None), None)
            if shorter is not None:
                operations, size = shorter, 2
    return operations


def search(seeds: Iterable[int], player: type[Player] = Player) -> None:
    """Play what the seeds give; fail with the shortest sequence that does."""
    for seed in seeds:
        operations = Chooser(seed).operations(STEPS)
        if fault(operations, player) is not None:
            short = shortest(operations, player)
            what = "\n".join(map(str, short))
            raise AssertionError(f"seed {seed} in {len(short)} operations:\n{what}") from fault(short, player)


@pytest.mark.parametrize("part", range(8))
def test_the_broker_does_what_the_model_does(part: int) -> None:
    search(itertools.islice(itertools.count(part, 8), examples(170)))
