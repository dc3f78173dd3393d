"""docs/generate.py: what it writes, and what `--check` says."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from docs import generate


@pytest.fixture
def copy(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A copy of docs/ that the generator takes for the real one."""
    folder = tmp_path / "docs"
    shutil.copytree(generate.DOCS, folder)
    monkeypatch.setattr(generate, "DOCS", folder)
    return folder


def test_check_accepts_what_was_written(copy: Path) -> None:
    assert generate.main([]) == 0
    assert generate.main(["--check"]) == 0


@pytest.mark.parametrize("name", ["commands/queue.md", "commands/index.md", "configuration.md"])
def test_check_finds_what_is_out_of_date(copy: Path, capsys: pytest.CaptureFixture[str], name: str) -> None:
    generate.main([])
    page = copy / name
    good = page.read_text(encoding="utf-8")
    page.write_text(good.replace("| --- |", "| :-- |"), encoding="utf-8")
    assert generate.main(["--check"]) == 1
    assert f"docs/{name} is out of date" in capsys.readouterr().err
    assert page.read_text(encoding="utf-8") != good
    assert generate.main([]) == 0
    assert page.read_text(encoding="utf-8") == good


def test_pages_of_groups_that_are_gone_are_removed(copy: Path) -> None:
    generate.main([])
    page = copy / "commands" / "old.md"
    page.write_text("# Old\n", encoding="utf-8")
    assert generate.main(["--check"]) == 1
    assert generate.main([]) == 0
    assert not page.exists()


def test_what_is_written_by_hand_stays(copy: Path) -> None:
    page = copy / "configuration.md"
    before = page.read_text(encoding="utf-8")
    page.write_text("# Mine\n" + before, encoding="utf-8")
    generate.main([])
    assert page.read_text(encoding="utf-8").startswith("# Mine\n")


def test_other_arguments_are_refused(capsys: pytest.CaptureFixture[str]) -> None:
    assert generate.main(["--help"]) == 2
    assert "usage: python -m docs.generate [--check]" in capsys.readouterr().err
