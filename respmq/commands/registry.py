"""The table of all commands, and the decorator that puts a function into it."""

from __future__ import annotations

import importlib
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, TypeVar

from respmq.commands.describe import help_lines
from respmq.commands.flags import check_names
from respmq.commands.replies import LINES
from respmq.commands.spec import Spec, build_spec

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from respmq.commands.replies import Reply
    from respmq.commands.spec import Plain
    from respmq.resp.values import Answer

F = TypeVar("F", bound="Callable[..., Any]")

#: The modules whose functions are commands.
MODULES = (
    "queues",
    "messages",
    "dead",
    "consumers",
    "topics",
    "exchanges",
    "transactions",
    "connection",
    "client",
    "config",
    "introspection",
    "info",
    "admin",
    "durability",
)


@dataclass(frozen=True)
class Container:
    """A command that has subcommands. Without one it only does something if `Table.commands` has it too."""

    name: str
    summary: str
    group: str
    since: str
    subcommands: dict[str, Spec] = field(default_factory=dict)


class Table:
    """Commands and containers by upper-case name, subcommands within their containers."""

    def __init__(self) -> None:
        self.commands: dict[str, Spec] = {}
        self.containers: dict[str, Container] = {}

    def add_container(
        self, name: str, *, summary: str, group: str, categories: tuple[str, ...] = (), since: str = "0.1.0"
    ) -> None:
        """Announce a command that has subcommands; one of them is HELP."""
        container = self.containers[name] = Container(name, summary, group, since)

        def show_help(_context: object) -> list[Answer]:
            """Prints this help."""
            return help_lines(container, self.commands.get(name))

        self.add(
            build_spec(
                f"{name} HELP",
                show_help,
                reply=LINES,
                since=since,
                group=group,
                errors=(),
                flags=frozenset({"loading", "stale", "stateless"}),
                categories=categories,
                complexity="O(1)",
            )
        )

    def add(self, spec: Spec) -> None:
        """Add a command or subcommand; a name can be taken only once."""
        container, _, subcommand = spec.name.partition(" ")
        place = self.containers[container].subcommands if subcommand else self.commands
        key = subcommand or container
        if key in place:
            msg = f"the command {spec.name} is defined twice"
            raise ValueError(msg)
        place[key] = spec

    def names(self) -> list[str]:
        """The names of all commands and containers."""
        return [*self.commands, *self.containers]

    def all_specs(self) -> Iterator[Spec]:
        """Every command and subcommand."""
        yield from self.commands.values()
        for container in self.containers.values():
            yield from container.subcommands.values()


_TABLE = Table()


def container(name: str, *, summary: str, group: str, categories: tuple[str, ...] = ()) -> None:
    """Announce a command that has subcommands, before they are defined. `categories` are those of its HELP."""
    _TABLE.add_container(name, summary=summary, group=group, categories=categories)


def command(
    name: str,
    *,
    group: str,
    reply: Reply,
    errors: tuple[str, ...] = (),
    flags: tuple[str, ...] = (),
    categories: tuple[str, ...] = (),
    complexity: str = "O(1)",
    since: str = "0.1.0",
    complaint: str = "",
    least: int = 0,
    plain: Plain | None = None,
) -> Callable[[F], F]:
    """Put a function into the command table.

    Args:
        name: upper case; `CONTAINER SUBCOMMAND` for a subcommand.
        group: under which heading HELP and the docs show it.
        reply: what it answers.
        errors: the error words that it can answer with, beside ERR.
        flags: Redis' command flags (`write`, `readonly`, `denyoom`, `fast`, `blocking`, `no_auth`, `admin`, ...), and
            `stateless`, see `respmq.commands.flags`.
        categories: ACL categories beside those that follow from the flags.
        complexity: as in COMMAND DOCS.
        since: the version of respmq in which it appeared.
        complaint: how an error about its arguments begins, if Redis has words of its own; `{}` is the word at fault.
        least: how many arguments there must be, where that is more than the signature says.
        plain: a short way for the most usual call.
    """

    def add(function: F) -> F:
        check_names(name, frozenset(flags), categories)
        spec = build_spec(
            name,
            function,
            reply=reply,
            since=since,
            group=group,
            errors=errors,
            flags=frozenset(flags),
            categories=categories,
            complexity=complexity,
            complaint=complaint,
            least=least,
            plain=plain,
        )
        _TABLE.add(spec)
        return function

    return add


def load() -> Table:
    """The table with all commands in it."""
    for module in MODULES:
        importlib.import_module(f"respmq.commands.{module}")
    return _TABLE
