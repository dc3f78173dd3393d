"""Writes the pages of docs/ that follow from the code: `python -m docs.generate`, or with `--check` only compares.

- docs/commands/*.md: a page for each group of commands, from the command table.
- docs/configuration.md: the tables of settings between its `generated` markers, from `respmq.config`.

`--check` changes nothing and exits with status 1 if a file is not what would be written.
"""

from __future__ import annotations

import inspect
import re
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

from respmq import errors
from respmq.cli.options import default_shown
from respmq.commands.flags import acl_categories
from respmq.commands.kinds import (
    MAX_INT64,
    MIN_INT64,
    Choice,
    Duration,
    DurationOrNone,
    Fraction,
    Integer,
    Kind,
    Pair,
    Several,
    Sized,
)
from respmq.commands.registry import load
from respmq.commands.usage import parameter_usage
from respmq.config import FIELDS, kind_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from respmq.commands.grammar import Parameter
    from respmq.commands.spec import Spec

DOCS = Path(__file__).resolve().parent

#: The groups of commands in the order in which a reader needs them, each with the title of its page.
GROUPS = {
    "queue": "Queues",
    "message": "Messages",
    "dead letter": "Dead letters",
    "consumer": "Push consumers",
    "topic": "Topics",
    "exchange": "Exchanges",
    "transaction": "Transactions",
    "connection": "Connections",
    "durability": "Durability",
    "server": "The server",
}

_NOTICE = "<!-- Written by docs/generate.py. Change the command table, then run it. -->"
_INTRODUCTION = """\
Each page has the grammar of a group of commands: arguments, defaults, replies and errors.
[The protocol](../protocol.md) tells what they do, with examples."""
_SETTINGS = re.compile(r"(<!-- generated: settings -->\n).*?(<!-- /generated -->)", re.DOTALL)


# -- commands ----------------------------------------------------------------------------------------------------------


def command_pages() -> dict[Path, str]:
    """The text of every page below docs/commands/."""
    specs = list(load().all_specs())
    groups = [*GROUPS, *dict.fromkeys(spec.group for spec in specs if spec.group not in GROUPS)]
    by_group = {group: [spec for spec in specs if spec.group == group] for group in groups}
    pages = {page_of(group): _group_page(group, found) for group, found in by_group.items() if found}
    pages[DOCS / "commands" / "index.md"] = _index(by_group)
    return pages


def page_of(group: str) -> Path:
    """Where the commands of a group are described."""
    return DOCS / "commands" / f"{group.replace(' ', '-')}.md"


def _title(group: str) -> str:
    return GROUPS.get(group, group.capitalize() + "s")


def _index(by_group: dict[str, list[Spec]]) -> str:
    lines = [
        "# All commands",
        _NOTICE,
        _INTRODUCTION,
    ]
    for group, specs in by_group.items():
        if not specs:
            continue
        lines.append(f"## [{_title(group)}]({page_of(group).name})")
        rows = [(f"[{spec.name}]({page_of(group).name}#{_anchor(spec)})", _cell(spec.summary)) for spec in specs]
        lines.append(_table(("command", "what it does"), rows))
    return "\n\n".join(lines) + "\n"


def _group_page(group: str, specs: list[Spec]) -> str:
    parts = [f"# Commands: {_title(group).lower()}", _NOTICE]
    parts.append(" · ".join(f"[{spec.name}](#{_anchor(spec)})" for spec in specs))
    for spec in specs:
        parts += _section(spec)
    return "\n\n".join(parts) + "\n"


def _anchor(spec: Spec) -> str:
    return spec.name.lower().replace(" ", "-")


def _section(spec: Spec) -> Iterator[str]:
    yield f"## {spec.name}"
    yield spec.summary
    yield f"```text\n{_wrapped_usage(spec)}\n```"
    rows = list(_argument_rows(spec))
    if rows:
        yield _table(("argument", "value", "default", "meaning"), rows)
    yield f"**Reply:** {spec.reply.shape}."
    meanings = error_meanings()
    lines = [f"- `{word}`: {meanings[word]}" for word in (*spec.errors, "ERR")]
    yield "**Errors:**\n\n" + "\n".join(lines)
    categories = " ".join(f"`@{category}`" for category in acl_categories(spec))
    yield f"**Complexity:** {spec.complexity}. **ACL categories:** {categories}. **Since:** {spec.since}."


def _wrapped_usage(spec: Spec) -> str:
    """The usage, broken between arguments where it is long."""
    lines = [spec.name]
    for parameter in spec.grammar.positional + spec.grammar.options:
        shown = parameter_usage(parameter)
        if len(lines[-1]) + len(shown) > 90:
            lines.append("   ")
        lines[-1] += " " + shown
    return "\n".join(lines)


def _argument_rows(spec: Spec) -> Iterator[tuple[str, str, str, str]]:
    signature = inspect.signature(spec.function).parameters
    for parameter in spec.grammar.positional + spec.grammar.options:
        declared = signature.get(parameter.name)
        default = inspect.Parameter.empty if declared is None else declared.default
        name = _shown_name(parameter)
        yield name, _value(parameter), _default(parameter, default), _cell(parameter.description)


