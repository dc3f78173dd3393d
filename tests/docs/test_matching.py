"""The checker itself: what it must let pass, and what it must not."""

from __future__ import annotations

import textwrap
from pathlib import Path

import pytest

from tests.docs.matching import Matcher, MismatchError
from tests.docs.story import Story, StoryError
from tests.docs.terminals import ShownTerminal
from tests.docs.wire import parse, render
from tests.support import Double, Error, Map, Null, Push, Simple, Value, Verbatim
from tests.support.server import ROOT

ID, OTHER_ID = "01a22c2ed934700080004b36228bdf86", "01a22c2ed934700080014b36228bdf86"
REAL, OTHER_REAL = "01b000000000700080000000000000aa", "01b000000000700080010000000000aa"
LEASE, REAL_LEASE = "6e07cb9f8490-0000", "aaaaaaaaaaaa-0000"


def test_placeholders_stand_for_what_came_first() -> None:
    matcher = Matcher(exact=False)
    matcher.check(f'1) "{ID}"\n2) "{LEASE}"\n', f'1) "{REAL}"\n2) "{REAL_LEASE}"\n')
    assert matcher.real(f"QACK jobs {LEASE} 0{LEASE} {OTHER_ID}") == f"QACK jobs {REAL_LEASE} 0{LEASE} {OTHER_ID}"
    matcher.check(f'"{ID}"\n', f'"{REAL}"\n')
    matcher.check(f'"{OTHER_ID}"\n', f'"{OTHER_REAL}"\n')


@pytest.mark.parametrize(
    ("shown", "real"),
    [
        ("(integer) 1\n", "(integer) 2\n"),
        ("OK\n", "OK\nOK\n"),
        ("a.b\n", "axb\n"),
        ("", "OK\n"),
        (f'"{ID}"\n', '"no id"\n'),
        (f'"{LEASE}"\n', f'"{REAL}"\n'),
        ("(integer) 1796037597492\n", "(integer) 5\n"),
    ],
)
def test_what_differs_is_a_mismatch(shown: str, real: str) -> None:
    with pytest.raises(MismatchError):
        Matcher(exact=True).check(shown, real)


@pytest.mark.parametrize(("second", "came"), [(ID, OTHER_REAL), (OTHER_ID, REAL)])
def test_a_placeholder_stands_for_one_thing_and_one_thing_has_one_placeholder(second: str, came: str) -> None:
    matcher = Matcher(exact=False)
    matcher.check(f'"{ID}"\n', f'"{REAL}"\n')
    with pytest.raises(MismatchError):
        matcher.check(f'"{second}"\n', f'"{came}"\n')


def test_times_are_as_far_apart_as_the_real_ones() -> None:
    matcher = Matcher(exact=True)
    matcher.check("1796037597492 1796037627492\n", "1900000000000 1900000030000\n")
    matcher.check("1796037597493\n", "1900000000001\n")
    with pytest.raises(MismatchError):
        matcher.check("1796037597493\n", "1900000000002\n")
    Matcher(exact=False).check("1796037597492 1796037597492\n", "1900000000000 1900000000007\n")


def test_loose_means_any_number_but_no_other_text() -> None:
    matcher = Matcher(exact=False)
    matcher.check("process 17, Python 3.11.7\n", "process 4711, Python 3.12.1\n", loose=True)
    with pytest.raises(MismatchError):
        matcher.check("process 17\n", "thread 17\n", loose=True)
    with pytest.raises(MismatchError):
        matcher.check("process 17\n", "process x\n", loose=True)


def test_an_ellipsis_leaves_out_lines_or_items() -> None:
    matcher = Matcher(exact=False)
    matcher.check("a\n...\nd\n", "a\nb\nc\nd\n")
    matcher.check("{a: :1, ...}\n", "{a: :1, b: :2, c: :3}\n")
    with pytest.raises(MismatchError):
        matcher.check("a\n...\nd\n", "a\nb\nc\n")
    with pytest.raises(MismatchError):
        matcher.check("{a: :1, ...}\n", "{b: :1, c: :2}\n")


