"""Durations: each unit, exactness, bounds, and everything that is none."""

from __future__ import annotations

from decimal import ROUND_FLOOR, Decimal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from respmq.durations import MAX_DURATION, parse_duration
from respmq.errors import InvalidRequestError

UNITS = {"": 1_000, "ms": 1, "s": 1_000, "m": 60_000, "h": 3_600_000, "d": 86_400_000}


@pytest.mark.parametrize(
    ("text", "millis"),
    [
        *((b"0", 0), (b"0.0", 0), (b"0ms", 0), (b"0.000000000000000000d", 0), (b"00", 0)),
        *((b"30", 30_000), (b"0.5", 500), (b"250ms", 250), (b"5m", 300_000), (b"2h", 7_200_000), (b"1d", 86_400_000)),
        *((b"1s", 1_000), (b"1.5s", 1_500), (b"0.25h", 900_000), (b"1.5d", 129_600_000), (b"007", 7_000)),
        *((b"0.001", 1), (b"0.002", 2), (b"0.003", 3), (b"1.001", 1_001), (b"4.035", 4_035), (b"0.29", 290)),
        *((b"0.0004", 1), (b"0.0000001", 1), (b"0.000000000000000001", 1), (b"0.1ms", 1), (b"0.999ms", 1)),
        *((b"1.9ms", 1), (b"2.9999ms", 2), (b"0.0019", 1), (b"1.0009", 1_000)),
        *(
            (b"3650d", MAX_DURATION),
            (b"87600h", MAX_DURATION),
            (b"315360000", MAX_DURATION),
            (b"315360000000ms", MAX_DURATION),
        ),
        *((b"0" * 100_000, 0), (b"0" * 100_000 + b"1.5" + b"0" * 100_000, 1_500), (b"0." + b"0" * 100_000 + b"1", 1)),
        *((b"3650.0d", MAX_DURATION), (b"3649.999999999999999999d", MAX_DURATION - 1)),
    ],
)
def test_good_ones(text: bytes, millis: int) -> None:
    assert parse_duration(text, "WAIT", zero=True) == millis


@pytest.mark.parametrize(
    "text",
    [
        *(b"", b" ", b"1 ", b" 1", b"1 s", b"\n1", b"1\n", b"-1", b"+1", b"-0", b"1e3", b"1E3", b"0x1", b"1_0", b"1,5"),
        *(b".5", b"5.", b"1.2.3", b"s", b"ms", b".", b"1ss", b"1sm", b"1us", b"1ns", b"1w", b"1y", b"1min", b"1sec"),
        *(
            b"1S",
            b"1MS",
            b"1Ms",
            b"1H",
            b"1D",
            b"1M",
            b"nan",
            b"inf",
            b"none",
            b"1\x00",
            b"\xd9\xa1",
            b"\xef\xbc\x91",
            b"1\xff",
        ),
        *(
            b"3651d",
            b"3650.000000000000000001d",
            b"87601h",
            b"315360000.001",
            b"315360000000.1ms",
            b"9" * 18,
            b"9" * 400,
        ),
        *(b"1" + b"0" * 18, b"3650." + b"0" * 40 + b"1d", b"0" * 100_000 + b"x", b"0." + b"0" * 100_000 + b"x"),
    ],
)
def test_bad_ones(text: bytes) -> None:
    with pytest.raises(InvalidRequestError, match="invalid duration") as caught:
        parse_duration(text, "WAIT", zero=True)
    assert "for WAIT" in caught.value.text
    assert caught.value.text.isprintable()


@pytest.mark.parametrize("text", [b"0", b"0.0", b"0ms", b"0d"])
def test_0_is_allowed_only_where_it_means_something(text: bytes) -> None:
    assert parse_duration(text, "DELAY", zero=True) == 0
    with pytest.raises(InvalidRequestError, match="above 0 and at most 3650d"):
        parse_duration(text, "ACKTIMEOUT", zero=False)


@given(st.decimals(min_value=0, max_value=400_000_000, places=6), st.sampled_from(sorted(UNITS)))
def test_they_are_exact(value: Decimal, unit: str) -> None:
    text = f"{value}{unit}".encode()
    exact = value * UNITS[unit]
    if exact > MAX_DURATION:
        with pytest.raises(InvalidRequestError):
            parse_duration(text, "WAIT", zero=True)
        return
    wanted = int(exact.to_integral_value(ROUND_FLOOR)) or int(exact > 0)
    assert parse_duration(text, "WAIT", zero=True) == wanted
