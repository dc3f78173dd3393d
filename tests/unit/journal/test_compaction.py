"""Keeping the journal small: what goes, what is written again, and that nothing is lost on the way."""

from __future__ import annotations

import errno

import pytest

from respmq.core.model import Extra, QueueSettings
from respmq.engine.journaled import JournaledEngine
from respmq.journal.segment import segment_numbers, segment_path
from tests.support.dump import dump
from tests.unit.journal.files.make import HERE
from tests.unit.journal.rig import SMALL, Rig, bodies_of, flip, journal_of, recovered

#: Larger than what begins a segment, so that segments are small beside what is in them.
SEGMENT = 20_000


def opened(rig: Rig, segment_size: int = SMALL) -> JournaledEngine:
    engine = rig.open(segment_size=segment_size)
    engine.declare(b"q", QueueSettings(max_len=1_000_000))
    engine.commit()
    return engine


def put(engine: JournaledEngine, body: bytes) -> None:
    engine.put(b"q", body)
    engine.commit()


def pass_(engine: JournaledEngine) -> None:
    """Let it do what it does between two passes of the event loop and now and then."""
    assert engine.compactor is not None
    engine.compactor.step(engine.now)
    engine.every_second()


def rest(engine: JournaledEngine) -> None:
    """Let it do all that there is to do."""
    for _ in range(300):
        pass_(engine)
    assert engine.compactor is not None
    assert not engine.compactor.busy


def compact(engine: JournaledEngine) -> None:
    rest(engine)
    assert engine.compact()
    rest(engine)


def size(engine: JournaledEngine) -> int:
    return sum(journal_of(engine).sizes.values())


def test_a_segment_of_which_nothing_is_needed_goes_by_itself(rig: Rig) -> None:
    engine = opened(rig)
    for number in range(200):
        put(engine, b"%d" % number)
        (leased,) = engine.lease_one(b"q")
        engine.ack_one(b"q", leased.lease or b"")
        engine.commit()
        pass_(engine)
    assert segment_numbers(rig.folder)[0] > 5
    assert size(engine) < 4 * SMALL


def test_one_old_message_keeps_nothing_on_the_disk(rig: Rig) -> None:
    engine = opened(rig, SEGMENT)
    engine.put(b"q", b"old", b"old", 9, 0, Extra({b"h": b"v"}, (b"a",), None))
    engine.commit()
    before = engine.show(b"q", b"old")
    for number in range(1_500):
        put(engine, b"%d" % number)
        (leased,) = engine.lease_one(b"q")
        engine.ack_one(b"q", leased.lease or b"")
        engine.commit()
        pass_(engine)
        assert size(engine) < 4 * SEGMENT
    assert segment_numbers(rig.folder)[0] > 5
    engine.close()
    assert rig.open().show(b"q", b"old") == before


def test_the_journal_stays_below_twice_what_is_needed_and_two_segments(rig: Rig) -> None:
    engine = opened(rig, SEGMENT)
    needed = 0
    for number in range(2_500):
        put(engine, b"%d".ljust(100, b".") % number)
        if number % 2:
            (leased,) = engine.lease_one(b"q")
            engine.ack_one(b"q", leased.lease or b"")
            engine.commit()
        for _ in range(2):
            pass_(engine)
        if number % 50 == 0:
            needed = journal_of(engine).homes.live_size(engine.now)
            assert size(engine) <= 2 * needed + 2 * SEGMENT
    assert needed > 5 * SEGMENT
    expected = bodies_of(engine)
    engine.close()
    assert bodies_of(rig.open()) == expected


def test_everything_is_written_again(rig: Rig) -> None:
    """All that there can be, out of segments that go."""
    rig.folder.mkdir()
    for path in (HERE / "everything-v1").iterdir():
        (rig.folder / path.name).write_bytes(path.read_bytes())
    rig.wall = recovered(rig.folder).image.now
    before = set(segment_numbers(rig.folder))
    engine = rig.open(segment_size=SMALL)
    engine.declare(b"another", QueueSettings())
    engine.commit()
    there = dump(engine)
    compact(engine)
    assert not before & set(segment_numbers(rig.folder))
    assert dump(engine) == there
    engine.close()
    assert dump(rig.open()) == there


