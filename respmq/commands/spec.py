"""What a command is: a function whose signature is its grammar.

    @command("QPUT", ...)
    def qput(ctx: Context, queue: QueueName, body: Blob, *, delay: Annotated[int, DELAY] = 0) -> bytes | None: ...

- Parameters before the `*` are arguments by place; one with a default may be left out, `*names` takes all that follow.
- Parameters behind the `*` are options: the word is the parameter's name in upper case (`for_` is FOR), followed by a
  value of its kind. A `bool` is a word alone; a `Choice(bare=True)` is one of several words alone; a tuple may be
  repeated; a `Pair` has two values, `Several` has as many as follow.

Parser, arity, key positions, COMMAND, COMMAND DOCS, HELP, the docs page and the statistics are derived from that.
"""

from __future__ import annotations

import inspect
from dataclasses import dataclass
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, NamedTuple, get_args, get_origin, get_type_hints

from respmq.commands.arguments import Described, NoneNeeded
from respmq.commands.grammar import Grammar, Parameter
from respmq.commands.kinds import Kind, Pair, Several

if TYPE_CHECKING:
    from collections.abc import Callable

    from respmq.commands.replies import Reply


@dataclass(frozen=True)
class Plain:
    """A short way for the most usual call of a command, one of `words` words in which nothing has to be parsed.

    `one` is a method of the engine that does the same as the command's function and takes the words behind the name;
    what it returns is written the same in both protocols.

    Several such calls on one queue in a row are a stretch. `stretch` is a method of the engine that takes the queue's
    name and the last word of each call, and does the first ones of them, or all: it returns what came out of each, in
    order. Or it returns None, without having done anything, where something has to be looked at between the calls; then
    they are run one by one, as any other. `encode` writes the replies.

    Only for commands whose time decides how fast the broker is.
    """

    words: int
    one: str
    stretch: str
    encode: Callable[[Any], bytes]


@dataclass(frozen=True)
class Spec:
    """One command, or one subcommand (`QDEAD LIST`), and all that is known of it."""

    name: str
    function: Callable[..., Any]
    summary: str
    since: str
    group: str
    reply: Reply
    errors: tuple[str, ...]
    flags: frozenset[str]
    categories: tuple[str, ...]
    complexity: str
    grammar: Grammar
    plain: Plain | None = None


def build_spec(
    name: str,
    function: Callable[..., Any],
    *,
    reply: Reply,
    since: str,
    group: str,
    errors: tuple[str, ...],
    flags: frozenset[str],
    categories: tuple[str, ...],
    complexity: str,
    complaint: str = "",
    least: int = 0,
    plain: Plain | None = None,
) -> Spec:
    """Read a command's grammar from the signature of its function, and its summary from the docstring's first line."""
    summary = (inspect.getdoc(function) or "").partition("\n")[0]
    # Without the return type: it may name what is imported for type checkers only.
    arguments = {name: hint for name, hint in function.__annotations__.items() if name != "return"}
    hints = get_type_hints(
        SimpleNamespace(__annotations__=arguments), globalns=function.__globals__, include_extras=True
    )
    positional: list[Parameter] = []
    options: list[Parameter] = []
    for parameter in list(inspect.signature(function).parameters.values())[1:]:
        hint = _read_hint(hints[parameter.name])
        optional = parameter.default is not inspect.Parameter.empty
        if parameter.kind is not inspect.Parameter.KEYWORD_ONLY:
            variadic = parameter.kind is inspect.Parameter.VAR_POSITIONAL
            label = parameter.name
            positional.append(
                Parameter(
                    label.removesuffix("s") if variadic else label,
                    hint.kind,
                    hint.description,
                    optional=hint.none_needed if variadic else optional,
                    multiple=variadic,
                    value=hint.value,
                )
            )
            continue
        word = parameter.name.rstrip("_").upper().replace("_", "-").encode()
        options.append(
            Parameter(
                parameter.name,
                hint.kind,
                hint.description,
                optional=True,
                multiple=hint.repeated,
                value=hint.value,
                word=word,
            )
        )
    return Spec(
        name=name,
        function=function,
        summary=summary,
        since=since,
        group=group,
        reply=reply,
        errors=errors,
        flags=flags,
        categories=categories,
        complexity=complexity,
        grammar=Grammar(name, tuple(positional), tuple(options), complaint, least),
        plain=plain,
    )


class _Hint(NamedTuple):
    """What an `Annotated` type says of an argument."""

    kind: Kind[Any] | Pair | Several | None
    description: str = ""
    value: str = ""
    #: Whether the option may be given several times.
    repeated: bool = False
    #: Whether there may be no argument at all where there may be several.
    none_needed: bool = False


def _read_hint(hint: Any) -> _Hint:
    """What an `Annotated` type says; a bare `bool` has no kind."""
    if hint is bool:
        return _Hint(None)
    kind: Kind[Any] | Pair | Several | None = None
    description = value = ""
    none_needed = False
    inner, *metadata = get_args(hint)
    for item in metadata:
        if isinstance(item, Kind):
            kind = item  # pyright: ignore[reportUnknownVariableType] - of what, its own parse() knows
        elif isinstance(item, Pair | Several):
            kind = item
        elif isinstance(item, Described):
            description, value = item.text, item.value
        elif isinstance(item, NoneNeeded):
            none_needed = True
    repeated = get_origin(inner) is tuple and get_args(inner)[-1] is Ellipsis and not isinstance(kind, Several)
    return _Hint(kind, description, value, repeated, none_needed)
