"""A journal in a folder, with clocks that tests move, files that they let fail, and a worker that they let work."""

from __future__ import annotations

import random
import shutil
from collections import deque
from collections.abc import Callable, Iterator
from pathlib import Path

from respmq.core.model import QueueSettings
from respmq.engine.journaled import JournaledEngine
from respmq.errors import PersistenceError
from respmq.journal.journal import Journal, Policy
from respmq.journal.recovery import Recovery
from respmq.journal.segment import Segment, segment_numbers, segment_path
from respmq.journal.wake import make_wake
from respmq.journal.worker import Job, Worker
from tests.support.disk import FailingFiles, InlineWorker

START = 1_700_000_000_000

#: Of tests that need a handful of segments.
SMALL = 2_000

#: What is set aside at a time, and what is kept of it for leases and acks.
STEP, RESERVE = 1 << 20, 1 << 18


class HeldWorker(Worker):
    """Does its jobs when a test says so."""

    def __init__(self) -> None:
        super().__init__(make_wake())
        self.jobs: deque[Job] = deque()

    def submit(self, job: Callable[[], None], done: Callable[[OSError | None], None]) -> None:
        self.jobs.append((job, done))

    def work(self) -> None:
        """Do all jobs, also those that come meanwhile."""
        while self.jobs:
            self.work_one()

    def work_one(self) -> None:
        """Do one job."""
        job, done = self.jobs.popleft()
        error: OSError | None = None
        try:
            job()
        except OSError as problem:
            error = problem
        done(error)

    def wake(self) -> None:
        """Let who waits for `fileno` know that something is done."""
        self._wake.set()

    def stop(self) -> None:
        self.work()
        super().stop()


class QuickFiles(FailingFiles):
    """Syncs nothing: what tests look at is what the system knows. A failing sync fails, and all are counted."""

    def sync(self, fd: int) -> None:
        self._call("sync")

    def sync_folder(self, folder: Path) -> None:
        self._call("sync_folder")


class Rig:
    """Opens engines on folders below `path`; `close` closes them all.

    Attributes:
        wall: the wall clock, in milliseconds since the epoch. An engine goes on with its own time.
        files: those of all engines.
        folder: the folder of the journal that is opened if no other is named.
    """

    def __init__(self, path: Path) -> None:
        self.folder = path / "journal"
        self.wall = START
        self.files = QuickFiles()
        self._path = path
        self._copies = 0
        self._chance = random.Random(0)
        self._engines: list[JournaledEngine] = []

    def open(
        self,
        folder: Path | None = None,
        *,
        policy: Policy = "always",
        segment_size: int = 32 << 20,
        worker: Worker | None = None,
    ) -> JournaledEngine:
        """Start an engine, and load the journal if there is one."""
        engine = JournaledEngine(
            self.wall,
            self._chance.randbytes,
            self._chance.uniform,
            folder or self.folder,
            policy=policy,
            segment_size=segment_size,
            wall=lambda: self.wall,
            files=self.files,
            make_worker=InlineWorker if worker is None else lambda: worker,
        )
        self._engines.append(engine)
        for _ in engine.loading():
            pass
        return engine

    def copy(self) -> Path:
        """The folder as it is on the disk at this moment, as after a `kill -9`."""
        self._copies += 1
        return Path(shutil.copytree(self.folder, self._path / f"copy-{self._copies}"))

    def fill(self, count: int, *, segment_size: int = SMALL, size: int = 100) -> list[bytes]:
        """Make a journal of a queue `q` with so many messages, each in a batch of its own; returns their bodies."""
        engine = self.open(segment_size=segment_size)
        engine.declare(b"q", QueueSettings())
        engine.commit()
        bodies = [(b"<%d>" % number).ljust(size, b".") for number in range(count)]
        for body in bodies:
            engine.put(b"q", body)
            engine.commit()
        engine.close()
        return bodies

    def close(self) -> None:
        """Close all engines."""
        self.files.fail.clear()
        for engine in self._engines:
            engine.close()


def journal_of(engine: JournaledEngine) -> Journal:
    """The journal of an engine that has loaded."""
    assert engine.journal is not None
    return engine.journal


def bodies_of(engine: JournaledEngine, name: bytes = b"q") -> list[bytes]:
    """The bodies of the ready messages of a queue, in order."""
    return [message.body for message in engine.find(name).peek(0)]


def recovered(folder: Path) -> Recovery:
    """What is read from a folder."""
    recovery = Recovery(folder)
    for _ in recovery.read():
        pass
    return recovery


def segments(folder: Path) -> Iterator[Segment]:
    """The segments in a folder, in order."""
    for number in segment_numbers(folder):
        yield Segment(segment_path(folder, number), number)


def flip(path: Path, offset: int, bit: int = 0) -> None:
    """Change one bit of a file."""
    data = bytearray(path.read_bytes())
    data[offset] ^= 1 << bit
    path.write_bytes(data)


def opened(
    rig: Rig, *, policy: Policy = "always", segment_size: int = 32 << 20, worker: Worker | None = None
) -> JournaledEngine:
    """An engine with a queue that is on the disk."""
    engine = rig.open(policy=policy, segment_size=segment_size, worker=worker)
    engine.declare(b"q", QueueSettings(max_len=1_000_000))
    engine.commit()
    return engine


def stuck(engine: JournaledEngine) -> str | None:
    """Why nothing may change now."""
    return engine.stuck


def holds(engine: JournaledEngine) -> bool:
    """Whether answers have to wait now."""
    return engine.holding


def put(engine: JournaledEngine, body: bytes = b"x") -> None:
    """Put a message and write that down."""
    engine.put(b"q", body)
    engine.commit()


def retry(engine: JournaledEngine) -> None:
    """Let it see whether there is space again, as it does ten times a second."""
    journal_of(engine)._retry_at = 0
    engine.tick(engine.now)


def on_disk(rig: Rig) -> list[bytes]:
    """The bodies that would be there after a `kill -9`."""
    return [
        message.body for queue in recovered(rig.copy()).image.queues.values() for message in queue.messages.values()
    ]


def fill_up(engine: JournaledEngine, size: int = 4_000) -> int:
    """Put messages until the disk is full; returns how many."""
    for number in range(10_000):
        try:
            put(engine, bytes(size))
        except PersistenceError:
            return number
    raise AssertionError("it never was")
