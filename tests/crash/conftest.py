"""The process that forks servers, and time for as many rounds as were asked for."""

from __future__ import annotations

import faulthandler
from collections.abc import Iterator

import pytest

from tests.crash.effort import EVERY, ROUNDS
from tests.crash.running import close_nest


@pytest.fixture(autouse=True, scope="session")
def nest() -> Iterator[None]:
    """End the process that forks servers at the end."""
    yield
    close_nest()


@pytest.fixture(autouse=True)
def time_for_rounds() -> None:
    """Set back the alarm that pytest has set for this test."""
    if EVERY or ROUNDS > 10:
        faulthandler.dump_traceback_later(7200 if EVERY else 10 * ROUNDS, exit=True)
