"""The leases of one queue, by token.

Almost all leases of a queue last its ACKTIMEOUT, so they expire in the order in which they were granted: an ordinary
dict keeps that order, and needs no heap. Leases of another length (LEASE, FOR) are few and have one.
"""

from __future__ import annotations

from heapq import merge
from typing import TYPE_CHECKING, Protocol

from respmq.core.lazyheap import LazyHeap
from respmq.core.model import Message

if TYPE_CHECKING:
    from collections.abc import Iterator

    from respmq.core.hub import Container


def _deadline(message: Message) -> int:
    return message.deadline


class Holder(Protocol):
    """Somebody who keeps account of leases: a request that may be sent again."""

    def ended(self, token: bytes) -> None:
        """A lease has ended."""

    def keeps(self, token: bytes) -> bool:
        """Whether a lease goes on though an answer with it could not be written, since another answer has it too."""
        ...


class Leases:
    """`standard` and `odd` are the live leases; `late` holds those that expired and can still be acked.

    `holders` are those that have to be told when a lease ends.
    """

    __slots__ = ("_first_end", "_granted", "_odd", "_odd_ends", "holders", "late", "standard")

    def __init__(self) -> None:
        self.standard: dict[bytes, Message] = {}
        #: None of them ends before this moment (0: not known). To find the first one means to pass over the places of
        #: all that stood before it and are gone, which may be very many: so it is looked for only when this has come.
        self._first_end = 0
        #: With the number under which the heap knows the lease: one that was renewed and then cut back to where it
        #: ended before has an older entry there, which must not count a second time.
        self._odd: dict[bytes, tuple[int, Message]] = {}
        self._granted = 0
        odd = self._odd

        def ends(message: Message, key: tuple[int, int]) -> bool:
            entry = None if message.lease is None else odd.get(message.lease)
            return entry is not None and entry[0] == key[1]

        self._odd_ends: LazyHeap[tuple[int, int]] = LazyHeap(ends)
        self.late: dict[bytes, Message] = {}
        self.holders: dict[bytes, Holder] = {}

    def __len__(self) -> int:
        return len(self.standard) + len(self._odd)

    def add_odd(self, message: Message) -> None:
        """Add a lease that doesn't last ACKTIMEOUT; its message has token and deadline."""
        if message.lease is not None:
            self._granted += 1
            self._odd[message.lease] = (self._granted, message)
            self._odd_ends.add((message.deadline, self._granted), message)

    def pop_odd(self, token: bytes) -> Message | None:
        """End such a lease and return its message, or None."""
        entry = self._odd.pop(token, None)
        return None if entry is None else entry[1]

    def renew(self, token: bytes, deadline: int, *, standard: bool) -> Message | None:
        """Let a live lease end at `deadline` (`standard`: that is ACKTIMEOUT from now); None if there is none."""
        message = self.get(token)
        if message is None:
            return None
        if message.deadline != deadline or (token in self._odd) == standard:
            self.pop(token)
            message.deadline = deadline
            if standard:
                self.standard[token] = message
            else:
                self.add_odd(message)
        return message

    def load(self, messages: list[Message], standard_until: int) -> None:
        """Take over leases in place of none; of later standard ones none ends before `standard_until`."""
        # Of those that end together the first granted is the first to end, as tokens are counted.
        tokens = {message.lease: message for message in messages if message.lease is not None}
        for token in sorted(tokens, key=lambda token: (tokens[token].deadline, len(token), token)):
            message = tokens[token]
            if message.deadline <= standard_until:
                self.standard[token] = message
            else:
                self.add_odd(message)

    def get(self, token: bytes) -> Message | None:
        """The message of a live lease, or None."""
        message = self.standard.get(token)
        if message is not None:
            return message
        entry = self._odd.get(token)
        return None if entry is None else entry[1]

    def pop(self, token: bytes) -> Message | None:
        """End a live lease and return its message, or None."""
        message = self.standard.pop(token, None)
        return self.pop_odd(token) if message is None else message

    def end_hold(self, token: bytes) -> None:
        """Tell the one who keeps account of a lease, if there is one, that it has ended."""
        holder = self.holders.pop(token, None)
        if holder is not None:
            holder.ended(token)

    def expired(self, now: int, most: int) -> list[tuple[bytes, Message]]:
        """End the leases whose time is over, at most `most`, and return them in the order in which they ended."""
        ended: list[tuple[bytes, Message]] = []
        if self._first_end <= now:
            self._first_end = 0
            for token, message in self.standard.items():
                if message.deadline > now or len(ended) >= most:
                    self._first_end = message.deadline
                    break
                ended.append((token, message))
            for token, _ in ended:
                del self.standard[token]
        if not self._odd:
            return ended
        from_odd = False
        for _ in range(most - len(ended)):
            key = self._odd_ends.next()
            if key is None or key[0] > now:
                break
            odd = self._odd_ends.pop_next()
            if odd is not None and odd.lease is not None:
                del self._odd[odd.lease]
                ended.append((odd.lease, odd))
                from_odd = True
        if from_odd:
            ended.sort(key=lambda item: item[1].deadline)
        return ended

    def next_expiry(self) -> int | None:
        """A moment before which no lease ends, near the one at which the first does; None if there are none."""
        first = None
        if self.standard:
            if not self._first_end:
                self._first_end = next(iter(self.standard.values())).deadline
            first = self._first_end
        odd = self._odd_ends.next() if self._odd else None
        if first is None:
            return None if odd is None else odd[0]
        return first if odd is None else min(first, odd[0])

    def __iter__(self) -> Iterator[Message]:
        """The leased messages in the order in which their leases end."""
        return merge(self.standard.values(), self._odd_ends, key=_deadline)

    def containers(self) -> list[Container]:
        """What holds the messages, for freeing them."""
        return [self.standard, self._odd, *self._odd_ends.clear(), self.late]
