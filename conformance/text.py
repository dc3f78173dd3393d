r"""The strings of the vector files: escapes, placeholders and holes.

Every string in a vector is UTF-8 text in which ``\xHH``, ``\r``, ``\n``, ``\t``, ``\0`` and ``\\`` stand for
bytes, and ``{name}`` for a value: a fresh queue name (``{q}``, ``{q1}``, ...), the counter of a repeated
group (``{i}``) or something that an earlier reply was captured as. In an expected string, ``<kind>`` is a
hole that matches bytes of that kind, and ``<kind as name>`` also captures them.
"""

import re
from collections.abc import Callable, MutableMapping
from dataclasses import dataclass

Names = MutableMapping[str, bytes]

_TOKEN = re.compile(
    r"\\x(?P<hex>[0-9a-fA-F]{2})|\\(?P<esc>[rnt0\\])|(?P<bad>\\)|\{(?P<name>[a-z][a-z0-9_]*)\}|<(?P<hole>[^<>]*)>"
)
_ESCAPES = {"r": b"\r", "n": b"\n", "t": b"\t", "0": b"\0", "\\": b"\\"}
_HOLE = re.compile(r"(?P<kind>[a-z0-9.+-]+)(?: as (?P<name>[a-z][a-z0-9_]*))?")
_HEX = re.compile(r"hex(\d+)")
_RANGE = re.compile(r"(?P<low>-?\d+(?:\.\d+)?)\.\.(?P<high>-?\d+(?:\.\d+)?)")
_TIME = re.compile(r"time(?:(?P<sign>[+-])(?P<number>\d+(?:\.\d+)?)(?P<unit>ms|s|m|h|d))?")
_UNIT_MS = {"ms": 1, "s": 1_000, "m": 60_000, "h": 3_600_000, "d": 86_400_000}
_NUMBER = rb"-?\d+(?:\.\d+)?"
_KINDS = {
    "any": rb".*",
    "some": rb".+",
    "word": rb"\S+",
    "int": rb"-?\d+",
    "number": _NUMBER,
}


class _AnyName(dict[str, bytes]):
    """Every placeholder has a value: for checking strings before anything is captured."""

    def __missing__(self, name: str) -> bytes:
        return b"0"


ANY_NAME = _AnyName()


class VectorError(Exception):
    """A vector file that breaks the format: a mistake in the vectors, not in the server."""


@dataclass(frozen=True)
class Clock:
    """What ``<time>`` holes are compared with: the server's clock, and how far off a reply may be."""

    now_ms: Callable[[], int]
    tolerance_ms: int


def encode(text: str, names: Names) -> bytes:
    """The bytes that a sent string stands for (holes mean nothing here)."""
    return b"".join(part for kind, part in _tokens(text, names, holes=False) if kind == "bytes")


class Pattern:
    """An expected string, compiled: literal bytes and holes."""

    def __init__(self, text: str, names: Names) -> None:
        self.captures: list[tuple[str, str]] = []
        regex = b""
        for kind, part in _tokens(text, names, holes=True):
            regex += re.escape(part) if kind == "bytes" else self._hole(part.decode(), text)
        self._regex = re.compile(regex, re.DOTALL)

    def _hole(self, hole: str, text: str) -> bytes:
        found = _HOLE.fullmatch(hole)
        kind = found["kind"] if found else ""
        hexes = _HEX.fullmatch(kind)
        if kind in _KINDS:
            body = _KINDS[kind]
        elif hexes:
            body = b"[0-9a-f]{%d}" % int(hexes[1])
        elif _RANGE.fullmatch(kind) or _TIME.fullmatch(kind):
            body = _NUMBER
        else:
            raise VectorError(f"unknown hole <{hole}> in {text!r} (write \\x3c for a literal '<')")
        self.captures.append((kind, (found["name"] if found else None) or ""))
        return b"(" + body + b")"

    def match(self, data: bytes, names: Names, clock: Clock) -> bool:
        """Whether all of ``data`` fits; if so the captures are stored in ``names``."""
        found = self._regex.fullmatch(data)
        if found is None:
            return False
        for (kind, _), value in zip(self.captures, found.groups(), strict=True):
            if not _in_bounds(kind, value, clock):
                return False
        for (_, name), value in zip(self.captures, found.groups(), strict=True):
            if name:
                names[name] = value
        return True


def in_range(value: float, text: str) -> bool:
    """Whether ``value`` is the number ``text``, or within it when it reads ``LOW..HIGH``."""
    found = _RANGE.fullmatch(text)
    if found:
        return float(found["low"]) <= value <= float(found["high"])
    try:
        return value == float(text)
    except ValueError:
        raise VectorError(f"not a number or a range: {text!r}") from None


def _in_bounds(kind: str, value: bytes, clock: Clock) -> bool:
    if kind in _KINDS or _HEX.fullmatch(kind):
        return True
    time = _TIME.fullmatch(kind)
    if time is None:
        return in_range(float(value), kind)
    offset = float(time["number"] or 0) * _UNIT_MS[time["unit"] or "ms"]
    wanted = clock.now_ms() + (-offset if time["sign"] == "-" else offset)
    return abs(float(value) - wanted) <= clock.tolerance_ms


def _tokens(text: str, names: Names, *, holes: bool) -> list[tuple[str, bytes]]:
    """Cut ``text`` into ("bytes", literal) and ("hole", content) parts; placeholders become literals."""
    parts: list[tuple[str, bytes]] = []
    at = 0
    for found in _TOKEN.finditer(text):
        parts.append(("bytes", text[at : found.start()].encode()))
        at = found.end()
        if found["hex"]:
            parts.append(("bytes", bytes.fromhex(found["hex"])))
        elif found["esc"]:
            parts.append(("bytes", _ESCAPES[found["esc"]]))
        elif found["bad"]:
            raise VectorError(f"unknown escape in {text!r} (write \\\\ for a backslash)")
        elif found["name"]:
            parts.append(("bytes", _lookup(found["name"], names, text)))
        elif holes:
            content = re.sub(r"\{(\w+)\}", lambda m: _lookup(m[1], names, text).decode(), found["hole"])
            parts.append(("hole", content.encode()))
        else:
            parts.append(("bytes", b"<" + encode(found["hole"], names) + b">"))
    parts.append(("bytes", text[at:].encode()))
    return parts


def _lookup(name: str, names: Names, text: str) -> bytes:
    try:
        return names[name]
    except KeyError:
        raise VectorError(f"nothing was captured as {name!r}, used in {text!r} (\\x7b for a literal brace)") from None
