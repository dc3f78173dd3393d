"""A broker in the test's own process, and workers that run until the test ends. Tests ask for `autojump_clock`, too."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from respmq import Broker


@pytest.fixture
async def broker() -> AsyncIterator[Broker]:
    """An open broker without queues."""
    async with Broker() as opened:
        yield opened
