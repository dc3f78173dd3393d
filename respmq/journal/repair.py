"""Looking at a journal that may be damaged, and mending it so that as little as possible is lost.

What is damaged is left out: whole batches before and behind it stay. Facts about messages that are gone with it change
nothing; a queue of which the name is gone with it comes back under a name of its own. Every file that is changed is
kept as it was beside the new one.
"""

from __future__ import annotations

import os
from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING

from respmq.core.ids import mark_of
from respmq.core.model import QueueSettings
from respmq.errors import JournalError
from respmq.journal.encoder import encode_json
from respmq.journal.files import KEPT
from respmq.journal.format import RECORD_HEAD, Kind
from respmq.journal.recovery import Recovery
from respmq.journal.segment import (
    Batch,
    Segment,
    encode_batch,
    segment_head,
    segment_numbers,
    segment_path,
)

if TYPE_CHECKING:
    from pathlib import Path

    from respmq.core.image import BrokerImage, QueueImage
    from respmq.journal.files import Files
    from respmq.journal.segment import Damage


@dataclass
class Report:
    """What was found.

    Attributes:
        batches, records: how many can be read.
        size: bytes of all segments.
        damages: what is wrong, in order; the last one may be a torn tail, which a server cuts off by itself.
        gaps: what is missing between two segments, in words.
        image: the state, if it can be known.
        trouble: why the state can't be known, if it can't.
        foreign: whether there is a segment of a version that this program doesn't know, so that it can mend nothing.
    """

    segments: int = 0
    batches: int = 0
    records: int = 0
    size: int = 0
    damages: list[Damage] = field(default_factory=list)
    gaps: list[str] = field(default_factory=list)
    image: BrokerImage | None = None
    trouble: str | None = None
    foreign: bool = False

    @property
    def sound(self) -> bool:
        """Whether a server would start."""
        return self.trouble is None


def look(folder: Path) -> Report:
    """Read everything in a folder that can be read."""
    report = Report()
    expected: int | None = None
    for number in segment_numbers(folder):
        report.segments += 1
        segment = Segment(segment_path(folder, number), number)
        report.size += len(segment.data)
        report.foreign = report.foreign or segment.foreign is not None
        if expected is not None and segment.sequence not in {0, expected}:
            report.gaps.append(f"batches {expected} to {segment.sequence - 1} are missing before {segment.path}")
        batches = _all_batches(segment, report.damages)
        report.batches += len(batches)
        if batches:
            expected = batches[-1].sequence + 1
        elif segment.sequence:
            expected = segment.sequence
    recovery = Recovery(folder)
    try:
        for _ in recovery.read():
            pass
    except (JournalError, OSError) as error:
        report.trouble = str(error)
    else:
        report.image = recovery.image
    report.records = recovery.records
    return report


def _all_batches(segment: Segment, damages: list[Damage]) -> list[Batch]:
    """All batches of a segment that can be read, those behind a damage among them."""
    batches = list(segment.batches())
    while segment.damage is not None:
        damages.append(segment.damage)
        following = segment.next_batch(segment.damage.offset + 1)
        if following is None:
            break
        segment.resume(following)
        batches += segment.batches()
    return batches


def repair(folder: Path, files: Files) -> list[str]:
    """Mend what `look` finds; returns what was done, in words.

    Raises:
        JournalError: a segment is of a version that this program doesn't know.
        OSError: a file can't be read or written.
    """
    done: list[str] = []
    expected: int | None = None
    numbers = segment_numbers(folder)
    for number in numbers:
        path = segment_path(folder, number)
        segment = Segment(path, number)
        if segment.foreign is not None:
            raise JournalError(segment.foreign)
        damages: list[Damage] = []
        batches = _all_batches(segment, damages)
        first = segment.sequence or (batches[0].sequence if batches else 0) or expected or 1
        if expected is not None and first > expected:
            # What is missing between two segments is filled with batches in which nothing happens.
            batches = _filled([], expected, first) + batches
            first = expected
            damages = damages or [segment.missing(expected)]
        if damages:
            last = batches[-1].sequence + 1 if batches else first
            _replace(path, number, first, _filled(batches, first, last), files)
            lost = sum(damage.lost for damage in damages)
            done.append(f"{path.name}: left out {lost} bytes; the file as it was is {path.name}{KEPT}")
        expected = batches[-1].sequence + 1 if batches else first
    done += _complete(folder, files)
    return done


