"""The flags of `respmq serve`, made from the settings: one flag for each, grouped in the help."""

from __future__ import annotations

from typing import Any

import click

from respmq.config import FIELDS, Addresses, Config, Duration, Memory, YesNo, kind_of, show

_DEFAULTS = Config()
_UNITS = ((1 << 30, "gb"), (1 << 20, "mb"), (1 << 10, "kb"))


class ServeCommand(click.Command):
    """A command whose help shows the settings by group."""

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the groups, then what is no setting."""
        groups: dict[str, list[tuple[str, str]]] = {}
        for parameter in self.get_params(ctx):
            record = parameter.get_help_record(ctx)
            if record is not None:
                group = parameter.group if isinstance(parameter, SettingOption) else "Other options"
                groups.setdefault(group, []).append(record)
        for group, records in groups.items():
            with formatter.section(group):
                formatter.write_dl(records, col_max=40)


class SettingOption(click.Option):
    """The flag of a setting. Its value stays text; `load_config` reads it."""

    def __init__(self, setting: str) -> None:
        kind = kind_of(setting)
        name = FIELDS[setting].name
        metadata = FIELDS[setting].metadata
        self.group: str = metadata["group"]
        more: dict[str, Any] = {}
        if isinstance(kind, Addresses):
            more["multiple"] = True
        if isinstance(kind, YesNo):
            more["is_flag"] = False
            more["flag_value"] = "yes"
        shown = f"{metadata['help']}  [{default_shown(setting)}]"
        super().__init__([f"--{setting}", name], metavar=kind.form, help=shown, **more)


def flags_given(values: dict[str, Any]) -> dict[str, str]:
    """The settings that were given as flags, as text by name."""
    given: dict[str, str] = {}
    for setting, field in FIELDS.items():
        value: str | tuple[str, ...] | None = values[field.name]
        if isinstance(value, tuple):
            value = " ".join(value) or None
        if value is not None:
            given[setting] = value
    return given


def default_shown(setting: str) -> str:
    """A setting's default as one would write it."""
    value = getattr(_DEFAULTS, FIELDS[setting].name)
    kind = kind_of(setting)
    if isinstance(kind, Memory) and value:
        for size, unit in _UNITS:
            if value % size == 0:
                return f"{value // size}{unit}"
    if isinstance(kind, Duration) and value:
        return f"{show(_DEFAULTS, setting)}s"
    return show(_DEFAULTS, setting) or "none"
