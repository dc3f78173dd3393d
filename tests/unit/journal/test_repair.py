"""Looking at a damaged journal, and mending it: what is left out, what is kept, and what can't come back."""

from __future__ import annotations

import errno
from pathlib import Path
from zlib import crc32

import pytest

from respmq.core.ids import mark_of
from respmq.core.model import QueueSettings
from respmq.engine.journaled import JournaledEngine
from respmq.errors import JournalError
from respmq.journal import format as fmt
from respmq.journal.repair import look, repair
from respmq.journal.segment import Batch, segment_head, segment_numbers, segment_path
from tests.support.dump import dump
from tests.unit.journal.rig import Rig, bodies_of, flip, journal_of, recovered, segments

LARGE = 1 << 20


def batches_of(folder: Path) -> list[Batch]:
    return [batch for segment in segments(folder) for batch in segment.batches()]


def damage(folder: Path, place: int) -> Batch:
    """Change a bit in the batch that stands at a place among all; returns it."""
    for segment in segments(folder):
        for batch in segment.batches():
            if place == 0:
                flip(segment.path, batch.end - 1)
                return batch
            place -= 1
    raise AssertionError


def kept(path: Path) -> Path:
    return path.with_name(path.name + ".damaged")


def contents(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in folder.iterdir()}


def mended(rig: Rig) -> JournaledEngine:
    """Repair the folder, see that nothing is wrong any more, and open it."""
    assert not look(rig.folder).sound
    repair(rig.folder, rig.files)
    report = look(rig.folder)
    assert (report.sound, report.damages, report.gaps) == (True, [], [])
    assert repair(rig.folder, rig.files) == []
    return rig.open()


# -- looking -----------------------------------------------------------------------------------------------------------


def test_a_sound_journal(rig: Rig) -> None:
    rig.fill(60)
    before = contents(rig.folder)
    report = look(rig.folder)
    assert (report.sound, report.trouble, report.damages, report.gaps) == (True, None, [], [])
    assert report.segments == len(segment_numbers(rig.folder))
    assert report.batches == len(batches_of(rig.folder))
    assert report.records > 60
    assert report.size == sum(len(data) for name, data in before.items() if name != "lock")
    assert report.image is not None
    assert len(report.image.queues[1].messages) == 60
    assert contents(rig.folder) == before
    assert repair(rig.folder, rig.files) == []
    assert contents(rig.folder) == before


def test_an_empty_folder(rig: Rig) -> None:
    rig.folder.mkdir()
    report = look(rig.folder)
    assert (report.sound, report.segments, report.batches) == (True, 0, 0)
    assert repair(rig.folder, rig.files) == []


def test_a_torn_tail_is_told_and_no_trouble(rig: Rig) -> None:
    rig.fill(3, segment_size=LARGE)
    path = segment_path(rig.folder, 1)
    end = path.stat().st_size
    path.write_bytes(path.read_bytes() + b"garbage")
    report = look(rig.folder)
    assert report.sound
    (found,) = report.damages
    assert (found.torn, found.offset, found.lost) == (True, end, 7)
    (line,) = repair(rig.folder, rig.files)
    assert line == f"{path.name}: left out 7 bytes; the file as it was is {path.name}.damaged"
    assert len(bodies_of(rig.open())) == 3


def test_looking_changes_nothing(rig: Rig) -> None:
    rig.fill(60)
    batches = len(batches_of(rig.folder))
    for place in (45, 20):
        damage(rig.folder, place)
    before = contents(rig.folder)
    report = look(rig.folder)
    assert contents(rig.folder) == before
    assert len(report.damages) == 2
    assert not any(found.torn for found in report.damages)
    assert report.batches == batches - 2
    assert "the journal is damaged" in str(report.trouble)


# -- mending -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("place", [2, 5, 30, 60])
def test_only_what_can_not_be_read_is_left_out(rig: Rig, place: int) -> None:
    bodies = rig.fill(60)
    batches = batches_of(rig.folder)
    lost = damage(rig.folder, place)
    expected = [body for body in bodies if body not in lost.records]
    assert len(expected) >= 59
    paths = {path.name: path.read_bytes() for path in rig.folder.glob("*.journal")}
    engine = mended(rig)
    assert bodies_of(engine) == expected
    (damaged,) = rig.folder.glob("*.damaged")
    assert damaged.read_bytes() == paths[damaged.name.removesuffix(".damaged")]
    engine.put(b"q", b"after")
    engine.commit()
    engine.close()
    assert bodies_of(rig.open()) == [*expected, b"after"]
    assert recovered(rig.folder).sequence > batches[-1].sequence


