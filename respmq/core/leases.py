"""The leases of one queue, by token.

Almost all leases of a queue last its ACKTIMEOUT, so they expire in the order in which they were granted: an ordinary
dict keeps that order, and needs no heap. Leases of another length (LEASE, FOR) are few and have one.
"""

from __future__ import annotations

from heapq import merge
from typing import TYPE_CHECKING

from respmq.core.lazyheap import LazyHeap
from respmq.core.model import LEASED, Message

if TYPE_CHECKING:
    from collections.abc import Iterator

    from respmq.core.hub import Container


def _ends(message: Message, key: int) -> bool:
    return message.state == LEASED and message.deadline == key


def _deadline(message: Message) -> int:
    return message.deadline


class Leases:
    """`standard` and `odd` are the live leases; `late` holds those that expired and can still be acked."""

    __slots__ = ("_odd", "_odd_ends", "late", "standard")

    def __init__(self) -> None:
        self.standard: dict[bytes, Message] = {}
        self._odd: dict[bytes, Message] = {}
        self._odd_ends: LazyHeap[int] = LazyHeap(_ends)
        self.late: dict[bytes, Message] = {}

    def __len__(self) -> int:
        return len(self.standard) + len(self._odd)

    def add_odd(self, message: Message) -> None:
        """Add a lease that doesn't last ACKTIMEOUT; its message has token and deadline."""
        if message.lease is not None:
            self._odd[message.lease] = message
            self._odd_ends.add(message.deadline, message)

    def pop_odd(self, token: bytes) -> Message | None:
        """End such a lease and return its message, or None."""
        return self._odd.pop(token, None)

    def renew(self, token: bytes, deadline: int, *, standard: bool) -> bool:
        """Let a live lease end at `deadline` (`standard`: that is ACKTIMEOUT from now); False if there is none."""
        message = self.get(token)
        if message is None:
            return False
        if message.deadline != deadline or (token in self._odd) == standard:
            self.pop(token)
            message.deadline = deadline
            if standard:
                self.standard[token] = message
            else:
                self.add_odd(message)
        return True

    def get(self, token: bytes) -> Message | None:
        """The message of a live lease, or None."""
        return self.standard.get(token) or self._odd.get(token)

    def pop(self, token: bytes) -> Message | None:
        """End a live lease and return its message, or None."""
        message = self.standard.pop(token, None)
        return self._odd.pop(token, None) if message is None else message

    def expired(self, now: int, most: int) -> list[tuple[bytes, Message]]:
        """End the leases whose time is over, at most `most`, and return them in the order in which they ended."""
        ended: list[tuple[bytes, Message]] = []
        for token, message in self.standard.items():
            if message.deadline > now or len(ended) >= most:
                break
            ended.append((token, message))
        for token, _ in ended:
            del self.standard[token]
        if not self._odd:
            return ended
        from_odd = False
        while len(ended) < most and (at := self._odd_ends.first()) is not None and at <= now:
            message_or_none = self._odd_ends.pop()
            if message_or_none is None or message_or_none.lease is None:
                continue
            token = message_or_none.lease
            if self._odd.pop(token, None) is not None:
                ended.append((token, message_or_none))
                from_odd = True
        if from_odd:
            ended.sort(key=lambda item: item[1].deadline)
        return ended

    def next_expiry(self) -> int | None:
        """When the first of the leases ends, or None."""
        first = next(iter(self.standard.values()), None)
        odd = self._odd_ends.first() if self._odd else None
        if first is None:
            return odd
        return first.deadline if odd is None else min(first.deadline, odd)

    def __iter__(self) -> Iterator[Message]:
        """The leased messages in the order in which their leases end."""
        odd = (message for message in self._odd_ends if message.lease in self._odd)
        return merge(self.standard.values(), odd, key=_deadline)

    def containers(self) -> list[Container]:
        """What holds the messages, for freeing them."""
        return [self.standard, self._odd, self._odd_ends.heap, self.late]
