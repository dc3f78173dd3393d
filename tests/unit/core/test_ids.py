"""Message ids and lease tokens: unique, in order, and recognised by the queue that made them."""

from __future__ import annotations

import itertools
import random
import uuid

import pytest

from respmq.core.ids import IdMaker, TokenMaker, ids_from, tokens_from

NOW = 1_700_000_000_000
PER_MILLISECOND = 1 << 24


def maker(seed: int = 1) -> IdMaker:
    return IdMaker(random.Random(seed).randbytes)


def test_an_id_is_a_uuid_version_7() -> None:
    made = maker()
    for now in (0, 1, NOW, NOW, NOW + 1, (1 << 48) - 1):
        id = made.make(now)
        assert len(id) == 32
        assert id == id.lower()
        parsed = uuid.UUID(id.decode())
        assert parsed.version == 7
        assert parsed.variant == uuid.RFC_4122
        assert parsed.int >> 80 == now


def test_ids_sort_in_the_order_in_which_they_were_made() -> None:
    made = maker()
    moments = [NOW] * 10_000 + [NOW + 1] * 3 + [NOW] * 3 + [NOW + 5] * 5000
    ids = [made.make(now) for now in moments]
    assert ids == sorted(ids)
    assert len(set(ids)) == len(ids)


def test_a_clock_that_goes_back_makes_no_id_twice() -> None:
    made = maker()
    ids = [made.make(now) for now in (NOW, NOW + 10, NOW, NOW - 1000, NOW + 10, NOW + 11)]
    assert ids == sorted(set(ids))


def test_two_queues_make_different_ids() -> None:
    source = random.Random(1).randbytes
    a, b = IdMaker(source), IdMaker(source)
    assert not {a.make(NOW) for _ in range(1000)} & {b.make(NOW) for _ in range(1000)}


def test_a_counter_that_runs_over_borrows_from_the_time() -> None:
    made = maker()
    first = made.make(NOW)
    made._counter = PER_MILLISECOND - 1
    made._block = b"%012x7fff8" % NOW
    last = made.make(NOW)
    beyond = [made.make(NOW) for _ in range(5000)]
    assert int(last[:12], 16) == NOW
    assert {int(id[:12], 16) for id in beyond} == {NOW + 1}
    assert [first, last, *beyond] == sorted({first, last, *beyond})
    # The borrowed millisecond comes, and the next one.
    following = [made.make(NOW + 1), made.make(NOW + 1), made.make(NOW + 2)]
    assert [*beyond, *following] == sorted({*beyond, *following})
    assert all(uuid.UUID(id.decode()).version == 7 for id in [last, *beyond, *following])
    assert made.made_since(beyond[0], NOW)


def test_each_block_of_the_counter_follows_the_one_before() -> None:
    made = maker()
    ids = [made.make(NOW) for _ in range(3 * 4096 + 1)]
    assert [id[12:20] for id in itertools.islice(ids, 4095, 4097)] == [b"70008fff", b"70018000"]
    assert ids == sorted(set(ids))


def test_made_since_knows_the_ids_of_a_window() -> None:
    made = maker()
    old, new = made.make(NOW), made.make(NOW + 100)
    assert made.made_since(old, NOW - 1)
    assert not made.made_since(old, NOW)
    assert made.made_since(new, NOW)
    assert not made.made_since(new, NOW + 100)


MADE = b"018bcfe56800" + b"70008000" + b"ab" * 6


@pytest.mark.parametrize(
    "other",
    [
        b"",
        MADE[:-1],
        MADE + b"0",
        MADE.upper(),
        MADE[:20] + b"0" * 12,
        b"zzzzzzzzzzzz" + MADE[12:],
        b"fffffffffff0" + MADE[12:],
    ],
)
def test_made_since_knows_no_others(other: bytes) -> None:
    made = IdMaker(lambda n: b"\xab" * n)
    assert made.make(NOW) == MADE
    assert made.made_since(MADE, NOW - 1)
    assert not made.made_since(other, NOW - 1)


def test_another_queue_s_id_is_not_known() -> None:
    assert not maker(1).made_since(maker(2).make(NOW), 0)


