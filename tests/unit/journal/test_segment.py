"""What is read of a segment is always a prefix of what was written, and what is said of the rest is right."""

from __future__ import annotations

import os
import random
from pathlib import Path
from zlib import crc32

import pytest

from respmq.journal import format as fmt
from respmq.journal import segment as module
from respmq.journal.segment import Batch, Segment, encode_batch, segment_head, segment_numbers, segment_path

START = 1_700_000_000_000
SALT = 0x1234_5678
#: Batches of all the sizes that are special in some way, one with the beginning of a batch in it.
RECORDS = [b"", b"x", bytes(40), fmt.BATCH_MAGIC * 3, bytes(range(64)), b"the last one"]
FIRST = 11


def written(tail: bytes = b"", *, number: int = 3) -> bytes:
    """A segment with a batch for each of `RECORDS`."""
    batches = [
        encode_batch(FIRST + place, START + place, START - place, FIRST + place - 1, records, SALT)
        for place, records in enumerate(RECORDS)
    ]
    return segment_head(number, FIRST, START, SALT) + b"".join(batches) + tail


def ends() -> list[int]:
    """Where the header and each of the batches end."""
    places = [fmt.SEGMENT_SIZE]
    for records in RECORDS:
        places.append(places[-1] + fmt.BATCH_SIZE + len(records))
    return places


def read(path: Path, data: bytes) -> tuple[Segment, list[Batch]]:
    path.write_bytes(data)
    segment = Segment(path, 3)
    return segment, list(segment.batches())


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return segment_path(tmp_path, 3)


def test_what_was_written_is_read(path: Path) -> None:
    segment, batches = read(path, written())
    assert [batch.records for batch in batches] == RECORDS
    assert [(batch.sequence, batch.now, batch.wall, batch.synced) for batch in batches] == [
        (FIRST + place, START + place, START - place, FIRST + place - 1) for place in range(len(RECORDS))
    ]
    assert [batch.end for batch in batches] == ends()[1:]
    assert [batch.offset for batch in batches] == ends()[:-1]
    assert (segment.sequence, segment.end, segment.damage) == (FIRST, len(written()), None)


@pytest.mark.parametrize("zeros", [1, 41, 5_000])
def test_zeros_behind_the_end_are_space_that_was_set_aside(path: Path, zeros: int) -> None:
    segment, batches = read(path, written(bytes(zeros)))
    assert [batch.records for batch in batches] == RECORDS
    assert (segment.damage, segment.end) == (None, len(written()))


def test_cut_at_any_byte_it_has_the_batches_before_the_cut(path: Path) -> None:
    whole = written()
    for size in range(len(whole)):
        segment, batches = read(path, whole[:size])
        kept = sum(end <= size for end in ends()[1:])
        assert [batch.records for batch in batches] == RECORDS[:kept]
        if size in ends():
            assert segment.damage is None
            continue
        assert segment.damage is not None, size
        assert segment.damage.torn
        assert segment.damage.sequence is None
        begins = max((end for end in ends() if end <= size), default=0)
        assert (segment.damage.offset, segment.end) == (begins, begins)
        # Zeros at the very end are as good as not written.
        assert segment.damage.lost == max(begins, len(whole[:size].rstrip(b"\0"))) - begins


def test_cut_at_any_byte_with_zeros_behind_it_says_the_same(path: Path) -> None:
    whole = written()
    for size in range(fmt.SEGMENT_SIZE, len(whole)):
        segment, batches = read(path, whole[:size] + bytes(300))
        kept = sum(end <= size for end in ends()[1:])
        following = next(end for end in ends() if end > size)
        # Zeros that are cut off and come back are no loss.
        kept += size not in ends() and not whole[size:following].strip(b"\0")
        assert [batch.records for batch in batches] == RECORDS[:kept]
        assert segment.damage is None or segment.damage.torn


