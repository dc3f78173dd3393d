"""Writing: when a batch is safe, what a full disk refuses and keeps, and that no error is taken for success."""

from __future__ import annotations

import errno
import os
import re
from pathlib import Path

import pytest

from respmq.core.model import QueueSettings
from respmq.engine.journaled import JournaledEngine
from respmq.errors import JournalError, PersistenceError
from respmq.journal.format import Kind
from respmq.journal.segment import Segment, segment_numbers, segment_path
from tests.unit.journal.rig import SMALL, HeldWorker, QuickFiles, Rig, bodies_of, journal_of, recovered, segments

#: What is set aside at a time, and what is kept for leases and acks.
STEP, RESERVE = 1 << 20, 1 << 18


def opened(rig: Rig, **options: object) -> JournaledEngine:
    """An engine with a queue that is on the disk."""
    engine = rig.open(**options)  # type: ignore[arg-type] # those of Rig.open
    engine.declare(b"q", QueueSettings(max_len=1_000_000))
    engine.commit()
    return engine


def put(engine: JournaledEngine, body: bytes = b"x") -> None:
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


# -- when a batch is safe ----------------------------------------------------------------------------------------------


def test_always_a_batch_is_safe_when_it_is_synced(rig: Rig) -> None:
    worker = HeldWorker()
    engine = opened(rig, worker=worker)
    worker.work()
    assert not engine.holding
    before = engine.safe
    put(engine, b"one")
    assert on_disk(rig) == [b"one"]
    assert engine.holding
    assert (engine.safe, engine.sequence) == (before, before + 1)
    worker.work()
    assert not engine.holding
    assert engine.safe == engine.sequence


def test_always_one_sync_is_for_all_that_came_while_another_was_made(rig: Rig) -> None:
    worker = HeldWorker()
    engine = opened(rig, worker=worker)
    worker.work()
    for number in range(5):
        put(engine, b"%d" % number)
    assert len(worker.jobs) == 1
    rig.files.calls.clear()
    worker.work()
    assert rig.files.calls.count("sync") == 2
    assert engine.safe == engine.sequence


@pytest.mark.parametrize("policy", ["everysec", "no"])
def test_else_a_batch_is_safe_when_it_is_written(rig: Rig, policy: str) -> None:
    assert policy in {"everysec", "no"}
    worker = HeldWorker()
    engine = opened(rig, policy=policy, worker=worker)
    worker.work()
    put(engine)
    assert not engine.holding
    assert engine.safe == engine.sequence
    assert not worker.jobs
    rig.files.calls.clear()
    engine.every_second()
    worker.work()
    assert rig.files.calls.count("sync") == (policy == "everysec")
    engine.every_second()
    assert not worker.jobs


def test_everysec_syncs_nothing_twice(rig: Rig) -> None:
    engine = opened(rig, policy="everysec")
    put(engine)
    rig.files.calls.clear()
    for _ in range(3):
        engine.every_second()
    assert rig.files.calls.count("sync") == 1


def test_the_policy_may_be_changed(rig: Rig) -> None:
    worker = HeldWorker()
    engine = opened(rig, worker=worker)
    worker.work()
    put(engine)
    assert engine.holding
    engine.set_policy("no")
    assert not engine.holding
    worker.work()
    put(engine)
    assert not worker.jobs
    engine.set_policy("always")
    put(engine)
    assert engine.holding
    worker.work()
    assert engine.safe == engine.sequence


def test_save_waits_for_the_disk_whatever_the_policy(rig: Rig) -> None:
    worker = HeldWorker()
    engine = opened(rig, policy="no", worker=worker)
    worker.work()
    rig.wall += 5_000
    engine.put(b"q", b"x")
    answers: list[object] = []
    saving = engine.save()
    assert saving is not None
    saving.on_done = answers.append
    assert answers == []
    assert on_disk(rig) == [b"x"]
    saved_at = engine.saved_at
    worker.work()
    assert answers == [None]
    assert engine.saved_at == saved_at + 5_000


def test_save_answers_with_the_error_of_the_disk(rig: Rig) -> None:
    worker = HeldWorker()
    engine = opened(rig, policy="no", worker=worker)
    worker.work()
    put(engine)
    rig.files.fail["sync"] = errno.EIO
    answers: list[object] = []
    saving = engine.save()
    assert saving is not None
    saving.on_done = answers.append
    worker.work()
    (answer,) = answers
    assert isinstance(answer, PersistenceError)
    with pytest.raises(PersistenceError, match="fsync"):
        engine.save()


def test_save_of_what_is_on_the_disk_has_nothing_to_wait_for(rig: Rig) -> None:
    engine = opened(rig)
    assert engine.save() is None


# -- segments ----------------------------------------------------------------------------------------------------------


def test_nothing_is_written_while_nothing_happens(rig: Rig) -> None:
    engine = opened(rig)
    before = engine.sequence
    rig.files.calls.clear()
    for _ in range(3):
        engine.tick(engine.now + 1_000)
        engine.commit()
        engine.every_second()
    assert engine.sequence == before
    assert rig.files.calls == []


