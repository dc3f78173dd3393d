"""Finding the shortest example that fails may take longer than a test that hangs is given."""

from __future__ import annotations

import faulthandler

import pytest

from tests.property.effort import FACTOR


@pytest.fixture(autouse=True)
def time_to_shrink() -> None:
    """Set back the alarm that pytest has set for this test."""
    faulthandler.dump_traceback_later(600 * max(FACTOR, 1), exit=True)
