"""The settings of a server: one field is a flag, a key of the config file, a CONFIG name and a row in the docs.

A field's name with `-` for `_` is its name everywhere. Values come in as text (flags, CONFIG SET) or as TOML values;
both are read by the field's kind.
"""

from __future__ import annotations

import dataclasses
import difflib
import re
import tomllib
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Generic, TypeVar, cast

from respmq.durations import parse_duration
from respmq.errors import InvalidRequestError

if TYPE_CHECKING:
    from collections.abc import Mapping

T = TypeVar("T")

#: How much alike a variable and a setting have to be (of 1) for the one to be a mistyped other.
_NEARLY = 0.87

#: What `int` takes is more: blanks, underscores, a plus sign, the digits of all scripts.
_NUMBER = re.compile("-?[0-9]{1,20}")
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


@dataclass(frozen=True)
class Text(SettingKind[str]):
    """Any text; `form` says what it is. Unless it `may_be_empty`, leaving the setting out is the way to have none."""

    form: str = "TEXT"
    may_be_empty: bool = True

    def read(self, text: str) -> str:
        """The text itself.

        Raises:
            ValueError: it is empty and may not be.
        """
        if not text and not self.may_be_empty:
            msg = f"{self.form} is empty: leave the setting out for none"
            raise ValueError(msg)
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

    def show(self, value: bool) -> str:  # noqa: FBT001 - the value itself
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
        if _NUMBER.fullmatch(text) is not None and self.least <= int(text) <= self.most:
            return int(text)
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


class Permissions(SettingKind[int]):
    """The permissions of a file, octal."""

    form = "OCTAL"

    def read(self, text: str) -> int:
        """The mode."""
        if re.fullmatch("0?[0-7]{3}", text) is None:
            msg = "three octal digits are wanted, such as 700 or 770"
            raise ValueError(msg)
        return int(text, 8)

    def show(self, value: int) -> str:
        """Three octal digits."""
        return f"{value:03o}"


class Duration(SettingKind[int]):
    """A duration in milliseconds; 0 switches the thing off."""

    form = "DURATION"

    def read(self, text: str) -> int:
        """Milliseconds."""
        try:
            return parse_duration(text.encode(), "it", zero=True)
        except InvalidRequestError:
            msg = "seconds are wanted or a number with one of the units ms, s, m, h, d, such as 30, 0.5, 250ms or 5m"
            raise ValueError(msg) from None

    def show(self, value: int) -> str:
        """Seconds, exactly."""
        seconds, millis = divmod(value, 1000)
        return f"{seconds}.{millis:03d}".rstrip("0") if millis else str(seconds)


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


def _setting(
    group: str, default: T, kind: SettingKind[T], help: str, *, mutable: bool = True, secret: bool = False
) -> T:
    metadata = {"group": group, "kind": kind, "help": help, "mutable": mutable, "secret": secret}
    result: T = field(default=default, metadata=metadata)
    return result


_NETWORK = "Where to listen"
_CLIENTS = "Clients"
_MESSAGES = "Messages"
_STORAGE = "Durability"
_LIMITS = "Limits of requests and replies"
_OPERATION = "Logs and operation"


@dataclass(slots=True, kw_only=True)
class Config:
    """All settings with their defaults. Durations are milliseconds, sizes bytes."""

    host: tuple[str, ...] = _setting(
        _NETWORK, ("127.0.0.1",), Addresses(), "Address to listen on; may be repeated.", mutable=False
    )
    port: int = _setting(_NETWORK, 6390, Number(0, 65535), "TCP port; 0 takes a free one.", mutable=False)
    unixsocket: str = _setting(_NETWORK, "", Text("PATH"), "Unix socket to listen on as well.", mutable=False)
    unixsocketperm: int = _setting(_NETWORK, 0o700, Permissions(), "Permissions of the Unix socket.", mutable=False)
    requirepass: str = _setting(
        _CLIENTS, "", Text("PASSWORD"), "Password of the default user; empty for none.", secret=True
    )
    maxclients: int = _setting(_CLIENTS, 10_000, Number(1, 1_000_000), "Most connections at a time.")
    timeout: int = _setting(_CLIENTS, 0, Duration(), "Close a connection that is idle for this long; 0 never.")
    heartbeat: int = _setting(
        _CLIENTS, 5_000, Duration(), "Find out within about twice this long that a peer has vanished (TCP); 0 off."
    )
    auto_declare: bool = _setting(
        _MESSAGES, False, YesNo(), "Let QPUT and QLEASE declare unknown queues with the defaults."
    )
    max_message_size: int = _setting(
        _MESSAGES, 16 << 20, Memory(1024), "Most bytes of a message with headers and attachments."
    )
    maxmemory: int = _setting(_MESSAGES, 0, Memory(0), "Most bytes that messages may take; 0 for no limit.")
    data: str = _setting(
        _STORAGE,
        "",
        Text("DIR", may_be_empty=False),
        "Folder in which everything is kept; without one a restart forgets everything.",
        mutable=False,
    )
    fsync: str = _setting(
        _STORAGE,
        "always",
        Word(("always", "everysec", "no")),
        "When a change is on the disk: before its reply, about a second later, or when the system likes.",
    )
    journal_segment_size: int = _setting(
        _STORAGE, 32 << 20, Memory(1 << 16), "About how large the files in the folder become.", mutable=False
    )
    max_pending: int = _setting(
        _CLIENTS, 1_000, Number(1, 1_000_000), "Most events that wait for a slow subscriber, per subscription."
    )
    max_arguments: int = _setting(_LIMITS, 1_048_576, Number(1024, 1_048_576), "Most arguments of a command.")
    proto_max_bulk_len: int = _setting(_LIMITS, 512 << 20, Memory(1 << 20), "Most bytes of one argument.")
    client_query_buffer_limit: int = _setting(_LIMITS, 1 << 30, Memory(1 << 20), "Most bytes of one command.")
    client_output_buffer_limit: int = _setting(
        _LIMITS, 32 << 20, Memory(1 << 16), "A client with this many unread reply bytes isn't served until it reads."
    )
    loglevel: str = _setting(
        _OPERATION, "info", Word(("debug", "info", "warning", "error")), "The least serious events that are logged."
    )
    log_format: str = _setting(
        _OPERATION, "text", Word(("text", "json")), "Log lines for people, or one JSON object a line.", mutable=False
    )
    slowlog_log_slower_than: int = _setting(
        _OPERATION,
        10_000,
        Number(-1, 1 << 40),
        "Microseconds from which on a command is kept in the slow log; -1 none.",
    )
    slowlog_max_len: int = _setting(_OPERATION, 128, Number(0, 1_000_000), "How many commands the slow log keeps.")
    shutdown_timeout: int = _setting(
        _OPERATION, 10_000, Duration(), "How long a stop waits for clients to read their replies."
    )
    virtual_clock: bool = _setting(
        _OPERATION, False, YesNo(), "Let time stand still until DEBUG ADVANCE moves it; for tests.", mutable=False
    )
    #: The file that the settings were read from, for CONFIG REWRITE.
    path: str | None = None
    #: The names of the settings that CONFIG SET has changed.
    changed: set[str] = field(default_factory=set)


