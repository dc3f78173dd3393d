"""Reading a folder: what is missing, left over or half made, and what the clocks say."""

from __future__ import annotations

import random
import re
from pathlib import Path
from zlib import crc32

import pytest

from respmq.core.model import DELAYED, LEASED, Extra, QueueSettings
from respmq.errors import JournalDamagedError, JournalError
from respmq.journal import format as fmt
from respmq.journal.encoder import encode_json
from respmq.journal.format import Kind
from respmq.journal.segment import encode_batch, segment_head, segment_numbers, segment_path
from tests.support.dump import dump
from tests.unit.journal.rig import START, Rig, bodies_of, flip, journal_of, recovered, segments

HOUR = 3_600_000


def compact(rig: Rig) -> None:
    """Restart on small segments and compact everything."""
    engine = rig.open(segment_size=2_000)
    assert engine.compactor is not None
    engine.compact()
    for _ in range(200):
        engine.every_second()
        engine.compactor.step(engine.now)
    engine.close()


def write_segment(folder: Path, number: int, sequence: int, *batches: bytes, version: int = fmt.VERSION) -> Path:
    """Write a segment of records, with a header of a version."""
    folder.mkdir(exist_ok=True)
    head = bytearray(segment_head(number, sequence, START, 1)[: fmt.SEGMENT_HEAD.size])
    head[8:10] = version.to_bytes(2, "little")
    data = bytes(head) + crc32(head).to_bytes(4, "little")
    for place, records in enumerate(batches):
        data += encode_batch(sequence + place, START, START, sequence + place - 1, records, 1)
    path = segment_path(folder, number)
    path.write_bytes(data)
    return path


def record(kind: int, queue: int, payload: bytes) -> bytes:
    return fmt.RECORD_HEAD.pack(kind, len(payload), queue) + payload


def broker(floor: int) -> bytes:
    return record(Kind.BROKER, 0, encode_json({"queues_made": 1, "binding_drops": 0, "floor": floor}))


# -- segments that are missing, left over or half made -----------------------------------------------------------------


def test_an_empty_folder_is_an_empty_broker(rig: Rig) -> None:
    rig.folder.mkdir()
    assert recovered(rig.folder).image.queues == {}
    assert rig.open().names() == []


def test_the_first_segment_is_missing(rig: Rig) -> None:
    rig.fill(60)
    segment_path(rig.folder, 1).unlink()
    with pytest.raises(JournalDamagedError, match=r"0001\.journal is missing: without it the state can't be known"):
        rig.open()


def test_a_segment_in_the_middle_is_missing(rig: Rig) -> None:
    rig.fill(60)
    segment_path(rig.folder, 2).unlink()
    with pytest.raises(JournalDamagedError, match=r"0002\.journal is missing"):
        rig.open()


def test_the_first_segment_is_missing_after_a_compaction(rig: Rig) -> None:
    rig.fill(60)
    compact(rig)
    first = segment_numbers(rig.folder)[0]
    assert first > 1
    segment_path(rig.folder, first).unlink()
    with pytest.raises(JournalDamagedError, match=rf"{first:020d}\.journal is missing"):
        rig.open()


def test_segments_that_a_crash_has_left_behind_are_read_and_dropped(rig: Rig) -> None:
    """The floor is above them: all that was needed of them is written again behind it."""
    bodies = rig.fill(60)
    before = rig.copy()
    compact(rig)
    for path in before.glob("*.journal"):
        if not (rig.folder / path.name).exists():
            path.rename(rig.folder / path.name)
    assert segment_numbers(rig.folder)[0] == 1
    engine = rig.open()
    assert bodies_of(engine) == bodies
    engine.every_second()
    assert segment_numbers(rig.folder)[0] > 1
    engine.close()
    assert bodies_of(rig.open()) == bodies


def test_a_gap_among_them_is_as_good(rig: Rig) -> None:
    """A disk may do deletions in another order."""
    bodies = rig.fill(60)
    before = rig.copy()
    compact(rig)
    assert segment_numbers(rig.folder)[0] > 3
    segment_path(before, 1).rename(segment_path(rig.folder, 1))
    engine = rig.open()
    assert bodies_of(engine) == bodies
    engine.close()
    assert bodies_of(rig.open()) == bodies


