"""Segment files: their names, and reading them with a verdict on every byte."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple
from zlib import crc32

from respmq.journal import format as fmt

if TYPE_CHECKING:
    from collections.abc import Iterator

SUFFIX = ".journal"

#: Of what no sequence and no time in a batch comes near.
_BEYOND = 1 << 53


class Batch(NamedTuple):
    """A batch and where it stands in its file.

    `now` and `wall` are the broker's time and the wall clock's, in milliseconds since the epoch; the batch `synced` and
    all before it were known to be on the disk when this one was written.
    """

    sequence: int
    now: int
    wall: int
    synced: int
    records: bytes
    offset: int
    end: int


@dataclass(frozen=True, slots=True)
class Damage:
    """What is wrong in a segment.

    Attributes:
        path: the file.
        offset: the first byte that is not as it was written.
        reason: what is wrong there.
        torn: nothing valid follows: it looks like a write that was cut off.
        lost: how many bytes follow that can't be used, up to the next valid batch or the end.
        sequence: that of the next valid batch behind the damage, if there is one.
    """

    path: Path
    offset: int
    reason: str
    torn: bool
    lost: int
    sequence: int | None = None

    def __str__(self) -> str:
        return f"{self.path}, offset {self.offset}: {self.reason}"


def segment_path(folder: Path, number: int) -> Path:
    """The file of a segment."""
    return folder / f"{number:020d}{SUFFIX}"


def segment_numbers(folder: Path) -> list[int]:
    """The numbers of the segments in a folder, in order."""
    names = [path.name.removesuffix(SUFFIX) for path in folder.iterdir() if path.suffix == SUFFIX]
    return sorted(int(name) for name in names if name.isdecimal() and name.isascii())


def segment_head(number: int, sequence: int, created: int, salt: int) -> bytes:
    """The header of a segment."""
    head = fmt.SEGMENT_HEAD.pack(fmt.SEGMENT_MAGIC, fmt.VERSION, number, sequence, created, salt)
    return head + crc32(head).to_bytes(4, "little")


def encode_batch(sequence: int, now: int, wall: int, synced: int, records: bytes, salt: int) -> bytes:
    """A batch as it stands in a segment with that salt."""
    meta = fmt.BATCH_META.pack(sequence, now, wall, synced)
    crc = crc32(records, crc32(meta, salt))
    return b"".join((fmt.BATCH_HEAD.pack(fmt.BATCH_MAGIC, len(records), crc), meta, records))


class Segment:
    """A segment that is read. `sequence` is that of its first batch; `damage` is known once all batches were read."""

    def __init__(self, path: Path, number: int) -> None:
        self.path = path
        self.number = number
        self.data = path.read_bytes()
        self.sequence = 0
        self.salt = 0
        self.version = 0
        #: Where the valid part ends.
        self.end = 0
        self.damage: Damage | None = None
        #: Why this program must not touch the segment, if that is so.
        self.foreign: str | None = None
        self._due = 0
        self._read_head()

    def _read_head(self) -> None:
        data = self.data
        head = data[: fmt.SEGMENT_HEAD.size]
        if not _is_head(data) and not data[fmt.SEGMENT_SIZE :].strip(b"\0"):
            # It was made, and nothing was ever written into it.
            self.damage = Damage(self.path, 0, "the header is incomplete", True, len(data.rstrip(b"\0")))
            return
        magic, self.version, number, sequence, _, self.salt = fmt.SEGMENT_HEAD.unpack(head)
        if not _is_head(data):
            # Its salt may be right: what follows can be found then.
            self._note_damage(0, "the header is damaged", torn=False)
        elif magic != fmt.SEGMENT_MAGIC:
            self._note_damage(0, "this is no segment of a journal", torn=False)
        elif not 1 <= self.version <= fmt.VERSION:
            self.foreign = (
                f"{self.path} has format version {self.version}, and this program reads versions 1 to {fmt.VERSION}: "
                "start the version of respmq that wrote it, or export it with that one and import it here"
            )
        elif number != self.number:
            self._note_damage(0, f"the header says that this is segment {number}", torn=False)
        else:
            self.sequence = self._due = sequence
            self.end = fmt.SEGMENT_SIZE

    def batches(self) -> Iterator[Batch]:
        """The batches up to the end or the first damage."""
        if self.damage is not None or self.foreign is not None:
            return
        data = self.data
        at = self.end
        while at < len(data):
            batch = _batch_at(data, at, self.salt)
            if isinstance(batch, str):
                if data.count(0, at) < len(data) - at:
                    self._note_damage(at, batch)
                return
            if batch.sequence != self._due:
                self._note_damage(at, f"batch {batch.sequence} stands where {self._due} is due")
                return
            self._due += 1
            self.end = at = batch.end
            yield batch

    def all_batches(self) -> Iterator[Batch]:
        """The batches that are left, those behind any damage among them."""
        yield from self.batches()
        while self.damage is not None and (batch := self.next_batch(self.damage.offset + 1)):
            self.resume(batch)
            yield from self.batches()

    @property
    def due(self) -> int:
        """The sequence of the batch that was to come next."""
        return self._due

    def next_batch(self, at: int) -> Batch | None:
        """The first valid batch that begins at `at` or later."""
        data = self.data
        # The sequences in a file follow each other, so none is further from the one that is due than it has batches.
        most = len(data) // fmt.BATCH_SIZE
        sequences = range(max(1, self._due - most), self._due + most + 1) if self._due else range(1, _BEYOND)
        while (at := data.find(fmt.BATCH_MAGIC, at)) >= 0:
            if _is_plausible(data, at, sequences):
                batch = _batch_at(data, at, self.salt)
                if not isinstance(batch, str):
                    return batch
            at += 1
        return None

    def resume(self, batch: Batch) -> None:
        """Let `batches` go on behind a damage, with this batch."""
        self.damage = None
        self.end = batch.offset
        self._due = batch.sequence

    def missing(self, sequence: int) -> Damage:
        """The damage of a segment before which batches from `sequence` on are missing."""
        return Damage(self.path, 0, f"batches {sequence} to {self.sequence - 1} are missing", False, 0, self.sequence)

    def _note_damage(self, at: int, reason: str, *, torn: bool = True) -> None:
        following = self.next_batch(at + 1)
        self.damage = Damage(
            self.path,
            at,
            reason,
            torn and following is None,
            (max(at, len(self.data.rstrip(b"\0"))) if following is None else following.offset) - at,
            None if following is None else following.sequence,
        )


def _is_head(data: bytes) -> bool:
    head = data[: fmt.SEGMENT_HEAD.size]
    return len(data) >= fmt.SEGMENT_SIZE and data[len(head) : fmt.SEGMENT_SIZE] == crc32(head).to_bytes(4, "little")


def _batch_at(data: bytes, at: int, salt: int) -> Batch | str:
    """The batch at a place, or what is wrong there."""
    if at + fmt.BATCH_SIZE > len(data):
        return "the header of a batch is incomplete"
    magic, size, crc = fmt.BATCH_HEAD.unpack_from(data, at)
    if magic != fmt.BATCH_MAGIC:
        return "no batch begins where one is due"
    body = at + fmt.BATCH_HEAD.size
    end = at + fmt.BATCH_SIZE + size
    if end > len(data):
        return f"a batch of {size} bytes is incomplete"
    if crc32(memoryview(data)[body:end], salt) != crc:
        return "the checksum of a batch is wrong"
    sequence, now, wall, synced = fmt.BATCH_META.unpack_from(data, body)
    return Batch(sequence, now, wall, synced, data[body + fmt.BATCH_META.size : end], at, end)


def _is_plausible(data: bytes, at: int, sequences: range) -> bool:
    """Whether the header of a batch could stand at a place where the magic is.

    A body may be full of the magic, and the checksum of what is no batch can be one of all the rest of the file.
    """
    if at + fmt.BATCH_SIZE > len(data):
        return False
    sequence, now, wall, synced = fmt.BATCH_META.unpack_from(data, at + fmt.BATCH_HEAD.size)
    return sequence in sequences and synced < sequence and abs(now) < _BEYOND and abs(wall) < _BEYOND