def test_segments_are_begun_behind_each_other(rig: Rig) -> None:
    bodies = rig.fill(60)
    found = list(segments(rig.folder))
    assert [segment.number for segment in found] == list(range(1, len(found) + 1))
    assert len(found) > 3
    due = 1
    for segment in found:
        assert segment.sequence == due
        batches = list(segment.batches())
        due = batches[-1].sequence + 1
        assert segment.damage is None
        assert segment.end == len(segment.data), "the space that was set aside is given back"
        assert segment.end < SMALL + 1_000
        assert batches[0].records[0] == Kind.BROKER
    assert len({segment.salt for segment in found}) == len(found)
    assert bodies_of(rig.open()) == bodies


def test_an_old_segment_is_synced_before_what_comes_behind_it_is_safe(rig: Rig) -> None:
    worker = HeldWorker()
    engine = opened(rig, worker=worker, segment_size=1_000)
    worker.work()
    put(engine, bytes(600))
    last_of_old = engine.sequence
    put(engine, b"in the next one")
    assert segment_numbers(rig.folder) == [1, 2]
    assert engine.safe < last_of_old
    rig.files.calls.clear()
    seen: list[tuple[int, int]] = []
    while worker.jobs:
        job, done = worker.jobs.popleft()
        job()
        done(None)
        seen.append((engine.safe, rig.files.calls.count("sync")))
    # The first sync is that of the old one before it was full, the second when it was, the third of the new one.
    assert all(syncs >= 2 for safe, syncs in seen if safe >= last_of_old + 1)
    assert engine.safe == engine.sequence


def test_space_is_set_aside_and_given_back(rig: Rig) -> None:
    engine = opened(rig)
    path = segment_path(rig.folder, 1)
    assert path.stat().st_size == STEP
    put(engine, bytes(STEP))
    assert path.stat().st_size >= 2 * STEP
    engine.close()
    segment = Segment(path, 1)
    assert len(list(segment.batches())) == engine.sequence
    assert len(segment.data) == segment.end


# -- a full disk -------------------------------------------------------------------------------------------------------


def test_a_full_disk_refuses_what_it_has_no_room_for(rig: Rig) -> None:
    engine = opened(rig)
    rig.files.space = 0
    with pytest.raises(PersistenceError, match="is full: nothing can be stored until there is room, leasing and ack"):
        engine.put(b"q", bytes(STEP))
    assert engine.stats(b"q").ready == 0
    assert fill_up(engine) > 100
    assert engine.stuck is None
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
    assert engine.stuck is None
    assert on_disk(rig) == []


def test_when_even_that_is_used_up_time_stands_still(rig: Rig) -> None:
    engine = opened(rig)
    rig.files.space = 0
    fill_up(engine)
    while engine.stuck is None:
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
    assert engine.stuck is None
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
    assert engine.stuck is not None
    assert engine.failure is None
    assert engine.holding
    assert on_disk(rig) == []
    retry(engine)
    assert engine.stuck is not None
    # What happens all the same waits behind it.
    engine.declare(b"another", QueueSettings())
    engine.commit()
    assert engine.safe == before
    rig.files.fail.clear()
    rig.files.space = None
    retry(engine)
    assert engine.stuck is None
    assert not engine.holding
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
    assert engine.stuck is None
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
    assert engine.stuck is not None
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
    assert engine.failure.endswith("Nothing is changed any more until a restart has read the journal again")
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


# -- the beginning and the end -----------------------------------------------------------------------------------------


def test_a_folder_is_used_by_one_at_a_time(rig: Rig) -> None:
    engine = opened(rig)
    with pytest.raises(JournalError, match=f"the folder {rig.folder} is in use by process {os.getpid()}: choose"):
        rig.open()
    engine.close()
    assert rig.open().names() == [b"q"]


def test_a_folder_that_can_not_be_used(rig: Rig, tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(JournalError, match=re.escape(f"can't use the folder {tmp_path}/file")):
        rig.open(tmp_path / "file")


def test_closing_writes_and_syncs_everything(rig: Rig) -> None:
    engine = opened(rig, policy="no")
    engine.put(b"q", b"not committed yet")
    rig.files.calls.clear()
    engine.close()
    engine.close()
    assert rig.files.calls.count("sync") == 1
    assert engine.failure is None
    assert bodies_of(rig.open()) == [b"not committed yet"]


def test_what_happens_after_closing_is_not_written(rig: Rig) -> None:
    engine = opened(rig)
    put(engine)
    engine.close()
    engine.purge(b"q")
    engine.commit()
    assert bodies_of(rig.open()) == [b"x"]


def test_an_error_of_the_last_sync_is_known(rig: Rig) -> None:
    engine = opened(rig, policy="no")
    engine.put(b"q", b"x")
    safe_before = engine.failure
    rig.files.fail["sync"] = errno.EIO
    engine.close()
    assert safe_before is None
    assert "fsync" in str(engine.failure)


def test_closing_does_not_wait_for_space(rig: Rig) -> None:
    engine = opened(rig)
    put(engine, b"before")
    rig.files.fail["write"] = errno.ENOSPC
    put(engine, b"not confirmed")
    engine.close()
    assert engine.safe < engine.sequence
    rig.files.fail.clear()
    assert bodies_of(rig.open()) == [b"before"]
