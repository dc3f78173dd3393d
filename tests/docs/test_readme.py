"""The lines of README.md that CI runs are those that it finds, and only those."""

from __future__ import annotations

import re
import subprocess

import pytest

from tests.docs.markdown import blocks
from tests.support.server import ROOT

README = (ROOT / "README.md").read_text(encoding="utf-8")
RUN = (ROOT / ".ci" / "run").read_text(encoding="utf-8")


def found_by_ci(name: str) -> str:
    """What .ci/run takes from README.md to run it."""
    function = re.search(r"^readme_line\(\) \{\n.*?^\}\n", RUN, re.MULTILINE | re.DOTALL)
    assert function is not None
    script = f"set -euo pipefail\n{function[0]}readme_line {name}"
    done = subprocess.run(["bash", "-c", script], cwd=ROOT, capture_output=True, text=True, check=True)
    return done.stdout


@pytest.mark.parametrize("name", ["run-line", "test-line"])
def test_ci_runs_the_line_that_a_reader_sees(name: str) -> None:
    match = re.search(rf"^<!-- {name}:.*-->\n(```sh\n(.*)\n```\n)<!-- /{name} -->$", README, re.MULTILINE)
    assert match is not None
    assert found_by_ci(name) == match[2] + "\n"
    assert f"readme_line {name}" in RUN


def test_ci_runs_every_shell_line() -> None:
    shown = [block.text for block in blocks(README) if block.language == "sh"]
    assert shown == [found_by_ci("run-line"), found_by_ci("test-line")]
