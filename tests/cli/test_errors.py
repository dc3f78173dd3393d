"""What a user can get wrong: a status, one message that says what would be right, never a traceback."""

from __future__ import annotations

import errno
import os
import re
import socket
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from click.testing import CliRunner

from respmq.cli import main
from respmq.config import Config, load_config
from tests.support import run_to_end


def fail(*args: str, env: dict[str, str] | None = None) -> tuple[int, str]:
    """The exit status and the message of a start that must fail; nothing else may have been said."""
    result = CliRunner().invoke(main, ["serve", *args], env=env)
    assert isinstance(result.exception, SystemExit), result.exception
    assert result.stdout == ""
    *_, message = result.stderr.splitlines()
    assert message.startswith("Error: ")
    return result.exit_code, message.removeprefix("Error: ")


@pytest.mark.parametrize(
    ("flags", "message"),
    [
        (("--data", ""), "invalid value '' of 'data' in --data: DIR is empty: leave the setting out for none"),
        (("--port", "x"), "invalid value 'x' of 'port' in --port: a number from 0 to 65535 is wanted"),
        (("--port", "65536"), "invalid value '65536' of 'port' in --port: a number from 0 to 65535 is wanted"),
        (
            ("--loglevel", "loud"),
            "invalid value 'loud' of 'loglevel' in --loglevel: one of debug, info, warning, error is wanted",
        ),
        (("--auto-declare", "often"), "invalid value 'often' of 'auto-declare' in --auto-declare: yes or no is wanted"),
        (
            ("--maxmemory", "1tb"),
            (
                "invalid value '1tb' of 'maxmemory' in --maxmemory: bytes are wanted, at least 0, such as 1048576, "
                "16mb or 1gb"
            ),
        ),
        (
            ("--timeout", "soon"),
            (
                "invalid value 'soon' of 'timeout' in --timeout: seconds are wanted or a number with one of the units "
                "ms, s, m, h, d, such as 30, 0.5, 250ms or 5m"
            ),
        ),
        (
            ("--unixsocketperm", "rwx"),
            (
                "invalid value 'rwx' of 'unixsocketperm' in --unixsocketperm: three octal digits are wanted, such as "
                "700 or 770"
            ),
        ),
        (
            ("--host", " "),
            "invalid value ' ' of 'host' in --host: at least one address is wanted, such as 127.0.0.1 or ::1",
        ),
        (("--port",), "Option '--port' requires an argument."),
        (("more",), "Got unexpected extra argument (more)"),
    ],
)
def test_wrong_flags(flags: tuple[str, ...], message: str) -> None:
    assert fail(*flags) == (2, message)


def test_an_unknown_flag() -> None:
    status, message = fail("--maxclient", "5")
    assert status == 2
    assert "--maxclient" in message
    assert "'--maxclients'" in message


def test_a_wrong_variable_is_named() -> None:
    assert fail(env={"RESPMQ_MAXCLIENTS": "0"}) == (
        2,
        "invalid value '0' of 'maxclients' in RESPMQ_MAXCLIENTS: a number from 1 to 1000000 is wanted",
    )


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("prot = 6390", "unknown setting 'prot' in FILE, did you mean 'port'?"),
        ("max_message_size = 5000", "unknown setting 'max_message_size' in FILE, did you mean 'max-message-size'?"),
        ("[server]\nport = 1", "unknown setting 'server' in FILE, CONFIG GET * and respmq serve --help show all"),
        ("port = -1", "invalid value '-1' of 'port' in FILE: a number from 0 to 65535 is wanted"),
        ("port = true", "invalid value of 'port' in FILE: N is wanted, no value of another type"),
        ("port = [1, 2]", "invalid value of 'port' in FILE: N is wanted, no value of another type"),
        ("requirepass = false", "invalid value of 'requirepass' in FILE: PASSWORD is wanted, no value of another type"),
        ("host = []", "invalid value '' of 'host' in FILE: at least one address is wanted, such as 127.0.0.1 or ::1"),
        (
            "port = \n",
            "can't read the configuration file FILE: it is no TOML: Invalid value (at line 1, column 8)",
        ),
        (
            "\udcff",
            (
                "can't read the configuration file FILE: it is no TOML: 'utf-8' codec can't decode byte 0xff in "
                "position 0: invalid start byte"
            ),
        ),
    ],
)
def test_wrong_files(content: str, message: str, tmp_path: Path) -> None:
    file = tmp_path / "respmq.toml"
    file.write_text(content, encoding="utf-8", errors="surrogateescape")
    assert fail("--config", str(file)) == (2, message.replace("FILE", str(file)))


def test_files_that_are_none(tmp_path: Path) -> None:
    missing = tmp_path / "missing.toml"
    assert fail("--config", str(missing)) == (
        2,
        f"can't read the configuration file {missing}: No such file or directory",
    )
    assert fail("--config", str(tmp_path)) == (2, f"can't read the configuration file {tmp_path}: Is a directory")


