"""One module of respmq/calls/ as text, formatted as the formatter would."""

from __future__ import annotations

import re
import textwrap
from typing import TYPE_CHECKING

from respmq import errors
from respmq.codegen.arguments import Argument, arguments
from respmq.codegen.table import MODULES, RESULTS, STATS, WITHOUT_METHODS, Result, resend, specs

if TYPE_CHECKING:
    from collections.abc import Iterator

    from respmq.commands.spec import Spec

NOTICE = "Written by respmq/codegen/generate.py from the command table: change that, then run it."
_WIDTH = 120

#: Names that a module may need, and where they come from.
_IMPORTS = {
    "collections.abc": ("Mapping", "Sequence"),
    "typing": ("Literal", "overload"),
    "respmq.api.bodies": ("Body",),
    "respmq.api.messages": ("DeadLetter", "Delivery"),
    "respmq.api.results": ("BrokerStats", "PublishResult", "PutResult", "QueueStats"),
    "respmq.api.settings": ("QueueConfig",),
    "respmq.calls": ("decode",),
    "respmq.calls.call": ("Call", "Words"),
    "respmq.calls.decode": ("QueuedMessage",),
    "respmq.calls.runner": ("AsyncRunner", "Runner"),
    "respmq.core.exchanges": ("ExchangeKind",),
}


def module(name: str, commands: tuple[str, ...]) -> str:
    """The module with these commands."""
    table = specs()
    found = [table[command] for command in commands]
    parts = ["\n\n\n".join(_function(spec) for spec in found)]
    if name not in WITHOUT_METHODS:
        parts += [_class(name, found, awaited=False), _class(name, found, awaited=True)]
    code = "\n\n\n".join(parts) + "\n"
    first = f"{_shown(name)}: {commands[0]}" + (f" to {commands[-1]}." if len(commands) > 1 else ".")
    return f'"""{first}\n\n{NOTICE}\n"""\n\nfrom __future__ import annotations\n\n{_imports(code)}\n\n{code}'


def methods_module() -> str:
    """The module that puts the methods of all others together."""
    names = sorted(name for name in MODULES if name not in WITHOUT_METHODS)
    imports = "\n".join(
        f"from respmq.calls.{name} import {_class_name(name, awaited=True)}, {_class_name(name, awaited=False)}"
        for name in names
    )
    classes = "\n\n\n".join(_all_methods(names, awaited=awaited) for awaited in (False, True))
    head = f'"""All commands as methods.\n\n{NOTICE}\n"""\n\nfrom __future__ import annotations'
    return f"{head}\n\n{imports}\n\n\n{classes}\n"


def _all_methods(names: list[str], *, awaited: bool) -> str:
    bases = "".join(f"    {_class_name(name, awaited=awaited)},\n" for name in names)
    says = "that are awaited" if awaited else "that block"
    prefix = "Async" if awaited else ""
    return f'class {prefix}Commands(\n{bases}):\n    """Every command of the broker\'s own, as methods {says}."""'


def _imports(code: str) -> str:
    blocks: list[str] = []
    for group in (("collections.abc", "typing"), tuple(name for name in _IMPORTS if name.startswith("respmq"))):
        lines: list[str] = []
        for origin in group:
            used = [name for name in _IMPORTS[origin] if re.search(rf"(?<![\w.]){name}\b(?!=)", code)]
            if used:
                lines.append(f"from {origin} import {', '.join(used)}")
        if lines:
            blocks.append("\n".join(lines))
    return "\n\n".join(blocks) + "\n"


# -- functions that make calls -----------------------------------------------------------------------------------------


def _python_name(spec: Spec) -> str:
    return spec.name.lower().replace(" ", "_")


def _function(spec: Spec) -> str:
    """The function that makes the call of a command."""
    given = arguments(spec)
    name = _python_name(spec)
    lines: list[str] = []
    if spec.name == "QSTATS":
        for result in STATS.values():
            declared = _stats_arguments(given, result)
            head = _signature(name, declared, f"Call[{result.type}]", "")
            lines.append(f"@overload\n{head} ...")
        returns = " | ".join(f"Call[{result.type}]" for result in STATS.values())
    else:
        returns = f"Call[{RESULTS[spec.name].type}]"
    lines += [_signature(name, [a.declared for a in given if a.name], returns, "", stars=_star(given))]
    lines.append(f'    """{spec.summary}"""' if len(spec.summary) <= _WIDTH - 10 else f'    """{spec.name}."""')
    lines += textwrap.indent("\n".join(_body(spec, given)), "    ").splitlines()
    return "\n".join(lines)


def _body(spec: Spec, given: list[Argument]) -> Iterator[str]:
    if spec.name == "QPUT":
        yield "key = decode.new_key() if id is None else id"
    words = ", ".join(f'b"{word}"' for word in spec.name.split(" "))
    yield f"words = Words({words})"
    for argument in given:
        for line in argument.lines:
            if spec.name == "QPUT" and argument.name == "id":
                yield line.replace(", id)", ", key)")
            elif argument.name == "reqid":
                yield line.replace(", reqid)", ", decode.new_key() if reqid is None else reqid)")
            else:
                yield line
    again = f"resend={resend(spec)}"
    if spec.name == "QSTATS":
        yield "if queue is None:"
        yield f"    return Call(words.done(), decode.{STATS[False].decoder}, {again})"
        yield f"return Call(words.done(), decode.{STATS[True].decoder}, {again})"
        return
    decoder = f"decode.{RESULTS[spec.name].decoder}"
    if spec.name == "QPUT":
        decoder += "(key, made=id is None)"
    if "blocking" in spec.flags:
        again += ", wait=wait"
    yield f"return Call(words.done(), {decoder}, {again})"


