"""The server's log: what `State.notice` calls, on standard error, as text for people or as one JSON object a line.

A log line never stops the server: if it can't be written (the reader of a pipe is gone, the disk is full), it is lost.
"""

from __future__ import annotations

import os
import time
from typing import TYPE_CHECKING, TextIO

import structlog
from structlog.dev import ConsoleRenderer, plain_traceback
from structlog.processors import JSONRenderer, TimeStamper, add_log_level, format_exc_info

from respmq.cli.ratelimit import RateLimiter

if TYPE_CHECKING:
    from collections.abc import Callable

    from structlog.typing import EventDict, Processor, WrappedLogger

    from respmq.config import Config
    from respmq.server.notice import Level

_LIMIT = 10
#: Seconds.
INTERVAL = 10.0

_SEVERITY: dict[str, int] = {"debug": 0, "info": 1, "warning": 2, "error": 3}


class Log:
    """The log of one server; call it with an event and its details.

    Args:
        config: `loglevel` is looked up for every event, so that CONFIG SET takes effect at once.
        stream: where the lines go; None, as `sys.stderr` is where it was closed, loses them.
        clock: seconds, for the limit of repeated events.
    """

    def __init__(self, config: Config, stream: TextIO | None, clock: Callable[[], float] = time.monotonic) -> None:
        self._config = config
        self._limiter = RateLimiter(_LIMIT, INTERVAL, clock)
        #: How serious the lines were that a summary may have to be written for.
        self._levels: dict[str, Level] = {}
        self._logger: structlog.BoundLogger = structlog.wrap_logger(
            _Lines(stream),
            processors=_processors(config.log_format, stream),
            wrapper_class=structlog.BoundLogger,
        )

    def __call__(self, event: str, *, level: Level = "info", **details: object) -> None:
        """Write a line, unless it isn't serious enough or the same event was repeated too often."""
        if _SEVERITY[level] < _SEVERITY[self._config.loglevel]:
            return
        self.summarize()
        if self._limiter.admit(event):
            self._levels[event] = level
            self._write(event, level, details)

    def summarize(self, *, all: bool = False) -> None:
        """Write how many lines were left out in intervals that are over (or in all)."""
        for event, count in self._limiter.take_left_out(all=all):
            self._write("lines left out", self._levels[event], {"about": event, "count": count})

    def _write(self, event: str, level: Level, details: dict[str, object]) -> None:
        write: Callable[..., object] = getattr(self._logger, level)
        write(event, **details)


def _processors(log_format: str, stream: TextIO | None) -> list[Processor]:
    stamp = TimeStamper(fmt="iso", utc=True)
    if log_format == "json":
        return [add_log_level, stamp, format_exc_info, _in_order, JSONRenderer()]
    colors = stream is not None and stream.isatty() and not os.environ.get("NO_COLOR")
    return [add_log_level, stamp, ConsoleRenderer(colors=colors, sort_keys=False, exception_formatter=plain_traceback)]


def _in_order(_logger: WrappedLogger, _method: str, event_dict: EventDict) -> EventDict:
    """What every line has first, then the details."""
    first = {key: event_dict.pop(key) for key in ("timestamp", "level", "event")}
    return {**first, **event_dict}


class _Lines:
    """Writes finished lines, as structlog's own loggers do, except that a failure loses the line."""

    def __init__(self, stream: TextIO | None) -> None:
        self._stream = stream

    def info(self, line: str) -> None:
        """Write a line."""
        if self._stream is None:
            return
        try:
            self._stream.write(line + "\n")
            self._stream.flush()
        except (OSError, ValueError):
            return

    debug = warning = error = info
