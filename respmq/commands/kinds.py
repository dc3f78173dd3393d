"""The kinds of arguments: how each is read from bytes, and what errors, COMMAND DOCS and the docs call it."""

from __future__ import annotations

import re
from typing import Any, Final, Generic, TypeVar

from respmq.durations import parse_duration
from respmq.errors import InvalidRequestError, quote

T = TypeVar("T")

#: More than any number of 64 bits has.
_DIGITS: Final = 20
_INTEGER: Final = re.compile(rb"-?[0-9]{1,%d}" % _DIGITS)
_FRACTION: Final = re.compile(rb"[0-9]{1,18}(?:\.[0-9]{1,18})?")
MIN_INT64: Final = -(1 << 63)
MAX_INT64: Final = (1 << 63) - 1


class Kind(Generic[T]):
    """A kind of argument. `doc_type` is its type in COMMAND DOCS; `raw` kinds take any bytes as they are."""

    def __init__(self, doc_type: str = "string", *, raw: bool = False) -> None:
        self.doc_type: Final = doc_type
        self.raw: Final = raw

    def parse(self, value: bytes, name: str) -> T:
        """Read the argument called `name`.

        Raises:
            BrokerError: `value` isn't of this kind; the text says what would be.
        """
        raise NotImplementedError


class Bytes(Kind[bytes]):
    """Any bytes."""

    def __init__(self, doc_type: str = "string") -> None:
        super().__init__(doc_type, raw=True)

    def parse(self, value: bytes, name: str) -> bytes:
        """The bytes as they are."""
        return value


class Sized(Kind[bytes]):
    """Bytes of a bounded length."""

    def __init__(self, least: int, most: int, what: str) -> None:
        super().__init__()
        self.least: Final = least
        self.most: Final = most
        self._what: Final = what

    def parse(self, value: bytes, name: str) -> bytes:
        """The bytes, if there are neither too few nor too many."""
        if self.least <= len(value) <= self.most:
            return value
        msg = f"invalid {name}: {self._what} is {self.least} to {self.most} bytes, this one is {len(value)}"
        raise InvalidRequestError(msg)


class Integer(Kind[int]):
    """A decimal integer within bounds. `says` is how an error begins, where Redis has words of its own."""

    def __init__(
        self, least: int = MIN_INT64, most: int = MAX_INT64, says: str = "value is not an integer or out of range"
    ) -> None:
        super().__init__("integer")
        self.least: Final = least
        self.most: Final = most
        self._says: Final = says

    def parse(self, value: bytes, name: str) -> int:
        """The integer."""
        # The regular expression is for negative ones.
        if (value.isdigit() and len(value) <= _DIGITS) or _INTEGER.fullmatch(value) is not None:
            number = int(value)
            if self.least <= number <= self.most:
                return number
        msg = f"{self._says}: invalid {name} '{quote(value)}', {self._range()}"
        raise InvalidRequestError(msg)

    def _range(self) -> str:
        if self.most == MAX_INT64:
            return (
                "a signed 64-bit integer is wanted" if self.least == MIN_INT64 else f"at least {self.least} is wanted"
            )
        return f"{self.least} to {self.most} is wanted"


class Duration(Kind[int]):
    """A duration, in milliseconds inside."""

    def __init__(self, *, zero: bool = False) -> None:
        super().__init__()
        self.zero: Final = zero

    def parse(self, value: bytes, name: str) -> int:
        """Milliseconds."""
        return parse_duration(value, name, zero=self.zero)


class DurationOrNone(Kind[int | None]):
    """A duration above 0, or the word `none`."""

    def parse(self, value: bytes, name: str) -> int | None:
        """Milliseconds, or None."""
        return None if value.lower() == b"none" else parse_duration(value, name, zero=False)


class Fraction(Kind[float]):
    """A number from 0 to 1."""

    def __init__(self) -> None:
        super().__init__("double")

    def parse(self, value: bytes, name: str) -> float:
        """The number."""
        if _FRACTION.fullmatch(value) is not None and float(value) <= 1:
            return float(value)
        msg = f"invalid {name} '{quote(value)}': a number from 0 to 1 is wanted"
        raise InvalidRequestError(msg)


class Choice(Kind[str]):
    """One of several words; upper case inside.

    `bare` words stand alone (`[REJECT | RELEASE]`) and not behind the option's name. `says` is how an error begins,
    where Redis has words of its own; `{}` in it stands for what was given.
    """

    def __init__(self, words: tuple[str, ...], *, bare: bool = False, says: str = "syntax error") -> None:
        super().__init__("oneof")
        self.words: Final = words
        self.bare: Final = bare
        self._says: Final = says

    def parse(self, value: bytes, name: str) -> str:
        """The word in upper case."""
        word = value.upper().decode("ascii", "replace")
        if word in self.words:
            return word
        shown = quote(value)
        says = self._says.replace("{}", shown) if "{}" in self._says else f"{self._says}: invalid {name} '{shown}'"
        msg = f"{says}, one of {', '.join(self.words)} is wanted"
        raise InvalidRequestError(msg)


class Pair:
    """An option with two values, `HEADER name value`; as a tuple type, it may be repeated."""

    def __init__(self, first: Kind[Any], second: Kind[Any], names: tuple[str, str]) -> None:
        self.first: Final = first
        self.second: Final = second
        self.names: Final = names


class Several:
    """An option with one or more values behind its word, `ID id [id ...]`; `name` is what each of them is called."""

    def __init__(self, kind: Kind[Any], name: str) -> None:
        self.kind: Final = kind
        self.name: Final = name
