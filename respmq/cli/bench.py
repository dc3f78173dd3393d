"""`respmq bench`: the cycle of a job on respmq and on Redis, by one client, on the user's machine."""

from __future__ import annotations

import contextlib
import math
import os
import platform
import shutil
import signal
import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

import click

if TYPE_CHECKING:
    from collections.abc import Callable

    from respmq.bench.control import Address
    from respmq.bench.report import Report
    from respmq.bench.rounds import Settings
    from respmq.bench.targets import Mode, Target

_HELP = """\
Measure the full cycle of a job (put, lease, ack) here, on respmq and on Redis.

Starts a respmq server and, if redis-server is installed, a Redis for itself, and lets the same client do the same with
each: QPUT, QLEASE, QACK on respmq; XADD, XREADGROUP, XACK, XDEL on a stream; LPUSH, LMOVE, LREM on a list. Rounds of
all of them alternate. Nothing else should run on the machine meanwhile.

Without --data nothing is kept on disk. With it, both write what they do to that disk: respmq its journal, Redis its
append-only file.

\b
Examples:
  respmq bench
  respmq bench --data /var/tmp --fsync everysec
  respmq bench --no-redis --connections 200 --body 1000 --json
"""

#: Begins a line of the terminal anew.
_CLEAR = "\r\x1b[K"

_FSYNC = ("always", "everysec", "no")


def _address(ctx: click.Context, param: click.Parameter, value: str | None) -> Address | None:
    """HOST:PORT as an address."""
    from respmq.bench.control import Address

    if value is None:
        return None
    host, _, port = value.rpartition(":")
    if not host or not port.isascii() or not port.isdigit() or not 0 < int(port) < 1 << 16:
        msg = f"'{value}' is no address: HOST:PORT is wanted, such as 127.0.0.1:6390"
        raise click.BadParameter(msg, ctx=ctx, param=param)
    return Address(host.removeprefix("[").removesuffix("]"), int(port))


def _number(ctx: click.Context, param: click.Parameter, value: float) -> float:
    """A float that is a number: the range lets pass what compares with nothing."""
    if math.isnan(value):
        msg = "'nan' is no number of seconds: one from 0.01 to 60 is wanted"
        raise click.BadParameter(msg, ctx=ctx, param=param)
    return value


@click.command(help=_HELP)
@click.option("--rounds", type=click.IntRange(1, 1000), default=3, show_default=True, help="How often all is measured.")
@click.option(
    "--seconds",
    type=click.FloatRange(0.01, 60),
    callback=_number,
    default=1.0,
    show_default=True,
    help="How long each measurement lasts.",
)
@click.option("--connections", type=click.IntRange(1, 500), default=50, show_default=True, help="How many at a time.")
@click.option(
    "--depth",
    type=click.IntRange(2, 100),
    default=16,
    show_default=True,
    help="How many jobs a connection has at a time where it has several.",
)
@click.option(
    "--body", type=click.IntRange(0, 65536), default=64, show_default=True, help="Bytes in the body of a job."
)
@click.option(
    "--data",
    type=click.Path(exists=True, file_okay=False, writable=True, path_type=Path),
    metavar="DIR",
    help="Keep jobs on the disk of this folder, in a new folder that is removed at the end.",
)
@click.option(
    "--fsync", type=click.Choice(_FSYNC), help="With --data: when what is written is on the disk.  [default: always]"
)
@click.option(
    "--respmq",
    callback=_address,
    metavar="HOST:PORT",
    help="Measure the respmq that runs there instead of starting one.",
)
@click.option(
    "--redis", callback=_address, metavar="HOST:PORT", help="Measure the Redis that runs there instead of starting one."
)
@click.option("--no-redis", is_flag=True, help="Measure respmq alone.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON instead of a table.")
def bench(
    *,
    rounds: int,
    seconds: float,
    connections: int,
    depth: int,
    body: int,
    data: Path | None,
    fsync: str | None,
    respmq: Address | None,
    redis: Address | None,
    no_redis: bool,
    as_json: bool,
) -> None:
    """Measure the cycle of a job."""
    from respmq.bench.rounds import Settings

    if fsync is not None and data is None:
        raise click.UsageError("--fsync is for what is kept on disk: name a folder with --data")
    if data is not None and (respmq is not None or redis is not None):
        raise click.UsageError(
            "--data is for servers that this command starts: those of --respmq and --redis have settings of their own"
        )
    if no_redis and redis is not None:
        raise click.UsageError("--redis and --no-redis exclude each other")
    # So that servers are ended, and what was made on those that go on is removed.
    signal.signal(signal.SIGTERM, lambda _number, _frame: sys.exit(1))
    signal.signal(signal.SIGINT, signal.default_int_handler)
    settings = Settings(connections=connections, depth=depth, body=body, seconds=seconds, rounds=rounds)
    policy = None if data is None else fsync or "always"
    with contextlib.ExitStack() as stack:
        servers = _Servers(stack, data, policy)
        servers.add_respmq(respmq)
        if not no_redis:
            servers.add_redis(redis)
        report = servers.measure(settings)
    click.echo(report.json() if as_json else report.table(), nl=as_json)
    sys.exit(1 if report.failed else 0)


