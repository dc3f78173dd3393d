"""A function's signature as a command's grammar: parser, arity, keys, usage."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Annotated, Any, Literal

import pytest

from respmq.commands.arguments import BLOB, HEADER_NAME, NONE_NEEDED, QUEUE, Described
from respmq.commands.grammar import UNBOUNDED, Grammar
from respmq.commands.kinds import Choice, Duration, Integer, Pair, Several
from respmq.commands.replies import ANY
from respmq.commands.spec import Spec, build_spec
from respmq.errors import InvalidRequestError

Queue = Annotated[bytes, QUEUE, Described("A queue.")]
Blob = Annotated[bytes, BLOB, Described("Bytes.")]


def spec_of(function: Callable[..., Any], name: str = "CMD", **more: Any) -> Spec:
    return build_spec(
        name,
        function,
        reply=ANY,
        since="0.1.0",
        group="g",
        errors=(),
        flags=frozenset(),
        categories=(),
        complexity="O(1)",
        **more,
    )


def grammar_of(function: Callable[..., Any], name: str = "CMD", **more: Any) -> Grammar:
    return spec_of(function, name, **more).grammar


def nothing(ctx: object) -> None:
    """Does nothing.

    And says more about it.
    """


def one(ctx: object, queue: Queue) -> None:
    """Takes one."""


def perhaps(ctx: object, queue: Queue, count: Annotated[int, Integer(), Described("How many.")] = 7) -> None:
    """Takes one or two."""


def several(ctx: object, queue: Queue, *leases: Blob) -> None:
    """Takes one or more."""


def any_number(ctx: object, *ids: Annotated[bytes, BLOB, NONE_NEEDED]) -> None:
    """Takes any number."""


def options(
    ctx: object,
    *queues: Queue,
    count: Annotated[int, Integer(least=1), Described("How many.")] = 1,
    for_: Annotated[int | None, Duration(), Described("How long.")] = None,
    mode: Annotated[Literal["REJECT", "RELEASE"] | None, Choice(("REJECT", "RELEASE"), bare=True)] = None,
    state: Annotated[str, Choice(("READY", "LEASED"))] = "READY",
    header: Annotated[tuple[tuple[bytes, bytes], ...], Pair(HEADER_NAME, BLOB, ("name", "value"))] = (),
    attach: Annotated[tuple[bytes, ...], BLOB] = (),
    lib_name: Annotated[bytes | None, BLOB] = None,
    full: bool = False,
) -> None:
    """Takes options."""


def some(
    ctx: object, *, id: Annotated[tuple[int, ...], Several(Integer(), "client-id")] = (), full: bool = False
) -> None:
    """Takes several values behind a word."""


def parse(grammar: Grammar, line: bytes) -> tuple[list[Any], dict[str, Any]]:
    return grammar.parse(line.split(b" "))


def error(grammar: Grammar, line: bytes) -> str:
    with pytest.raises(InvalidRequestError) as caught:
        parse(grammar, line)
    return caught.value.text


def test_the_summary_is_the_first_line() -> None:
    assert spec_of(nothing).summary == "Does nothing."


@pytest.mark.parametrize(
    ("function", "name", "arity", "usage"),
    [
        (nothing, "CMD", 1, "CMD"),
        (nothing, "BOX SUB", 2, "BOX SUB"),
        (one, "CMD", 2, "CMD queue"),
        (one, "BOX SUB", 3, "BOX SUB queue"),
        (perhaps, "CMD", -2, "CMD queue [count]"),
        (several, "CMD", -3, "CMD queue lease [lease ...]"),
        (any_number, "CMD", -1, "CMD [id ...]"),
        (
            options,
            "CMD",
            -2,
            (
                "CMD queue [queue ...] [COUNT n] [FOR duration] [REJECT | RELEASE] [STATE <READY | LEASED>] "
                "[HEADER name value ...] [ATTACH attach ...] [LIB-NAME lib_name] [FULL]"
            ),
        ),
        (some, "CMD", -1, "CMD [ID client-id [client-id ...]] [FULL]"),
    ],
)
def test_arity_and_usage(function: Callable[..., Any], name: str, arity: int, usage: str) -> None:
    grammar = grammar_of(function, name)
    assert grammar.arity == arity
    assert grammar.usage() == usage


def test_arguments_by_place() -> None:
    assert parse(grammar_of(nothing), b"CMD") == ([], {})
    assert parse(grammar_of(one), b"CMD q") == ([b"q"], {})
    assert parse(grammar_of(one, "BOX SUB"), b"BOX SUB q") == ([b"q"], {})
    assert parse(grammar_of(perhaps), b"CMD q") == ([b"q"], {})
    assert parse(grammar_of(perhaps), b"CMD q 5") == ([b"q", 5], {})
    assert parse(grammar_of(several), b"CMD q a b c") == ([b"q", b"a", b"b", b"c"], {})
    assert parse(grammar_of(any_number), b"CMD") == ([], {})


@pytest.mark.parametrize(
    ("function", "line"),
    [
        *(
            (nothing, b"CMD x"),
            (one, b"CMD"),
            (one, b"CMD a b"),
            (perhaps, b"CMD"),
            (perhaps, b"CMD a 1 2"),
            (several, b"CMD"),
        ),
        *((several, b"CMD q"), (options, b"CMD"), (options, b"CMD COUNT 1"), (options, b"CMD full")),
    ],
)
def test_too_few_and_too_many(function: Callable[..., Any], line: bytes) -> None:
    grammar = grammar_of(function)
    assert error(grammar, line) == f"wrong number of arguments for 'cmd' command, usage: {grammar.usage()}"


def test_a_subcommand_is_named_as_redis_names_it() -> None:
    grammar = grammar_of(one, "BOX SUB")
    assert error(grammar, b"BOX SUB") == "wrong number of arguments for 'box|sub' command, usage: BOX SUB queue"


def test_options_in_any_order_and_case() -> None:
    wanted = ([b"q", b"r"], {"count": 5, "for_": 1_500, "mode": "RELEASE", "state": "LEASED", "full": True})
    for line in (
        b"CMD q r COUNT 5 FOR 1.5 RELEASE STATE LEASED FULL",
        b"CMD q r full state leased release for 1500ms count 5",
    ):
        assert parse(grammar_of(options), line) == wanted
    assert parse(grammar_of(options), b"CMD q Lib-Name x") == ([b"q"], {"lib_name": b"x"})


def test_repeated_options_keep_their_order() -> None:
    values, given = parse(grammar_of(options), b"CMD q ATTACH a HEADER n 1 ATTACH b HEADER n 2")
    assert values == [b"q"]
    assert given == {"attach": (b"a", b"b"), "header": ((b"n", b"1"), (b"n", b"2"))}


def test_a_value_may_look_like_an_option() -> None:
    assert parse(grammar_of(options), b"CMD q ATTACH COUNT HEADER FULL COUNT COUNT 2") == (
        [b"q"],
        {"attach": (b"COUNT",), "header": ((b"FULL", b"COUNT"),), "count": 2},
    )


def test_several_values_behind_a_word() -> None:
    assert parse(grammar_of(some), b"CMD ID 1 2 3 FULL") == ([], {"id": (1, 2, 3), "full": True})
    assert error(grammar_of(some), b"CMD ID") == "syntax error: ID of CMD needs a client-id behind it"
    assert error(grammar_of(some), b"CMD ID full") == "syntax error: ID of CMD needs a client-id behind it"
    assert "invalid ID client-id 'x'" in error(grammar_of(some), b"CMD ID 1 x")


@pytest.mark.parametrize(
    ("line", "text"),
    [
        (b"CMD q COUNT", "syntax error: COUNT of CMD needs a value behind it"),
        (b"CMD q HEADER n", "syntax error: HEADER of CMD needs a name and value behind it"),
        (b"CMD q COUNT 1 COUNT 1", "syntax error: COUNT n of CMD is given twice"),
        (b"CMD q FULL full", "syntax error: FULL of CMD is given twice"),
        (b"CMD q REJECT RELEASE", "syntax error: CMD takes only one of REJECT and RELEASE"),
        (
            b"CMD q FULL NONSENSE",
            "syntax error: unknown option 'NONSENSE' of CMD, it takes COUNT, FOR, REJECT, RELEASE, ",
        ),
        (b"CMD q COUNT 0", "value is not an integer or out of range: invalid COUNT '0', at least 1 is wanted"),
        (b"CMD q STATE x", "syntax error: invalid STATE 'x', one of READY, LEASED is wanted"),
        (b"CMD q FOR 0", "invalid duration '0' for FOR"),
    ],
)
def test_bad_options(line: bytes, text: str) -> None:
    assert error(grammar_of(options), line).startswith(text)


def test_an_empty_header_name_is_refused() -> None:
    with pytest.raises(InvalidRequestError, match="invalid HEADER name: a header name is 1 to 255 bytes"):
        grammar_of(options).parse([b"CMD", b"q", b"HEADER", b"", b"value"])


def test_redis_own_words() -> None:
    grammar = grammar_of(options, complaint="Unrecognized option '{}'")
    assert error(grammar, b"CMD q FULL x").startswith("Unrecognized option 'x': ")


def test_a_least_number_of_arguments() -> None:
    grammar = grammar_of(some, least=2)
    assert grammar.arity == -3
    assert error(grammar, b"CMD FULL").startswith("wrong number of arguments")
    assert parse(grammar, b"CMD ID 1") == ([], {"id": (1,)})


# -- Keys


@pytest.mark.parametrize(
    ("function", "name", "where", "movable"),
    [
        (nothing, "CMD", (0, 0, 0), False),
        (one, "CMD", (1, 1, 1), False),
        (one, "BOX SUB", (2, 2, 1), False),
        (several, "CMD", (1, 1, 1), False),
        (options, "CMD", (1, 1, 1), True),
        (any_number, "CMD", (0, 0, 0), False),
    ],
)
def test_where_the_keys_are(
    function: Callable[..., Any], name: str, where: tuple[int, int, int], movable: bool
) -> None:
    grammar = grammar_of(function, name)
    assert grammar.key_range == where
    assert grammar.movable_keys is movable


def test_which_the_keys_are() -> None:
    assert grammar_of(options).keys(b"CMD a b COUNT 5 FULL".split()) == [b"a", b"b"]
    assert grammar_of(several).keys(b"CMD q l1 l2".split()) == [b"q"]
    assert grammar_of(one, "BOX SUB").keys(b"BOX SUB q".split()) == [b"q"]
    assert grammar_of(nothing).keys([b"CMD"]) == []


# -- Calls that need no parsing


@pytest.mark.parametrize(
    ("function", "low", "high"),
    [
        (nothing, 1, 1),
        (one, 2, 2),
        (several, 3, UNBOUNDED),
        (options, 2, 2),
        (perhaps, 1, 0),
        (any_number, 1, UNBOUNDED),
    ],
)
def test_how_many_words_are_passed_on_as_they_are(function: Callable[..., Any], low: int, high: int) -> None:
    """Whatever is passed on without parsing is what parsing would have given."""
    grammar = grammar_of(function)
    assert grammar.direct == (low, high)
    for count in range(low, min(high, 5) + 1):
        words = [b"CMD", *(b"%d" % i for i in range(count - 1))]
        assert grammar.parse(words) == (words[1:], {})


def test_very_many_options_take_linear_time() -> None:
    grammar = grammar_of(options)

    def cost(count: int) -> float:
        words = [b"CMD", b"q", *[b"ATTACH", b"x"] * count, *[b"HEADER", b"n", b"v"] * count]
        began = time.process_time()
        _, given = grammar.parse(words)
        assert len(given["attach"]) == len(given["header"]) == count
        return time.process_time() - began

    cost(100)
    assert min(cost(20_000) for _ in range(3)) < 35 * max(min(cost(2_000) for _ in range(5)), 0.0005)
