"""A full disk refuses and keeps; no error of a disk is taken for success."""

from __future__ import annotations

import errno
import os

import pytest

from respmq.core.model import QueueSettings
from respmq.engine.journaled import JournaledEngine
from respmq.errors import JournalError, PersistenceError
from respmq.journal.segment import segment_numbers
from tests.unit.journal.rig import (
    RESERVE,
    STEP,
    HeldWorker,
    QuickFiles,
    Rig,
    bodies_of,
    fill_up,
    holds,
    journal_of,
    on_disk,
    opened,
    put,
    recovered,
    retry,
    segments,
    stuck,
)

# -- a full disk -------------------------------------------------------------------------------------------------------


def test_a_full_disk_refuses_what_it_has_no_room_for(rig: Rig) -> None:
    engine = opened(rig)
    rig.files.space = 0
    with pytest.raises(PersistenceError, match="is full: nothing can be stored until there is room, leasing and ack"):
        engine.put(b"q", bytes(STEP))
    assert engine.stats(b"q").ready == 0
    assert fill_up(engine) > 100
    assert stuck(engine) is None
    (leased,) = engine.lease_one(b"q")
    assert engine.ack_one(b"q", leased.lease or b"") == 1
    engine.commit()
    rig.files.space = None
    put(engine, bytes(STEP))
    assert len(on_disk(rig)) == engine.stats(b"q").ready


def test_a_full_disk_keeps_room_for_leases_and_acks(rig: Rig) -> None:
    engine = opened(rig)
    rig.files.space = 0
    count = fill_up(engine)
    journal = journal_of(engine)
    assert journal._allocated - journal._offset >= RESERVE - 5_000
    for _ in range(count):
        (leased,) = engine.lease_one(b"q")
        engine.commit()
        engine.ack_one(b"q", leased.lease or b"")
        engine.commit()
    assert stuck(engine) is None
    assert on_disk(rig) == []


def test_when_even_that_is_used_up_time_stands_still(rig: Rig) -> None:
    engine = opened(rig)
    rig.files.space = 0
    fill_up(engine)
    while stuck(engine) is None:
        for message in list(engine.find(b"q").peek(0)):
            engine.lease_one(b"q")
            engine.release(b"q", message.lease or b"")
        engine.commit()
        assert engine.failure is None
    assert "make room there, nothing is lost" in str(engine.stuck)
    before = engine.now
    assert engine.tick(before + 3_600_000) is not None
    assert engine.now == before
    rig.files.space = None
    retry(engine)
    assert stuck(engine) is None
    engine.tick(before + 3_600_000)
    assert engine.now == before + 3_600_000
    put(engine)


def let_it_be_full(rig: Rig, engine: JournaledEngine) -> None:
    """Let somebody be told that the disk is full."""
    rig.files.space = 0
    with pytest.raises(PersistenceError):
        engine.put(b"q", bytes(2 * STEP))


def test_a_write_without_space_keeps_the_batch_and_writes_it_later(rig: Rig) -> None:
    engine = opened(rig)
    let_it_be_full(rig, engine)
    rig.files.fail["write"] = errno.ENOSPC
    put(engine, b"one")
    before = engine.safe
    assert stuck(engine) is not None
    assert engine.failure is None
    assert holds(engine)
    assert on_disk(rig) == []
    retry(engine)
    assert stuck(engine) is not None
    # What happens all the same waits behind it.
    engine.declare(b"another", QueueSettings())
    engine.commit()
    assert engine.safe == before
    rig.files.fail.clear()
    rig.files.space = None
    retry(engine)
    assert stuck(engine) is None
    assert not holds(engine)
    assert engine.safe == engine.sequence == before + 2
    assert on_disk(rig) == [b"one"]
    assert len(recovered(rig.copy()).image.queues) == 2


def test_space_that_was_set_aside_and_is_refused_is_an_error(rig: Rig) -> None:
    engine = opened(rig)
    put(engine, b"before")
    rig.files.fail_once("write", errno.ENOSPC)
    put(engine, b"lost")
    assert "writing to the journal" in str(engine.failure)
    assert "No space left on device" in str(engine.failure)
    engine.close()
    assert bodies_of(rig.open()) == [b"before"]


class CutShort(QuickFiles):
    """Writes a part and then has no space, as a file system may."""

    def __init__(self) -> None:
        super().__init__()
        self.left: int | None = None

    def write(self, fd: int, data: bytes, offset: int) -> None:
        if self.left is not None:
            os.pwrite(fd, data[: self.left], offset)
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        super().write(fd, data, offset)


def test_a_part_of_a_batch_is_cut_off_again(rig: Rig) -> None:
    rig.files = files = CutShort()
    engine = opened(rig)
    let_it_be_full(rig, engine)
    files.left = 50
    put(engine, b"one")
    (segment,) = segments(rig.copy())
    list(segment.batches())
    assert segment.damage is None
    assert segment.end == len(segment.data)
    files.left = rig.files.space = None
    retry(engine)
    assert on_disk(rig) == [b"one"]


