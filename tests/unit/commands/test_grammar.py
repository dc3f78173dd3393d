"""A command's signature as its grammar: parsing, arity, keys, usage lines and error texts."""

from collections.abc import Callable
from typing import Annotated, Any, Literal

import pytest

from respmq.commands.arguments import BLOB, NONE_NEEDED, QUEUE, Blob, Described, QueueName
from respmq.commands.flags import acl_categories, check_names
from respmq.commands.kinds import Choice, Duration, Fraction, Integer, Pair, Several
from respmq.commands.registry import Table
from respmq.commands.replies import OK
from respmq.commands.spec import Spec, build_spec
from respmq.errors import InvalidRequestError


def spec_of(
    function: Callable[..., Any],
    name: str = "CMD",
    *,
    complaint: str = "",
    least: int = 0,
    flags: tuple[str, ...] = (),
    group: str = "server",
) -> Spec:
    return build_spec(
        name,
        function,
        reply=OK,
        since="0.1.0",
        group=group,
        errors=(),
        flags=frozenset(flags),
        categories=(),
        complexity="O(1)",
        complaint=complaint,
        least=least,
    )


def everything(
    ctx: object,
    queue: QueueName,
    body: Blob,
    *,
    id: Annotated[bytes | None, BLOB] = None,
    n: Annotated[int, Integer(least=1), Described("How many.")] = 1,
    delay: Annotated[int, Duration()] = 0,
    jitter: Annotated[float, Fraction()] = 0,
    mode: Annotated[Literal["A", "B"] | None, Choice(("A", "B"), bare=True)] = None,
    state: Annotated[Literal["UP", "DOWN"], Choice(("UP", "DOWN"))] = "UP",
    header: Annotated[tuple[tuple[bytes, bytes], ...], Pair(BLOB, BLOB, ("name", "value"))] = (),
    attach: Annotated[tuple[bytes, ...], BLOB] = (),
    number: Annotated[tuple[int, ...], Several(Integer(), "id")] = (),
    for_: Annotated[int | None, Duration()] = None,
    full: bool = False,
) -> None:
    """Does everything."""


SPEC = spec_of(everything)


def parse(spec: Spec, line: str) -> tuple[list[Any], dict[str, Any]]:
    return spec.grammar.parse(line.encode().split())


def error(spec: Spec, line: str) -> str:
    with pytest.raises(InvalidRequestError) as caught:
        parse(spec, line)
    return caught.value.text


def test_usage_shows_the_whole_grammar() -> None:
    assert SPEC.grammar.usage() == (
        "CMD queue body [ID id] [N n] [DELAY duration] [JITTER fraction] [A | B] [STATE <UP | DOWN>] "
        "[HEADER name value ...] [ATTACH attach ...] [NUMBER id [id ...]] [FOR duration] [FULL]"
    )
    assert SPEC.summary == "Does everything."


@pytest.mark.parametrize(
    ("line", "options"),
    [
        ("CMD q b", {}),
        ("CMD q b id x n 7", {"id": b"x", "n": 7}),
        ("CMD q b DELAY 250ms FOR 1 JITTER 0.5", {"delay": 250, "for_": 1000, "jitter": 0.5}),
        ("CMD q b a FULL", {"mode": "A", "full": True}),
        ("CMD q b STATE down", {"state": "DOWN"}),
        ("CMD q b HEADER x 1 HEADER y 2", {"header": ((b"x", b"1"), (b"y", b"2"))}),
        ("CMD q b ATTACH 1 FULL ATTACH 2", {"attach": (b"1", b"2"), "full": True}),
        ("CMD q b NUMBER 1 2 3 FULL", {"number": (1, 2, 3), "full": True}),
    ],
)
def test_options(line: str, options: dict[str, Any]) -> None:
    assert parse(SPEC, line) == ([b"q", b"b"], options)


