"""How a call is read: which words are arguments by place, which are options, and what is wrong with the others."""

from __future__ import annotations

from typing import Any, Final

from respmq.commands.kinds import Choice, Kind, Pair, Several
from respmq.commands.usage import parameter_usage
from respmq.errors import InvalidRequestError, quote

#: Larger than any number of arguments.
UNBOUNDED: Final = 1 << 30


class Parameter:
    """One argument of a command.

    Attributes:
        value: what the value is called in usage lines, if not by the name.
        word: the word of an option; None for an argument by place. `shown_word` is the same as text.
        is_flag: whether the option is a word alone.
        bare_words: the words of `[REJECT | RELEASE]`, else nothing.
        raw: whether the bytes are passed on as they are.
        is_key: whether it names what an ACL's `~pattern` is about.
    """

    def __init__(
        self,
        name: str,
        kind: Kind[Any] | Pair | Several | None,
        description: str,
        *,
        optional: bool = False,
        multiple: bool = False,
        value: str = "",
        word: bytes | None = None,
    ) -> None:
        self.name: Final = name
        self.kind: Final = kind
        self.description: Final = description
        self.optional: Final = optional
        self.multiple: Final = multiple
        self.value: Final = value
        self.word: Final = word
        self.shown_word: Final = "" if word is None else word.decode()
        self.is_flag: Final = kind is None
        self.bare_words: Final = kind.words if isinstance(kind, Choice) and kind.bare else ()
        self.raw: Final = isinstance(kind, Kind) and kind.raw
        self.is_key: Final = isinstance(kind, Kind) and kind.doc_type == "key"

    def read(self, value: bytes) -> Any:
        """The value of an argument by place."""
        kind = self.kind
        return kind.parse(value, self.name) if isinstance(kind, Kind) else value


class Grammar:
    """The arguments of one command.

    Args:
        name: the command's; two words for a subcommand.
        positional: arguments by place.
        options: the others.
        complaint: how an error begins, if Redis has words of its own; `{}` stands for the word at fault.
        least: how many arguments there must be, where that is more than `positional` says.

    Attributes:
        depth: how many words the name has.
        words: the options by their words.
        required: how many arguments there must be at least.
    """

    def __init__(
        self,
        name: str,
        positional: tuple[Parameter, ...],
        options: tuple[Parameter, ...],
        complaint: str = "",
        least: int = 0,
    ) -> None:
        self.name: Final = name
        self.positional: Final = positional
        self.options: Final = options
        self._complaint: Final = complaint
        self.depth: Final = 1 + name.count(" ")
        self.words: Final[dict[bytes, Parameter]] = {}
        for option in options:
            for bare in option.bare_words:
                self.words[bare.encode()] = option
            if option.word is not None and not option.bare_words:
                self.words[option.word] = option
        self._longest: Final = max(map(len, self.words), default=0)
        self.least: Final = least
        self.required: Final = max(least, sum(not parameter.optional for parameter in positional))
        open_ended = options or (positional and positional[-1].multiple)
        #: How many words there may be at most.
        self._most: Final = UNBOUNDED if open_ended else self.depth + len(positional)

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
                found += args[place : self._end(args, place)]
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
                end = self._end(args, place)
                if end == place and not parameter.optional:
                    raise self.wrong_arity()
                values += [parameter.read(value) for value in args[place:end]]
                place = end
                continue
            if parameter.optional and (place >= len(args) or self._is_option(args[place])):
                break
            values.append(parameter.read(args[place]))
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
        if self._complaint:
            return self._syntax_error(args[-1], f"usage: {self.usage()}")
        if self.arity > 0 or self.depth == 1:
            return self.wrong_arity()
        container = self.name.partition(" ")[0]
        return InvalidRequestError(
            f"unknown subcommand or wrong number of arguments for '{quote(args[1])}'. Try {container} HELP. "
            f"Usage: {self.usage()}"
        )

    def _syntax_error(self, word: bytes, text: str) -> InvalidRequestError:
        says = (self._complaint or "syntax error").replace("{}", quote(word))
        return InvalidRequestError(f"{says}: {text}")

    def _is_option(self, word: bytes) -> bool:
        # Bodies are long, and in upper case still no option.
        return len(word) <= self._longest and (word in self.words or word.upper() in self.words)

    def _end(self, args: list[bytes], place: int) -> int:
        """Where the first option behind a place stands."""
        if not self.words:
            return len(args)
        while place < len(args) and not self._is_option(args[place]):
            place += 1
        return place

    def _options(self, args: list[bytes], place: int) -> dict[str, Any]:
        given: dict[str, Any] = {}
        while place < len(args):
            parameter = self.words.get(args[place]) or self.words.get(args[place].upper())
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
        """Read an option and what belongs to it; returns where the next one stands."""
        kind = parameter.kind
        if kind is None:
            given[parameter.name] = True
            return place + 1
        if parameter.bare_words:
            given[parameter.name] = args[place].upper().decode()
            return place + 1
        name = parameter.shown_word
        place += 1
        if isinstance(kind, Several):
            end = self._end(args, place)
            if end == place:
                raise self._incomplete(parameter, args[place - 1], kind.name)
            given[parameter.name] = tuple([kind.kind.parse(value, f"{name} {kind.name}") for value in args[place:end]])
            return end
        if isinstance(kind, Pair):
            if place + 1 >= len(args):
                raise self._incomplete(parameter, args[place - 1], " and ".join(kind.names))
            first, second = args[place], args[place + 1]
            value: Any = (kind.first.parse(first, f"{name} {kind.names[0]}"), kind.second.parse(second, name))
            place += 2
        else:
            if place >= len(args):
                raise self._incomplete(parameter, args[place - 1], "value")
            value = kind.parse(args[place], name)
            place += 1
        if parameter.multiple:
            given.setdefault(parameter.name, []).append(value)
        else:
            given[parameter.name] = value
        return place

    def _incomplete(self, parameter: Parameter, given: bytes, what: str) -> InvalidRequestError:
        return self._syntax_error(given, f"{parameter.shown_word} of {self.name} needs a {what} behind it")
