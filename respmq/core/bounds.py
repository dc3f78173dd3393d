"""How much one command does at most: what takes long keeps everybody else waiting.

A reply that would be longer ends early, with what comes first; whoever wants the rest asks again.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

#: How many messages are shown in full, how many are leased without that, and how many dead letters are replayed.
MOST_SHOWN = 1_000
MOST_LEASED = 10_000
MOST_REPLAYED = 10_000

#: A reply ends with the message with which their bodies, headers and attachments reach this many bytes.
MOST_BYTES = 16 << 20

T = TypeVar("T")


def fitting(items: Iterable[T], size: Callable[[T], int]) -> list[T]:
    """The first of `items`, up to the one with which they reach MOST_BYTES; `size` gives the bytes of one."""
    found: list[T] = []
    room = MOST_BYTES
    for item in items:
        found.append(item)
        room -= size(item)
        if room <= 0:
            break
    return found