@pytest.mark.parametrize(
    ("line", "text"),
    [
        ("CMD q", "wrong number of arguments for 'cmd' command, usage: CMD queue body "),
        ("CMD q b x", "syntax error: unknown option 'x' of CMD, it takes ID, N, DELAY, "),
        ("CMD q b ID", "syntax error: ID of CMD needs a value behind it"),
        ("CMD q b HEADER x", "syntax error: HEADER of CMD needs a name and value behind it"),
        ("CMD q b NUMBER FULL", "syntax error: NUMBER of CMD needs a id behind it"),
        ("CMD q b NUMBER 1 x", "value is not an integer or out of range: invalid NUMBER id 'x', "),
        ("CMD q b N 0", "value is not an integer or out of range: invalid N '0', at least 1 is wanted"),
        ("CMD q b N 1.0", "value is not an integer or out of range: invalid N '1.0', "),
        ("CMD q b ID x ID y", "syntax error: ID id of CMD is given twice"),
        ("CMD q b A B", "syntax error: CMD takes only one of A and B"),
        ("CMD q b STATE x", "syntax error: invalid STATE 'x', one of UP, DOWN is wanted"),
        ("CMD q b JITTER 1.1", "invalid JITTER '1.1': a number from 0 to 1 is wanted"),
    ],
)
def test_errors_name_the_argument_and_say_what_is_right(line: str, text: str) -> None:
    assert error(SPEC, line).startswith(text)


def test_arguments_by_place() -> None:
    def place(ctx: object, one: Blob, two: Annotated[int, Integer()] = 5) -> None: ...

    spec = spec_of(place)
    assert spec.grammar.arity == -2
    assert parse(spec, "CMD x") == ([b"x"], {})
    assert parse(spec, "CMD x 7") == ([b"x", 7], {})
    assert error(spec, "CMD x 7 y").startswith("wrong number of arguments for 'cmd' command")
    assert spec.grammar.usage() == "CMD one [two]"


def test_an_option_word_is_no_argument_by_place() -> None:
    def place(
        ctx: object, one: Annotated[bytes | None, BLOB] = None, *, option: Annotated[int, Integer()] = 0
    ) -> None: ...

    assert parse(spec_of(place), "CMD OPTION 1") == ([], {"option": 1})
    assert parse(spec_of(place), "CMD x OPTION 1") == ([b"x"], {"option": 1})


def test_several_arguments_by_place() -> None:
    def some(ctx: object, *names: Blob) -> None: ...

    def any_number(ctx: object, *names: Annotated[bytes, BLOB, NONE_NEEDED]) -> None: ...

    assert (spec_of(some).grammar.arity, spec_of(any_number).grammar.arity) == (-2, -1)
    assert (spec_of(some).grammar.usage(), spec_of(any_number).grammar.usage()) == (
        "CMD name [name ...]",
        "CMD [name ...]",
    )
    assert parse(spec_of(any_number), "CMD") == ([], {})
    assert error(spec_of(some), "CMD").startswith("wrong number of arguments")


def test_too_many_arguments_are_told_as_redis_tells_them() -> None:
    def fixed(ctx: object, one: Blob) -> None: ...

    def open_ended(ctx: object, one: Annotated[bytes | None, BLOB] = None) -> None: ...

    assert error(spec_of(fixed, "BOX CMD"), "BOX CMD a b").startswith(
        "wrong number of arguments for 'box|cmd' command, usage: BOX CMD one"
    )
    assert error(spec_of(open_ended, "BOX CMD"), "box cmd a b").startswith(
        "unknown subcommand or wrong number of arguments for 'cmd'. Try BOX HELP."
    )
    assert error(spec_of(open_ended, complaint="syntax error"), "CMD a b") == "syntax error: usage: CMD [one]"


def test_an_own_complaint_names_the_word() -> None:
    spec = spec_of(everything, complaint="Syntax error in option '{}'")
    assert error(spec, "CMD q b BOGUS").startswith("Syntax error in option 'BOGUS': ")
    assert error(spec, "CMD q b ID").startswith("Syntax error in option 'ID': ")


def test_more_arguments_may_be_needed_than_the_signature_says() -> None:
    def filters(
        ctx: object, one: Annotated[bytes | None, BLOB] = None, *, id: Annotated[int, Integer()] = 0
    ) -> None: ...

    spec = spec_of(filters, least=1)
    assert spec.grammar.arity == -2
    assert error(spec, "CMD").startswith("wrong number of arguments")
    assert parse(spec, "CMD ID 5") == ([], {"id": 5})


