"""What the runner prints: one line a file, then every failure with what was sent, expected and got."""

import json
from collections import Counter
from collections.abc import Iterable
from dataclasses import asdict

from conformance.play import FAILED, PASSED, SKIPPED, Result


def group_lines(results: Iterable[Result]) -> list[str]:
    """One line for each file of a pass, with its counts."""
    counts: dict[str, Counter[str]] = {}
    for result in results:
        counts.setdefault(result.file, Counter())[result.status] += 1
    return [f"  {file:<16}{_counts(count)}" for file, count in counts.items()]


def _counts(count: Counter[str]) -> str:
    parts = [f"{count[PASSED]:>4} passed"]
    if count[FAILED]:
        parts.append(f"{count[FAILED]:>4} FAILED")
    parts += [f"{count[status]:>4} {status}" for status in sorted(set(count) - {PASSED, FAILED})]
    return "".join(parts)


def failure_lines(result: Result, promise: str) -> list[str]:
    """A failure in full."""
    lines = [f"FAILED {result.file}/{result.name}  (RESP{result.protocol}, {result.cut})"]
    for label, text in (
        ("promise", promise),
        ("step", result.step),
        ("sent", result.sent),
        ("expected", result.expected),
        ("got", result.got),
    ):
        if text:
            lines.append(f"    {label:<9} {text}")
    return lines


def summary(results: list[Result]) -> str:
    """The last line."""
    count = Counter(result.status for result in results)
    text = f"{count[PASSED]} passed, {count[FAILED]} failed"
    if count[SKIPPED]:
        text += f", {count[SKIPPED]} not run: they need a server with --virtual-clock"
    others = sorted(set(count) - {PASSED, FAILED, SKIPPED})
    return text + "".join(f", {count[status]} {status}" for status in others)


def as_json(address: str, results: list[Result]) -> str:
    """Everything, for programs."""
    totals = Counter(result.status for result in results)
    found = {"server": address, "totals": totals, "results": [asdict(result) for result in results]}
    return json.dumps(found, indent=1)
