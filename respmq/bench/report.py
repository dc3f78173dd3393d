"""What was found, as a table for people and as JSON for programs."""

from __future__ import annotations

import json
import math
from dataclasses import dataclass, field
from statistics import median
from typing import TYPE_CHECKING, Any, Final

from respmq.bench.rounds import MOST_SECONDS
from respmq.bench.targets import TARGETS, Mode

if TYPE_CHECKING:
    from collections.abc import Iterator

    from respmq.bench.load import Measurement
    from respmq.bench.rounds import Outcome, Settings

#: From which part of the time on that the client had something to do it is taken for the limit.
LIMIT: Final = 0.9
#: From which part of the time on that the client waited for a processor this is worth a word.
CROWDED: Final = 0.1
#: How many cycles a connection should go through: they tend to go through them together, so one more or less matters.
ENOUGH: Final = 10

_HEAD = ("", "jobs/s", "vs respmq", "spread", "p50 ms", "p99 ms", "client")
_LEGEND = """\
jobs/s     jobs that were put, leased and acked in a second
spread     how far the rounds are from their median, at most
p50, p99   how long a connection took for all three steps, with its {depth} jobs
client     how busy this client was; * if it had work to do {limit:.0%} of the time"""
_CLIENT_WAS_LIMIT = """\
* The client was the limit there and not the server, which can do more: servers
  may differ more than such lines show."""
_CROWDED = """\
The processors were shared: at worst this client waited for one for {waited:.0%} of the
time. Repeat it when nothing else runs."""
_SHORT = """\
Some measurements were too short to be exact: a connection went through
{cycles:.1f} cycles. Longer ones (--seconds {seconds}) or fewer --connections are better."""


@dataclass(frozen=True, slots=True)
class Summary:
    """The medians of all rounds.

    Args:
        rate: jobs a second.
        spread: by which part of the median the round that is farthest from it differs; None with one round.
        p50: the median time of a cycle, in seconds.
        p99: the time that one in a hundred cycles exceeded.
        busy: how busy the client was.
        waited: for which part of the time the client waited for a processor.
        cycles: how many cycles there were in the round that had the fewest.
    """

    rate: float
    spread: float | None
    p50: float
    p99: float
    busy: float
    waited: float
    cycles: int

    @property
    def client_was_limit(self) -> bool:
        """Whether the client could hardly have done more, whatever the server."""
        # While it waited for a processor it had something to do, too.
        return self.busy + self.waited >= LIMIT


