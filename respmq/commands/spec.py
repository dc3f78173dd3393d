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
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, NamedTuple, get_args, get_origin, get_type_hints

from respmq.commands.arguments import Choice, Described, Kind, NoneNeeded, Pair, Several
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
    kind: Kind[Any] | Pair | Several | None
    description: str
    optional: bool = False
    multiple: bool = False
    #: What the value is called in usage lines.
    value: str = ""
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

    @property
    def is_key(self) -> bool:
        """Whether it names what an ACL's `~pattern` is about."""
        return isinstance(self.kind, Kind) and self.kind.doc_type == "key"


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
    positional: tuple[Parameter, ...]
    options: tuple[Parameter, ...]
    #: How an error about the arguments begins, if Redis has words of its own; `{}` stands for the word at fault.
    complaint: str = ""
    #: How many arguments there must be, where that is more than the signature says.
    least: int = 0
    plain: Plain | None = None
    #: Option words to their parameters.
    words: dict[bytes, Parameter] = field(default_factory=dict)

    @property
    def depth(self) -> int:
        """How many words the name has: 1, or 2 for a subcommand."""
        return 1 + self.name.count(" ")

    @property
    def required(self) -> int:
        """How many arguments there must be at least."""
        return max(self.least, sum(not parameter.optional for parameter in self.positional))

    @property
    def _most(self) -> int:
        """How many words there may be at most."""
        open_ended = self.options or (self.positional and self.positional[-1].multiple)
        return UNBOUNDED if open_ended else self.depth + len(self.positional)

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
        """First key, last key (-1: the last word) and step, counted from the command's name; zeros without keys.

        Of several keys with options behind them only the first is certain.
        """
        places = [place for place, parameter in enumerate(self.positional, self.depth) if parameter.is_key]
        if not places:
            return (0, 0, 0)
        several = self.positional[-1].multiple and self.positional[-1].is_key
        return (places[0], -1 if several and not self.options else places[-1], 1)

    @property
    def movable_keys(self) -> bool:
        """Whether `key_range` doesn't say all."""
        return bool(self.options) and any(parameter.is_key and parameter.multiple for parameter in self.positional)

    def keys(self, args: list[bytes]) -> list[bytes]:
        """The keys (queue names above all) in a call that has enough arguments."""
        found: list[bytes] = []
        for place, parameter in enumerate(self.positional, self.depth):
            if parameter.is_key and parameter.multiple:
                found += self._variadic(args, place)[0]
            elif parameter.is_key:
                found += args[place : place + 1]
        return found

    def parse(self, args: list[bytes]) -> tuple[list[Any], dict[str, Any]]:
        """The arguments of a call, read by their kinds.

        Raises:
            BrokerError: wrong number of arguments, unknown option, or a value that isn't of its kind.
        """
        place = self.depth
        if len(args) < place + self.required:
            raise self.wrong_arity()
        if len(args) > self._most:
            raise self._too_many(args)
        values: list[Any] = []
        for parameter in self.positional:
            if parameter.multiple:
                several, place = self._variadic(args, place)
                if len(several) < (0 if parameter.optional else 1):
                    raise self.wrong_arity()
                values += [self._value(parameter, item) for item in several]
                continue
            if parameter.optional and (place >= len(args) or args[place].upper() in self.words):
                break
            values.append(self._value(parameter, args[place]))
            place += 1
        return values, self._options(args, place)

    def wrong_arity(self) -> InvalidRequestError:
        """The error for too few or too many arguments, with the usage."""
        return InvalidRequestError(
            f"wrong number of arguments for '{self.name.lower().replace(' ', '|')}' command, usage: {self.usage()}"
        )

    def usage(self) -> str:
        """The grammar in one line, as in the docs."""
        return " ".join([self.name, *map(parameter_usage, self.positional), *map(parameter_usage, self.options)])

    def _too_many(self, args: list[bytes]) -> InvalidRequestError:
        if self.complaint:
            return self._syntax_error(args[-1], f"usage: {self.usage()}")
        if self.arity > 0 or self.depth == 1:
            return self.wrong_arity()
        container = self.name.partition(" ")[0]
        return InvalidRequestError(
            f"unknown subcommand or wrong number of arguments for '{quote(args[1])}'. Try {container} HELP. "
            f"Usage: {self.usage()}"
        )

    def _syntax_error(self, word: bytes, text: str) -> InvalidRequestError:
        says = (self.complaint or "syntax error").replace("{}", quote(word))
        return InvalidRequestError(f"{says}: {text}")

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
                has_body = any(p.name == "body" for p in self.positional)
                blanks = "; a body with blanks needs quotes" if has_body else ""
                says = f"unknown option '{quote(args[place])}' of {self.name}, it takes {known}{blanks}"
                raise self._syntax_error(args[place], says)
            if parameter.name in given and not parameter.multiple:
                says = f"{parameter_usage(parameter)[1:-1]} of {self.name} is given twice"
                if parameter.bare_words:
                    says = f"{self.name} takes only one of {' and '.join(parameter.bare_words)}"
                raise self._syntax_error(args[place], says)
            place = self._option(parameter, args, place, given)
        for name, value in given.items():
            if isinstance(value, list):
                given[name] = tuple(value)  # pyright: ignore[reportUnknownArgumentType] - of what, its kind knows
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
        name = word.decode()
        if isinstance(kind, Several):
            several, end = self._variadic(args, place + 1)
            if not several:
                raise self._syntax_error(args[place], f"{name} of {self.name} needs a {kind.name} behind it")
            given[parameter.name] = tuple(kind.kind.parse(value, f"{name} {kind.name}") for value in several)
            return end
        wanted = 2 if isinstance(kind, Pair) else 1
        values = args[place + 1 : place + 1 + wanted]
        if len(values) < wanted:
            what = " and ".join(kind.names) if isinstance(kind, Pair) else "value"
            raise self._syntax_error(args[place], f"{name} of {self.name} needs a {what} behind it")
        value = (
            (kind.first.parse(values[0], f"{name} {kind.names[0]}"), kind.second.parse(values[1], name))
            if isinstance(kind, Pair)
            else kind.parse(values[0], name)
        )
        if parameter.multiple:
            given.setdefault(parameter.name, []).append(value)
        else:
            given[parameter.name] = value
        return place + 1 + wanted


