"""Looking after a server: what it does at the moment, what was slow, its end, and the clock of test servers."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Literal

from respmq.commands.arguments import BLOB, NONE_NEEDED, Described
from respmq.commands.context import Context
from respmq.commands.kinds import Choice, Duration, Integer
from respmq.commands.registry import command, container
from respmq.commands.replies import ANY, INTEGER, MAP, NOTHING, OK, VERBATIM
from respmq.errors import InvalidRequestError
from respmq.resp.values import Verbatim
from respmq.version import NAME, __version__

if TYPE_CHECKING:
    from respmq.resp.values import Answer

container("SLOWLOG", summary="A container for commands on the log of slow commands.", group="server")
container("LATENCY", summary="A container for commands that exporters ask; nothing is recorded.", group="server")
container("DEBUG", summary="A container for commands on test servers.", group="server")

_ADMIN = ("admin", "noscript", "loading", "stale")
_SLOWLOG = ("admin", "loading", "stale")

#: The end of the year 9999, the last one that ISO 8601 has a number for.
_LAST_MOMENT = 253_402_300_799_999

_ART = r"""
   +-------+      +-------+      +-------+
   | job 3 |----->| job 2 |----->| job 1 |-----> \o/
   +-------+      +-------+      +-------+        |
                                                 / \
"""


@command("MONITOR", group="server", reply=OK.saying("`OK`, then a simple string for every command"), flags=_ADMIN)
def monitor(ctx: Context) -> None:
    """Shows all commands that clients send from now on, except what administrators do."""
    if not ctx.may_wait:
        msg = "MONITOR isn't allowed for DENY BLOCKING client: send it before MULTI or after EXEC"
        raise InvalidRequestError(msg)
    ctx.monitor()


# -- the slow log ------------------------------------------------------------------------------------------------------


@command(
    "SLOWLOG GET",
    group="server",
    reply=ANY.saying("array of id, seconds since the epoch, microseconds, arguments, address and name of the client"),
    flags=_SLOWLOG,
    complexity="O(N) with N entries returned",
)
def slowlog_get(
    ctx: Context,
    count: Annotated[
        int,
        Integer(least=-1, says="count should be greater than or equal to -1"),
        Described("How many at most; -1 for all."),
    ] = 10,
) -> list[Answer]:
    """Returns the latest slow commands, newest first."""
    answer: list[Answer] = []
    for call in ctx.server.slow_log.latest(count):
        arguments: Answer = [*call.args]
        answer.append([call.number, call.at, call.micros, arguments, call.address, call.name])
    return answer


@command("SLOWLOG LEN", group="server", reply=INTEGER, flags=_SLOWLOG)
def slowlog_len(ctx: Context) -> int:
    """Returns how many slow commands are kept."""
    return len(ctx.server.slow_log)


@command("SLOWLOG RESET", group="server", reply=OK, flags=_SLOWLOG, complexity="O(N) with N entries")
def slowlog_reset(ctx: Context) -> None:
    """Forgets the slow commands."""
    ctx.server.slow_log.clear()


# -- latency: what exporters ask ---------------------------------------------------------------------------------------


@command("LATENCY LATEST", group="server", reply=ANY.saying("empty array"), flags=_ADMIN)
def latency_latest(ctx: Context) -> list[Answer]:
    """Returns no events, since none are recorded; SLOWLOG and INFO commandstats tell what takes long."""
    return []


@command("LATENCY HISTOGRAM", group="server", reply=MAP.saying("empty map"), flags=_ADMIN)
def latency_histogram(
    ctx: Context, *commands: Annotated[bytes, BLOB, NONE_NEEDED, Described("Taken no notice of.")]
) -> dict[str, Answer]:
    """Returns no histograms, since none are recorded; INFO commandstats has the average of each command."""
    return {}


@command("LATENCY RESET", group="server", reply=INTEGER.saying("integer: 0"), flags=_ADMIN)
def latency_reset(ctx: Context, *events: Annotated[bytes, BLOB, NONE_NEEDED, Described("Taken no notice of.")]) -> int:
    """Returns how many events were forgotten: 0, since none are recorded."""
    return 0


# -- the end -----------------------------------------------------------------------------------------------------------


@command(
    "SHUTDOWN",
    group="server",
    reply=NOTHING.saying("nothing: the connection is closed"),
    flags=(*_ADMIN, "no_multi", "allow_busy"),
)
def shutdown(
    ctx: Context,
    *,
    save: Annotated[
        Literal["NOSAVE", "SAVE"] | None,
        Choice(("NOSAVE", "SAVE"), bare=True),
        Described("Taken no notice of: what is to be kept is on disk already."),
    ] = None,
    now: Annotated[bool, Described("Don't wait for clients to read their answers.")] = False,
    force: Annotated[bool, Described("Taken no notice of: a stop never fails.")] = False,
    abort: Annotated[bool, Described("Always an error: no stop can be taken back.")] = False,
) -> None:
    """Lets the server finish: what has arrived is answered, all waits end, then everything is closed.

    NOW doesn't wait for clients to read their answers. ABORT is an error, since a stop isn't waited for.
    """
    if abort:
        if save or now or force:
            msg = "syntax error: SHUTDOWN ABORT stands alone"
            raise InvalidRequestError(msg)
        msg = "No shutdown in progress."
        raise InvalidRequestError(msg)
    ctx.request_close()
    ctx.server.request_stop(f"SHUTDOWN from {ctx.address}", now)


# -- the rest ----------------------------------------------------------------------------------------------------------


@command("DBSIZE", group="server", reply=INTEGER, flags=("readonly", "fast"))
def dbsize(ctx: Context) -> int:
    """Returns the number of queues."""
    return ctx.engine.broker_stats().queues


@command("DEBUG ADVANCE", group="server", reply=OK, flags=_ADMIN)
def debug_advance(
    ctx: Context, duration: Annotated[int, Duration(zero=True), Described("By how much; 0 does nothing.")]
) -> None:
    """Moves the clock of a server that runs under a virtual one; answers when all that fell due has happened."""
    if not ctx.server.config.virtual_clock:
        msg = "DEBUG ADVANCE needs a virtual clock: start a server for tests with --virtual-clock"
        raise InvalidRequestError(msg)
    if ctx.engine.now + duration > _LAST_MOMENT:
        msg = "DEBUG ADVANCE can't go beyond the year 9999"
        raise InvalidRequestError(msg)
    ctx.server.advance(duration)


@command("LOLWUT", group="server", reply=VERBATIM, flags=("readonly", "fast", "stateless"))
def lolwut(
    ctx: Context,
    *,
    version: Annotated[int | None, Integer(), Described("There is one picture only, whatever is asked for.")] = None,
) -> Verbatim:
    """Draws a picture and tells the version."""
    return Verbatim(f"{_ART}\n{NAME} ver. {__version__}\n")
