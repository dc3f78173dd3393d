"""The table of commands: each says all that is derived from it, and does what it says.

That each command has a conformance vector, `tests/conformance` asks of the running server.
"""

from __future__ import annotations

import inspect
import re

import pytest

import respmq
from respmq import errors
from respmq.commands.flags import acl_categories
from respmq.commands.registry import load
from respmq.commands.spec import Spec
from respmq.engine.memory import MemoryEngine
from respmq.errors import BrokerError
from tests.unit.rig import Rig

TABLE = load()
SPECS = {spec.name: spec for spec in TABLE.all_specs()}
NAMES = sorted(SPECS)

GROUPS = {
    *("queue", "message", "dead letter", "consumer", "topic", "exchange", "transaction", "connection", "server"),
    "durability",
}

#: The words of errors, apart from ERR, which any command may answer with.
ERROR_WORDS = {
    kind.code
    for _, kind in inspect.getmembers(errors, inspect.isclass)
    if issubclass(kind, BrokerError) and kind.code != "ERR"
}


@pytest.mark.parametrize("name", NAMES)
def test_a_command_says_what_it_is(name: str) -> None:
    spec = SPECS[name]
    assert re.fullmatch(r"[A-Z]+( [A-Z-]+)?", spec.name)
    assert re.fullmatch(r"[A-Z][^\n]*[a-zA-Z0-9)`]\.", spec.summary), spec.summary
    assert len(spec.summary) <= 120
    assert spec.group in GROUPS
    assert spec.reply.shape
    assert re.match(r"O\([^ ]+( log [^ ]+)?\)|Depends on ", spec.complexity), spec.complexity
    assert spec.function.__doc__ is not None


@pytest.mark.parametrize("name", NAMES)
def test_since_is_a_version_that_there_was(name: str) -> None:
    def numbers(version: str) -> list[int]:
        return [int(part) for part in version.split(".")[:3]]

    assert re.fullmatch(r"[0-9]+\.[0-9]+\.[0-9]+", SPECS[name].since)
    assert numbers(SPECS[name].since) <= numbers(respmq.__version__)


@pytest.mark.parametrize("name", NAMES)
def test_each_of_its_errors_is_one_that_exists(name: str) -> None:
    spec = SPECS[name]
    assert set(spec.errors) <= ERROR_WORDS
    assert len(set(spec.errors)) == len(spec.errors)
    parameters = {parameter.name for parameter in spec.grammar.positional if parameter.is_key}
    if parameters & {"queue"}:
        assert "INVALIDNAME" in spec.errors
        assert ("NOQUEUE" in spec.errors) == (name != "QDECLARE")
    if "denyoom" in spec.flags and spec.group == "message":
        assert {"OOM", "TOOBIG", "QUEUEFULL"} <= set(spec.errors)


@pytest.mark.parametrize("name", NAMES)
def test_each_of_its_arguments_is_described(name: str) -> None:
    spec = SPECS[name]
    for parameter in (*spec.grammar.positional, *spec.grammar.options):
        assert re.fullmatch(r"[A-Z0-9`][^\n]*\.", parameter.description), f"{parameter.name}: {parameter.description!r}"
        assert parameter.is_flag or parameter.kind is not None
    assert all(parameter.word for parameter in spec.grammar.options)
    assert not any(parameter.word for parameter in spec.grammar.positional)
    assert [parameter.multiple for parameter in spec.grammar.positional[:-1]] == [False] * max(
        len(spec.grammar.positional) - 1, 0
    )


@pytest.mark.parametrize("name", NAMES)
def test_its_flags_agree_with_each_other(name: str) -> None:
    spec = SPECS[name]
    assert not {"write", "readonly"} <= spec.flags
    assert "denyoom" not in spec.flags or "write" in spec.flags
    # Nor does what waits for something, or closes a connection whose messages go back.
    assert not ("stateless" in spec.flags and {"write", "blocking", "pubsub"} & spec.flags)
    if any(parameter.is_key for parameter in spec.grammar.positional) and spec.group not in {"transaction", "server"}:
        assert {"write", "readonly"} & spec.flags, "it has keys, so ACLs and CLIENT PAUSE have to know what it does"
    assert ("fast" in acl_categories(spec)) == ("fast" in spec.flags)
    assert len(acl_categories(spec)) >= 1


# -- Usage lines

WORD = r"[a-z0-9][a-z0-9_-]*"
#: `<A | B>` or `value`, perhaps with a second value behind it, perhaps `value [value ...]`.
VALUES = rf"(?:<[A-Z-]+(?: \| [A-Z-]+)*>|{WORD})(?: (?:{WORD}|\[{WORD} \.\.\.\]))?"
OPTION = re.compile(rf"\[(?:[A-Z-]+(?: {VALUES})?(?: \.\.\.)?|[A-Z-]+(?: \| [A-Z-]+)+)\]")
OPTIONAL = re.compile(rf"\[(?:{WORD}(?: {WORD})*(?: \.\.\.)?|<[A-Z-]+(?: \| [A-Z-]+)*>)\]")
NAME = re.compile(r"[A-Z]+(?:-[A-Z]+)*(?![a-z])")
REQUIRED = re.compile(rf"{WORD}|<[A-Z-]+(?: \| [A-Z-]+)*>")


