"""Work that a command leaves behind, done little by little so that nobody has to wait for all of it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from collections.abc import Sequence

    from respmq.core.queue import Queue


class Chore(Protocol):
    """Something that is done in steps."""

    def work(self, most: int) -> int:
        """Do at most so many steps; returns how many it were, fewer than `most` if nothing is left."""
        ...


class Failures:
    """Leases of one queue that end as failures with the same error; those that have ended meanwhile are passed over."""

    __slots__ = ("_done", "_error", "_queue", "_tokens")

    def __init__(self, queue: Queue, tokens: Sequence[bytes], error: bytes) -> None:
        self._queue = queue
        self._tokens = tokens
        self._error = error
        self._done = 0

    def work(self, most: int) -> int:
        """Let the next ones fail."""
        tokens = self._tokens[self._done : self._done + most]
        for token in tokens:
            self._queue.fail(token, None, self._error)
        self._done += len(tokens)
        return len(tokens)
