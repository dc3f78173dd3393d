"""What both kinds of client have in common: errors, and how long a command may block."""

from __future__ import annotations

import inspect
import logging
import math
import random
from typing import TYPE_CHECKING, Protocol

import redis

from respmq.errors import BrokerError, BrokerUnavailableError, InvalidRequestError, OtherError, error_from_line

if TYPE_CHECKING:
    from collections.abc import Mapping

LOG = logging.getLogger("respmq.redis")

#: The longest time that a command blocks, in seconds: a broker that is gone shouldn't be waited for much longer.
LONGEST_SLICE = 30.0

#: The part of the socket's time-out for which a command blocks.
_PART = 0.8

#: Seconds before the second attempt to reach a broker that is gone, and the most; each is varied by half.
_FIRST_PAUSE = 0.1
_LONGEST_PAUSE = 5.0

#: Why a delivery is nacked whose loop was left in the middle.
LEFT = "the loop was left before the delivery was settled"


class Pool(Protocol):
    """What is used of a connection pool."""

    @property
    def connection_kwargs(self) -> Mapping[str, object]:
        """What its connections are made with."""
        ...

    @property
    def connection_class(self) -> type:
        """What they are."""
        ...


def longest_slice(pool: Pool) -> float:
    """How many seconds a command may block, so that the client doesn't take the silence for a broken connection."""
    timeout = pool.connection_kwargs.get("socket_timeout", _default_timeout(pool.connection_class))
    if not isinstance(timeout, int | float) or timeout <= 0:
        return LONGEST_SLICE
    return min(timeout * _PART, LONGEST_SLICE)


def _default_timeout(connection_class: type) -> object:
    for each in connection_class.__mro__:
        parameter = inspect.signature(each).parameters.get("socket_timeout")
        if parameter is not None:
            return parameter.default
    return None


def pause_before(attempt: int) -> float:
    """Seconds to wait before the `attempt`th attempt in a row to reach the broker, counted from 1."""
    longest = min(_FIRST_PAUSE * (1 << min(attempt - 1, 20)), _LONGEST_PAUSE)
    return longest * random.uniform(0.5, 1.5)  # noqa: S311 - so that clients don't come back all at once


class Slices:
    """A long wait in pieces that are short enough. `wait` is in seconds, `math.inf` for ever; `now` a running clock."""

    def __init__(self, wait: float, longest: float, now: float) -> None:
        self._end = now + wait
        self._longest = longest

    def next(self, now: float) -> float:
        """The next piece; 0 when it is over."""
        left = self._end - now
        # Below a millisecond there is nothing to wait for.
        return 0.0 if left < 0.001 else min(left, self._longest)


def translated(error: redis.RedisError) -> BrokerError:
    """An error of redis-py as ours: by the error word, if it is an answer, else the broker can't be reached."""
    if not isinstance(error, redis.AuthenticationError | redis.ResponseError | redis.BusyLoadingError):
        return BrokerUnavailableError(str(error) or type(error).__name__)
    word: object = getattr(error, "status_code", None)
    if word:
        return error_from_line(f"{word} {error}")
    # Before version 8, redis-py keeps the word in the text, or has a class for it, or (ERR) drops it.
    if isinstance(error, redis.AuthenticationError):
        word = "WRONGPASS" if "invalid username-password" in str(error) else "NOAUTH"
    else:
        word = _WORDS.get(type(error).__name__)
    if word:
        return error_from_line(f"{word} {error}")
    found = error_from_line(str(error))
    return InvalidRequestError(str(error)) if isinstance(found, OtherError) else found


#: The words of redis-py's classes.
_WORDS = {
    "BusyLoadingError": "LOADING",
    "ExecAbortError": "EXECABORT",
    "NoPermissionError": "NOPERM",
    "OutOfMemoryError": "OOM",
}

#: The codes of errors that will pass: the broker is gone, or still reads its journal.
NOT_NOW = frozenset({BrokerUnavailableError.code, "LOADING"})

FOREVER = math.inf