def _stats_arguments(given: list[Argument], result: Result) -> list[str]:
    return [given[0].declared.partition(" | ")[0]] if result is STATS[True] else [f"{given[0].name}: None = None"]


# -- methods -----------------------------------------------------------------------------------------------------------


def _class_name(name: str, *, awaited: bool) -> str:
    return ("Async" if awaited else "") + name.removesuffix("s").capitalize() + "Commands"


def _class(name: str, found: list[Spec], *, awaited: bool) -> str:
    base = "AsyncRunner" if awaited else "Runner"
    says = "awaited" if awaited else "blocking"
    shown = _shown(name)
    methods = "\n\n".join(_method(spec, awaited=awaited) for spec in found)
    return f'class {_class_name(name, awaited=awaited)}({base}):\n    """{shown}, {says}."""\n\n{methods}'


def _shown(name: str) -> str:
    return {"dead": "Commands on dead letters", "server": "Commands on servers for tests"}.get(
        name, f"Commands on {name}"
    )


def _method(spec: Spec, *, awaited: bool) -> str:
    given = [argument for argument in arguments(spec) if argument.name]
    name = _python_name(spec)
    prefix, wait = ("async ", "await ") if awaited else ("", "")
    lines: list[str] = []
    if spec.name == "QSTATS":
        for result in STATS.values():
            head = _signature(name, ["self", *_stats_arguments(given, result)], result.type, "    ", prefix=prefix)
            lines.append(f"    @overload\n{head} ...")
        returns = " | ".join(result.type for result in STATS.values())
    else:
        returns = RESULTS[spec.name].type
    declared = ["self", *[argument.declared for argument in given]]
    lines.append(_signature(name, declared, returns, "    ", prefix=prefix, stars=_star(given, before=1)))
    lines += _docstring(spec, given)
    passed = ", ".join(argument.passed for argument in given)
    if spec.name == "QSTATS":
        lines.append(f"        if {given[0].name} is None:")
        lines.append(f"            return {wait}self._run_call({name}())")
    lines += _returned(f"{wait}self._run_call(", f"{name}({passed})", [argument.passed for argument in given], name)
    return "\n".join(lines)


def _returned(run: str, call: str, passed: list[str], name: str) -> Iterator[str]:
    """The statement that returns what a call comes to, broken as the formatter breaks it."""
    line = f"        return {run}{call})"
    if len(line) <= _WIDTH:
        yield line
        return
    yield f"        return {run}"
    inner = f"            {call}"
    if len(inner) <= _WIDTH:
        yield inner
    else:
        yield f"            {name}("
        inside = f"                {', '.join(passed)}"
        if len(inside) <= _WIDTH:
            yield inside
        else:
            yield from (f"                {item}," for item in passed)
        yield "            )"
    yield "        )"


def _docstring(spec: Spec, given: list[Argument]) -> Iterator[str]:
    raises = _raises(spec)
    yield f'        """{spec.summary}'
    if given:
        yield ""
        yield "        Args:"
        for argument in given:
            text = f"{argument.name.lstrip('*')}: {argument.help}"
            yield from textwrap.wrap(text, _WIDTH, initial_indent=" " * 12, subsequent_indent=" " * 16)
    yield ""
    yield "        Raises:"
    yield from textwrap.wrap(raises, _WIDTH, initial_indent=" " * 12, subsequent_indent=" " * 16)
    yield '        """'


def _raises(spec: Spec) -> str:
    classes = {
        error.code: name
        for name, error in vars(errors).items()
        if isinstance(error, type) and issubclass(error, errors.BrokerError) and "code" in vars(error)
    }
    named = [classes[word] for word in spec.errors]
    return ", ".join([*named, "InvalidRequestError, BrokerUnavailableError"]) + ": see there."


# -- signatures --------------------------------------------------------------------------------------------------------


def _star(given: list[Argument], before: int = 0) -> int | None:
    """Where the bare `*` stands: before the first option, unless something variadic stands there already."""
    named = [argument for argument in given if argument.name]
    options = [place for place, argument in enumerate(named) if argument.option]
    if not options or any(argument.name.startswith("*") for argument in named):
        return None
    return options[0] + before


def _signature(
    name: str, declared: list[str], returns: str, indent: str, *, prefix: str = "", stars: int | None = None
) -> str:
    parts = list(declared)
    if stars is not None:
        parts.insert(stars, "*")
    line = f"{indent}{prefix}def {name}({', '.join(parts)}) -> {returns}:"
    if len(line) <= _WIDTH - 4:
        return line
    inner = "".join(f"{indent}    {part},\n" for part in parts)
    return f"{indent}{prefix}def {name}(\n{inner}{indent}) -> {returns}:"
