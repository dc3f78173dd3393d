"""Every link within the pages leads somewhere, and every page can be reached."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.docs.markdown import DOCS, anchors, links, name_of, pages, prose
from tests.support.server import ROOT

PAGES = [pytest.param(page, id=name_of(page)) for page in pages()]


def targets(page: Path) -> list[tuple[int, Path, str]]:
    """The files that a page links to, with the anchors; links to other sites are left out."""
    found: list[tuple[int, Path, str]] = []
    for number, link in links(page.read_text(encoding="utf-8")):
        if link.startswith(("https://", "http://", "mailto:")):
            continue
        path, _, anchor = link.partition("#")
        found.append((number, (page.parent / path).resolve() if path else page.resolve(), anchor))
    return found


@pytest.mark.parametrize("page", PAGES)
def test_every_link_leads_somewhere(page: Path) -> None:
    for number, path, anchor in targets(page):
        where = f"{name_of(page)}, line {number}"
        assert path.exists(), f"{where}: there is no {path}"
        if anchor:
            assert anchor in anchors(path.read_text(encoding="utf-8")), f"{where}: {path.name} has no #{anchor}"


def test_every_page_can_be_reached_from_the_readme() -> None:
    reached: set[Path] = set()
    ahead = [(ROOT / "README.md").resolve()]
    while ahead:
        page = ahead.pop()
        if page in reached or page.suffix != ".md":
            continue
        reached.add(page)
        ahead += [path for _, path, _ in targets(page)]
    missing = sorted(name_of(page) for page in pages() if page.resolve() not in reached)
    assert not missing


@pytest.mark.parametrize("page", PAGES)
def test_no_line_ends_in_blanks(page: Path) -> None:
    text = page.read_text(encoding="utf-8")
    assert text.endswith("\n")
    assert not [number for number, line in enumerate(text.splitlines(), 1) if line != line.rstrip()]


def test_every_file_that_a_page_names_exists() -> None:
    for page in pages():
        for number, line in prose(page.read_text(encoding="utf-8")):
            for name in re.findall(r"`((?:[a-z_.]+/)+(?:[a-z_]+\.[a-z]+)?|[a-z_]+\.py)`", line):
                found = [base / name for base in (ROOT, ROOT / "respmq", page.parent) if (base / name).exists()]
                assert found, f"{name_of(page)}, line {number}: there is no {name}"


def test_all_pages_lie_below_docs() -> None:
    assert (DOCS / "index.md") in pages()
