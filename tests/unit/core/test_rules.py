"""The rules of one queue, one by one: backoff, attempts, places, TTL, leases and late acks."""

from __future__ import annotations

import pytest

from respmq.core.model import QueueSettings
from respmq.errors import (
    InvalidRequestError,
)
from tests.unit.core.bench import Bench

# -- Backoff


def waits(bench: Bench, deliveries: int) -> list[int]:
    """How long a message that always fails is delayed after each delivery."""
    bench.put(b"m")
    found: list[int] = []
    for _ in range(deliveries):
        token = bench.take()
        before = bench.now
        bench.broker.nack(b"q", token)
        while not bench.ready:
            following = bench.broker.tick(bench.broker.now)
            assert following is not None
            bench.broker.advance(following)
        found.append(bench.now - before)
    return found


def test_the_backoff_doubles_up_to_its_cap() -> None:
    bench = Bench(retry_delay=1_000, max_retry_delay=10_000, max_attempts=100)
    assert waits(bench, 8) == [1_000, 2_000, 4_000, 8_000, 10_000, 10_000, 10_000, 10_000]


def test_a_cap_between_two_doublings_is_met_exactly() -> None:
    assert waits(Bench(retry_delay=3, max_retry_delay=13, max_attempts=9), 5) == [3, 6, 12, 13, 13]


def test_a_backoff_of_0_stays_0() -> None:
    assert waits(Bench(retry_delay=0, max_attempts=9), 5) == [0] * 5


def test_very_many_attempts_make_no_very_long_number() -> None:
    settings = QueueSettings(retry_delay=1, max_retry_delay=3650 * 86_400_000, max_attempts=1 << 62)
    assert settings.backoff(1 << 40, lambda _low, _high: 1.0) == 3650 * 86_400_000
    assert settings.backoff(39, lambda _low, _high: 1.0) == 1 << 38


@pytest.mark.parametrize(
    ("fraction", "wanted"), [(0.0, [750, 1500, 2250]), (1.0, [1250, 2500, 3750]), (0.5, [1000, 2000, 3000])]
)
def test_jitter_multiplies_each_wait_by_a_factor_around_1(fraction: float, wanted: list[int]) -> None:
    bench = Bench(retry_delay=1_000, max_retry_delay=3_000, retry_jitter=0.25, max_attempts=9)
    bench.fraction = fraction
    assert waits(bench, 3) == wanted
    assert bench.draws == [(0.75, 1.25)] * 3


def test_jitter_of_1_reaches_from_0_to_twice() -> None:
    bench = Bench(retry_delay=1_000, retry_jitter=1.0, max_attempts=9)
    for bench.fraction, wait in ((0.0, 0), (1.0, 4_000)):
        assert waits(bench, 1) == [wait] if not wait else True
    assert bench.draws[0] == (0.0, 2.0)


def test_without_jitter_no_chance_is_asked_for() -> None:
    bench = Bench(max_attempts=9)
    waits(bench, 3)
    assert bench.draws == []


def test_a_delay_that_the_client_names_is_neither_doubled_nor_jittered() -> None:
    bench = Bench(retry_delay=1_000, retry_jitter=1.0, max_attempts=9)
    bench.put(b"m")
    for _ in range(3):
        bench.broker.nack(b"q", bench.take(), delay=70)
        bench.after(69)
        assert bench.delayed == [b"m"]
        bench.after(1)
        assert bench.ready == [b"m"]
    assert bench.draws == []


# -- Attempts


def test_the_last_attempt_s_failure_kills() -> None:
    bench = Bench(max_attempts=2, retry_delay=0)
    bench.put(b"m")
    bench.broker.nack(b"q", bench.take(), error=b"first")
    bench.broker.nack(b"q", bench.take(), error=b"second")
    assert bench.dead == [(b"m", "max_attempts", b"second", 0)]
    assert (bench.stat("retried"), bench.stat("delivered")) == (1, 2)


def test_an_expired_lease_is_a_failure() -> None:
    bench = Bench(max_attempts=2, retry_delay=0, ack_timeout=100)
    bench.put(b"m")
    bench.take()
    bench.after(99)
    assert bench.leased == [b"m"]
    bench.after(1)
    assert bench.ready == [b"m"]
    bench.take(lease=30)
    bench.after(30)
    assert bench.dead == [(b"m", "max_attempts", b"ack timeout", 130)]
    assert bench.stat("expired_leases") == 2


def test_a_release_counts_no_attempt_but_a_delivery() -> None:
    bench = Bench(max_attempts=1)
    bench.put(b"m")
    for _ in range(5):
        (found,) = bench.lease()
        assert found.attempt == 1
        assert bench.broker.release(b"q", found.lease or b"") == 1
    assert (bench.stat("delivered"), bench.stat("retried")) == (5, 0)


def test_what_never_reached_its_client_counts_neither() -> None:
    bench = Bench(max_attempts=1)
    bench.put(b"1", b"2", b"3")
    taken = bench.lease(3)
    bench.broker.undeliver([(m.queue, m.lease or b"") for m in reversed(taken)])
    assert bench.ready == [b"1", b"2", b"3"]
    assert bench.stat("delivered") == 0
    assert {m.attempt for m in bench.lease(3)} == {1}


# -- Places


def test_where_a_message_stands_that_comes_back() -> None:
    bench = Bench(retry_delay=0)
    bench.put(b"1", b"2", b"3")
    bench.broker.nack(b"q", bench.take())
    assert bench.ready == [b"2", b"3", b"1"]
    bench.broker.release(b"q", bench.take())
    assert bench.ready == [b"2", b"3", b"1"]
    bench.broker.release(b"q", bench.take(), delay=10)
    bench.put(b"4")
    bench.after(10)
    bench.put(b"5")
    assert bench.ready == [b"3", b"1", b"4", b"2", b"5"]


