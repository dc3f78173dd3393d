"""Bodies: how a Python value becomes the bytes of a message, and how bytes become a value again.

    str       UTF-8, without a mark
    bytes     as they are, marked by the header `content-type: application/octet-stream`
    others    JSON, marked by the header `content-type: application/json`

So what Python has put comes out equal to what went in. What other programs have put may have no mark: it is a `str` if
it is UTF-8, else `bytes`. A `content-type` that the program itself sets is kept, and decides how the body is decoded:
JSON types (`application/json`, `...+json`) as JSON, `text/...` as UTF-8, anything else as `bytes`.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any, TypeAlias, cast

from respmq.errors import BodyDecodeError, InvalidRequestError

#: A JSON value, as programs write it down. What is inside is looked at when it is encoded: checkers would not let a
#: TypedDict through otherwise.
JsonValue: TypeAlias = bool | int | float | str | Sequence[object] | Mapping[str, object] | None
#: What can be put and published.
Body: TypeAlias = bytes | JsonValue

CONTENT_TYPE = "content-type"
JSON_TYPE = "application/json"
BYTES_TYPE = "application/octet-stream"

#: Bytes that aren't UTF-8 come through `text` and `octets` unchanged, as they do in file names.
_ERRORS = "surrogateescape"


def _refuse_constant(name: str) -> None:
    msg = f"{name} is no JSON value"
    raise ValueError(msg)


#: Made once: json.loads and json.dumps make them anew for each call with options.
_ENCODER = json.JSONEncoder(ensure_ascii=False, allow_nan=False, separators=(",", ":"))
_DECODER = json.JSONDecoder(parse_constant=_refuse_constant)


def text(value: bytes) -> str:
    """A name, id, header or error text as a `str`. Bytes that are no UTF-8 become lone surrogates."""
    return value.decode("utf-8", _ERRORS)


def octets(value: str, what: str) -> bytes:
    """What `text` was made of.

    Args:
        value: a name, id, header or error text.
        what: how it is called in the error.

    Raises:
        InvalidRequestError: it is no `str`, or has a lone surrogate that stands for no byte.
    """
    try:
        return value.encode("utf-8", _ERRORS)
    except UnicodeEncodeError as error:
        msg = f"{what} {value!a} can't be encoded as UTF-8: {error.reason}"
        raise InvalidRequestError(msg) from error
    except AttributeError as error:
        msg = f"{what} {value!r} is of the type {type(value).__name__}, a str is wanted"
        raise InvalidRequestError(msg) from error


def header_texts(headers: Mapping[bytes, bytes]) -> dict[str, str]:
    """Headers as `str`; the dictionary is the reader's own."""
    return {text(key): text(value) for key, value in headers.items()}


def encode_body(body: Body, headers: Mapping[str, str] | None = None) -> tuple[bytes, dict[str, str]]:
    """The bytes of a body, and the headers that go with them: those given and, if need be, its mark.

    Raises:
        InvalidRequestError: it is neither bytes nor a JSON value (a number that JSON doesn't know, a key that is no
            string, a lone surrogate and a value that contains itself are none either), or it is to be sent as JSON and
            the `content-type` given is of another kind.
    """
    marked = dict(headers or {})
    if isinstance(body, bytes):
        marked.setdefault(CONTENT_TYPE, BYTES_TYPE)
        return body, marked
    try:
        if isinstance(body, str):
            return body.encode(), marked
        raw = _ENCODER.encode(body).encode()
        _check_keys(body)
    except (TypeError, ValueError, RecursionError) as error:
        msg = f"the body, a {type(body).__name__}, can't be encoded, bytes or a JSON value is wanted: {error}"
        raise InvalidRequestError(msg) from error
    if not _is_json(media_type(marked.setdefault(CONTENT_TYPE, JSON_TYPE))):
        msg = (
            f"a body of the type {type(body).__name__} is sent as JSON, which the header content-type "
            f"'{marked[CONTENT_TYPE]}' doesn't say: leave it out, or put bytes"
        )
        raise InvalidRequestError(msg)
    return raw, marked


def _check_keys(value: object) -> None:
    """See that what JSON would only nearly give back isn't put: it makes strings of all keys.

    Raises:
        TypeError: a key is no string.
    """
    if isinstance(value, Mapping):
        for key, inner in cast("Mapping[object, object]", value).items():
            if not isinstance(key, str):
                msg = f"the key {key!r} of an object is no str"
                raise TypeError(msg)
            _check_keys(inner)
    elif isinstance(value, list | tuple):
        for inner in cast("Sequence[object]", value):
            _check_keys(inner)


def encode_event_body(body: Body) -> bytes:
    """The bytes of a body for those who subscribe, to whom no headers go.

    Raises:
        InvalidRequestError: as `encode_body`.
    """
    return encode_body(body)[0]


# Any, as for json.loads: a program knows what its bodies are like, and no checker does.
def decode_body(raw: bytes, headers: Mapping[str, str]) -> Any:
    """The value of a body, a new one for each call.

    Raises:
        BodyDecodeError: the bytes aren't what the headers say.
    """
    kind = media_type(headers.get(CONTENT_TYPE, ""))
    # The broker's own announcements, copied into a queue, carry JSON and no mark.
    if _is_json(kind) or (not kind and headers.get("topic", "").startswith("$sys.")):
        return _decode_json(raw)
    if kind.startswith("text/"):
        try:
            return raw.decode()
        except UnicodeDecodeError as error:
            msg = f"the body is marked as {kind} and isn't UTF-8: {error.reason} at byte {error.start}"
            raise BodyDecodeError(msg) from error
    return raw if kind else _decode_unmarked(raw)


def decode_event_body(raw: bytes, topic: str, headers: Mapping[str, str] | None) -> Any:
    """The value of an event's body, a new one for each call.

    Args:
        raw: its bytes.
        topic: where it was published. What comes from `$sys.` is JSON.
        headers: as they were published; None where they don't come with the event, as over the network. There is no
            mark then: a JSON object or array is one, other UTF-8 is a `str`, and the rest `bytes`.

    Raises:
        BodyDecodeError: the bytes aren't what the headers or the topic say.
    """
    if topic.startswith("$sys."):
        return _decode_json(raw)
    if headers is not None:
        return decode_body(raw, headers)
    if raw[:1] in {b"{", b"["}:
        try:
            return _decode_json(raw)
        except BodyDecodeError:
            # Text that only begins like JSON.
            return _decode_unmarked(raw)
    return _decode_unmarked(raw)


def media_type(content_type: str) -> str:
    """A `content-type` without its parameters, in lower case."""
    return content_type.partition(";")[0].strip().lower()


def _is_json(kind: str) -> bool:
    return kind == JSON_TYPE or kind.endswith("+json")


def _decode_json(raw: bytes) -> Any:
    try:
        return _DECODER.decode(raw.decode())
    except (ValueError, RecursionError) as error:
        msg = f"the body is marked as JSON and can't be decoded: {error}"
        raise BodyDecodeError(msg) from error


def _decode_unmarked(raw: bytes) -> str | bytes:
    try:
        return raw.decode()
    except UnicodeDecodeError:
        return raw