@pytest.mark.parametrize("size", [0, 5, fmt.SEGMENT_SIZE - 1, fmt.SEGMENT_SIZE])
@pytest.mark.parametrize("zeros", [0, 1 << 20])
def test_a_segment_that_was_being_made(rig: Rig, size: int, zeros: int) -> None:
    bodies = rig.fill(60)
    last = segment_numbers(rig.folder)[-1]
    following = recovered(rig.folder).sequence + 1
    begun = segment_head(last + 1, following, START, 77)[:size] + bytes(zeros)
    segment_path(rig.folder, last + 1).write_bytes(begun)
    engine = rig.open()
    assert bodies_of(engine) == bodies
    engine.put(b"q", b"after")
    engine.commit()
    engine.close()
    assert bodies_of(rig.open()) == [*bodies, b"after"]


@pytest.mark.parametrize("size", [0, 5, fmt.SEGMENT_SIZE - 1])
def test_the_very_first_segment_was_being_made(rig: Rig, size: int) -> None:
    rig.folder.mkdir()
    segment_path(rig.folder, 1).write_bytes(segment_head(1, 1, START, 77)[:size] + bytes(1 << 20))
    engine = rig.open()
    assert engine.names() == []
    engine.declare(b"q", QueueSettings())
    engine.commit()
    engine.close()
    assert rig.open().names() == [b"q"]


def test_a_segment_in_the_middle_ends_too_early(rig: Rig) -> None:
    rig.fill(60)
    path = segment_path(rig.folder, 2)
    path.write_bytes(path.read_bytes()[:-10])
    with pytest.raises(JournalDamagedError, match=rf"{path}, offset \d+: a batch of \d+ bytes is incomplete"):
        rig.open()


@pytest.mark.parametrize("kept", [0, 1])
def test_the_last_segment_is_cut_at_every_byte_of_its_end(rig: Rig, kept: int) -> None:
    """What is read is what was there after some batch, and it goes on from there."""
    bodies = rig.fill(4, segment_size=1 << 20, size=5)
    whole = segment_path(rig.folder, 1).read_bytes()
    (segment,) = segments(rig.folder)
    ends = [batch.end for batch in segment.batches()]
    for size in range(ends[1], len(whole), 17):
        segment_path(rig.folder, 1).write_bytes(whole[:size] + (b"\0garbage" if kept else b""))
        engine = rig.open()
        count = sum(end <= size for end in ends) - 2
        assert bodies_of(engine) == bodies[:count]
        engine.put(b"q", b"after")
        engine.commit()
        engine.close()
        recovery = recovered(rig.folder)
        assert recovery.torn is None
        assert [message.body for message in recovery.image.queues[1].messages.values()] == [*bodies[:count], b"after"]


# -- damage ------------------------------------------------------------------------------------------------------------


def test_damage_in_the_middle_names_file_offset_and_what_is_at_stake(rig: Rig) -> None:
    rig.fill(60)
    path = segment_path(rig.folder, 2)
    (_, segment, *_) = segments(rig.folder)
    batch = list(segment.batches())[1]
    flip(path, batch.offset + 40)
    before = path.read_bytes()
    with pytest.raises(JournalDamagedError) as raised:
        rig.open()
    text = str(raised.value)
    assert f"{path}, offset {batch.offset}: the checksum of a batch is wrong" in text
    assert f"{batch.end - batch.offset} bytes can't be read" in text
    assert f"whole batches follow from batch {batch.sequence + 1} on" in text
    assert text.endswith(f"See `respmq check {rig.folder}`")
    assert path.read_bytes() == before


@pytest.mark.parametrize("at", [0, 8, 10, 18, 26, 34, 38])
def test_a_damaged_header_is_no_torn_tail(rig: Rig, at: int) -> None:
    """Also of the only segment: everything is in it."""
    rig.fill(3, segment_size=1 << 20)
    path = segment_path(rig.folder, 1)
    flip(path, at, 1)
    before = path.read_bytes()
    with pytest.raises(JournalDamagedError, match="offset 0: the header is damaged"):
        rig.open()
    assert path.read_bytes() == before


@pytest.mark.parametrize("batches", [(), (b"what a newer version writes",), (broker(1), broker(1))])
@pytest.mark.parametrize("number", [1, 2])
def test_a_newer_version_is_refused_and_left_alone(rig: Rig, batches: tuple[bytes, ...], number: int) -> None:
    if number == 2:
        rig.fill(3, segment_size=1 << 20)
    sequence = recovered(rig.folder).sequence + 1 if number == 2 else 1
    path = write_segment(rig.folder, number, sequence, *batches, version=fmt.VERSION + 1)
    path.write_bytes(path.read_bytes() + b"in another form")
    before = path.read_bytes()
    expected = f"{path} has format version 3, and this program reads versions 1 to 2: start the version of respmq that "
    with pytest.raises(JournalError, match=re.escape(expected)):
        rig.open()
    assert path.read_bytes() == before


