"""The line of ready messages: priorities, places that are kept, and what is taken out of the middle."""

from __future__ import annotations

import random
import tracemalloc

import pytest

import respmq.core.line
from respmq.core.line import Line
from respmq.core.model import GONE, Message
from tests.unit.core.bench import message


def fill(line: Line, *ids: bytes, priority: int = 0) -> list[Message]:
    messages = [message(id, priority) for id in ids]
    for one in messages:
        line.append(one)
    return messages


def ids(line: Line) -> list[bytes]:
    """What stands in the line, looked at and then taken: both must agree."""
    seen = [m.id for m in line]
    taken = [m.id for m in iter(line.pop, None)]
    assert seen == taken
    return taken


def drop(line: Line, one: Message) -> None:
    one.state = GONE
    line.discard(one.priority)


def test_first_in_first_out_within_a_priority_and_the_lower_number_first() -> None:
    line = Line()
    for priority in (5, -(2**63), 0, 2**63 - 1, 2**53 + 1, 2**53, -1):
        fill(line, b"%d a" % priority, b"%d b" % priority, priority=priority)
    numbers = sorted((5, -(2**63), 0, 2**63 - 1, 2**53 + 1, 2**53, -1))
    assert ids(line) == [b"%d %b" % (number, x) for number in numbers for x in (b"a", b"b")]


def test_what_comes_back_stands_where_it_stood() -> None:
    line = Line()
    fill(line, b"1", b"2", b"3", b"4")
    first, second, third = (line.pop() for _ in range(3))
    fill(line, b"5")
    assert first is not None
    assert second is not None
    assert third is not None
    for one in (second, third, first):
        line.give_back(one)
    assert ids(line) == [b"1", b"2", b"3", b"4", b"5"]


def test_what_comes_back_to_an_empty_priority_stands_before_later_ones() -> None:
    line = Line()
    fill(line, b"urgent", priority=-1)
    fill(line, b"other")
    urgent = line.pop()
    other = line.pop()
    assert other is not None
    assert urgent is not None
    line.give_back(other)
    fill(line, b"new")
    line.give_back(urgent)
    fill(line, b"late", priority=-1)
    assert ids(line) == [b"urgent", b"late", b"other", b"new"]


def test_places_go_on_after_the_line_was_cleared() -> None:
    line = Line()
    fill(line, b"old", b"waits")
    old = line.pop()
    line.clear()
    assert line.pop() is None
    fill(line, b"new")
    new = line.pop()
    assert old is not None
    assert new is not None
    line.give_back(new)
    line.give_back(old)
    assert ids(line) == [b"old", b"new"]


def test_what_was_taken_out_is_passed_over() -> None:
    line = Line()
    messages = fill(line, *(b"%d" % i for i in range(10)))
    for place in (0, 4, 5, 9):
        drop(line, messages[place])
    assert ids(line) == [b"1", b"2", b"3", b"6", b"7", b"8"]


def test_what_was_taken_out_does_not_pile_up() -> None:
    line = Line()
    keep = fill(line, b"keep")
    for i in range(20_000):
        (one,) = fill(line, b"%d" % i)
        drop(line, one)
        assert sum(map(len, line.containers())) <= 2 * 64 + 3
    assert list(line) == keep


def test_what_came_back_and_was_taken_out_does_not_pile_up() -> None:
    line = Line()
    fill(line, b"first")
    first = line.pop()
    assert first is not None
    for i in range(20_000):
        (one,) = fill(line, b"%d" % i)
        assert line.pop() is one
        line.give_back(one)
        drop(line, one)
        assert sum(map(len, line.containers())) <= 2 * 64 + 3
    line.give_back(first)
    assert ids(line) == [b"first"]


def test_priorities_that_come_and_go_leave_nothing_behind() -> None:
    line = Line()
    fill(line, b"last", priority=2**63 - 1)
    for priority in range(5000):
        fill(line, b"x", priority=priority)
        assert line.pop() is not None
    assert len(line._levels) <= 2
    assert len(line._priorities) == len(line._levels)
    assert ids(line) == [b"last"]


def test_the_one_that_has_been_ready_for_the_longest() -> None:
    line = Line()
    assert line.oldest() is None
    for since, priority in ((30, 0), (10, 5), (20, -5)):
        (one,) = fill(line, b"%d" % since, priority=priority)
        one.since = since
    oldest = line.oldest()
    assert oldest is not None
    assert oldest.id == b"10"
    drop(line, oldest)
    urgent = line.pop()
    assert urgent is not None
    urgent.since = 40
    line.give_back(urgent)
    oldest = line.oldest()
    assert oldest is not None
    assert oldest.id == b"30"


def test_as_many_priorities_as_messages_cost_little() -> None:
    """A moment as the priority is a usual thing to do."""
    many = 20_000
    line = Line()
    messages = [message(b"", i) for i in range(many)]
    tracemalloc.start()
    try:
        for one in messages:
            line.append(one)
        held, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert held / many < 350
    assert [m.priority for m in iter(line.pop, None)] == list(range(many))


def test_priorities_whose_messages_were_taken_out_are_forgotten_in_between() -> None:
    line = Line()
    fill(line, b"last", priority=2**63 - 1)
    for priority in range(5_000):
        (one,) = fill(line, b"x", priority=priority)
        drop(line, one)
        assert len(line._levels) <= 3
    assert ids(line) == [b"last"]


@pytest.mark.parametrize("sweep_from", [0, 3, 64])
def test_random_comings_and_goings(sweep_from: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Against a list that is sorted each time, with sweeps in progress at any moment."""
    monkeypatch.setattr(respmq.core.line, "_SWEEP_FROM", sweep_from)
    monkeypatch.setattr(respmq.core.line, "_SWEEP_AT_ONCE", 1 if sweep_from else 8)
    chance = random.Random(sweep_from)
    line = Line()
    there: list[tuple[int, int, Message]] = []
    taken: list[tuple[int, int, Message]] = []
    for number in range(20_000):
        match chance.choice(["append", "append", "pop", "give back", "drop", "drop", "look"]):
            case "append":
                one = message(b"%d" % number, chance.choice([0, 0, 0, 1, number % 50]))
                line.append(one)
                there.append((one.priority, number, one))
            case "pop":
                first = min(there, default=None)
                assert line.pop() is (first and first[2])
                if first is not None:
                    there.remove(first)
                    taken.append(first)
            case "give back" if taken:
                entry = taken.pop(chance.randrange(len(taken)))
                line.give_back(entry[2])
                there.append(entry)
            case "drop" if there:
                entry = there.pop(chance.randrange(len(there)))
                drop(line, entry[2])
            case _:
                if number % 50 == 0:
                    assert list(line) == [one for _, _, one in sorted(there)]
    assert list(line) == [one for _, _, one in sorted(there)]
