"""Transactions: several commands as one step."""

from __future__ import annotations

from typing import Annotated

from respmq.commands.arguments import BLOB, Described
from respmq.commands.context import Context
from respmq.commands.registry import command
from respmq.commands.replies import OK, REPLIES
from respmq.errors import InvalidRequestError

_FLAGS = ("noscript", "loading", "stale", "fast", "allow_busy", "stateless")


@command("MULTI", group="transaction", reply=OK, flags=(*_FLAGS, "no_multi"))
def multi(ctx: Context) -> None:
    """Begins a transaction: the commands that follow are queued until EXEC."""
    if ctx.in_transaction:
        msg = "MULTI calls can not be nested"
        raise InvalidRequestError(msg)
    ctx.begin()


@command(
    "EXEC",
    group="transaction",
    reply=REPLIES,
    errors=("EXECABORT",),
    flags=("noscript", "loading", "stale", "skip_slowlog"),
    complexity="Depends on the commands",
)
def execute(ctx: Context) -> bytes:
    """Runs the queued commands as one step that no other client sees the middle of; a command in it never blocks."""
    return ctx.execute()


@command("DISCARD", group="transaction", reply=OK, flags=_FLAGS)
def discard(ctx: Context) -> None:
    """Forgets the queued commands."""
    if not ctx.in_transaction:
        msg = "DISCARD without MULTI"
        raise InvalidRequestError(msg)
    ctx.discard()


@command("WATCH", group="transaction", reply=OK, flags=(*_FLAGS, "no_multi"))
def watch(ctx: Context, *keys: Annotated[bytes, BLOB, Described("Ignored.")]) -> None:
    """Is accepted for the sake of clients and watches nothing: EXEC always runs."""
    del keys
    if ctx.in_transaction:
        msg = "WATCH inside MULTI is not allowed"
        raise InvalidRequestError(msg)


@command("UNWATCH", group="transaction", reply=OK, flags=_FLAGS)
def unwatch(ctx: Context) -> None:
    """Is accepted for the sake of clients: nothing is watched."""
    del ctx
