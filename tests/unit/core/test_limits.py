"""The rules of one queue, one by one: MAXLEN, DEDUPE, limits, declaring, deleting, statistics."""

from __future__ import annotations

import pytest

from respmq.errors import (
    InvalidRequestError,
    OutOfMemoryError,
    QueueConfigConflictError,
    QueueFullError,
    QueueNotFoundError,
    TooBigError,
)
from tests.unit.core.bench import START, Bench

# -- MAXLEN


def test_a_full_queue_refuses_and_what_comes_back_is_not_held_back() -> None:
    bench = Bench(max_len=3, retry_delay=0)
    bench.put(b"1", b"2", b"3")
    with pytest.raises(QueueFullError):
        bench.put(b"4")
    taken = bench.lease(3)
    bench.put(b"4", b"5", b"6")
    for one in taken:
        assert bench.broker.nack(b"q", one.lease or b"") == 1
    assert bench.ready == [b"4", b"5", b"6", b"1", b"2", b"3"]
    with pytest.raises(QueueFullError, match="holds 6 of at most 3"):
        bench.put(b"7")


def test_delayed_ones_count() -> None:
    bench = Bench(max_len=2)
    bench.put(b"1", delay=1_000)
    bench.put(b"2")
    with pytest.raises(QueueFullError):
        bench.put(b"3")


def test_many_are_stored_all_or_none() -> None:
    bench = Bench(max_len=3)
    with pytest.raises(QueueFullError):
        bench.broker.put_many(b"q", (b"1", b"2", b"3", b"4"))
    assert bench.ready == []
    bench.broker.put_many(b"q", (b"1", b"2", b"3"))
    assert bench.ready == [b"1", b"2", b"3"]


def test_dropping_the_head_takes_the_oldest_of_the_least_urgent() -> None:
    bench = Bench(max_len=4, overflow="DROPHEAD")
    bench.put(b"u1", priority=-1)
    bench.put(b"l1", priority=5)
    bench.put(b"l2", priority=5, delay=1_000)
    bench.put(b"m1")
    bench.put(b"new 1", priority=9)
    assert bench.dead == [(b"l1", "max_length", None, 0)]
    bench.put(b"new 2", priority=-9)
    bench.put(b"new 3", priority=9)
    assert [letter[0] for letter in bench.dead] == [b"l1", b"new 1", b"l2"]
    assert bench.ready == [b"new 2", b"u1", b"m1", b"new 3"]


def test_dropping_the_head_never_takes_a_leased_one() -> None:
    bench = Bench(max_len=1, overflow="DROPHEAD", retry_delay=0)
    bench.put(b"1")
    token = bench.take()
    bench.put(b"2")
    bench.put(b"3")
    assert bench.dead == [(b"2", "max_length", None, 0)]
    bench.broker.release(b"q", token)
    assert bench.ready == [b"1", b"3"]
    bench.put(b"4")
    assert [letter[0] for letter in bench.dead] == [b"2", b"1", b"3"]


def test_more_than_maxlen_at_once_are_refused_whatever_the_overflow_says() -> None:
    bench = Bench(max_len=2, overflow="DROPHEAD")
    bench.put(b"1", b"2")
    with pytest.raises(QueueFullError):
        bench.broker.put_many(b"q", (b"a", b"b", b"c"))
    assert bench.ready == [b"1", b"2"]


# -- DEDUPE


def test_an_id_is_remembered_for_the_window_and_as_long_as_it_is_live() -> None:
    bench = Bench(dedupe=100, ack_timeout=1_000)
    bench.put(b"k")
    put = bench.broker.put
    bench.after(99)
    assert put(b"q", b"again", id=b"k") is None
    bench.after(1)
    assert put(b"q", b"again", id=b"k") is None
    token = bench.take()
    assert put(b"q", b"again", id=b"k") is None
    bench.broker.ack(b"q", (token,))
    assert put(b"q", b"again", id=b"k") == b"k"
    bench.broker.ack(b"q", (bench.take(),))
    assert put(b"q", b"again", id=b"k") is None
    assert bench.stat("duplicates") == 4
    bench.after(100)
    assert put(b"q", b"again", id=b"k") == b"k"