def parameter_usage(parameter: Parameter) -> str:
    """One argument in the notation of Redis' documentation."""
    kind = parameter.kind
    shown = parameter.value or parameter.name.rstrip("_").replace("_", "-")
    if isinstance(kind, Choice) and parameter.word is None:
        shown = _shown_value(kind, shown)
    if parameter.word is None:
        text = f"{shown} [{shown} ...]" if parameter.multiple else shown
        return (
            f"[{text}]"
            if parameter.optional and not parameter.multiple
            else (f"[{shown} ...]" if parameter.optional else text)
        )
    word = parameter.word.decode()
    if parameter.bare_words:
        text = " | ".join(parameter.bare_words)
    elif kind is None:
        text = word
    elif isinstance(kind, Pair):
        text = f"{word} {_shown_value(kind.first, kind.names[0])} {kind.names[1]}"
    elif isinstance(kind, Several):
        text = f"{word} {kind.name} [{kind.name} ...]"
    elif isinstance(kind, Choice):
        text = f"{word} {_shown_value(kind, '')}"
    else:
        text = f"{word} {value_name(parameter)}"
    return f"[{text} ...]" if parameter.multiple else f"[{text}]"


def _shown_value(kind: Kind[Any], name: str) -> str:
    return f"<{' | '.join(kind.words)}>" if isinstance(kind, Choice) else name


def value_name(parameter: Parameter) -> str:
    """What an option's value is called in a usage line."""
    kind = parameter.kind
    if parameter.value:
        return parameter.value
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
    words: dict[bytes, Parameter] = {}
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
        option = Parameter(
            parameter.name,
            hint.kind,
            hint.description,
            optional=True,
            multiple=hint.repeated,
            value=hint.value,
            word=word,
        )
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
        complaint=complaint,
        least=least,
        plain=plain,
        words=words,
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