def _shown_name(parameter: Parameter) -> str:
    if parameter.word is None:
        name = parameter.name.rstrip("_").replace("_", "-")
        return f"`{name}`" + (" ..." if parameter.multiple else "")
    if parameter.bare_words:
        return ", ".join(f"`{word}`" for word in parameter.bare_words)
    return f"`{parameter.word.decode()}`" + (" (repeatable)" if parameter.multiple else "")


def _value(parameter: Parameter) -> str:
    kind = parameter.kind
    if kind is None or parameter.bare_words:
        return "a word alone"
    if isinstance(kind, Pair):
        first, second = kind.names
        return f"{first} ({_kind(kind.first)}) and {second} ({_kind(kind.second)})"
    if isinstance(kind, Several):
        return f"one or more of {kind.name} ({_kind(kind.kind)})"
    if parameter.is_key:
        return "a name"
    return _kind(kind)


def _kind(kind: Kind[Any]) -> str:
    match kind:
        case Duration(zero=True):
            return "duration, 0 allowed"
        case Duration():
            return "duration above 0"
        case DurationOrNone():
            return "duration above 0, or `none`"
        case Fraction():
            return "number from 0 to 1"
        case Choice():
            return " or ".join(f"`{word}`" for word in kind.words)
        case Sized():
            return f"{kind.least} to {kind.most} bytes"
        case Integer() if kind.most != MAX_INT64:
            return f"integer from {kind.least} to {kind.most}"
        case Integer() if kind.least != MIN_INT64:
            return f"integer, at least {kind.least}"
        case Integer():
            return "integer, 64 bits with sign"
        case _:
            return "any bytes"


def _default(parameter: Parameter, default: object) -> str:
    if not parameter.optional:
        return "required"
    if default is inspect.Parameter.empty or default is False or default == ():
        return ""
    if default is None:
        return "`none`" if isinstance(parameter.kind, DurationOrNone) else ""
    if isinstance(parameter.kind, Duration) and isinstance(default, int):
        return f"`{default / 1000:g}s`" if default else "`0`"
    return f"`{default:g}`" if isinstance(default, float) else f"`{default}`"


def error_meanings() -> dict[str, str]:
    """What each error word means, from the docstrings of the errors that have it."""
    meanings: dict[str, str] = {}
    for error in vars(errors).values():
        if not (inspect.isclass(error) and issubclass(error, errors.BrokerError)) or error is errors.BrokerError:
            continue
        text = re.sub(r"^`[^`]*`: ", "", (inspect.getdoc(error) or "").partition("\n")[0])
        meanings.setdefault(error.code, text)
    return meanings


# -- settings ----------------------------------------------------------------------------------------------------------


def settings_tables() -> str:
    """The tables of settings, by group."""
    groups: dict[str, list[str]] = {}
    for name, field in FIELDS.items():
        groups.setdefault(field.metadata["group"], []).append(name)
    parts: list[str] = []
    for group, names in groups.items():
        rows = [
            (
                f"`{name}`",
                f"`{_cell(kind_of(name).form)}`",
                f"`{default_shown(name)}`",
                "yes" if FIELDS[name].metadata["mutable"] else "no",
                _cell(FIELDS[name].metadata["help"]),
            )
            for name in names
        ]
        parts += [f"### {group}", _table(("setting", "value", "default", "`CONFIG SET`", "meaning"), rows)]
    return "\n\n".join(parts) + "\n"


def configuration_page(text: str) -> str:
    """The page with its tables renewed."""
    return _SETTINGS.sub(lambda match: f"{match[1]}\n{settings_tables()}\n{match[2]}", text)


# -- writing -----------------------------------------------------------------------------------------------------------


def _table(head: tuple[str, ...], rows: Iterable[tuple[str, ...]]) -> str:
    lines = ["| " + " | ".join(head) + " |", "| " + " | ".join("---" for _ in head) + " |"]
    lines += ["| " + " | ".join(row) + " |" for row in rows]
    return "\n".join(line.replace("  ", " ") for line in lines)


def _cell(text: str) -> str:
    return text.replace("|", "\\|")


def generated() -> dict[Path, str]:
    """Every generated file and what it must hold."""
    configuration = DOCS / "configuration.md"
    return {
        **command_pages(),
        configuration: configuration_page(configuration.read_text(encoding="utf-8")),
    }


def stale() -> list[Path]:
    """Files that are not as they would be written, and pages of groups that no longer exist."""
    wanted = generated()
    changed = [path for path, text in wanted.items() if not path.exists() or path.read_text(encoding="utf-8") != text]
    return changed + [path for path in sorted((DOCS / "commands").glob("*.md")) if path not in wanted]


def main(arguments: list[str]) -> int:
    """Write the files, or compare them; returns the exit status."""
    if arguments not in ([], ["--check"]):
        print("usage: python -m docs.generate [--check]", file=sys.stderr)
        return 2
    paths = stale()
    wanted = generated()
    for path in paths:
        shown = path.relative_to(DOCS.parent)
        if arguments:
            print(f"{shown} is out of date, run: python -m docs.generate", file=sys.stderr)
        elif path in wanted:
            path.parent.mkdir(exist_ok=True)
            path.write_text(wanted[path], encoding="utf-8")
            print(f"wrote {shown}")
        else:
            path.unlink()
            print(f"removed {shown}")
    return int(bool(arguments and paths))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
