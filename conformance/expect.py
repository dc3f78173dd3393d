"""Comparing a reply with what a vector expects: exact types in the protocol in use, holes and captures.

An expectation is a string (a scalar, its first character is its type), an array (element by element) or a
table with one of the keys below; ``README.md`` explains each to users.
"""

import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeGuard

from conformance.resp import NULL, Reply, show
from conformance.text import ANY_NAME, Clock, Names, Pattern, VectorError, encode, in_range

TABLE_KEYS: dict[str, frozenset[str]] = {
    "error": frozenset({"has", "lacks"}),
    "map": frozenset(),
    "map_has": frozenset(),
    "set": frozenset(),
    "set_has": frozenset(),
    "array_has": frozenset({"lacks"}),
    "each": frozenset({"len"}),
    "push": frozenset(),
    "text_has": frozenset({"lacks"}),
    "one_of": frozenset(),
}
_SCALARS = "+-:$,#=_~?"


@dataclass(frozen=True)
class Context:
    """What a match depends on besides the two values."""

    protocol: int
    names: Names
    clock: Clock


def is_list(value: object) -> TypeGuard[list[Any]]:
    """Whether a TOML value is an array."""
    return isinstance(value, list)


def is_table(value: object) -> TypeGuard[dict[str, Any]]:
    """Whether a TOML value is a table."""
    return isinstance(value, dict)


def check(expected: object, reply: Reply, context: Context) -> str | None:
    """None if the reply is as expected, else what differs and where."""
    if isinstance(expected, str):
        return _scalar(expected, reply, context)
    if is_list(expected):
        return _array(expected, reply, context)
    if is_table(expected):
        return _TABLES[table_key(expected)](expected, reply, context)
    raise VectorError(f"an expectation can't be {expected!r}")


def table_key(expected: dict[str, Any]) -> str:
    """Which form a table has; anything unknown in it is a mistake in the vector."""
    keys = [key for key in TABLE_KEYS if key in expected]
    if len(keys) != 1 or set(expected) - TABLE_KEYS[keys[0]] - set(keys):
        raise VectorError(f"not an expectation: {expected!r}")
    return keys[0]


def validate(expected: object) -> None:
    """Raise VectorError for what could never be an expectation."""
    if isinstance(expected, str):
        if not expected or expected[0] not in _SCALARS or (expected[0] in "?_" and len(expected) > 1):
            raise VectorError(f"an expected string begins with its type ({_SCALARS}): {expected!r}")
        if expected[0] == "~":
            in_range(0, expected[1:])
        else:
            Pattern(expected[1:], ANY_NAME)
    elif is_list(expected):
        for item in expected:
            validate(item)
    elif is_table(expected):
        _validate_table(expected)
    else:
        raise VectorError(f"an expectation can't be {expected!r}")


def _validate_table(expected: dict[str, Any]) -> None:
    key = table_key(expected)
    inner = expected[key]
    if key in ("error", "text_has"):
        return
    if key == "each":
        validate(inner)
        return
    if key in ("map", "map_has") and is_table(inner):
        inner = list(inner.values())
    if not is_list(inner):
        raise VectorError(f"{key!r} wants several: {expected!r}")
    for item in inner:
        validate(item)


def _scalar(expected: str, reply: Reply, context: Context) -> str | None:
    kind, text = expected[0], expected[1:]
    if kind == "?":
        return None
    if kind == NULL:
        return _null(reply, context)
    if kind == "~":
        return _number(text, reply)
    actual = _plain(kind, reply, context.protocol)
    if actual is None:
        return f"expected {expected!r}, got {show(reply)}"
    pattern = Pattern(text + "<any>" if kind == "-" else text, context.names)  # an error may say more
    if not pattern.match(actual, context.names, context.clock):
        return f"expected {expected!r}, got {show(reply)}"
    return None


def _null(reply: Reply, context: Context) -> str | None:
    wanted = (b"_\r\n",) if context.protocol == 3 else (b"$-1\r\n", b"*-1\r\n")
    if reply.kind != NULL or reply.raw not in wanted:
        return f"expected the null of RESP{context.protocol}, got {show(reply)}"
    return None


def _number(text: str, reply: Reply) -> str | None:
    try:
        value = float(reply.value) if reply.kind in (":", ",", "$", "+") else None
    except ValueError:
        value = None
    if value is None or not in_range(value, text):
        return f"expected the number {text}, got {show(reply)}"
    return None


def _plain(kind: str, reply: Reply, protocol: int) -> bytes | None:
    """The text of a scalar reply if its type is the one that ``kind`` has in this protocol."""
    value = reply.value
    if kind == "=":
        if protocol == 3:
            return value[4:] if reply.kind == "=" and value[:4] == b"txt:" else None
        kind = "$"
    if kind == "," and protocol == 2:
        kind = "$"
    if kind == "#" and protocol == 2:
        return {0: b"f", 1: b"t"}.get(value) if reply.kind == ":" else None
    if reply.kind != kind:
        return None
    if kind == "#":
        return b"t" if value else b"f"
    return b"%d" % value if kind == ":" else value


def _array(expected: list[Any], reply: Reply, context: Context) -> str | None:
    if reply.kind != "*":
        return f"expected an array of {len(expected)}, got {show(reply)}"
    return _elements(expected, reply, context)


