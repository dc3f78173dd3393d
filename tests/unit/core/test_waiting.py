"""Blocked QLEASEs: who is served, when a wait ends, and requests that may be sent again."""

from __future__ import annotations

import pytest

from respmq.core.deadlines import Deadlines
from respmq.core.model import Message
from respmq.core.waiting import LeaseWait
from tests.unit.core.bench import Bench, Waiting


def test_a_put_serves_the_one_who_has_waited_longest() -> None:
    bench = Bench()
    waiting = [bench.wait() for _ in range(20)]
    for i in range(20):
        bench.put(b"%d" % i)
        assert [w.answer for w in waiting] == [[b"%d" % j] for j in range(i + 1)] + [None] * (19 - i)


def test_a_wait_ends_at_its_moment_and_one_of_0_never() -> None:
    bench = Bench()
    short, long, ever = bench.wait(wait=1), bench.wait(wait=1_000), bench.wait(wait=0)
    bench.after(1)
    assert (short.answer, long.answer, ever.answer) == ([], None, None)
    bench.after(998)
    assert [long.answer] == [None]
    bench.after(1)
    assert long.answer == []
    bench.after(3650 * 86_400_000)
    assert ever.answer is None
    assert bench.stat("waiters") == 1


def test_what_becomes_ready_at_the_very_end_of_a_wait_still_reaches_it() -> None:
    bench = Bench(ack_timeout=50, retry_delay=0)
    bench.put(b"delayed", delay=100)
    first = bench.wait(wait=100)
    bench.after(100)
    assert first.answer == [b"delayed"]
    second = bench.wait(wait=50)
    bench.after(50)
    assert second.answer == [b"delayed"]


def test_one_whose_wait_has_ended_stands_at_the_back_when_it_waits_again() -> None:
    bench = Bench()
    first, second = bench.wait(wait=10), bench.wait()
    bench.after(10)
    again = bench.wait()
    bench.put(b"1")
    assert (first.answer, second.answer, again.answer) == ([], [b"1"], None)


def test_one_who_is_gone_takes_nothing() -> None:
    bench = Bench()
    gone = [bench.wait(wait=100) for _ in range(50)]
    stays = bench.wait()
    for one in gone:
        one.wait.cancel()
        one.wait.cancel()
    assert bench.stat("waiters") == 1
    assert len(bench.broker._hub.deadlines) == 0
    bench.put(b"m")
    assert stays.answer == [b"m"]
    assert [one.answer for one in gone] == [None] * 50
    assert bench.lease(1) == []


