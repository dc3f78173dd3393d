"""Every command, session, program and configuration on every page does what the page says."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.docs.markdown import blocks, name_of, pages
from tests.docs.story import PLAYED, Story
from tests.docs.terminals import ShownTerminal

#: Each page that has something to play, with the version of RESP for what it writes in a notation of its own.
STORIES = [
    pytest.param(page, wire, id=f"{name_of(page)}-resp{wire}")
    for page in pages()
    if (languages := {block.language for block in blocks(page.read_text(encoding="utf-8"))}) & PLAYED
    for wire in ((2, 3) if "wire" in languages else (2,))
]


@pytest.mark.parametrize(("page", "wire"), STORIES)
def test_the_page_tells_what_happens(page: Path, wire: int, tmp_path: Path) -> None:
    Story(page, tmp_path, ShownTerminal, wire=wire).play()