def test_choices_and_integers_in_redis_words() -> None:
    choice = Choice(("A", "B"), says="Unknown type '{}'")
    with pytest.raises(InvalidRequestError, match=r"^Unknown type 'x', one of A, B is wanted$"):
        choice.parse(b"x", "type")
    with pytest.raises(InvalidRequestError, match=r"^mode must be A or B: invalid mode 'x', one of"):
        Choice(("A", "B"), says="mode must be A or B").parse(b"x", "mode")
    with pytest.raises(InvalidRequestError, match=r"^Invalid client ID: invalid ID 'x', a signed 64-bit integer"):
        Integer(says="Invalid client ID").parse(b"x", "ID")


def test_which_calls_need_no_parsing() -> None:
    def raw(ctx: object, one: Blob, two: Annotated[bytes | None, BLOB] = None) -> None: ...

    def number(ctx: object, one: Annotated[int, Integer()]) -> None: ...

    def several(ctx: object, one: Blob, *more: Blob) -> None: ...

    assert SPEC.grammar.direct == (3, 3)
    assert spec_of(raw).grammar.direct == (2, 3)
    assert spec_of(raw, "BOX CMD").grammar.direct == (3, 4)
    low, high = spec_of(number).grammar.direct
    assert low > high
    low, high = spec_of(several).grammar.direct
    assert low == 3
    assert high > 1_000_000


def test_keys() -> None:
    def none(ctx: object, one: Blob) -> None: ...

    def two(ctx: object, source: QueueName, target: QueueName, body: Blob) -> None: ...

    def last(ctx: object, one: Blob, *queues: QueueName) -> None: ...

    def movable(ctx: object, *queues: QueueName, count: Annotated[int, Integer()] = 1) -> None: ...

    def optional(ctx: object, queue: Annotated[bytes | None, QUEUE] = None) -> None: ...

    assert spec_of(none).grammar.key_range == (0, 0, 0)
    assert spec_of(none).grammar.keys([b"CMD", b"x"]) == []
    assert spec_of(two).grammar.key_range == (1, 2, 1)
    assert spec_of(two).grammar.keys([b"CMD", b"a", b"b", b"c"]) == [b"a", b"b"]
    assert spec_of(two, "BOX CMD").grammar.key_range == (2, 3, 1)
    assert spec_of(last).grammar.key_range == (2, -1, 1)
    assert spec_of(last).grammar.keys([b"CMD", b"x", b"a", b"b"]) == [b"a", b"b"]
    assert (spec_of(movable).grammar.key_range, spec_of(movable).grammar.movable_keys) == ((1, 1, 1), True)
    assert spec_of(movable).grammar.keys([b"CMD", b"a", b"b", b"count", b"5"]) == [b"a", b"b"]
    assert spec_of(optional).grammar.keys([b"CMD"]) == []
    assert not spec_of(last).grammar.movable_keys


# -- categories and the table


def test_categories_follow_from_flags_and_group() -> None:
    assert acl_categories(spec_of(everything)) == ["slow"]
    assert acl_categories(spec_of(everything, flags=("admin", "fast"))) == ["admin", "fast", "dangerous"]
    written = spec_of(everything, flags=("write", "blocking"), group="message")
    assert acl_categories(written) == ["write", "queue", "slow", "blocking"]


def test_flags_and_categories_are_checked() -> None:
    check_names("CMD", frozenset({"write"}), ("dangerous",))
    with pytest.raises(ValueError, match="CMD has unknown flags or categories: noauth"):
        check_names("CMD", frozenset({"noauth"}), ())


def test_a_name_is_taken_once() -> None:
    table = Table()
    table.add_container("BOX", summary="A container.", group="server")
    table.add(spec_of(everything, "BOX CMD"))
    table.add(spec_of(everything))
    for name in ("BOX CMD", "CMD", "BOX HELP"):
        with pytest.raises(ValueError, match=f"the command {name} is defined twice"):
            table.add(spec_of(everything, name))
