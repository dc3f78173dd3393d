"""The calls by which a journal touches the disk, in one place: each may fail, and tests let them fail one by one."""

from __future__ import annotations

import errno
import fcntl
import os
import shutil
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

#: The end of the name of a file that was kept as it was.
KEPT = ".damaged"

#: What says that there is no room; all other errors of a write say that the disk can't be trusted.
NO_SPACE = frozenset({errno.ENOSPC, errno.EDQUOT})

#: What macOS doesn't have, and what it has instead: an fsync there leaves the data in the drive's memory.
_sync: Callable[[int], None] = getattr(os, "fdatasync", os.fsync)
_allocate: Callable[[int, int, int], None] | None = getattr(os, "posix_fallocate", None)
_FULL_SYNC: int | None = getattr(fcntl, "F_FULLFSYNC", None)

#: Answers of a file system that can't set space aside; a write will tell then.
_CANNOT_ALLOCATE = frozenset({errno.EOPNOTSUPP, errno.EINVAL, errno.ENOSYS})


class Files:
    """The file system. All methods raise OSError."""

    def create(self, path: Path) -> int:
        """Make a new file and return its descriptor."""
        return os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o640)

    def open(self, path: Path) -> int:
        """Open a file for writing and return its descriptor."""
        return os.open(path, os.O_RDWR | os.O_CLOEXEC)

    def write(self, fd: int, data: bytes, offset: int) -> None:
        """Write all of `data` at an offset."""
        done = os.pwrite(fd, data, offset)
        while done < len(data):
            done += os.pwrite(fd, memoryview(data)[done:], offset + done)

    def allocate(self, fd: int, offset: int, size: int) -> bool:
        """Set space aside, so that a write there can't fail for lack of it; the file grows by zeros.

        Returns whether the file system can do that.
        """
        if _allocate is None:
            return False
        try:
            _allocate(fd, offset, size)
        except OSError as error:
            if error.errno not in _CANNOT_ALLOCATE:
                raise
            return False
        return True

    def truncate(self, fd: int, size: int) -> None:
        """Cut a file."""
        os.ftruncate(fd, size)

    def sync(self, fd: int) -> None:
        """Wait until all that was written to a file is on the disk."""
        if _FULL_SYNC is None:
            _sync(fd)
        else:
            fcntl.fcntl(fd, _FULL_SYNC)

    def sync_folder(self, folder: Path) -> None:
        """Wait until the names in a folder are on the disk."""
        fd = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            os.fsync(fd)
        finally:
            os.close(fd)

    def close(self, fd: int) -> None:
        """Close a file."""
        os.close(fd)

    def remove(self, path: Path) -> None:
        """Delete a file."""
        path.unlink()

    def set_aside(self, path: Path) -> None:
        """Give a file that is not to be used any more another name."""
        path.replace(path.with_name(path.name + KEPT))
        self.sync_folder(path.parent)

    def keep_copy(self, path: Path) -> None:
        """Keep a copy of a file that is about to be cut."""
        shutil.copyfile(path, path.with_name(path.name + KEPT))

    def lock(self, path: Path) -> int | None:
        """Open (or make) a file and lock it; returns its descriptor, None if another process has the lock."""
        fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o640)
        return fd if _flock(fd, fcntl.LOCK_EX) else None

    def lock_shared(self, path: Path) -> int | None:
        """Open a file that is there for reading and lock it with others who read; returns as `lock` does."""
        fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
        return fd if _flock(fd, fcntl.LOCK_SH) else None


def _flock(fd: int, how: int) -> bool:
    """Lock a file; if another process has it, it is closed."""
    try:
        fcntl.flock(fd, how | fcntl.LOCK_NB)
    except BlockingIOError:
        os.close(fd)
        return False
    return True
