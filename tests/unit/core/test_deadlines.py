"""The structure of deadlines: order, cancelling, and that what was cancelled doesn't pile up."""

from __future__ import annotations

from respmq.core.deadlines import QUEUE_RANK, WAITER_RANK, Alarm, Deadlines


class Target:
    def __init__(self, name: str = "") -> None:
        self.name = name
        self.calls = 0

    def due(self) -> None:
        self.calls += 1


def names(deadlines: Deadlines, now: int) -> list[str]:
    """Who is due at `now`, in order."""
    found: list[str] = []
    while (target := deadlines.pop_due(now)) is not None:
        assert isinstance(target, Target)
        found.append(target.name)
    return found


def test_they_fall_due_in_the_order_of_time() -> None:
    deadlines = Deadlines()
    for when in (30, 10, 20, 40):
        deadlines.set(when, QUEUE_RANK, Target(str(when)))
    assert deadlines.next() == 10
    assert names(deadlines, 9) == []
    assert names(deadlines, 30) == ["10", "20", "30"]
    assert deadlines.next() == 40
    assert len(deadlines) == 1


def test_at_one_moment_queues_come_before_waiters_and_else_the_first_set() -> None:
    deadlines = Deadlines()
    for name, rank in (("w1", WAITER_RANK), ("q1", QUEUE_RANK), ("w2", WAITER_RANK), ("q2", QUEUE_RANK)):
        deadlines.set(5, rank, Target(name))
    assert deadlines.next() == 5
    assert deadlines.next_rank() == QUEUE_RANK
    assert names(deadlines, 5) == ["q1", "q2", "w1", "w2"]
    assert deadlines.next() is None


def test_what_was_cancelled_does_not_fall_due() -> None:
    deadlines = Deadlines()
    first, second = (deadlines.set(when, QUEUE_RANK, Target(str(when))) for when in (1, 2))
    deadlines.cancel(first)
    deadlines.cancel(first)
    assert len(deadlines) == 1
    assert deadlines.next() == 2
    assert names(deadlines, 9) == ["2"]
    deadlines.cancel(second)
    assert len(deadlines) == 0
    assert deadlines.next() is None


def test_those_of_one_rank_can_be_taken_alone() -> None:
    """In their order, and each only once."""
    deadlines = Deadlines()
    for name, when, rank in (("w3", 3, WAITER_RANK), ("q1", 1, QUEUE_RANK), ("w2", 2, WAITER_RANK), ("w1", 2, 1)):
        deadlines.set(when, rank, Target(name))
    deadlines.cancel(deadlines.set(1, WAITER_RANK, Target("cancelled")))
    taken = deadlines.take_due(WAITER_RANK, 2)
    assert [target.name for target in taken if isinstance(target, Target)] == ["w2", "w1"]
    assert deadlines.take_due(WAITER_RANK, 2) == []
    assert len(deadlines) == 2
    assert names(deadlines, 9) == ["q1", "w3"]


def test_cancelled_ones_do_not_pile_up() -> None:
    deadlines = Deadlines()
    kept = [deadlines.set(1_000_000 + i, QUEUE_RANK, Target(str(i))) for i in range(100)]
    for i in range(100_000):
        deadlines.cancel(deadlines.set(2_000_000 + i, WAITER_RANK, Target()))
        assert len(deadlines._heap) <= 2 * len(kept) + 130
    assert len(deadlines) == 100
    assert names(deadlines, 5_000_000) == [str(i) for i in range(100)]


def test_a_cancelled_target_is_let_go_at_once() -> None:
    deadlines = Deadlines()
    deadline = deadlines.set(5, QUEUE_RANK, Target())
    deadlines.cancel(deadline)
    assert deadline.target is None


def test_cancelling_while_others_fall_due_keeps_the_count() -> None:
    deadlines = Deadlines()
    entries = [deadlines.set(i, QUEUE_RANK, Target(str(i))) for i in range(400)]
    for entry in entries[::2]:
        deadlines.cancel(entry)
    assert names(deadlines, 199) == [str(i) for i in range(1, 200, 2)]
    for entry in entries:
        deadlines.cancel(entry)
    assert len(deadlines) == 0
    assert deadlines.pop_due(1000) is None


# -- Alarms


def test_an_alarm_rings_at_the_earliest_moment_it_was_armed_for() -> None:
    deadlines = Deadlines()
    target = Target("t")
    alarm = Alarm(deadlines, target)
    for when in (50, 30, 40, 30):
        alarm.arm(when)
    assert len(deadlines) == 1
    assert deadlines.next() == 30
    assert names(deadlines, 60) == ["t"]


def test_an_alarm_that_was_disarmed_is_silent_and_can_be_armed_anew() -> None:
    deadlines = Deadlines()
    alarm = Alarm(deadlines, Target("t"))
    alarm.disarm()
    alarm.arm(10)
    alarm.disarm()
    assert len(deadlines) == 0
    alarm.arm(20)
    assert deadlines.next() == 20


def test_an_alarm_that_is_armed_again_and_again_leaves_nothing_behind() -> None:
    deadlines = Deadlines()
    alarm = Alarm(deadlines, Target("t"))
    for when in range(100_000, 0, -1):
        alarm.arm(when)
    assert len(deadlines) == 1
    assert len(deadlines._heap) < 200
