"""What the server calls for its log; who starts the server decides what becomes of it."""

from __future__ import annotations

from typing import Literal, Protocol, TypeAlias

Level: TypeAlias = Literal["debug", "info", "warning", "error"]


class Notice(Protocol):
    """Takes an event: a fixed phrase, so that events can be counted and searched for, and details as keywords."""

    def __call__(self, event: str, *, level: Level = "info", **details: object) -> None:
        """Write a log line. `exc_info` is an exception whose traceback belongs to it."""
