"""Dead letters."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

from respmq.commands.arguments import BLOB, COUNT, NONE_NEEDED, OFFSET, Described, QueueName
from respmq.commands.context import Context
from respmq.commands.registry import command, container
from respmq.commands.replies import INTEGER, MAPS

if TYPE_CHECKING:
    from respmq.core.model import Description

container("QDEAD", summary="A container for commands on dead letters.", group="dead letter")

_ERRORS = ("NOQUEUE", "INVALIDNAME")


@command(
    "QDEAD LIST",
    group="dead letter",
    reply=MAPS,
    errors=_ERRORS,
    flags=("readonly",),
    complexity="O(N+M) with offset N and M letters returned",
)
def qdead_list(
    ctx: Context,
    queue: QueueName,
    *,
    count: Annotated[int, COUNT, Described("The most letters to show.")] = 100,
    offset: Annotated[int, OFFSET, Described("How many to pass over.")] = 0,
) -> list[Description]:
    """Shows dead letters, oldest first."""
    return ctx.engine.dead_letters(queue, count, offset)


@command(
    "QDEAD LEN",
    group="dead letter",
    reply=INTEGER,
    errors=_ERRORS,
    flags=("readonly", "fast"),
)
def qdead_len(ctx: Context, queue: QueueName) -> int:
    """Returns how many dead letters a queue has."""
    return ctx.engine.dead_count(queue)


@command(
    "QDEAD POP",
    group="dead letter",
    reply=MAPS,
    errors=_ERRORS,
    flags=("write",),
    complexity="O(N) with N letters",
)
def qdead_pop(
    ctx: Context, queue: QueueName, *, count: Annotated[int, COUNT, Described("The most letters to take.")] = 1
) -> list[Description]:
    """Removes the oldest dead letters and returns them."""
    return ctx.engine.pop_dead(queue, count)


@command(
    "QDEAD REPLAY",
    group="dead letter",
    reply=INTEGER.saying("integer: how many were replayed"),
    errors=_ERRORS,
    flags=("write",),
    complexity="O(N) with N letters",
)
def qdead_replay(
    ctx: Context, queue: QueueName, *ids: Annotated[bytes, BLOB, NONE_NEEDED, Described("All if there is none.")]
) -> int:
    """Puts dead letters back at the end of their priority with a fresh attempt count."""
    return ctx.engine.replay_dead(queue, ids)


@command(
    "QDEAD PURGE",
    group="dead letter",
    reply=INTEGER.saying("integer: how many were removed"),
    errors=_ERRORS,
    flags=("write",),
    complexity="O(N) with N letters",
)
def qdead_purge(
    ctx: Context, queue: QueueName, *ids: Annotated[bytes, BLOB, NONE_NEEDED, Described("All if there is none.")]
) -> int:
    """Removes dead letters for good."""
    return ctx.engine.purge_dead(queue, ids)
