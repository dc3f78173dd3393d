"""The connection itself: greeting, login, protocol, end."""

from __future__ import annotations

from typing import Annotated

from respmq.commands.arguments import BLOB, Blob
from respmq.commands.context import Context
from respmq.commands.registry import command
from respmq.commands.replies import ANY, BULK_OR_NULL
from respmq.resp.writer import Status


@command("PING", group="connection", reply=ANY, flags=("fast", "noauth_no"))
def ping(ctx: Context, message: Annotated[bytes | None, BLOB] = None) -> Status | bytes:
    """Answers PONG, or the message if there is one."""
    return Status("PONG") if message is None else message


@command("ECHO", group="connection", reply=BULK_OR_NULL, flags=("fast",))
def echo(ctx: Context, message: Blob) -> bytes:
    """Returns the message."""
    return message
