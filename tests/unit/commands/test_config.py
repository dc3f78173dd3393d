"""CONFIG: reading and changing settings, and writing them back."""

import dataclasses
from pathlib import Path

import pytest

from respmq.config import FIELDS, load_config
from tests.unit.rig import Rig, Talker, Word


def test_get_is_a_map_of_what_matches(client: Talker, client3: Talker) -> None:
    pairs = b"$10\r\nmaxclients\r\n$5\r\n10000\r\n$7\r\ntimeout\r\n$1\r\n0\r\n"
    assert client.cmd("CONFIG", "GET", "MAXCL*", "timeout", "nope", "maxclients") == b"*4\r\n" + pairs
    assert client3.cmd("CONFIG", "GET", "maxclient?", "timeout") == b"%2\r\n" + pairs
    assert (client.cmd("CONFIG", "GET", "nope"), client3.cmd("CONFIG", "GET", "nope")) == (b"*0\r\n", b"%0\r\n")
    assert client.error("CONFIG", "GET").startswith("ERR wrong number of arguments for 'config|get' command")


def test_get_of_everything_names_every_setting(client: Talker) -> None:
    reply = client.cmd("CONFIG", "GET", "*")
    assert all(b"\r\n%b\r\n" % name.encode() in reply for name in FIELDS)


def test_what_stock_clients_ask_for(client: Talker) -> None:
    assert client.cmd("CONFIG", "GET", "save") == b"*2\r\n$4\r\nsave\r\n$0\r\n\r\n"
    assert client.cmd("CONFIG", "GET", "appendonly") == b"*2\r\n$10\r\nappendonly\r\n$2\r\nno\r\n"
    assert client.cmd("CONFIG", "GET", "databases") == b"*2\r\n$9\r\ndatabases\r\n$1\r\n1\r\n"


@pytest.mark.parametrize(
    ("given", "shown"), [("90d", "7776000"), ("250ms", "0.25"), ("1234567.891", "1234567.891"), ("0", "0")]
)
def test_durations_are_shown_in_seconds_exactly(given: str, shown: str, client: Talker) -> None:
    client.cmd("CONFIG", "SET", "timeout", given)
    assert client.cmd("CONFIG", "GET", "timeout").endswith(b"$%d\r\n%b\r\n" % (len(shown), shown.encode()))


def test_set_changes_several_at_once(rig: Rig, client: Talker) -> None:
    assert client.cmd("CONFIG", "SET", "TIMEOUT", "5m", "max-message-size", "2kb") == b"+OK\r\n"
    assert rig.state.config.timeout == 300_000
    assert client.cmd("CONFIG", "GET", "timeout") == b"*2\r\n$7\r\ntimeout\r\n$3\r\n300\r\n"
    client.cmd("QDECLARE", "q")
    assert client.error("QPUT", "q", "x" * 2_049).startswith("TOOBIG")


@pytest.mark.parametrize(
    ("args", "error"),
    [
        (("timeout", "7", "nope", "1"), "ERR Unknown option or number of arguments for CONFIG SET - 'nope'"),
        (("timeout", "7", "maxclient", "1"), "did you mean 'maxclients'?"),
        (
            ("timeout", "7", "maxclients", "x"),
            "ERR CONFIG SET failed (possibly related to argument 'maxclients') - a number from 1 to",
        ),
        (
            ("timeout", "7", "timeout", "8"),
            "ERR CONFIG SET failed (possibly related to argument 'timeout') - duplicate parameter",
        ),
        (
            ("timeout", "7", "port", "1"),
            "ERR CONFIG SET failed (possibly related to argument 'port') - can't set immutable config",
        ),
        (
            ("timeout", "7", "save", ""),
            "ERR CONFIG SET failed (possibly related to argument 'save') - can't set immutable config",
        ),
        (("timeout", "7", "loglevel", b"\xff"), "argument must be UTF-8 text"),
        (("timeout", "7", "maxclients"), "ERR syntax error"),
        (("timeout",), "ERR wrong number of arguments for 'config|set' command"),
    ],
)
def test_set_changes_everything_or_nothing(args: tuple[Word, ...], error: str, rig: Rig, client: Talker) -> None:
    assert error in client.error("CONFIG", "SET", *args)
    assert rig.state.config.timeout == 0


