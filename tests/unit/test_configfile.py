"""Settings written back into a configuration file: what changes, and that nothing else does."""

import dataclasses
import tomllib
from pathlib import Path

import pytest

from respmq.config import FIELDS, Config, load_config
from respmq.configfile import rewrite, updated

EVERYTHING = Config(
    host=("127.0.0.1", "::1"),
    port=0,
    unixsocket='/tmp/a "b" \\ c',
    unixsocketperm=0o770,
    requirepass="p\xe4ss\x7f\twort",
    maxclients=7,
    timeout=1_500,
    heartbeat=0,
    auto_declare=True,
    max_message_size=2_048,
    loglevel="debug",
    log_format="json",
    slowlog_log_slower_than=-1,
    virtual_clock=True,
    changed={"requirepass"},
)


def test_every_setting_survives(tmp_path: Path) -> None:
    path = tmp_path / "all.toml"
    path.write_text("")
    rewrite(EVERYTHING, str(path))
    assert dataclasses.replace(load_config(str(path), {}), path=None, changed={"requirepass"}) == EVERYTHING


def test_defaults_are_not_added() -> None:
    assert updated("", Config()) == ""


def test_what_says_the_same_already_stays_as_it_is() -> None:
    text = 'timeout = "5m"   # five\nhost = [\n  "127.0.0.1", # here\n  "::1",\n]\n\nmaxmemory = "1gb"\n'
    config = Config(timeout=300_000, host=("127.0.0.1", "::1"), maxmemory=1 << 30)
    assert updated(text, config) == text


def test_a_setting_that_went_back_to_its_default_is_written() -> None:
    assert updated("maxclients = 5\n", Config()) == "maxclients = 10000\n"


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("maxclients = 5", "maxclients = 6\n"),
        ("maxclients=5 # a # b\n", "maxclients = 6 # a # b\n"),
        ('"maxclients" = 5\r\n', "maxclients = 6\n"),
        ("# maxclients = 5\n", "# maxclients = 5\nmaxclients = 6\n"),
        ("timeout = 0", "timeout = 0\nmaxclients = 6\n"),
        ("\n\nmaxclients = 0x5\n\n", "\n\nmaxclients = 6\n\n"),
    ],
)
def test_a_changed_setting_keeps_its_place(before: str, after: str) -> None:
    assert updated(before, Config(maxclients=6)) == after


def test_a_hash_in_a_value_is_no_comment() -> None:
    changed = Config(requirepass="c#d", changed={"requirepass"})
    assert updated('requirepass = "a#b"  # secret\n', changed) == 'requirepass = "c#d"  # secret\n'


def test_a_secret_from_the_environment_stays_out_of_the_file() -> None:
    from_the_environment = Config(requirepass="s3cret", maxclients=6)
    assert updated("", from_the_environment) == "maxclients = 6\n"
    assert updated('requirepass = "old"\n', from_the_environment) == 'requirepass = "old"\nmaxclients = 6\n'


def test_a_value_of_several_lines_is_replaced_in_whole() -> None:
    text = 'host = [\n  "127.0.0.1",\n]  # where\nport = 1\n'
    assert updated(text, Config(host=("::1",), port=1)) == 'host = ["::1"]  # where\nport = 1\n'


def test_text_that_is_no_toml_is_refused() -> None:
    with pytest.raises(tomllib.TOMLDecodeError):
        updated("maxclients = \nport = 1\n", Config())


def test_a_failed_write_leaves_the_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "a.toml"
    path.write_text("maxclients = 5\n")

    def fail(descriptor: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("os.fsync", fail)
    with pytest.raises(OSError, match="No space left"):
        rewrite(Config(), str(path))
    assert path.read_text() == "maxclients = 5\n"
    assert [entry.name for entry in tmp_path.iterdir()] == ["a.toml"]


def test_a_link_to_the_file_stays_a_link(tmp_path: Path) -> None:
    path, link = tmp_path / "real.toml", tmp_path / "link.toml"
    path.write_text("maxclients = 5\n")
    link.symlink_to(path)
    rewrite(Config(maxclients=6), str(link))
    assert link.is_symlink()
    assert path.read_text() == "maxclients = 6\n"


def test_every_kind_of_setting_is_covered() -> None:
    given = {f.name for f in FIELDS.values() if getattr(EVERYTHING, f.name) != f.default}
    kinds = {type(f.metadata["kind"]) for f in FIELDS.values()}
    assert {type(FIELDS[name.replace("_", "-")].metadata["kind"]) for name in given} == kinds
