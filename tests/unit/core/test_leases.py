"""The leases of one queue: those of the ordinary length, those of their own, and the order in which they end."""

from __future__ import annotations

import time

from respmq.core.leases import Leases
from respmq.core.model import LEASED, Message
from tests.unit.core.bench import message


def grant(leases: Leases, token: bytes, deadline: int, *, odd: bool = False) -> Message:
    one = message(token)
    one.state = LEASED
    one.lease = token
    one.deadline = deadline
    if odd:
        leases.add_odd(one)
    else:
        leases.standard[token] = one
    return one


def tokens(leases: Leases) -> list[bytes | None]:
    return [one.lease for one in leases]


def test_they_end_in_order_whichever_their_length() -> None:
    leases = Leases()
    for token, deadline, odd in (
        (b"a", 10, False),
        (b"b", 20, False),
        (b"c", 5, True),
        (b"d", 15, True),
        (b"e", 20, True),
    ):
        grant(leases, token, deadline, odd=odd)
    assert tokens(leases) == [b"c", b"a", b"d", b"b", b"e"]
    assert leases.next_expiry() == 5
    assert len(leases) == 5
    assert [token for token, _ in leases.expired(15, 100)] == [b"c", b"a", b"d"]
    assert leases.next_expiry() == 20
    assert [token for token, _ in leases.expired(20, 100)] == [b"b", b"e"]
    assert leases.next_expiry() is None
    assert len(leases) == 0


def test_no_more_end_than_were_asked_for() -> None:
    leases = Leases()
    for i in range(10):
        grant(leases, b"%d" % i, 5)
        grant(leases, b"odd %d" % i, 5, odd=True)
    ended = [len(leases.expired(5, 3)) for _ in range(8)]
    assert ended == [3, 3, 3, 3, 3, 3, 2, 0]
    assert leases.expired(5, 0) == []


def test_one_that_was_renewed_ends_later_and_one_that_was_cut_short_earlier() -> None:
    leases = Leases()
    for token in (b"a", b"b", b"c"):
        grant(leases, token, 10)
    assert leases.renew(b"a", 30, standard=True)
    assert leases.renew(b"b", 5, standard=False)
    assert tokens(leases) == [b"b", b"c", b"a"]
    assert leases.renew(b"b", 30, standard=True)
    assert tokens(leases) == [b"c", b"a", b"b"]
    assert not leases.renew(b"unknown", 50, standard=True)


def test_one_whose_end_was_moved_and_moved_back_is_there_once() -> None:
    leases = Leases()
    one = grant(leases, b"a", 10, odd=True)
    for deadline in (20, 10, 20, 10):
        assert leases.renew(b"a", deadline, standard=False)
    assert list(leases) == [one]
    assert leases.expired(10, 100) == [(b"a", one)]
    assert leases.expired(30, 100) == []


def test_one_that_was_taken_back_and_granted_again_is_there_once() -> None:
    leases = Leases()
    one = grant(leases, b"a", 10, odd=True)
    assert leases.pop(b"a") is one
    one.lease = b"b"
    leases.add_odd(one)
    assert list(leases) == [one]
    assert leases.pop_odd(b"a") is None
    assert leases.pop_odd(b"b") is one
    assert list(leases) == []


def test_those_of_their_own_length_do_not_pile_up() -> None:
    leases = Leases()
    for i in range(10_000):
        grant(leases, b"%d" % i, i, odd=True)
        leases.pop(b"%d" % i)
    assert len(leases) == 0
    assert len(leases._odd_ends) <= 2 * 65


def test_a_holder_is_told_once() -> None:
    class Holder:
        def __init__(self) -> None:
            self.told: list[bytes] = []

        def ended(self, token: bytes) -> None:
            self.told.append(token)

        def keeps(self, token: bytes) -> bool:
            return token in self.told

    leases = Leases()
    holder = Holder()
    leases.holders[b"a"] = holder
    for token in (b"a", b"a", b"b"):
        leases.end_hold(token)
    assert holder.told == [b"a"]
    assert not leases.holders


def test_the_first_to_end_is_not_looked_for_among_all_that_are_gone() -> None:
    """A queue whose leases are settled in order would look longer and longer for the one that stands first."""

    def cost(many: int) -> float:
        leases = Leases()
        for i in range(many):
            grant(leases, b"%d" % i, 1_000 + i)
        for i in range(many - 10):
            leases.pop(b"%d" % i)
        began = time.process_time()
        for now in range(500):
            assert leases.expired(now, 100) == []
            assert leases.next_expiry() == 1_000 + many - 10
        return time.process_time() - began

    cost(1_000)
    assert min(cost(200_000) for _ in range(3)) < 10 * max(min(cost(2_000) for _ in range(3)), 0.0005)


def test_the_first_to_end_is_known_again_when_it_has_ended_or_gone() -> None:
    leases = Leases()
    for token, deadline in ((b"a", 10), (b"b", 20), (b"c", 30)):
        grant(leases, token, deadline)
    assert leases.next_expiry() == 10
    leases.pop(b"a")
    # A moment before which none ends: it is looked for anew when that has come.
    assert leases.next_expiry() in {10, 20}
    assert leases.expired(10, 100) == []
    assert leases.next_expiry() == 20
    assert [token for token, _ in leases.expired(25, 100)] == [b"b"]
    assert leases.next_expiry() == 30
    leases.pop(b"c")
    assert leases.next_expiry() is None
    grant(leases, b"d", 40)
    assert (leases.next_expiry() or 0) <= 40
    assert leases.expired(39, 100) == []
    assert leases.next_expiry() == 40
    assert [token for token, _ in leases.expired(40, 100)] == [b"d"]
