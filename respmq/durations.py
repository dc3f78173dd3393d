"""Durations as users write them: `0.5`, `30`, `250ms`, `5m`, `2h`, `1d`."""

from __future__ import annotations

import re

from respmq.errors import InvalidRequestError, quote

MAX_DURATION = 3650 * 86_400_000
_DURATION = re.compile(rb"([0-9]+)(?:\.([0-9]+))?(ms|s|m|h|d)?")
#: More digits than these can't make a difference to a number of milliseconds.
_DIGITS = 18
_UNITS = {b"ms": 1, b"s": 1_000, None: 1_000, b"m": 60_000, b"h": 3_600_000, b"d": 86_400_000}


def parse_duration(value: bytes, name: str, *, zero: bool) -> int:
    """A duration in milliseconds. What is above 0 and below a millisecond counts as one.

    Raises:
        InvalidRequestError: not a duration, above 3650 days, or 0 where that means nothing.
    """
    # Nearly always a whole number, alone or with a unit.
    scale = _UNITS.get(value[-1:])
    if value.endswith(b"ms"):
        digits, scale = value[:-2], 1
    elif scale is None:
        digits, scale = value, 1_000
    else:
        digits = value[:-1]
    if digits.isdigit() and len(digits) <= _DIGITS:
        millis = int(digits) * scale
        if millis <= MAX_DURATION and (millis or zero):
            return millis
    match = _DURATION.fullmatch(value)
    whole = b"" if match is None else match[1].lstrip(b"0")
    if match is not None and len(whole) <= _DIGITS:
        fraction = (match[2] or b"").rstrip(b"0")
        if len(fraction) > _DIGITS:
            # Still above 0, and cut below what counts.
            fraction = fraction[:_DIGITS] + b"1"
        # Exact: a float would make 0.001 a millisecond more or less in places.
        scaled = int(whole + fraction or b"0") * _UNITS[match[3]]
        unit = 10 ** len(fraction)
        millis = scaled // unit or min(scaled, 1)
        if millis <= MAX_DURATION and scaled <= MAX_DURATION * unit and (millis or zero):
            return millis
    bounds = "from 0 to 3650d" if zero else "above 0 and at most 3650d"
    msg = (
        f"invalid duration '{quote(value)}' for {name}: seconds, or one number with one of the units ms, s, m, h, d, "
        f"such as 30, 0.5 or 250ms, {bounds}"
    )
    raise InvalidRequestError(msg)
