"""Journals in tests: a worker that does its jobs at once, and files that fail when a test wants them to."""

from __future__ import annotations

import errno
import os
from collections.abc import Callable
from pathlib import Path

from respmq.journal.files import Files
from respmq.journal.wake import make_wake
from respmq.journal.worker import Worker


class InlineWorker(Worker):
    """Does each job where it is submitted, so that tests need not wait."""

    def __init__(self) -> None:
        super().__init__(make_wake())

    def submit(self, job: Callable[[], None], done: Callable[[OSError | None], None]) -> None:
        error: OSError | None = None
        try:
            job()
        except OSError as problem:
            error = problem
        done(error)


class FailingFiles(Files):
    """Files whose calls fail as `fail` says: the method's name and what it is to raise, once or until it is taken out.

    `space` is how many bytes may still be set aside (None: any number), `write_at_most` cuts one write short.
    """

    def __init__(self) -> None:
        self.fail: dict[str, int] = {}
        self.once: set[str] = set()
        self.space: int | None = None
        self.calls: list[str] = []
        self.write_at_most: int | None = None

    def _call(self, name: str) -> None:
        self.calls.append(name)
        number = self.fail.get(name)
        if number is not None:
            if name in self.once:
                del self.fail[name]
                self.once.discard(name)
            raise OSError(number, os.strerror(number))

    def fail_once(self, name: str, number: int) -> None:
        """Let the next call of a method fail."""
        self.fail[name] = number
        self.once.add(name)

    def create(self, path: Path) -> int:
        self._call("create")
        return super().create(path)

    def write(self, fd: int, data: bytes, offset: int) -> None:
        if self.write_at_most is not None:
            super().write(fd, data[: self.write_at_most], offset)
            self.write_at_most = None
            raise OSError(errno.EIO, os.strerror(errno.EIO))
        self._call("write")
        super().write(fd, data, offset)

    def allocate(self, fd: int, offset: int, size: int) -> bool:
        self._call("allocate")
        if self.space is not None:
            if self.space < size:
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
            self.space -= size
        return super().allocate(fd, offset, size)

    def truncate(self, fd: int, size: int) -> None:
        self._call("truncate")
        super().truncate(fd, size)

    def sync(self, fd: int) -> None:
        self._call("sync")
        super().sync(fd)
