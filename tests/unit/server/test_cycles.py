"""What is gone is freed at once: the cyclic collector hardly ever looks at what has been there for a while."""

from __future__ import annotations

import gc
import os
import random
from collections.abc import Iterator

import pytest

from respmq.core.model import QueueSettings
from respmq.engine.memory import MemoryEngine
from tests.unit.rig import START, Rig


@pytest.fixture
def no_collector() -> Iterator[None]:
    gc.collect()
    gc.disable()
    yield
    gc.enable()


def test_deleted_queues(no_collector: None) -> None:
    engine = MemoryEngine(START, os.urandom, random.uniform)
    for moment in range(50):
        engine.declare(b"q", QueueSettings(ttl=2000))
        engine.put(b"q", b"delayed", delay=1000)
        engine.put(b"q", b"leased", id=b"%d" % moment)
        assert engine.lease_one(b"q")
        engine.delete(b"q")
        engine.tick(START + moment)
    assert gc.collect() == 0


@pytest.mark.parametrize(
    "words", [("SUBSCRIBE", "t"), ("PSUBSCRIBE", "a.#"), ("QCONSUME", "q"), ("PING",)], ids=" ".join
)
def test_clients_that_have_gone(words: tuple[str, ...], no_collector: None) -> None:
    rig = Rig()
    rig.connect().cmd("QDECLARE", "q")
    gc.collect()
    for _ in range(50):
        come_and_go(rig, words)
    rig.settle()
    assert gc.collect() == 0


def come_and_go(rig: Rig, words: tuple[str, ...]) -> None:
    client = rig.connect(resp=3)
    assert client.cmd(*words)
    rig.forget(client)


def test_a_request_that_is_held_again_and_again() -> None:
    """Each pause that is followed by another one finds it as it was: nothing is wrapped around it."""
    rig = Rig()
    holder, held = rig.connect(), rig.connect()
    holder.cmd("QDECLARE", "q")
    holder.cmd("CLIENT", "PAUSE", 1_000_000, "WRITE")
    assert held.all(("QPUT", "q", "1"), ("QPUT", "q", "2"), ("PING",)) == b""
    before = len(gc.get_objects())
    for _ in range(1_000):
        holder.all(("CLIENT", "UNPAUSE"), ("CLIENT", "PAUSE", 1_000_000, "WRITE"))
    gc.collect()
    assert len(gc.get_objects()) < before + 500
    assert rig.state.engine.stats(b"q").ready == 0
    holder.cmd("CLIENT", "UNPAUSE")
    rig.settle()
    assert held.read().count(b"$32\r\n") == 2
    assert rig.state.engine.stats(b"q").ready == 2
