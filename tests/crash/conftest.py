"""As many rounds as were asked for may take longer than a test that hangs is given."""

from __future__ import annotations

import faulthandler

import pytest

from tests.crash.effort import EVERY, ROUNDS


@pytest.fixture(autouse=True)
def time_for_rounds() -> None:
    """Set back the alarm that pytest has set for this test."""
    if EVERY or ROUNDS > 10:
        faulthandler.dump_traceback_later(7200 if EVERY else 10 * ROUNDS, exit=True)
