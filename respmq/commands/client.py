"""CLIENT: who is connected, and what may be done about it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

from respmq.commands.arguments import BLOB, Described
from respmq.commands.context import Client, Context
from respmq.commands.describe import shown_name
from respmq.commands.kinds import Choice, Integer, Several
from respmq.commands.registry import command, container
from respmq.commands.replies import ANY, BULK_OR_NULL, INTEGER, OK, VERBATIM
from respmq.errors import InvalidRequestError, UnblockedError, quote
from respmq.resp.values import Status, Verbatim

if TYPE_CHECKING:
    from respmq.resp.values import Answer

container("CLIENT", summary="A container for commands on connections.", group="connection")

_OWN = ("noscript", "loading", "stale", "stateless")
#: Not stateless: what ends a connection or a wait of others can give messages back, or tell that one was handed out.
_ENDING = ("admin", "noscript", "loading", "stale")
_ADMIN = (*_ENDING, "stateless")

CLIENT_TYPE = Choice(("NORMAL", "MASTER", "REPLICA", "SLAVE", "PUBSUB"), says="Unknown client type '{}'")
_CLIENT_ID = Integer(least=1, says="client-id should be greater than 0")
_OnOff = Annotated[str, Choice(("ON", "OFF")), Described("Whether it is marked.")]


def check_attribute(what: str, value: bytes) -> None:
    """See that a name can stand in a line of CLIENT LIST: printable ASCII without blanks, or nothing at all.

    Raises:
        InvalidRequestError: it can't; `what` is what the error calls it.
    """
    if all(33 <= byte <= 126 for byte in value):
        return
    msg = f"{what} cannot contain spaces, newlines or special characters. Only printable ASCII is allowed"
    raise InvalidRequestError(msg)


# -- the own connection ------------------------------------------------------------------------------------------------


@command("CLIENT ID", group="connection", reply=INTEGER, flags=_OWN)
def client_id(ctx: Context) -> int:
    """Returns the number of the connection; no two connections have the same."""
    return ctx.id


@command("CLIENT INFO", group="connection", reply=VERBATIM, flags=_OWN)
def client_info(ctx: Context) -> Verbatim:
    """Describes the connection, in one line as CLIENT LIST has it."""
    return Verbatim(_line(ctx, ctx.engine.now, "client|info"))


@command("CLIENT SETNAME", group="connection", reply=OK, flags=_OWN)
def client_setname(ctx: Context, connection_name: Annotated[bytes, BLOB, Described("Without blanks.")]) -> None:
    """Names the connection; an empty name takes it away."""
    check_attribute("Client names", connection_name)
    ctx.name = connection_name


@command("CLIENT GETNAME", group="connection", reply=BULK_OR_NULL, flags=_OWN)
def client_getname(ctx: Context) -> bytes | None:
    """Returns the name of the connection."""
    return ctx.name or None


@command("CLIENT SETINFO", group="connection", reply=OK, flags=_OWN)
def client_setinfo(
    ctx: Context,
    attribute: Annotated[
        str, Choice(("LIB-NAME", "LIB-VER"), says="Unrecognized option '{}'"), Described("What is told.")
    ],
    value: Annotated[bytes, BLOB, Described("The name or the version.")],
) -> None:
    """Tells the name or the version of the client library, for CLIENT LIST."""
    check_attribute(attribute.lower(), value)
    ctx.info[attribute.lower()] = value.decode()


@command(
    "CLIENT REPLY",
    group="connection",
    reply=OK.saying("`OK` for ON, nothing for OFF and SKIP"),
    flags=_OWN,
)
def client_reply(
    ctx: Context,
    mode: Annotated[
        str,
        Choice(("ON", "OFF", "SKIP")),
        Described("ON: everything is answered. OFF: nothing. SKIP: everything but the next command."),
    ],
) -> None:
    """Answers everything, nothing, or all but the next command."""
    ctx.set_reply_mode(mode.lower())


@command("CLIENT NO-EVICT", group="connection", reply=OK, flags=_ADMIN)
def client_no_evict(ctx: Context, mode: _OnOff) -> None:
    """Marks the connection in CLIENT LIST; the broker evicts no clients."""
    ctx.info["no-evict"] = mode.lower()


@command("CLIENT NO-TOUCH", group="connection", reply=OK, flags=_OWN)
def client_no_touch(ctx: Context, mode: _OnOff) -> None:
    """Marks the connection in CLIENT LIST; the broker keeps no account of when messages were looked at."""
    ctx.info["no-touch"] = mode.lower()


# -- all connections ---------------------------------------------------------------------------------------------------


@command(
    "CLIENT LIST",
    group="connection",
    reply=VERBATIM,
    flags=_ADMIN,
    complexity="O(N) with N connections",
)
def client_list(
    ctx: Context,
    *,
    type: Annotated[str | None, CLIENT_TYPE, Described("Only clients of this type.")] = None,
    id: Annotated[
        tuple[int, ...], Several(Integer(says="Invalid client ID"), "client-id"), Described("Only these clients.")
    ] = (),
) -> Verbatim:
    """Describes the connections, each in a line."""
    if type is not None and id:
        msg = "syntax error: CLIENT LIST takes TYPE or ID, not both"
        raise InvalidRequestError(msg)
    sessions = ctx.server.sessions
    clients = [sessions[number] for number in id if number in sessions] if id else list(sessions.values())
    if type is not None:
        clients = [client for client in clients if _is_of_type(client, type)]
    now = ctx.engine.now
    return Verbatim("".join(_line(client, now, "client|list" if client.id == ctx.id else None) for client in clients))


@command(
    "CLIENT KILL",
    group="connection",
    reply=ANY.saying("integer: how many connections were ended; `OK` if just an address is given"),
    flags=_ENDING,
    complexity="O(N) with N connections",
    least=1,
)
def client_kill(
    ctx: Context,
    address: Annotated[bytes | None, BLOB, Described("`host:port` of the client; only without options.")] = None,
    *,
    id: Annotated[int | None, _CLIENT_ID, Described("The client with this number.")] = None,
    type: Annotated[str | None, CLIENT_TYPE, Described("Clients of this type.")] = None,
    user: Annotated[bytes | None, BLOB, Described("Clients that are logged in as this user.")] = None,
    addr: Annotated[bytes | None, BLOB, Described("The client with this address.")] = None,
    laddr: Annotated[bytes | None, BLOB, Described("Clients that are connected to this address.")] = None,
    skipme: Annotated[str, Choice(("YES", "NO")), Described("Whether the caller is spared.")] = "YES",
    maxage: Annotated[
        int | None,
        Integer(least=1, says="maxage is not an integer or out of range"),
        Described("Clients that have been connected for at least so many seconds."),
    ] = None,
) -> Answer:
    """Ends the connections for which all filters hold."""
    if address is not None:
        return _kill_one(ctx, address)
    if user is not None and not ctx.server.has_user(user):
        msg = f"No such user '{quote(user)}'"
        raise InvalidRequestError(msg)
    born_before = None if maxage is None else ctx.engine.now - maxage * 1000
    found = [
        client
        for client in list(ctx.server.sessions.values())
        if (id is None or client.id == id)
        and (type is None or _is_of_type(client, type))
        and (user is None or client.user == user)
        and (addr is None or client.address.encode() == addr)
        and (laddr is None or client.local_address.encode() == laddr)
        and (born_before is None or client.connected_at <= born_before)
        and (skipme == "NO" or client.id != ctx.id)
    ]
    for client in found:
        _kill(ctx, client)
    return len(found)


def _kill_one(ctx: Context, address: bytes) -> Answer:
    for client in ctx.server.sessions.values():
        if client.address.encode() == address:
            _kill(ctx, client)
            return Status("OK")
    msg = "No such client"
    raise InvalidRequestError(msg)


def _kill(ctx: Context, client: Client) -> None:
    if client.id == ctx.id:
        # It gets its answer first.
        ctx.leave()
    else:
        client.kill()


@command(
    "CLIENT UNBLOCK", group="connection", reply=INTEGER.saying("integer: 1, or 0 if it didn't wait"), flags=_ENDING
)
def client_unblock(
    ctx: Context,
    client_id: Annotated[int, Integer(), Described("The client's number.")],
    reason: Annotated[
        str,
        Choice(("TIMEOUT", "ERROR"), says="CLIENT UNBLOCK reason should be TIMEOUT or ERROR"),
        Described("Whether its wait ends as if its time were over, or with UNBLOCKED."),
    ] = "TIMEOUT",
) -> int:
    """Ends another client's wait for a message."""
    client = ctx.server.sessions.get(client_id)
    error = UnblockedError("client unblocked via CLIENT UNBLOCK") if reason == "ERROR" else None
    return int(client is not None and client.unblock(error))


