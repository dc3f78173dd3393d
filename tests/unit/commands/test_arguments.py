"""The kinds of arguments: what each takes, and what its error says."""

from __future__ import annotations

from typing import Any

import pytest

from respmq.commands.arguments import BLOB, COUNT, HEADER_NAME, MESSAGE_ID, OFFSET, QUEUE
from respmq.commands.kinds import Choice, Duration, DurationOrNone, Fraction, Integer, Kind
from respmq.errors import InvalidRequestError


def refused(kind: Kind[Any], value: bytes) -> str:
    """The text with which a value is refused."""
    with pytest.raises(InvalidRequestError) as caught:
        kind.parse(value, "NAME")
    assert caught.value.text.isprintable()
    assert len(caught.value.text) < 400
    return caught.value.text


@pytest.mark.parametrize("value", [b"", b"\x00\xff\r\n", b"x" * 100_000])
def test_bytes_are_taken_as_they_are(value: bytes) -> None:
    for kind in (BLOB, QUEUE):
        assert kind.raw
        assert kind.parse(value, "NAME") is value


def test_a_bounded_length() -> None:
    for kind, what in ((MESSAGE_ID, "a message id"), (HEADER_NAME, "a header name")):
        assert kind.parse(b"\xff", "ID") == b"\xff"
        assert kind.parse(b"x" * 255, "ID") == b"x" * 255
        for value in (b"", b"x" * 256):
            assert refused(kind, value) == f"invalid NAME: {what} is 1 to 255 bytes, this one is {len(value)}"


@pytest.mark.parametrize(
    ("value", "number"),
    [
        *((b"0", 0), (b"1", 1), (b"-1", -1), (b"9007199254740993", 9007199254740993)),
        *((b"9223372036854775807", 2**63 - 1), (b"-9223372036854775808", -(2**63))),
    ],
)
def test_integers(value: bytes, number: int) -> None:
    assert Integer().parse(value, "PRIORITY") == number


@pytest.mark.parametrize(
    "value",
    [
        *(
            b"",
            b" 1",
            b"1 ",
            b"+1",
            b"1.0",
            b"1e3",
            b"nan",
            b"0x1",
            b"1_0",
            b"--1",
            b"-",
            b"\xd9\xa1",
            b"1\n",
            b"1\x00",
        ),
        *(b"9223372036854775808", b"-9223372036854775809", b"9" * 100_000),
    ],
)
def test_what_is_no_integer(value: bytes) -> None:
    text = refused(Integer(), value)
    assert text.startswith("value is not an integer or out of range: invalid NAME '")
    assert text.endswith("', a signed 64-bit integer is wanted")


def test_integers_within_bounds() -> None:
    assert refused(COUNT, b"0").endswith("invalid NAME '0', at least 1 is wanted")
    assert refused(OFFSET, b"-1").endswith("invalid NAME '-1', at least 0 is wanted")
    assert (COUNT.parse(b"1", "COUNT"), OFFSET.parse(b"0", "OFFSET")) == (1, 0)
    assert refused(Integer(1, 5), b"6") == "value is not an integer or out of range: invalid NAME '6', 1 to 5 is wanted"
    assert refused(Integer(1, 5, says="Invalid DB index"), b"x").startswith("Invalid DB index: ")


def test_durations() -> None:
    assert Duration(zero=True).parse(b"0", "WAIT") == 0
    assert Duration().parse(b"1.5h", "LEASE") == 5_400_000
    assert "above 0" in refused(Duration(), b"0")
    for value in (b"none", b"NONE", b"None"):
        assert DurationOrNone().parse(value, "TTL") is None
    assert DurationOrNone().parse(b"5m", "TTL") == 300_000
    for value in (b"0", b"null", b""):
        assert "invalid duration" in refused(DurationOrNone(), value)


def test_fractions() -> None:
    for value, number in ((b"0", 0.0), (b"1", 1.0), (b"0.25", 0.25), (b"1.000", 1.0)):
        assert Fraction().parse(value, "RETRYJITTER") == number
    for value in (b"", b"1.01", b"2", b"-0.1", b".5", b"1.", b"1e-1", b"nan", b"inf", b"0,5", b"0" * 10_000 + b"x"):
        assert refused(Fraction(), value).endswith("a number from 0 to 1 is wanted")


def test_choices() -> None:
    kind = Choice(("REJECT", "DROPHEAD"))
    for value in (b"REJECT", b"reject", b"Reject"):
        assert kind.parse(value, "OVERFLOW") == "REJECT"
    assert refused(kind, b"DROP") == "syntax error: invalid NAME 'DROP', one of REJECT, DROPHEAD is wanted"
    for value in (b"", b"REJECT ", b"\xffREJECT", b"\xc4\xb1"):
        refused(kind, value)
    assert (
        refused(Choice(("ON", "OFF"), says="no such mode {}"), b"x\r")
        == "no such mode x\\x0d, one of ON, OFF is wanted"
    )
