"""What docs/benchmarks.md shows is what `respmq bench` prints, and its lines are lines that the command understands.

The table itself isn't played, it takes half a minute: all but its numbers is compared.
"""

from __future__ import annotations

import re
import shlex

import pytest

from respmq.bench.load import Measurement
from respmq.bench.report import Report
from respmq.bench.rounds import Outcome, Settings
from respmq.bench.targets import TARGETS, Mode
from respmq.cli.bench import bench
from tests.docs.markdown import DOCS, blocks, pages

PAGE = (DOCS / "benchmarks.md").read_text(encoding="utf-8")
SAMPLE = next(block.text for block in blocks(PAGE) if block.text.startswith("$ respmq bench\n"))
LINES = sorted(
    {
        line.removeprefix("$ ").partition(" |")[0]
        for page in pages()
        for block in blocks(page.read_text(encoding="utf-8"))
        for line in block.lines
        if line.startswith("$ respmq bench")
    }
    | {match for page in pages() for match in re.findall(r"`(respmq bench[^`]*)`", page.read_text(encoding="utf-8"))}
)


def test_there_are_some() -> None:
    assert len(LINES) >= 4


@pytest.mark.parametrize("line", [line for line in LINES if "--help" not in line])
def test_the_command_understands_it(line: str) -> None:
    arguments = shlex.split(line)[2:]
    with bench.make_context("bench", arguments) as context:
        assert context.params["rounds"]


def test_its_options_are_told_of() -> None:
    for option in (name for parameter in bench.params for name in parameter.opts):
        assert f"{option}`" in PAGE or f"{option} " in PAGE, option


def without_numbers(text: str) -> str:
    """The text with every number, and what depends on how long it is, replaced."""
    return re.sub(r" +", " ", re.sub(r"[0-9][0-9.,]*|%\*", "N", text).replace("N%", "N").replace("NN", "N"))


def test_the_sample_is_what_is_printed() -> None:
    busy = 0.95 if "\n* The client" in SAMPLE else 0.5
    waited = 0.2 if "\nThe processors were shared" in SAMPLE else 0.0
    measurement = Measurement(cycles=10_000, rate=1000.0, p50=0.001, p99=0.002, busy=busy, waited=waited)
    report = Report(
        settings=Settings(),
        machine="2 processors, Linux x86_64, Python 3.11.7",
        servers={"respmq": "respmq 0.1.0 in memory", "redis": "redis 7.0.15 in memory"},
        outcomes=[Outcome(target, mode, [measurement] * 3) for mode in Mode for target in TARGETS],
    )
    assert without_numbers(SAMPLE) == without_numbers("$ respmq bench\n" + report.table())
