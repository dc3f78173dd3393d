"""Writing: when a batch is safe, segments behind each other, the beginning and the end of a journal."""

from __future__ import annotations

import errno
import os
import re
import select
import time
from pathlib import Path

import pytest

from respmq.errors import JournalError, PersistenceError
from respmq.journal.folder import reading
from respmq.journal.format import Kind
from respmq.journal.journal import Policy
from respmq.journal.segment import Segment, segment_numbers, segment_path
from respmq.journal.worker import make_worker
from tests.unit.journal.rig import SMALL, STEP, HeldWorker, Rig, bodies_of, holds, on_disk, opened, put, segments

# -- when a batch is safe ----------------------------------------------------------------------------------------------


def test_always_a_batch_is_safe_when_it_is_synced(rig: Rig) -> None:
    worker = HeldWorker()
    engine = opened(rig, worker=worker)
    worker.work()
    assert not holds(engine)
    before = engine.safe
    put(engine, b"one")
    assert on_disk(rig) == [b"one"]
    assert holds(engine)
    assert (engine.safe, engine.sequence) == (before, before + 1)
    worker.work()
    assert not holds(engine)
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


def test_always_the_end_of_a_sync_is_waited_for_once(rig: Rig) -> None:
    waits: list[int] = []

    class SlowWorker(HeldWorker):
        def wait(self, milliseconds: int) -> bool:
            waits.append(milliseconds)
            return False

    worker = SlowWorker()
    engine = opened(rig, worker=worker)
    worker.work()
    assert not engine.await_sync()
    assert waits == [], "nothing is on its way"
    put(engine, b"one")
    assert not engine.await_sync()
    assert not engine.await_sync()
    assert waits == [1], "a slow disk doesn't stop the loop again and again"
    worker.work()
    put(engine, b"two")
    assert not engine.await_sync()
    assert waits == [1, 1]


def test_always_a_sync_that_ends_in_time_lets_answers_go(rig: Rig) -> None:
    """With the worker that servers have."""
    engine = opened(rig, worker=make_worker())
    deadline = time.monotonic() + 20
    for number in range(20):
        put(engine, b"%d" % number)
        while engine.holding:
            if not engine.await_sync():
                assert select.select([engine], [], [], max(0, deadline - time.monotonic()))[0], "no sync has ended"
                engine.finish()
        assert engine.safe == engine.sequence
    engine.close()


def test_everysec_nothing_is_waited_for(rig: Rig) -> None:
    worker = HeldWorker()
    engine = opened(rig, policy="everysec", worker=worker)
    put(engine)
    engine.every_second()
    assert worker.jobs
    worker.wake()
    assert not engine.await_sync()


@pytest.mark.parametrize("policy", ["everysec", "no"])
def test_else_a_batch_is_safe_when_it_is_written(rig: Rig, policy: Policy) -> None:
    worker = HeldWorker()
    engine = opened(rig, policy=policy, worker=worker)
    worker.work()
    put(engine)
    assert not holds(engine)
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
    assert holds(engine)
    engine.set_policy("no")
    assert not holds(engine)
    worker.work()
    put(engine)
    assert not worker.jobs
    engine.set_policy("always")
    put(engine)
    assert holds(engine)
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


# -- the beginning and the end -----------------------------------------------------------------------------------------


def test_a_folder_is_used_by_one_at_a_time(rig: Rig) -> None:
    engine = opened(rig)
    with pytest.raises(JournalError, match=f"the folder {rig.folder} is in use by process {os.getpid()}: choose"):
        rig.open()
    engine.close()
    assert rig.open().names() == [b"q"]


def test_who_reads_keeps_writers_out_and_no_other_reader(rig: Rig) -> None:
    rig.fill(1)
    before = {path: path.read_bytes() for path in rig.folder.iterdir()}
    other = f"the folder {rig.folder} is in use by another process: choose"
    # The last one that wrote is gone.
    (rig.folder / "lock").write_text(f"process {2**22 + 1}\n")
    with reading(rig.folder, rig.files), reading(rig.folder, rig.files), pytest.raises(JournalError, match=other):
        rig.open()
    engine = rig.open()
    with (
        pytest.raises(JournalError, match=f"in use by process {os.getpid()}: choose"),
        reading(rig.folder, rig.files),
    ):
        pass
    engine.close()
    assert before.keys() == set(rig.folder.iterdir())


def test_a_folder_without_a_lock_is_read_and_left_as_it_is(rig: Rig) -> None:
    """As a copy of the segments is, on a disk that can't be written to."""
    rig.fill(1)
    (rig.folder / "lock").unlink()
    before = sorted(rig.folder.iterdir())
    with reading(rig.folder, rig.files):
        assert sorted(rig.folder.iterdir()) == before


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
