"""Many workers, handlers that do everything that they can do, and workers that come and go: no message is lost."""

from __future__ import annotations

import random

import pytest
import trio
from trio.testing import MockClock

from respmq import Broker, Delivery, HardFailure, Publisher, QueueConfig, RetryPolicy, SoftFailure, Worker

MESSAGES = 200


class Chance:
    """A handler that returns, fails in all ways, or takes too long, by chance; it notes what it returned for."""

    def __init__(self, dice: random.Random) -> None:
        self._dice = dice
        self.done: list[int] = []

    async def __call__(self, job: Delivery) -> dict[str, int]:
        await trio.sleep(self._dice.random() * 8)
        deed = self._dice.randrange(8)
        if deed == 0:
            raise SoftFailure("soft")
        if deed == 1:
            raise SoftFailure("deferred", counts=False, retry_after=self._dice.random() * 20)
        if deed == 2:
            raise HardFailure("hard")
        if deed == 3:
            await trio.sleep_forever()
        if deed == 4:
            async with trio.open_nursery() as nursery:
                nursery.start_soon(trio.sleep, 1)
                nursery.start_soon(trio.sleep, self._dice.random() * 30)
        self.done.append(job.body)
        return {"n": job.body}


@pytest.mark.parametrize("seed", range(3))
async def test_each_message_is_done_or_dead_in_the_end(seed: int, autojump_clock: MockClock) -> None:
    dice = random.Random(seed)
    handler = Chance(dice)
    async with Broker() as broker:
        broker.declare_queue("jobs", QueueConfig(ack_timeout=5, max_attempts=5, dedupe=0))
        out: list[int] = []

        async def collect(job: Delivery) -> None:
            out.append(job.body["n"])

        def make() -> Worker:
            return Worker(
                broker,
                "jobs",
                handler,
                concurrency=dice.randint(1, 5),
                handler_timeout=12,
                shutdown_timeout=dice.choice([0, 5, 30]),
                retry=RetryPolicy(initial_delay=2, max_retries=3),
                results=Publisher(broker, "out", "x"),
            )

        async def come_and_go(name: int) -> None:
            while (stats := broker.stats("jobs")).ready + stats.delayed + stats.in_flight:
                worker = make()
                with trio.move_on_after(dice.random() * 100):
                    async with trio.open_nursery() as nursery:
                        await nursery.start(worker.run)
                        await trio.sleep(dice.random() * 60)
                        worker.stop()
                assert worker.health().oldest_running is None

        collector = Worker(broker, "out", collect, exchange="out")
        async with trio.open_nursery() as nursery:
            await nursery.start(collector.run)
            for number in range(MESSAGES):
                broker.put("jobs", number, priority=number % 3, delay=dice.choice([0, 0, 10]))
            async with trio.open_nursery() as workers:
                for name in range(4):
                    workers.start_soon(come_and_go, name)
            await trio.sleep(1)
            collector.stop()
        stats = broker.stats("jobs")
        dead = {letter.body for letter in broker.dead_letters("jobs", 1000)}
        assert stats.acked + stats.dead == MESSAGES
        # At least once: who was cancelled before the ack has done it, and somebody else does it again or fails.
        assert set(handler.done) | dead == set(range(MESSAGES))
        assert set(out) >= set(range(MESSAGES)) - dead
        assert stats.acked > MESSAGES / 3
        assert stats.dead > 10
        assert stats.expired_leases == 0