def test_a_password_is_not_repeated(tmp_path: Path) -> None:
    file = tmp_path / "respmq.toml"
    file.write_text("requirepass = ['secret']", encoding="utf-8")
    _, message = fail("--config", str(file))
    assert "secret" not in message


def test_off_loopback_a_password_is_needed() -> None:
    status, message = fail("--host", "127.0.0.1", "--host", "0.0.0.0")  # noqa: S104 - refused
    assert status == 2
    assert message.startswith("refusing to listen on 0.0.0.0 without a password")
    assert "--requirepass" in message


@pytest.mark.parametrize("name", ["no such host", "x" * 300, "a..b"])
def test_a_host_that_is_none(name: str) -> None:
    status, message = fail("--host", name.replace(" ", "-") + ".invalid")
    assert status == 2
    assert "of 'host'" in message
    assert "[Errno" not in message


# -- Where it can't listen


@pytest.fixture
def taken() -> Iterator[int]:
    with socket.create_server(("127.0.0.1", 0)) as sock:
        yield sock.getsockname()[1]


def test_a_port_that_is_taken(taken: int) -> None:
    assert fail("--port", str(taken)) == (
        1,
        (
            f"can't listen on 127.0.0.1 port {taken}: Address already in use "
            "(is another server running? choose another with --port)"
        ),
    )


def test_a_port_that_needs_privileges(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(sock: socket.socket, address: object) -> None:
        raise PermissionError(errno.EACCES, os.strerror(errno.EACCES))

    monkeypatch.setattr(socket.socket, "bind", refuse)
    assert fail("--port", "80") == (
        1,
        (
            "can't listen on 127.0.0.1 port 80: Permission denied "
            "(ports below 1024 need privileges, choose another with --port)"
        ),
    )


def test_an_address_of_another_machine() -> None:
    status, message = fail("--host", "192.0.2.1", "--port", "0", "--requirepass", "pw")
    assert status == 1
    assert re.fullmatch(r"can't listen on 192\.0\.2\.1 port 0: [A-Z][a-z ]+", message)


def test_unix_sockets_that_cannot_be(tmp_path: Path) -> None:
    file = tmp_path / "file"
    file.touch()
    deep = tmp_path / ("x" * 120)
    for path, reason in {
        file: "the path exists and is not a socket",
        tmp_path / "missing" / "socket": "No such file or directory",
        file / "socket": "Not a directory",
        deep: "AF_UNIX path too long",
    }.items():
        assert fail("--port", "0", "--unixsocket", str(path)) == (
            1,
            f"can't listen on the Unix socket {path}: {reason}",
        )
    assert file.exists()


def test_nothing_stays_open_after_a_failure(tmp_path: Path, taken: int) -> None:
    """The addresses before the one that fails are free again."""
    with socket.create_server(("127.0.0.1", 0)) as sock:
        port = sock.getsockname()[1]
    fail("--port", str(port), "--unixsocket", str(tmp_path))
    with socket.create_server(("127.0.0.1", port)):
        pass


# -- The whole process


def test_the_process_says_it_too(taken: int) -> None:
    for flags, status in ((("--port", "x"), 2), (("--port", str(taken)), 1), (("--nonsense",), 2)):
        found, said = run_to_end(*flags)
        assert found == status
        assert "Traceback" not in said
        assert said.splitlines()[-1].startswith("Error: ")


def test_the_demo_says_what_it_needs(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "redis", None)
    result = CliRunner().invoke(main, ["demo"])
    assert result.exit_code == 1
    assert result.output == "Error: the demo reaches its broker through redis-py: pip install 'respmq[redis]'\n"


@pytest.mark.parametrize(
    ("variable", "meant"),
    [
        ("RESPMQ_MAXCLIENT", "RESPMQ_MAXCLIENTS"),
        ("RESPMQ_REQUIREPASSWORD", "RESPMQ_REQUIREPASS"),
        ("RESPMQ_PASSWORD", "RESPMQ_REQUIREPASS"),
    ],
)
def test_a_mistyped_variable_is_refused(variable: str, meant: str) -> None:
    status, said = fail(env={variable: "5"})
    assert status == 2
    assert f"unknown setting {variable} in the environment, did you mean {meant}?" in said


def test_variables_of_others_are_left_alone() -> None:
    """Kubernetes sets such variables for a service that is called respmq."""
    others = {
        "RESPMQ_SERVICE_HOST": "10.0.0.1",
        "RESPMQ_PORT_6390_TCP_ADDR": "10.0.0.1",
        "RESPMQ_PORT": "tcp://10.0.0.1",
    }
    assert load_config(None, {}, others).port == Config().port