@pytest.mark.parametrize(
    ("records", "text"),
    [
        (record(99, 1, b""), "a record of an unknown kind 99"),
        (record(99, 0, b""), "a record of an unknown kind 99 for the broker"),
        (record(Kind.LEASED, 1, b"xx"), "unpack_from requires a buffer of at least 12 bytes"),
        (record(Kind.PUT_RUN, 1, fmt.PUT_RUN.pack(0, 1, 1, b"chosen") + bytes(4)), "invalid literal for int()"),
        (record(Kind.LEASED_RUN, 1, fmt.LEASED_RUN.pack(0, 1, 2) + b"token"), "invalid literal for int()"),
        (
            record(Kind.LEASED_RUN, 1, fmt.LEASED_RUN.pack(0, 1, (1 << 32) - 1) + b"f-0000"),
            "a run of 4294967295 messages",
        ),
        (record(Kind.ACKED_RUN, 1, fmt.ACKED_RUN.pack(1, (1 << 32) - 1)), "a run of 4294967295 messages"),
        (
            record(Kind.PUT_RUN, 1, fmt.PUT_RUN.pack(0, 1, 2, b"018bcfe568007fff8fff" + b"0" * 12) + bytes(8)),
            "a millisecond has no 2 ids from b'018bcfe568007fff8fff000000000000' on",
        ),
        (record(Kind.QUEUE, 1, b"{}"), "name"),
        (record(Kind.QUEUE, 1, b"no JSON"), "Expecting value"),
        (record(Kind.EXCHANGE, 0, b"[]"), "list indices must be integers"),
        (b"\x01\x02", "unpack_from requires a buffer of at least 9 bytes"),
    ],
)
def test_records_that_no_version_has_written_are_told_with_their_place(rig: Rig, records: bytes, text: str) -> None:
    path = write_segment(rig.folder, 1, 1, broker(1), records)
    with pytest.raises(JournalDamagedError) as raised:
        rig.open()
    assert text in str(raised.value)
    second = fmt.SEGMENT_SIZE + fmt.BATCH_SIZE + len(broker(1))
    assert str(raised.value).startswith(f"{path}, offset {second}: ")


def test_a_queue_without_a_name_is_a_missing_segment(rig: Rig) -> None:
    write_segment(rig.folder, 5, 9, broker(5) + record(Kind.ACKED, 1, fmt.IDS.pack(0)))
    with pytest.raises(JournalDamagedError, match="speaks of queue number 1, but nowhere of its name"):
        rig.open()


def test_records_may_speak_of_what_is_not_known(rig: Rig) -> None:
    """Of what stood in a segment that was compacted away."""
    rig.fill(1, segment_size=1 << 20)
    (segment,) = segments(rig.folder)
    declared = next(batch.records for batch in segment.batches() if batch.records[0] == Kind.QUEUE)
    unknown = b"\x07unknown"
    one = fmt.IDS.pack(1) + unknown
    records = [
        record(Kind.ACKED, 1, one),
        record(Kind.REMOVED, 1, one),
        record(Kind.LEASED, 1, fmt.LEASED.pack(START, 1) + b"\x07\x05" + b"unknowntoken"),
        record(Kind.LEASED_RUN, 1, fmt.LEASED_RUN.pack(START, 70, 2) + b"0123456789ab-0000"),
        record(Kind.ACKED_RUN, 1, fmt.ACKED_RUN.pack(70, 2)),
        record(Kind.TOUCHED, 1, fmt.TOUCHED.pack(START, 1) + unknown),
        record(Kind.RETURNED, 1, fmt.RETURNED.pack(0, START, 0, 0, 4) + b"unknown"),
        record(Kind.PROMOTED, 1, fmt.PROMOTED.pack(START, 7, 1) + unknown),
        record(Kind.DIED, 1, fmt.DIED.pack(3, START, 0, True, False, 7) + b"unknown"),
        record(Kind.DEAD_REMOVED, 1, fmt.DEAD_REMOVED.pack(False, 1) + bytes(8)),
        record(Kind.REPLAYED, 1, fmt.REPLAYED.pack(2, START, 0, 9)),
        record(Kind.EXCHANGE_BOUND, 1, encode_json(["unknown", "key"])),
        record(Kind.EXCHANGE_UNBOUND, 1, encode_json(["unknown", "key"])),
        record(Kind.UNBOUND, 1, b"pattern"),
        record(Kind.PURGED, 1, b""),
        record(Kind.DELETED, 2, b""),
        record(Kind.EXCHANGE_DELETED, 0, b"unknown"),
    ]
    other = rig.folder / "other"
    write_segment(other, 5, 9, broker(5), *records, declared)
    image = recovered(other).image
    assert list(image.queues) == [1]
    assert image.queues[1].messages == {}
    assert image.queues[1].letters == {}
    # What they count for is in the record that the queue is written down again with.
    assert image.queues[1].counters.acked == 0


