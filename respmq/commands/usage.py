"""The grammar of commands in the notation of Redis' documentation."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from respmq.commands.kinds import Choice, Duration, DurationOrNone, Kind, Pair, Several

if TYPE_CHECKING:
    from respmq.commands.grammar import Parameter


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
    if isinstance(kind, Duration | DurationOrNone):
        return "duration"
    doc_type = kind.doc_type if isinstance(kind, Kind) else ""
    return {"integer": "n", "double": "fraction"}.get(doc_type, parameter.name.rstrip("_"))
