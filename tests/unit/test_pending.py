"""An answer that comes later: one call to its owner, or none after it was cancelled."""

from __future__ import annotations

from respmq.errors import BrokerError
from respmq.pending import Pending


class Held(Pending[int]):
    """Notes in which order things happen."""

    def __init__(self) -> None:
        super().__init__()
        self.events: list[object] = []
        self.on_done = self.events.append

    def release(self) -> None:
        self.events.append("released")


def test_the_place_is_given_up_before_the_answer() -> None:
    held = Held()
    held.resolve(5)
    assert held.done
    assert held.events == ["released", 5]


def test_an_error_is_an_answer() -> None:
    held = Held()
    error = BrokerError("x")
    held.resolve(error)
    assert held.events == ["released", error]


def test_the_first_answer_counts() -> None:
    held = Held()
    held.resolve(1)
    held.resolve(2)
    held.cancel()
    assert held.events == ["released", 1]


def test_what_was_cancelled_is_silent() -> None:
    held = Held()
    held.cancel()
    held.cancel()
    held.resolve(1)
    assert held.done
    assert held.events == ["released"]


def test_without_an_owner_nothing_is_called() -> None:
    pending: Pending[int] = Pending()
    pending.resolve(1)
    assert pending.done


def test_an_owner_that_answers_again_in_its_call_is_not_called_twice() -> None:
    held = Held()
    calls: list[object] = []

    def again(answer: object) -> None:
        calls.append(answer)
        held.resolve(2)
        held.cancel()

    held.on_done = again
    held.resolve(1)
    assert calls == [1]
