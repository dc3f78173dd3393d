"""Writing settings back into the TOML file that they were read from, with its comments and its order kept."""

from __future__ import annotations

import json
import os
import tempfile
import tomllib
from pathlib import Path
from typing import TYPE_CHECKING, Any

from respmq.config import FIELDS, Addresses, Config, Duration, Permissions, kind_of, read_setting

if TYPE_CHECKING:
    from respmq.config import SettingKind


def rewrite(config: Config, path: str) -> None:
    """Make the file say what the settings are. It is replaced in one step: a crash leaves the old one or the new one.

    Raises:
        OSError: it can't be written.
        ValueError: it is no TOML any more.
    """
    target = Path(path).resolve()
    text = updated(target.read_text(encoding="utf-8"), config)
    mode = target.stat().st_mode & 0o7777
    descriptor, temporary = tempfile.mkstemp(prefix=f".{target.name}.", dir=target.parent)
    try:
        with os.fdopen(descriptor, "w", encoding="utf-8") as file:
            file.write(text)
            file.flush()
            os.fchmod(file.fileno(), mode)
            os.fsync(file.fileno())
        Path(temporary).replace(target)
    except OSError:
        Path(temporary).unlink(missing_ok=True)
        raise
    _sync_directory(target.parent)


def _sync_directory(directory: Path) -> None:
    descriptor = os.open(directory, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def updated(text: str, config: Config) -> str:
    """The text of a configuration file, changed where it says something else than the settings.

    What differs from the defaults and isn't in the text is added at the end. A secret is only written if CONFIG SET has
    changed it: one from the environment was kept out of files on purpose.

    Raises:
        ValueError: it is no TOML.
    """
    names = {name: field for name, field in FIELDS.items() if name in config.changed or not field.metadata["secret"]}
    parts: list[str] = []
    for statement in _statements(text):
        parts.append(statement)
        for name, value in tomllib.loads(statement).items():
            if names.pop(name, None) and read_setting(name, value, "the file")[1] != _value(config, name):
                parts[-1] = _assignment(config, name) + _comment(statement)
    if parts and not parts[-1].endswith("\n"):
        parts[-1] += "\n"
    parts += [
        f"{_assignment(config, name)}\n" for name, field in names.items() if _value(config, name) != field.default
    ]
    return "".join(parts)


def _statements(text: str) -> list[str]:
    """The text in pieces that are TOML by themselves: a comment, an empty line, or an assignment of one or more lines.

    Raises:
        ValueError: it isn't made of such pieces.
    """
    pieces: list[str] = []
    piece = ""
    fault: tomllib.TOMLDecodeError | None = None
    for line in text.splitlines(keepends=True):
        piece += line
        try:
            tomllib.loads(piece)
        except tomllib.TOMLDecodeError as error:
            fault = error
        else:
            pieces.append(piece)
            piece = ""
    if piece and fault is not None:
        raise fault
    return pieces


def _comment(statement: str) -> str:
    """What stands behind the value of an assignment, up to the line end."""
    meaning = tomllib.loads(statement)
    for place, char in enumerate(statement):
        if char != "#":
            continue
        try:
            if tomllib.loads(statement[:place]) == meaning:
                blanks = len(statement[:place]) - len(statement[:place].rstrip())
                return " " * blanks + statement[place:]
        except tomllib.TOMLDecodeError:
            continue
    return "\n"


def _value(config: Config, name: str) -> Any:
    return getattr(config, FIELDS[name].name)


def _assignment(config: Config, name: str) -> str:
    return f"{name} = {_toml(kind_of(name), _value(config, name))}"


def _toml(kind: SettingKind[Any], value: Any) -> str:
    """A value as TOML."""
    if isinstance(kind, Addresses):
        return f"[{', '.join(map(_quoted, value))}]"
    if isinstance(kind, Duration) and value % 1000:
        return f'"{value}ms"'
    if isinstance(kind, Duration):
        return str(value // 1000)
    if isinstance(kind, Permissions):
        return _quoted(kind.show(value))
    if isinstance(value, bool):
        return "true" if value else "false"
    return str(value) if isinstance(value, int) else _quoted(value)


def _quoted(text: str) -> str:
    # A JSON string is a TOML one, but for the one control character that JSON leaves as it is.
    return json.dumps(text, ensure_ascii=False).replace("\x7f", "\\u007f")
