"""The only kind of waiting there is: an answer that isn't there yet.

A command answers now or returns a `Pending`. It has one owner, who sets `on_done` and gets exactly one call, and one
`cancel()`, after which the call never comes.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Generic, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable

    from respmq.errors import BrokerError

T = TypeVar("T")


class Pending(Generic[T]):
    """An answer of type `T` that comes later, or a `BrokerError`."""

    __slots__ = ("done", "on_done")

    #: Whether a stop of the server may answer it with nothing.
    ends_at_stop = True

    def __init__(self) -> None:
        self.done = False
        self.on_done: Callable[[T | BrokerError], None] | None = None

    def resolve(self, answer: T | BrokerError) -> None:
        """Give the answer to the owner. What was answered or cancelled before stays so."""
        if self.done:
            return
        self.done = True
        self.release()
        callback, self.on_done = self.on_done, None
        if callback is not None:
            callback(answer)

    def cancel(self) -> None:
        """Stop waiting: the owner isn't called any more."""
        if self.done:
            return
        self.done = True
        self.on_done = None
        self.release()

    def release(self) -> None:
        """Give up whatever place is held while waiting; called once, before the answer or on `cancel()`."""


class DiskWait(Pending[None]):
    """What only the disk can answer."""

    __slots__ = ()

    ends_at_stop = False
