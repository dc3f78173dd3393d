from __future__ import annotations

import pytest

from conformance.play import FreshNames
from conformance.text import Clock, Pattern, VectorError, encode, in_range

CLOCK = Clock(lambda: 1_000_000, tolerance_ms=2)


@pytest.mark.parametrize(
    ("text", "data"),
    [
        ("plain", b"plain"),
        (r"\x00\xff\r\n\t\0\\", b"\x00\xff\r\n\t\0\\"),
        ("ü", b"\xc3\xbc"),
        ("{a}-{b}", b"1-\xff"),
        (r"\x7ba}", b"{a}"),
        ("{A} {} {1}", b"{A} {} {1}"),
        ("<any> stays", b"<any> stays"),
    ],
)
def test_sent_strings(text: str, data: bytes) -> None:
    assert encode(text, {"a": b"1", "b": b"\xff"}) == data


@pytest.mark.parametrize("text", [r"\q", r"\x0", "\\", "{unknown}"])
def test_sent_strings_that_are_mistakes(text: str) -> None:
    with pytest.raises(VectorError):
        encode(text, {})


@pytest.mark.parametrize(
    ("text", "data", "right"),
    [
        ("abc", b"abc", True),
        ("abc", b"abcd", False),
        ("a.c", b"abc", False),
        ("<any>", b"", True),
        ("<any>", b"\r\n\xff", True),
        ("<some>", b"", False),
        ("<word>", b"a b", False),
        ("<int>", b"-12", True),
        ("<int>", b"1.5", False),
        ("<number>", b"1.5", True),
        ("<hex32>", b"0" * 32, True),
        ("<hex32>", b"0" * 31, False),
        ("<hex4>", b"beef", True),
        ("<hex4>", b"BEEF", False),
        ("<1..5>", b"5", True),
        ("<1..5>", b"6", False),
        ("<-1.5..0>", b"-1.2", True),
        ("id=<int> x", b"id=7 x", True),
        ("<time>", b"1000002", True),
        ("<time>", b"1000003", False),
        ("<time+30s>", b"1030000", True),
        ("<time+0.5s>", b"1000500", True),
        ("<time-1m>", b"940000", True),
        ("<time+1h>", b"1000000", False),
        (r"\x3cint>", b"<int>", True),
    ],
)
def test_holes(text: str, data: bytes, *, right: bool) -> None:
    assert Pattern(text, {}).match(data, {}, CLOCK) is right


@pytest.mark.parametrize("text", ["<what>", "<int as >", "<int as A>", "<>", "<time+3>", "<1...5>"])
def test_holes_that_are_mistakes(text: str) -> None:
    with pytest.raises(VectorError):
        Pattern(text, {})


def test_captures_are_kept_only_if_everything_matches() -> None:
    names: dict[str, bytes] = {"i": b"3"}
    pattern = Pattern("<int as a> <0..9 as b{i}>", names)
    assert not pattern.match(b"1 10", names, CLOCK)
    assert names == {"i": b"3"}
    assert pattern.match(b"1 9", names, CLOCK)
    assert names == {"i": b"3", "a": b"1", "b3": b"9"}


def test_a_captured_value_is_literal() -> None:
    names = {"l": b"a.*\\x00<any>\xff"}
    assert encode("{l}", names) == names["l"]
    assert Pattern("{l}", names).match(names["l"], names, CLOCK)
    assert not Pattern("{l}", names).match(b"abc", names, CLOCK)


def test_fresh_names() -> None:
    first, second = FreshNames(), FreshNames()
    made = {first["q"], first["q1"], second["q"], second["q1"]}
    assert len(made) == 4
    assert first["q"] == first["q"]
    assert all(len(name) == 16 and name.isalnum() and name.islower() for name in made)
    assert sorted(first.queues()) == sorted([first["q"], first["q1"]])
    with pytest.raises(VectorError):
        encode("{lease}", first)


@pytest.mark.parametrize(
    ("value", "text", "right"), [(1, "1", True), (1, "1.0", True), (2, "1..3", True), (4, "1..3", False)]
)
def test_ranges(value: float, text: str, *, right: bool) -> None:
    assert in_range(value, text) is right


def test_a_range_that_is_none() -> None:
    with pytest.raises(VectorError):
        in_range(1, "some")
