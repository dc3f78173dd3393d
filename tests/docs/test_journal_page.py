"""docs/journal.md and the code say the same about the format; docs/durability.md knows every figure of the journal."""

from __future__ import annotations

import dataclasses
import re
from pathlib import Path
from struct import Struct

import pytest

from respmq.core.image import Counters
from respmq.core.model import STATE_NAMES, QueueSettings
from respmq.journal import format as fmt
from respmq.journal.format import Kind
from tests.docs.journal_page import PAGE, example, example_on, layouts, struct_of
from tests.docs.markdown import DOCS, sections
from tests.support import Conn, info, start_server

TEXT = PAGE.read_text(encoding="utf-8")

#: Layouts of a whole record, for what others say already.
SHORTCUTS = {
    "PUT_ONE": ["RECORD_HEAD", "PUT", "I"],
    "LEASED_RUN_RECORD": ["RECORD_HEAD", "LEASED_RUN"],
    "ACKED_RUN_RECORD": ["RECORD_HEAD", "ACKED_RUN"],
}
#: All others in the code.
STRUCTS = {name: value for name, value in vars(fmt).items() if isinstance(value, Struct) and name not in SHORTCUTS}


def test_the_page_has_every_kind_and_its_number() -> None:
    rows = re.findall(r"^\| (\d+) \| `([A-Z_]+)` \| (broker|queue) \|", TEXT, re.MULTILINE)
    assert [(int(number), name) for number, name, _ in rows] == [(kind.value, kind.name) for kind in Kind]


def test_the_page_has_every_layout() -> None:
    on_page = {name: struct_of(fields).format for name, fields in layouts(TEXT).items()}
    assert on_page == {name: struct.format for name, struct in STRUCTS.items()}


@pytest.mark.parametrize("name", SHORTCUTS)
def test_a_shortcut_is_what_it_is_put_together_from(name: str) -> None:
    parts = [STRUCTS[part].format.removeprefix("<") if part in STRUCTS else part for part in SHORTCUTS[name]]
    whole: Struct = getattr(fmt, name)
    assert whole.format == "<" + "".join(parts)


def test_the_page_has_the_numbers_that_stand_for_something() -> None:
    flat = " ".join(TEXT.split())
    assert f"A header of {fmt.SEGMENT_SIZE} bytes" in flat
    assert f"`magic` is `{fmt.SEGMENT_MAGIC.decode().encode('unicode_escape').decode()}`" in flat
    assert f"`version` is {fmt.VERSION}." in flat
    assert f"`magic` is `{fmt.BATCH_MAGIC.decode()}`" in flat
    assert f"ids of {fmt.ID_SIZE} bytes" in flat
    states = ", ".join(f"{number} {name}" for number, name in enumerate(STATE_NAMES[:3]))
    assert f"`state`: {states}." in flat
    reasons = ", ".join(f"{number} `{reason}`" for number, reason in enumerate(fmt.REASONS))
    assert f"`reason`: {reasons}." in flat
    assert fmt.RETURNS == ("failed", "expired", "released", "undelivered")
    for flag, words in (
        (fmt.CHOSEN, "the id was chosen"),
        (fmt.CARRIED, "it is no new message"),
        (fmt.ANNOUNCEMENT, "it is a copy of the announcement"),
        (fmt.HAS_TTL, "it has a `ttl` of its own"),
        (fmt.HAS_LEASE, "it has a lease"),
    ):
        assert f" {flag} {words}" in flat


def test_the_page_has_the_keys_of_the_json_payloads() -> None:
    text = sections(TEXT, 3)["JSON payloads"]
    for kind in (QueueSettings, Counters):
        for field in dataclasses.fields(kind):
            assert f"`{field.name}`" in text
    for key in ("name", "settings", "mark", "last_id", "counters", "patterns"):
        assert f"`{key}`" in text


def test_the_example_is_told_byte_by_byte() -> None:
    ((_, shown),) = example_on(TEXT)
    assert shown == example(TEXT), "run: python -m tests.docs.journal_page"


def test_the_page_on_durability_has_every_figure_of_the_journal(tmp_path: Path) -> None:
    page = (DOCS / "durability.md").read_text(encoding="utf-8")
    rows = re.findall(r"^\| (`.+?`) \|", sections(page, 2)["Commands"], re.MULTILINE)
    told = {name for row in rows for name in re.findall(r"`(\w+)`", row)}
    with start_server("--data", str(tmp_path)) as server, Conn(server.port) as conn:
        shown = set(info(conn, "persistence"))
        assert server.stop() == 0
    while_loading = {"loading_total_bytes", "loading_loaded_bytes"}
    assert told == shown | while_loading
