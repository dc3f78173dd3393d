"""The `respmq worker` lines on the pages are lines that the command understands."""

from __future__ import annotations

import re
import shlex

import pytest

from respmq.cli.worker import worker
from tests.docs.markdown import blocks, pages

LINES = sorted(
    {
        line
        for page in pages()
        for block in blocks(page.read_text(encoding="utf-8"))
        for line in block.lines
        if line.startswith("respmq worker ")
    }
    | {match for page in pages() for match in re.findall(r"`(respmq worker [^`]+)`", page.read_text(encoding="utf-8"))}
)


def test_there_are_some() -> None:
    assert len(LINES) >= 3


@pytest.mark.parametrize("line", LINES)
def test_the_command_understands_it(line: str) -> None:
    with worker.make_context("worker", shlex.split(line)[2:]) as context:
        assert context.params["queue"]
