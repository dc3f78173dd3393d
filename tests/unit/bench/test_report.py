"""The table and the JSON, from made-up measurements."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

from respmq.bench.load import Measurement
from respmq.bench.report import Report
from respmq.bench.rounds import Outcome, Settings
from respmq.bench.targets import TARGETS, Mode

USUAL = Measurement(cycles=9000, rate=1000.0, p50=0.00234, p99=0.01, busy=0.5, waited=0.0)


def outcomes(*rates: float, measurement: Measurement = USUAL) -> list[Outcome]:
    """All targets in all modes, each with these rates, of which streams have a half and lists the double."""
    return [
        Outcome(target, mode, [replace(measurement, rate=factor * rate) for rate in rates])
        for mode in Mode
        for target, factor in zip(TARGETS, (1, 0.5, 2), strict=True)
    ]


def report(found: list[Outcome], *notes: str, rounds: int = 3) -> Report:
    return Report(
        settings=Settings(rounds=rounds),
        machine="2 processors, Linux x86_64, Python 3.11.7",
        servers={"respmq": "respmq 0.1.0 in memory", "redis": "redis 7.0.15 in memory"},
        outcomes=found,
        notes=list(notes),
    )


TABLE = """\
respmq 0.1.0 in memory, redis 7.0.15 in memory
2 processors, Linux x86_64, Python 3.11.7
50 connections, bodies of 64 bytes, medians of 3 rounds of 1 s

                 jobs/s  vs respmq  spread  p50 ms  p99 ms  client

each connection with one job at a time
  respmq         10,000      1.00x     20%    2.34   10.00    50%
  Redis Streams   5,000      0.50x     20%    2.34   10.00    50%
  Redis lists    20,000      2.00x     20%    2.34   10.00    50%

each connection with 16 jobs at a time, pipelined
  respmq         10,000      1.00x     20%    2.34   10.00    50%
  Redis Streams   5,000      0.50x     20%    2.34   10.00    50%
  Redis lists    20,000      2.00x     20%    2.34   10.00    50%

each connection with 16 jobs at a time, many in one command
  respmq         10,000      1.00x     20%    2.34   10.00    50%
  Redis Streams   5,000      0.50x     20%    2.34   10.00    50%
  Redis lists    20,000      2.00x     20%    2.34   10.00    50%

jobs/s     jobs that were put, leased and acked in a second
spread     how far the rounds are from their median, at most
p50, p99   how long a connection took for all three steps, with its 1 or 16 jobs
client     how busy this client was; * if it had work to do 90% of the time
"""


def test_the_table() -> None:
    assert report(outcomes(8000.0, 10000.0, 11000.0)).table() == TABLE


def test_it_fits_a_terminal() -> None:
    found = outcomes(1e6, measurement=replace(USUAL, busy=1.0, waited=0.99, cycles=1, p50=1.2, p99=12.3))
    assert max(map(len, report(found).table().splitlines())) <= 80


def test_one_round_has_no_spread() -> None:
    table = report(outcomes(1000.0), rounds=1).table()
    assert "one round of 1 s" in table
    assert "  respmq          1,000      1.00x       -    2.34   10.00    50%\n" in table


@pytest.mark.parametrize(("busy", "waited"), [(0.9, 0.0), (0.65, 0.3)])
def test_it_says_where_the_client_was_the_limit(busy: float, waited: float) -> None:
    found = outcomes(1000.0)
    found[2].measurements[0] = replace(USUAL, rate=2000.0, busy=busy, waited=waited)
    table = report(found).table()
    (marked,) = [row for row in table.splitlines() if row.endswith("%*")]
    assert marked.split() == ["Redis", "lists", "2,000", "2.00x", "-", "2.34", "10.00", f"{busy:.0%}*"]
    assert "* The client was the limit there and not the server" in table
    assert "* The client" not in report(outcomes(1000.0)).table()


def test_it_says_if_others_used_the_processors() -> None:
    found = outcomes(1000.0, measurement=replace(USUAL, waited=0.25))
    assert "waited for one for 25% of the" in report(found).table()
    found = outcomes(1000.0, measurement=replace(USUAL, waited=0.05))
    assert "processors were shared" not in report(found).table()


@pytest.mark.parametrize(("cycles", "seconds"), [(100, 5), (499, 2), (1, 60)])
def test_it_says_if_measurements_were_too_short(cycles: int, seconds: int) -> None:
    table = report(outcomes(1000.0, measurement=replace(USUAL, cycles=cycles))).table()
    assert f"a connection went through\n{cycles / 50:.1f} cycles. Longer ones (--seconds {seconds}) or" in table
    assert "too short" not in report(outcomes(1000.0, measurement=replace(USUAL, cycles=500))).table()


def test_what_could_not_be_measured_is_told_and_not_counted() -> None:
    found = outcomes(1000.0)
    found[1] = Outcome(TARGETS[1], Mode.SINGLE, error="ERR unknown command 'XADD'")
    made = report(found)
    assert made.failed
    assert "\n  Redis Streams       -          -       -       -       -       -\n" in made.table()
    assert made.table().endswith("\n\nnot measured: Redis Streams, one job at a time: ERR unknown command 'XADD'\n")
    result = json.loads(made.json())["results"][1]
    assert result == {"target": "streams", "mode": "single", "error": "ERR unknown command 'XADD'"}


def test_without_respmq_there_is_nothing_to_compare_with() -> None:
    found = outcomes(1000.0)
    found[0] = Outcome(TARGETS[0], Mode.SINGLE, error="OOM")
    rows = report(found).table().splitlines()
    assert "  Redis Streams     500          -       -    2.34   10.00    50%" in rows
    assert json.loads(report(found).json())["results"][1]["ratio"] is None


def test_respmq_alone() -> None:
    found = [outcome for outcome in outcomes(1000.0) if outcome.target is TARGETS[0]]
    table = report(found, "There is no redis-server.").table()
    assert "Redis Streams" not in table
    assert table.endswith("\n\nThere is no redis-server.\n")


def test_json() -> None:
    found = json.loads(report(outcomes(8000.0, 10000.0, 11000.0), "a note").json())
    results = found.pop("results")
    assert found == {
        "machine": "2 processors, Linux x86_64, Python 3.11.7",
        "servers": {"respmq": "respmq 0.1.0 in memory", "redis": "redis 7.0.15 in memory"},
        "connections": 50,
        "depth": 16,
        "body_bytes": 64,
        "seconds": 1.0,
        "rounds": 3,
        "notes": ["a note"],
    }
    assert [(one["target"], one["mode"]) for one in results] == [
        (target.key, mode.value) for mode in Mode for target in TARGETS
    ]
    times = {"p50_ms": 2.34, "p99_ms": 10.0, "client_busy": 0.5, "client_waited": 0.0, "cycles": 9000}
    assert results[2] == {
        "target": "lists",
        "mode": "single",
        "error": None,
        "jobs_per_second": 20000.0,
        "ratio": 2.0,
        "spread": 0.2,
        **times,
        "client_was_limit": False,
        "rounds": [{"jobs_per_second": rate, **times} for rate in (16000.0, 20000.0, 22000.0)],
    }
