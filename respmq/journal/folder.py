"""The folder of a journal: made if need be, and held by one process at a time that writes, or by some that read."""

from __future__ import annotations

import contextlib
import os
from typing import TYPE_CHECKING

from respmq.errors import JournalError

if TYPE_CHECKING:
    from collections.abc import Generator
    from pathlib import Path

    from respmq.journal.files import Files

LOCK_NAME = "lock"


class Folder:
    """A folder that this process holds until `release`; the lock also ends with the process, however it ends."""

    def __init__(self, path: Path, files: Files) -> None:
        """Make the folder if it isn't there, and lock it.

        Raises:
            JournalError: another process has it, or it can't be made or written to.
        """
        self.path = path
        self._files = files
        with _explained(path):
            path.mkdir(parents=True, exist_ok=True)
            fd = files.lock(path / LOCK_NAME)
            if fd is None:
                raise _in_use(path)
            files.truncate(fd, 0)
            files.write(fd, f"process {os.getpid()}\n".encode(), 0)
        self._fd = fd

    def release(self) -> None:
        """Let others use the folder."""
        self._files.close(self._fd)


@contextlib.contextmanager
def reading(path: Path, files: Files) -> Generator[None]:
    """Keep those who write out of a folder, which itself needs no right to write: it may be a copy on another disk.

    Raises:
        JournalError: another process writes to it, or it can't be read.
    """
    fd: int | None = None
    # Without the file there is no server: that would have made it.
    if (path / LOCK_NAME).exists():
        with _explained(path):
            fd = files.lock_shared(path / LOCK_NAME)
        if fd is None:
            raise _in_use(path)
    try:
        yield
    finally:
        if fd is not None:
            files.close(fd)


@contextlib.contextmanager
def _explained(path: Path) -> Generator[None]:
    try:
        yield
    except OSError as error:
        msg = f"can't use the folder {path}: {error.strerror}"
        raise JournalError(msg) from error


def _in_use(path: Path) -> JournalError:
    name, _, number = (path / LOCK_NAME).read_text().strip().partition(" ")
    # Who only reads leaves no name there, and who wrote before may be gone.
    holder = f"{name} {number}" if number.isdecimal() and _is_alive(int(number)) else "another process"
    return JournalError(f"the folder {path} is in use by {holder}: choose another folder, or stop that server first")


def _is_alive(process: int) -> bool:
    try:
        # Somebody else's may not even be asked.
        with contextlib.suppress(PermissionError):
            os.kill(process, 0)
    except ProcessLookupError:
        return False
    return True