FIELDS = {f.name.replace("_", "-"): f for f in dataclasses.fields(Config) if f.metadata}


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
        near = difflib.get_close_matches(name, FIELDS, 1)
        hint = f"did you mean '{near[0]}'?" if near else "CONFIG GET * and respmq serve --help show all"
        msg = f"unknown setting '{name}' in {source}, {hint}"
        raise ConfigError(msg)
    kind = kind_of(name)
    if isinstance(value, bool) and isinstance(kind, YesNo):
        text = kind.show(value)
    elif isinstance(value, list) and isinstance(kind, Addresses):
        text = " ".join(map(str, cast("list[object]", value)))
    elif isinstance(value, str | int | float) and not isinstance(value, bool):
        text = str(value)
    else:
        msg = f"invalid value of '{name}' in {source}: {kind.form} is wanted, no value of another type"
        raise ConfigError(msg)
    try:
        return FIELDS[name].name, kind.read(text)
    except ValueError as error:
        shown = "" if FIELDS[name].metadata["secret"] else f" '{text}'"
        msg = f"invalid value{shown} of '{name}' in {source}: {error}"
        raise ConfigError(msg) from None


def load_config(path: str | None, flags: Mapping[str, str], environment: Mapping[str, str] | None = None) -> Config:
    """The configuration: defaults, then the TOML file, then the environment's `RESPMQ_...`, then the flags.

    Raises:
        ConfigError: the file can't be read, or a setting is wrong.
    """
    values: dict[str, Any] = {}
    if path is not None:
        values.update(read_setting(name, value, path) for name, value in _read_file(path).items())
    _check_variables(environment or {})
    for name in FIELDS:
        value = (environment or {}).get(variable_of(name), "")
        # In a Kubernetes pod, a service that is called respmq sets RESPMQ_PORT=tcp://address:port.
        if value and not value.startswith("tcp://"):
            values.update([read_setting(name, value, variable_of(name))])
    values.update(read_setting(name, value, f"--{name}") for name, value in flags.items())
    return Config(**values, path=path)


def _check_variables(environment: Mapping[str, str]) -> None:
    """Refuse variables that are nearly the name of a setting, or a password; others that begin alike may be anybody's.

    Raises:
        ConfigError: there is one.
    """
    known = [variable_of(name) for name in FIELDS]
    for variable in environment:
        if variable.startswith("RESPMQ_") and variable not in known:
            close = difflib.get_close_matches(variable, known, 1, _NEARLY)
            if not close and "PASS" in variable:
                # Whoever sets one believes that he is asked for it.
                close = [variable_of("requirepass")]
            if close:
                msg = f"unknown setting {variable} in the environment, did you mean {close[0]}?"
                raise ConfigError(msg)


def variable_of(name: str) -> str:
    """The environment variable of a setting."""
    return "RESPMQ_" + name.replace("-", "_").upper()


def _read_file(path: str) -> dict[str, Any]:
    try:
        return tomllib.loads(Path(path).read_text(encoding="utf-8"))
    except OSError as error:
        reason = error.strerror
    except (UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        reason = f"it is no TOML: {error}"
    msg = f"can't read the configuration file {path}: {reason}"
    raise ConfigError(msg)