@pytest.mark.parametrize(
    "number", ["1_0", " 10", "10 ", "+10", "\u0661\u0660", "\uff11\uff10", "0x10", "1e1", "-", "", "9" * 5_000]
)
@pytest.mark.parametrize("setting", ["maxclients", "slowlog-log-slower-than", "max-message-size", "timeout"])
def test_a_number_is_made_of_digits(setting: str, number: str, rig: Rig, client: Talker) -> None:
    before = rig.state.config.maxclients
    assert client.error("CONFIG", "SET", setting, number.encode()).startswith("ERR CONFIG SET failed")
    assert rig.state.config.maxclients == before


def test_a_number_may_have_a_sign_where_it_may_be_below_0(rig: Rig, client: Talker) -> None:
    assert client.cmd("CONFIG", "SET", "slowlog-log-slower-than", "-1", "maxclients", "0010") == b"+OK\r\n"
    assert (rig.state.config.slowlog_log_slower_than, rig.state.config.maxclients) == (-1, 10)


def test_a_password_holds_for_new_connections(rig: Rig, client: Talker) -> None:
    client.cmd("CONFIG", "SET", "requirepass", "sesame")
    assert client.cmd("PING") == b"+PONG\r\n"
    late = rig.connect()
    assert late.cmd("PING") == b"-NOAUTH Authentication required.\r\n"
    assert late.cmd("AUTH", "sesame") == b"+OK\r\n"
    assert client.cmd("CONFIG", "GET", "requirepass") == b"*2\r\n$11\r\nrequirepass\r\n$6\r\nsesame\r\n"
    stranger = rig.connect()
    assert stranger.cmd("PING") == b"-NOAUTH Authentication required.\r\n"
    client.cmd("CONFIG", "SET", "requirepass", "")
    assert stranger.cmd("PING") == b"+PONG\r\n"
    assert rig.connect().cmd("PING") == b"+PONG\r\n"


def test_resetstat_counts_anew(client: Talker) -> None:
    client.all(("PING",), ("PING",), ("NOPE",), ("PING", "a", "b"))
    assert client.cmd("CONFIG", "RESETSTAT") == b"+OK\r\n"
    text = client.text("INFO", "stats", "commandstats", "errorstats")
    assert "total_commands_processed:1\r\n" in text
    assert "total_error_replies:0\r\n" in text
    assert "cmdstat_ping" not in text
    assert "errorstat_" not in text


def test_rewrite_without_a_file(client: Talker) -> None:
    assert client.error("CONFIG", "REWRITE").startswith("ERR The server is running without a config file")


def test_rewrite_keeps_the_file_and_changes_the_settings(rig: Rig, client: Talker, tmp_path: Path) -> None:
    path = tmp_path / "respmq.toml"
    path.write_text("# ours\nmaxclients = 500  # enough\n")
    path.chmod(0o640)
    rig.state.config.path = str(path)
    client.cmd("CONFIG", "SET", "maxclients", 600, "timeout", "250ms", "requirepass", "p")
    assert client.cmd("CONFIG", "REWRITE") == b"+OK\r\n"
    expected = '# ours\nmaxclients = 600  # enough\nrequirepass = "p"\ntimeout = "250ms"\n'
    assert path.read_text() == expected
    assert path.stat().st_mode & 0o777 == 0o640
    assert load_config(str(path), {}) == dataclasses.replace(rig.state.config, changed=set())
    assert [entry.name for entry in tmp_path.iterdir()] == ["respmq.toml"]


def test_rewrite_says_why_it_cannot(rig: Rig, client: Talker, tmp_path: Path) -> None:
    path = tmp_path / "respmq.toml"
    rig.state.config.path = str(path)
    assert client.error("CONFIG", "REWRITE").startswith("ERR Rewriting config file: No such file or directory")
    path.write_text("maxclients = \n")
    error = client.error("CONFIG", "REWRITE")
    assert error.startswith("ERR Rewriting config file: ")
    assert "no TOML" in error
    assert path.read_text() == "maxclients = \n"
