"""The settings of a server: one field is a command-line flag, a key of the config file, a CONFIG name and a row in the docs.

A field's name with `-` for `_` is its name everywhere. Values come in as text (flags, CONFIG SET) or as TOML values;
both are read by the field's kind.
"""

from __future__ import annotations

import dataclasses
import tomllib
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from respmq.durations import parse_duration
from respmq.errors import InvalidRequestError

if TYPE_CHECKING:
    from collections.abc import Mapping

T = TypeVar("T")

_MEMORY_UNITS = {"": 1, "b": 1, "k": 1000, "kb": 1 << 10, "m": 1000**2, "mb": 1 << 20, "g": 1000**3, "gb": 1 << 30}


class ConfigError(InvalidRequestError):
    """A setting that doesn't exist, can't be changed while the server runs, or has a value that it can't have."""


class SettingKind(Generic[T]):
    """How a setting is read and shown. `form` is what `--help` shows for its value."""

    form = "TEXT"

    def read(self, text: str) -> T:
        """The value that `text` stands for.

        Raises:
            ValueError: it stands for none; the message says what would.
        """
        raise NotImplementedError

    def show(self, value: T) -> str:
        """The value as text, as CONFIG GET shows it."""
        return str(value)


class Text(SettingKind[str]):
    """Any text."""

    def read(self, text: str) -> str:
        """The text itself."""
        return text


@dataclass(frozen=True)
class Word(SettingKind[str]):
    """One of several words."""

    words: tuple[str, ...]

    @property
    def form(self) -> str:  # type: ignore[override]
        """The words."""
        return "|".join(self.words)

    def read(self, text: str) -> str:
        """The word in lower case."""
        if text.lower() in self.words:
            return text.lower()
        msg = f"one of {', '.join(self.words)} is wanted"
        raise ValueError(msg)


class YesNo(SettingKind[bool]):
    """yes or no."""

    form = "yes|no"

    def read(self, text: str) -> bool:
        """True for yes."""
        answers = {"yes": True, "true": True, "no": False, "false": False}
        if text.lower() not in answers:
            msg = "yes or no is wanted"
            raise ValueError(msg)
        return answers[text.lower()]

    def show(self, value: bool) -> str:
        """`yes` or `no`, as Redis shows it."""
        return "yes" if value else "no"


@dataclass(frozen=True)
class Number(SettingKind[int]):
    """An integer within bounds."""

    least: int
    most: int

    form = "N"

    def read(self, text: str) -> int:
        """The number."""
        try:
            value = int(text)
        except ValueError:
            value = self.least - 1
        if self.least <= value <= self.most:
            return value
        msg = f"a number from {self.least} to {self.most} is wanted"
        raise ValueError(msg)


@dataclass(frozen=True)
class Memory(SettingKind[int]):
    """Bytes, with Redis' units: 1k is 1000, 1kb is 1024, then m, mb, g, gb."""

    least: int

    form = "BYTES"

    def read(self, text: str) -> int:
        """Bytes."""
        digits = text.rstrip("bBkKmMgG")
        unit = _MEMORY_UNITS.get(text[len(digits) :].lower())
        if digits.isascii() and digits.isdigit() and len(digits) < 18 and unit is not None:
            value = int(digits) * unit
            if value >= self.least:
                return value
        msg = f"bytes are wanted, at least {self.least}, such as 1048576, 16mb or 1gb"
        raise ValueError(msg)


class Duration(SettingKind[int]):
    """A duration in milliseconds; 0 switches the thing off."""

    form = "DURATION"

    def read(self, text: str) -> int:
        """Milliseconds."""
        try:
            return parse_duration(text.encode(), "it", zero=True)
        except InvalidRequestError as error:
            raise ValueError(error.text) from None

    def show(self, value: int) -> str:
        """Seconds."""
        return f"{value / 1000:g}"


class Addresses(SettingKind[tuple[str, ...]]):
    """Addresses, separated by blanks."""

    form = "ADDRESS"

    def read(self, text: str) -> tuple[str, ...]:
        """The addresses in the order given."""
        addresses = tuple(text.replace(",", " ").split())
        if not addresses:
            msg = "at least one address is wanted, such as 127.0.0.1 or ::1"
            raise ValueError(msg)
        return addresses

    def show(self, value: tuple[str, ...]) -> str:
        """The addresses, separated by blanks."""
        return " ".join(value)


def _setting(default: T, kind: SettingKind[T], help: str, *, mutable: bool = True, secret: bool = False) -> T:
    metadata = {"kind": kind, "help": help, "mutable": mutable, "secret": secret}
    result: T = field(default=default, metadata=metadata)
    return result


