"""What stands in the place of a command that doesn't exist, so that its calls can be counted and shown like others."""

from __future__ import annotations

from respmq.commands.replies import OK
from respmq.commands.spec import build_spec


def _unknown(_context: object) -> None:
    """Stands for a command that doesn't exist."""


UNKNOWN = build_spec(
    "UNKNOWN",
    _unknown,
    reply=OK,
    since="0.1.0",
    group="server",
    errors=(),
    flags=frozenset(),
    categories=(),
    complexity="O(1)",
)
