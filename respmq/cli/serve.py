"""`respmq serve`: the settings, the sockets, the banner, then the server until it is stopped."""

from __future__ import annotations

import os
import platform
import resource
import sys
from typing import TYPE_CHECKING, Any

import click

from respmq.cli.options import ServeCommand, SettingOption, flags_given
from respmq.config import FIELDS, Config, ConfigError, load_config
from respmq.errors import JournalError
from respmq.version import __version__

if TYPE_CHECKING:
    import socket

    from respmq.cli.log import Log

_HELP = """\
Start a broker.

Settings come from flags, from RESPMQ_... variables in the environment (RESPMQ_MAXCLIENTS=500 is --maxclients 500, a
password is better given there than on a command line), from the file that --config names, or are the defaults shown
in brackets; what comes first in this list wins. Most of them can be changed while the server runs, with CONFIG SET.

DURATION is seconds or a number with one of the units ms, s, m, h, d: 30, 0.5, 250ms, 5m. BYTES is a number,
with k, m or g for powers of 1000, with kb, mb or gb for powers of 1024: 65536, 64kb, 16mb. Of the flags that take
yes|no, the flag alone means yes.

\b
Example:
  respmq serve --port 6390 --maxmemory 1gb --log-format json
"""

#: Files that are no clients: the standard streams, the listening sockets, the poller, with room to spare.
_OWN_FILES = 32


class _WrongSettingsError(click.ClickException):
    exit_code = 2


@click.command(cls=ServeCommand, params=[SettingOption(name) for name in FIELDS], help=_HELP)
@click.option(
    "--config", "path", metavar="FILE", envvar="RESPMQ_CONFIG", help="TOML file with settings: maxclients = 500."
)
def serve(path: str | None, **flags: Any) -> None:
    """Start a broker."""
    from respmq.server.app import check_exposure

    try:
        config = load_config(path, flags_given(flags), os.environ)
        check_exposure(config)
    except ConfigError as error:
        raise _WrongSettingsError(error.text) from None
    listeners = _listen(config)
    sys.exit(_run(config, listeners))


def _listen(config: Config) -> list[socket.socket]:
    from respmq.server.app import ListenError, open_listeners

    try:
        return open_listeners(config)
    except ListenError as error:
        raise click.ClickException(str(error)) from None


def _run(config: Config, listeners: list[socket.socket]) -> int:
    import trio

    from respmq.cli.log import INTERVAL, Log
    from respmq.server import app

    log = Log(config, sys.stderr)
    _allow_files(config.maxclients + _OWN_FILES, log)

    async def summarize() -> None:
        while True:
            await trio.sleep(INTERVAL)
            log.summarize()

    async def run() -> int:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(summarize)
            status = await app.serve(config, listeners, log, ready=lambda addresses: _say_ready(config, addresses))
            nursery.cancel_scope.cancel()
            return status

    try:
        status = trio.run(run)
    except BaseExceptionGroup as group:
        # Not `except*`: what is raised there is a group again, before Python 3.11.4.
        journal, others = group.split(JournalError)
        if journal is None or others is not None:
            raise
        error: BaseException = journal
        while isinstance(error, BaseExceptionGroup):
            error = error.exceptions[0]
        raise click.ClickException(str(error)) from None
    log.summarize(all=True)
    log("stopped", status=status)
    return status


def _allow_files(wanted: int, log: Log) -> None:
    """Let the process open a file for every client, as far as the system allows it."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft == resource.RLIM_INFINITY or soft >= wanted:
        return
    allowed = wanted if hard == resource.RLIM_INFINITY else min(wanted, hard)
    try:
        resource.setrlimit(resource.RLIMIT_NOFILE, (allowed, hard))
    except (OSError, ValueError):
        allowed = soft
    if allowed < wanted:
        log("maxclients can't be reached, the limit of open files is too low", level="warning", limit=allowed)


def _say_ready(config: Config, addresses: list[str]) -> None:
    lines = [f"respmq {__version__}, process {os.getpid()}, Python {platform.python_version()}"]
    lines += [f"Listening on {address}" for address in addresses]
    if config.data:
        lines.append(f"Journal in {config.data}, fsync {config.fsync}")
    if config.virtual_clock:
        lines.append("Time stands still; DEBUG ADVANCE moves it")
    lines.append(f"Try: {_redis_cli(config, addresses[0])} QDECLARE jobs")
    try:
        print("\n".join(lines), flush=True)  # noqa: T201 - the banner is what a program prints
    except OSError:
        # Whoever started the server doesn't read what it says.
        return


def _redis_cli(config: Config, address: str) -> str:
    """How to reach the server from this machine."""
    host, _, port = address.rpartition(":")
    command = f"redis-cli -p {port}"
    if host not in {"127.0.0.1", "0.0.0.0"}:  # noqa: S104 - compared, not listened on
        command += f" -h {host.strip('[]')}"
    return command + " --askpass" if config.requirepass else command