def test_records_may_speak_of_what_is_not_known_before_what_is(rig: Rig) -> None:
    rig.fill(1, segment_size=1 << 20)
    (segment,) = segments(rig.folder)
    stored = b"".join(batch.records for batch in segment.batches())
    (id,) = recovered(rig.folder).image.queues[1].messages
    steps = [
        record(Kind.PROMOTED, 1, fmt.PROMOTED.pack(START, 6, 2) + b"\x07\x20unknown" + id),
        record(Kind.LEASED_RUN, 1, fmt.LEASED_RUN.pack(START, 6, 2) + b"0123456789ab-0fff"),
        record(Kind.LEASED, 1, fmt.LEASED.pack(START, 2) + b"\x07\x20\x05\x06unknown" + id + b"tokentoken2"),
        record(Kind.ACKED_RUN, 1, fmt.ACKED_RUN.pack(6, 2)),
    ]
    seen: list[tuple[int, int, bytes | None]] = []
    for count in range(1, len(steps)):
        folder = rig.folder / str(count)
        write_segment(folder, 1, 1, stored, *steps[:count])
        (message,) = recovered(folder).image.queues[1].messages.values()
        seen.append((message.order, message.attempt, message.lease))
    assert seen == [(7, 0, None), (7, 1, b"0123456789ab-1000"), (7, 2, b"token2")]
    folder = rig.folder / "all"
    write_segment(folder, 1, 1, stored, *steps)
    assert not recovered(folder).image.queues[1].messages


# -- time --------------------------------------------------------------------------------------------------------------


def times(rig: Rig) -> dict[bytes, int]:
    """By body, when each message of a new engine is due, and of ready ones since when they wait."""
    engine = rig.open()
    queue = engine.find(b"q")
    found = {message.body: message.deadline - rig.wall for state in (DELAYED, LEASED) for message in queue.peek(state)}
    found |= {message.body: message.since - rig.wall for message in queue.peek(0)}
    engine.close()
    return found


def prepare(rig: Rig) -> None:
    """A delayed message, a leased one, a ready one that expires, and a remembered id."""
    engine = rig.open()
    engine.declare(b"q", QueueSettings(dedupe=5 * HOUR))
    engine.put(b"q", b"leased")
    engine.lease((b"q",), lease=2 * HOUR)
    engine.put(b"q", b"delayed", None, 0, 3 * HOUR)
    engine.put(b"q", b"ready", b"chosen", extra=Extra({}, (), 4 * HOUR))
    engine.commit()
    engine.close()


def test_time_goes_on_while_it_is_away(rig: Rig) -> None:
    prepare(rig)
    rig.wall += HOUR
    assert times(rig) == {b"leased": HOUR, b"delayed": 2 * HOUR, b"ready": -HOUR}


def test_what_falls_due_while_it_is_away_does_so_at_the_start(rig: Rig) -> None:
    prepare(rig)
    rig.wall += 4 * HOUR
    engine = rig.open()
    assert engine.now == rig.wall
    assert sorted(bodies_of(engine)) == [b"delayed", b"leased"]
    assert engine.dead_count(b"q") == 1
    assert engine.dead_letters(b"q", 1)[0]["dead_at"] == START + 4 * HOUR
    copied = recovered(rig.copy()).image
    assert len(copied.queues[1].letters) == 1
    assert engine.put(b"q", b"again", b"chosen") is None
    engine.close()
    rig.wall += 2 * HOUR
    assert rig.open().put(b"q", b"again", b"chosen") == b"chosen"


