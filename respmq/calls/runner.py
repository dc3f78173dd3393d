"""What the generated methods need of a client: a way to send a call and wait for its result."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeVar

if TYPE_CHECKING:
    from respmq.calls.call import Call

T = TypeVar("T")


class Runner:
    """A client that blocks."""

    def _run_call(self, call: Call[T]) -> T:
        """Send a call and wait for its result."""
        raise NotImplementedError


class AsyncRunner:
    """A client whose methods are awaited."""

    async def _run_call(self, call: Call[T]) -> T:
        """Send a call and wait for its result."""
        raise NotImplementedError