@dataclass(slots=True, kw_only=True)
class Config:
    """All settings with their defaults. Durations are milliseconds, sizes bytes."""

    host: tuple[str, ...] = _setting(
        ("127.0.0.1",), Addresses(), "Addresses to listen on.", mutable=False
    )
    port: int = _setting(6390, Number(0, 65535), "TCP port; 0 takes a free one.", mutable=False)
    unixsocket: str = _setting("", Text(), "Path of a Unix socket to listen on as well.", mutable=False)
    unixsocketperm: str = _setting("700", Text(), "Permissions of the Unix socket, octal.", mutable=False)
    requirepass: str = _setting("", Text(), "Password of the default user; empty for none.", secret=True)
    maxclients: int = _setting(10_000, Number(1, 1_000_000), "Most connections at a time.")
    timeout: int = _setting(0, Duration(), "Close a connection that is idle for this long; 0 never.")
    heartbeat: int = _setting(
        5_000, Duration(), "Find out within about this long that a peer has vanished (TCP keepalive); 0 off."
    )
    auto_declare: bool = _setting(False, YesNo(), "Let QPUT and QLEASE declare unknown queues with the defaults.")
    max_message_size: int = _setting(16 << 20, Memory(1024), "Most bytes of a message with headers and attachments.")
    maxmemory: int = _setting(0, Memory(0), "Most bytes that messages may take; 0 for no limit.")
    max_arguments: int = _setting(1_048_576, Number(1024, 1_048_576), "Most arguments of a command.")
    proto_max_bulk_len: int = _setting(512 << 20, Memory(1 << 20), "Most bytes of one argument.")
    client_query_buffer_limit: int = _setting(1 << 30, Memory(1 << 20), "Most bytes of one command.")
    client_output_buffer_limit: int = _setting(
        32 << 20, Memory(1 << 16), "A client with this many unread reply bytes isn't served until it reads."
    )
    slowlog_log_slower_than: int = _setting(
        10_000, Number(-1, 1 << 40), "Log commands that take this many microseconds; -1 none."
    )
    slowlog_max_len: int = _setting(128, Number(0, 1_000_000), "How many slow commands are kept.")
    shutdown_timeout: int = _setting(10_000, Duration(), "How long a stop waits for clients to read their replies.")
    loglevel: str = _setting("info", Word(("debug", "info", "warning", "error")), "What is logged.")
    log_format: str = _setting("text", Word(("text", "json")), "How it is logged.", mutable=False)
    virtual_clock: bool = _setting(
        False, YesNo(), "Let time stand still until DEBUG ADVANCE moves it; for tests.", mutable=False
    )


FIELDS = {f.name.replace("_", "-"): f for f in dataclasses.fields(Config)}


def kind_of(name: str) -> SettingKind[Any]:
    """The kind of a setting."""
    kind: SettingKind[Any] = FIELDS[name].metadata["kind"]
    return kind


def show(config: Config, name: str) -> str:
    """A setting as text."""
    return kind_of(name).show(getattr(config, FIELDS[name].name))


def read_setting(name: str, value: object, source: str) -> tuple[str, Any]:
    """A field's name and value from a setting's name and its text or TOML value.

    Raises:
        ConfigError: no such setting, or it can't have this value; the text names both and `source`.
    """
    if name not in FIELDS:
        msg = f"unknown setting '{name}' in {source}, see CONFIG GET * for all"
        raise ConfigError(msg)
    if isinstance(value, bool):
        text = "yes" if value else "no"
    elif isinstance(value, list):
        text = " ".join(map(str, value))
    elif isinstance(value, str | int | float):
        text = str(value)
    else:
        msg = f"invalid value of '{name}' in {source}: text, a number, true or false is wanted"
        raise ConfigError(msg)
    try:
        return FIELDS[name].name, kind_of(name).read(text)
    except ValueError as error:
        shown = "" if FIELDS[name].metadata["secret"] else f" '{text}'"
        msg = f"invalid value{shown} of '{name}' in {source}: {error}"
        raise ConfigError(msg) from None


def load_config(path: str | None, flags: Mapping[str, str]) -> Config:
    """The configuration: defaults, then the TOML file, then the flags.

    Raises:
        ConfigError: the file can't be read, or a setting is wrong.
    """
    values: dict[str, Any] = {}
    if path is not None:
        try:
            document = tomllib.loads(Path(path).read_text(encoding="utf-8"))
        except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
            msg = f"can't read the configuration file {path}: {error}"
            raise ConfigError(msg) from error
        values.update(read_setting(name, value, path) for name, value in document.items())
    values.update(read_setting(name, value, f"--{name}") for name, value in flags.items())
    return Config(**values)
