"""COMMAND: what clients and redis-cli can learn about the commands, all of it from the command table."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

from respmq.commands.arguments import BLOB, NONE_NEEDED, Described
from respmq.commands.context import Context
from respmq.commands.describe import command_docs, command_info, container_docs, container_info, shown_name
from respmq.commands.flags import acl_categories
from respmq.commands.kinds import Choice, Pair
from respmq.commands.registry import command, container
from respmq.commands.replies import ANY, BULKS, INTEGER, MAP
from respmq.errors import InvalidRequestError, quote
from respmq.globs import glob_match

if TYPE_CHECKING:
    from collections.abc import Iterator

    from respmq.commands.registry import Container, Table
    from respmq.commands.spec import Spec
    from respmq.resp.values import Answer

_FLAGS = ("loading", "stale", "stateless")
_CATEGORIES = ("connection",)
_ALL = "O(N) with N commands"
_SOME = "O(N) with N names"

#: Clients ask for a few or, without names, for all.
_MOST_NAMES = 500

container("COMMAND", summary="A container for commands on the commands.", group="server", categories=_CATEGORIES)

Names = Annotated[bytes, BLOB, NONE_NEEDED, Described("All if there is none; `client|list` for a subcommand.")]


@command(
    "COMMAND",
    group="server",
    reply=ANY.saying("array of commands, each in ten fields"),
    flags=_FLAGS,
    categories=_CATEGORIES,
    complexity=_ALL,
)
def command_(ctx: Context) -> list[Answer]:
    """Describes all commands."""
    table = ctx.server.table
    return [_info(table, name) for name in _top_names(table)]


@command("COMMAND COUNT", group="server", reply=INTEGER, flags=_FLAGS, categories=_CATEGORIES)
def command_count(ctx: Context) -> int:
    """Returns how many commands there are; subcommands are not counted."""
    return len(_top_names(ctx.server.table))


@command(
    "COMMAND INFO",
    group="server",
    reply=ANY.saying("array of commands, each in ten fields, null for those that don't exist"),
    flags=_FLAGS,
    categories=_CATEGORIES,
    complexity=_SOME,
)
def command_info_(ctx: Context, *command_names: Names) -> list[Answer]:
    """Describes commands."""
    if len(command_names) > _MOST_NAMES:
        msg = f"COMMAND INFO takes at most {_MOST_NAMES} names, these are {len(command_names)}: ask for some at a time"
        raise InvalidRequestError(msg)
    table = ctx.server.table
    return [_info(table, name) for name in _asked(command_names) or _top_names(table)]


@command(
    "COMMAND DOCS",
    group="server",
    reply=MAP.saying("map: names to maps of summary, since, group, complexity, arguments and subcommands"),
    flags=_FLAGS,
    categories=_CATEGORIES,
    complexity=_SOME,
)
def command_docs_(ctx: Context, *command_names: Names) -> dict[str, Answer]:
    """Documents commands, for redis-cli's hints and HELP."""
    table = ctx.server.table
    found: dict[str, Answer] = {}
    for name in dict.fromkeys(_asked(command_names)) or _top_names(table):
        spec, its_container = _find(table, name)
        if its_container is not None:
            found[its_container.name.lower()] = container_docs(its_container, spec)
        elif spec is not None:
            found[shown_name(spec)] = command_docs(spec)
    return found


@command(
    "COMMAND LIST",
    group="server",
    reply=BULKS.saying("array of names, `client|list` for a subcommand"),
    flags=_FLAGS,
    categories=_CATEGORIES,
    complexity=_ALL,
)
def command_list(
    ctx: Context,
    *,
    filterby: Annotated[
        tuple[str, bytes] | None,
        Pair(Choice(("MODULE", "ACLCAT", "PATTERN")), BLOB, ("filter", "value")),
        Described("Only commands of an ACL category, or whose names match a glob. There are no modules."),
    ] = None,
) -> list[bytes]:
    """Returns the names of the commands and subcommands."""
    if filterby is None:
        return [name for name, _ in _all_names(ctx.server.table)]
    by, value = filterby
    wanted = value.lower().decode("ascii", "replace")
    return [
        name
        for name, spec in _all_names(ctx.server.table)
        if (by == "PATTERN" and glob_match(value, name, ignore_case=True))
        or (by == "ACLCAT" and wanted in (["slow"] if spec is None else acl_categories(spec)))
    ]


@command(
    "COMMAND GETKEYS",
    group="server",
    reply=BULKS.saying("array of the keys"),
    flags=_FLAGS,
    categories=_CATEGORIES,
    complexity="O(N) with N arguments",
)
def command_getkeys(
    ctx: Context,
    command_name: Annotated[bytes, BLOB, Described("The command.")],
    *arguments: Annotated[bytes, BLOB, Described("What it is called with.")],
) -> list[bytes]:
    """Returns the keys in a call: the queues and exchanges that it names."""
    words = [command_name, *arguments]
    table = ctx.server.table
    name = command_name.decode("ascii", "replace").upper()
    spec, its_container = _find(table, name)
    if its_container is not None:
        spec = its_container.subcommands.get(arguments[0].decode("ascii", "replace").upper())
    if spec is None:
        msg = f"Invalid command specified: there is no '{quote(b' '.join(words[:2]))}'"
        raise InvalidRequestError(msg)
    if not spec.grammar.key_range[0]:
        msg = f"The command has no key arguments: {spec.name}"
        raise InvalidRequestError(msg)
    if len(words) < abs(spec.grammar.arity) or (spec.grammar.arity > 0 and len(words) > spec.grammar.arity):
        msg = f"Invalid number of arguments specified for command, usage: {spec.grammar.usage()}"
        raise InvalidRequestError(msg)
    return spec.grammar.keys(words)


# -- looking into the table --------------------------------------------------------------------------------------------


def _top_names(table: Table) -> list[str]:
    return [*table.containers, *(name for name in table.commands if name not in table.containers)]


def _all_names(table: Table) -> Iterator[tuple[bytes, Spec | None]]:
    """All names as COMMAND LIST shows them; a container that does nothing by itself has no spec."""
    for name in _top_names(table):
        spec, its_container = _find(table, name)
        yield name.lower().encode(), spec
        if its_container is not None:
            yield from ((shown_name(each).encode(), each) for each in its_container.subcommands.values())


def _asked(names: tuple[bytes, ...]) -> list[str]:
    return [name.decode("ascii", "replace").upper() for name in names]


def _find(table: Table, name: str) -> tuple[Spec | None, Container | None]:
    """What an upper-case name such as PING, CLIENT or CLIENT|LIST stands for."""
    first, bar, second = name.partition("|")
    its_container = table.containers.get(first)
    if not bar:
        return table.commands.get(first), its_container
    return (None if its_container is None else its_container.subcommands.get(second)), None


def _info(table: Table, name: str) -> Answer:
    spec, its_container = _find(table, name)
    if its_container is not None:
        return container_info(its_container, spec)
    return None if spec is None else command_info(spec)
