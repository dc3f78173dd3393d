"""Messages that follow each other are written down as runs; whatever doesn't is written by its ids."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path

from respmq.core.model import Message, QueueSettings
from respmq.engine.journaled import JournaledEngine
from respmq.journal import format as fmt
from respmq.journal.encoder import encode_message
from respmq.journal.format import Kind
from respmq.journal.segment import encode_batch, segment_head, segment_path
from tests.support.dump import dump
from tests.unit.journal.files.make import HERE
from tests.unit.journal.rig import START, Rig, bodies_of, journal_of, recovered, segments


def records(folder: Path) -> Iterator[tuple[Kind, bytes]]:
    """Kind and payload of each record."""
    for segment in segments(folder):
        for batch in segment.batches():
            at = 0
            while at < len(batch.records):
                kind, size, _ = fmt.RECORD_HEAD.unpack_from(batch.records, at)
                at += fmt.RECORD_HEAD.size
                yield Kind(kind), batch.records[at : at + size]
                at += size


def kinds_since(folder: Path, count: int) -> list[Kind]:
    """The kinds of records behind the first `count` ones."""
    return [kind for kind, _ in records(folder)][count:]


def opened(rig: Rig) -> JournaledEngine:
    engine = rig.open(policy="no")
    engine.declare(b"q", QueueSettings())
    engine.commit()
    return engine


def leased(engine: JournaledEngine, count: int) -> list[Message]:
    """Lease messages one `count` at a time."""
    found = engine.lease((b"q",), count)
    assert isinstance(found, list)
    return [message for message in found if isinstance(message, Message)]


def tokens_of(messages: list[Message]) -> tuple[bytes, ...]:
    return tuple(message.lease or b"" for message in messages)


def check_comes_back(rig: Rig, engine: JournaledEngine) -> None:
    engine.commit()
    expected = dump(engine)
    assert dump(rig.open(rig.copy())) == expected


def test_what_follows_each_other_is_a_run(rig: Rig) -> None:
    engine = opened(rig)
    before = len(list(records(rig.folder)))
    engine.put_many(b"q", tuple(b"%d" % number for number in range(5000)))
    engine.commit()
    engine.put_one(b"q", b"alone")
    first, second, third = leased(engine, 2000), leased(engine, 1), leased(engine, 2500)
    check_comes_back(rig, engine)
    engine.ack(b"q", tokens_of(first))
    engine.ack(b"q", tokens_of(second))
    engine.ack(b"q", tokens_of(third)[1:])
    check_comes_back(rig, engine)
    runs = [Kind.PUT_RUN, Kind.PUT, *[Kind.LEASED_RUN] * 3, *[Kind.ACKED_RUN] * 3]
    assert kinds_since(rig.folder, before) == runs


def test_what_is_taken_out_of_its_order_is_no_run(rig: Rig) -> None:
    engine = opened(rig)
    for number in range(6):
        engine.put(b"q", b"%d" % number, None, -number)
    before = len(list(records(rig.folder)))
    taken = leased(engine, 3)
    assert [message.body for message in taken] == [b"5", b"4", b"3"]
    check_comes_back(rig, engine)
    engine.ack(b"q", tokens_of(taken[:2]))
    check_comes_back(rig, engine)
    # In the order in which they came, whoever acks the last one first.
    engine.ack(b"q", tokens_of([*taken[2:], *leased(engine, 1)]))
    check_comes_back(rig, engine)
    kinds = [kind for kind in kinds_since(rig.folder, before) if kind != Kind.MESSAGE]
    assert kinds == [Kind.LEASED, Kind.ACKED, Kind.LEASED_RUN, Kind.ACKED]


def test_a_message_that_came_back_is_known_by_its_new_place(rig: Rig) -> None:
    engine = opened(rig)
    engine.put_many(b"q", (b"a", b"b", b"c"))
    a, b, _ = leased(engine, 3)
    engine.nack(b"q", a.lease or b"", 0, None)
    engine.release(b"q", b.lease or b"")
    check_comes_back(rig, engine)
    again = leased(engine, 2)
    assert [message.body for message in again] == [b"b", b"a"]
    check_comes_back(rig, engine)
    engine.ack(b"q", tokens_of(again[:1]))
    engine.ack(b"q", tokens_of(again[1:]))
    check_comes_back(rig, engine)
    assert [message.body for message in engine.find(b"q").live.values()] == [b"c"]


def test_a_run_speaks_of_what_was_written_down_again(rig: Rig) -> None:
    """And stands in an older file as well, as it does until that is gone."""
    engine = opened(rig)
    engine.put_many(b"q", (b"a", b"b", b"c", b"d"))
    engine.commit()
    queue = engine.find(b"q")
    a, b, c, d = queue.live.values()
    encoder = journal_of(engine).encoder
    encoder.carried_plain(queue, [a, b])
    encoder.carried(queue, c)
    encoder.carried(queue, d)
    taken = leased(engine, 4)
    check_comes_back(rig, engine)
    engine.ack(b"q", tokens_of(taken[:3]))
    check_comes_back(rig, engine)
    encoder.carried(queue, d)
    engine.ack(b"q", tokens_of(taken[3:]))
    check_comes_back(rig, engine)
    kinds = [kind for kind, _ in records(rig.folder)]
    assert [kinds.count(kind) for kind in (Kind.LEASED_RUN, Kind.ACKED_RUN)] == [1, 2]
    assert not recovered(rig.copy()).image.queues[queue.number].messages


def test_a_run_ends_with_its_millisecond(rig: Rig) -> None:
    """Whose counter runs over once in 16,777,216 ids."""
    engine = opened(rig)
    maker = engine.find(b"q").id_maker
    engine.put(b"q", b"first")
    maker._counter = (1 << 24) - 1
    maker._block = b"%012x7fff8" % START
    engine.commit()
    before = len(list(records(rig.folder)))
    bodies = (b"last of a millisecond", b"first of the next", b"second")
    ids = engine.put_many(b"q", bodies)
    check_comes_back(rig, engine)
    assert kinds_since(rig.folder, before) == [Kind.PUT, Kind.PUT_RUN]
    assert [engine.find(b"q").live[id].body for id in ids] == list(bodies)
    stats = engine.find(b"q")
    assert (stats.ready, stats.bytes) == (4, sum(map(len, bodies)) + len(b"first"))


def test_a_folder_of_an_older_version_goes_on_in_a_new_file(rig: Rig) -> None:
    """Of what is written now the older version knows nothing, and the header of a file has to be true of all of it."""
    shutil.copytree(HERE / "everything-v1", rig.folder)
    old = {path: path.read_bytes().rstrip(b"\0") for path in rig.folder.glob("*.journal")}
    for _ in range(2):
        engine = rig.open()
        engine.put_many(b"keep", (b"new", b"newer"))
        engine.close()
    assert {path: path.read_bytes().rstrip(b"\0") for path in old} == old
    assert [segment.version for segment in segments(rig.folder)] == [1] * len(old) + [fmt.VERSION]


def test_an_order_that_two_messages_have_says_nothing(rig: Rig) -> None:
    """Older versions imported such lines. A run that speaks of one of the two must not take the other for it."""
    opened(rig).close()
    (segment,) = segments(rig.folder)
    parts = [segment_head(1, 1, START, segment.salt)]
    batches = list(segment.batches())
    stored: list[bytes] = []
    for id in (b"one", b"other"):
        message = Message(b"q", id, id, 0, START, None)
        message.order = 7
        payload = encode_message(message, fmt.CARRIED)
        stored.append(fmt.RECORD_HEAD.pack(Kind.MESSAGE, len(payload), 1) + payload)
    parts += [encode_batch(b.sequence, b.now, b.wall, b.synced, b.records, segment.salt) for b in batches]
    last = batches[-1].sequence + 1
    parts.append(encode_batch(last, START, START, last - 1, b"".join(stored), segment.salt))
    segment_path(rig.folder, 1).write_bytes(b"".join(parts))
    engine = rig.open()
    (first,) = leased(engine, 1)
    assert first.body == b"one"
    engine.ack(b"q", tokens_of([first]))
    assert bodies_of(engine) == [b"other"]
    (other,) = leased(engine, 1)
    engine.release(b"q", other.lease or b"")
    engine.close()
    # What is done comes again: that it is done was told of an order that both have.
    engine = rig.open()
    assert bodies_of(engine) == [b"one", b"other"]
    # Both may be given back, though no order tells which of them stands first.
    for message in leased(engine, 2):
        engine.release(b"q", message.lease or b"")
    assert bodies_of(engine) == [b"one", b"other"]
    engine.close()
    assert [message.attempt for message in rig.open().find(b"q").live.values()] == [0, 0]
