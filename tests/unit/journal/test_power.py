"""After a power failure pages may be missing before others that are there: what is torn, and what is damaged."""

from __future__ import annotations

from pathlib import Path

import pytest

from respmq.core.model import QueueSettings
from respmq.errors import JournalDamagedError
from respmq.journal.journal import Policy
from respmq.journal.segment import encode_batch, segment_head, segment_numbers, segment_path
from tests.unit.journal.rig import START, Rig, bodies_of, flip, segments


def unsynced(rig: Rig, count: int, *, segment_size: int = 1 << 20, policy: Policy = "no") -> list[bytes]:
    """A journal whose last batches were not known to be on the disk, as a crash leaves it; returns the bodies."""
    engine = rig.open(segment_size=segment_size, policy=policy)
    engine.declare(b"q", QueueSettings())
    engine.put(b"q", b"synced")
    engine.save()
    bodies = [(b"<%d>" % number).ljust(100, b".") for number in range(count)]
    for body in bodies:
        engine.put(b"q", body)
        engine.commit()
    rig.folder = rig.copy()
    return bodies


def lose(path: Path, offset: int, size: int) -> None:
    """Let a part of a file be zeros, as it was before anything was written there."""
    data = bytearray(path.read_bytes())
    data[offset : offset + size] = bytes(size)
    path.write_bytes(data)


def test_a_page_that_is_missing_before_others_is_a_torn_tail(rig: Rig) -> None:
    """Which a power failure may cause: what follows was never known to be on the disk."""
    bodies = unsynced(rig, 30)
    path = segment_path(rig.folder, 1)
    (segment,) = segments(rig.folder)
    batches = list(segment.batches())
    lose(path, batches[10].offset + 5, 150)
    damaged = path.read_bytes()
    engine = rig.open()
    kept = sum(body in b"".join(batch.records for batch in batches[:10]) for body in bodies)
    assert bodies_of(engine) == [b"synced", *bodies[:kept]]
    assert engine.recovery.torn is not None
    assert path.with_name(path.name + ".damaged").read_bytes() == damaged
    engine.put(b"q", b"after")
    engine.commit()
    engine.close()
    assert bodies_of(rig.open()) == [b"synced", *bodies[:kept], b"after"]


def test_a_page_that_was_synced_is_damaged(rig: Rig) -> None:
    unsynced(rig, 30)
    (segment,) = segments(rig.folder)
    synced = next(batch for batch in segment.batches() if b"synced" in batch.records)
    flip(segment.path, synced.end - 1)
    with pytest.raises(JournalDamagedError, match="whole batches follow"):
        rig.open()


def test_the_end_of_a_segment_is_missing_and_the_next_one_is_there(rig: Rig) -> None:
    """The next one was begun before the last one was synced."""
    bodies = unsynced(rig, 12, segment_size=1_500)
    *_, before, last = segment_numbers(rig.folder)
    path = segment_path(rig.folder, before)
    records = b"".join(batch.records for segment in segments(rig.folder) for batch in segment.batches())
    assert all(body in records for body in bodies)
    # As if none of them had said that those before it were synced.
    rewritten = [
        (segment.number, segment.sequence, [batch.records for batch in segment.batches()])
        for segment in segments(rig.folder)
    ]
    for number, sequence, found in rewritten:
        if number >= before:
            data = segment_head(number, sequence, START, 1)
            for place, payload in enumerate(found):
                data += encode_batch(sequence + place, START, START, 1, payload, 1)
            segment_path(rig.folder, number).write_bytes(data)
    path.write_bytes(path.read_bytes()[:-30])
    engine = rig.open()
    assert engine.recovery.torn is not None
    assert bodies_of(engine)[1:] == bodies[: len(bodies_of(engine)) - 1]
    assert segment_numbers(rig.folder)[-1] == before
    assert segment_path(rig.folder, last).with_name(f"{last:020d}.journal.damaged").exists()
    found_bodies = bodies_of(engine)
    engine.put(b"q", b"after")
    engine.commit()
    engine.close()
    assert bodies_of(rig.open()) == [*found_bodies, b"after"]
