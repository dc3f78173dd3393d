"""What takes long on a disk (fsync, closing and deleting files), done beside the event loop, one job after the other.

One thread does all of it, in the order in which it was asked for: no file is closed while it is synced, and none is
deleted before what replaces it is on the disk. Syncs, by far the most frequent jobs, are left to the kernel where it
can do them in the background and the thread has nothing to do that would have to be done before.
"""

from __future__ import annotations

import select
import threading
from collections import deque
from queue import SimpleQueue
from typing import TYPE_CHECKING

from respmq.journal.kernel import KernelSync
from respmq.journal.wake import Wake, make_wake

if TYPE_CHECKING:
    from collections.abc import Callable

#: What is to be done in the thread, and what with its result: None or the error.
Job = tuple["Callable[[], None]", "Callable[[OSError | None], None]"]


class Worker:
    """The thread and its jobs. When one is done, `wake` is set (`fileno` is readable then), and `finish` calls back."""

    def __init__(self, wake: Wake) -> None:
        self._jobs: SimpleQueue[Job | None] = SimpleQueue()
        self._done: deque[tuple[Callable[[OSError | None], None], OSError | None]] = deque()
        self._wake = wake
        self._poll = select.poll()
        self._poll.register(wake.fileno(), select.POLLIN)
        self._thread = threading.Thread(target=self._run, name="respmq journal", daemon=True)
        self._thread.start()

    def fileno(self) -> int:
        """Readable when a job is done."""
        return self._wake.fileno()

    def submit(self, job: Callable[[], None], done: Callable[[OSError | None], None]) -> None:
        """Have a job done; `done` is called by `finish` with the OSError that it raised, or None."""
        self._jobs.put((job, done))

    def sync(self, fd: int, sync: Callable[[int], None], done: Callable[[OSError | None], None]) -> None:
        """Have a file synced by `sync(fd)`, behind all jobs that were submitted before."""
        self.submit(lambda: sync(fd), done)

    def wait(self, milliseconds: int) -> bool:
        """Wait until something is done, that long at most; whether something is."""
        return bool(self._poll.poll(milliseconds))

    def finish(self) -> None:
        """Call back for all jobs that are done."""
        self._wake.clear()
        while self._done:
            done, error = self._done.popleft()
            done(error)

    def stop(self) -> None:
        """Do what was submitted, call back for it, and end."""
        self._jobs.put(None)
        self._thread.join()
        self.finish()
        self._wake.close()

    def _run(self) -> None:
        while (item := self._jobs.get()) is not None:
            job, done = item
            error: OSError | None = None
            try:
                job()
            except OSError as problem:
                error = problem
            self._done.append((done, error))
            self._wake.set()


class KernelWorker(Worker):
    """A worker that leaves syncs to the kernel while its thread has nothing to do; `kernel` sets `wake`, too."""

    def __init__(self, wake: Wake, kernel: KernelSync) -> None:
        super().__init__(wake)
        self._kernel = kernel
        #: How many jobs of the thread have not been called back for.
        self._outstanding = 0

    def submit(self, job: Callable[[], None], done: Callable[[OSError | None], None]) -> None:
        """Have a job done in the thread."""

        def finished(error: OSError | None) -> None:
            self._outstanding -= 1
            done(error)

        self._outstanding += 1
        super().submit(job, finished)

    def sync(self, fd: int, sync: Callable[[int], None], done: Callable[[OSError | None], None]) -> None:
        """Have a file synced, by the kernel or by `sync(fd)` in the thread."""
        if not self._outstanding:
            try:
                self._kernel.submit(fd, done)
            except OSError:
                # It can't be begun: what is wrong with the file, if that is why, the thread will find out.
                pass
            else:
                return
        super().sync(fd, sync, done)

    def finish(self) -> None:
        """Call back for all that is done."""
        super().finish()
        self._kernel.finish()

    def stop(self) -> None:
        """Do what was submitted, call back for it, and end."""
        self._kernel.close()
        super().stop()


def make_worker() -> Worker:
    """The best worker that there is for ordinary files."""
    wake = make_wake()
    try:
        kernel = KernelSync(wake.fileno())
    except OSError:
        return Worker(wake)
    return KernelWorker(wake, kernel)
