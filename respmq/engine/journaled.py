"""The engine that loses nothing: the broker, and a journal in which all that happens to it is written down."""

from __future__ import annotations

from typing import TYPE_CHECKING

from respmq.engine.memory import MemoryEngine
from respmq.errors import JournalError, PersistenceError
from respmq.journal.compaction import Compactor
from respmq.journal.files import Files
from respmq.journal.folder import Folder
from respmq.journal.journal import Journal
from respmq.journal.recovery import Recovery
from respmq.journal.worker import make_worker as make_best_worker
from respmq.pending import DiskWait

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from respmq.core.exchanges import Exchange
    from respmq.core.image import BrokerImage
    from respmq.journal.journal import Policy
    from respmq.journal.worker import Worker

#: Beside body, headers and attachments, what the record of a message takes at most. (`hub.used` counts more.)
_RECORD_SIZE = 600

#: How many of the last segments are left alone when one is full: most of what is in them now will soon be gone.
_FRESH = 2

#: How many records of an import are one batch.
_RECORDS_AT_ONCE = 10_000


class JournaledEngine(MemoryEngine):
    """A broker whose state is in a folder. It serves nobody before `loading` is over.

    Args:
        now: the moment at which it starts, milliseconds since the epoch.
        random_bytes: `f(n)` gives n random bytes, for ids and tokens.
        uniform: `f(a, b)` gives a random number between a and b, for RETRYJITTER.
        path: the folder.
        policy: when what is written is safe.
        segment_size: about how large the files in the folder become, in bytes.
        wall: the wall clock, in milliseconds since the epoch.
        stands_still: time goes on where it was, and not where the wall clock is.
        files: the file system.
        make_worker: makes what does in the background what takes long on a disk.

    Raises:
        JournalError: another process uses the folder, or it can't be used.
    """

    def __init__(
        self,
        now: int,
        random_bytes: Callable[[int], bytes],
        uniform: Callable[[float, float], float],
        path: Path,
        *,
        policy: Policy = "always",
        segment_size: int = 32 << 20,
        wall: Callable[[], int],
        stands_still: bool = False,
        files: Files | None = None,
        make_worker: Callable[[], Worker] = make_best_worker,
    ) -> None:
        super().__init__(now, random_bytes, uniform)
        self.files = files or Files()
        self.path = path
        self._folder = Folder(path, self.files)
        self._policy: Policy = policy
        self._segment_size = segment_size
        # A clock that stands still can't be compared with the wall clock: deadlines are stretches of its own time.
        self._wall: Callable[[], int] = self._own_time if stands_still else wall
        self._make_worker = make_worker
        self._stands_still = stands_still
        self.recovery = Recovery(path)
        self.journal: Journal | None = None
        self.compactor: Compactor | None = None
        self._closed = False

    def _own_time(self) -> int:
        return self.now

    # -- loading ---------------------------------------------------------------------------------------------------

    def loading(self) -> Iterator[None]:
        """Read the journal and become what it tells, in small steps.

        Raises:
            JournalError: it is damaged or can't be read.
        """
        recovery = self.recovery
        try:
            yield from recovery.read()
        except OSError as error:
            msg = f"can't read the journal, {error.filename}: {error.strerror}"
            raise JournalError(msg) from error
        image = recovery.image
        if recovery.sequence:
            now = image.now if self._stands_still else min(recovery.moment(), self._wall())
            yield from self.load(image, now)
        journal = Journal(
            self._folder.path,
            recovery,
            self._segment_size,
            self._policy,
            self.files,
            self._wall,
            self._make_worker(),
        )
        journal.preamble = lambda: self._describe(journal.floor)
        if recovery.shifted and not self._stands_still:
            journal.encoder.shifted(recovery.shifted)
        self._describe_to(journal, journal.floor)
        self.compactor = Compactor(
            journal, self._segment_size, self._queues, self._exchange, self._exchange_names, self._describe
        )
        self.journal = journal
        self.record(journal.encoder)
        self.limit_room()
        # What fell due meanwhile does now, before a batch is written that would take the pause for a step of the clock.
        super().tick(self._wall())
        self.commit()

    def take_over(self, image: BrokerImage) -> None:
        """Become what an image tells, in place of nothing, and write all of it down."""
        if self.journal is None:
            return
        encoder = self.journal.encoder
        self.record(None)
        for _ in self.load(image, image.now):
            pass
        self.record(encoder)
        for queue in self._queues.values():
            encoder.declared(queue)
            for message in queue.live.values():
                encoder.stored_again(queue, message)
                if len(encoder.records) >= _RECORDS_AT_ONCE:
                    self.commit()
            encoder.remembered(queue, [(id, queue.window.put_at(id)) for id in queue.window.ids()])
            for letter in queue.dead:
                encoder.letter_again(queue, letter)
            self.commit()
        for queue in self._queues.values():
            for request in queue.requests.values():
                encoder.requested(queue, request)
        for name, exchange in self.exchanges.all():
            bindings = [(self.find(queue).number, key) for queue, key in exchange.bindings]
            encoder.exchange(name, exchange, bindings)
        self._describe(self.journal.floor)
        self.commit()

    def _describe(self, floor: int) -> None:
        if self.journal is not None:
            self._describe_to(self.journal, floor)

    def _describe_to(self, journal: Journal, floor: int) -> None:
        journal.floor = max(journal.floor, floor)
        journal.encoder.broker(self._hub.queues_made, self.topics.binding_drops, journal.floor)

    def _exchange(self, name: bytes) -> tuple[Exchange, list[tuple[int, bytes]]] | None:
        for known, exchange in self.exchanges.all():
            if known == name:
                return exchange, [(self.find(queue).number, key) for queue, key in exchange.bindings]
        return None

    def _exchange_names(self) -> list[bytes]:
        return [name for name, _ in self.exchanges.all()]

    # -- while it serves -------------------------------------------------------------------------------------------

    @property
    def progress(self) -> tuple[int, int]:
        """Bytes of the journal that were read, and that there are."""
        return self.recovery.done, self.recovery.total

    @property
    def failure(self) -> str | None:
        """Why nothing may change until a restart; None if that isn't so."""
        return None if self.journal is None else self.journal.failure

    def fileno(self) -> int:
        """Readable when something was done in the background: call `finish` then."""
        return -1 if self.journal is None else self.journal.fileno()

    def finish(self) -> None:
        """Take note of what was done in the background."""
        if self.journal is not None:
            self.journal.finish()
            self.limit_room()

    def await_sync(self) -> bool:
        """Wait a moment for a sync that answers wait for; whether it has ended."""
        return self.journal is not None and self.journal.await_sync()

    @property
    def stuck(self) -> str | None:
        """Why nothing may change for now; None if it may."""
        return None if self.journal is None else self.journal.stuck

    @property
    def holding(self) -> bool:
        """Whether answers have to wait until what they tell of is safe."""
        return self.journal is not None and self.journal.holding

    @property
    def waiting(self) -> bool:
        """Whether a batch waits for space on the disk."""
        return self.journal is not None and self.journal.waiting

    @property
    def sequence(self) -> int:
        """Of the last batch."""
        return 0 if self.journal is None else self.journal.sequence

    @property
    def safe(self) -> int:
        """Of the last batch whose answers may leave."""
        return 0 if self.journal is None else self.journal.safe

    def set_policy(self, policy: str) -> None:
        """When a batch is safe from now on: `always`, `everysec` or `no`."""
        for known in ("always", "everysec", "no"):
            if policy == known:
                self._policy = known
        if self.journal is not None:
            self.journal.policy = self._policy

    def save(self) -> DiskWait | None:
        """Wait until all that has happened is on the disk; None if it is there already.

        The answer may be a PersistenceError. Raises it at once if it is known already.
        """
        journal = self.journal
        if journal is None:
            return None
        self.commit()
        if journal.failure is not None:
            raise PersistenceError(journal.failure)
        if journal.is_durable:
            return None
        pending = DiskWait()
        journal.sync(lambda reason: pending.resolve(None if reason is None else PersistenceError(reason)))
        return pending

    @property
    def saved_at(self) -> int:
        """When something was last known to be on the disk, in milliseconds since the epoch."""
        return self.now if self.journal is None else self.journal.synced_at

    def compact(self) -> bool:
        """Begin to write down again what is needed of all old segments; False if that is being done."""
        if self.compactor is None or self.compactor.busy:
            return False
        self.compactor.compact_all()
        return True

    def describe_journal(self) -> dict[str, int | str]:
        """What INFO tells of the journal."""
        journal = self.journal
        if journal is None:
            done, total = self.progress
            return {"loading_total_bytes": total, "loading_loaded_bytes": done}
        sizes = journal.sizes
        return {
            "aof_current_size": sum(sizes.values()),
            "aof_base_size": 0 if self.compactor is None else self.compactor.live_size,
            "aof_rewrite_in_progress": int(self.compactor is not None and self.compactor.busy),
            "aof_rewrites": 0 if self.compactor is None else self.compactor.dropped,
            "aof_last_write_status": "ok" if journal.stuck is None else "err",
            "aof_pending_bio_fsync": int(journal.holding),
            "journal_segments": len(sizes),
            "journal_batches": journal.sequence,
        }

    def tick(self, now: int) -> int | None:
        """As in memory; and space that was missing is looked for, and a little of the journal is compacted."""
        journal = self.journal
        if journal is None:
            return None
        journal.retry()
        if journal.stuck:
            # On a full disk time stands still: nothing may happen that can't be written down. The end of a wait isn't.
            self.end_waits(now)
            following: int | None = now + 100
        else:
            following = super().tick(now)
        if self.compactor is not None and self.compactor.running:
            self.compactor.step(now)
            return now
        return following

    def advance(self, now: int) -> None:
        """As in memory; a clock that stands still is moved for good."""
        if self.journal is None or self.stuck:
            return
        super().advance(now)
        if self._stands_still:
            # A batch says when it was written.
            self._describe(self.journal.floor)

    def serve(self) -> None:
        """As in memory, unless nothing may change."""
        if not self.stuck:
            super().serve()

    def commit(self) -> None:
        """Write what has happened."""
        journal = self.journal
        if journal is not None and journal.dirty:
            segment = journal.homes.segment
            journal.commit(self.now)
            if journal.homes.segment != segment and len(journal.sizes) > _FRESH and self.compactor is not None:
                # Not only once a second: much may be written in that time.
                self.compactor.look(self.now)
            self.limit_room()

    def every_second(self) -> None:
        """What is to be done now and then."""
        if self.journal is not None and self.compactor is not None and not self._closed:
            self.journal.every_second()
            self.compactor.look(self.now)
            self.limit_room()

    def limit_room(self) -> None:
        """Find out anew how much may be stored before the journal has to be asked."""
        super().limit_room()
        if self.journal is not None:
            self._hub.limit = min(self._hub.limit, self._hub.used + self.journal.room)

    def make_room(self, size: int) -> None:
        """Set space aside for a message of `size` bytes.

        Raises:
            PersistenceError: there is none.
        """
        if self.journal is not None:
            self.journal.make_room(size + _RECORD_SIZE)
            self.limit_room()

    def take_warnings(self) -> list[str]:
        """What is to be logged since the last call."""
        if self.journal is None:
            return []
        warnings, self.journal.warnings = self.journal.warnings, []
        return warnings

    def close(self) -> None:
        """Write all that has happened, and close the journal: what happens from now on isn't written down."""
        if self._closed:
            return
        self._closed = True
        if self.journal is not None:
            self.commit()
            self.record(None)
            self.journal.close()
        self._folder.release()