def test_several_damages_in_several_files(rig: Rig) -> None:
    bodies = rig.fill(60)
    lost = b"".join(damage(rig.folder, place).records for place in (41, 40, 20, 8, 7))
    engine = mended(rig)
    assert bodies_of(engine) == [body for body in bodies if body not in lost]


def test_a_damaged_header_costs_nothing_but_the_header(rig: Rig) -> None:
    bodies = rig.fill(60)
    for number in segment_numbers(rig.folder):
        flip(segment_path(rig.folder, number), 12)
    assert bodies_of(mended(rig)) == bodies


def test_a_salt_that_is_lost_costs_the_segment(rig: Rig) -> None:
    bodies = rig.fill(60)
    segment = list(segments(rig.folder))[1]
    lost = b"".join(batch.records for batch in segment.batches())
    flip(segment.path, fmt.SEGMENT_HEAD.size - 1)
    assert bodies_of(mended(rig)) == [body for body in bodies if body not in lost]


def test_a_file_that_was_emptied(rig: Rig) -> None:
    bodies = rig.fill(60)
    segment = list(segments(rig.folder))[1]
    lost = b"".join(batch.records for batch in segment.batches())
    segment.path.write_bytes(b"")
    assert bodies_of(mended(rig)) == [body for body in bodies if body not in lost]


def test_a_missing_segment_in_the_middle(rig: Rig) -> None:
    bodies = rig.fill(60)
    segment = list(segments(rig.folder))[1]
    batches = list(segment.batches())
    lost = b"".join(batch.records for batch in batches)
    segment.path.unlink()
    report = look(rig.folder)
    assert len(report.gaps) == 1
    third = segment_path(rig.folder, 3)
    assert report.gaps[0] == f"batches {batches[0].sequence} to {batches[-1].sequence} are missing before {third}"
    assert bodies_of(mended(rig)) == [body for body in bodies if body not in lost]


def test_segments_go_also_where_one_is_missing_between_them(rig: Rig) -> None:
    """The one that is needed first then is not the one with the next number."""
    rig.fill(60)
    second = list(segments(rig.folder))[1]
    second.path.unlink()
    mended(rig).close()
    engine = rig.open()
    assert engine.compactor is not None
    engine.purge(b"q")
    while 1 in segment_numbers(rig.folder):
        engine.commit()
        engine.compact()
        engine.every_second()
        engine.compactor.step(engine.now)
        assert look(rig.copy()).trouble is None
    assert look(rig.folder).sound


def test_a_missing_first_segment_costs_the_name_of_the_queue(rig: Rig) -> None:
    bodies = rig.fill(60)
    first = next(segments(rig.folder))
    lost = b"".join(batch.records for batch in first.batches())
    first.path.unlink()
    engine = mended(rig)
    assert engine.names() == [b"lost:1"]
    assert bodies_of(engine, b"lost:1") == [body for body in bodies if body not in lost]
    engine.close()
    assert rig.open().names() == [b"lost:1"]


def test_a_queue_whose_name_is_lost(rig: Rig) -> None:
    bodies = rig.fill(4, segment_size=LARGE)
    damage(rig.folder, 1)
    lines = repair(rig.folder, rig.files)
    assert lines[-1] == "the name of a queue is lost: its messages are in lost:1 now"
    engine = rig.open()
    assert engine.names() == [b"lost:1"]
    assert engine.settings(b"lost:1") == QueueSettings()
    assert bodies_of(engine, b"lost:1") == bodies
    (leased,) = engine.lease_one(b"lost:1")
    assert engine.ack_one(b"lost:1", leased.lease or b"") == 1
    # Its number is used no more.
    engine.declare(b"q", QueueSettings())
    assert engine.find(b"q").number == 2


def test_the_number_of_a_queue_that_is_lost_is_not_used_again(rig: Rig) -> None:
    """What was bound to it would be bound to the new one."""
    engine = rig.open()
    engine.exchanges.declare(b"exchange", "FANOUT")
    engine.commit()
    engine.declare(b"q", QueueSettings())
    engine.commit()
    engine.exchanges.bind(b"exchange", b"q", None)
    engine.commit()
    engine.delete(b"q")
    engine.commit()
    engine.close()
    damage(rig.folder, 2)
    engine = mended(rig)
    engine.declare(b"other", QueueSettings())
    assert engine.find(b"other").number == 2
    engine.close()
    expected = dump(engine)
    assert dump(rig.open()) == expected


