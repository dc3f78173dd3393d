"""A folder for journals, and what works on it closed at the end of each test."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.unit.journal.rig import Rig


@pytest.fixture
def rig(tmp_path: Path) -> Iterator[Rig]:
    """Journals on files that fail when the test says so."""
    made = Rig(tmp_path)
    yield made
    made.close()
