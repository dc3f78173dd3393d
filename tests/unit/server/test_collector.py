"""The garbage collector stops everybody while it works, so it must not look at much at a time."""

from __future__ import annotations

import subprocess
import sys

_PROGRAM = """
import gc
from respmq.server.app import spare_collector

looked_at = []

def note(phase, info):
    if phase == "start":
        looked_at.append(sum(len(gc.get_objects(generation=each)) for each in range(info["generation"] + 1)))

spare_collector()
gc.callbacks.append(note)
kept = [[] for _ in range(1_200_000)]
print(len(looked_at), max(looked_at))
"""


def test_no_collection_looks_at_much_however_much_is_kept() -> None:
    """In a process of its own, as the server has one: what is set holds for all of it."""
    done = subprocess.run([sys.executable, "-c", _PROGRAM], capture_output=True, text=True, check=True, timeout=60)
    collections, most = map(int, done.stdout.split())
    assert collections > 10
    assert most < 100_000
