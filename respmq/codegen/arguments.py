"""The arguments of a command as parameters of a Python function, and the lines that send them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from respmq.commands.kinds import Choice, Duration, DurationOrNone, Fraction, Integer, Pair

if TYPE_CHECKING:
    from respmq.commands.grammar import Parameter
    from respmq.commands.spec import Spec

#: Python's name for options that may be repeated on the wire and are given at once here.
PLURALS = {"header": "headers", "attach": "attachments", "queue": "queues", "id": "ids", "lease": "leases"}
PLURALS["body"] = "bodies"


@dataclass(frozen=True)
class Argument:
    """One parameter of a generated function.

    Args:
        name: its name; with `*` in front if there may be several.
        declared: the parameter as it is declared.
        passed: how a method passes it on to the function.
        option: whether it is a keyword.
        help: what it means.
        lines: what sends it.
    """

    name: str
    declared: str
    passed: str
    option: bool
    help: str
    lines: tuple[str, ...]


def arguments(spec: Spec) -> list[Argument]:
    """The parameters of a command: those by place, then the options."""
    marked = any(parameter.name == "header" for parameter in spec.grammar.options)
    found = [_by_place(spec, parameter, marked=marked) for parameter in spec.grammar.positional]
    return found + [
        argument for parameter in spec.grammar.options if (argument := _option(spec, parameter)) is not None
    ]


def _by_place(spec: Spec, parameter: Parameter, *, marked: bool) -> Argument:
    name, help = parameter.name, parameter.description
    if parameter.multiple:
        several = PLURALS[name]
        if name == "body":
            help = "What is sent: each a `str` or `bytes`; what is to be JSON goes by `qput`."
            return _place(f"*{several}", f"*{several}: str | bytes", help, f"words.bodies({several})")
        help = help.replace("The name of the queue.", "Names of queues, tried in this order.")
        return _place(f"*{several}", f"*{several}: str", help, f'words.texts("{name}", {several})')
    if isinstance(parameter.kind, Choice):
        return _place(name, f"{name}: {_literal(parameter.kind)}", help, f'words.text("{name}", {name})')
    if isinstance(parameter.kind, Duration):
        return _place(name, f"{name}: float", f"{help} Seconds.", f'words.duration("{name}", {name})')
    if name == "body":
        if not marked:
            msg = f"{spec.name} has a body and no headers, so a body can't be marked"
            raise ValueError(msg)
        help = "What is sent: `bytes`, a `str` or any other JSON value."
        return _place(name, f"{name}: Body", help, f"marked = words.{name}({name}, headers)")
    if not parameter.optional:
        return _place(name, f"{name}: str", help, f'words.text("{name}", {name})')
    lines = (f"if {name} is not None:", f'    words.text("{name}", {name})')
    return Argument(name, f"{name}: str | None = None", name, option=False, help=help, lines=lines)


def _place(name: str, declared: str, help: str, line: str) -> Argument:
    return Argument(name, declared, name, option=False, help=help, lines=(line,))


def _option(spec: Spec, parameter: Parameter) -> Argument | None:
    name, kind, help = parameter.name, parameter.kind, parameter.description
    word = "" if parameter.word is None else f'b"{parameter.word.decode()}"'
    match kind:
        case None:
            # Deliveries come with all there is to know: the headers say how to read the body.
            return _option_of("", "", "", f'words.option_word("{name.upper()}")')
        case Pair():
            name, line = "headers", f'words.option_pairs({word}, "header", marked)'
            return _option_of(name, f"{name}: Mapping[str, str] | None = None", "Names and values.", line)
        case Choice() if kind.bare:
            line = f"words.option_word({name})"
        case Choice():
            line = f'words.option_text({word}, "{name}", {name})'
        case Duration() if name == "wait":
            help = "Seconds to wait if nothing is ready; `math.inf` for ever, None not at all."
            return _option_of(name, f"{name}: float | None = None", help, "")
        case Duration():
            zero = ", zero=True" if kind.zero else ""
            line = f'words.option_duration({word}, "{name.rstrip("_")}", {name}{zero})'
        case DurationOrNone():
            line = f'words.option_duration({word}, "{name}", {name})'
        case Fraction():
            line = f'words.option_fraction({word}, "{name}", {name})'
        case Integer():
            line = f'words.option_integer({word}, "{name}", {name})'
        case _ if parameter.multiple:
            name = PLURALS[parameter.name]
            line = f'words.option_blobs({word}, "{name}", {name})'
            return _option_of(name, f"{name}: Sequence[bytes] = ()", "Blobs beside the body.", line)
        case _:
            line = f'words.option_text({word}, "{name}", {name})'
    seconds = " Seconds." if isinstance(kind, Duration | DurationOrNone) else ""
    if spec.name == "QPUT" and name == "id":
        help = "The message's id; one is made if there is none, so that it can be sent again."
    if name == "reqid":
        help = "A key under which it may be sent again without taking more; one is made if there is none."
    return _option_of(name, f"{name}: {_option_type(parameter)} | None = None", help + seconds, line)


def _option_of(name: str, declared: str, help: str, line: str) -> Argument:
    return Argument(name, declared, f"{name}={name}", option=True, help=help, lines=(line,) if line else ())


def _option_type(parameter: Parameter) -> str:
    match parameter.kind:
        case Choice() as choice:
            return _literal(choice)
        case Duration() | DurationOrNone() | Fraction():
            return "float"
        case Integer():
            return "int"
        case _:
            return "str"


def _literal(choice: Choice) -> str:
    return "Literal[" + ", ".join(f'"{word}"' for word in choice.words) + "]"