def _elements(expected: list[Any], reply: Reply, context: Context) -> str | None:
    if len(reply.value) != len(expected):
        return f"expected {len(expected)} elements, got {len(reply.value)}: {show(reply)}"
    for index, (wanted, item) in enumerate(zip(expected, reply.value, strict=True)):
        wrong = check(wanted, item, context)
        if wrong:
            return f"[{index}]: {wrong}"
    return None


def _error(expected: dict[str, Any], reply: Reply, context: Context) -> str | None:
    if reply.kind != "-":
        return f"expected an error {expected['error']}, got {show(reply)}"
    word, _, text = reply.value.decode("utf-8", "replace").lower().partition(" ")
    if not reply.value.startswith(expected["error"].encode()) or word != expected["error"].lower():
        return f"expected an error {expected['error']}, got {show(reply)}"
    for part in expected.get("has", []):
        choices = encode(part.lower(), context.names).decode().split("|")
        if not any(choice in text for choice in choices):
            return f"expected an error that says {part!r}, got {show(reply)}"
    for part in expected.get("lacks", []):
        if re.search(rf"\b{re.escape(part)}\b", text, re.IGNORECASE):
            return f"expected an error that doesn't say {part!r}, got {show(reply)}"
    return None


def pairs(reply: Reply, protocol: int) -> dict[bytes, Reply] | None:
    """A map reply by name: a map in RESP3, a flat array in RESP2; None if it is neither."""
    if protocol == 3:
        items = reply.value if reply.kind == "%" else None
    elif reply.kind == "*" and len(reply.value) % 2 == 0:
        items = list(zip(reply.value[::2], reply.value[1::2], strict=True))
    else:
        items = None
    if items is None or any(key.kind not in "$+" for key, _ in items):
        return None
    found = {key.value: value for key, value in items}
    return found if len(found) == len(items) else None


def _map(expected: dict[str, Any], reply: Reply, context: Context) -> str | None:
    exact = "map" in expected
    wanted = expected["map"] if exact else expected["map_has"]
    found = pairs(reply, context.protocol)
    if found is None:
        return f"expected a map as RESP{context.protocol} has it, got {show(reply)}"
    for name, inner in wanted.items():
        key = encode(name, context.names)
        if key not in found:
            return f"expected a map with {name!r}, got {show(reply)}"
        wrong = check(inner, found.pop(key), context)
        if wrong:
            return f"[{name!r}]: {wrong}"
    if exact and found:
        return f"unexpected in the map: {sorted(found)}"
    return None


def _set(expected: dict[str, Any], reply: Reply, context: Context) -> str | None:
    exact = "set" in expected
    wanted = expected["set"] if exact else expected["set_has"]
    if reply.kind != ("~" if context.protocol == 3 else "*"):
        return f"expected a set as RESP{context.protocol} has it, got {show(reply)}"
    if exact and len(reply.value) != len(wanted):
        return f"expected {len(wanted)} elements, got {len(reply.value)}: {show(reply)}"
    return _contains(wanted, reply, context)


def _array_has(expected: dict[str, Any], reply: Reply, context: Context) -> str | None:
    if reply.kind != "*":
        return f"expected an array, got {show(reply)}"
    for unwanted in expected.get("lacks", []):
        if any(check(unwanted, item, context) is None for item in reply.value):
            return f"expected an array without {unwanted!r}, got {show(reply)}"
    return _contains(expected["array_has"], reply, context)


def _contains(wanted: list[Any], reply: Reply, context: Context) -> str | None:
    for inner in wanted:
        if all(check(inner, item, context) for item in reply.value):
            return f"expected {inner!r} among {show(reply)}"
    return None


def _each(expected: dict[str, Any], reply: Reply, context: Context) -> str | None:
    if reply.kind != "*":
        return f"expected an array, got {show(reply)}"
    if "len" in expected and not in_range(len(reply.value), str(expected["len"])):
        return f"expected {expected['len']} elements, got {len(reply.value)}: {show(reply)}"
    for index, item in enumerate(reply.value):
        wrong = check(expected["each"], item, context)
        if wrong:
            return f"[{index}]: {wrong}"
    return None


def _push(expected: dict[str, Any], reply: Reply, context: Context) -> str | None:
    if reply.kind != (">" if context.protocol == 3 else "*"):
        return f"expected a push as RESP{context.protocol} has it, got {show(reply)}"
    return _elements(expected["push"], reply, context)


def _text(expected: dict[str, Any], reply: Reply, context: Context) -> str | None:
    text = _plain("=", reply, context.protocol)
    if text is None:
        kind = "a verbatim text" if context.protocol == 3 else "a bulk"
        return f"expected {kind}, got {show(reply)}"
    for part in expected["text_has"]:
        if not Pattern(f"<any>{part}<any>", context.names).match(text, context.names, context.clock):
            return f"expected a text with {part!r}, got {show(reply)}"
    for part in expected.get("lacks", []):
        if Pattern(f"<any>{part}<any>", context.names).match(text, context.names, context.clock):
            return f"expected a text without {part!r}, got {show(reply)}"
    return None


def _one_of(expected: dict[str, Any], reply: Reply, context: Context) -> str | None:
    if any(check(inner, reply, context) is None for inner in expected["one_of"]):
        return None
    return f"expected one of {expected['one_of']!r}, got {show(reply)}"


_TABLES: dict[str, Callable[[dict[str, Any], Reply, Context], str | None]] = {
    "error": _error,
    "map": _map,
    "map_has": _map,
    "set": _set,
    "set_has": _set,
    "array_has": _array_has,
    "each": _each,
    "push": _push,
    "text_has": _text,
    "one_of": _one_of,
}
