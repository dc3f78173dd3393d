"""Ctrl-C while the command line is still being loaded or the server prepared."""

from __future__ import annotations

import subprocess
import sys

import pytest

from tests.support.server import ROOT, START_DEADLINE

#: Runs the command line, which is interrupted when it comes to import a module.
_INTERRUPTED = """
import os, signal, sys
from respmq.__main__ import main

module, sys.argv = sys.argv[1], ["respmq", "serve", "--port", "0"]


class Interrupt:
    @staticmethod
    def find_spec(name, path=None, target=None):
        if name == module:
            os.kill(os.getpid(), signal.SIGINT)


sys.meta_path.insert(0, Interrupt)
main()
"""


@pytest.mark.parametrize(
    "module", ["respmq.cli", "click", "structlog", "respmq.server.app", "trio", "respmq.commands.messages"]
)
def test_an_interrupt_ends_it_without_a_word(module: str) -> None:
    """The last of these is imported when the server runs already, but doesn't listen to signals yet."""
    done = subprocess.run(
        [sys.executable, "-c", _INTERRUPTED, module],
        cwd=ROOT,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=START_DEADLINE,
        check=False,
    )
    assert (done.returncode, done.stdout, done.stderr) == (130, "", "")