class _Servers:
    """The servers to measure: where they are and what they are.

    Args:
        stack: what ends those that are started here, and removes what they leave.
        data: the folder on the disk to write to; None to keep nothing.
        fsync: when what is written has to be there.
    """

    def __init__(self, stack: contextlib.ExitStack, data: Path | None, fsync: str | None) -> None:
        self._stack = stack
        self._data = data
        self._fsync = fsync
        self._addresses: dict[str, Address] = {}
        self._names: dict[str, str] = {}
        self._notes: list[str] = []

    def add_respmq(self, given: Address | None) -> None:
        """The respmq that runs there, or a new one."""
        from respmq.cli.own_servers import own_broker

        if given is not None:
            self._add("respmq", given, runs_already=True)
            return
        flags: list[str] = []
        if self._data is not None and self._fsync is not None:
            flags = ["--data", str(self._folder() / "journal"), "--fsync", self._fsync]
        self._add("respmq", _loopback(self._stack.enter_context(own_broker(*flags))))

    def add_redis(self, given: Address | None) -> None:
        """The Redis that runs there, or a new one if it is installed."""
        from respmq.cli.own_servers import StartError, own_redis

        if given is not None:
            self._add("redis", given, runs_already=True)
            return
        program = shutil.which("redis-server")
        if program is None:
            self._notes.append("There is no redis-server on the PATH, so respmq was measured alone.")
            return
        flags: list[str] = []
        if self._fsync is not None:
            flags = ["--appendonly", "yes", "--appendfsync", self._fsync]
        try:
            port = self._stack.enter_context(own_redis(program, self._folder(), flags))
        except StartError as error:
            raise StartError(f"{error.message} (--no-redis measures respmq alone)") from None
        self._add("redis", _loopback(port))

    def measure(self, settings: Settings) -> Report:
        """Measure all targets on them."""
        from respmq.bench.report import Report, counted
        from respmq.bench.rounds import duration, measure_all
        from respmq.bench.targets import TARGETS

        targets = [(target, self._addresses[target.server]) for target in TARGETS if target.server in self._addresses]
        progress = _progress(duration(len(targets), settings), settings)
        try:
            outcomes = measure_all(targets, settings, progress)
        finally:
            if sys.stderr.isatty():
                click.echo(_CLEAR, nl=False, err=True)
        return Report(
            settings=settings,
            machine=f"{counted(os.cpu_count() or 1, 'processor')}, {platform.system()} {platform.machine()}, "
            f"Python {platform.python_version()}",
            servers=self._names,
            outcomes=outcomes,
            notes=self._notes,
        )

    def _add(self, kind: str, address: Address, *, runs_already: bool = False) -> None:
        from respmq.bench.control import BenchError, Control

        try:
            with Control(address) as control:
                found, name = control.identify()
        except BenchError as error:
            raise click.ClickException(f"--{kind}: {error}" if runs_already else str(error)) from None
        if found != kind:
            wanted = "a Redis" if kind == "redis" else "a respmq"
            raise click.ClickException(f"--{kind}: {name} listens on {address}, {wanted} is wanted")
        kept = "in memory" if self._fsync is None else f"on disk with fsync {self._fsync}"
        self._addresses[kind] = address
        self._names[kind] = f"{name} as it runs at {address}" if runs_already else f"{name} {kept}"

    def _folder(self) -> Path:
        """A new folder, on the disk that was asked for, for as long as this command runs."""
        try:
            made = tempfile.TemporaryDirectory(prefix="respmq-bench-", dir=self._data)
        except OSError as error:
            place = tempfile.gettempdir() if self._data is None else f"--data {self._data}"
            raise click.ClickException(f"{place}: can't make a folder there: {error.strerror}") from None
        return Path(self._stack.enter_context(made))


def _loopback(port: int) -> Address:
    from respmq.bench.control import Address

    return Address("127.0.0.1", port)


def _progress(seconds: float, settings: Settings) -> Callable[[Target, Mode], None]:
    """Says on a terminal what is being measured, in one line."""
    from respmq.bench.report import mode_title

    def show(target: Target, mode: Mode) -> None:
        line = f"{target.title}, {mode_title(mode, settings.depth)} (all takes about {seconds:.0f} s)"
        click.echo(_CLEAR + line, nl=False, err=True)

    return show if sys.stderr.isatty() else lambda _target, _mode: None
