"""The journal that a broker writes to: batches into segments, when they are safe, and what happens when the disk fails.

A batch is what happened since the last one. It is written before any answer that tells of it leaves; how much safer it
has to be is the policy's: `always` waits for the fsync, `everysec` asks for one each second, `no` leaves it to the
system. Space is set aside before it is needed, so that a full disk refuses puts and hurts nothing that is there.
"""

from __future__ import annotations

import contextlib
import os
import time
from typing import TYPE_CHECKING, Literal

from respmq.errors import JournalError, PersistenceError
from respmq.journal import format as fmt
from respmq.journal.encoder import Encoder
from respmq.journal.files import NO_SPACE, Files
from respmq.journal.segment import Segment, encode_batch, segment_head, segment_path

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from respmq.journal.recovery import Recovery
    from respmq.journal.worker import Worker

Policy = Literal["always", "everysec", "no"]

#: How much space is set aside at a time; less for small segments. A quarter of it is a reserve, which puts leave to
#: leases, acks and what time brings.
_STEP = 1 << 20

#: How long the end of a sync is waited for while nothing else is done, in milliseconds.
_PATIENCE = 1

#: How many segments may be on their way to the disk: with more of them, the last one grows until the disk is ready.
_RETIRING = 4


class Journal:
    """Writes what `encoder` was told.

    Args:
        folder: where it is; it exists and is locked.
        recovery: what was read there.
        segment_size: about how large a segment becomes, in bytes.
        policy: when a batch is safe; it may be changed.
        files: the file system.
        wall: the wall clock, in milliseconds since the epoch.
        worker: does what takes long; it is stopped by `close`.

    Attributes:
        sequence: of the last batch, written or waiting for space.
        safe: of the last batch whose answers may leave.
        failure: why the journal can't be trusted any more; None if it can.

    Raises:
        JournalError: it can't be written to.
    """

    def __init__(
        self,
        folder: Path,
        recovery: Recovery,
        segment_size: int,
        policy: Policy,
        files: Files,
        wall: Callable[[], int],
        worker: Worker,
    ) -> None:
        self.folder = folder
        self.homes = recovery.homes
        self.encoder = Encoder(self.homes)
        self._policy: Policy = policy
        self.files = files
        self.sequence = self.safe = self._written = self._durable = recovery.sequence
        self.failure: str | None = None
        self.synced_at = wall()
        #: What a new segment begins with.
        self.preamble: Callable[[], None] = lambda: None
        #: Sizes of the segments, the last one being written to.
        self.sizes = dict(recovery.segments)
        self.floor = min(self.sizes, default=1)
        self._segment_size = segment_size
        self._step = min(_STEP, 2 * segment_size)
        self._reserve = self._step // 4
        self._wall = wall
        self._worker = worker
        #: Whether a sync is on its way, and whether it has been waited for.
        self._syncing = self._awaited = False
        #: How many segments are being trimmed and synced.
        self._retiring = 0
        #: Whether the file system can set space aside, so that a write there can be trusted to find it.
        self._sets_aside = True
        #: Who waits for the next sync that succeeds.
        self._waiters: list[Callable[[], None]] = []
        #: How many bytes were written by this process.
        self.written_size = 0
        #: What is to be logged.
        self.warnings: list[str] = []
        #: A batch that found no space, and is written as soon as there is some.
        self._waiting = b""
        self._full = False
        self._retry_at = 0.0
        self._fd = -1
        self._salt = 0
        self._offset = self._allocated = 0
        try:
            self._open_last(recovery)
        except OSError as error:
            self._worker.stop()
            msg = f"can't write to the journal in {folder}: {error.strerror}"
            raise JournalError(msg) from error

    # -- what the server asks --------------------------------------------------------------------------------------

    def fileno(self) -> int:
        """Readable when something was done in the background: call `finish` then."""
        return self._worker.fileno()

    @property
    def waiting(self) -> bool:
        """Whether a batch waits for space. Nothing changes until it is written, so other answers need not wait."""
        return bool(self._waiting)

    @property
    def holding(self) -> bool:
        """Whether answers have to wait. After a failure nothing becomes safe any more."""
        return self.safe < self.sequence and self.failure is None

    @property
    def policy(self) -> Policy:
        """When a batch is safe."""
        return self._policy

    @policy.setter
    def policy(self, policy: Policy) -> None:
        self._policy = policy
        if policy == "always":
            self._sync()
        else:
            self.safe = self._written

    @property
    def dirty(self) -> bool:
        """Whether something has happened that isn't written yet."""
        return bool(self.encoder.records)

    @property
    def stuck(self) -> str | None:
        """Why nothing may change for now, None if it may."""
        if self.failure is not None:
            return self.failure
        if self._waiting or (self._full and self._allocated - self._offset < self._reserve // 4):
            return f"the disk that {self.folder} is on is full: make room there, nothing is lost"
        return None

    def warn(self, text: str) -> None:
        """Have something logged."""
        self.warnings.append(text)

    @property
    def room(self) -> int:
        """How many bytes puts may add before `make_room` has to be asked; none once the journal has failed."""
        if self.failure is not None:
            return 0
        return max(0, self._allocated - self._offset - self.told - self._reserve)

    @property
    def told(self) -> int:
        """Bytes that are to be written already."""
        return sum(map(len, self.encoder.records))

    def make_room(self, size: int) -> None:
        """Set space aside for `size` more bytes.

        Raises:
            PersistenceError: the disk is full, or the journal has failed.
        """
        found = self.failure is None and (self.room >= size or self._allocate(self.told + size + self._reserve))
        if self.failure is not None:
            raise PersistenceError(self.failure)
        if not found:
            msg = (
                f"the disk that {self.folder} is on is full: nothing can be stored until there is room, "
                "leasing and acking go on"
            )
            raise PersistenceError(msg)

    def commit(self, now: int) -> None:
        """Write what has happened, at the broker's time `now`. What may follow from a failure is in `failure`."""
        records = self.encoder.records
        if not records or self.failure is not None:
            return
        payload = b"".join(records)
        records.clear()
        self.sequence += 1
        batch = encode_batch(self.sequence, now, self._wall(), self._durable, payload, self._salt)
        if self._waiting:
            self._waiting += batch
        else:
            self._write(batch)
        # Behind the batch and not before it: each message's home is the segment that was written to then.
        self._roll_if_due()

    def finish(self) -> None:
        """Take note of what was done in the background."""
        self._worker.finish()

    def await_sync(self) -> bool:
        """Wait a moment for the end of a sync that answers wait for, once for each; whether it has ended.

        What is read meanwhile would have to wait for the next one anyway: all of it can be done at once then, and be
        safe together.
        """
        if not self._syncing or self._awaited or self._policy != "always":
            return False
        self._awaited = True
        if not self._worker.wait(_PATIENCE):
            return False
        self._worker.finish()
        return True

    def every_second(self) -> None:
        """Sync, if that is the policy, and begin a new segment, if the last one had to grow for a while."""
        if not self.dirty:
            self._roll_if_due()
        if self._policy == "everysec":
            self._sync()

    def retry(self) -> None:
        """See whether there is space again, if there was none; at most ten times a second."""
        if not (self._waiting or self._full) or self.failure is not None:
            return
        now = time.monotonic()
        if now < self._retry_at:
            return
        self._retry_at = now + 0.1
        if self._waiting:
            batch, self._waiting = self._waiting, b""
            self._write(batch)
        elif self._allocate(2 * self._reserve):
            self._full = False

    @property
    def full(self) -> bool:
        """Whether the disk had no room when it was last asked."""
        return self._full

    @property
    def space(self) -> int:
        """How many bytes can be written for sure."""
        return self._allocated - self._offset - self.told

    @property
    def is_durable(self) -> bool:
        """Whether all that has happened is on the disk."""
        return self._durable >= self.sequence and not self.dirty

    def sync(self, done: Callable[[str | None], None]) -> None:
        """Have all that is written until now synced; `done` gets None, or why it failed."""
        sequence = self.sequence

        def synced() -> None:
            if self.failure is None and self._durable < sequence:
                self._waiters.append(synced)
                self._sync()
            else:
                done(self.failure)

        synced()

    def close(self) -> None:
        """Write and sync what there is, and close; the last segment loses the space that was set aside."""
        if self.failure is None and not self._waiting:
            self._worker.sync(self._fd, self.files.sync, self._synced_until(self._written))
        self._worker.stop()
        if self.failure is None and not self._waiting:
            with contextlib.suppress(OSError):
                # Zeros at the end do no harm.
                self.files.truncate(self._fd, self._offset)
        self.files.close(self._fd)

    # -- segments --------------------------------------------------------------------------------------------------

    def _open_last(self, recovery: Recovery) -> None:
        torn = recovery.torn
        for number in recovery.cut:
            self.files.set_aside(segment_path(self.folder, number))
        if torn is not None and torn.path != segment_path(self.folder, max(recovery.segments, default=0)):
            if torn.path.exists():
                self.files.remove(torn.path)
        elif torn is not None and (torn.sequence is not None or recovery.cut):
            self.files.keep_copy(torn.path)
        if not self.sizes:
            self._begin(1 if torn is None else int(torn.path.stem))
            return
        number = max(self.sizes)
        self._fd = self.files.open(segment_path(self.folder, number))
        self._offset = self._allocated = self.sizes[number]
        self.files.truncate(self._fd, self._offset)
        self.files.sync(self._fd)
        self._salt = recovery.salt
        self.homes.begin(number)
        if recovery.version == fmt.VERSION:
            self._full = not self._allocate(self._step)
            return
        # What is written now may be of kinds that the version in its header doesn't know.
        self.files.close(self._fd)
        self._begin(number + 1)

    def _begin(self, number: int) -> None:
        """Begin a segment.

        Raises:
            OSError: it can't be made; nothing has changed.
        """
        salt = int.from_bytes(os.urandom(4), "little")
        path = segment_path(self.folder, number)
        fd = self.files.create(path)
        try:
            self.files.allocate(fd, 0, self._step)
            self.files.write(fd, segment_head(number, self.sequence + 1, self._wall(), salt), 0)
        except OSError:
            self.files.close(fd)
            self.files.remove(path)
            raise
        self._fd = fd
        self._salt = salt
        self._offset = self.sizes[number] = fmt.SEGMENT_SIZE
        self._allocated = self._step
        self.homes.begin(number)
        self._worker.submit(lambda: self.files.sync_folder(self.folder), self._done)
        self.preamble()

    def _roll_if_due(self) -> None:
        if self._offset > self._segment_size and self._retiring < _RETIRING and not self._waiting and not self.failure:
            self._roll()

    def _roll(self) -> None:
        old, end = self._fd, self._offset
        written = self._written
        try:
            self._begin(max(self.sizes) + 1)
        except OSError as error:
            if error.errno in NO_SPACE:
                # The old one grows; there is space set aside in it.
                self._full = True
                return
            self._fail(f"can't begin a new file in {self.folder}: {error.strerror}")
            return

        def retire() -> None:
            self.files.truncate(old, end)
            self.files.sync(old)
            self.files.close(old)

        def retired(error: OSError | None) -> None:
            self._retiring -= 1
            done(error)

        done = self._synced_until(written)
        self._retiring += 1
        self._worker.submit(retire, retired)

    def _allocate(self, size: int) -> bool:
        """Have at least `size` bytes set aside behind the offset; False if the disk is full."""
        missing = self._offset + size - self._allocated
        if missing <= 0:
            return True
        for step in (max(missing, self._step), missing):
            try:
                self._sets_aside = self.files.allocate(self._fd, self._allocated, step)
            except OSError as error:
                if error.errno not in NO_SPACE:
                    self._fail(f"can't set space aside in {self.folder}: {error.strerror}")
                    return False
            else:
                self._allocated += step
                return True
        self._full = True
        return False

    def read(self, job: Callable[[], Segment], done: Callable[[Segment], None]) -> None:
        """Have a segment read in the background."""
        segments: list[Segment] = []

        def read(error: OSError | None) -> None:
            if error is not None:
                self._fail(f"the journal in {self.folder} can't be read: {error.strerror}")
            for segment in segments:
                done(segment)

        self._worker.submit(lambda: segments.append(job()), read)

    def drop(self, number: int, done: Callable[[], None]) -> None:
        """Delete a segment that nothing needs any more, once all that is written is on the disk."""
        path = segment_path(self.folder, number)
        fd = self._fd

        def remove() -> None:
            self.files.sync(fd)
            self.files.remove(path)
            self.files.sync_folder(self.folder)

        def removed(error: OSError | None) -> None:
            self._done(error)
            if error is None:
                self.sizes.pop(number, None)
                self.homes.drop(number)
            done()

        self._worker.submit(remove, removed)

    # -- writing and syncing ---------------------------------------------------------------------------------------

    def _write(self, batch: bytes) -> None:
        if self._offset + len(batch) + self._reserve + self._step // 2 > self._allocated:
            # Ahead of need, so that puts rarely have to ask.
            self._allocate(len(batch) + self._reserve + self._step)
            if self.failure is not None:
                return
        try:
            self.files.write(self._fd, batch, self._offset)
        except OSError as error:
            self._cut()
            if error.errno in NO_SPACE and (self._full or not self._sets_aside) and self.failure is None:
                # Those who put were told before. What is refused although it was set aside is another matter.
                self._waiting = batch
                self._full = True
                return
            self._fail(f"writing to the journal in {self.folder} failed: {error.strerror}")
            return
        self._offset += len(batch)
        self.written_size += len(batch)
        self._allocated = max(self._allocated, self._offset)
        self.sizes[self.homes.segment] = self._offset
        self._written = self.sequence
        if self._policy == "always":
            self._sync()
        else:
            self.safe = self._written

    def _cut(self) -> None:
        """Take back what a failed write has left."""
        try:
            self.files.truncate(self._fd, self._offset)
            self._allocated = self._offset
        except OSError as error:
            self._fail(f"the journal in {self.folder} can't be cut back after a failed write: {error.strerror}")

    def _sync(self) -> None:
        if self._syncing or self._durable >= self._written or self.failure is not None:
            return
        self._syncing = True
        self._awaited = False
        self._worker.sync(self._fd, self.files.sync, self._synced_until(self._written, then=True))

    def _synced_until(self, sequence: int, *, then: bool = False) -> Callable[[OSError | None], None]:
        def synced(error: OSError | None) -> None:
            if then:
                self._syncing = False
            self._done(error)
            if self.failure is not None:
                return
            self._durable = max(self._durable, sequence)
            self.synced_at = self._wall()
            if self._policy == "always":
                self.safe = self._durable
                self._sync()
            waiters, self._waiters = self._waiters, []
            for waiter in waiters:
                waiter()

        return synced

    def _done(self, error: OSError | None) -> None:
        if error is not None:
            # What was not synced may be gone from memory too: asking once more would get a yes that means nothing.
            self._fail(f"an fsync of the journal in {self.folder} failed: {error.strerror}")

    def _fail(self, reason: str) -> None:
        if self.failure is None:
            self.failure = f"{reason}. Nothing is changed or told any more until a restart has read the journal again"
            waiters, self._waiters = self._waiters, []
            for waiter in waiters:
                waiter()
