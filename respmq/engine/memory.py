"""The engine that holds everything in memory: the broker, and its short ways for plain calls.

A plain call has no options. `..._one` does one, `..._stretch` several on the same queue in a row, see
`respmq.commands.spec.Plain`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from respmq.core.broker import Broker
from respmq.core.hub import MESSAGE_OVERHEAD

if TYPE_CHECKING:
    from respmq.core.model import Message


class MemoryEngine(Broker):
    """A broker as the commands use it."""

    def put_one(self, name: bytes, body: bytes) -> bytes | None:
        """`put` without options, by a shorter way.

        Raises:
            BrokerError: as `put`.
        """
        queue = self._queues.get(name)
        if queue is not None and len(body) <= self.max_message_size and self._hub.used + len(body) <= self._hub.limit:
            id = queue.put_one(body)
            if id is not None:
                return id
        return self.put(name, body)

    def put_stretch(self, name: bytes, bodies: list[bytes]) -> list[bytes] | None:
        """Do several `put`s without options; returns the ids, or None if something may be in the way of one of them."""
        queue = self._queues.get(name)
        size = len(bodies[0]) if len(bodies) == 1 else sum(map(len, bodies))
        if (
            queue is None
            or not queue.takes_plain(len(bodies))
            or self._hub.used + size + len(bodies) * MESSAGE_OVERHEAD > self._hub.limit
            or size > self.max_message_size
        ):
            return None
        return queue.put_plain(bodies, size)

    def lease_one(self, name: bytes) -> list[Message]:
        """`lease` of one message without options, by a shorter way.

        Raises:
            QueueNotFoundError: no such queue.
        """
        queue = self._queues.get(name)
        if queue is None:
            return self.declaring((name,), lambda: self.lease_one(name))
        taken: list[Message] = []
        if queue.ready:
            queue.take(1, None, taken)
        return taken

    def lease_stretch(self, name: bytes, calls: list[bytes]) -> list[Message | None] | None:
        """Do several `lease`s of one message without options, as many as there are `calls`, or the first ones of them.

        Returns what each leased, None for nothing; or None if there is no such queue.
        """
        queue = self._queues.get(name)
        return None if queue is None else queue.take_each(len(calls))

    def ack_one(self, name: bytes, token: bytes) -> int:
        """`ack` of one lease, by a shorter way.

        Raises:
            QueueNotFoundError: no such queue.
        """
        queue = self._queues.get(name)
        return (self.find(name) if queue is None else queue).ack_one(token)

    def ack_stretch(self, name: bytes, tokens: list[bytes]) -> list[int] | None:
        """Do several `ack`s of one lease each; returns the count of each, or None if somebody has to be told of one."""
        queue = self._queues.get(name)
        return None if queue is None or queue.leases.holders else queue.ack_each(tokens)
