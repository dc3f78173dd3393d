"""Writes into a page what its commands really answer: `python -m tests.docs.record docs/tutorial.md`.

For whoever writes a page or changes a reply; the difference is to be read before it is committed. A new page shows `?`
where a reply is to be filled in, and of a lease token only what is behind its `-` has to be right: leases are numbered.
Outcomes with `...` in them are left as they are and have to be changed by hand.
"""

from __future__ import annotations

import re
import sys
import tempfile
from pathlib import Path

from tests.docs.matching import ELLIPSIS, KNOWN
from tests.docs.story import Step, Story
from tests.docs.terminals import ShownTerminal


class Recorder(Story):
    """Plays a page and notes what came in place of what it shows."""

    def __init__(self, page: Path, folder: Path) -> None:
        super().__init__(page, folder, ShownTerminal, wire=3)
        #: What stands where now: by line, for how many lines.
        self.changes: dict[int, tuple[int, str]] = {}
        self._now: dict[str, str] = {}

    def _typed(self, line: int, text: str) -> str:
        typed = KNOWN.sub(lambda match: self._known(match[0]), text)
        for number, (before, after) in enumerate(zip(text.splitlines(), typed.splitlines(), strict=True), line):
            if before != after:
                whole = self.page.read_text(encoding="utf-8").splitlines()[number - 1]
                self.changes[number] = (1, whole.replace(before, after))
        return typed

    def _known(self, placeholder: str) -> str:
        name = placeholder.rpartition("-")[2] if "-" in placeholder else placeholder
        return self._now.get(placeholder, self._now.get(name, placeholder))

    def _compare(self, step: Step, real: str, *, loose: bool, wire: bool = False) -> None:
        real = self._as_shown(real)
        shown = step.text
        for before, after in zip(KNOWN.finditer(shown), KNOWN.finditer(real), strict=False):
            self._now.setdefault(before[0], after[0])
        for match in KNOWN.finditer(real):
            if "-" in match[0]:
                self._now[match[0].rpartition("-")[2]] = match[0]
        line = step.line + (step.command is not None)
        if re.search(ELLIPSIS, shown, re.MULTILINE):
            real = KNOWN.sub(lambda match: self._known(match[0]), shown)
        elif wire and len(real) > 110:
            real = _wrapped(real)
        self.changes[line] = (len(step.shown), real)


def _wrapped(text: str) -> str:
    """A long reply in the notation of the protocol page, in lines."""
    words = re.findall(r'(?:"(?:\\.|[^"\\])*"|[^\s"])+', text)
    lines = [""]
    for word in words:
        if lines[-1].strip() and len(lines[-1]) + len(word) > 108:
            lines.append(" ")
        lines[-1] += f" {word}" if lines[-1] else word
    return "\n".join(lines) + "\n"


def record(page: Path) -> None:
    """Renew a page, if it doesn't tell what happens."""
    with tempfile.TemporaryDirectory() as folder:
        recorder = Recorder(page, Path(folder))
        recorder.play()
    lines = page.read_text(encoding="utf-8").splitlines()
    for line, (count, text) in sorted(recorder.changes.items(), reverse=True):
        lines[line - 1 : line - 1 + count] = [shown.rstrip() for shown in text.splitlines()]
    page.write_text("\n".join(lines) + "\n", encoding="utf-8")


if __name__ == "__main__":
    for name in sys.argv[1:]:
        record(Path(name).absolute())
