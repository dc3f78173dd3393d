"""The folder of a journal: made if need be, and held by one process at a time."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from respmq.errors import JournalError

if TYPE_CHECKING:
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
        try:
            path.mkdir(parents=True, exist_ok=True)
            fd = files.lock(path / LOCK_NAME)
            if fd is None:
                holder = (path / LOCK_NAME).read_text().strip() or "another process"
                msg = f"the folder {path} is in use by {holder}: choose another folder, or stop that server first"
                raise JournalError(msg)
            files.truncate(fd, 0)
            files.write(fd, f"process {os.getpid()}\n".encode(), 0)
        except OSError as error:
            msg = f"can't use the folder {path}: {error.strerror}"
            raise JournalError(msg) from error
        self._fd = fd

    def release(self) -> None:
        """Let others use the folder."""
        self._files.close(self._fd)
