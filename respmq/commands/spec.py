"""What a command is: a function whose signature is its grammar.

    @command("QPUT", ...)
    def qput(ctx: Context, queue: QueueName, body: Blob, *, delay: Annotated[int, DELAY] = 0) -> bytes | None: ...

- Parameters before the `*` are arguments by place; one with a default may be left out, `*names` takes all that follow.
- Parameters behind the `*` are options: the word is the parameter's name in upper case (`for_` is FOR), followed by a
  value of its kind. A `bool` is a word alone; a `Choice(bare=True)` is one of several words alone; a tuple may be
  repeated; a `Pair` has two values.

Parser, arity, key positions, COMMAND, COMMAND DOCS, HELP, the docs page and the statistics are derived from that.
"""

from __future__ import annotations

import inspect
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, get_args, get_origin, get_type_hints

from respmq.commands.arguments import Choice, Described, Kind, Pair
from respmq.errors import InvalidRequestError, quote

if TYPE_CHECKING:
    from collections.abc import Callable

    from respmq.commands.replies import Reply

#: Larger than any number of arguments.
UNBOUNDED = 1 << 30


@dataclass(frozen=True)
class Parameter:
    """One argument of a command."""

    name: str
    kind: Kind[Any] | Pair | None
    description: str
    optional: bool = False
    multiple: bool = False
    #: The word of an option; None for an argument by place.
    word: bytes | None = None

    @property
    def is_flag(self) -> bool:
        """Whether the option is a word alone."""
        return self.kind is None

    @property
    def bare_words(self) -> tuple[str, ...]:
        """The words of `[REJECT | RELEASE]`, else nothing."""
        return self.kind.words if isinstance(self.kind, Choice) and self.kind.bare else ()

    @property
    def raw(self) -> bool:
        """Whether the bytes are passed on as they are."""
        return isinstance(self.kind, Kind) and self.kind.raw


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
    positional: tuple[Parameter, ...]
    options: tuple[Parameter, ...]
    #: The same as `function` for a call without options.
    plain: Callable[..., Any] | None = None
    #: Option words to their parameters.
    words: dict[bytes, Parameter] = field(default_factory=dict)

    @property
    def depth(self) -> int:
        """How many words the name has: 1, or 2 for a subcommand."""
        return 1 + self.name.count(" ")

    @property
    def required(self) -> int:
        """How many arguments by place there must be at least."""
        return sum(not parameter.optional for parameter in self.positional)

    @property
    def arity(self) -> int:
        """As in Redis: the number of words, negative if more may follow."""
        least = self.depth + self.required
        open_ended = self.options or any(p.optional or p.multiple for p in self.positional)
        return -least if open_ended else least

    @property
    def direct(self) -> tuple[int, int]:
        """From how many to how many words the arguments can be passed on without parsing; empty if they never can."""
        if not all(parameter.raw for parameter in self.positional):
            return (1, 0)
        least = self.depth + self.required
        if self.positional and self.positional[-1].multiple:
            # Behind the first of several an option may stand.
            return (least, least if self.options else UNBOUNDED)
        most = self.depth + len(self.positional)
        # An optional argument by place could be an option's word instead.
        return (least, least if self.options else most)

    @property
    def key_range(self) -> tuple[int, int, int]:
        """First key, last key (-1: the last word) and step, counted from the command's name; zeros without keys."""
        for place, parameter in enumerate(self.positional, self.depth):
            if isinstance(parameter.kind, Kind) and parameter.kind.doc_type == "key":
                return (place, -1 if parameter.multiple else place, 1)
        return (0, 0, 0)

    def keys(self, args: list[bytes]) -> list[bytes]:
        """The queues that a call names.

        Raises:
            InvalidRequestError: the call can't be parsed.
        """
        place, last, _ = self.key_range
        if not place:
            return []
        if last > 0:
            return [args[place]]
        names, _ = self._variadic(args, place)
        return names

    def parse(self, args: list[bytes]) -> tuple[list[Any], dict[str, Any]]:
        """The arguments of a call, read by their kinds.

        Raises:
            BrokerError: wrong number of arguments, unknown option, or a value that isn't of its kind.
        """
        place = self.depth
        if len(args) < place + self.required:
            raise self.wrong_arity()
        values: list[Any] = []
        for index, parameter in enumerate(self.positional):
            if parameter.multiple:
                several, place = self._variadic(args, place)
                if len(several) < (0 if parameter.optional else 1):
                    raise self.wrong_arity()
                values += [self._value(parameter, item) for item in several]
                continue
            if parameter.optional and (place >= len(args) or self._starts_option(args, place, index)):
                break
            values.append(self._value(parameter, args[place]))
            place += 1
        if place < len(args) and not self.options:
            raise self.wrong_arity()
        return values, self._options(args, place)

    def wrong_arity(self) -> InvalidRequestError:
        """The error for too few or too many arguments, with the usage."""
        return InvalidRequestError(
            f"wrong number of arguments for '{self.name.lower().replace(' ', '|')}' command, usage: {self.usage()}"
        )

    def usage(self) -> str:
        """The grammar in one line, as in the docs."""
        return " ".join([self.name, *map(parameter_usage, self.positional), *map(parameter_usage, self.options)])

    def _starts_option(self, args: list[bytes], place: int, index: int) -> bool:
        """Whether an option and not the optional argument stands at `place`."""
        return index >= self.required and args[place].upper() in self.words

    def _variadic(self, args: list[bytes], place: int) -> tuple[list[bytes], int]:
        end = place
        if not self.words:
            return args[place:], len(args)
        while end < len(args) and args[end].upper() not in self.words:
            end += 1
        return args[place:end], end

    def _value(self, parameter: Parameter, value: bytes) -> Any:
        kind = parameter.kind
        return kind.parse(value, parameter.name) if isinstance(kind, Kind) else value

    def _options(self, args: list[bytes], place: int) -> dict[str, Any]:
        given: dict[str, Any] = {}
        while place < len(args):
            word = args[place].upper()
            parameter = self.words.get(word)
            if parameter is None:
                known = ", ".join(w.decode() for w in self.words)
                msg = f"syntax error: unknown option '{quote(args[place])}' of {self.name}, it takes {known}"
                raise InvalidRequestError(msg)
            if parameter.name in given and not parameter.multiple:
                msg = f"syntax error: {parameter_usage(parameter)[1:-1]} of {self.name} is given twice"
                raise InvalidRequestError(msg)
            place = self._option(parameter, args, place, given)
        return given

    def _option(self, parameter: Parameter, args: list[bytes], place: int, given: dict[str, Any]) -> int:
        word = args[place].upper()
        kind = parameter.kind
        if kind is None:
            given[parameter.name] = True
            return place + 1
        if parameter.bare_words:
            given[parameter.name] = word.decode()
            return place + 1
        wanted = 2 if isinstance(kind, Pair) else 1
        values = args[place + 1 : place + 1 + wanted]
        if len(values) < wanted:
            what = " and ".join(kind.names) if isinstance(kind, Pair) else "value"
            msg = f"syntax error: {word.decode()} of {self.name} needs a {what} behind it"
            raise InvalidRequestError(msg)
        name = word.decode()
        value = (
            (kind.first.parse(values[0], f"{name} {kind.names[0]}"), kind.second.parse(values[1], name))
            if isinstance(kind, Pair)
            else kind.parse(values[0], name)
        )
        if parameter.multiple:
            given[parameter.name] = (*given.get(parameter.name, ()), value)
        else:
            given[parameter.name] = value
        return place + 1 + wanted


