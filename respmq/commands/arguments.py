"""The kinds of arguments: how each is read from bytes, and what it is called in error texts, COMMAND DOCS and the docs.

A command's signature uses these through `Annotated`, see `respmq.commands.spec`.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Annotated, Any, Generic, TypeVar

from respmq.durations import parse_duration
from respmq.errors import InvalidRequestError, quote

T = TypeVar("T")

_INTEGER = re.compile(rb"-?[0-9]{1,20}")
_FRACTION = re.compile(rb"[0-9]{1,18}(?:\.[0-9]{1,18})?")
MIN_INT64 = -(1 << 63)
MAX_INT64 = (1 << 63) - 1


class Kind(Generic[T]):
    """A kind of argument. `doc_type` is its type in COMMAND DOCS; `raw` kinds take any bytes as they are."""

    doc_type = "string"
    raw = False

    def parse(self, value: bytes, name: str) -> T:
        """Read the argument called `name`.

        Raises:
            BrokerError: `value` isn't of this kind; the text says what would be.
        """
        raise InvalidRequestError(f"invalid {name} '{quote(value)}'")


class Bytes(Kind[bytes]):
    """Any bytes."""

    raw = True

    def __init__(self, doc_type: str = "string") -> None:
        self.doc_type = doc_type

    def parse(self, value: bytes, name: str) -> bytes:
        """The bytes as they are."""
        return value


@dataclass(frozen=True)
class Sized(Kind[bytes]):
    """Bytes of a bounded length."""

    least: int
    most: int
    what: str

    def parse(self, value: bytes, name: str) -> bytes:
        """The bytes, if there are neither too few nor too many."""
        if self.least <= len(value) <= self.most:
            return value
        msg = f"invalid {name}: {self.what} is {self.least} to {self.most} bytes, this one is {len(value)}"
        raise InvalidRequestError(msg)


@dataclass(frozen=True)
class Integer(Kind[int]):
    """A decimal integer within bounds. `says` is how an error begins, where Redis has words of its own."""

    least: int = MIN_INT64
    most: int = MAX_INT64
    says: str = "value is not an integer or out of range"

    doc_type = "integer"

    def parse(self, value: bytes, name: str) -> int:
        """The integer."""
        if _INTEGER.fullmatch(value) is not None:
            number = int(value)
            if self.least <= number <= self.most:
                return number
        msg = f"{self.says}: invalid {name} '{quote(value)}', {self._range()}"
        raise InvalidRequestError(msg)

    def _range(self) -> str:
        if self.most == MAX_INT64:
            return (
                "a signed 64-bit integer is wanted" if self.least == MIN_INT64 else f"at least {self.least} is wanted"
            )
        return f"{self.least} to {self.most} is wanted"


@dataclass(frozen=True)
class Duration(Kind[int]):
    """A duration, in milliseconds inside."""

    zero: bool = False

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

    doc_type = "double"

    def parse(self, value: bytes, name: str) -> float:
        """The number."""
        if _FRACTION.fullmatch(value) is not None and float(value) <= 1:
            return float(value)
        msg = f"invalid {name} '{quote(value)}': a number from 0 to 1 is wanted"
        raise InvalidRequestError(msg)


@dataclass(frozen=True)
class Choice(Kind[str]):
    """One of several words; upper case inside.

    `says` is how an error begins, where Redis has words of its own; `{}` in it stands for what was given.
    """

    words: tuple[str, ...]
    #: Whether the words stand alone (`[REJECT | RELEASE]`) and not behind the option's name.
    bare: bool = False
    says: str = "syntax error"

    doc_type = "oneof"

    def parse(self, value: bytes, name: str) -> str:
        """The word in upper case."""
        word = value.upper().decode("ascii", "replace")
        if word in self.words:
            return word
        shown = quote(value)
        says = self.says.replace("{}", shown) if "{}" in self.says else f"{self.says}: invalid {name} '{shown}'"
        msg = f"{says}, one of {', '.join(self.words)} is wanted"
        raise InvalidRequestError(msg)


@dataclass(frozen=True)
class Pair:
    """An option with two values, `HEADER name value`; as a tuple type, it may be repeated."""

    first: Kind[Any]
    second: Kind[Any]
    names: tuple[str, str]


@dataclass(frozen=True)
class Several:
    """An option with one or more values behind its word, `ID id [id ...]`; `name` is what each of them is called."""

    kind: Kind[Any]
    name: str


@dataclass(frozen=True)
class Described:
    """A sentence on an argument, for the docs; `value` is what usage lines call its value, if not by its name."""

    text: str
    value: str = ""


class NoneNeeded:
    """Says that of several arguments by place there may be none."""


NONE_NEEDED = NoneNeeded()

QUEUE = Bytes("key")
BLOB = Bytes()
MESSAGE_ID = Sized(1, 255, "a message id")
HEADER_NAME = Sized(1, 255, "a header name")
COUNT = Integer(least=1)
OFFSET = Integer(least=0)

QueueName = Annotated[bytes, QUEUE, Described("The name of the queue.")]
Blob = Annotated[bytes, BLOB]
Full = Annotated[bool, Described("Deliver maps that hold all there is to know of a message.")]
Body = Annotated[bytes, BLOB, Described("What is sent: any bytes.")]
Lease = Annotated[bytes, BLOB, Described("The token from the delivery.")]
MessageId = Annotated[bytes, BLOB, Described("The id of a message.")]