def test_with_any_bit_flipped_it_has_the_batches_before(path: Path) -> None:
    """The middle is damaged, the last batch may have been torn, and a header is never taken for a torn tail."""
    whole = bytearray(written())
    for at in range(len(whole)):
        whole[at] ^= 1 << at % 8
        segment, batches = read(path, bytes(whole))
        whole[at] ^= 1 << at % 8
        place = sum(end <= at for end in ends())
        assert [batch.records for batch in batches] == RECORDS[: max(0, place - 1)], at
        assert segment.damage is not None, at
        assert segment.damage.offset == (ends()[place - 1] if place else 0)
        assert segment.damage.torn == (place == len(RECORDS)), at


def test_behind_a_damage_the_next_whole_batch_is_found(path: Path) -> None:
    data = bytearray(written())
    data[ends()[1]] ^= 1
    segment, _ = read(path, bytes(data))
    damage = segment.damage
    assert damage is not None
    assert (damage.torn, damage.sequence) == (False, FIRST + 2)
    assert damage.lost == ends()[2] - ends()[1]
    following = segment.next_batch(damage.offset + 1)
    assert following is not None
    segment.resume(following)
    assert [batch.records for batch in segment.batches()] == RECORDS[2:]
    assert segment.damage is None


def test_a_damaged_header_lets_the_batches_be_found(path: Path) -> None:
    data = bytearray(written())
    data[fmt.SEGMENT_HEAD.size] ^= 1
    segment, batches = read(path, bytes(data))
    assert batches == []
    assert segment.damage is not None
    assert (segment.damage.torn, segment.damage.sequence) == (False, FIRST)
    assert "header is damaged" in str(segment.damage)


#: Headers that a body may be full of, each in one thing what none of a batch can be.
PRETENDING = {
    "sequence 0": (0, START, START, 0),
    "a sequence that is far away": (FIRST + 10_000_000, START, START, FIRST),
    "a sequence beyond all": (1 << 60, START, START, FIRST),
    "synced before it is written": (FIRST + 1, START, START, FIRST + 1),
    "no time": (FIRST + 1, 1 << 60, START, FIRST),
    "no time of a wall clock": (FIRST + 1, START, -1 << 60, FIRST),
    "the magic again": fmt.BATCH_META.unpack(fmt.BATCH_MAGIC * 8),
}