def _filled(batches: list[Batch], first: int, end: int) -> list[Batch]:
    """The batches from `first` to before `end`, with empty ones where there is none."""
    known = {batch.sequence: batch for batch in batches}
    filled: list[Batch] = []
    now = wall = 0
    for sequence in range(first, end):
        batch = known.get(sequence) or Batch(sequence, now, wall, 0, b"", 0, 0)
        now, wall = batch.now, batch.wall
        filled.append(batch)
    return filled


def _replace(path: Path, number: int, first: int, batches: list[Batch], files: Files) -> None:
    salt = int.from_bytes(os.urandom(4), "little") | 1
    created = batches[0].wall if batches else 0
    parts = [segment_head(number, first, created, salt)]
    parts += [encode_batch(batch.sequence, batch.now, batch.wall, 0, batch.records, salt) for batch in batches]
    temporary = path.with_name(path.name + ".new")
    temporary.unlink(missing_ok=True)
    fd = files.create(temporary)
    try:
        files.write(fd, b"".join(parts), 0)
        files.sync(fd)
    finally:
        files.close(fd)
    kept = path.with_name(path.name + KEPT)
    if path.exists() and not kept.exists():
        path.replace(kept)
    temporary.replace(path)
    files.sync_folder(path.parent)


def _complete(folder: Path, files: Files) -> list[str]:
    """Write down what is to be known and is lost: names of queues, and that segments before the first aren't needed."""
    recovery = Recovery(folder, lenient=True)
    for _ in recovery.read():
        pass
    numbers = segment_numbers(folder)
    if not numbers:
        return []
    done: list[str] = []
    image = recovery.image
    records: list[bytes] = []
    if recovery.first_needed > 1 and recovery.floor < recovery.first_needed:
        done.append(f"what stood before {segment_path(folder, numbers[0]).name} is lost")
        value = {"queues_made": image.queues_made, "binding_drops": image.binding_drops, "floor": numbers[0]}
        payload = encode_json(value)
        records.append(RECORD_HEAD.pack(Kind.BROKER, len(payload), 0) + payload)
    names: set[bytes] = set()
    taken = {queue.name for queue in image.queues.values()}
    for queue in sorted(image.queues.values(), key=lambda queue: -queue.number):
        if queue.settings is None or queue.name in names:
            name = f"lost:{queue.number}"
            while name.encode() in taken:
                name += "_"
            done.append(f"the name of a queue is lost: its messages are in {name} now")
            records.append(_named(queue, name))
        names.add(queue.name)
    if records:
        number = numbers[-1]
        path = segment_path(folder, number)
        segment = Segment(path, number)
        batches = list(segment.batches())
        batches.append(Batch(recovery.sequence + 1, image.now, image.now, 0, b"".join(records), 0, 0))
        _replace(path, number, segment.sequence, batches, files)
    return done


def _named(queue: QueueImage, name: str) -> bytes:
    # Without a mark ids would be too short to be written down.
    mark = queue.mark or mark_of(queue.last_id) or os.urandom(6).hex().encode()
    value = {
        "name": name,
        "settings": asdict(queue.settings or QueueSettings()),
        "mark": mark.decode("latin-1"),
        "last_id": queue.last_id.decode("latin-1"),
        "counters": asdict(queue.counters),
        "patterns": [pattern.decode("latin-1") for pattern in queue.patterns],
    }
    payload = encode_json(value)
    return RECORD_HEAD.pack(Kind.QUEUE, len(payload), queue.number) + payload