@pytest.mark.parametrize("written", ["put", "carried", "carried_plain"])
def test_a_queue_whose_name_is_lost_can_be_used(rig: Rig, written: str) -> None:
    """The mark of its ids is lost with its name, and how many messages have entered."""
    engine = rig.open()
    engine.declare(b"q", QueueSettings())
    engine.commit()
    before = engine.put(b"q", b"before") or b""
    queue = engine.find(b"q")
    encoder = journal_of(engine).encoder
    if written != "put":
        # Where it was put is gone.
        encoder.records.clear()
    if written == "carried":
        encoder.carried(queue, queue.live[before])
    elif written == "carried_plain":
        encoder.carried_plain(queue, [queue.live[before]])
    engine.commit()
    engine.close()
    damage(rig.folder, 1)
    engine = mended(rig)
    one = engine.put_one(b"lost:1", b"one") or b""
    several = engine.put_many(b"lost:1", (b"two", b"three"))
    assert [len(id) for id in (one, *several)] == [32] * 3
    if written == "put":
        assert mark_of(one) == mark_of(before)
    engine.close()
    expected = dump(engine)
    assert [message.order for message in engine.find(b"lost:1").live.values()] == [1, 2, 3, 4]
    assert bodies_of(engine, b"lost:1") == [b"before", b"one", b"two", b"three"]
    assert dump(rig.open()) == expected


def test_a_queue_that_has_no_mark_gets_one(rig: Rig) -> None:
    """Older versions left a queue so whose name was lost."""
    rig.fill(1, segment_size=LARGE)
    image = recovered(rig.folder).image
    image.queues[1].mark = b""
    engine = rig.open(rig.folder / "other")
    engine.take_over(image)
    assert [len(id) for id in engine.put_many(b"q", (b"one", b"two"))] == [32] * 2
    engine.close()
    assert bodies_of(rig.open(rig.folder / "other"))[1:] == [b"one", b"two"]


def test_dead_letters_of_a_queue_whose_name_is_lost_are_not_numbered_again(rig: Rig) -> None:
    engine = rig.open()
    engine.declare(b"q", QueueSettings())
    engine.commit()
    engine.put_many(b"q", (b"one", b"two", b"three"))
    for message in [engine.lease_one(b"q")[0] for _ in range(3)]:
        engine.reject(b"q", message.lease or b"")
    queue = engine.find(b"q")
    engine.pop_dead(b"q", 2)
    # Of them all, only this is in the journal.
    journal_of(engine).encoder.records[:] = []
    (letter,) = queue.dead
    journal_of(engine).encoder.letter(queue, letter)
    engine.commit()
    engine.close()
    damage(rig.folder, 1)
    engine = mended(rig)
    engine.put(b"lost:1", b"four")
    (message,) = engine.lease_one(b"lost:1")
    engine.reject(b"lost:1", message.lease or b"")
    assert [letter.number for letter in engine.find(b"lost:1").dead] == [3, 4]
    engine.close()
    assert [letter["body"] for letter in rig.open().dead_letters(b"lost:1", 9)] == [b"three", b"four"]


@pytest.mark.parametrize("how", ["released", "undelivered"])
def test_a_lease_that_is_lost_and_was_given_back(rig: Rig, how: str) -> None:
    """It doesn't count, nor does its end."""
    engine = rig.open()
    engine.declare(b"q", QueueSettings())
    engine.put(b"q", b"body")
    engine.commit()
    (leased,) = engine.lease_one(b"q")
    engine.commit()
    if how == "released":
        engine.release(b"q", leased.lease or b"")
    else:
        engine.undeliver([(b"q", leased.lease or b"")])
    engine.put(b"q", b"later")
    engine.commit()
    engine.close()
    damage(rig.folder, 2)
    engine = mended(rig)
    queue = engine.find(b"q")
    assert [message.attempt for message in queue.live.values()] == [0, 0]
    assert queue.delivered == 0
    # It can be written down again.
    for message in queue.live.values():
        journal_of(engine).encoder.carried(queue, message)
    engine.close()
    assert dump(rig.open()) == dump(engine)


def test_a_dead_letter_that_is_replayed_takes_the_place_of_a_message_that_was_acked_in_a_lost_batch(rig: Rig) -> None:
    engine = rig.open()
    engine.declare(b"q", QueueSettings(dedupe=0))
    engine.put(b"q", b"first", b"id")
    (leased,) = engine.lease_one(b"q")
    engine.reject(b"q", leased.lease or b"")
    engine.tick(engine.now + 1)
    engine.put(b"q", b"second", b"id")
    engine.commit()
    (leased,) = engine.lease_one(b"q")
    engine.ack_one(b"q", leased.lease or b"")
    engine.commit()
    engine.replay_dead(b"q")
    engine.commit()
    engine.close()
    damage(rig.folder, 2)
    engine = mended(rig)
    assert bodies_of(engine) == [b"first"]
    # Nothing is counted for what it stands in the place of.
    (home,) = journal_of(engine).homes._by_queue[1].values()
    assert (home.live, home.dead) == (1, 0)


