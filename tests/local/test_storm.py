"""Sinks that do anything that a program can do, all at once: the broker stays whole."""

from __future__ import annotations

import contextlib
import random
from collections.abc import Callable

import pytest
import trio
from trio.testing import MockClock

from respmq import Broker, BrokerError, Delivery, Event, InvalidRequestError, QueueConfig

QUEUES = ("a", "b", "c.d")
STEPS = 300
CONFIG = QueueConfig(max_len=30, overflow="DROPHEAD", ack_timeout=4, retry_delay=0.5, max_attempts=3)


class Storm:
    """Random calls, from outside and from within sinks."""

    def __init__(self, broker: Broker, seed: int) -> None:
        self.broker = broker
        self.dice = random.Random(seed)
        self.held: list[Delivery] = []
        self.tags: list[str] = []
        self.subscriptions: list[str] = []
        #: How deep sinks of sinks may still call: without a bound the storm would have no end.
        self.calls = 4_000
        self.inside = self.failures = 0
        self.most_inside = 0

    def deed(self) -> None:
        """One random call; the broker may refuse it."""
        deeds: list[Callable[[], object]] = [
            self._put,
            self._put,
            self._publish,
            self._take,
            self._settle,
            self._settle,
        ]
        rare: list[Callable[[], object]] = [
            self._consume,
            self._cancel,
            self._subscribe,
            self._unsubscribe,
            self._queue,
        ]
        chosen = self.dice.choice(deeds if self.dice.random() < 0.85 else rare)
        self.calls -= 1
        with contextlib.suppress(BrokerError):
            chosen()

    def _name(self) -> str:
        return self.dice.choice(QUEUES)

    def _put(self) -> object:
        return self.broker.put(
            self._name(),
            {"n": self.dice.random()},
            id=str(self.dice.randrange(50)) if self.dice.random() < 0.3 else None,
            priority=self.dice.randrange(3),
            delay=self.dice.choice([0, 0, 0, 1, 5]),
            ttl=self.dice.choice([None, None, 7]),
        )

    def _publish(self) -> object:
        return self.broker.publish(self.dice.choice(["x", "x.y", "z"]), self.dice.random())

    def _take(self) -> None:
        self.held += self.broker.lease(self._name(), count=self.dice.randrange(1, 4))

    def _settle(self) -> object:
        if not self.held:
            return None
        one = self.held.pop(self.dice.randrange(len(self.held)))
        how = self.dice.randrange(5)
        if how == 0:
            return self.broker.ack(one.queue, one.lease)
        if how == 1:
            return self.broker.touch(one.queue, one.lease)
        return self.broker.nack(
            one.queue,
            one.lease,
            requeue=how != 2,
            release=how == 3,
            delay=self.dice.choice([None, 0, 2]) if how != 2 else None,
        )

    def _consume(self) -> None:
        self.tags.append(self.broker.consume(self._name(), self._sink, prefetch=self.dice.randrange(1, 4)))

    def _cancel(self) -> object:
        return self.broker.cancel(self.tags.pop()) if self.tags else None

    def _subscribe(self) -> None:
        if len(self.subscriptions) == 5:
            return
        pattern = self.dice.choice(["#", "x.*", "$sys.dead.#"])
        self.subscriptions.append(self.broker.subscribe(pattern, self._see))

    def _unsubscribe(self) -> object:
        return self.broker.unsubscribe(self.subscriptions.pop()) if self.subscriptions else None

    def _queue(self) -> object:
        name, what = self._name(), self.dice.randrange(5)
        if what == 0:
            return self.broker.bind(self.dice.choice(["#", "x.#"]), name)
        if what == 1:
            return self.broker.replay_dead(name)
        if what == 2:
            return self.broker.purge_queue(name)
        if what == 3 and self.dice.random() < 0.3:
            self.broker.delete_queue(name)
        self.broker.declare_queue(name, CONFIG)
        return None

    def _sink(self, job: Delivery) -> None:
        self._within(lambda: self.held.append(job))

    def _see(self, sub: str, event: Event) -> None:
        assert event.body is not None
        self._within(lambda: None)

    def _within(self, first: Callable[[], None]) -> None:
        self.inside += 1
        self.most_inside = max(self.most_inside, self.inside)
        try:
            first()
            for _ in range(self.dice.randrange(3)):
                if self.calls > 0:
                    self.deed()
            if self.dice.random() < 0.1:
                self.failures += 1
                raise ValueError("a sink that fails")
        finally:
            self.inside -= 1


@pytest.mark.parametrize("seed", range(6))
async def test_the_broker_stays_whole(seed: int, autojump_clock: MockClock, caplog: pytest.LogCaptureFixture) -> None:
    async with Broker() as broker:
        storm = Storm(broker, seed)
        for queue in QUEUES:
            broker.declare_queue(queue, CONFIG)
        for _ in range(STEPS):
            storm.deed()
            await trio.sleep(storm.dice.choice([0, 0, 0.3, 1]))
        # Sinks are never called within sinks.
        assert storm.most_inside <= 1
        storm.calls = 0
        for tag in storm.tags:
            with contextlib.suppress(InvalidRequestError):
                # It may have gone with its queue.
                broker.cancel(tag)
        for name in storm.subscriptions:
            broker.unsubscribe(name)
        for queue in broker.list_queues():
            for pattern in ("#", "x.#"):
                broker.unbind(pattern, queue)
        # All leases end, and what can be handed out is handed out once.
        await trio.sleep(100)
        for queue in broker.list_queues():
            stats = broker.stats(queue)
            assert (stats.in_flight, stats.delayed, stats.consumers) == (0, 0, 0)
            left = broker.lease(queue, count=1000)
            assert len(left) == stats.ready
            assert len({job.id for job in left}) == len(left)
            assert all(broker.ack(queue, job.lease) for job in left)
            after = broker.stats(queue)
            assert (after.ready, after.in_flight, after.bytes) == (0, 0, 0)
            broker.purge_dead(queue)
            broker.delete_queue(queue)
        counts = broker.broker_stats()
        assert (counts.queues, counts.subscriptions, counts.bindings) == (0, 0, 0)
    assert len(caplog.records) == storm.failures
