"""What counts for `maxmemory` is what things take, and is gone with them."""

from __future__ import annotations

import os
import tracemalloc
from collections.abc import Callable

import pytest

from respmq.core.hub import NO_LIMIT
from respmq.core.model import Extra
from respmq.errors import TooBigError
from tests.unit.core.bench import Bench

COUNT = 4_000

Fill = Callable[[Bench, int], None]


def put(*, id: int = 0, headers: int = 0, attachments: int = 0, ttl: int | None = None) -> Fill:
    """Puts messages: with ids of so many bytes, so many headers and attachments."""

    def fill(bench: Bench, number: int) -> None:
        # As from the wire: no two messages share a word.
        extra = None
        if headers or attachments or ttl is not None:
            named = {b"name%d" % n + b"": os.urandom(20) for n in range(headers)}
            extra = Extra(named, tuple(os.urandom(40) for _ in range(attachments)), ttl)
        chosen = (b"%08d" % number).ljust(id, b"x") if id else None
        bench.broker.put(b"q", os.urandom(20), id=chosen, extra=extra)

    return fill


def acked(fill: Fill) -> Fill:
    """The same, and acks them."""

    def fill_and_ack(bench: Bench, number: int) -> None:
        fill(bench, number)
        bench.broker.ack(b"q", (bench.take(),))

    return fill_and_ack


def dead(error: int) -> Fill:
    """Kills messages with an error text of so many bytes."""

    def fill(bench: Bench, number: int) -> None:
        put()(bench, number)
        bench.broker.reject(b"q", bench.take(), os.urandom(error) if error else None)

    return fill


CASES: dict[str, Fill] = {
    "plain": put(),
    "a short id": put(id=8),
    "an id as long as ours": put(id=32),
    "a long id": put(id=255),
    "an id that is remembered": acked(put(id=100)),
    "a header": put(headers=1),
    "five headers": put(headers=5),
    "twenty headers": put(headers=20),
    "an attachment": put(attachments=1),
    "ten attachments": put(attachments=10),
    "all of it": put(id=100, headers=3, attachments=2),
    "a TTL": put(ttl=1_000_000),
    "dead": dead(0),
    "dead of a long error": dead(1_000),
}


@pytest.mark.parametrize("case", CASES)
def test_the_estimate_is_about_what_it_takes(case: str) -> None:
    """What the system needs to manage the memory isn't traced, but is counted: so the estimate may be a bit higher."""
    bench = Bench(max_len=NO_LIMIT, max_dead=NO_LIMIT)
    CASES[case](bench, COUNT)
    used = bench.broker.used_memory
    tracemalloc.start()
    try:
        for number in range(COUNT):
            CASES[case](bench, number)
        taken = tracemalloc.get_traced_memory()[0]
    finally:
        tracemalloc.stop()
    assert 0.85 < (bench.broker.used_memory - used) / taken < 1.35


@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize("way", ["ack", "expire", "kill", "replay", "purge", "delete", "forget first"])
def test_nothing_is_left_when_all_is_gone(case: str, way: str) -> None:
    bench = Bench(max_attempts=1, retry_delay=0, ack_timeout=1_000)
    for number in range(20):
        CASES[case](bench, number)
    broker = bench.broker
    if way == "forget first":
        bench.after(300_000)
    if way == "delete":
        bench.take() if bench.ready else None
        broker.delete(b"q")
    elif way == "purge":
        broker.purge(b"q")
    else:
        tokens = tuple(message.lease or b"" for message in bench.lease(20))
        if way == "expire":
            bench.after(1_000)
        elif way in {"kill", "replay"}:
            for token in tokens:
                broker.nack(b"q", token, error=b"e" * 100)
            if way == "replay":
                broker.replay_dead(b"q")
                broker.purge(b"q")
        else:
            broker.ack(b"q", tokens)
    if way != "delete":
        broker.purge_dead(b"q")
    bench.after(300_000)
    assert broker.used_memory == 0


def test_a_purge_leaves_what_is_leased_counted() -> None:
    bench = Bench()
    put(id=200, headers=3)(bench, 1)
    used = bench.broker.used_memory
    token = bench.take()
    for number in range(2, 4):
        put(id=200, headers=3)(bench, number)
    bench.broker.purge(b"q")
    bench.after(300_000)
    assert 0 < bench.broker.used_memory < used
    bench.broker.ack(b"q", (token,))
    assert bench.broker.used_memory == 0


@pytest.mark.parametrize("command", ["nack", "reject"])
def test_an_error_is_no_larger_than_a_message_may_be(command: str) -> None:
    bench = Bench()
    bench.put(b"m")
    token = bench.take()
    bench.broker.max_message_size = 100
    with pytest.raises(TooBigError, match="the error is 101 bytes, max-message-size allows 100"):
        getattr(bench.broker, command)(b"q", token, error=b"e" * 101)
    assert bench.leased == [b"m"]
    assert getattr(bench.broker, command)(b"q", token, error=b"e" * 100) == 1
