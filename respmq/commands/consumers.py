"""Push consumers."""

from __future__ import annotations

from typing import Annotated

from respmq.commands.arguments import BLOB, COUNT, Described, Full, QueueName
from respmq.commands.context import Context
from respmq.commands.registry import command
from respmq.commands.replies import BULK, INTEGER


@command(
    "QCONSUME",
    group="consumer",
    reply=BULK.saying("bulk string: the consumer's tag"),
    errors=("NOQUEUE", "INVALIDNAME"),
    flags=("write", "no_multi"),
)
def qconsume(
    ctx: Context,
    queue: QueueName,
    *,
    prefetch: Annotated[int, COUNT, Described("The most unsettled messages at a time.")] = 10,
    full: Full = False,
) -> bytes:
    """Has a queue's messages delivered as pushes `[deliver, tag, queue, id, lease, attempt, body]`, with FULL of a map.

    On a RESP2 connection the pushes are arrays, and little but QCANCEL is allowed meanwhile: leases are settled from
    another connection. When the connection closes, its unsettled messages are given back as failures.
    """
    return ctx.mailbox.consume(queue, prefetch, full=full)


@command(
    "QCANCEL",
    group="consumer",
    reply=INTEGER.saying("integer: how many leases were given back"),
    # Allowed in a transaction: only so can a consumer go without being handed what it has just released.
    flags=("write",),
    complexity="O(N) with N leases",
)
def qcancel(ctx: Context, tag: Annotated[bytes, BLOB, Described("From QCONSUME on this connection.")]) -> int:
    """Ends a consumer; its leases are given back as failures."""
    return ctx.mailbox.cancel(tag)
