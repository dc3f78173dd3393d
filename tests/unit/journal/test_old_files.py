"""Journals that were written by any version are read by all that come; see `files/make.py`."""

from __future__ import annotations

import json
import shutil
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from respmq.engine.journaled import JournaledEngine
from respmq.journal import format as fmt
from respmq.journal.format import Kind
from respmq.journal.repair import look
from tests.support.disk import InlineWorker
from tests.unit.journal.files.make import HERE, state_of
from tests.unit.journal.rig import segments

STORED = sorted(path for path in HERE.iterdir() if path.is_dir() and path.with_suffix(".json").exists())
BY_NAME = [pytest.param(path, id=path.name) for path in STORED]


def loaded(folder: Path) -> JournaledEngine:
    """An engine that has read a folder, at the moment of its last batch."""
    engine = JournaledEngine(
        0,
        bytes,
        lambda low, _high: low,
        folder,
        policy="no",
        wall=lambda: engine.now,
        stands_still=True,
        make_worker=InlineWorker,
    )
    for _ in engine.loading():
        pass
    return engine


def check_covers(found: Any, stored: Any, where: str = "") -> None:
    """See that all that is stored is there; a later version may know more."""
    if isinstance(stored, dict):
        assert isinstance(found, dict), where
        for key, value in stored.items():
            assert key in found, f"{where}/{key}"
            check_covers(found[key], value, f"{where}/{key}")
    elif isinstance(stored, list):
        assert isinstance(found, list), where
        assert len(found) == len(stored), where
        for place, (one, other) in enumerate(zip(found, stored, strict=True)):
            check_covers(one, other, f"{where}/{place}")
    else:
        assert found == stored, where


@pytest.mark.parametrize("stored", BY_NAME)
def test_a_stored_journal_is_read(stored: Path, tmp_path: Path) -> None:
    folder = Path(shutil.copytree(stored, tmp_path / "journal"))
    expected = json.loads(stored.with_suffix(".json").read_text(encoding="utf-8"))
    # Once as it is; then what was written behind it by this version is read, too.
    for _ in range(2):
        engine = loaded(folder)
        found = state_of(engine)
        assert found.keys() == expected.keys()
        assert found["queues"].keys() == expected["queues"].keys()
        check_covers(found, expected)
        engine.close()


@pytest.mark.parametrize("stored", BY_NAME)
def test_a_stored_journal_can_be_compacted(stored: Path, tmp_path: Path) -> None:
    folder = Path(shutil.copytree(stored, tmp_path / "journal"))
    before = {path.name for path in folder.glob("*.journal")}
    engine = loaded(folder)
    found = state_of(engine)
    assert engine.compactor is not None
    journal = engine.journal
    assert journal is not None
    journal._roll()
    engine.compact()
    for _ in range(1_000):
        engine.every_second()
        engine.compactor.step(engine.now)
    engine.close()
    assert not before & {path.name for path in folder.glob("*.journal")}
    again = loaded(folder)
    assert state_of(again) == found
    again.close()


@pytest.mark.parametrize("stored", BY_NAME)
def test_a_stored_journal_is_sound(stored: Path) -> None:
    report = look(stored)
    assert (report.trouble, report.damages, report.gaps) == (None, [], [])


def test_they_have_records_of_every_kind() -> None:
    """Of a kind that is no longer written, too."""
    kinds: Counter[int] = Counter()
    for stored in STORED:
        for segment in segments(stored):
            for batch in segment.batches():
                at = 0
                while at < len(batch.records):
                    kind, size, _ = fmt.RECORD_HEAD.unpack_from(batch.records, at)
                    at += fmt.RECORD_HEAD.size + size
                    kinds[kind] += 1
    assert set(kinds) == set(Kind)


def test_there_are_some_of_every_version() -> None:
    versions = {segment.data[8] for stored in STORED for segment in segments(stored)}
    assert versions == set(range(1, fmt.VERSION + 1))
