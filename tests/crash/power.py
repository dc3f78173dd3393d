"""Power cuts: an image of what the disk holds for sure, kept by the launcher beside what the system shows.

Bytes are on the disk once an fdatasync that began after they were written has returned; a new name is once its folder
was synced; a file that was removed is gone at once. That is the least that a file system promises.
"""

from __future__ import annotations

import json
import os
import shutil
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

from tests.crash import faults

#: The environment variable that names the folder of the image.
FOLDER = "RESPMQ_TEST_POWER"


class PowerDisk:
    """Wraps the calls in the server's process: files of the image are called by their inodes, `names` has the rest."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._lock = threading.Lock()
        self._syncing = threading.Lock()
        self._dirty: dict[int, list[tuple[str, int, bytes | int]]] = {}

    def wrap(self, call: str, real: Callable[..., Any]) -> Callable[..., Any]:
        """The call, with a note of what it did to the disk."""

        def noted(fd: int, *args: Any) -> Any:
            status = os.fstat(fd)
            inode = status.st_ino
            if not status.st_size:
                self._forget(inode)
            if call in {"fdatasync", "fsync"}:
                # A sync comes back when all that was written before is on the disk, also what another one is writing.
                with self._syncing:
                    return self._sync(call, real, fd, inode)
            with self._lock:
                result = real(fd, *args)
                changes = self._dirty.setdefault(inode, [])
                if call == "pwrite":
                    changes.append(("write", args[1], bytes(args[0])[:result]))
                elif call == "posix_fallocate":
                    changes.append(("grow", args[0], args[1]))
                else:
                    changes.append(("cut", args[0], 0))
            return result

        return noted

    def _forget(self, inode: int) -> None:
        """A file is new: another one that is gone may have had its inode."""
        with self._lock:
            self._dirty.pop(inode, None)
            (self._folder / str(inode)).unlink(missing_ok=True)

    def _sync(self, call: str, real: Callable[..., Any], fd: int, inode: int) -> Any:
        path = Path(f"/proc/self/fd/{fd}").readlink()
        with self._lock:
            changes = self._dirty.pop(inode, [])
            names = {one.name: one.stat().st_ino for one in path.iterdir()} if path.is_dir() else None
        result = real(fd)
        with self._lock:
            if names is not None:
                fresh = self._folder / "fresh"
                fresh.write_text(json.dumps(names))
                fresh.replace(self._folder / "names")
            else:
                self._apply(inode, changes)
        return result

    def _apply(self, inode: int, changes: list[tuple[str, int, bytes | int]]) -> None:
        image = os.open(self._folder / str(inode), os.O_RDWR | os.O_CREAT)
        try:
            for kind, offset, what in changes:
                if kind == "write" and isinstance(what, bytes):
                    os.lseek(image, offset, os.SEEK_SET)
                    os.write(image, what)
                elif kind == "grow" and isinstance(what, int):
                    os.truncate(image, max(os.fstat(image).st_size, offset + what))
                else:
                    os.truncate(image, offset)
        finally:
            os.close(image)


class PowerCut:
    """The test's side: runs servers on a folder, and between them puts into it what a power cut would have left."""

    program = faults.LAUNCHER

    def __init__(self, data: Path) -> None:
        self._data = data
        self._image = data.with_name(data.name + "-image")
        self._image.mkdir()
        self.environment = {FOLDER: str(self._image)}

    def restore(self) -> None:
        """Cut the power: the folder holds what was on the disk, and nothing else."""
        path = self._image / "names"
        names: dict[str, int] = json.loads(path.read_text()) if path.exists() else {}
        left = {name: self._image / str(inode) for name, inode in names.items() if (self._data / name).exists()}
        fresh = self._data.with_name(self._data.name + "-fresh")
        fresh.mkdir()
        for name, image in left.items():
            if image.exists():
                shutil.copyfile(image, fresh / name)
            else:
                (fresh / name).touch()
        if self._data.exists():
            shutil.rmtree(self._data)
        fresh.rename(self._data)
        self._start_over()

    def _start_over(self) -> None:
        """Files have new inodes now, and what they hold is on the disk."""
        shutil.rmtree(self._image)
        self._image.mkdir()
        names = {}
        for path in self._data.iterdir():
            names[path.name] = path.stat().st_ino
            shutil.copyfile(path, self._image / str(names[path.name]))
        (self._image / "names").write_text(json.dumps(names))
