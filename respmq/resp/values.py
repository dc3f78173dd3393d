"""What a command may answer with: Python's values, and some that are written in their own way."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from respmq.errors import BrokerError


class Status(str):
    """A simple string such as `OK`."""

    __slots__ = ()


class Verbatim(str):
    """Text to be shown as it is: a verbatim string in RESP3, a bulk in RESP2."""

    __slots__ = ()


class Statuses(tuple[str, ...]):
    """A set of simple strings: a set in RESP3, an array in RESP2."""

    __slots__ = ()


class ItemSet(tuple["Answer", ...]):
    """A set of anything: a set in RESP3, an array in RESP2."""

    __slots__ = ()


#: What a command may answer with.
Answer = (
    None
    | bool
    | int
    | float
    | bytes
    | str
    | BrokerError
    | Sequence["Answer"]
    | Mapping[str, "Answer"]
    | Mapping[bytes, "Answer"]
)