def test_those_who_leave_while_others_are_served() -> None:
    """Each answer lets another one go: nobody is served twice, left out, or served when gone."""
    bench = Bench()
    waiting = [bench.wait() for _ in range(50)]
    for i, one in enumerate(waiting[:-1]):
        if i % 2 == 0:
            done, neighbour = one._done, waiting[i + 1]

            def leave(answer: object, done: object = done, neighbour: Waiting = neighbour) -> None:
                assert callable(done)
                done(answer)
                neighbour.wait.cancel()

            one.wait.on_done = leave
    bench.broker.put_many(b"q", tuple(b"%d" % i for i in range(50)))
    bench.broker.serve()
    assert [w.answer for w in waiting] == [[b"%d" % (i // 2)] if i % 2 == 0 else None for i in range(50)]
    assert (bench.stat("ready"), bench.stat("waiters")) == (25, 0)


def test_waiting_on_several_queues_takes_from_the_first_that_has_something() -> None:
    bench = Bench()
    bench.declare(b"r")
    first, second = bench.wait(b"q", b"r", count=3), bench.wait(b"r", b"q", b"r")
    bench.broker.put(b"r", b"r1")
    bench.broker.put(b"q", b"q1")
    bench.broker.put(b"r", b"r2")
    bench.broker.serve()
    assert first.answer == [b"q1", b"r1", b"r2"]
    assert [second.answer] == [None]
    assert (bench.stat("waiters"), bench.stat("waiters", b"r")) == (1, 1)
    bench.put(b"q2")
    assert second.answer == [b"q2"]
    assert (bench.stat("waiters"), bench.stat("waiters", b"r")) == (0, 0)


def test_whichever_queue_becomes_ready_first_the_one_who_has_waited_longest_is_served_first() -> None:
    bench = Bench()
    bench.declare(b"r")
    only_q, both, only_r = bench.wait(b"q"), bench.wait(b"q", b"r"), bench.wait(b"r")
    bench.broker.put(b"r", b"r1")
    bench.broker.put(b"q", b"q1")
    bench.broker.serve()
    assert (only_q.answer, both.answer, only_r.answer) == ([b"q1"], [b"r1"], None)


def test_who_comes_to_the_head_of_one_queue_waits_for_those_who_stand_longer_at_another() -> None:
    bench = Bench()
    bench.declare(b"r")
    first, second, third = bench.wait(b"r", b"q"), bench.wait(b"q"), bench.wait(b"q", b"r")
    bench.broker.put(b"q", b"q1")
    bench.broker.put_many(b"r", (b"r1", b"r2"))
    bench.broker.serve()
    # The third would take q1, too, and comes to the head of r's line before the second was served.
    assert (first.answer, second.answer, third.answer) == ([b"r1"], [b"q1"], [b"r2"])


def test_all_queues_come_to_a_moment_before_anybody_is_served() -> None:
    bench = Bench()
    bench.declare(b"r")
    bench.put(b"r1", name=b"r", delay=100)
    bench.put(b"q1", delay=100)
    both, only_q = bench.wait(b"q", b"r", count=2), bench.wait(b"q")
    bench.after(100)
    assert (both.answer, only_q.answer) == ([b"q1", b"r1"], None)


def test_a_deleted_queue_ends_the_wait_even_if_it_is_for_others_too() -> None:
    bench = Bench()
    bench.declare(b"r")
    one, both, other = bench.wait(b"q"), bench.wait(b"r", b"q"), bench.wait(b"r")
    bench.broker.delete(b"q")
    assert (one.answer, both.answer, other.answer) == ("NOQUEUE", "NOQUEUE", None)
    assert bench.stat("waiters", b"r") == 1
    bench.put(b"m", name=b"r")
    assert other.answer == [b"m"]


def test_a_wait_that_was_answered_or_cancelled_stays_so() -> None:
    bench = Bench()
    one = bench.wait(wait=100)
    bench.put(b"m")
    one.wait.cancel()
    one.wait.resolve([])
    bench.after(200)
    assert one.answer == [b"m"]
    assert bench.broker.ack(b"q", tuple(one.tokens)) == 1


def test_waits_that_come_and_go_leave_nothing_behind() -> None:
    bench = Bench()
    deadlines = bench.broker._hub.deadlines
    assert isinstance(deadlines, Deadlines)
    for i in range(5_000):
        one = bench.wait(wait=1_000_000, request=(b"u", b"%d" % i))
        one.wait.cancel()
    assert len(deadlines) == 0
    assert len(deadlines._heap) < 200
    assert not bench.broker.find(b"q").requests


# -- REQID

KEY = (b"user", b"key")


def held(
    bench: Bench, *names: bytes, wait: int | None = None, count: int = 1, key: tuple[bytes, bytes] = KEY
) -> list[bytes]:
    """The tokens that a QLEASE under a key answers with."""
    found = bench.broker.lease(names or (b"q",), count, wait, request=key)
    assert not isinstance(found, LeaseWait)
    return [m.lease or b"" for m in found if isinstance(m, Message)]


def test_the_same_key_gives_the_same_leases_while_they_live() -> None:
    bench = Bench()
    bench.put(b"1", b"2", b"3", b"4", b"5")
    first = held(bench, count=3)
    assert len(first) == 3
    assert held(bench, count=3) == held(bench, wait=0, count=1) == first
    assert held(bench, key=(b"other", b"key")) != first[:1]
    bench.broker.ack(b"q", (first[1],))
    assert held(bench) == [first[0], first[2]]
    bench.broker.nack(b"q", first[0])
    bench.broker.remove(b"q", (b"3",))
    assert bench.broker.find(b"q").requests.keys() == {(b"other", b"key")}
    fresh = held(bench)
    assert len(fresh) == 1
    assert fresh[0] not in first


def test_the_key_ends_when_the_leases_expire() -> None:
    bench = Bench(ack_timeout=100, retry_delay=0)
    bench.put(b"m")
    first = held(bench)
    bench.after(99)
    assert held(bench) == first
    bench.after(1)
    second = held(bench)
    assert len(second) == 1
    assert second != first
    assert bench.broker.ack(b"q", tuple(second)) == 1
    assert not bench.broker.find(b"q").requests


def test_the_key_lasts_as_long_as_a_renewed_lease() -> None:
    bench = Bench(ack_timeout=100)
    bench.put(b"m")
    first = held(bench)
    bench.after(60)
    bench.broker.touch(b"q", tuple(first), 1_000)
    bench.after(900)
    assert held(bench) == first


def test_a_request_that_took_nothing_is_forgotten() -> None:
    bench = Bench()
    assert held(bench) == []
    assert not bench.broker.find(b"q").requests


def test_the_re_sent_one_takes_over_the_place_of_the_first() -> None:
    bench = Bench()
    first, behind = bench.wait(request=KEY), bench.wait()
    again = bench.wait(request=KEY)
    assert first.answer == []
    assert bench.stat("waiters") == 2
    first.wait.cancel()
    bench.put(b"m")
    assert (again.answer, behind.answer) == ([b"m"], None)
    assert held(bench) == again.tokens


def test_the_re_sent_one_s_wait_counts() -> None:
    bench = Bench()
    bench.wait(request=KEY, wait=50)
    bench.after(40)
    again = bench.wait(request=KEY, wait=50)
    bench.after(49)
    assert [again.answer] == [None]
    bench.after(1)
    assert again.answer == []
    assert not bench.broker.find(b"q").requests


def test_a_re_sent_one_that_does_not_wait_ends_the_wait() -> None:
    bench = Bench()
    first = bench.wait(request=KEY)
    assert held(bench) == []
    assert first.answer == []
    assert bench.stat("waiters") == 0
    assert not bench.broker.find(b"q").requests


@pytest.mark.parametrize("deleted", [b"q", b"r"])
def test_a_deleted_queue_takes_its_leases_out_of_the_request(deleted: bytes) -> None:
    bench = Bench()
    bench.declare(b"r")
    bench.put(b"q1")
    bench.put(b"r1", name=b"r")
    first = held(bench, b"q", b"r", count=2)
    bench.broker.delete(deleted)
    bench.declare(deleted)
    if deleted == b"r":
        assert held(bench, b"q", b"r", count=2) == first[:1]
        assert bench.broker.ack(b"q", (first[0],)) == 1
    assert not bench.broker.find(b"q").requests
    assert held(bench, b"q", b"r", count=2) == []


def test_the_key_belongs_to_the_first_queue_named() -> None:
    bench = Bench()
    bench.declare(b"r")
    bench.put(b"q1", b"q2")
    bench.put(b"r1", name=b"r")
    first = held(bench, b"q", b"r")
    assert held(bench, b"r") != first
    assert held(bench, b"q") == first
