"""The journal: what is on the disk, and how large it is."""

from __future__ import annotations

from typing import TYPE_CHECKING

from respmq.commands.context import Context
from respmq.commands.registry import command
from respmq.commands.replies import INTEGER, OK, STATUS
from respmq.errors import InvalidRequestError
from respmq.resp.values import Status

if TYPE_CHECKING:
    from respmq.engine.base import Durable
    from respmq.pending import DiskWait


def _durable(ctx: Context) -> Durable:
    durable = ctx.server.durable
    if durable is None:
        msg = "this server keeps everything in memory: start it with --data DIR to have a journal"
        raise InvalidRequestError(msg)
    return durable


@command(
    "SAVE",
    group="durability",
    reply=OK,
    errors=("MISCONF",),
    flags=("admin", "noscript", "no_multi"),
    complexity="O(N) with N bytes that are not on the disk yet",
)
def save(ctx: Context) -> DiskWait | None:
    """Waits until everything that has happened is on the disk.

    Nobody else has to wait for it. A server without `--data` answers with an error.
    """
    return _durable(ctx).save()


@command(
    "BGREWRITEAOF",
    group="durability",
    reply=STATUS.saying("`Background append only file rewriting started`"),
    errors=("MISCONF",),
    flags=("admin", "noscript"),
    complexity="O(N) with N bytes in the journal, a little at a time",
)
def bgrewriteaof(ctx: Context) -> Status:
    """Begins to compact the whole journal, which otherwise happens as it is needed.

    A server without `--data` answers with an error.
    """
    if not _durable(ctx).compact():
        msg = "Background append only file rewriting already in progress"
        raise InvalidRequestError(msg)
    return Status("Background append only file rewriting started")


@command(
    "LASTSAVE",
    group="durability",
    reply=INTEGER.saying("seconds since the epoch"),
    # It tells only of what is on the disk.
    flags=("loading", "stale", "fast", "stateless"),
)
def lastsave(ctx: Context) -> int:
    """Returns when something was last known to be on the disk; of a server without `--data`, when it was started."""
    durable = ctx.server.durable
    return (ctx.server.started_at if durable is None else durable.saved_at) // 1000
