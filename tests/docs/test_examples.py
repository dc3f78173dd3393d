"""The programs in docs/examples, run as their readers would run them."""

import re
import subprocess
import sys

import pytest

from tests.support import ServerProcess
from tests.support.server import ROOT

EXAMPLES = ROOT / "docs" / "examples"
PATIENCE = 30.0

OUTPUT = {
    "audit_queue.py": r"""users\.login alice
\$sys\.dead\.jobs {"queue":"jobs","id":"[0-9a-f]{32}","reason":"rejected","error":"not an image","attempt":1,.*}
""",
    "fan_out.py": """3 queues got it
mail works on order 17: two tins of paint
billing works on order 17: two tins of paint
search-index works on order 17: two tins of paint
""",
}


def test_all_of_them_are_run() -> None:
    assert sorted(path.name for path in EXAMPLES.iterdir() if path.suffix == ".py") == sorted(OUTPUT)


@pytest.mark.parametrize("name", OUTPUT)
def test_example(name: str, fresh_server: ServerProcess) -> None:
    # Its own server: an audit queue would see the other tests, and they its binding.
    for _ in range(2):  # the second time everything is declared already
        done = subprocess.run(
            [sys.executable, EXAMPLES / name, str(fresh_server.port)],
            capture_output=True,
            text=True,
            timeout=PATIENCE,
            check=False,
        )
        assert (done.returncode, done.stderr) == (0, "")
        assert re.fullmatch(OUTPUT[name], done.stdout), done.stdout
