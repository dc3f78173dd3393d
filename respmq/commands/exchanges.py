"""Exchanges: named points to publish to."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

from respmq.commands.arguments import BLOB, HEADER_NAME, Body, Described, QueueName
from respmq.commands.context import Context
from respmq.commands.kinds import Bytes, Choice, Pair
from respmq.commands.registry import command, container
from respmq.commands.replies import ANY, INTEGER, OK

if TYPE_CHECKING:
    from respmq.core.exchanges import ExchangeKind

container("EXCHANGE", summary="A container for commands on exchanges.", group="exchange")

ExchangeName = Annotated[bytes, Bytes("key"), Described("The name of the exchange.")]
_Key = Annotated[bytes | None, BLOB, Described("DIRECT: the equal key; TOPIC: a pattern; FANOUT ignores it.")]


@command(
    "EXCHANGE DECLARE",
    group="exchange",
    reply=OK,
    errors=("CONFLICT", "INVALIDNAME"),
    flags=("write", "denyoom", "fast"),
)
def exchange_declare(
    ctx: Context,
    exchange: ExchangeName,
    type: Annotated[str, Choice(("FANOUT", "DIRECT", "TOPIC")), Described("How it routes.")],
) -> None:
    """Creates an exchange, or confirms that it exists with the same type."""
    ctx.engine.exchanges.declare(exchange, _kind(type))


def _kind(word: str) -> ExchangeKind:
    return "FANOUT" if word == "FANOUT" else "DIRECT" if word == "DIRECT" else "TOPIC"


@command(
    "EXCHANGE DELETE",
    group="exchange",
    reply=INTEGER.saying("integer: 1"),
    errors=("NOEXCHANGE", "INVALIDNAME"),
    flags=("write",),
)
def exchange_delete(ctx: Context, exchange: ExchangeName) -> int:
    """Deletes an exchange with its bindings."""
    return ctx.engine.exchanges.delete(exchange)


@command(
    "EXCHANGE BIND",
    group="exchange",
    reply=INTEGER.saying("integer: 1 if the binding is new, else 0"),
    errors=("NOEXCHANGE", "NOQUEUE", "INVALIDNAME", "INVALIDTOPIC"),
    flags=("write", "fast"),
)
def exchange_bind(ctx: Context, exchange: ExchangeName, queue: QueueName, key: _Key = None) -> int:
    """Binds a queue to an exchange."""
    return int(ctx.engine.exchanges.bind(exchange, queue, key))


@command(
    "EXCHANGE UNBIND",
    group="exchange",
    reply=INTEGER.saying("integer: 1, or 0 if there was no such binding"),
    errors=("NOEXCHANGE", "NOQUEUE", "INVALIDNAME", "INVALIDTOPIC"),
    flags=("write", "fast"),
)
def exchange_unbind(ctx: Context, exchange: ExchangeName, queue: QueueName, key: _Key = None) -> int:
    """Ends a binding of a queue to an exchange."""
    return int(ctx.engine.exchanges.unbind(exchange, queue, key))


@command(
    "EXCHANGE PUBLISH",
    group="exchange",
    reply=INTEGER.saying("integer: how many queues took a copy"),
    errors=("NOEXCHANGE", "INVALIDNAME", "INVALIDTOPIC", "TOOBIG"),
    flags=("write", "fast"),
    complexity="O(W+M) with W words in the key and M queues that take a copy",
)
def exchange_publish(
    ctx: Context,
    exchange: ExchangeName,
    key: Annotated[bytes, BLOB, Described("The routing key; a topic or empty for a TOPIC exchange.")],
    body: Body,
    *,
    header: Annotated[
        tuple[tuple[bytes, bytes], ...],
        Pair(HEADER_NAME, BLOB, ("name", "value")),
        Described("A header of the copies; of a repeated name the last counts."),
    ] = (),
    attach: Annotated[tuple[bytes, ...], BLOB, Described("An attachment of the copies.", "blob")] = (),
) -> int:
    """Copies a message into the queues that are bound for its routing key."""
    return ctx.engine.exchanges.publish(exchange, key, body, dict(header), attach)


@command("EXCHANGE LIST", group="exchange", reply=ANY.saying("array of `[name, type]` pairs"), flags=("readonly",))
def exchange_list(ctx: Context) -> list[tuple[bytes, str]]:
    """Returns the exchanges, sorted by name."""
    return ctx.engine.exchanges.kinds()


@command(
    "EXCHANGE BINDINGS",
    group="exchange",
    reply=ANY.saying("array of `[queue, key]` pairs"),
    errors=("NOEXCHANGE", "INVALIDNAME"),
    flags=("readonly",),
    complexity="O(N) with N bindings",
)
def exchange_bindings(ctx: Context, exchange: ExchangeName) -> list[tuple[bytes, bytes]]:
    """Returns the bindings of an exchange."""
    return ctx.engine.exchanges.bindings(exchange)