def test_an_id_that_the_broker_made_is_remembered_too() -> None:
    bench = Bench(dedupe=100)
    id = bench.broker.put(b"q", b"m")
    many = bench.broker.put_many(b"q", (b"a", b"b"))
    assert id is not None
    for _ in range(3):
        bench.broker.ack(b"q", (bench.take(),))
    for known in (id, *many):
        assert bench.broker.put(b"q", b"again", id=known) is None
    bench.after(100)
    assert bench.broker.put(b"q", b"again", id=id) == id


def test_an_id_that_the_broker_would_make_next_is_no_harm() -> None:
    """A client that guesses it gets its message, and so does the next one."""
    bench = Bench()
    first = bench.broker.put(b"q", b"1")
    assert first is not None
    guesses = [first[:17] + b"%03x" % number + first[20:] for number in range(1, 4)]
    later = b"%012x" % (bench.broker.now + 50) + b"70008000" + first[20:]
    for guess in (*guesses, later):
        assert bench.broker.put(b"q", b"guess", id=guess) == guess
    made = [bench.broker.put(b"q", b"made") for _ in range(3)] + bench.broker.put_many(b"q", (b"x", b"y"))
    bench.after(50)
    made.append(bench.broker.put(b"q", b"made"))
    assert len({first, *guesses, later, *made}) == 11
    assert bench.stat("ready") == 11
    assert bench.broker.ack(b"q", tuple(m.lease or b"" for m in bench.lease(20))) == 11
    bench.after(300_000)
    assert (bench.stat("in_flight"), bench.stat("bytes"), bench.broker.used_memory) == (0, 0, 0)


def test_without_a_window_only_live_ids_are_duplicates() -> None:
    bench = Bench(dedupe=0)
    bench.put(b"k")
    assert bench.broker.put(b"q", b"again", id=b"k") is None
    bench.broker.reject(b"q", bench.take())
    assert bench.broker.put(b"q", b"again", id=b"k") == b"k"


def test_a_duplicate_is_told_even_by_a_full_queue() -> None:
    bench = Bench(max_len=1)
    bench.put(b"k")
    assert bench.broker.put(b"q", b"again", id=b"k") is None


def test_a_message_is_no_duplicate_of_itself() -> None:
    bench = Bench(ack_timeout=10, retry_delay=10)
    bench.put(b"k", delay=50)
    bench.after(50)
    bench.broker.nack(b"q", bench.take(), delay=5)
    bench.after(5)
    bench.take()
    bench.after(30)
    assert bench.ready == [b"k"]


# -- Limits, names, settings


def test_a_message_that_is_too_big_counts_with_all_that_it_has() -> None:
    bench = Bench()
    bench.broker.max_message_size = 10
    bench.put(b"x" * 10)
    for call in (
        lambda: bench.put(b"x" * 11),
        lambda: bench.broker.put_one(b"q", b"x" * 11),
        lambda: bench.broker.put_many(b"q", (b"x", b"x" * 11)),
    ):
        with pytest.raises(TooBigError, match="11 bytes"):
            call()
    assert bench.stat("enqueued") == 1


def test_a_broker_whose_memory_is_used_up_stores_nothing_and_does_all_else() -> None:
    bench = Bench()
    bench.put(b"1", b"2")
    bench.broker.max_memory = bench.broker.used_memory - 1
    with pytest.raises(OutOfMemoryError):
        bench.put(b"3")
    with pytest.raises(OutOfMemoryError):
        bench.broker.put_one(b"q", b"3")
    with pytest.raises(OutOfMemoryError):
        bench.broker.put_many(b"q", (b"3",))
    bench.broker.ack(b"q", (bench.take(),))
    bench.put(b"3")
    assert bench.ready == [b"2", b"3"]


def test_declaring_again_needs_equal_settings() -> None:
    bench = Bench(max_len=5)
    bench.declare(b"q", max_len=5)
    with pytest.raises(QueueConfigConflictError, match="MAXLEN is 5, not 10000; TTL is none, not 60s"):
        bench.declare(b"q", ttl=60_000)
    with pytest.raises(InvalidRequestError, match="MAXRETRYDELAY 1s is below RETRYDELAY 2s"):
        bench.declare(b"other", retry_delay=2_000, max_retry_delay=1_000)
    assert bench.broker.names() == [b"q"]


