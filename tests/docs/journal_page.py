"""What docs/journal.md says about the format, and its example: `python -m tests.docs.journal_page` writes that anew.

A layout stands on the page as `NAME: type field, type field`. The example is told with the names that it has there.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from struct import Struct
from typing import Final

from respmq.journal import format as fmt
from respmq.journal.format import Kind
from tests.docs.markdown import DOCS, blocks
from tests.support.server import ROOT

PAGE: Final = DOCS / "journal.md"
EXAMPLE: Final = ROOT / "tests/unit/journal/files/example/00000000000000000001.journal"

_CODES = {"u8": "B", "u16": "H", "u32": "I", "u64": "Q", "i64": "q", "bool": "?"}
_LAYOUT = re.compile(r"^([A-Z_]+): (.+)$")
_FIRST = "0000  "
_WIDTH = 66

Layouts = dict[str, list[tuple[str, str]]]


def layouts(text: str) -> Layouts:
    """The fields (type and name) of each layout on the page."""
    found: Layouts = {}
    for block in blocks(text):
        for line in block.lines if block.language == "text" else ():
            if match := _LAYOUT.match(line):
                fields = [field.split(" ") for field in match[2].split(", ")]
                found[match[1]] = [(kind, name) for kind, name in fields]
    return found


def struct_of(fields: list[tuple[str, str]]) -> Struct:
    """A layout as Python reads it."""
    return Struct("<" + "".join(_CODES.get(kind, kind) for kind, _ in fields))


class Explained:
    """The bytes of a segment, line by line: offset, bytes, what they are."""

    def __init__(self, data: bytes, known: Layouts) -> None:
        self._data = data
        self._layouts = known
        self._at = 0
        self.lines: list[str] = []

    def segment(self) -> None:
        """All of it."""
        self._struct("SEGMENT_HEAD")
        self._bytes(4, "its CRC-32")
        while self._at < len(self._data):
            self.lines.append("")
            _, size, _ = fmt.BATCH_HEAD.unpack_from(self._data, self._at)
            self._struct("BATCH_HEAD")
            self._struct("BATCH_META")
            end = self._at + size
            while self._at < end:
                self._record()

    def _record(self) -> None:
        head = fmt.RECORD_HEAD.unpack_from(self._data, self._at)
        kind = Kind(head[0])
        self._struct("RECORD_HEAD", f"kind: {kind.name}")
        end = self._at + head[1]
        if kind in {Kind.BROKER, Kind.QUEUE}:
            self._text(end)
        elif kind == Kind.PUT:
            self._struct("PUT")
            (size,) = Struct("<I").unpack_from(self._data, self._at)
            self._bytes(4, f"size of the body: {size}")
            self._bytes(fmt.ID_SIZE, "id")
            self._bytes(size, "body")
        elif kind == Kind.LEASED_RUN:
            self._struct("LEASED_RUN")
            self._bytes(end - self._at, "token")
        else:
            assert kind == Kind.ACKED_RUN
            self._struct("ACKED_RUN")
        assert self._at == end

    def _struct(self, name: str, first: str | None = None) -> None:
        for kind, field in self._layouts[name]:
            struct = struct_of([(kind, field)])
            (value,) = struct.unpack_from(self._data, self._at)
            shown = value.decode().encode("unicode_escape").decode() if isinstance(value, bytes) else f"{value}"
            if field in {"crc", "salt"}:
                shown = f"{value:#010x}"
            meaning, first = first or f"{field}: {shown}", None
            self._bytes(struct.size, meaning)

    def _bytes(self, size: int, meaning: str) -> None:
        for place in range(self._at, self._at + size, 16):
            data = self._data[place : min(place + 16, self._at + size)]
            text = data.decode("ascii", "replace") if meaning in {"id", "token", "body"} else ""
            shown = meaning if place == self._at else ""
            if text:
                shown = f"{shown:5} {text}"
            self.lines.append(f"{place:04x}  {data.hex(' '):47}  {shown}".rstrip())
        self._at += size

    def _text(self, end: int) -> None:
        while self._at < end:
            text = self._data[self._at : min(self._at + _WIDTH, end)].decode("ascii")
            self.lines.append(f"{self._at:04x}  {text}")
            self._at += len(text)


def example(text: str) -> list[str]:
    """The lines of the example, with the layouts that the page has."""
    explained = Explained(EXAMPLE.read_bytes(), layouts(text))
    explained.segment()
    return explained.lines


def example_on(text: str) -> Iterator[tuple[int, list[str]]]:
    """Where the example stands on the page: the number of its first line, and its lines."""
    for block in blocks(text):
        if block.lines and block.lines[0].startswith(_FIRST):
            yield block.line, list(block.lines)


def renew() -> None:
    """Write the example into the page."""
    text = PAGE.read_text(encoding="utf-8")
    lines = text.splitlines()
    ((start, shown),) = example_on(text)
    lines[start - 1 : start - 1 + len(shown)] = example(text)
    PAGE.write_text("\n".join(lines) + "\n", encoding="utf-8")


if __name__ == "__main__":
    renew()
