"""Reads a journal: every segment in its order, with a verdict on what is damaged, to the state that it tells."""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING

from respmq.errors import BrokerError, JournalDamagedError, JournalError, quote
from respmq.journal.homes import Homes
from respmq.journal.replay import Replay, shift
from respmq.journal.segment import Damage, Segment, segment_numbers, segment_path

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from respmq.core.image import BrokerImage, QueueImage

#: What a record that is not as it should be leads to.
UNREADABLE = (ValueError, KeyError, TypeError, IndexError, AttributeError, struct.error)

#: How far broker's time and wall clock may be apart without a step of the wall clock between, in milliseconds.
_STEP = 1000


class Recovery:
    """What is read from a folder. `read` has to come to its end before anything else is looked at.

    `lenient` lets queues have no name, for a repair.

    Attributes:
        image: the state.
        homes: where what is in it was written down.
        segments: number and size of each segment that is needed.
        sequence: of the last batch.
        first_needed: the first of them.
        torn: the tail of the journal if it was cut off in a write, or never came to the disk as a whole.
        cut: the segments behind that.
        done, total: bytes read and to be read.
        records: how many records there were.
    """

    def __init__(self, folder: Path, *, lenient: bool = False) -> None:
        self._folder = folder
        self._lenient = lenient
        self.homes = Homes()
        self._replay = Replay(self.homes)
        self.segments: dict[int, int] = {}
        self.sequence = 0
        #: Of the last segment.
        self.salt = self.version = 0
        self.first_needed = 0
        self.torn: Damage | None = None
        self.cut: list[int] = []
        self.done = 0
        self._numbers = segment_numbers(folder)
        self.total = sum(segment_path(folder, number).stat().st_size for number in self._numbers)
        self._skew = 0

    @property
    def image(self) -> BrokerImage:
        """The state, once all is read."""
        return self._replay.image

    @property
    def floor(self) -> int:
        """Segments below this one are needed no longer."""
        return self._replay.floor

    @property
    def records(self) -> int:
        """How many records there were so far."""
        return self._replay.records

    def read(self) -> Iterator[None]:
        """Read all, in steps of about a batch.

        Raises:
            JournalDamagedError: something is damaged or missing other than the end of the last segment.
            OSError: a file can't be read.
        """
        first_needed = self._numbers[0] if self._numbers else 0
        missing = first_needed - 1
        for place, number in enumerate(self._numbers):
            segment = Segment(segment_path(self._folder, number), number)
            if segment.foreign is not None:
                raise JournalError(segment.foreign)
            if self.segments and segment.damage is None and segment.sequence != self.sequence + 1:
                if self._was_never_synced(self.sequence + 1, place):
                    self.torn = segment.missing(self.sequence + 1)
                    self.cut = self._numbers[place:]
                    break
                # What stands before the gap may be what a crash left of segments that were on their way out.
                self.homes = Homes()
                self._replay = Replay(self.homes)
                self.segments = {}
                first_needed = number
                missing = self._numbers[place - 1] + 1
            yield from self._read_segment(segment, place)
            if self.cut:
                break
        self._replay.end()
        self.first_needed = first_needed
        if first_needed > 1 and self._replay.floor < first_needed and not self._lenient:
            msg = f"{segment_path(self._folder, missing)} is missing: without it the state can't be known"
            raise JournalDamagedError(f"{msg}. Bring it back from a copy")
        for number in [number for number in self.segments if number < self._replay.floor]:
            self.homes.drop(number)
        names: set[bytes] = set()
        for number, queue in list(self.image.queues.items()):
            if queue.settings is None and queue.has_only_requests:
                # It was deleted: a request that had leased from it and from others was written down again behind that.
                del self.image.queues[number]
                continue
            self._finish(queue)
            if queue.name in names and not self._lenient:
                msg = f"the journal in {self._folder} has two queues '{quote(queue.name)}': the end of one is missing"
                raise JournalDamagedError(f"{msg}. See `respmq check {self._folder}`")
            names.add(queue.name)
            yield

    def _was_never_synced(self, sequence: int, place: int) -> bool:
        """Whether no batch from a segment on says that the one with a sequence, which is damaged, was on the disk.

        After a power failure pages may be missing before others that are there.
        """
        # Read anew: those that are being read go on where they are.
        later = (Segment(segment_path(self._folder, number), number) for number in self._numbers[place:])
        return all(batch.synced < sequence for segment in later for batch in segment.all_batches())

    def _read_segment(self, segment: Segment, place: int) -> Iterator[None]:
        self.homes.begin(segment.number)
        self._replay.begin(segment.number)
        if segment.damage is None:
            self.salt, self.version = segment.salt, segment.version
            if not self.segments:
                self.sequence = segment.sequence - 1
        before = 0
        for batch in segment.batches():
            try:
                self._replay.apply(batch.records)
            except (*UNREADABLE, BrokerError) as error:
                msg = f"{segment.path}, offset {batch.offset}: {error}; was it written by a newer version of respmq?"
                raise JournalDamagedError(msg) from error
            self.image.now = batch.now
            self._skew = batch.wall - batch.now
            self.sequence = batch.sequence
            self.done += batch.end - before
            before = batch.end
            yield
        self.done += len(segment.data) - before
        self.segments[segment.number] = segment.end
        damage = segment.damage
        if damage is None:
            return
        # Of two segments that were begun within one fsync, names may be on the disk without what is in them.
        empty = damage.torn and not segment.end
        due = self.sequence + 1 if empty else segment.due
        torn = damage.torn and segment.number == self._numbers[-1]
        if not torn and (segment.end or empty) and self._was_never_synced(due, place):
            torn = True
            self.cut = self._numbers[place + 1 :]
        if torn:
            self.torn = damage
            if not segment.end:
                # Not even the header was complete: nothing was ever written into it.
                del self.segments[segment.number]
            return
        msg = f"the journal is damaged: {damage}; {_at_stake(damage)}. See `respmq check {self._folder}`"
        raise JournalDamagedError(msg)

    def _finish(self, queue: QueueImage) -> None:
        """A queue is complete."""
        settings = queue.settings
        if settings is None and self._lenient:
            return
        if settings is None:
            msg = (
                f"the journal in {self._folder} speaks of queue number {queue.number}, but nowhere of its name: "
                "a segment is missing. Bring it back from a copy"
            )
            raise JournalDamagedError(msg)
        if self.shifted:
            shift(queue, self.shifted)
        self.homes.finish(queue.number, settings.dedupe + self.shifted)

    @property
    def shifted(self) -> int:
        """By how many milliseconds all deadlines are moved, since the wall clock was set while the broker ran."""
        return self._skew if abs(self._skew) >= _STEP else 0

    def moment(self) -> int:
        """When the last batch was written, by the wall clock, in milliseconds since the epoch."""
        return self.image.now + self.shifted


def _at_stake(damage: Damage) -> str:
    if damage.sequence is None:
        return f"{damage.lost} bytes behind it can't be read"
    return f"{damage.lost} bytes can't be read, and whole batches follow from batch {damage.sequence} on"
