"""Messages by the number of their last entry into their queue, which is what runs of them are known by."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from respmq.core.model import Message


class ByOrder:
    """The messages of one queue while a journal is read."""

    __slots__ = ("_found",)

    def __init__(self) -> None:
        #: None for an order that two had, so that it says nothing.
        self._found: dict[int, Message | None] = {}

    def add(self, message: Message) -> None:
        """A message has entered.

        Two of one order are no work of a broker, but may have been imported before that was refused.
        """
        if self._found.setdefault(message.order, message) is not message:
            self._found[message.order] = None

    def get(self, order: int) -> Message | None:
        """The message with this order, None if there is none."""
        return self._found.get(order)

    def remove(self, message: Message) -> None:
        """A message is gone, or about to enter again."""
        if self._found.get(message.order) is message:
            del self._found[message.order]
