"""respmq in a process whose disk fails on demand: `python -m tests.crash.launcher serve ...`.

The calls by which Python writes to disks are wrapped before respmq is imported. With the folder that faults.FOLDER
names, they do what the orders there say; with the one that power.FOLDER names, they keep an image of what would be
left after a power cut.
"""

from __future__ import annotations

import errno
import importlib
import json
import os
import threading
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from queue import SimpleQueue
from typing import Any

from tests.crash import faults, power

CALLS = ("pwrite", "fdatasync", "fsync", "posix_fallocate", "ftruncate")


class FaultyDisk:
    """Wraps the calls; reads the orders anew at each call."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._lock = threading.Lock()
        self._order: dict[str, Any] = {"number": 0}
        self._seen: Counter[int] = Counter()
        self._trace = os.open(folder / "trace", os.O_WRONLY | os.O_CREAT | os.O_APPEND)

    def wrap(self, call: str, real: Callable[..., Any]) -> Callable[..., Any]:
        """The call with faults."""

        def faulty(fd: int, *args: Any) -> Any:
            inode = os.fstat(fd).st_ino
            fault = self._due(call)
            if fault is not None and fault.hold:
                self._note("held", call)
                while self._due(call, again=True):
                    time.sleep(0.003)
                if not _is(fd, inode):
                    self._note("swapped", call)
            if fault is not None and fault.count:
                self._note("counted", call)
            if fault is not None and fault.error:
                self._note("failed", call)
                if fault.half:
                    data, offset = args
                    real(fd, data[: len(data) // 2], offset)
                raise OSError(getattr(errno, fault.error), os.strerror(getattr(errno, fault.error)))
            if fault is not None and fault.short and len(args[0]) > 1:
                return real(fd, args[0][: len(args[0]) // 2], args[1])
            return self._within_quota(call, real, fd, args)

        return faulty

    def _due(self, call: str, *, again: bool = False) -> faults.Fault | None:
        """What the present orders say about this call; `again`: it is the same call that asks."""
        with self._lock:
            order = json.loads((self._folder / "orders").read_text())
            if order["number"] != self._order["number"]:
                self._order = order
                self._seen.clear()
                if again:
                    return None
            for number, fields in enumerate(order["faults"]):
                fault = faults.Fault(**fields)
                if fault.call != call:
                    continue
                if again:
                    return fault
                self._seen[number] += 1
                at = self._seen[number] - fault.skip
                if at > 0 and (fault.times < 0 or at <= fault.times):
                    return fault
        return None

    def _within_quota(self, call: str, real: Callable[..., Any], fd: int, args: tuple[Any, ...]) -> Any:
        quota = self._order.get("quota")
        if quota is None or call not in {"pwrite", "posix_fallocate"}:
            return real(fd, *args)
        size = os.fstat(fd).st_size
        folder = Path(f"/proc/self/fd/{fd}").readlink().parent
        room = max(0, quota - faults.used(folder))
        if call == "posix_fallocate":
            offset, length = args
            if offset + length - size > room:
                self._note("failed", call)
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
            return real(fd, *args)
        data, offset = args
        fits = size + room - offset
        if fits <= 0:
            self._note("failed", call)
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        return real(fd, data[:fits], offset)

    def _note(self, event: str, call: str) -> None:
        line = json.dumps({"event": event, "call": call, "order": self._order["number"]})
        os.write(self._trace, line.encode() + b"\n")


class ThreadSync:
    """In the place of `respmq.journal.kernel.KernelSync`, which no wrapped call sees: a thread for each sync."""

    def __init__(self, eventfd: int) -> None:
        self._eventfd = eventfd
        self._running = 0
        self._done: SimpleQueue[tuple[Callable[[OSError | None], None], OSError | None]] = SimpleQueue()

    def submit(self, fd: int, done: Callable[[OSError | None], None]) -> None:
        """Begin a sync. Like the kernel, it has the files also when the descriptors are closed meanwhile."""
        args = (os.dup(fd), os.dup(self._eventfd), done)
        threading.Thread(target=self._sync, args=args, daemon=True).start()
        self._running += 1

    def _sync(self, fd: int, eventfd: int, done: Callable[[OSError | None], None]) -> None:
        error: OSError | None = None
        try:
            os.fdatasync(fd)
        except OSError as problem:
            error = problem
        os.close(fd)
        self._done.put((done, error))
        os.eventfd_write(eventfd, 1)
        os.close(eventfd)

    def finish(self, *, wait: bool = False) -> None:
        """Call back for what is done."""
        while self._running and (wait or not self._done.empty()):
            done, error = self._done.get()
            self._running -= 1
            done(error)

    def close(self) -> None:
        """Wait for all."""
        self.finish(wait=True)


def _is(fd: int, inode: int) -> bool:
    """Whether the descriptor is still that of the same file."""
    try:
        return os.fstat(fd).st_ino == inode
    except OSError:
        return False


def main() -> None:
    """Wrap the calls, then be respmq."""
    for variable, kind in ((power.FOLDER, power.PowerDisk), (faults.FOLDER, FaultyDisk)):
        if variable in os.environ:
            disk = kind(Path(os.environ[variable]))
            for call in CALLS:
                setattr(os, call, disk.wrap(call, getattr(os, call)))
            setattr(importlib.import_module("respmq.journal.worker"), "KernelSync", ThreadSync)  # noqa: B010  # a class of its own
    importlib.import_module("respmq.cli").main(prog_name="respmq")


if __name__ == "__main__":
    main()
