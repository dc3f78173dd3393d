"""Commands on queues as a whole."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING, Annotated, Literal

from respmq.commands.arguments import BLOB, QUEUE, Described, QueueName
from respmq.commands.context import Context
from respmq.commands.kinds import Choice, Duration, DurationOrNone, Fraction, Integer
from respmq.commands.registry import command
from respmq.commands.replies import BULKS, INTEGER, MAP, OK
from respmq.core.directory import SETTING_NAMES, setting_value
from respmq.core.model import QueueSettings

if TYPE_CHECKING:
    from respmq.resp.values import Answer

_DEFAULTS = QueueSettings()


@command("QDECLARE", group="queue", reply=OK, errors=("CONFLICT", "INVALIDNAME"), flags=("write", "denyoom", "fast"))
def qdeclare(
    ctx: Context,
    queue: QueueName,
    *,
    acktimeout: Annotated[int, Duration(), Described("How long a lease lasts.")] = _DEFAULTS.ack_timeout,
    maxattempts: Annotated[
        int, Integer(least=1), Described("Deliveries before a message dies.")
    ] = _DEFAULTS.max_attempts,
    retrydelay: Annotated[int, Duration(zero=True), Described("Wait before the first retry.")] = _DEFAULTS.retry_delay,
    maxretrydelay: Annotated[int, Duration(), Described("Cap of the backoff.")] = _DEFAULTS.max_retry_delay,
    retryjitter: Annotated[
        float, Fraction(), Described("Each wait is multiplied by a random factor between 1-f and 1+f.")
    ] = _DEFAULTS.retry_jitter,
    maxlen: Annotated[
        int, Integer(least=1), Described("Most ready and delayed messages, applied when one is put.")
    ] = _DEFAULTS.max_len,
    overflow: Annotated[
        Literal["REJECT", "DROPHEAD"],
        Choice(("REJECT", "DROPHEAD")),
        Described("At MAXLEN: refuse the new message, or let the oldest of the least urgent die."),
    ] = _DEFAULTS.overflow,
    ttl: Annotated[
        int | None, DurationOrNone(), Described("How long a message may wait before it dies; none for ever.")
    ] = _DEFAULTS.ttl,
    maxdead: Annotated[int, Integer(least=0), Described("Dead letters kept.")] = _DEFAULTS.max_dead,
    dedupe: Annotated[
        int,
        Duration(zero=True),
        Described("How long an id is remembered after its put; 0: as long as its message is in the queue."),
    ] = _DEFAULTS.dedupe,
) -> None:
    """Creates a queue, or confirms that it exists with equal settings.

    Settings that are not named count as their defaults.
    """
    ctx.engine.declare(
        queue,
        QueueSettings(
            ack_timeout=acktimeout,
            max_attempts=maxattempts,
            retry_delay=retrydelay,
            max_retry_delay=maxretrydelay,
            retry_jitter=retryjitter,
            max_len=maxlen,
            overflow=overflow,
            ttl=ttl,
            max_dead=maxdead,
            dedupe=dedupe,
        ),
    )


@command(
    "QDELETE", group="queue", reply=INTEGER.saying("integer: 1"), errors=("NOQUEUE", "INVALIDNAME"), flags=("write",)
)
def qdelete(ctx: Context, queue: QueueName) -> int:
    """Deletes a queue with its messages; clients blocked on it get NOQUEUE."""
    return ctx.engine.delete(queue)


@command(
    "QPURGE",
    group="queue",
    reply=INTEGER.saying("integer: how many messages were dropped"),
    errors=("NOQUEUE", "INVALIDNAME"),
    flags=("write",),
)
def qpurge(ctx: Context, queue: QueueName) -> int:
    """Drops a queue's ready and delayed messages; leased ones and dead letters stay."""
    return ctx.engine.purge(queue)


@command(
    "QLIST",
    group="queue",
    reply=BULKS.saying("array of queue names, sorted"),
    flags=("readonly",),
    complexity="O(N log N) with N queues",
)
def qlist(
    ctx: Context,
    *,
    match: Annotated[bytes | None, BLOB, Described("Only names that match this glob.", "glob")] = None,
) -> list[bytes]:
    """Returns the names of the queues."""
    return ctx.engine.names(match)


@command("QCONFIG", group="queue", reply=MAP, errors=("NOQUEUE", "INVALIDNAME"), flags=("readonly", "fast"))
def qconfig(ctx: Context, queue: QueueName) -> dict[str, Answer]:
    """Returns a queue's settings: durations in seconds, null for none."""
    settings = ctx.engine.settings(queue)
    return {shown: setting_value(field, settings) for field, shown in SETTING_NAMES.items()}


@command("QSTATS", group="queue", reply=MAP, errors=("NOQUEUE", "INVALIDNAME"), flags=("readonly",))
def qstats(
    ctx: Context, queue: Annotated[bytes | None, QUEUE, Described("The name of a queue.")] = None
) -> dict[str, Answer]:
    """Returns statistics of a queue, or without a name of the whole broker."""
    if queue is not None:
        return dataclasses.asdict(ctx.engine.stats(queue))
    return {
        **dataclasses.asdict(ctx.engine.broker_stats()),
        "connections": ctx.server.connections,
        "event_drops": ctx.server.event_drops,
        "uptime": ctx.server.uptime,
    }
