"""A thread for what takes long on a disk: fsync, closing and deleting files, one job after the other.

One thread does all of it, in the order in which it was asked for: no file is closed while it is synced, and none is
deleted before what replaces it is on the disk.
"""

from __future__ import annotations

import contextlib
import socket
import threading
from collections import deque
from queue import SimpleQueue
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

#: What is to be done in the thread, and what with its result: None or the error.
Job = tuple["Callable[[], None]", "Callable[[OSError | None], None]"]


class Worker:
    """The thread and its jobs. When one is done, `fileno` becomes readable, and `finish` calls back."""

    def __init__(self) -> None:
        self._jobs: SimpleQueue[Job | None] = SimpleQueue()
        self._done: deque[tuple[Callable[[OSError | None], None], OSError | None]] = deque()
        self._wake_in, self._wake_out = socket.socketpair()
        self._wake_in.setblocking(False)
        self._wake_out.setblocking(False)
        self._thread = threading.Thread(target=self._run, name="respmq journal", daemon=True)
        self._thread.start()

    def fileno(self) -> int:
        """Readable when a job is done."""
        return self._wake_in.fileno()

    def submit(self, job: Callable[[], None], done: Callable[[OSError | None], None]) -> None:
        """Have a job done; `done` is called by `finish` with the OSError that it raised, or None."""
        self._jobs.put((job, done))

    def finish(self) -> None:
        """Call back for all jobs that are done."""
        with contextlib.suppress(BlockingIOError):
            # Unless it was called without having been woken.
            self._wake_in.recv(4096)
        while self._done:
            done, error = self._done.popleft()
            done(error)

    def stop(self) -> None:
        """Do what was submitted, call back for it, and end."""
        self._jobs.put(None)
        self._thread.join()
        self.finish()
        self._wake_in.close()
        self._wake_out.close()

    def _run(self) -> None:
        while (item := self._jobs.get()) is not None:
            job, done = item
            error: OSError | None = None
            try:
                job()
            except OSError as problem:
                error = problem
            self._done.append((done, error))
            with contextlib.suppress(BlockingIOError):
                # Unless it has been woken very often already.
                self._wake_out.send(b"x")
