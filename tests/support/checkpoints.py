"""Cancels a piece of async code at every moment in turn.

The moments are those at which any task of the program has come to a checkpoint, not the code's own task alone: so a
call is cancelled before its request is written, when it is written, when the reply has come and nobody knows, ...
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable

import trio


class _CancelAt(trio.abc.Instrument):
    """Cancels a scope after the `place`th step of the scheduler."""

    def __init__(self, scope: trio.CancelScope, place: int) -> None:
        self._scope = scope
        self._left = place

    def after_task_step(self, task: trio.lowlevel.Task) -> None:
        self._left -= 1
        if self._left == 0:
            self._scope.cancel()


async def cancel_everywhere(operation: Callable[[], Awaitable[object]], *, most: int = 1000) -> AsyncIterator[bool]:
    """Run an operation again and again, cancelled at the first moment, at the second one, and so on.

    Yields after each run whether it was cancelled; the last one wasn't.
    """
    for place in range(1, most + 1):
        with trio.CancelScope() as scope:
            instrument = _CancelAt(scope, place)
            trio.lowlevel.add_instrument(instrument)
            try:
                await operation()
            finally:
                trio.lowlevel.remove_instrument(instrument)
        yield scope.cancelled_caught
        if not scope.cancelled_caught:
            return
    raise AssertionError(f"still not through after {most} moments")