def parameter_usage(parameter: Parameter) -> str:
    """One argument in the notation of Redis' documentation."""
    kind = parameter.kind
    shown = parameter.name.rstrip("_").replace("_", "-")
    if parameter.word is None:
        text = f"{shown} [{shown} ...]" if parameter.multiple else shown
        return f"[{text}]" if parameter.optional and not parameter.multiple else (
            f"[{shown} ...]" if parameter.optional else text
        )
    word = parameter.word.decode()
    if parameter.bare_words:
        text = " | ".join(parameter.bare_words)
    elif kind is None:
        text = word
    elif isinstance(kind, Pair):
        text = f"{word} {kind.names[0]} {kind.names[1]}"
    elif isinstance(kind, Choice):
        text = f"{word} <{' | '.join(kind.words)}>"
    else:
        text = f"{word} {value_name(parameter)}"
    return f"[{text} ...]" if parameter.multiple else f"[{text}]"


def value_name(parameter: Parameter) -> str:
    """What an option's value is called in a usage line."""
    kind = parameter.kind
    if isinstance(kind, Kind) and type(kind).__name__.startswith("Duration"):
        return "duration"
    return {"integer": "n", "double": "fraction"}.get(getattr(kind, "doc_type", ""), parameter.name.rstrip("_"))


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
    plain: Callable[..., Any] | None = None,
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
    words: dict[bytes, Parameter] = {}
    for parameter in list(inspect.signature(function).parameters.values())[1:]:
        kind, description, several = _read_hint(hints[parameter.name])
        optional = parameter.default is not inspect.Parameter.empty
        if parameter.kind is not inspect.Parameter.KEYWORD_ONLY:
            variadic = parameter.kind is inspect.Parameter.VAR_POSITIONAL
            label = parameter.name
            empty_allowed = description.startswith("All")
            positional.append(
                Parameter(
                    label.removesuffix("s") if variadic else label,
                    kind,
                    description,
                    optional=empty_allowed if variadic else optional,
                    multiple=variadic,
                )
            )
            continue
        word = parameter.name.rstrip("_").upper().replace("_", "-").encode()
        option = Parameter(parameter.name, kind, description, optional=True, multiple=several, word=word)
        options.append(option)
        for bare in option.bare_words:
            words[bare.encode()] = option
        if not option.bare_words:
            words[word] = option
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
        positional=tuple(positional),
        options=tuple(options),
        plain=plain,
        words=words,
    )


def _read_hint(hint: Any) -> tuple[Kind[Any] | Pair | None, str, bool]:
    """Kind, description and whether the option may be repeated, from an `Annotated` type (None for a bare `bool`)."""
    if hint is bool:
        return None, "", False
    kind: Kind[Any] | Pair | None = None
    description = ""
    inner, *metadata = get_args(hint)
    for item in metadata:
        if isinstance(item, Kind | Pair):
            kind = item
        elif isinstance(item, Described):
            description = item.text
    return kind, description, get_origin(inner) is tuple and get_args(inner)[-1] is Ellipsis