@pytest.mark.parametrize("offset", [0, 60, 700, 1_500])
def test_a_segment_that_has_rotted_is_written_again_from_memory(rig: Rig, offset: int) -> None:
    bodies = rig.fill(60)
    engine = rig.open(segment_size=SMALL)
    flip(segment_path(rig.folder, 1), offset)
    flip(segment_path(rig.folder, 3), offset)
    compact(engine)
    assert engine.failure is None
    warnings = engine.take_warnings()
    assert len(warnings) == 2
    assert f"{segment_path(rig.folder, 1)}, offset " in warnings[0]
    assert engine.take_warnings() == []
    engine.close()
    assert bodies_of(rig.open()) == bodies


def test_a_segment_that_can_not_be_read_is_a_failure(rig: Rig) -> None:
    rig.fill(60)
    engine = rig.open(segment_size=SMALL)
    segment_path(rig.folder, 1).unlink()
    engine.compact()
    pass_(engine)
    assert "can't be read: No such file or directory" in str(engine.failure)
    assert segment_numbers(rig.folder)[0] == 2


def test_nothing_goes_before_what_replaces_it_is_synced(rig: Rig) -> None:
    rig.fill(60)
    engine = rig.open(segment_size=SMALL)
    before = segment_numbers(rig.folder)
    rig.files.fail["sync"] = errno.EIO
    engine.compact()
    for _ in range(100):
        pass_(engine)
    assert engine.failure is not None
    assert segment_numbers(rig.folder)[: len(before)] == before


def test_a_purge_lets_everything_go(rig: Rig) -> None:
    rig.fill(60)
    engine = rig.open(segment_size=SMALL)
    engine.purge(b"q")
    engine.commit()
    for _ in range(100):
        pass_(engine)
    assert size(engine) < 4 * SMALL
    engine.close()
    assert rig.open().names() == [b"q"]


def test_ids_are_remembered_as_long_as_they_have_to_be(rig: Rig) -> None:
    engine = opened(rig)
    engine.declare(b"dedupe", QueueSettings(dedupe=60_000))
    engine.put(b"dedupe", b"x", b"chosen")
    engine.remove(b"dedupe", (b"chosen",))
    engine.commit()
    for number in range(60):
        put(engine, b"%d".ljust(100) % number)
    compact(engine)
    engine.close()
    rig.wall += 59_000
    engine = rig.open(segment_size=SMALL)
    assert engine.put(b"dedupe", b"x", b"chosen") is None
    engine.close()
    rig.wall += 2_000
    engine = rig.open(segment_size=SMALL)
    assert engine.put(b"dedupe", b"x", b"chosen") == b"chosen"


@pytest.mark.parametrize("restarts", [1, 2])
def test_ids_are_remembered_as_long_if_the_clock_was_set(rig: Rig, restarts: int) -> None:
    engine = opened(rig)
    engine.declare(b"dedupe", QueueSettings(dedupe=60_000))
    engine.put(b"dedupe", b"x", b"chosen")
    engine.remove(b"dedupe", (b"chosen",))
    engine.commit()
    rig.wall += 3_600_000
    # No message is needed of the segment in which the id was written down.
    put(engine, bytes(SMALL))
    engine.purge(b"q")
    for _ in range(restarts):
        engine.close()
        engine = rig.open(segment_size=SMALL)
    for number in range(60):
        put(engine, b"%d".ljust(100) % number)
    compact(engine)
    engine.close()
    assert 1 not in segment_numbers(rig.folder)
    engine = rig.open(segment_size=SMALL)
    assert engine.put(b"dedupe", b"x", b"chosen") is None


def test_one_compaction_at_a_time(rig: Rig) -> None:
    rig.fill(60)
    engine = rig.open(segment_size=SMALL)
    assert engine.compact()
    engine.every_second()
    assert not engine.compact()
    assert engine.describe_journal()["aof_rewrite_in_progress"] == 1
    for _ in range(300):
        pass_(engine)
    described = engine.describe_journal()
    assert described["aof_rewrite_in_progress"] == 0
    assert int(described["aof_rewrites"]) > 3
    assert engine.compact()


def test_the_journal_stays_small_between_two_looks_of_each_second(rig: Rig) -> None:
    """Whatever is written in that second."""
    engine = opened(rig)
    sizes = []
    for number in range(400):
        put(engine, b"%d" % number)
        (leased,) = engine.lease_one(b"q")
        engine.ack_one(b"q", leased.lease or b"")
        engine.commit()
        assert engine.compactor is not None
        engine.compactor.step(engine.now)
        sizes.append(size(engine))
    assert max(sizes) < 5 * SMALL