def test_a_queue_whose_name_is_lost_beside_one_of_the_name_that_it_would_have(rig: Rig) -> None:
    engine = rig.open()
    engine.declare(b"q", QueueSettings())
    engine.commit()
    engine.declare(b"lost:1", QueueSettings())
    for name in (b"q", b"lost:1"):
        engine.put(name, name)
    engine.commit()
    engine.close()
    damage(rig.folder, 1)
    engine = mended(rig)
    assert engine.names() == [b"lost:1", b"lost:1_"]
    assert (bodies_of(engine, b"lost:1"), bodies_of(engine, b"lost:1_")) == ([b"lost:1"], [b"q"])


def test_two_queues_of_one_name(rig: Rig) -> None:
    engine = rig.open()
    settings = QueueSettings(max_len=77)
    for body in (b"old", b"new"):
        engine.declare(b"q", settings)
        engine.put(b"q", body)
        engine.commit()
        if body == b"old":
            engine.delete(b"q")
            engine.commit()
    engine.close()
    damage(rig.folder, 2)
    engine = mended(rig)
    assert engine.names() == [b"lost:1", b"q"]
    assert (bodies_of(engine, b"lost:1"), bodies_of(engine)) == ([b"old"], [b"new"])
    assert engine.settings(b"lost:1") == settings


def test_what_was_acked_in_a_damaged_batch_is_delivered_again(rig: Rig) -> None:
    engine = rig.open()
    engine.declare(b"q", QueueSettings())
    engine.put(b"q", b"acked")
    engine.commit()
    (leased,) = engine.lease_one(b"q")
    engine.commit()
    engine.ack_one(b"q", leased.lease or b"")
    engine.commit()
    engine.put(b"q", b"later")
    engine.commit()
    engine.close()
    damage(rig.folder, 3)
    engine = mended(rig)
    assert bodies_of(engine) == [b"later"]
    # Its lease is as it was, and can be acked again.
    assert engine.ack_one(b"q", leased.lease or b"") == 1


def test_facts_about_a_message_that_is_lost_are_skipped(rig: Rig) -> None:
    engine = rig.open()
    engine.declare(b"q", QueueSettings(max_attempts=2))
    engine.commit()
    for body in (b"one", b"two", b"three"):
        engine.put(b"q", body)
        engine.commit()
    for _ in range(2):
        for message in [engine.lease_one(b"q")[0] for _ in range(3)]:
            engine.nack(b"q", message.lease or b"", 0)
        engine.commit()
        engine.advance(engine.now + 1)
    engine.commit()
    engine.close()
    damage(rig.folder, 3)
    engine = mended(rig)
    assert [letter["body"] for letter in engine.dead_letters(b"q", 9)] == [b"one", b"three"]


def test_a_newer_version_is_not_touched(rig: Rig) -> None:
    rig.fill(60)
    number = segment_numbers(rig.folder)[-1] + 1
    newer = segment_path(rig.folder, number)
    head = segment_head(number, recovered(rig.folder).sequence + 1, 0, 1)
    newer.write_bytes(_versioned(head, fmt.VERSION + 1) + b"anything")
    damage(rig.folder, 3)
    before = contents(rig.folder)
    with pytest.raises(JournalError, match=f"{newer} has format version 3, and this program reads versions 1 to 2"):
        repair(rig.folder, rig.files)
    assert newer.read_bytes() == before[newer.name]
    report = look(rig.folder)
    assert not report.sound


def _versioned(head: bytes, version: int) -> bytes:
    data = head[:8] + version.to_bytes(2, "little") + head[10 : fmt.SEGMENT_HEAD.size]
    return data + crc32(data).to_bytes(4, "little")


def test_a_repair_that_fails_leaves_the_file_as_it_was(rig: Rig) -> None:
    rig.fill(10, segment_size=LARGE)
    damage(rig.folder, 3)
    path = segment_path(rig.folder, 1)
    before = path.read_bytes()
    rig.files.fail["write"] = errno.ENOSPC
    with pytest.raises(OSError, match="No space left on device"):
        repair(rig.folder, rig.files)
    assert path.read_bytes() == before
    assert not kept(path).exists()
    rig.files.fail.clear()
    assert len(bodies_of(mended(rig))) == 9


def test_a_second_repair_keeps_what_the_first_has_kept(rig: Rig) -> None:
    rig.fill(10, segment_size=LARGE)
    damage(rig.folder, 3)
    path = segment_path(rig.folder, 1)
    original = path.read_bytes()
    mended(rig).close()
    damage(rig.folder, 5)
    mended(rig).close()
    assert kept(path).read_bytes() == original