def test_an_id_that_is_still_to_be_made_was_not_made() -> None:
    made = IdMaker(lambda n: b"\xab" * n)
    following = MADE[:17] + b"001" + MADE[20:]
    assert not made.made_since(MADE, 0)
    assert made.make(NOW) == MADE
    assert made.made_since(MADE, 0)
    assert not made.made_since(following, 0)
    assert made.make(NOW) == following
    assert made.made_since(following, 0)


def test_an_id_that_a_client_has_chosen_is_never_made() -> None:
    made = maker()
    first = made.make(NOW)
    made.avoid(first)
    second = made.make(NOW)
    assert second[20:] == first[20:]
    for guess in (second[:17] + b"002" + second[20:], b"f" * 20 + second[20:]):
        made.avoid(guess)
    third = made.make(NOW)
    assert third[20:] != second[20:]
    assert third > second or third[:20] > second[:20]
    made.avoid(second[:17] + b"003" + second[20:])
    assert made.make(NOW)[20:] == third[20:]


def test_the_last_id_of_a_millisecond_is_known_and_the_next_one_avoided() -> None:
    made = maker()
    made.make(NOW)
    made._counter = PER_MILLISECOND - 1
    made._block = b"%012x7fff8" % NOW
    last = made.make(NOW)
    assert made.made_since(last, NOW - 1)
    borrowed = b"%012x70008000" % (NOW + 1) + last[20:]
    assert not made.made_since(borrowed, NOW - 1)
    made.avoid(borrowed)
    assert made.make(NOW) != borrowed


def test_a_maker_whose_mark_is_not_known_has_one_of_its_own() -> None:
    made = maker()
    own = made.mark
    made.load(b"", b"")
    assert (made.mark, len(made.make(NOW))) == (own, 32)


# -- Tokens


def test_tokens_differ() -> None:
    made = TokenMaker(random.Random(1).randbytes)
    tokens = [made.make() for _ in range(20_000)]
    assert len(set(tokens)) == len(tokens)


def test_tokens_of_two_starts_differ() -> None:
    source = random.Random(1).randbytes
    a, b = TokenMaker(source), TokenMaker(source)
    assert not {a.make() for _ in range(5000)} & {b.make() for _ in range(5000)}


def test_a_token_is_short_and_printable() -> None:
    made = TokenMaker(random.Random(1).randbytes)
    for _ in range(5000):
        token = made.make()
        assert len(token) < 30
        assert token.decode().isprintable()
        assert b" " not in token


@pytest.mark.parametrize("start", [0, 1, 4090, 4096, PER_MILLISECOND - 20, PER_MILLISECOND - 6, PER_MILLISECOND])
def test_a_run_of_ids_is_what_is_made_one_by_one_within_a_millisecond(start: int) -> None:
    one_by_one, at_once = maker(), maker()
    for made in (one_by_one, at_once):
        made.make(NOW)
        made._counter = start
        made._block = b"%012x7%03x8" % (NOW, start >> 12)
    ids = [one_by_one.make(NOW) for _ in range(20)]
    run = at_once.make_run(NOW, 20)
    assert len(run) == (6 if start == PER_MILLISECOND - 6 else 20)
    assert ids_from(run[0], len(run)) == run
    assert [*run, *(at_once.make(NOW) for _ in range(20 - len(run)))] == ids
    assert at_once.last == one_by_one.last
    assert at_once.make_run(NOW + 1, 3) == [one_by_one.make(NOW + 1) for _ in range(3)]


@pytest.mark.parametrize("start", [0, 1, 4090, 4096, (1 << 20) - 5, (1 << 40) - 5])
def test_tokens_that_follow_one_are_known_from_it(start: int) -> None:
    made = TokenMaker(random.Random(1).randbytes)
    made.make()
    made._count = start
    made._block = b"%b-%x" % (made._start, start >> 12)
    tokens = [made.make() for _ in range(20)]
    assert tokens_from(tokens[0], 20) == tokens
    assert tokens_from(tokens[3], 6) == tokens[3:9]
