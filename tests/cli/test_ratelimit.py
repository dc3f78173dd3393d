"""The limit on repeated log lines, with a clock that only the test moves."""

from __future__ import annotations

import pytest

from respmq.cli.ratelimit import RateLimiter


class Time:
    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def time() -> Time:
    return Time()


@pytest.fixture
def limiter(time: Time) -> RateLimiter:
    return RateLimiter(3, 10.0, time)


def test_so_many_are_admitted_and_the_others_counted(limiter: RateLimiter, time: Time) -> None:
    assert [limiter.admit("a") for _ in range(5)] == [True, True, True, False, False]
    time.now += 9.9
    assert not limiter.admit("a")
    assert limiter.take_left_out() == []
    time.now += 0.1
    assert limiter.take_left_out() == [("a", 3)]
    assert limiter.take_left_out() == []


def test_a_new_interval_begins_with_the_next_event(limiter: RateLimiter, time: Time) -> None:
    for _ in range(4):
        limiter.admit("a")
    time.now += 25
    limiter.take_left_out()
    assert [limiter.admit("a") for _ in range(4)] == [True, True, True, False]
    time.now += 9.9
    assert limiter.take_left_out() == []
    time.now += 0.1
    assert limiter.take_left_out() == [("a", 1)]


def test_each_event_has_a_limit_of_its_own(limiter: RateLimiter, time: Time) -> None:
    for _ in range(5):
        limiter.admit("a")
    time.now += 5
    assert [limiter.admit("b") for _ in range(4)] == [True, True, True, False]
    time.now += 5
    assert limiter.take_left_out() == [("a", 2)]
    time.now += 5
    assert limiter.take_left_out() == [("b", 1)]


def test_who_stays_below_the_limit_is_no_news(limiter: RateLimiter, time: Time) -> None:
    limiter.admit("a")
    time.now += 10
    assert limiter.take_left_out() == []


def test_at_the_end_nothing_is_waited_for(limiter: RateLimiter) -> None:
    for _ in range(4):
        limiter.admit("a")
    assert limiter.take_left_out(all=True) == [("a", 1)]
