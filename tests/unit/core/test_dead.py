"""Dead letters: oldest first, by id, never more than MAXDEAD, and what they count for."""

from __future__ import annotations

from tests.unit.core.bench import Bench


def kill(bench: Bench, *bodies: bytes) -> None:
    """Put messages and let them die."""
    for body in bodies:
        bench.put(body)
        bench.broker.reject(b"q", bench.take(), b"why")


def bodies(bench: Bench) -> list[bytes]:
    return [letter[0] for letter in bench.dead]


def test_oldest_first_and_the_oldest_is_dropped() -> None:
    bench = Bench(max_dead=3, dedupe=0)
    kill(bench, b"1", b"2", b"3", b"4", b"5")
    assert bodies(bench) == [b"3", b"4", b"5"]
    assert (bench.stat("dead"), bench.stat("dead_lettered"), bench.stat("dead_dropped")) == (3, 5, 2)


def test_none_is_kept_with_maxdead_0() -> None:
    bench = Bench(max_dead=0, dedupe=0)
    kill(bench, b"1", b"2")
    assert bodies(bench) == []
    assert (bench.stat("dead_lettered"), bench.stat("dead_dropped"), bench.broker.used_memory) == (2, 2, 0)


def test_each_death_of_one_id_is_a_letter() -> None:
    bench = Bench(dedupe=0)
    for body in (b"first", b"second", b"third"):
        bench.broker.put(b"q", body, id=b"k")
        bench.broker.reject(b"q", bench.take())
    shown = bench.broker.show(b"q", b"k")
    assert shown is not None
    assert (shown["body"], shown["state"]) == (b"third", "dead")
    assert bench.broker.replay_dead(b"q", (b"k",)) == 1
    assert bodies(bench) == [b"first", b"second"]
    assert bench.ready == [b"third"]
    # Live in the queue now: skipped.
    assert bench.broker.replay_dead(b"q", (b"k", b"k")) == 0
    assert bench.broker.replay_dead(b"q") == 0
    assert bench.broker.purge_dead(b"q", (b"k", b"k", b"unknown")) == 2
    assert bodies(bench) == []


def test_a_replayed_one_begins_anew_at_the_back_of_its_priority() -> None:
    bench = Bench(max_attempts=1, ttl=100)
    bench.put(b"a", priority=-1)
    bench.broker.nack(b"q", bench.take(), error=b"e")
    bench.after(50)
    bench.put(b"b", priority=-1)
    bench.put(b"c")
    assert bench.broker.replay_dead(b"q", (b"unknown", b"a", b"a")) == 1
    assert bench.ready == [b"b", b"a", b"c"]
    shown = bench.broker.show(b"q", b"a")
    assert shown is not None
    assert (shown["attempt"], shown["enqueued_at"], shown["state"]) == (0, bench.broker.now - 50, "ready")
    bench.after(99)
    assert bench.ready == [b"b", b"a", b"c"]
    bench.after(1)
    assert bench.ready == []
    assert sorted(letter[:2] for letter in bench.dead) == [(body, "ttl_expired") for body in (b"a", b"b", b"c")]


def test_replay_is_not_held_back_by_maxlen() -> None:
    bench = Bench(max_len=1)
    kill(bench, b"1", b"2", b"3")
    bench.put(b"4")
    assert bench.broker.replay_dead(b"q") == 3
    assert bench.ready == [b"4", b"1", b"2", b"3"]


def test_pop_takes_the_oldest() -> None:
    bench = Bench()
    kill(bench, b"1", b"2", b"3")
    assert [m["body"] for m in bench.broker.pop_dead(b"q")] == [b"1"]
    assert [m["body"] for m in bench.broker.pop_dead(b"q", 10)] == [b"2", b"3"]
    assert bench.broker.pop_dead(b"q") == []


def test_what_they_count_for_goes_with_them() -> None:
    bench = Bench(max_dead=5, dedupe=0)
    kill(bench, *(b"%d" % i for i in range(10)))
    per_letter = bench.broker.used_memory // 5
    assert bench.broker.used_memory == 5 * per_letter
    bench.broker.pop_dead(b"q")
    assert bench.broker.used_memory == 4 * per_letter
    bench.broker.purge_dead(b"q", (b"6",))
    assert bench.broker.used_memory == 3 * per_letter
    bench.broker.replay_dead(b"q", (b"7",))
    assert 2 * per_letter < bench.broker.used_memory < 3 * per_letter
    bench.broker.remove(b"q", (b"7",))
    assert bench.broker.used_memory == 2 * per_letter
    assert bench.broker.purge_dead(b"q") == 2
    assert bench.broker.used_memory == 0


def test_dying_and_being_replayed_leaves_no_history() -> None:
    bench = Bench(dedupe=0)
    bench.put(b"m")
    used = bench.broker.used_memory
    for _ in range(1000):
        bench.broker.reject(b"q", bench.take(), b"e" * 100)
        assert bench.stat("dead") == 1
        assert bench.broker.replay_dead(b"q") == 1
    assert bench.broker.used_memory == used
    assert bench.stat("dead_lettered") == 1000
