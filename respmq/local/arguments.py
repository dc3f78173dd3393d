"""What programs pass, checked and as the core has it: bytes and milliseconds."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING

from respmq.api.bodies import encode_body, octets
from respmq.api.settings import milliseconds
from respmq.core.model import Extra
from respmq.errors import InvalidRequestError

if TYPE_CHECKING:
    from respmq.api.bodies import Body

_MAX_NAME = 255
_MIN_PRIORITY, _MAX_PRIORITY = -(1 << 63), (1 << 63) - 1


def name(value: str) -> bytes:
    """The name of a queue, an exchange or a topic; the core knows which ones are possible."""
    return octets(value, "name")


def sized(value: str, what: str) -> bytes:
    """A message id or the name of a header.

    Raises:
        InvalidRequestError: it is empty or longer than 255 bytes.
    """
    encoded = octets(value, what)
    if not 1 <= len(encoded) <= _MAX_NAME:
        msg = f"invalid {what}: 1 to {_MAX_NAME} bytes are wanted, this one is {len(encoded)}"
        raise InvalidRequestError(msg)
    return encoded


def count(value: int, what: str, *, least: int = 1) -> int:
    """A number of things.

    Raises:
        InvalidRequestError: it is no integer, or too small.
    """
    if not _is_integer(value) or value < least:
        msg = f"invalid {what} {value!r}: an integer of at least {least} is wanted"
        raise InvalidRequestError(msg)
    return value


def priority(value: int) -> int:
    """A priority.

    Raises:
        InvalidRequestError: it is no signed integer of 64 bits.
    """
    if not _is_integer(value) or not _MIN_PRIORITY <= value <= _MAX_PRIORITY:
        msg = f"invalid priority {value!r}: a signed 64-bit integer is wanted"
        raise InvalidRequestError(msg)
    return value


def content(
    body: Body, headers: Mapping[str, str] | None, attachments: Sequence[bytes]
) -> tuple[bytes, dict[bytes, bytes], tuple[bytes, ...]]:
    """A body with what goes with it.

    Raises:
        InvalidRequestError: the body can't be encoded, or a header or an attachment can't be one.
    """
    raw, marked = encode_body(body, headers)
    encoded = {sized(key, "header name"): octets(value, f"header {key}") for key, value in marked.items()}
    for blob in attachments:
        if not _is_bytes(blob):
            msg = f"invalid attachment: bytes are wanted, this one is of the type {type(blob).__name__}"
            raise InvalidRequestError(msg)
    return raw, encoded, tuple(attachments)


def rare(headers: dict[bytes, bytes], attachments: tuple[bytes, ...], ttl: float | None) -> Extra | None:
    """What most messages don't have; None if there is none.

    Raises:
        InvalidRequestError: the TTL is no duration above 0.
    """
    if not headers and not attachments and ttl is None:
        return None
    return Extra(headers, attachments, None if ttl is None else milliseconds(ttl, "ttl", zero=False))


def ids(values: Iterable[str]) -> tuple[bytes, ...]:
    """Message ids."""
    return tuple(octets(value, "message id") for value in values)


def _is_integer(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


def _is_bytes(value: object) -> bool:
    return isinstance(value, bytes)
