"""The sessions on the pages are always checked; with the real redis-cli too where it is on the machine, never a skip.

RESPMQ_REQUIRE_CLIENTS=1, which CI sets, makes it an error if a program that a page uses is missing.
"""

from __future__ import annotations

import os
import shutil
from typing import Final

import pytest

from tests.docs.story import NODE_MODULES

LACKING: Final = [
    name
    for name, there in {
        "redis-cli": shutil.which("redis-cli") is not None,
        "node": shutil.which("node") is not None,
        "the Node clients (run `npm ci` in tests/clients/node)": NODE_MODULES.is_dir(),
    }.items()
    if not there
]
collect_ignore: Final = ["test_redis_cli.py"] if "redis-cli" in LACKING else []

if LACKING and os.environ.get("RESPMQ_REQUIRE_CLIENTS") == "1":
    raise pytest.UsageError(f"RESPMQ_REQUIRE_CLIENTS=1, but the tests of the docs lack {', '.join(LACKING)}")


def pytest_report_collectionfinish() -> list[str]:
    return [f"tests/docs: not all programs of the pages are run, there is no {name}" for name in LACKING]
