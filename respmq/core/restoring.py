"""A queue into which what was saved of another one is taken back."""

from __future__ import annotations

from typing import TYPE_CHECKING

from respmq.core.hub import MESSAGE_OVERHEAD
from respmq.core.queue import Queue
from respmq.core.weight import remembered

if TYPE_CHECKING:
    from respmq.core.model import DeadLetter, Message


class RestorableQueue(Queue):
    """A queue that can be filled with what was saved. Nothing of it counts as put, or is announced."""

    def restore(self, message: Message, delay: int) -> None:
        """Take in a message as if it came back now: ready at the back, or ready after `delay`.

        Its id must not be live in the queue.
        """
        self.live[message.id] = message
        self.id_maker.avoid(message.id)
        self.bytes += message.size
        self._hub.used += message.size + MESSAGE_OVERHEAD
        self._add_surplus(message, self._whole_surplus(message))
        self._enter(message, delay)

    def restore_dead(self, letter: DeadLetter) -> None:
        """Take in a dead letter as the newest one."""
        letter.message.surplus = self._own_surplus(letter.message)
        self._hub.used += letter.message.size + MESSAGE_OVERHEAD + letter.message.surplus
        self.dead.add(letter)

    def remembered(self) -> list[tuple[bytes, int]]:
        """The ids that producers chose and that are duplicates for a while, with the moments until when."""
        return self.window.entries(self._hub.now)

    def remember(self, id: bytes, until: int) -> None:
        """Take an id for a duplicate until a moment, which is not before those of the ids remembered so far."""
        self.window.restore(id, until)
        self._hub.used += remembered(id)
        self._alarm.arm(max(until, self._hub.now))
