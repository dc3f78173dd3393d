"""Disk faults on demand: what the tests say to the launcher, and what the launcher tells them."""

from __future__ import annotations

import contextlib
import json
import sys
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from tests.support import wait_until

#: The environment variable that names the folder of orders and traces.
FOLDER = "RESPMQ_TEST_FAULTS"

LAUNCHER = (sys.executable, "-m", "tests.crash.launcher")
"""The program that is run instead of `python -m respmq`."""


@dataclass(frozen=True, slots=True)
class Fault:
    """What one of the calls does from now on.

    Attributes:
        call: `pwrite`, `fdatasync`, `fsync`, `posix_fallocate` or `ftruncate`.
        error: the name of the errno that it fails with, such as `EIO`; empty: it doesn't fail.
        times: how often; below 0 always.
        skip: how many calls go well before.
        half: write half of what is asked before it fails.
        short: write half of what is asked, and say so.
        hold: wait, before that, until there are other orders.
        count: tell of each call.
    """

    call: str
    error: str = ""
    times: int = -1
    skip: int = 0
    half: bool = False
    short: bool = False
    hold: bool = False
    count: bool = False


class Disk:
    """The disk of a server that the launcher started; `folder` must be empty."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._orders = 0
        folder.mkdir()
        self.environment = {FOLDER: str(folder)}
        self.order()

    def order(self, *faults: Fault, quota: int | None = None) -> None:
        """From now on these faults happen, and no others; `quota` is the size in bytes that the disk has."""
        self._orders += 1
        order = {"number": self._orders, "faults": [asdict(fault) for fault in faults], "quota": quota}
        fresh = self._folder / "fresh"
        fresh.write_text(json.dumps(order))
        fresh.replace(self._folder / "orders")

    def heal(self) -> None:
        """No more faults."""
        self.order()

    def trace(self) -> list[dict[str, Any]]:
        """What has happened: calls that failed or were held, with the number of the order that said so."""
        path = self._folder / "trace"
        if not path.exists():
            return []
        return [json.loads(line) for line in path.read_text().splitlines()]

    def happened(self, event: str, call: str) -> int:
        """How often a call was `failed`, `held` or `counted` under the present orders."""
        return sum((line["event"], line["call"], line["order"]) == (event, call, self._orders) for line in self.trace())

    def wait_for(self, event: str, call: str) -> None:
        """Wait until it has happened under the present orders."""
        wait_until(lambda: self.happened(event, call) > 0, f"{call} {event}")


def used(data: Path) -> int:
    """How much of a disk the segments in a folder take, in bytes, while some may be deleted."""
    total = 0
    for path in data.glob("*.journal"):
        with contextlib.suppress(FileNotFoundError):
            total += path.stat().st_size
    return total
