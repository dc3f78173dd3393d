"""Waits for what other threads and programs do."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

import trio


async def until(condition: Callable[[], bool | Awaitable[bool]]) -> None:
    """Wait until something holds."""
    while True:
        holds = condition()
        if holds if isinstance(holds, bool) else await holds:
            return
        await trio.sleep(0.005)
