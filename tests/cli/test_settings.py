"""Where settings come from: defaults < the file < the environment < flags."""

from __future__ import annotations

import socket
from collections.abc import Callable
from pathlib import Path

import pytest
from click.testing import CliRunner

from respmq.cli import main, serve
from respmq.config import (
    FIELDS,
    Addresses,
    Config,
    Duration,
    Memory,
    Number,
    Permissions,
    Text,
    Word,
    YesNo,
    kind_of,
    show,
)

Configure = Callable[..., Config]


@pytest.fixture
def configure(monkeypatch: pytest.MonkeyPatch) -> Configure:
    """Runs `respmq serve` up to where it would begin to serve; the configuration that it would serve with."""

    def run(*flags: str, env: dict[str, str] | None = None) -> Config:
        configs: list[Config] = []

        def take(config: Config, listeners: list[socket.socket]) -> int:
            configs.append(config)
            for sock in listeners:
                sock.close()
            return 0

        monkeypatch.setattr(serve, "_run", take)
        args = ["serve", *(() if "--port" in flags else ("--port", "0")), *flags]
        result = CliRunner().invoke(main, args, env=env)
        assert result.exit_code == 0, result.output
        (config,) = configs
        return config

    return run


def another_value(setting: str, tmp_path: Path) -> str:
    """What a setting can be and by default is not."""
    kind = kind_of(setting)
    default = show(Config(), setting)
    if isinstance(kind, Number):
        return str(kind.least if default != str(kind.least) else kind.most)
    if isinstance(kind, Word):
        return next(word for word in kind.words if word != default)
    if isinstance(kind, YesNo):
        return "no" if default == "yes" else "yes"
    if isinstance(kind, Text):
        return str(tmp_path / "some-file")
    texts: dict[type, str] = {Memory: "7gb", Duration: "77s", Addresses: "::1", Permissions: "770"}
    return texts[type(kind)]


def test_the_defaults(configure: Configure) -> None:
    assert configure() == Config(port=0)


def test_the_later_source_wins(configure: Configure, tmp_path: Path) -> None:
    file = tmp_path / "respmq.toml"
    file.write_text("maxclients = 11\nslowlog-max-len = 12\nmaxmemory = '13mb'\n", encoding="utf-8")
    found = configure(
        "--config",
        str(file),
        "--maxclients",
        "31",
        env={"RESPMQ_MAXCLIENTS": "21", "RESPMQ_SLOWLOG_MAX_LEN": "22"},
    )
    assert (found.maxclients, found.slowlog_max_len, found.maxmemory) == (31, 22, 13 << 20)


def test_the_environment_can_name_the_file(configure: Configure, tmp_path: Path) -> None:
    file = tmp_path / "respmq.toml"
    file.write_text("maxclients = 11\n", encoding="utf-8")
    assert configure(env={"RESPMQ_CONFIG": str(file)}).maxclients == 11


def test_a_password_comes_from_the_environment(configure: Configure) -> None:
    assert configure(env={"RESPMQ_REQUIREPASS": "se cret"}).requirepass == "se cret"


@pytest.mark.parametrize("setting", FIELDS)
def test_every_setting_is_a_flag_a_variable_and_a_key(setting: str, configure: Configure, tmp_path: Path) -> None:
    text = another_value(setting, tmp_path)
    file = tmp_path / "respmq.toml"
    file.write_text(f'{setting} = "{text}"\n', encoding="utf-8")
    variable = {f"RESPMQ_{setting.upper().replace('-', '_')}": text}
    found = [configure(f"--{setting}", text), configure(env=variable), configure("--config", str(file))]
    assert show(found[0], setting) != show(Config(), setting)
    expected = {name: show(Config(port=0), name) for name in FIELDS} | {setting: show(found[0], setting)}
    for config in found:
        assert {name: show(config, name) for name in FIELDS} == expected


def test_a_table_of_toml_values(configure: Configure, tmp_path: Path) -> None:
    file = tmp_path / "respmq.toml"
    file.write_text(
        'host = ["127.0.0.1", "::1"]\nauto-declare = true\ntimeout = 0.5\nheartbeat = "250ms"\nmaxmemory = 5000\n',
        encoding="utf-8",
    )
    found = configure("--config", str(file))
    assert found.host == ("127.0.0.1", "::1")
    assert found.auto_declare
    assert (found.timeout, found.heartbeat, found.maxmemory) == (500, 250, 5000)


def test_host_may_be_repeated(configure: Configure) -> None:
    assert configure("--host", "127.0.0.1", "--host", "::1").host == ("127.0.0.1", "::1")
    assert configure(env={"RESPMQ_HOST": "127.0.0.1 ::1"}).host == ("127.0.0.1", "::1")


@pytest.mark.parametrize(
    ("flags", "value"),
    [
        (("--virtual-clock",), "yes"),
        (("--virtual-clock", "--maxclients", "5"), "yes"),
        (("--virtual-clock", "yes"), "yes"),
        (("--virtual-clock=no",), "no"),
        ((), "no"),
    ],
)
def test_a_flag_of_yes_or_no_alone_means_yes(flags: tuple[str, ...], value: str, configure: Configure) -> None:
    assert show(configure(*flags), "virtual-clock") == value


def test_no_can_take_back_what_the_file_says(configure: Configure, tmp_path: Path) -> None:
    file = tmp_path / "respmq.toml"
    file.write_text("auto-declare = true\n", encoding="utf-8")
    assert not configure("--config", str(file), "--auto-declare", "no").auto_declare


def test_what_kubernetes_puts_into_the_environment_is_no_setting(configure: Configure) -> None:
    """A service called respmq makes it set RESPMQ_PORT=tcp://address:port in every pod."""
    assert configure(env={"RESPMQ_PORT": "tcp://10.0.0.1:6390"}) == Config(port=0)


def test_an_empty_variable_is_none(configure: Configure) -> None:
    assert configure(env={"RESPMQ_TIMEOUT": ""}) == Config(port=0)