@pytest.mark.parametrize("ahead", [HOUR // 2, -HOUR])
def test_a_clock_that_was_set_while_it_ran_moves_all_deadlines(rig: Rig, ahead: int) -> None:
    prepare(rig)
    engine = rig.open()
    rig.wall += ahead
    engine.put(b"q", b"with the clock set", None, 0, 3 * HOUR)
    engine.commit()
    engine.close()
    expected = {b"leased": 2 * HOUR, b"delayed": 3 * HOUR, b"ready": 0, b"with the clock set": 3 * HOUR}
    # However often it is read, and whatever is written in between.
    for restart in range(3):
        assert times(rig) == expected
        engine = rig.open()
        engine.put(b"q", b"restart %d" % restart)
        engine.commit()
        engine.close()
        expected[b"restart %d" % restart] = 0
    engine = rig.open()
    assert engine.put(b"q", b"again", b"chosen") is None
    engine.advance(engine.now + 5 * HOUR)
    assert engine.put(b"q", b"again", b"chosen") == b"chosen"


def test_two_settings_of_the_clock_in_two_runs_add_up(rig: Rig) -> None:
    prepare(rig)
    for ahead in (HOUR, -3 * HOUR, 2 * HOUR):
        engine = rig.open()
        rig.wall += ahead
        engine.put(b"q", b"x", b"%d" % ahead)
        engine.commit()
        engine.close()
    found = times(rig)
    assert (found[b"leased"], found[b"delayed"]) == (2 * HOUR, 3 * HOUR)


def test_a_clock_that_is_a_little_apart_is_not_set(rig: Rig) -> None:
    prepare(rig)
    engine = rig.open()
    rig.wall += 900
    engine.put(b"q", b"later")
    engine.commit()
    engine.close()
    assert times(rig)[b"delayed"] == 3 * HOUR - 900


def test_a_clock_that_was_set_back_while_it_was_away(rig: Rig) -> None:
    """Nobody can know it, so deadlines are what they were."""
    prepare(rig)
    rig.wall -= HOUR
    assert times(rig)[b"delayed"] == 4 * HOUR


# -- what else there is ------------------------------------------------------------------------------------------------


def test_progress_is_known(rig: Rig) -> None:
    rig.fill(30)
    engine = rig.open()
    assert engine.progress == (engine.recovery.total, engine.recovery.total)
    assert engine.recovery.records > 30
    engine.close()
    reading = recovered(rig.folder)
    assert reading.done == reading.total


def test_ids_and_leases_go_on_behind_those_that_were(rig: Rig) -> None:
    engine = rig.open()
    engine.declare(b"q", QueueSettings())
    seen = {engine.put(b"q", b"x") for _ in range(5)}
    tokens = {engine.lease_one(b"q")[0].lease for _ in range(5)}
    engine.commit()
    engine.close()
    for _ in range(3):
        engine = rig.open()
        id = engine.put(b"q", b"x")
        assert id is not None
        assert id not in seen
        assert all(id > other for other in seen if other is not None)
        (leased,) = engine.lease_one(b"q")
        assert leased.lease not in tokens
        seen.add(id)
        tokens.add(leased.lease)
        engine.commit()
        engine.close()


def test_queues_have_numbers_that_were_never_used(rig: Rig) -> None:
    for number in range(1, 5):
        engine = rig.open()
        engine.declare(b"q", QueueSettings())
        assert engine.find(b"q").number == number
        engine.delete(b"q")
        engine.commit()
        engine.close()


def test_what_was_torn_off_is_written_over(rig: Rig) -> None:
    rig.fill(3, segment_size=1 << 20)
    path = segment_path(rig.folder, 1)
    path.write_bytes(path.read_bytes() + random.Random(0).randbytes(3_000))
    engine = rig.open()
    assert engine.recovery.torn is not None
    assert engine.recovery.torn.path == path
    assert engine.recovery.torn.lost == 3_000
    engine.put(b"q", b"x")
    engine.commit()
    assert journal_of(engine).sizes[1] < path.stat().st_size
    engine.close()
    assert recovered(rig.folder).torn is None


def test_what_is_given_back_after_a_restart_stands_where_it_stood(rig: Rig) -> None:
    engine = rig.open()
    engine.declare(b"q", QueueSettings())
    for body in (b"a", b"b", b"c"):
        engine.put(b"q", body)
    engine.put(b"q", b"urgent", None, -1)
    engine.put(b"q", b"later", None, 1)
    _, a, b, _ = [engine.lease_one(b"q")[0] for _ in range(4)]
    engine.release(b"q", a.lease or b"")
    engine.close()
    engine = rig.open()
    assert bodies_of(engine) == [b"a", b"later"]
    engine.release(b"q", b.lease or b"")
    engine.put(b"q", b"d")
    assert bodies_of(engine) == [b"a", b"b", b"d", b"later"]
    expected = dump(engine)
    engine.close()
    assert dump(rig.open()) == expected