def test_a_segment_in_which_no_message_is_needed_is_not_read(rig: Rig) -> None:
    """What is kept of it, queues and exchanges, is known; so damage in it that nobody has seen does no harm."""
    engine = opened(rig)
    engine.exchanges.declare(b"x", "TOPIC")
    for number in range(100):
        put(engine, b"%d" % number)
    (oldest, *_) = segment_numbers(rig.folder)
    flip(segment_path(rig.folder, oldest), 300)
    for _ in range(100):
        (message,) = engine.lease_one(b"q")
        engine.ack_one(b"q", message.lease or b"")
    there = dump(engine)
    compact(engine)
    assert oldest not in segment_numbers(rig.folder)
    assert engine.take_warnings() == []
    engine.close()
    assert dump(rig.open()) == there


def test_a_request_of_a_deleted_queue_that_has_leased_from_others(rig: Rig) -> None:
    """What is kept of it goes with the queue that it named first."""
    engine = opened(rig)
    engine.declare(b"first", QueueSettings())
    engine.put(b"first", b"x")
    put(engine, b"y")
    taken = engine.lease((b"first", b"q"), 2, None, None, (b"default", b"r"))
    assert isinstance(taken, list)
    assert len(taken) == 2
    engine.delete(b"first")
    for number in range(40):
        put(engine, b"%d" % number * 40)
    there = dump(engine)
    compact(engine)
    engine.close()
    assert dump(rig.open()) == there


def test_a_journal_with_such_a_request_behind_the_end_of_its_queue(rig: Rig) -> None:
    engine = opened(rig)
    engine.declare(b"first", QueueSettings())
    engine.put(b"first", b"x")
    engine.lease((b"first", b"q"), 1, None, None, (b"default", b"r"))
    queue = engine.find(b"first")
    (request,) = queue.requests.values()
    engine.delete(b"first")
    engine.commit()
    there = dump(engine)
    journal_of(engine).encoder.requested(queue, request)
    engine.close()
    assert dump(rig.open()) == there


def test_how_much_is_written_where_is_known_after_a_restart_as_before(rig: Rig) -> None:
    engine = opened(rig, 1 << 20)
    queue, journal = engine.find(b"q"), journal_of(engine)
    engine.put_one(b"q", b"one")
    engine.put_many(b"q", (b"a", b"run"))
    engine.put(b"q", b"with options", b"chosen", 3, 0, Extra({b"h": b"v"}, (b"attached",), None))
    one, *_, chosen = queue.live.values()
    (leased,) = engine.lease_one(b"q")
    engine.reject(b"q", leased.lease or b"")
    for encode, what in (("carried_plain", list(queue.live.values())[:2]), ("carried", chosen)):
        getattr(journal.encoder, encode)(queue, what)
        engine.commit()
    (letter,) = queue.dead
    assert letter.message is one
    journal.encoder.letter(queue, letter)
    engine.commit()
    (home,) = journal.homes._by_queue[queue.number].values()
    (found,) = recovered(rig.folder).homes._by_queue[queue.number].values()
    assert (home.live, home.dead, home.written) == (3, 1, 8)
    assert (found.live, found.dead, found.written) == (3, 1, 8)
    assert (found.size, found.ids_size) == (home.size, home.ids_size)


def test_a_message_that_failed_in_the_millisecond_of_its_put(rig: Rig) -> None:
    engine = opened(rig)
    engine.put_many(b"q", (b"failed", b"released"))
    failed, released = (engine.lease_one(b"q")[0].lease or b"" for _ in range(2))
    engine.nack(b"q", failed, 0)
    engine.release(b"q", released)
    engine.commit()
    for number in range(40):
        put(engine, b"%d" % number)
    compact(engine)
    assert 1 not in journal_of(engine).sizes
    assert sorted(message.attempt for message in engine.find(b"q").live.values())[-2:] == [0, 1]
    assert dump(rig.open(rig.copy())) == dump(engine)


def test_a_chosen_id_that_was_made_for_a_message_without_options(rig: Rig) -> None:
    """What is read of the older message in the segment must not be taken for what the later one is."""
    engine = rig.open(segment_size=SMALL)
    engine.declare(b"q", QueueSettings(dedupe=0))
    engine.commit()
    (id,) = engine.put_many(b"q", (b"without",))
    (leased,) = engine.lease_one(b"q")
    engine.ack_one(b"q", leased.lease or b"")
    engine.tick(engine.now + 1)
    assert engine.put(b"q", b"with a priority", id, -5) == id
    engine.commit()
    for number in range(40):
        put(engine, b"%d" % number)
    compact(engine)
    assert 1 not in journal_of(engine).sizes
    assert dump(rig.open(rig.copy())) == dump(engine)
