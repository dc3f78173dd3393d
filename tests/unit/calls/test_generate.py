"""codegen: respmq/calls/ is what the command table says, and `--check` finds what is not."""

from __future__ import annotations

import inspect
import shutil
from pathlib import Path

import pytest

from respmq.calls import queues
from respmq.calls.methods import AsyncCommands, Commands
from respmq.codegen import generate, table
from respmq.codegen.module import NOTICE
from respmq.commands.flags import FLAGS

SPECS = table.specs()
OURS = [name for commands in table.MODULES.values() for name in commands]
METHODS = [
    name for module, commands in table.MODULES.items() if module not in table.WITHOUT_METHODS for name in commands
]


@pytest.fixture
def copy(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A copy of respmq/calls/ that the generator takes for the real one."""
    folder = tmp_path / "calls"
    shutil.copytree(generate.CALLS, folder)
    monkeypatch.setattr(generate, "CALLS", folder)
    return folder


def test_the_checked_in_files_are_what_the_table_says(capsys: pytest.CaptureFixture[str]) -> None:
    assert generate.main(["--check"]) == 0, capsys.readouterr().err


def test_check_finds_what_is_out_of_date(copy: Path, capsys: pytest.CaptureFixture[str]) -> None:
    module = copy / "messages.py"
    good = module.read_text(encoding="utf-8")
    module.write_text(good.replace("priority", "urgency"), encoding="utf-8")
    (copy / "old.py").write_text(f'"""{NOTICE}"""\n', encoding="utf-8")
    assert generate.main(["--check"]) == 1
    assert capsys.readouterr().err.count("is out of date") == 2
    assert generate.main([]) == 0
    assert module.read_text(encoding="utf-8") == good
    assert not (copy / "old.py").exists()
    assert generate.main(["--check"]) == 0


def test_other_arguments_are_refused(capsys: pytest.CaptureFixture[str]) -> None:
    assert generate.main(["--help"]) == 2
    assert "usage: python -m respmq.codegen.generate [--check]" in capsys.readouterr().err


def test_no_command_of_our_own_is_left_out() -> None:
    """A new command has to be entered in respmq/codegen/table.py, or be one that Redis has."""
    redis_has = {"topic": {"PUBLISH", "SPUBLISH", "SUBSCRIBE", "PSUBSCRIBE", "SSUBSCRIBE"}}
    for name, spec in SPECS.items():
        ours = spec.group in {"queue", "message", "dead letter", "consumer", "exchange"} or name.startswith("Q")
        ours = ours or name == "DEBUG ADVANCE"
        if ours and not name.endswith(" HELP") and name != "QUIT":
            assert name in OURS
        elif spec.group in redis_has:
            assert name not in OURS
    assert set(OURS) <= set(SPECS)


@pytest.mark.parametrize("name", METHODS)
def test_both_kinds_of_client_have_a_method_for_each_command(name: str) -> None:
    method = name.lower().replace(" ", "_")
    blocking, awaited = getattr(Commands, method), getattr(AsyncCommands, method)
    assert inspect.signature(blocking) == inspect.signature(awaited)
    assert inspect.iscoroutinefunction(awaited)
    assert not inspect.iscoroutinefunction(blocking)
    assert inspect.getdoc(blocking) == inspect.getdoc(awaited)
    assert (inspect.getdoc(blocking) or "").startswith(SPECS[name].summary)


def test_what_may_be_sent_again_is_what_reads_or_is_listed() -> None:
    assert set(OURS) >= table.REPEATABLE
    assert not {name for name in table.REPEATABLE if "readonly" in SPECS[name].flags}
    assert queues.qstats().resend
    assert not queues.qpurge("jobs").resend
    assert "readonly" in FLAGS
