"""The arithmetic of retries."""

from __future__ import annotations

from typing import Any

import pytest

from respmq import InvalidRequestError, RetryPolicy, SoftFailure


def least(a: float, b: float) -> float:
    return a


def most(a: float, b: float) -> float:
    return b


def pauses(policy: RetryPolicy, failure: SoftFailure | None = None, uniform: Any = least) -> list[float]:
    return [policy.delay(failures, failure, uniform) for failures in range(1, 7)]


def test_pauses_double_up_to_the_longest() -> None:
    assert pauses(RetryPolicy(jitter=False)) == [30, 60, 120, 240, 300, 300]
    assert pauses(RetryPolicy(initial_delay=1, backoff_base=3, max_delay=50, jitter=False)) == [1, 3, 9, 27, 50, 50]
    assert pauses(RetryPolicy(backoff_base=1, jitter=False)) == [30] * 6
    assert pauses(RetryPolicy(initial_delay=0)) == [0] * 6


def test_jitter_is_a_factor_from_a_half_to_one_and_a_half_and_never_above_the_longest() -> None:
    assert pauses(RetryPolicy(), uniform=least) == [15, 30, 60, 120, 240, 300]
    assert pauses(RetryPolicy(), uniform=most) == [45, 90, 180, 300, 300, 300]
    real = {RetryPolicy().delay(1) for _ in range(100)}
    assert len(real) > 50
    assert all(15 <= pause <= 45 for pause in real)


def test_a_failure_may_know_better() -> None:
    policy = RetryPolicy()
    assert pauses(policy, SoftFailure("x", retry_after=7)) == [7] * 6
    assert pauses(policy, SoftFailure("x", retry_after=1000)) == [1000] * 6
    assert pauses(policy, SoftFailure("x", retry_after=10, jitter=True), most) == [15] * 6
    assert pauses(policy, SoftFailure("x", jitter=False)) == [30, 60, 120, 240, 300, 300]
    assert pauses(policy, SoftFailure("x", backoff_base=1, jitter=False)) == [30] * 6
    assert pauses(policy, SoftFailure("x", retry_after=1, backoff_base=10, jitter=False)) == [1, 10, 100, 300, 300, 300]
    assert pauses(RetryPolicy(jitter=False), SoftFailure("x", jitter=True), most)[0] == 45
    assert policy.retries() == policy.retries(SoftFailure("x")) == 5
    assert policy.retries(SoftFailure("x", retry_max=0)) == 0
    assert policy.retries(SoftFailure("x", retry_max=10)) == 10


def test_no_number_of_failures_and_no_base_is_too_much() -> None:
    assert RetryPolicy().delay(1_000_000) == 300
    assert RetryPolicy(backoff_base=1e300, jitter=False).delay(11) == 300


#: Any: arguments by name.
WRONG: list[tuple[Any, dict[str, Any], str]] = [
    (RetryPolicy, {"max_retries": 11}, "invalid max_retries 11: an integer from 0 to 10"),
    (RetryPolicy, {"max_retries": -1}, "invalid max_retries -1"),
    (RetryPolicy, {"initial_delay": -1}, "invalid initial_delay -1: a number of at least 0"),
    (RetryPolicy, {"backoff_base": 0.5}, "invalid backoff_base 0.5: a number of at least 1"),
    (RetryPolicy, {"max_delay": float("nan")}, "invalid max_delay nan"),
    (SoftFailure, {"reason": "x", "retry_max": 11}, "invalid retry_max 11: an integer from 0 to 10"),
    (SoftFailure, {"reason": "x", "retry_after": -1}, "invalid retry_after -1"),
    (SoftFailure, {"reason": "x", "backoff_base": 0}, "invalid backoff_base 0"),
]


@pytest.mark.parametrize(("kind", "settings", "text"), WRONG, ids=[text for _, _, text in WRONG])
def test_what_can_not_be(kind: Any, settings: dict[str, Any], text: str) -> None:
    with pytest.raises(InvalidRequestError) as error:
        kind(**settings)
    assert text in str(error.value)
