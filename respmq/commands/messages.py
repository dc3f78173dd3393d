"""The main job: put, lease, ack and what belongs to it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Literal

from respmq.commands.arguments import (
    BLOB,
    COUNT,
    HEADER_NAME,
    MESSAGE_ID,
    OFFSET,
    Body,
    Described,
    Full,
    Lease,
    MessageId,
    QueueName,
)
from respmq.commands.context import Context
from respmq.commands.deliveries import encode_single_deliveries
from respmq.commands.kinds import Choice, Duration, Integer, Pair
from respmq.commands.registry import command
from respmq.commands.replies import BULK_OR_NULL, DELIVERIES, IDS, INTEGER, MAP_OR_NULL, MAPS
from respmq.commands.spec import Plain
from respmq.core.model import DELAYED, LEASED, READY, Extra
from respmq.errors import InvalidRequestError
from respmq.resp.writer import encode_flags, encode_ids

if TYPE_CHECKING:
    from respmq.core.model import Description
    from respmq.core.waiting import Deliveries, LeaseWait

_STATES = {"READY": READY, "DELAYED": DELAYED, "LEASED": LEASED}


@command(
    "QPUT",
    group="message",
    reply=BULK_OR_NULL.saying("bulk string: the message's id; null if the id is a duplicate"),
    errors=("NOQUEUE", "INVALIDNAME", "QUEUEFULL", "TOOBIG", "OOM"),
    flags=("write", "denyoom", "fast"),
    plain=Plain(3, "put_one", "put_stretch", encode_ids),
)
def qput(
    ctx: Context,
    queue: QueueName,
    body: Body,
    *,
    id: Annotated[bytes | None, MESSAGE_ID, Described("The message's id; a UUIDv7 is made if there is none.")] = None,
    priority: Annotated[int, Integer(), Described("The lower number is delivered first.")] = 0,
    delay: Annotated[int, Duration(zero=True), Described("How long until it is ready.")] = 0,
    ttl: Annotated[int | None, Duration(), Described("How long it may wait; can only shorten the queue's TTL.")] = None,
    header: Annotated[
        tuple[tuple[bytes, bytes], ...],
        Pair(HEADER_NAME, BLOB, ("name", "value")),
        Described("A header; of a repeated name the last counts."),
    ] = (),
    attach: Annotated[tuple[bytes, ...], BLOB, Described("An attachment.", "blob")] = (),
) -> bytes | None:
    """Puts a message into a queue."""
    extra = Extra(dict(header), attach, ttl) if header or attach or ttl is not None else None
    return ctx.engine.put(queue, body, id, priority, delay, extra)


@command(
    "QMPUT",
    group="message",
    reply=IDS,
    errors=("NOQUEUE", "INVALIDNAME", "QUEUEFULL", "TOOBIG", "OOM"),
    flags=("write", "denyoom"),
    complexity="O(N) with N messages",
)
def qmput(ctx: Context, queue: QueueName, *body: Body) -> list[bytes]:
    """Puts several messages into a queue: all of them or, on an error, none."""
    return ctx.engine.put_many(queue, body)


@command(
    "QLEASE",
    group="message",
    reply=DELIVERIES.saying("array of deliveries `[queue, id, lease, attempt, body]`, with FULL of maps"),
    errors=("NOQUEUE", "INVALIDNAME", "UNBLOCKED"),
    flags=("write", "blocking"),
    complexity="O(N) with N messages leased",
    plain=Plain(2, "lease_one", "lease_stretch", encode_single_deliveries),
)
def qlease(
    ctx: Context,
    *queues: QueueName,
    count: Annotated[int, COUNT, Described("The most messages to lease.")] = 1,
    wait: Annotated[
        int | None, Duration(zero=True), Described("How long to wait if nothing is ready; 0 for ever.")
    ] = None,
    lease: Annotated[int | None, Duration(), Described("How long the leases last instead of ACKTIMEOUT.")] = None,
    reqid: Annotated[
        bytes | None,
        BLOB,
        Described("A key under which the request may be sent again without taking more.", "key"),
    ] = None,
    full: Full = False,
) -> Deliveries | LeaseWait:
    """Leases messages from the first of the queues that have any; waits for one if asked to."""
    request = None if reqid is None else (ctx.user, reqid)
    return ctx.engine.lease(queues, count, wait if ctx.may_wait else None, lease, request, full)


@command(
    "QACK",
    group="message",
    reply=INTEGER.saying("integer: how many were acked; stale leases count 0"),
    errors=("NOQUEUE", "INVALIDNAME"),
    flags=("write", "fast"),
    complexity="O(N) with N leases",
    plain=Plain(3, "ack_one", "ack_stretch", encode_flags),
)
def qack(ctx: Context, queue: QueueName, *leases: Lease) -> int:
    """Settles leases as done; their messages are gone."""
    return ctx.engine.ack(queue, leases)


@command(
    "QNACK",
    group="message",
    reply=INTEGER.saying("integer: 1, or 0 if the lease is stale"),
    errors=("NOQUEUE", "INVALIDNAME", "TOOBIG"),
    flags=("write", "fast"),
)
def qnack(
    ctx: Context,
    queue: QueueName,
    lease: Lease,
    *,
    mode: Annotated[
        Literal["REJECT", "RELEASE"] | None,
        Choice(("REJECT", "RELEASE"), bare=True),
        Described("REJECT: the message dies now. RELEASE: no failure, it returns to where it stood."),
    ] = None,
    delay: Annotated[int | None, Duration(zero=True), Described("Wait this long instead of the backoff.")] = None,
    error: Annotated[bytes | None, BLOB, Described("What went wrong; kept with a dead letter.", "text")] = None,
) -> int:
    """Settles a lease as failed: the message is retried after the backoff, or dies after its last attempt."""
    if mode == "REJECT":
        if delay is not None:
            msg = "syntax error: QNACK REJECT takes no DELAY, since the message dies now"
            raise InvalidRequestError(msg)
        return ctx.engine.reject(queue, lease, error)
    if mode == "RELEASE":
        return ctx.engine.release(queue, lease, delay)
    return ctx.engine.nack(queue, lease, delay, error)


@command(
    "QTOUCH",
    group="message",
    reply=INTEGER.saying("integer: how many were renewed; stale leases count 0"),
    errors=("NOQUEUE", "INVALIDNAME"),
    flags=("write", "fast"),
    complexity="O(N) with N leases",
)
def qtouch(
    ctx: Context,
    queue: QueueName,
    *leases: Lease,
    for_: Annotated[int | None, Duration(), Described("For how long from now, instead of ACKTIMEOUT.")] = None,
) -> int:
    """Renews leases."""
    return ctx.engine.touch(queue, leases, for_)


@command(
    "QPEEK",
    group="message",
    reply=MAPS,
    errors=("NOQUEUE", "INVALIDNAME"),
    flags=("readonly",),
    complexity="O(N+M) with offset N and M messages returned",
)
def qpeek(
    ctx: Context,
    queue: QueueName,
    *,
    count: Annotated[int, COUNT, Described("The most messages to show.")] = 10,
    offset: Annotated[int, OFFSET, Described("How many to pass over.")] = 0,
    state: Annotated[
        Literal["READY", "DELAYED", "LEASED"], Choice(tuple(_STATES)), Described("Which messages to show.")
    ] = "READY",
) -> list[Description]:
    """Shows messages in the order in which they will be handed out, fall due or expire; leases nothing."""
    return ctx.engine.peek(queue, _STATES[state], count, offset)


@command("QSHOW", group="message", reply=MAP_OR_NULL, errors=("NOQUEUE", "INVALIDNAME"), flags=("readonly", "fast"))
def qshow(ctx: Context, queue: QueueName, id: MessageId) -> Description | None:
    """Shows a message by its id: the live one, else the latest dead one."""
    return ctx.engine.show(queue, id)


@command(
    "QDEL",
    group="message",
    reply=INTEGER.saying("integer: how many were removed"),
    errors=("NOQUEUE", "INVALIDNAME"),
    flags=("write", "fast"),
    complexity="O(N) with N ids",
)
def qdel(ctx: Context, queue: QueueName, *ids: MessageId) -> int:
    """Removes ready, delayed or leased messages by id; their leases are stale."""
    return ctx.engine.remove(queue, ids)
