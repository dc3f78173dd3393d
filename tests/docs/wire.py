"""The `wire` and `resp` blocks of the protocol page.

A `wire` block is a session: commands, each behind `> `, and their replies in the page's notation:

    +OK   -ERR text   :1   ,2.5   "bulk"   null   ="verbatim"   [array, of, these]   {map: of, these: ...}   >[push]

A reply that takes several lines is indented from the second one on; so several replies can follow one another.

The page is played in RESP2 and in RESP3. In RESP2 what is written as a map has to come as a flat array, a push as an
array, a double or a verbatim string as a bulk string. `...` stands for any further items, `(closed)` for the end of
the connection and `(nothing)` for no reply. In commands `<2000 bytes>` stands for so many of them.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from tests.docs.terminals import quoted, words
from tests.support import Bool, ClosedError, Conn, Double, Error, Map, Null, Push, SetReply, Simple, Value, Verbatim
from tests.support.values import BigNumber

PROMPT = "> "

_TOKEN = re.compile(
    r"""\s*(?:
        (?P<mark>>?\[|[\]{}]|,(?![0-9-]))
      | (?P<verbatim>="(?:\\.|[^"\\])*")
      | (?P<key>[A-Za-z0-9_.-]+|"[^"]*")(?=:\s):
      | (?P<bulk>"(?:\\.|[^"\\])*")
      | (?P<double>,-?[0-9.]+)
      | (?P<leaf>:-?[0-9]+|null|\+[A-Za-z@_-]+|-[A-Z]+\ [^,\]}]*)
      | (?P<gap>\.\.\.)
    )""",
    re.VERBOSE,
)
_BYTES = re.compile(r"<(\d+) bytes>")
_PAIRS = {"[": "]", ">[": "]", "{": "}"}


@dataclass(frozen=True, slots=True)
class Shown:
    """A value as the page writes it: the text of a leaf, or the items of a container (of a map: keys and values)."""

    kind: str
    text: str = ""
    items: tuple[Shown, ...] = ()

    def render(self, resp: int) -> str:
        """The value as `render` below shows what has to come in a protocol."""
        if self.kind in _PAIRS:
            as_map = self.kind == "{" and resp == 3
            parts: list[str] = []
            for item in self.items:
                shown = item.render(resp)
                if as_map and parts and parts[-1].endswith(": "):
                    parts[-1] += shown
                elif item.kind == "key":
                    parts.append(f"{item.text}: " if as_map else quoted(item.text.encode()))
                else:
                    parts.append(shown)
            shape = "{%s}" if as_map else ">[%s]" if self.kind == ">[" and resp == 3 else "[%s]"
            return shape % ", ".join(parts)
        if self.kind == "verbatim":
            return self.text if resp == 3 else self.text[1:]
        if self.kind == "double":
            return self.text if resp == 3 else f'"{self.text[1:]}"'
        return self.text


def parse(text: str) -> Shown:
    """A reply in the page's notation."""
    text = text.strip()
    if text.startswith(("-", "+", "(")):
        # A page breaks long lines.
        return Shown("line", " ".join(text.split()))
    value, place = _value(text, 0)
    assert place == len(text), f"not understood: {text[place:]!r}"
    return value


def _value(text: str, place: int) -> tuple[Shown, int]:
    match = _TOKEN.match(text, place)
    assert match is not None, f"not understood: {text[place:]!r}"
    assert match.lastgroup is not None
    place = match.end()
    if match["mark"] is None:
        return Shown(match.lastgroup, match[match.lastgroup].strip('"' if match["key"] else "")), place
    assert match["mark"] in _PAIRS, f"not understood: {text[place - 1 :]!r}"
    items: list[Shown] = []
    while (mark := _TOKEN.match(text, place)) is not None:
        if mark["mark"] == _PAIRS[match["mark"]]:
            return Shown(match["mark"], items=tuple(items)), mark.end()
        if mark["mark"] == ",":
            place = mark.end()
            continue
        item, place = _value(text, place)
        items.append(item)
    raise AssertionError(f"no end: {text!r}")


def render(value: Value) -> str:
    """A reply that came, in the page's notation."""
    match value:
        case bytes():
            return quoted(value)
        case int():
            return f":{value}"
        case Null():
            return "null"
        case Simple(text=text):
            return f"+{text.decode()}"
        case Error(text=text):
            return f"-{text.decode()}"
        case Double(text=text) | BigNumber(text=text):
            return f",{text.decode()}"
        case Bool(value=holds):
            return "#t" if holds else "#f"
        case Verbatim(data=data):
            return f"={quoted(data)}"
        case Map(pairs=pairs):
            return "{" + ", ".join(f"{_key(key)}: {render(item)}" for key, item in pairs) + "}"
        case Push(items=items):
            return ">[" + ", ".join(map(render, items)) + "]"
        case SetReply(items=items):
            return "[" + ", ".join(map(render, items)) + "]"
        case list():
            return "[" + ", ".join(map(render, value)) + "]"


def _key(value: Value) -> str:
    assert isinstance(value, bytes)
    return value.decode()


class WireTerminal:
    """A connection whose replies are shown in the page's notation."""

    def __init__(self, port: int, resp: int) -> None:
        self._conn = Conn(port)
        if resp != 2:
            # On a server with a password this is an error, and the page shows how to log in.
            self._conn.cmd("HELLO", resp)

    def send(self, line: str) -> None:
        """Send a command."""
        self._conn.start(*words(_BYTES.sub(lambda match: "x" * int(match[1]), line)))

    def read(self) -> str:
        """The next reply."""
        try:
            return render(self._conn.read()) + "\n"
        except ClosedError:
            return "(closed)\n"

    def close(self) -> None:
        """Close the connection."""
        self._conn.close()


def exchange(port: int, sent: str) -> str:
    """Send bytes that are written with escapes; the reply with escapes, CR LF at the end of each of its lines."""
    with Conn(port) as conn:
        conn.send(sent.encode().decode("unicode_escape").encode("latin-1"))
        reply = conn.read_raw()
    return reply.decode("latin-1").encode("unicode_escape").decode()