@command("CLIENT PAUSE", group="connection", reply=OK, flags=_ADMIN)
def client_pause(
    ctx: Context,
    timeout: Annotated[
        int, Integer(says="timeout is not an integer or out of range"), Described("For how many milliseconds.")
    ],
    mode: Annotated[
        str,
        Choice(("WRITE", "ALL"), says="CLIENT PAUSE mode must be WRITE or ALL"),
        Described("Whether only commands that change something wait."),
    ] = "ALL",
) -> None:
    """Lets the commands of all clients wait. CLIENT itself goes on, so that CLIENT UNPAUSE can end it."""
    if timeout < 0:
        msg = f"timeout is negative: {timeout}, milliseconds from 0 up are wanted"
        raise InvalidRequestError(msg)
    ctx.server.set_pause(ctx.engine.now + timeout, writes_only=mode == "WRITE")


@command("CLIENT UNPAUSE", group="connection", reply=OK, flags=_ADMIN)
def client_unpause(ctx: Context) -> None:
    """Ends CLIENT PAUSE."""
    ctx.server.end_pause()


# -- how a client is shown ---------------------------------------------------------------------------------------------


def _is_of_type(client: Client, type: str) -> bool:
    return type == ("PUBSUB" if any(client.subscription_counts) else "NORMAL")


