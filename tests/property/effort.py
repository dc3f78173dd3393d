"""How long the property tests look: with `RESPMQ_PROPERTY_FACTOR=20` they try 20 times as many examples."""

from __future__ import annotations

import os

FACTOR = float(os.environ.get("RESPMQ_PROPERTY_FACTOR", "1"))


def examples(count: int) -> int:
    """`count`, or as many times more as was asked for."""
    return max(1, round(count * FACTOR))
