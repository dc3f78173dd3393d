"""A queue with short ways for plain calls: those without options, one alone or several in a row.

They do what `Queue` does, with less around it; a test holds both to the same results.
"""

from __future__ import annotations

from respmq.core.hub import MESSAGE_OVERHEAD
from respmq.core.model import Message
from respmq.core.restoring import RestorableQueue

#: About how many bytes are leased at a time where there may be many leases in a row.
_MUCH = 1 << 20


class PlainQueue(RestorableQueue):
    """A queue and its short ways."""

    def takes_plain(self, count: int) -> bool:
        """Whether so many puts can be done by `put_plain`: nothing has to be handed on or refused between them."""
        return self._plain and not self.takers and self.ready + self.delayed + count <= self.settings.max_len

    def put_one(self, body: bytes) -> bytes | None:
        """`put_plain` of one message, if the queue `takes_plain`; returns the id, else None."""
        if not self._plain or self.takers or self.ready + self.delayed >= self.settings.max_len:
            return None
        hub = self._hub
        id = self.id_maker.make(hub.now)
        message = Message(self.name, id, body, 0, hub.now, None)
        self._entered = message.order = self._entered + 1
        self.live[id] = message
        self._line.append(message)
        size = len(body)
        self.bytes += size
        hub.used += size + MESSAGE_OVERHEAD
        self.enqueued += 1
        self.ready += 1
        if hub.recorder is not None:
            hub.recorder.stored_plain(self, (message,))
        return id

    def take_each(self, count: int) -> list[Message | None]:
        """`take` of one message for ACKTIMEOUT, `count` times, or fewer if they are large; None where there is none."""
        taken: list[Message] = []
        average = self.bytes // len(self.live) if self.live else 0
        self.take(min(count, _MUCH // (average + 1) + 1), None, taken)
        return [*taken, *[None] * (0 if self.ready else count - len(taken))]

    def ack_one(self, token: bytes) -> int:
        """`ack` of one lease, by a shorter way."""
        message = self.leases.standard.pop(token, None)
        if message is None:
            return self.ack((token,))
        if self.leases.holders:
            self.leases.end_hold(token)
        if self._hub.recorder is not None:
            self._hub.recorder.acked(self, (message,))
        self._discard(message)
        self.acked += 1
        return 1

    def ack_each(self, tokens: list[bytes]) -> list[int]:
        """`ack` of one lease each, while nobody keeps account of leases; returns the count of each."""
        pop = self.leases.standard.pop
        discard = self._discard
        done: list[Message] = []
        stale: list[int] = []
        for place, token in enumerate(tokens):
            message = pop(token, None)
            if message is None:
                stale.append(place)
            else:
                done.append(message)
        if done and self._hub.recorder is not None:
            self._hub.recorder.acked(self, done)
        for message in done:
            discard(message)
        self.acked += len(done)
        counts = [1] * len(tokens)
        for place in stale:
            counts[place] = self.ack((tokens[place],))
        return counts