def _flags(client: Client) -> str:
    flags = "O" if client.monitoring else ""
    flags += "P" * any(client.subscription_counts)
    flags += "x" * client.in_transaction
    flags += "b" * client.waits
    flags += "c" * client.closing
    flags += "U" * client.address.endswith(":0")
    flags += "e" * (client.info.get("no-evict") == "on")
    flags += "T" * (client.info.get("no-touch") == "on")
    return flags or "N"


def _line(client: Client, now: int, running: str | None) -> str:
    """A client as CLIENT LIST shows it; `running` is the command that it runs at this moment."""
    command = client.command
    shown = running or ("NULL" if command is None else shown_name(command))
    unread, unsent = client.unread, client.unsent
    topics, patterns, shards = client.subscription_counts
    # One expression: there may be ten thousand clients, and all of them wait meanwhile.
    return (
        f"id={client.id} addr={client.address} laddr={client.local_address} fd={client.fd} name={client.name.decode()} "
        f"age={(now - client.connected_at) // 1000} idle={(now - client.last_active) // 1000} flags={_flags(client)} "
        f"db=0 sub={topics} psub={patterns} ssub={shards} multi={client.queued} qbuf={unread} "
        f"qbuf-free=0 argv-mem=0 multi-mem=0 rbs=0 rbp=0 obl={unsent} oll=0 omem={unsent} tot-mem={unread + unsent} "
        f"events={'rw' if unsent else 'r'} cmd={shown} user={quote(client.user)} redir=-1 "
        f"resp={3 if client.resp3 else 2} lib-name={client.info.get('lib-name', '')} "
        f"lib-ver={client.info.get('lib-ver', '')} event-drops={client.event_drops}\n"
    )
