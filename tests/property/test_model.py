"""Random operations on the broker and on a model that is simple enough to be right, compared after every step.

A failure prints the shortest sequence of operations that still fails.
"""

from __future__ import annotations

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)

import respmq.core.deadlines
import respmq.core.lazyheap
import respmq.core.line
from respmq.core.hub import NO_LIMIT
from respmq.core.model import Extra, QueueSettings
from tests.property.effort import examples
from tests.property.twins import STATES, Twins

QUEUES = st.sampled_from([b"a", b"a", b"a", b"b", b"b", b"c", b"no name"])
DURATIONS = st.sampled_from([1, 2, 30, 50, 60, 100, 150, 1000])
DELAYS = st.none() | st.just(0) | DURATIONS
WAITS = st.sampled_from([None, None, 0, 1, 50, 100])
PRIORITIES = st.sampled_from([0, 0, 0, 1, -1, 2**63 - 1, -(2**63)])
BODIES = st.sampled_from([b"", b"x", b"two", b"a longer one"])
ERRORS = st.sampled_from([None, b"e", b""])
#: The last lease, the last but one ...; 99 is a token that never was.
LEASES = st.sampled_from([0, 0, 1, 2, 3, 5, 8, 99])
SOME_LEASES = st.lists(LEASES, min_size=1, max_size=4)
#: The ids that clients choose, and the last id that was put, the last but one ...
IDS = st.sampled_from([b"k0", b"k1", b"k2"]) | st.integers(0, 7)
SOME_IDS = st.lists(IDS, min_size=1, max_size=3)
EXTRAS = st.none() | st.builds(
    Extra,
    st.sampled_from([{}, {b"h": b"v"}]),
    st.sampled_from([(), (b"attached",)]),
    st.sampled_from([None, 1, 60, 200]),
)
NAMES = st.lists(QUEUES, min_size=1, max_size=3).map(tuple)
REQUESTS = st.sampled_from([None, None, None, (b"u", b"r1"), (b"u", b"r2"), (b"v", b"r1")])


@st.composite
def queue_settings(draw: st.DrawFn) -> QueueSettings:
    retry_delay = draw(st.sampled_from([0, 0, 1, 40, 100]))
    return QueueSettings(
        ack_timeout=draw(st.sampled_from([100, 1, 50, 1000])),
        max_attempts=draw(st.sampled_from([3, 2, 1])),
        retry_delay=retry_delay,
        max_retry_delay=max(retry_delay, draw(st.sampled_from([1, 60, 200]))),
        max_len=draw(st.sampled_from([10_000, 5, 3, 2, 1])),
        overflow=draw(st.sampled_from(["REJECT", "DROPHEAD"])),
        ttl=draw(st.sampled_from([None, None, 60, 150, 1])),
        max_dead=draw(st.sampled_from([1000, 5, 2, 1, 0])),
        dedupe=draw(st.sampled_from([300_000, 100, 30, 0])),
    )


