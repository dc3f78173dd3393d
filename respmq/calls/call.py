"""A command to be sent, with all that a client has to know of it."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from decimal import Decimal
from typing import TYPE_CHECKING, Generic, TypeVar

from respmq.api.bodies import encode_body, octets
from respmq.api.settings import milliseconds
from respmq.errors import InvalidRequestError

if TYPE_CHECKING:
    from collections.abc import Callable

    from respmq.api.bodies import Body
    from respmq.api.ports import Settler

T = TypeVar("T")

_MIN_INT64 = -(1 << 63)
_MAX_INT64 = (1 << 63) - 1


@dataclass(frozen=True, slots=True)
class Call(Generic[T]):
    """One command.

    Args:
        words: the command's name and its arguments; without WAIT.
        decode: makes the result of a reply of either protocol. `settler` is where deliveries are to be settled.
        resend: whether it does no harm to send it again, if it isn't known whether it was run.
        wait: seconds that it may block; `math.inf` for ever, None not at all.
    """

    words: tuple[bytes, ...]
    decode: Callable[[object, Settler | None], T]
    resend: bool
    wait: float | None = None

    def waiting(self, seconds: float | None) -> tuple[bytes, ...]:
        """The words, for a command that blocks at most so long."""
        if not seconds:
            return self.words
        millis = 0 if math.isinf(seconds) else milliseconds(seconds, "wait")
        return (*self.words, b"WAIT", b"%dms" % millis)


class Words:
    """Collects the words of a command. An option that is None, False or empty is left out.

    All methods raise InvalidRequestError for a value that can't be sent; the text names the argument. Some take an
    `object`, since programs without a type checker can pass anything.
    """

    def __init__(self, *name: bytes) -> None:
        self._words: list[bytes] = [*name]

    def done(self) -> tuple[bytes, ...]:
        """The words."""
        return tuple(self._words)

    def text(self, name: str, value: str) -> None:
        """An argument by place."""
        self._words.append(octets(value, name))

    def texts(self, name: str, values: Iterable[str]) -> None:
        """The arguments that follow."""
        self._words.extend(octets(value, name) for value in values)

    def bodies(self, values: Iterable[object]) -> None:
        """Bodies, `str` or `bytes`, to which no headers can be given and so no mark of another type."""
        for value in values:
            if not isinstance(value, str | bytes):
                msg = f"a body of QMPUT is a str or bytes, not a {type(value).__name__}: QPUT takes others"
                raise InvalidRequestError(msg)
            self._words.append(encode_body(value)[0])

    def body(self, value: Body, headers: Mapping[str, str] | None) -> dict[str, str]:
        """A body; returns the headers to be sent with it."""
        raw, marked = encode_body(value, headers)
        self._words.append(raw)
        return marked

    def option_text(self, word: bytes, name: str, value: str | None) -> None:
        """`WORD text`."""
        if value is not None:
            self._words += (word, octets(value, name))

    def option_integer(self, word: bytes, name: str, value: object) -> None:
        """`WORD n`."""
        if value is not None:
            if isinstance(value, bool) or not isinstance(value, int) or not _MIN_INT64 <= value <= _MAX_INT64:
                msg = f"invalid {name} {value!r}: an integer of 64 bits is wanted"
                raise InvalidRequestError(msg)
            self._words += (word, b"%d" % value)

    def option_fraction(self, word: bytes, name: str, value: float | None) -> None:
        """`WORD fraction`."""
        if value is not None:
            if isinstance(value, bool) or not 0 <= value <= 1:
                msg = f"invalid {name} {value!r}: a number from 0 to 1 is wanted"
                raise InvalidRequestError(msg)
            # As it is written: the float itself has more digits.
            self._words += (word, f"{Decimal(repr(value)):.18f}".rstrip("0").rstrip(".").encode())

    def duration(self, name: str, value: float) -> None:
        """A duration by place."""
        self._words.append(b"%dms" % milliseconds(value, name))

    def option_duration(self, word: bytes, name: str, value: float | None, *, zero: bool = False) -> None:
        """`WORD duration`; seconds."""
        if value is not None:
            self._words += (word, b"%dms" % milliseconds(value, name, zero=zero))

    def option_pairs(self, word: bytes, name: str, values: Mapping[str, str]) -> None:
        """`WORD name value`, for each of them."""
        for key, value in values.items():
            self._words += (word, octets(key, f"{name} name"), octets(value, f"{name} '{key}'"))

    def option_blobs(self, word: bytes, name: str, values: Iterable[object]) -> None:
        """`WORD blob`, for each of them; `bytes`."""
        for value in values:
            if not isinstance(value, bytes):
                msg = f"{name} are bytes, one is a {type(value).__name__}"
                raise InvalidRequestError(msg)
            self._words += (word, value)

    def option_word(self, word: str | None) -> None:
        """One of several words alone."""
        if word is not None:
            self._words.append(octets(word, "option"))
