"""What the tests need to know of a Markdown page: its fenced blocks, its links, and the anchors of its headings."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

from tests.support.server import ROOT

DOCS = ROOT / "docs"

_FENCE = re.compile(r"^```([^`]*)$")
_HEADING = re.compile(r"^#{1,6} +(.*?) *$")
_LINK = re.compile(r"\[[^\]]*\]\(([^)\s]+)\)")
_CODE = re.compile(r"`[^`]*`")


@dataclass(frozen=True, slots=True)
class Block:
    """A fenced block. `line` is the number of its first line within the page, counted from 1."""

    language: str
    words: tuple[str, ...]
    line: int
    lines: tuple[str, ...]

    @property
    def text(self) -> str:
        """What stands in it."""
        return "".join(line + "\n" for line in self.lines)


def pages() -> list[Path]:
    """Every page that a reader may come to."""
    return [ROOT / "README.md", *sorted(DOCS.rglob("*.md"))]


def name_of(page: Path) -> str:
    """How a page is called in messages."""
    return str(page.absolute().relative_to(ROOT))


def blocks(text: str) -> list[Block]:
    """The fenced blocks of a page, in order."""
    found: list[Block] = []
    opened: tuple[int, list[str]] | None = None
    lines = text.splitlines()
    for number, line in enumerate(lines, 1):
        match = _FENCE.match(line)
        if match is None:
            continue
        if opened is None:
            opened = (number, match[1].split())
        else:
            start, info = opened
            language, *words = info or [""]
            found.append(Block(language, tuple(words), start + 1, tuple(lines[start : number - 1])))
            opened = None
    assert opened is None, f"the block that begins in line {opened and opened[0]} has no end"
    return found


def prose(text: str) -> list[tuple[int, str]]:
    """The lines outside of fenced blocks, each with its number."""
    inside: set[int] = set()
    for block in blocks(text):
        inside.update(range(block.line - 1, block.line + len(block.lines) + 1))
    return [(number, line) for number, line in enumerate(text.splitlines(), 1) if number not in inside]


def links(text: str) -> list[tuple[int, str]]:
    """The targets of all links, each with the number of its line."""
    return [(number, match[1]) for number, line in prose(text) for match in _LINK.finditer(_CODE.sub("``", line))]


def anchors(text: str) -> set[str]:
    """The anchors of all headings, as GitHub makes them."""
    found: set[str] = set()
    for _, line in prose(text):
        match = _HEADING.match(line)
        if match is None:
            continue
        shown = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", match[1]).lower()
        anchor = re.sub(r"[^\w\- ]", "", shown).replace(" ", "-")
        plain, number = anchor, 0
        while anchor in found:
            number += 1
            anchor = f"{plain}-{number}"
        found.add(anchor)
    return found


def sections(text: str, level: int) -> dict[str, str]:
    """The text below each heading of a level, up to the next heading of this level or a higher one."""
    found: dict[str, list[str]] = {}
    current: list[str] = []
    numbers = {number for number, _ in prose(text)}
    for number, line in enumerate(text.splitlines(), 1):
        depth = len(line) - len(line.lstrip("#")) if number in numbers and _HEADING.match(line) else 0
        if 0 < depth <= level:
            current = []
            if depth == level:
                current = found.setdefault(line[level:].strip(), [])
        current.append(line)
    return {heading: "\n".join(lines) for heading, lines in found.items()}
