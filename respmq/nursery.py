"""A nursery for what runs beside the body of an `async with`, and no longer than that."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager

import trio


@asynccontextmanager
async def open_background() -> AsyncGenerator[trio.Nursery]:
    """A nursery whose tasks are cancelled when the body is left.

    What the body raises comes out as it is, not in a group. What a task raises cancels the body and comes out in its
    place, in a group only if several tasks failed.
    """
    error: BaseException | None = None
    try:
        async with trio.open_nursery() as nursery:
            try:
                yield nursery
            except BaseException as raised:  # noqa: BLE001 - it is raised again below
                error = raised
            nursery.cancel_scope.cancel()
    except BaseExceptionGroup as group:
        failures = group.split(trio.Cancelled)[1]
        if failures is not None:
            only = failures.exceptions[0] if len(failures.exceptions) == 1 else failures
            raise only from error
        if error is None:
            raise
    if error is not None:
        raise error