def arity_of(usage: str) -> int:
    """Read a usage line; how many words a call has at least, negative if more may follow."""
    least, place, more = 0, 0, False
    while place < len(usage):
        rest = usage[place:]
        found = NAME.match(rest) or REQUIRED.match(rest)
        if found is not None:
            least += 1
        else:
            found = OPTION.match(rest) or OPTIONAL.match(rest)
            assert found is not None, f"{usage}: what is {rest!r}?"
            more = True
        place += found.end()
        assert usage[place : place + 1] in {"", " "}, usage
        place += 1
    return -least if more else least


@pytest.mark.parametrize("name", NAMES)
def test_its_usage_line_can_be_read_and_agrees_with_its_arity(name: str) -> None:
    spec = SPECS[name]
    assert spec.grammar.usage().startswith(spec.name)
    least = arity_of(spec.grammar.usage())
    # CLIENT KILL wants an address or an option: more than its grammar can say.
    assert least == spec.grammar.arity or (spec.grammar.least and abs(least) < abs(spec.grammar.arity))


@pytest.mark.parametrize("name", NAMES)
def test_its_option_words_are_told_apart(name: str) -> None:
    spec = SPECS[name]
    for word, parameter in spec.grammar.words.items():
        assert re.fullmatch(rb"[A-Z]+(-[A-Z]+)*", word)
        assert word.decode() in spec.grammar.usage()
        assert parameter in spec.grammar.options
    if (
        spec.grammar.positional
        and spec.grammar.positional[-1].is_key
        and spec.grammar.positional[-1].multiple
        and spec.grammar.words
    ):
        # A queue can't be called like the option that ends the list of queues.
        for word in spec.grammar.words:
            with pytest.raises(errors.InvalidNameError):
                Rig().state.engine.purge(word)


# -- Arity


def call(spec: Spec, count: int) -> str:
    """The error of a call with `count` words that all could be names."""
    rig = Rig(virtual_clock="yes") if spec.name.startswith("DEBUG") else Rig()
    words = (
        [*spec.name.split(" "), *["q"] * count][:count] if count >= spec.grammar.depth else spec.name.split(" ")[:count]
    )
    return rig.connect(resp=3).error(*words)


@pytest.mark.parametrize("name", [name for name in NAMES if abs(SPECS[name].grammar.arity) > SPECS[name].grammar.depth])
def test_with_too_few_words_it_answers_with_its_usage(name: str) -> None:
    spec = SPECS[name]
    for count in range(spec.grammar.depth, abs(spec.grammar.arity)):
        text = call(spec, count)
        assert text.startswith(f"ERR wrong number of arguments for '{name.lower().replace(' ', '|')}' command"), text
        assert text.endswith(f"usage: {spec.grammar.usage()}")


@pytest.mark.parametrize("name", [name for name in NAMES if SPECS[name].grammar.arity > 0])
def test_with_too_many_words_it_answers_with_its_usage(name: str) -> None:
    spec = SPECS[name]
    if name in TABLE.containers:
        assert "unknown subcommand" in call(spec, spec.grammar.arity + 1)
        return
    for count in (spec.grammar.arity + 1, spec.grammar.arity + 5):
        text = call(spec, count)
        assert "wrong number of arguments" in text or "syntax error" in text, text
        assert spec.grammar.usage() in text


# -- Containers, and the short ways


def test_a_container_has_its_subcommands_and_help() -> None:
    assert TABLE.containers
    for name, container in TABLE.containers.items():
        assert container.name == name
        assert "HELP" in container.subcommands
        assert len(container.subcommands) > 1
        assert container.group in GROUPS
        assert container.summary.endswith(".")
        assert all(spec.name == f"{name} {sub}" for sub, spec in container.subcommands.items())
        assert all(spec.group == container.group for spec in container.subcommands.values())


def test_the_short_way_of_a_command_takes_its_words() -> None:
    plain = {spec.name: spec.plain for spec in SPECS.values() if spec.plain is not None}
    assert plain
    for name, short in plain.items():
        parameters = list(inspect.signature(getattr(MemoryEngine, short.one)).parameters)[1:]
        assert len(parameters) == short.words - 1, name
        assert len(inspect.signature(getattr(MemoryEngine, short.stretch)).parameters) == 3
        low, high = SPECS[name].grammar.direct
        assert low <= short.words <= high


def test_the_commands_that_the_broker_is_for_are_there() -> None:
    for name in (
        *("QDECLARE", "QDELETE", "QPURGE", "QLIST", "QCONFIG", "QSTATS", "QPUT", "QMPUT", "QLEASE", "QACK", "QNACK"),
        *("QTOUCH", "QPEEK", "QSHOW", "QDEL", "QDEAD LIST", "QDEAD LEN", "QDEAD POP", "QDEAD REPLAY", "QDEAD PURGE"),
        *("QCONSUME", "QCANCEL", "PUBLISH", "QPUBLISH", "SUBSCRIBE", "PSUBSCRIBE", "QBIND", "QUNBIND", "QBINDINGS"),
        *("EXCHANGE DECLARE", "EXCHANGE PUBLISH", "MULTI", "EXEC", "DISCARD", "WATCH", "PING", "ECHO", "HELLO", "AUTH"),
    ):
        assert name in SPECS