def test_no_space_for_the_next_segment_lets_the_old_one_grow(rig: Rig) -> None:
    engine = opened(rig, segment_size=1_000)
    rig.files.fail["create"] = errno.ENOSPC
    put(engine, bytes(600))
    put(engine, b"goes on")
    assert stuck(engine) is None
    assert segment_numbers(rig.folder) == [1]
    rig.files.fail.clear()
    put(engine, b"in the old one still")
    assert segment_numbers(rig.folder) == [1, 2]
    assert on_disk(rig) == [bytes(600), b"goes on", b"in the old one still"]


def test_it_starts_on_a_full_disk(rig: Rig) -> None:
    rig.fill(3, segment_size=STEP)
    rig.files.space = 0
    engine = rig.open()
    assert len(bodies_of(engine)) == 3
    assert stuck(engine) is not None
    with pytest.raises(PersistenceError, match="is full"):
        engine.put(b"q", b"x")
    rig.files.space = None
    retry(engine)
    put(engine)
    assert len(on_disk(rig)) == 4


def test_a_new_journal_needs_some_space(rig: Rig) -> None:
    rig.files.space = 0
    with pytest.raises(JournalError, match=f"can't write to the journal in {rig.folder}: No space left on device"):
        rig.open()
    assert segment_numbers(rig.folder) == []


# -- a disk that fails -------------------------------------------------------------------------------------------------


def test_an_error_of_a_write_is_final(rig: Rig) -> None:
    engine = opened(rig)
    put(engine, b"before")
    rig.files.fail_once("write", errno.EIO)
    put(engine, b"lost")
    assert engine.failure is not None
    assert engine.failure == engine.stuck
    assert str(rig.folder) in engine.failure
    assert "Input/output error" in engine.failure
    assert engine.failure.endswith("Nothing is changed or told any more until a restart has read the journal again")
    safe = engine.safe
    with pytest.raises(PersistenceError, match="Input/output error"):
        engine.put(b"q", b"refused")
    rig.files.calls.clear()
    engine.remove(b"q", (b"unknown",))
    engine.commit()
    engine.every_second()
    retry(engine)
    assert rig.files.calls == []
    assert engine.safe == safe < engine.sequence
    engine.close()
    assert bodies_of(rig.open()) == [b"before"]


def test_an_error_of_a_sync_is_final_though_the_next_one_would_succeed(rig: Rig) -> None:
    worker = HeldWorker()
    engine = opened(rig, worker=worker)
    worker.work()
    safe = engine.safe
    put(engine, b"one")
    put(engine, b"two")
    rig.files.fail_once("sync", errno.EIO)
    worker.work()
    engine.finish()
    assert engine.failure is not None
    assert "an fsync of the journal" in engine.failure
    assert engine.safe == safe
    rig.files.calls.clear()
    with pytest.raises(PersistenceError, match="fsync"):
        engine.put(b"q", b"three")
    engine.every_second()
    worker.work()
    assert rig.files.calls == []
    assert engine.safe == safe


def test_what_a_failed_write_has_left_is_cut_off(rig: Rig) -> None:
    engine = opened(rig)
    rig.files.write_at_most = 30
    put(engine, b"lost")
    assert engine.failure is not None
    (segment,) = segments(rig.copy())
    list(segment.batches())
    assert segment.damage is None


def test_a_failed_write_that_can_not_be_cut_off_is_a_torn_tail(rig: Rig) -> None:
    engine = opened(rig)
    put(engine, b"before")
    rig.files.write_at_most = 30
    rig.files.fail["truncate"] = errno.EIO
    put(engine, b"lost")
    assert "can't be cut back after a failed write" in str(engine.failure)
    engine.close()
    rig.files.fail.clear()
    after = rig.open()
    assert after.recovery.torn is not None
    assert bodies_of(after) == [b"before"]
    put(after, b"after")
    assert on_disk(rig) == [b"before", b"after"]


class NoHeaders(QuickFiles):
    """Can't write the header of a segment."""

    broken = False

    def write(self, fd: int, data: bytes, offset: int) -> None:
        if self.broken and offset == 0:
            raise OSError(errno.EIO, os.strerror(errno.EIO))
        super().write(fd, data, offset)


@pytest.mark.parametrize("call", ["create", "allocate", "write"])
def test_a_segment_that_can_not_be_begun_is_final(rig: Rig, call: str) -> None:
    rig.files = files = NoHeaders()
    engine = opened(rig, segment_size=1_000)
    if call == "write":
        files.broken = True
    else:
        files.fail[call] = errno.EIO
    put(engine, bytes(600))
    assert engine.failure is not None
    assert "Input/output error" in engine.failure
    assert segment_numbers(rig.folder) == [1]


def test_space_that_can_not_be_set_aside_is_final(rig: Rig) -> None:
    engine = opened(rig)
    rig.files.fail["allocate"] = errno.EIO
    with pytest.raises(PersistenceError, match="can't set space aside"):
        engine.put(b"q", bytes(STEP))
    assert "can't set space aside" in str(engine.failure)


def test_after_a_failure_nothing_is_copied_into_bound_queues(rig: Rig) -> None:
    engine = opened(rig)
    engine.topics.bind(b"t", b"q")
    put(engine)
    rig.files.fail["sync"] = errno.EIO
    put(engine)
    ready = engine.stats(b"q").ready
    assert engine.topics.publish(b"t", b"event") == (0, 0)
    assert engine.stats(b"q").ready == ready