def test_queues_are_listed_by_name() -> None:
    bench = Bench()
    for name in (b"b.2", b"B", b"a", b"b.1"):
        bench.declare(name)
    assert bench.broker.names() == [b"B", b"a", b"b.1", b"b.2", b"q"]
    assert bench.broker.names(b"b.*") == [b"b.1", b"b.2"]


def test_a_queue_that_auto_declare_made_for_a_command_that_failed_is_gone_again() -> None:
    bench = Bench()
    broker = bench.broker
    broker.auto_declare = True
    broker.max_message_size = 5
    for call in (
        lambda: broker.put(b"new", b"too big"),
        lambda: broker.put_one(b"new", b"too big"),
        lambda: broker.put_many(b"new", (b"too big",)),
        lambda: broker.lease((b"new", b"no name")),
        lambda: broker.lease((b"new", b"no name"), request=(b"u", b"k")),
    ):
        with pytest.raises((TooBigError, Exception)):
            call()
        assert broker.names() == [b"q"]
    broker.lease((b"new", b"newer"), wait=0)
    broker.put_one(b"newest", b"m")
    assert broker.names() == [b"new", b"newer", b"newest", b"q"]


def test_an_unknown_queue_is_told_by_every_command() -> None:
    broker = Bench().broker
    for call in (
        lambda: broker.put(b"none", b""),
        lambda: broker.put_one(b"none", b""),
        lambda: broker.put_many(b"none", (b"",)),
        lambda: broker.lease((b"none",)),
        lambda: broker.lease_one(b"none"),
        lambda: broker.ack(b"none", (b"",)),
        lambda: broker.ack_one(b"none", b""),
        lambda: broker.nack(b"none", b""),
        lambda: broker.reject(b"none", b""),
        lambda: broker.release(b"none", b""),
        lambda: broker.touch(b"none", (b"",)),
        lambda: broker.peek(b"none", 0, 1, 0),
        lambda: broker.show(b"none", b""),
        lambda: broker.remove(b"none", (b"",)),
        lambda: broker.purge(b"none"),
        lambda: broker.delete(b"none"),
        lambda: broker.stats(b"none"),
        lambda: broker.settings(b"none"),
        lambda: broker.dead_letters(b"none", 1),
        lambda: broker.dead_count(b"none"),
        lambda: broker.pop_dead(b"none"),
        lambda: broker.replay_dead(b"none"),
        lambda: broker.purge_dead(b"none"),
    ):
        with pytest.raises(QueueNotFoundError, match="no such queue 'none'"):
            call()


def test_deleting_and_purging() -> None:
    bench = Bench(dedupe=0)
    bench.put(b"1", b"2", b"3", b"4")
    bench.put(b"later", delay=1_000)
    token = bench.take()
    assert bench.broker.remove(b"q", (b"1", b"2", b"2", b"later", b"none")) == 3
    assert bench.broker.ack(b"q", (token,)) == 0
    token = bench.take()
    assert bench.broker.purge(b"q") == 1
    assert bench.broker.purge(b"q") == 0
    assert (bench.ready, bench.leased) == ([], [b"3"])
    assert bench.broker.ack(b"q", (token,)) == 1
    assert bench.broker.used_memory == 0


def test_the_age_of_the_oldest_runs_from_when_it_became_ready() -> None:
    bench = Bench()
    assert bench.stat("oldest_ready_age") is None
    bench.put(b"1", delay=100)
    bench.after(100)
    assert bench.stat("oldest_ready_age") == 0
    bench.after(1_500)
    bench.put(b"2")
    assert bench.stat("oldest_ready_age") == 1.5
    bench.broker.release(b"q", bench.take())
    bench.after(250)
    assert bench.stat("oldest_ready_age") == 0.25


def test_bytes_are_those_of_all_that_is_not_dead() -> None:
    bench = Bench(max_attempts=1)
    bench.put(b"four", b"sixsix")
    bench.put(b"7777777", delay=10)
    bench.take()
    assert bench.stat("bytes") == 17
    bench.broker.reject(b"q", bench.take())
    assert bench.stat("bytes") == 11
    assert bench.broker.now == START