VALUES: list[tuple[Value, str, str]] = [
    (Simple(b"OK"), "+OK", "+OK"),
    (Error(b"ERR no, [really]"), "-ERR no, [really]", "-ERR no, [really]"),
    (5, ":5", ":5"),
    (b'a "b" \x00', '"a \\"b\\" \\x00"', '"a \\"b\\" \\x00"'),
    (Null.RESP3, "null", "null"),
    (Double(b"0.5"), ",0.5", '"0.5"'),
    (Verbatim(b"txt", b"text"), '="text"', '"text"'),
    ([], "[]", "[]"),
    ([1, [b"x", Null.RESP3], Simple(b"write")], '[:1, ["x", null], +write]', '[:1, ["x", null], +write]'),
    (Push((b"message", 1)), '>["message", :1]', '["message", :1]'),
    (Map(((b"a", 1), (b"b-c", Map(())))), "{a: :1, b-c: {}}", '["a", :1, "b-c", []]'),
]


@pytest.mark.parametrize(("value", "resp3", "resp2"), VALUES)
def test_the_notation_of_the_protocol_page(value: Value, resp3: str, resp2: str) -> None:
    assert render(value) == resp3
    assert parse(resp3).render(3) == resp3
    assert parse(resp3).render(2) == resp2


def test_values_may_take_several_lines() -> None:
    assert parse('[:1,\n  {a: "x  y",\n  b: :2}]').render(3) == '[:1, {a: "x  y", b: :2}]'


def test_values_without_an_end_are_refused() -> None:
    for text in ("[:1", "{a: :1", "[:1]]", "nonsense", ""):
        with pytest.raises(AssertionError):
            parse(text)


def play(folder: Path, text: str) -> None:
    page = ROOT / "docs" / "a-page-that-is-not-there.md"
    story = Story(page, folder, ShownTerminal, text=textwrap.dedent(text))
    story.play()


SERVE = """
    ```console
    $ respmq serve --virtual-clock
    respmq 0.0.0, process 1, Python 3.0.0
    Listening on 127.0.0.1:6390
    Time stands still; DEBUG ADVANCE moves it
    Try: redis-cli -p 6390 QDECLARE jobs
    ```
"""


@pytest.mark.parametrize(
    "wrong",
    [
        """
        ```console
        $ redis-cli -p 6390
        127.0.0.1:6390> PING
        OK
        ```
        """,
        """
        ```wire
        > PING
        "PONG"
        ```
        """,
        """
        ```resp
        C: PING\\r\\n
        S: +PONK\\r\\n
        ```
        """,
        """
        ```python
        print("one")
        ```

        ```output
        two
        ```
        """,
        """
        ```python
        raise ValueError
        ```
        """,
        """
        ```console
        $ echo one
        two
        ```
        """,
        """
        ```ruby
        puts 1
        ```
        """,
    ],
)
def test_a_page_that_is_wrong_fails(tmp_path: Path, wrong: str) -> None:
    with pytest.raises((StoryError, AssertionError)):
        play(tmp_path, textwrap.dedent(SERVE) + textwrap.dedent(wrong))


def test_a_page_that_is_right_passes(tmp_path: Path) -> None:
    right = """
        ```console
        $ redis-cli -3 -p 6390
        127.0.0.1:6390> QDECLARE jobs
        OK
        127.0.0.1:6390> QLEASE jobs WAIT 10s
        ```

        ```redis-cli other
        127.0.0.1:6390> DEBUG ADVANCE 10s
        OK
        ```

        ```redis-cli
        (empty array)
        ```
    """
    play(tmp_path, textwrap.dedent(SERVE) + textwrap.dedent(right))


@pytest.mark.parametrize(
    "page", ["```toml\nmaxclients = 'many'\n```\n", "```ini\n[Service]\nExecStart=/x/respmq serve --no\n```\n"]
)
def test_wrong_configurations_fail(tmp_path: Path, page: str) -> None:
    with pytest.raises(Exception, match=r"maxclients|no"):
        play(tmp_path, page)
