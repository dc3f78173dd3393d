"""The settings of a queue, as programs write them: durations in seconds."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, cast

from respmq.core.model import QueueSettings
from respmq.durations import MAX_DURATION
from respmq.errors import InvalidRequestError

if TYPE_CHECKING:
    from respmq.core.model import Overflow

_MAX_SECONDS = MAX_DURATION // 1000


def _is_number(value: object) -> bool:
    """Whether a value that should be a number is one: programs without a type checker can pass anything."""
    return isinstance(value, int | float) and not isinstance(value, bool)


def milliseconds(value: float, name: str, *, zero: bool = True) -> int:
    """A duration in seconds as milliseconds. What is above 0 and below a millisecond counts as one.

    Args:
        value: the duration.
        name: how it is called in the error.
        zero: whether it may be 0.

    Raises:
        InvalidRequestError: it is negative, not a number, above 3650 days, or 0 where that means nothing.
    """
    if not _is_number(value) or not 0 <= value <= _MAX_SECONDS or (value == 0 and not zero):
        bounds = "from 0" if zero else "above 0"
        msg = (
            f"invalid {name} {value!r}: a number of seconds is wanted, {bounds} and at most {_MAX_SECONDS} (3650 days)"
        )
        raise InvalidRequestError(msg)
    # Rounded as it is written: 0.29 seconds are 290 ms, though the float is a little below.
    return max(math.floor(round(value * 1000, 6)), int(value > 0))


@dataclass(frozen=True, slots=True, kw_only=True)
class QueueConfig:
    """The settings of a queue, fixed for its life. The defaults are those of QDECLARE.

    Args:
        ack_timeout: seconds that a lease lasts.
        max_attempts: deliveries before a message dies.
        retry_delay: seconds before the first retry; each further one waits twice as long. 0 for no pause.
        max_retry_delay: the longest pause in seconds, not below `retry_delay`.
        retry_jitter: from 0 to 1: each pause is multiplied by a random factor from 1-f to 1+f.
        max_len: most ready and delayed messages, looked at when one is put.
        overflow: at `max_len`, `REJECT` refuses the new message, `DROPHEAD` lets the oldest of the least urgent die.
        ttl: seconds that a message may wait, ready or delayed; None for ever.
        max_dead: dead letters kept; the oldest are dropped first.
        dedupe: seconds for which the id of a message is remembered after its put; 0: as long as it is in the queue.

    Raises:
        InvalidRequestError: a value is out of its range.
    """

    ack_timeout: float = 30.0
    max_attempts: int = 5
    retry_delay: float = 1.0
    max_retry_delay: float = 60.0
    retry_jitter: float = 0.0
    max_len: int = 10_000
    overflow: Overflow = "REJECT"
    ttl: float | None = None
    max_dead: int = 1_000
    dedupe: float = 300.0

    def __post_init__(self) -> None:
        for name, least in (("max_attempts", 1), ("max_len", 1), ("max_dead", 0)):
            value: object = getattr(self, name)
            if isinstance(value, bool) or not isinstance(value, int) or value < least:
                msg = f"invalid {name} {value!r}: an integer of at least {least} is wanted"
                raise InvalidRequestError(msg)
        if not _is_number(self.retry_jitter) or not 0 <= self.retry_jitter <= 1:
            msg = f"invalid retry_jitter {self.retry_jitter!r}: a number from 0 to 1 is wanted"
            raise InvalidRequestError(msg)
        if self.overflow not in {"REJECT", "DROPHEAD"}:
            msg = f"invalid overflow {self.overflow!r}: 'REJECT' or 'DROPHEAD' is wanted"
            raise InvalidRequestError(msg)
        self.to_settings()

    def to_settings(self) -> QueueSettings:
        """The settings as the broker has them.

        Raises:
            InvalidRequestError: a duration is out of its range, or `max_retry_delay` below `retry_delay`.
        """
        return QueueSettings(
            ack_timeout=milliseconds(self.ack_timeout, "ack_timeout", zero=False),
            max_attempts=self.max_attempts,
            retry_delay=milliseconds(self.retry_delay, "retry_delay"),
            max_retry_delay=milliseconds(self.max_retry_delay, "max_retry_delay", zero=False),
            retry_jitter=float(self.retry_jitter),
            max_len=self.max_len,
            overflow=self.overflow,
            ttl=None if self.ttl is None else milliseconds(self.ttl, "ttl", zero=False),
            max_dead=self.max_dead,
            dedupe=milliseconds(self.dedupe, "dedupe"),
        )

    @classmethod
    def from_settings(cls, settings: QueueSettings) -> QueueConfig:
        """The settings of a queue of the broker."""
        return cls(
            ack_timeout=settings.ack_timeout / 1000,
            max_attempts=settings.max_attempts,
            retry_delay=settings.retry_delay / 1000,
            max_retry_delay=settings.max_retry_delay / 1000,
            retry_jitter=settings.retry_jitter,
            max_len=settings.max_len,
            overflow=settings.overflow,
            ttl=None if settings.ttl is None else settings.ttl / 1000,
            max_dead=settings.max_dead,
            dedupe=settings.dedupe / 1000,
        )

    @classmethod
    def from_mapping(cls, settings: Mapping[str, object]) -> QueueConfig:
        """The settings that a file or another program names; those that it doesn't have their defaults.

        Raises:
            InvalidRequestError: there is no such setting, or a value is out of its range.
        """
        unknown = settings.keys() - set(SETTINGS)
        if unknown:
            msg = f"unknown settings {', '.join(sorted(unknown))}: there are {', '.join(SETTINGS)}"
            raise InvalidRequestError(msg)
        # The values are checked like those of programs without a type checker.
        return replace(cls(), **cast("dict[str, Any]", dict(settings)))


#: The names of the settings, which are those of QDECLARE with underscores.
SETTINGS = tuple(field.name for field in dataclasses.fields(QueueConfig))