def test_leases_that_end_together_keep_their_order() -> None:
    bench = Bench(retry_delay=0, ack_timeout=100)
    bench.put(b"1", b"2", b"3", b"4")
    bench.lease(2)
    bench.lease(1)
    bench.after(100)
    assert bench.ready == [b"4", b"1", b"2", b"3"]


def test_delayed_ones_become_ready_in_the_order_of_their_due_times() -> None:
    bench = Bench()
    bench.put(b"late", delay=30)
    bench.put(b"first", delay=10)
    bench.put(b"second", delay=10)
    bench.put(b"urgent", delay=20, priority=-1)
    assert bench.delayed == [b"first", b"second", b"urgent", b"late"]
    bench.after(30)
    assert bench.ready == [b"urgent", b"first", b"second", b"late"]


# -- TTL


def test_the_clock_of_the_ttl_stands_still_under_a_lease_and_begins_anew_behind_it() -> None:
    bench = Bench(ttl=100, ack_timeout=1_000, retry_delay=0)
    bench.put(b"m")
    bench.after(99)
    token = bench.take()
    bench.after(500)
    bench.broker.release(b"q", token)
    bench.after(99)
    bench.broker.nack(b"q", bench.take())
    bench.after(99)
    assert bench.ready == [b"m"]
    bench.after(1)
    assert bench.dead == [(b"m", "ttl_expired", None, 798)]


@pytest.mark.parametrize(
    ("queue_ttl", "own", "dies_at"), [(100, 50, 50), (100, 500, 100), (None, 70, 70), (100, None, 100)]
)
def test_the_message_s_own_ttl_can_only_shorten(queue_ttl: int | None, own: int | None, dies_at: int) -> None:
    bench = Bench(ttl=queue_ttl)
    bench.put(b"m") if own is None else bench.put(b"m", ttl=own)
    bench.after(10_000)
    assert bench.dead == [(b"m", "ttl_expired", None, dies_at)]


def test_a_delay_counts_for_the_ttl() -> None:
    bench = Bench(ttl=100)
    bench.put(b"m", delay=60)
    bench.after(60)
    assert bench.ready == [b"m"]
    bench.after(40)
    assert bench.dead == [(b"m", "ttl_expired", None, 100)]


@pytest.mark.parametrize("delay", [100, 101, 1 << 40])
def test_a_delay_that_is_not_below_the_ttl_is_refused(delay: int) -> None:
    bench = Bench(ttl=100)
    with pytest.raises(InvalidRequestError, match=r"DELAY .* is not below the queue's TTL"):
        bench.put(b"m", delay=delay)
    bench.declare(b"other")
    with pytest.raises(InvalidRequestError, match=r"DELAY .* is not below its TTL"):
        bench.put(b"m", name=b"other", delay=delay, ttl=100)
    assert (bench.stat("enqueued"), bench.stat("enqueued", b"other")) == (0, 0)


def test_a_backoff_beyond_the_ttl_ends_with_it() -> None:
    bench = Bench(ttl=100, retry_delay=1_000)
    bench.put(b"m")
    bench.broker.nack(b"q", bench.take())
    bench.after(100)
    assert bench.dead == [(b"m", "ttl_expired", None, 100)]


# -- Late acks


def test_a_lease_that_has_expired_can_be_acked_until_the_message_is_handed_out_again() -> None:
    bench = Bench(ack_timeout=10, retry_delay=1_000, dedupe=0)
    bench.put(b"m")
    late = bench.take()
    bench.after(10)
    assert bench.broker.nack(b"q", late) == bench.broker.touch(b"q", (late,)) == bench.broker.reject(b"q", late) == 0
    assert bench.broker.ack(b"q", (late, late)) == 1
    assert (bench.stat("delayed"), bench.stat("acked"), bench.broker.used_memory) == (0, 1, 0)


def test_a_stale_lease_does_nothing_although_it_was_the_same_client_s() -> None:
    bench = Bench(ack_timeout=10, retry_delay=0)
    bench.put(b"m")
    first = bench.take()
    bench.after(10)
    second = bench.take()
    assert bench.broker.ack(b"q", (first,)) == 0
    assert bench.broker.release(b"q", first) == 0
    assert bench.broker.ack(b"q", (second,)) == 1
    assert bench.broker.ack(b"q", (second,)) == 0


def test_a_lease_belongs_to_its_queue() -> None:
    bench = Bench()
    bench.declare(b"other")
    bench.put(b"m")
    token = bench.take()
    assert bench.broker.ack(b"other", (token,)) == bench.broker.ack_one(b"other", token) == 0
    assert bench.broker.touch(b"other", (token,)) == bench.broker.nack(b"other", token) == 0
    assert bench.broker.ack_one(b"q", token) == 1


def test_touch_renews_from_now() -> None:
    bench = Bench(ack_timeout=100, retry_delay=0)
    bench.put(b"1", b"2")
    tokens = tuple(m.lease or b"" for m in bench.lease(2))
    bench.after(60)
    assert bench.broker.touch(b"q", (*tokens, b"unknown")) == 2
    assert bench.broker.touch(b"q", tokens[1:], 10) == 1
    bench.after(10)
    assert bench.leased == [b"1"]
    bench.after(89)
    assert bench.leased == [b"1"]
    bench.after(1)
    assert bench.leased == []
