"""The connection itself: greeting, login, protocol, end."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

from respmq.commands.arguments import BLOB, NONE_NEEDED, Described
from respmq.commands.client import check_attribute
from respmq.commands.context import Context
from respmq.commands.kinds import Integer, Pair
from respmq.commands.registry import command
from respmq.commands.replies import ANY, BULK, BULKS, MAP, OK, STATUS
from respmq.errors import InvalidRequestError, NoAuthError, NoProtocolError
from respmq.resp.values import Status
from respmq.version import NAME, REDIS_VERSION

if TYPE_CHECKING:
    from respmq.resp.values import Answer

_DEFAULT_USER = b"default"
_FIRST_WORDS = ("noscript", "loading", "stale", "fast", "no_auth", "allow_busy")


@command(
    "PING",
    group="connection",
    reply=ANY.saying("`PONG`, or the message as a bulk string; `[pong, message]` while subscribed in RESP2"),
    flags=("fast", "stateless"),
)
def ping(ctx: Context, message: Annotated[bytes | None, BLOB, Described("What to answer instead.")] = None) -> Answer:
    """Answers PONG, or the message if there is one."""
    if not ctx.resp3 and ctx.mailbox.in_use:
        return [b"pong", message or b""]
    return Status("PONG") if message is None else message


@command("ECHO", group="connection", reply=BULK, flags=("loading", "stale", "fast", "stateless"))
def echo(ctx: Context, message: Annotated[bytes, BLOB, Described("Any bytes.")]) -> bytes:
    """Returns the message."""
    return message


@command(
    "HELLO",
    group="connection",
    reply=MAP.saying("map: server, version, proto, id, mode, role and modules"),
    errors=("NOAUTH", "NOPROTO", "WRONGPASS"),
    flags=(*_FIRST_WORDS, "stateless"),
    complaint="Syntax error in HELLO option '{}'",
)
def hello(
    ctx: Context,
    protover: Annotated[
        int | None,
        Integer(says="Protocol version is not an integer or out of range"),
        Described("The RESP version to speak from now on, 2 or 3."),
    ] = None,
    *,
    auth: Annotated[
        tuple[bytes, bytes] | None, Pair(BLOB, BLOB, ("username", "password")), Described("Log in first.")
    ] = None,
    setname: Annotated[bytes | None, BLOB, Described("Name the connection, as CLIENT SETNAME does.", "name")] = None,
) -> dict[str, Answer]:
    """Describes the server; can log in, choose the protocol and name the connection, all of it or nothing."""
    if protover not in {None, 2, 3}:
        msg = f"unsupported protocol version: {protover}, 2 or 3 is wanted"
        raise NoProtocolError(msg)
    if setname is not None:
        check_attribute("Client names", setname)
    if auth is not None:
        ctx.server.authenticate(ctx.address, *auth)
    elif not ctx.authenticated:
        msg = (
            "HELLO must be called with the client already authenticated, otherwise the HELLO <proto> AUTH <user> "
            "<pass> option can be used to authenticate the client and select the RESP protocol version at the same time"
        )
        raise NoAuthError(msg)
    if setname is not None:
        ctx.name = setname
    if auth is not None:
        ctx.log_in(auth[0])
    if protover is not None:
        ctx.speak(protover)
    return {
        "server": NAME,
        "version": REDIS_VERSION,
        "proto": 3 if ctx.resp3 else 2,
        "id": ctx.id,
        "mode": "standalone",
        "role": "master",
        "modules": [],
    }


@command(
    "AUTH",
    group="connection",
    reply=OK,
    errors=("WRONGPASS",),
    flags=(*_FIRST_WORDS, "stateless"),
    complaint="syntax error",
)
def auth(
    ctx: Context,
    username_or_password: Annotated[bytes, BLOB, Described("The password alone is that of the default user.")],
    password: Annotated[bytes | None, BLOB, Described("The password of the user named before it.")] = None,
) -> None:
    """Logs in."""
    if password is not None:
        user = username_or_password
    elif ctx.server.config.requirepass:
        user, password = _DEFAULT_USER, username_or_password
    else:
        msg = (
            "AUTH <password> called without any password configured for the default user. "
            "Are you sure your configuration is correct?"
        )
        raise InvalidRequestError(msg)
    ctx.server.authenticate(ctx.address, user, password)
    ctx.log_in(user)


@command("QUIT", group="connection", reply=OK, flags=_FIRST_WORDS)
def quit(
    ctx: Context, *ignored: Annotated[bytes, BLOB, NONE_NEEDED, Described("Taken no notice of.", "argument")]
) -> None:
    """Closes the connection, after the answers to all that came before."""
    ctx.leave()


@command("RESET", group="connection", reply=STATUS.saying("`RESET`"), flags=_FIRST_WORDS)
def reset(ctx: Context) -> Status:
    """Makes the connection what a new one is: RESP2, no name, the default user, no MONITOR."""
    ctx.reset()
    return Status("RESET")


@command("SELECT", group="connection", reply=OK, flags=("loading", "stale", "fast", "stateless"))
def select(ctx: Context, index: Annotated[int, Integer(), Described("0, the only one there is.")]) -> None:
    """Selects a database; for clients that always do so."""
    if index != 0:
        msg = f"DB index is out of range: {index}, a message broker has database 0 only"
        raise InvalidRequestError(msg)


@command(
    "TIME",
    group="server",
    reply=BULKS.saying("array of seconds and microseconds"),
    flags=("loading", "stale", "fast", "stateless"),
)
def time(ctx: Context) -> list[bytes]:
    """Returns the broker's time, in seconds since the epoch and microseconds of the current one."""
    seconds, millis = divmod(ctx.engine.now, 1000)
    return [b"%d" % seconds, b"%d" % (millis * 1000)]