def summarize(measurements: list[Measurement]) -> Summary:
    """The medians of at least one measurement."""
    rates = [one.rate for one in measurements]
    rate = median(rates)
    return Summary(
        rate=rate,
        spread=max(abs(one - rate) for one in rates) / rate if len(rates) > 1 else None,
        p50=median(one.p50 for one in measurements),
        p99=median(one.p99 for one in measurements),
        busy=median(one.busy for one in measurements),
        waited=median(one.waited for one in measurements),
        cycles=min(one.cycles for one in measurements),
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Report:
    """All that was found, and what it was found on.

    Args:
        settings: how it was measured.
        machine: processors, system and Python.
        servers: name and version of each kind of server that was measured, and where it keeps what it does.
        outcomes: what came out.
        notes: what has to be said beside it.
    """

    settings: Settings
    machine: str
    servers: dict[str, str]
    outcomes: list[Outcome]
    notes: list[str] = field(default_factory=list)

    @property
    def failed(self) -> bool:
        """Whether anything could not be measured."""
        return any(outcome.error is not None for outcome in self.outcomes)

    def table(self) -> str:
        """As people read it."""
        sections = [self._head(), self._rows()]
        depth = f"1 or {self.settings.depth}"
        sections.append(_LEGEND.format(depth=depth, limit=LIMIT))
        found = [summary for _, summary, _ in self._summaries() if summary is not None]
        if any(summary.client_was_limit for summary in found):
            sections.append(_CLIENT_WAS_LIMIT)
        waited = max((summary.waited for summary in found), default=0.0)
        if waited >= CROWDED:
            sections.append(_CROWDED.format(waited=waited))
        cycles = min((summary.cycles for summary in found), default=math.inf) / self.settings.connections
        if cycles < ENOUGH:
            seconds = min(MOST_SECONDS, math.ceil(self.settings.seconds * ENOUGH / cycles))
            sections.append(_SHORT.format(cycles=cycles, seconds=seconds))
        sections += self.notes
        failures = [
            f"not measured: {outcome.target.title}, {mode_title(outcome.mode, self.settings.depth)}: {outcome.error}"
            for outcome in self.outcomes
            if outcome.error is not None
        ]
        if failures:
            sections.append("\n".join(failures))
        return "\n\n".join(sections) + "\n"

    def json(self) -> str:
        """As programs read it."""
        settings = self.settings
        return json.dumps(
            {
                "machine": self.machine,
                "servers": self.servers,
                "connections": settings.connections,
                "depth": settings.depth,
                "body_bytes": settings.body,
                "seconds": settings.seconds,
                "rounds": settings.rounds,
                "results": [_result(*one) for one in self._summaries()],
                "notes": self.notes,
            },
            indent=2,
        )

    def _summaries(self) -> Iterator[tuple[Outcome, Summary | None, float | None]]:
        """Each outcome with its medians, and how many times as many jobs as with respmq."""
        first: dict[Mode, float] = {}
        for outcome in self.outcomes:
            summary = summarize(outcome.measurements) if outcome.measurements else None
            if summary is not None and outcome.target is TARGETS[0]:
                first[outcome.mode] = summary.rate
            base = first.get(outcome.mode)
            yield outcome, summary, summary.rate / base if summary is not None and base is not None else None

    def _head(self) -> str:
        settings = self.settings
        rounds = "one round" if settings.rounds == 1 else f"medians of {settings.rounds} rounds"
        return (
            f"{', '.join(self.servers.values())}\n"
            f"{self.machine}\n"
            f"{counted(settings.connections, 'connection')}, bodies of {counted(settings.body, 'byte')}, "
            f"{rounds} of {settings.seconds:g} s"
        )

    def _rows(self) -> str:
        rows: list[tuple[str, ...]] = [_HEAD]
        mode: Mode | None = None
        for outcome, summary, ratio in self._summaries():
            if outcome.mode is not mode:
                mode = outcome.mode
                rows.append((f"each connection with {mode_title(mode, self.settings.depth)}",))
            rows.append((f"  {outcome.target.title}", *_cells(summary, ratio)))
        return _aligned(rows)


def mode_title(mode: Mode, depth: int) -> str:
    """What a mode is called in the table."""
    return {
        Mode.SINGLE: "one job at a time",
        Mode.PIPELINED: f"{depth} jobs at a time, pipelined",
        Mode.BATCH: f"{depth} jobs at a time, many in one command",
    }[mode]


def counted(number: int, word: str) -> str:
    """A number of things."""
    return f"{number} {word}" if number == 1 else f"{number} {word}s"


def _cells(summary: Summary | None, ratio: float | None) -> tuple[str, ...]:
    if summary is None:
        return ("-",) * (len(_HEAD) - 1)
    return (
        f"{summary.rate:,.0f}",
        "-" if ratio is None else f"{ratio:.2f}x",
        "-" if summary.spread is None else f"{summary.spread:.0%}",
        f"{summary.p50 * 1000:.2f}",
        f"{summary.p99 * 1000:.2f}",
        f"{summary.busy:.0%}{'*' if summary.client_was_limit else ' '}",
    )


def _aligned(rows: list[tuple[str, ...]]) -> str:
    """Columns: the first one to the left, the others to the right. A row of one cell is a heading, as wide as it is."""
    widths = [max(map(len, column)) for column in zip(*(row for row in rows if len(row) > 1), strict=True)]
    lines: list[str] = []
    for first, *others in rows:
        cells = "".join(f"  {cell:>{width}}" for cell, width in zip(others, widths[1:], strict=False))
        lines.append(f"{first:{widths[0]}}{cells}".rstrip() if others else f"\n{first}")
    return "\n".join(lines)


def _result(outcome: Outcome, summary: Summary | None, ratio: float | None) -> dict[str, Any]:
    found: dict[str, Any] = {"target": outcome.target.key, "mode": outcome.mode.value, "error": outcome.error}
    if summary is not None:
        found |= {
            "jobs_per_second": round(summary.rate, 1),
            "ratio": None if ratio is None else round(ratio, 4),
            "spread": None if summary.spread is None else round(summary.spread, 4),
            **_times(summary),
            "client_was_limit": summary.client_was_limit,
            "rounds": [{"jobs_per_second": round(one.rate, 1), **_times(one)} for one in outcome.measurements],
        }
    return found


def _times(one: Summary | Measurement) -> dict[str, float | int]:
    return {
        "p50_ms": round(one.p50 * 1000, 4),
        "p99_ms": round(one.p99 * 1000, 4),
        "client_busy": round(one.busy, 4),
        "client_waited": round(one.waited, 4),
        "cycles": one.cycles,
    }
