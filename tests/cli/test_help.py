"""What `respmq` says about itself."""

from __future__ import annotations

import pytest
from click.testing import CliRunner

from respmq import __version__
from respmq.cli import main
from respmq.config import FIELDS, kind_of


def say(*args: str, width: int = 80) -> str:
    result = CliRunner().invoke(main, args, prog_name="respmq", terminal_width=width)
    assert result.exit_code == 0, result.output
    return result.stdout


def test_version() -> None:
    assert say("--version") in {f"respmq {__version__}, compiled\n", f"respmq {__version__}, not compiled\n"}


@pytest.mark.parametrize("flag", ["-h", "--help"])
def test_the_commands(flag: str) -> None:
    said = say(flag)
    assert "Redis protocol" in said
    assert "serve" in said
    assert "demo" in said


@pytest.mark.parametrize("setting", FIELDS)
def test_every_setting_has_its_flag_form_help_and_default(setting: str) -> None:
    said = " ".join(say("serve", "--help").split())
    metadata = FIELDS[setting].metadata
    assert f"--{setting} {kind_of(setting).form} {metadata['help']} [" in said
    assert metadata["group"] + ":" in said


def test_defaults_are_shown_as_one_would_write_them() -> None:
    said = say("serve", "--help", width=200)
    for setting, default in {
        "port": "6390",
        "host": "127.0.0.1",
        "requirepass": "none",
        "heartbeat": "5s",
        "timeout": "0",
        "max-message-size": "16mb",
        "client-query-buffer-limit": "1gb",
        "maxmemory": "0",
        "auto-declare": "no",
        "unixsocketperm": "700",
    }.items():
        (line,) = [line for line in said.splitlines() if line.strip().startswith(f"--{setting} ")]
        assert line.endswith(f"[{default}]")


def test_forms_are_explained_and_there_is_an_example() -> None:
    said = say("serve", "--help")
    for words in ("DURATION is", "BYTES is", "RESPMQ_", "--config FILE", "Example:\n", "  respmq serve --port"):
        assert words in said


def test_it_fits_a_terminal() -> None:
    assert max(map(len, say("serve", "--help").splitlines())) <= 80
