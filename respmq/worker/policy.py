"""What becomes of a message whose handler has failed: the verdicts, and the pauses between retries."""

from __future__ import annotations

import random
from dataclasses import dataclass
from typing import TYPE_CHECKING

from respmq.errors import InvalidRequestError

if TYPE_CHECKING:
    from collections.abc import Callable

#: More retries than these are not given to any message.
MOST_RETRIES = 10

#: By what jitter multiplies a pause, at least and at most.
LEAST_JITTER, MOST_JITTER = 0.5, 1.5


class HardFailure(Exception):
    """Raised by a handler: the work can't be done, now or later. The message becomes a dead letter.

    Args:
        reason: kept with the dead letter.
    """

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.reason = reason


class SoftFailure(Exception):
    """Raised by a handler: the work can't be done now. The message comes back after a pause.

    What is None is as the worker's `RetryPolicy` says.

    Args:
        reason: kept with the dead letter, if it is the last retry that has failed.
        retry_after: seconds to wait, exactly, however many there have been before. Together with `backoff_base`: before
            the first retry.
        retry_max: how many retries there may be, at most 10.
        backoff_base: by what each further pause is multiplied.
        jitter: whether the pause is multiplied by a random factor from 0.5 to 1.5.
        counts: False defers the message: it comes back as if it had not been handed out, and may do so for ever.

    Raises:
        InvalidRequestError: a number is out of its range.
    """

    def __init__(
        self,
        reason: str,
        *,
        retry_after: float | None = None,
        retry_max: int | None = None,
        backoff_base: float | None = None,
        jitter: bool | None = None,
        counts: bool = True,
    ) -> None:
        super().__init__(reason)
        if retry_after is not None:
            _at_least("retry_after", retry_after, 0)
        if retry_max is not None:
            _check_retries("retry_max", retry_max)
        if backoff_base is not None:
            _at_least("backoff_base", backoff_base, 1)
        self.reason = reason
        self.retry_after = retry_after
        self.retry_max = retry_max
        self.backoff_base = backoff_base
        self.jitter = jitter
        self.counts = counts


@dataclass(frozen=True, slots=True, kw_only=True)
class RetryPolicy:
    """How often a message comes back after a soft failure, and after what pauses.

    The pause after the n-th failure is `initial_delay * backoff_base ** (n - 1)`, with `jitter` multiplied by a random
    factor from 0.5 to 1.5, and never above `max_delay`.

    Args:
        initial_delay: seconds before the first retry.
        backoff_base: by what each further pause is multiplied, at least 1.
        max_delay: the longest pause in seconds.
        max_retries: how many retries there are, at most 10. After the last one the message becomes a dead letter.
        jitter: whether pauses are random.

    Raises:
        InvalidRequestError: a number is out of its range.
    """

    initial_delay: float = 30.0
    backoff_base: float = 2.0
    max_delay: float = 300.0
    max_retries: int = 5
    jitter: bool = True

    def __post_init__(self) -> None:
        _at_least("initial_delay", self.initial_delay, 0)
        _at_least("backoff_base", self.backoff_base, 1)
        _at_least("max_delay", self.max_delay, 0)
        _check_retries("max_retries", self.max_retries)

    def delay(
        self,
        failures: int,
        failure: SoftFailure | None = None,
        uniform: Callable[[float, float], float] = random.uniform,
    ) -> float:
        """The pause in seconds after so many failures.

        Args:
            failures: how often the message has failed, this time included.
            failure: what the handler has said of it.
            uniform: `f(a, b)` gives a random number between a and b.
        """
        base, first, jitter = self.backoff_base, self.initial_delay, self.jitter
        if failure is not None:
            if failure.retry_after is not None and failure.backoff_base is None:
                return failure.retry_after * (uniform(LEAST_JITTER, MOST_JITTER) if failure.jitter else 1.0)
            base = base if failure.backoff_base is None else failure.backoff_base
            first = first if failure.retry_after is None else failure.retry_after
            jitter = jitter if failure.jitter is None else failure.jitter
        pause = first
        # Not a power, which a float may overflow, and bounded: a message that is deferred may have failed very often.
        for _ in range(min(failures - 1, MOST_RETRIES)):
            pause *= base
        return min(pause * uniform(LEAST_JITTER, MOST_JITTER) if jitter else pause, self.max_delay)

    def retries(self, failure: SoftFailure | None = None) -> int:
        """How many retries there are after a failure of this kind."""
        return self.max_retries if failure is None or failure.retry_max is None else failure.retry_max


def _at_least(name: str, value: float, least: float) -> None:
    if not least <= value < float("inf"):
        msg = f"invalid {name} {value!r}: a number of at least {least} is wanted"
        raise InvalidRequestError(msg)


def _check_retries(name: str, value: int) -> None:
    if not 0 <= value <= MOST_RETRIES:
        msg = f"invalid {name} {value!r}: an integer from 0 to {MOST_RETRIES} is wanted"
        raise InvalidRequestError(msg)
