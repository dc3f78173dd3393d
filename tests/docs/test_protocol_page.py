"""The protocol page and the generated pages have every command of the table, and nothing else."""

from __future__ import annotations

import re

import pytest

from docs.generate import command_pages, error_meanings, page_of, stale
from respmq.commands.registry import load
from respmq.commands.spec import Spec
from respmq.journal.format import Kind
from tests.docs.markdown import DOCS, blocks, name_of, pages, prose, sections

SPECS = list(load().all_specs())
BY_NAME = [pytest.param(spec, id=spec.name) for spec in SPECS]
WORDS = frozenset(spec.name.split()[0] for spec in SPECS)

#: Error words that many commands have and that the page shows for some of them.
_COMMON = frozenset({"INVALIDNAME", "INVALIDTOPIC", "NOEXCHANGE", "NOQUEUE", "TOOBIG"})

#: Error words that only a full or broken disk or a large journal brings; the page shows them without playing them.
_OF_THE_DISK = frozenset({"LOADING", "MISCONF"})

#: Error words that programs meet in Python, and never on the wire.
_OF_CLIENTS = frozenset({"UNAVAILABLE"})


def section_of(name: str) -> str:
    text = (DOCS / "protocol.md").read_text(encoding="utf-8")
    found = [body for heading, body in sections(text, 3).items() if name in heading.split(", ")]
    assert len(found) == 1, f"{name} has {len(found)} sections in docs/protocol.md"
    return found[0]


@pytest.mark.parametrize("spec", BY_NAME)
def test_the_protocol_page_has_the_usage_of_every_command(spec: Spec) -> None:
    usages = [" ".join(block.text.split()) for block in blocks(section_of(spec.name)) if block.language == "text"]
    lines = [line for block in blocks(section_of(spec.name)) for line in block.lines]
    assert spec.grammar.usage() in usages or spec.grammar.usage() in lines


@pytest.mark.parametrize("spec", BY_NAME)
def test_the_protocol_page_has_every_error_of_every_command(spec: Spec) -> None:
    section = section_of(spec.name)
    played = "".join(block.text for block in blocks(section) if block.language == "wire")
    for word in spec.errors:
        assert f"`{word}`" in section, f"{word} is not named"
        assert word in _COMMON | _OF_THE_DISK or re.search(rf"^-{word} ", played, re.MULTILINE), f"{word} is not shown"
    shown = set(re.findall(r"^-([A-Z]+) ", played, re.MULTILINE))
    assert shown <= {*spec.errors, "ERR", "NOAUTH"}, "the table doesn't know all errors that the page shows"


def test_the_protocol_page_explains_every_error_word() -> None:
    text = sections((DOCS / "protocol.md").read_text(encoding="utf-8"), 3)["Errors"]
    words = set(re.findall(r"^\| `([A-Z]+)` \|", text, re.MULTILINE))
    assert words == set(error_meanings()) - _OF_CLIENTS
    page = blocks((DOCS / "protocol.md").read_text(encoding="utf-8"))
    for language, expected in (("wire", words - _OF_THE_DISK), ("text", _OF_THE_DISK)):
        shown = "".join(block.text for block in page if block.language == language)
        assert expected <= set(re.findall(r"^-([A-Z]+) ", shown, re.MULTILINE)), "not all of them are shown"


def test_the_protocol_page_has_no_other_commands() -> None:
    text = (DOCS / "protocol.md").read_text(encoding="utf-8")
    names = {name for heading in sections(text, 3) for name in heading.split(", ")}
    assert {name for name in names if name.isupper()} == {spec.name for spec in SPECS}


def test_every_command_that_a_page_names_exists() -> None:
    for page in pages():
        for number, line in prose(page.read_text(encoding="utf-8")):
            for name in re.findall(r"\bQ[A-Z]{2,}\b", line):
                assert name in WORDS or name in {"QUEUED", *error_meanings(), *Kind.__members__}, (
                    f"{name_of(page)}, line {number}: there is no {name}"
                )


def test_the_generated_pages_are_up_to_date() -> None:
    assert not stale(), "run: python -m docs.generate"


def test_every_command_has_a_page_of_its_group() -> None:
    generated = command_pages()
    for spec in SPECS:
        assert f"\n## {spec.name}\n" in generated[page_of(spec.group)]
        assert f"[{spec.name}]" in generated[page_of(spec.group).with_name("index.md")]


@pytest.mark.parametrize("spec", BY_NAME)
def test_every_argument_is_described(spec: Spec) -> None:
    page = command_pages()[page_of(spec.group)]
    section = sections(page, 2)[spec.name]
    undescribed = re.findall(r"^\| (`[^|]*) \|.*\|  ?\|$", section, re.MULTILINE)
    assert not undescribed
