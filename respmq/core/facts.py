"""What happens to the broker's state, told in the moment in which it happens.

A fact says what became of a message, not what was asked: its new deadline, not its DELAY. Who writes facts down can
build the same state from them later without a clock, without chance and without doing anything a second time.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, Literal

if TYPE_CHECKING:
    from collections.abc import Sequence

    from respmq.core.exchanges import Exchange
    from respmq.core.model import DeadLetter, Message
    from respmq.core.requests import Request
    from respmq.core.stock import Stock

#: How a lease ended whose message goes on: a failure (the attempt counts), the same by the end of its time (its token
#: can still be acked), given back, or given back because its client never got it.
Return = Literal["failed", "expired", "released", "undelivered"]


class Recorder(ABC):
    """Told of facts. The objects are as they are after the fact, except where they are gone: then as before it."""

    @abstractmethod
    def declared(self, queue: Stock) -> None:
        """A queue is there."""

    @abstractmethod
    def deleted(self, queue: Stock) -> None:
        """A queue is gone, with all that was in it and all bindings to it."""

    @abstractmethod
    def purged(self, queue: Stock) -> None:
        """All ready and delayed messages of a queue are about to go."""

    @abstractmethod
    def renamed(self, queue: Stock) -> None:
        """A queue marks the ids that it makes in another way."""

    @abstractmethod
    def bound(self, queue: Stock, pattern: bytes) -> None:
        """A queue gets copies of what is published under a pattern."""

    @abstractmethod
    def unbound(self, queue: Stock, pattern: bytes) -> None:
        """It no longer does."""

    @abstractmethod
    def exchange_declared(self, name: bytes, exchange: Exchange) -> None:
        """An exchange is there."""

    @abstractmethod
    def exchange_deleted(self, name: bytes) -> None:
        """An exchange is gone, with its bindings."""

    @abstractmethod
    def exchange_bound(self, name: bytes, queue: Stock, key: bytes) -> None:
        """A queue is bound to an exchange."""

    @abstractmethod
    def exchange_unbound(self, name: bytes, queue: Stock, key: bytes) -> None:
        """It no longer is."""

    @abstractmethod
    def copy_dropped(self) -> None:
        """A copy found no room in its queue."""

    @abstractmethod
    def stored(self, queue: Stock, message: Message, *, chosen: bool) -> None:
        """A message was put; `chosen` tells whether its id was, and is remembered for DEDUPE."""

    @abstractmethod
    def stored_plain(self, queue: Stock, messages: Sequence[Message]) -> None:
        """Messages without options were put, and are ready one behind the other. Their ids are a run."""

    @abstractmethod
    def duplicate(self, queue: Stock) -> None:
        """A put was turned away because its id is known."""

    @abstractmethod
    def leased(self, queue: Stock, messages: Sequence[Message]) -> None:
        """Messages were handed out, all until the same moment. Their tokens were made one after the other."""

    @abstractmethod
    def requested(self, queue: Stock, request: Request) -> None:
        """The leases of a request that may be sent again, which is kept by `queue`, are these."""

    @abstractmethod
    def touched(self, queue: Stock, messages: Sequence[Message]) -> None:
        """Leases were renewed, all until the same moment."""

    @abstractmethod
    def acked(self, queue: Stock, messages: Sequence[Message]) -> None:
        """Messages are about to go, since they were done."""

    @abstractmethod
    def returned(self, queue: Stock, message: Message, how: Return) -> None:
        """A lease has ended, and its message waits again."""

    @abstractmethod
    def promoted(self, queue: Stock, messages: Sequence[Message]) -> None:
        """Delayed messages are ready now, one behind the other."""

    @abstractmethod
    def removed(self, queue: Stock, messages: Sequence[Message]) -> None:
        """Messages are about to be deleted."""

    @abstractmethod
    def died(self, queue: Stock, letter: DeadLetter, *, expired: bool) -> None:
        """A message has become a dead letter; `expired`: by the end of the last lease that it could have."""

    @abstractmethod
    def dead_removed(self, queue: Stock, letters: Sequence[DeadLetter], *, dropped: bool) -> None:
        """Dead letters are gone; `dropped` since there were too many."""

    @abstractmethod
    def dead_cleared(self, queue: Stock) -> None:
        """All dead letters are gone."""

    @abstractmethod
    def replayed(self, queue: Stock, letter: DeadLetter, message: Message) -> None:
        """A dead letter is a ready message again."""