class Machine(RuleBasedStateMachine):
    """Operations by hypothesis' choice. Those that change something are followed by `serve`, as in the server."""

    def __init__(self) -> None:
        super().__init__()
        self.twins = Twins()
        #: Operations that still belong to one step (MULTI), which nobody is served in the middle of.
        self.together = 0
        self.patch = pytest.MonkeyPatch()

    def teardown(self) -> None:
        self.patch.undo()

    @initialize(
        a=queue_settings(),
        b=st.none() | queue_settings(),
        seed=st.integers(0, 1000),
        size=st.sampled_from([NO_LIMIT, NO_LIMIT, 10]),
        memory=st.sampled_from([NO_LIMIT, NO_LIMIT, 1500]),
        short=st.booleans(),
        auto_declare=st.sampled_from([False, False, True]),
        sweep=st.sampled_from([64, 3, 0]),
    )
    def begin(
        self,
        a: QueueSettings,
        b: QueueSettings | None,
        seed: int,
        size: int,
        memory: int,
        short: bool,
        auto_declare: bool,
        sweep: int,
    ) -> None:
        self.twins = Twins(seed, size=size, memory=memory, short=short)
        self.twins.real.auto_declare = self.twins.model.auto_declare = auto_declare
        for module in (respmq.core.deadlines, respmq.core.lazyheap, respmq.core.line):
            self.patch.setattr(module, "_SWEEP_FROM", sweep)
        if sweep < 64:
            # Sweeps begin soon and take long: most of what happens, happens in the middle of one.
            self.patch.setattr(respmq.core.lazyheap, "_SWEEP_AT_ONCE", 1)
            self.patch.setattr(respmq.core.line, "_SWEEP_AT_ONCE", 1)
        self.twins.declare(b"a", a)
        if b is not None:
            self.twins.declare(b"b", b)

    @invariant()
    def nothing_differs(self) -> None:
        self.twins.compare()

    # -- what operations are about

    def place(self, number: int) -> int:
        return max(len(self.twins.leases) - 1 - number, 0) if number < 99 else 1 << 30

    def queue_of(self, place: int, other: bytes | None) -> bytes:
        if other is None and place < len(self.twins.leases):
            return self.twins.leases[place][0]
        return other or b"a"

    def id(self, id: bytes | int) -> bytes:
        return id if isinstance(id, bytes) else self.twins.ids[-1 - id] if id < len(self.twins.ids) else b"k0"

    def done(self) -> None:
        if self.together:
            self.together -= 1
        else:
            self.twins.serve()

    OTHER = st.sampled_from([None, None, None, None, b"a", b"b"])

    # -- messages

    @rule(name=QUEUES, id=st.none() | IDS, body=BODIES, priority=PRIORITIES, delay=st.just(0) | DURATIONS, extra=EXTRAS)
    def put(
        self, name: bytes, id: bytes | int | None, body: bytes, priority: int, delay: int, extra: Extra | None
    ) -> None:
        self.twins.put(name, None if id is None else self.id(id), body, priority, delay, extra)
        self.done()

    @rule(name=QUEUES, bodies=st.lists(BODIES, min_size=1, max_size=6).map(tuple))
    def put_many(self, name: bytes, bodies: tuple[bytes, ...]) -> None:
        self.twins.put_many(name, bodies)
        self.done()

    @rule(names=NAMES, count=st.sampled_from([1, 1, 2, 4]), length=st.none() | DURATIONS, full=st.booleans())
    def lease(self, names: tuple[bytes, ...], count: int, length: int | None, full: bool) -> None:
        self.twins.lease(names, count, None, length, None, full=full)

    @rule(
        names=NAMES,
        count=st.sampled_from([1, 1, 2, 4]),
        wait=WAITS,
        length=st.none() | DURATIONS,
        request=REQUESTS,
        full=st.booleans(),
    )
    def lease_or_wait(
        self,
        names: tuple[bytes, ...],
        count: int,
        wait: int | None,
        length: int | None,
        request: tuple[bytes, bytes] | None,
        full: bool,
    ) -> None:
        self.twins.lease(names, count, wait, length, request, full=full)

    @rule(name=QUEUES, prefetch=st.integers(1, 3), full=st.booleans())
    def consume(self, name: bytes, prefetch: int, full: bool) -> None:
        self.twins.consume(name, prefetch, full=full)
        self.done()

    @precondition(lambda self: self.twins.consumers)
    @rule(number=st.integers(0, 4))
    def cancel(self, number: int) -> None:
        self.twins.cancel(number)
        self.done()

    @precondition(lambda self: self.twins.clients)
    @rule(number=st.integers(0, 5))
    def leave(self, number: int) -> None:
        self.twins.leave(self.twins.clients[number % len(self.twins.clients)])

    @precondition(lambda self: self.twins.leases)
    @rule(numbers=st.lists(st.integers(0, 5), min_size=1, max_size=4))
    def undeliver(self, numbers: list[int]) -> None:
        self.twins.undeliver([self.place(number) for number in numbers])

    @rule(numbers=SOME_LEASES, other=OTHER)
    def ack(self, numbers: list[int], other: bytes | None) -> None:
        places = [self.place(number) for number in numbers]
        self.twins.ack(self.queue_of(places[0], other), places)
        self.done()

    @rule(number=LEASES, other=OTHER, delay=DELAYS, error=ERRORS)
    def nack(self, number: int, other: bytes | None, delay: int | None, error: bytes | None) -> None:
        place = self.place(number)
        self.twins.nack(self.queue_of(place, other), place, delay, error)
        self.done()

    @rule(number=LEASES, other=OTHER, error=ERRORS)
    def reject(self, number: int, other: bytes | None, error: bytes | None) -> None:
        place = self.place(number)
        self.twins.reject(self.queue_of(place, other), place, error)
        self.done()

    @rule(number=LEASES, other=OTHER, delay=DELAYS)
    def release(self, number: int, other: bytes | None, delay: int | None) -> None:
        place = self.place(number)
        self.twins.release(self.queue_of(place, other), place, delay)
        self.done()

    @rule(numbers=SOME_LEASES, other=OTHER, length=st.none() | DURATIONS)
    def touch(self, numbers: list[int], other: bytes | None, length: int | None) -> None:
        places = [self.place(number) for number in numbers]
        self.twins.touch(self.queue_of(places[0], other), places, length)

    @rule(name=QUEUES, ids=SOME_IDS)
    def remove(self, name: bytes, ids: list[bytes | int]) -> None:
        self.twins.remove(name, tuple(map(self.id, ids)))
        self.done()

    @rule(name=QUEUES, id=IDS, state=st.sampled_from(sorted(STATES)), count=st.integers(1, 3), offset=st.integers(0, 2))
    def look(self, name: bytes, id: bytes | int, state: str, count: int, offset: int) -> None:
        self.twins.look(name, self.id(id), state, count, offset)

    # -- dead letters

    @rule(name=QUEUES, ids=st.just([]) | SOME_IDS)
    def replay(self, name: bytes, ids: list[bytes | int]) -> None:
        self.twins.replay(name, tuple(map(self.id, ids)))
        self.done()

    @rule(name=QUEUES, count=st.integers(1, 3))
    def pop_dead(self, name: bytes, count: int) -> None:
        self.twins.pop_dead(name, count)

    @rule(name=QUEUES, ids=st.just([]) | SOME_IDS)
    def purge_dead(self, name: bytes, ids: list[bytes | int]) -> None:
        self.twins.purge_dead(name, tuple(map(self.id, ids)))

    # -- queues

    @rule(name=QUEUES)
    def purge(self, name: bytes) -> None:
        self.twins.purge(name)

    @rule(name=QUEUES, chosen=queue_settings())
    def declare(self, name: bytes, chosen: QueueSettings) -> None:
        self.twins.declare(name, chosen)

    @rule(name=QUEUES)
    def delete(self, name: bytes) -> None:
        self.twins.delete(name)

    # -- time

    @rule(step=st.sampled_from([0, 0, 0, 1, -1]), advance=st.booleans())
    def to_the_next_moment(self, step: int, advance: bool) -> None:
        moment = self.twins.model.next_moment()
        if moment is not None:
            self.move(max(moment + step, self.twins.model.now), advance)

    @rule(by=st.sampled_from([1, 10, 30, 50, 100, 400, 5000]), advance=st.booleans())
    def on(self, by: int, advance: bool) -> None:
        self.move(self.twins.model.now + by, advance)

    @rule(budget=st.integers(2, 4))
    def in_slices(self, budget: int) -> None:
        self.together = 0
        self.twins.tick_in_slices(budget)

    def move(self, to: int, advance: bool) -> None:
        self.together = 0
        (self.twins.advance if advance else self.twins.tick)(to)

    @rule(number=st.integers(1, 4))
    def begin_multi(self, number: int) -> None:
        """The next operations are one step."""
        self.together = number


def test_the_broker_does_what_the_model_does() -> None:
    run_state_machine_as_test(
        Machine,
        settings=settings(
            max_examples=examples(1000),
            stateful_step_count=60,
            deadline=None,
            suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large, HealthCheck.large_base_example],
        ),
    )
