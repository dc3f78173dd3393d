"""How much one command does at most: what takes long keeps everybody else waiting.

A reply that would be longer ends early, with what comes first; whoever wants the rest asks again.
"""

from __future__ import annotations

from itertools import islice
from typing import TYPE_CHECKING, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from respmq.core.model import DeadLetter, Message

#: How many messages are shown in full, how many are leased without that, and how many dead letters are replayed.
MOST_SHOWN = 1_000
MOST_LEASED = 10_000
MOST_REPLAYED = 10_000

#: A reply ends with the message with which their bodies, headers and attachments reach this many bytes.
MOST_BYTES = 16 << 20

#: So many can't be passed over, and islice doesn't take much larger numbers.
_MOST_OFFSET = 1 << 62

T = TypeVar("T")


def shown_messages(messages: Iterable[Message], offset: int, count: int) -> list[Message]:
    """At most `count` messages behind the first `offset` ones, as many as one reply may hold."""
    return _shown(messages, offset, count, lambda message: message.size)


def shown_letters(letters: Iterable[DeadLetter], offset: int, count: int) -> list[DeadLetter]:
    """The same for dead letters."""
    return _shown(letters, offset, count, lambda letter: letter.message.size + len(letter.error or b""))


def _shown(items: Iterable[T], offset: int, count: int, size: Callable[[T], int]) -> list[T]:
    offset = min(offset, _MOST_OFFSET)
    found: list[T] = []
    room = MOST_BYTES
    for item in islice(items, offset, offset + min(count, MOST_SHOWN)):
        found.append(item)
        room -= size(item)
        if room <= 0:
            break
    return found
