"""kill -9 at any moment, again and again, while clients work: nothing confirmed is lost, nothing settled comes back."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from tests.crash.effort import ROUNDS
from tests.crash.torture import Torture, report


@pytest.mark.parametrize(
    ("fsync", "power"),
    [("always", False), ("everysec", False), ("no", False), ("always", True)],
    ids=["always", "everysec", "no", "always, power cut"],
)
def test_what_was_confirmed_is_there(fsync: str, power: bool, tmp_path: Path) -> None:
    """Messages, leases with tokens, attempts and deadlines, REQIDs, counters, transactions; under `always` even if
    the machine loses its power, and with it all that was not on the disk.
    """
    rounds = max(ROUNDS if fsync == "always" and not power else ROUNDS // 2, 1)
    seed = random.randrange(1_000_000)
    torture = Torture(tmp_path / "data", fsync, seed, power=power)
    torture.run(rounds)
    print(f"seed {seed}, {torture.kills} kills: {report(torture.ledger)}")  # noqa: T201  # -s and failures show it
    assert torture.ledger.confirmed["put"] > 0
