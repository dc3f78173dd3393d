"""`respmq check`, `respmq export` and `respmq import`: a journal without a server."""

from __future__ import annotations

import contextlib
import io
import os
import random
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, TextIO

import click

from respmq.errors import BrokerError, JournalError

if TYPE_CHECKING:
    from collections.abc import Generator

    from respmq.core.image import BrokerImage
    from respmq.journal.repair import Report

_FOLDER = click.Path(file_okay=False, path_type=Path)


@contextlib.contextmanager
def _explained() -> Generator[None]:
    """Let what goes wrong with a journal end the command with a line that says so."""
    try:
        yield
    except (BrokerError, JournalError) as error:
        raise click.ClickException(str(error)) from None
    except OSError as error:
        name = "" if error.filename is None else f"{error.filename}: "
        raise click.ClickException(f"{name}{error.strerror}") from None


@contextlib.contextmanager
def _held(folder: Path, *, writing: bool = False) -> Generator[None]:
    """Keep servers out of a folder, in which there must be a journal."""
    from respmq.journal.files import Files
    from respmq.journal.folder import Folder, reading
    from respmq.journal.segment import segment_numbers

    if not folder.is_dir():
        msg = f"{folder} is no folder: name the one that `respmq serve --data` was given"
        raise JournalError(msg)
    if not segment_numbers(folder):
        msg = f"there is no journal in {folder}: name the folder that `respmq serve --data` was given"
        raise JournalError(msg)
    if not writing:
        with reading(folder, Files()):
            yield
        return
    held = Folder(folder, Files())
    try:
        yield
    finally:
        held.release()


def _in_utf8(stream: TextIO) -> TextIO:
    """A standard stream, whatever the locale says."""
    if isinstance(stream, io.TextIOWrapper):
        stream.reconfigure(encoding="utf-8", errors="strict")
    return stream


@click.command()
@click.argument("folder", type=_FOLDER)
@click.option("--repair", is_flag=True, help="Mend what is damaged; what is changed is kept as *.damaged.")
def check(folder: Path, *, repair: bool) -> None:
    """Look for damage in the journal in FOLDER.

    No server may use the folder meanwhile. The exit status is 0 if a server would start with it, 1 if not.
    """
    from respmq.journal.files import Files
    from respmq.journal.repair import look
    from respmq.journal.repair import repair as mend

    with _explained(), _held(folder, writing=repair):
        report = look(folder)
        _show(folder, report)
        if repair and (report.damages or report.gaps or not report.sound):
            for line in mend(folder, Files()):
                click.echo(f"repaired: {line}")
            report = look(folder)
            _show(folder, report)
    sys.exit(0 if report.sound else 1)


def _show(folder: Path, report: Report) -> None:
    click.echo(
        f"{folder}: {report.segments} segments, {report.size} bytes, {report.batches} batches, {report.records} records"
    )
    for damage in report.damages:
        kind = "the end was cut off in a write" if damage.torn else "damaged"
        click.echo(f"{kind}: {damage}; {damage.lost} bytes can't be read")
    for gap in report.gaps:
        click.echo(f"missing: {gap}")
    if report.image is not None:
        queues = report.image.queues.values()
        messages = sum(len(queue.messages) for queue in queues)
        letters = sum(len(queue.letters) for queue in queues)
        click.echo(f"it holds {len(queues)} queues, {messages} messages and {letters} dead letters")
    if report.trouble is None:
        click.echo("a server starts with it")
        return
    click.echo(f"no server starts with it: {report.trouble}")
    if not report.foreign:
        click.echo(f"`respmq check {folder} --repair` leaves out what can't be read and keeps all else")


@click.command()
@click.argument("folder", type=_FOLDER)
def export(folder: Path) -> None:
    """Print what the journal in FOLDER holds as JSON lines.

    No server may use the folder meanwhile.
    """
    from respmq.journal.export import export_lines
    from respmq.journal.recovery import Recovery

    with _explained(), _held(folder):
        recovery = Recovery(folder)
        for _ in recovery.read():
            pass
        out = _in_utf8(sys.stdout)
        for line in export_lines(recovery.image):
            out.write(line + "\n")


@click.command("import", epilog="Example: respmq export old | respmq import new")
@click.argument("folder", type=_FOLDER)
def import_(folder: Path) -> None:
    """Begin a journal in FOLDER with JSON lines.

    They come from the standard input, as `respmq export` prints them. The folder must be empty or new.
    """
    from respmq.journal.imports import import_lines

    with _explained():
        if folder.is_dir() and any(folder.iterdir()):
            msg = f"{folder} is not empty: name a new folder"
            raise JournalError(msg)
        image = import_lines(_in_utf8(sys.stdin))
        queues = len(image.queues)
        messages = sum(len(queue.messages) + len(queue.letters) for queue in image.queues.values())
        _write(folder, image)
    click.echo(f"{folder}: {queues} queues, {messages} messages and dead letters", err=True)


def _write(folder: Path, image: BrokerImage) -> None:
    from respmq.engine.journaled import JournaledEngine

    def wall() -> int:
        return time.time_ns() // 1_000_000

    engine = JournaledEngine(image.now, os.urandom, random.uniform, folder, policy="no", wall=wall, stands_still=True)
    for _ in engine.loading():
        pass
    engine.take_over(image)
    engine.close()
    if engine.failure is not None:
        raise JournalError(engine.failure)
