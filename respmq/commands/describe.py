"""What COMMAND, COMMAND DOCS and the HELP subcommands say about the commands, all of it from the command table."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from respmq.commands.flags import acl_categories, shown_flags
from respmq.commands.grammar import Parameter
from respmq.commands.kinds import Choice, Kind, Pair, Several
from respmq.commands.usage import parameter_usage, value_name
from respmq.resp.values import ItemSet, Status, Statuses

if TYPE_CHECKING:
    from respmq.commands.registry import Container
    from respmq.commands.spec import Spec
    from respmq.resp.values import Answer


def shown_name(spec: Spec) -> str:
    """A command's name as Redis writes it in replies: `client|list`."""
    return spec.name.lower().replace(" ", "|")


# -- COMMAND and COMMAND INFO ------------------------------------------------------------------------------------------


def command_info(spec: Spec, container: Container | None = None) -> Answer:
    """The ten fields of a command; with the subcommands if it has a container of them."""
    first, last, step = spec.grammar.key_range
    return [
        shown_name(spec),
        spec.grammar.arity if container is None else -spec.grammar.depth,
        Statuses(shown_flags(spec)),
        first,
        last,
        step,
        Statuses(f"@{category}" for category in acl_categories(spec)),
        ItemSet(),
        ItemSet(_key_specs(spec)),
        ItemSet() if container is None else [command_info(each) for each in container.subcommands.values()],
    ]


def container_info(container: Container, bare: Spec | None) -> Answer:
    """The ten fields of a command with subcommands; `bare` is the command without one, if there is that."""
    if bare is not None:
        return command_info(bare, container)
    subcommands: Answer = [command_info(each) for each in container.subcommands.values()]
    slow = Statuses(["@slow"])
    return [container.name.lower(), -2, Statuses(), 0, 0, 0, slow, ItemSet(), ItemSet(), subcommands]


def _key_specs(spec: Spec) -> list[Answer]:
    first, last, step = spec.grammar.key_range
    if not first:
        return []
    flags = ["RO", "access"] if "readonly" in spec.flags else ["RW", "update"]
    if spec.grammar.movable_keys:
        flags.append("incomplete")
    begin: dict[str, Answer] = {"index": first}
    reach: dict[str, Answer] = {"lastkey": last if last < 0 else last - first, "keystep": step, "limit": 0}
    key_spec: dict[str, Answer] = {
        "flags": Statuses(flags),
        "begin_search": _typed("index", begin),
        "find_keys": _typed("range", reach),
    }
    return [key_spec]


def _typed(type: str, spec: dict[str, Answer]) -> dict[str, Answer]:
    return {"type": type, "spec": spec}


# -- COMMAND DOCS ------------------------------------------------------------------------------------------------------


def command_docs(spec: Spec, container: Container | None = None) -> dict[str, Answer]:
    """What COMMAND DOCS says about a command."""
    docs: dict[str, Answer] = {
        "summary": spec.summary,
        "since": spec.since,
        "group": spec.group,
        "complexity": spec.complexity,
    }
    parameters = spec.grammar.positional + spec.grammar.options
    if parameters:
        docs["arguments"] = [_argument_docs(parameter) for parameter in parameters]
    if container is not None:
        docs["subcommands"] = _subcommand_docs(container)
    return docs


def container_docs(container: Container, bare: Spec | None) -> dict[str, Answer]:
    """What COMMAND DOCS says about a command with subcommands."""
    if bare is not None:
        return command_docs(bare, container)
    return {
        "summary": container.summary,
        "since": container.since,
        "group": container.group,
        "complexity": "Depends on subcommand.",
        "subcommands": _subcommand_docs(container),
    }


def _subcommand_docs(container: Container) -> dict[str, Answer]:
    return {shown_name(spec): command_docs(spec) for spec in container.subcommands.values()}


def _argument_docs(parameter: Parameter) -> dict[str, Answer]:
    kind = parameter.kind
    name = parameter.name.rstrip("_").replace("_", "-")
    docs: dict[str, Answer] = {"name": name, "type": "string"}
    if kind is None:
        docs["type"] = "pure-token"
    elif isinstance(kind, Pair):
        docs["type"] = "block"
        first, second = kind.names
        docs["arguments"] = [_value_docs(kind.first, first), _value_docs(kind.second, second)]
    elif isinstance(kind, Several):
        docs |= _value_docs(kind.kind, kind.name)
    else:
        docs |= _value_docs(kind, name if parameter.word is None else value_name(parameter))
    if parameter.is_key:
        docs["key_spec_index"] = 0
    if parameter.word is not None and not parameter.bare_words:
        docs["token"] = parameter.word.decode()
    flags = ["optional"] if parameter.optional else []
    if parameter.multiple or isinstance(kind, Several):
        flags.append("multiple")
    if parameter.multiple and parameter.word is not None:
        flags.append("multiple_token")
    if flags:
        docs["flags"] = Statuses(flags)
    # Redis has the arguments of an argument at the end.
    return {key: docs[key] for key in sorted(docs, key=lambda key: key == "arguments")}


def _value_docs(kind: Kind[Any], name: str) -> dict[str, Answer]:
    docs: dict[str, Answer] = {"name": name, "type": kind.doc_type}
    if isinstance(kind, Choice):
        docs["arguments"] = [_token_docs(word) for word in kind.words]
    return docs


def _token_docs(word: str) -> dict[str, Answer]:
    return {"name": word.lower(), "type": "pure-token", "token": word}


# -- HELP --------------------------------------------------------------------------------------------------------------


def help_lines(container: Container, bare: Spec | None) -> list[Answer]:
    """The lines of a HELP subcommand, in Redis' form."""
    lines = [f"{container.name} <subcommand> [<arg> [value] [opt] ...]. Subcommands are:"]
    if bare is not None:
        lines += ["(no subcommand)", f"    {bare.summary}"]
    subcommands = sorted(container.subcommands.items(), key=lambda item: item[0] == "HELP")
    for name, spec in subcommands:
        lines.append(" ".join([name, *map(parameter_usage, spec.grammar.positional + spec.grammar.options)]))
        lines.append(f"    {spec.summary}")
    return [Status(line) for line in lines]