@pytest.mark.parametrize("meta", PRETENDING.values(), ids=PRETENDING)
@pytest.mark.parametrize("header", [0, 1], ids=["", "damaged header"])
def test_a_body_full_of_the_magic_is_searched_with_little_work(
    path: Path, meta: tuple[int, ...], header: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each of them claims half of the file; what is valid behind them is found all the same."""
    count = 2_000
    pretending = fmt.BATCH_HEAD.pack(fmt.BATCH_MAGIC, count * fmt.BATCH_SIZE // 2, 0) + fmt.BATCH_META.pack(*meta)
    damaged = bytearray(encode_batch(FIRST, START, START, FIRST - 1, pretending * count, SALT))
    damaged[-1] ^= 1
    valid = [
        encode_batch(FIRST + place, START + place, START - place, FIRST + place - 1, b"valid", SALT) for place in (1, 2)
    ]
    data = bytearray(segment_head(3, FIRST, START, SALT) + bytes(damaged) + b"".join(valid))
    data[fmt.SEGMENT_HEAD.size] ^= header
    work = 0

    def counting(of: bytes, value: int = 0) -> int:
        nonlocal work
        work += len(of)
        return crc32(of, value)

    monkeypatch.setattr(module, "crc32", counting)
    path.write_bytes(data)
    found = list(Segment(path, 3).all_batches())
    assert [batch.sequence for batch in found] == [FIRST + 1, FIRST + 2]
    # A far sequence is none only if it is known which one is due.
    if not (header and meta == PRETENDING["a sequence that is far away"]):
        assert work < 2 * len(data)


@pytest.mark.parametrize("seed", range(50))
def test_garbage_behind_the_end_is_a_torn_tail(path: Path, seed: int) -> None:
    chance = random.Random(seed)
    garbage = chance.randbytes(chance.randrange(1, 400)) + b"!"
    segment, batches = read(path, written(garbage))
    assert [batch.records for batch in batches] == RECORDS
    assert segment.damage is not None
    assert segment.damage.torn
    assert (segment.damage.offset, segment.damage.lost) == (len(written()), len(garbage))


def test_garbage_behind_zeros_is_a_torn_tail(path: Path) -> None:
    segment, batches = read(path, written(bytes(100) + b"garbage"))
    assert [batch.records for batch in batches] == RECORDS
    assert segment.damage is not None
    assert (segment.damage.torn, segment.damage.lost) == (True, 107)


@pytest.mark.parametrize("salt", [0, SALT ^ 1])
def test_a_body_that_looks_like_a_batch_is_none(path: Path, salt: int) -> None:
    """A client can send the bytes of a valid batch, but it can't know the salt."""
    forged = encode_batch(FIRST + 1, START, START, FIRST, b"forged", salt)
    body = b"before" + forged + b"after"
    data = bytearray(segment_head(3, FIRST, START, SALT) + encode_batch(FIRST, START, START, FIRST - 1, body, SALT))
    segment, batches = read(path, bytes(data))
    assert [batch.records for batch in batches] == [body]
    # With a damage before it, it is searched for batches.
    data[fmt.SEGMENT_SIZE + 9] ^= 1
    segment, batches = read(path, bytes(data))
    assert batches == []
    assert segment.damage is not None
    assert (segment.damage.torn, segment.damage.sequence) == (True, None)


def test_a_batch_out_of_turn_is_a_damage(path: Path) -> None:
    twice = encode_batch(FIRST + len(RECORDS) - 1, START, START, FIRST, b"once more", SALT)
    segment, batches = read(path, written(twice))
    assert [batch.records for batch in batches] == RECORDS
    assert segment.damage is not None
    assert "batch 16 stands where 17 is due" in str(segment.damage)


def test_a_size_that_is_far_too_large_is_a_torn_tail(path: Path) -> None:
    segment, batches = read(path, written(fmt.BATCH_HEAD.pack(fmt.BATCH_MAGIC, 0xFFFF_FFFF, 0) + bytes(40)))
    assert [batch.records for batch in batches] == RECORDS
    assert segment.damage is not None
    assert segment.damage.torn
    assert f"a batch of {0xFFFF_FFFF} bytes is incomplete" in str(segment.damage)


def test_a_file_under_another_number_is_found_out(path: Path) -> None:
    segment, batches = read(path, written(number=4))
    assert batches == []
    assert segment.damage is not None
    assert not segment.damage.torn
    assert f"{path}, offset 0: the header says that this is segment 4" in str(segment.damage)


@pytest.mark.parametrize("data", [b"", b"respmq", bytes(5_000), written()[: fmt.SEGMENT_SIZE - 1] + bytes(5_000)])
def test_a_segment_that_was_only_begun_is_torn(path: Path, data: bytes) -> None:
    segment, batches = read(path, data)
    assert batches == []
    assert segment.damage is not None
    assert (segment.damage.torn, segment.end) == (True, 0)


def test_another_file_is_none_of_ours(path: Path) -> None:
    segment, batches = read(path, os.urandom(2_000))
    assert batches == []
    assert segment.damage is not None
    assert not segment.damage.torn


def test_numbers_are_read_from_names(tmp_path: Path) -> None:
    for name in ("7.journal", "00000000000000000012.journal", "lock", "3.journal.damaged", "x.journal", "²3.journal"):
        (tmp_path / name).touch()
    assert segment_numbers(tmp_path) == [7, 12]
    assert segment_path(tmp_path, 12).name == "00000000000000000012.journal"
