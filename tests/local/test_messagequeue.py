"""Queues for scripts."""

from __future__ import annotations

import uuid
from datetime import datetime, timedelta
from pathlib import Path

import pytest

from respmq import (
    Broker,
    InvalidNameError,
    InvalidRequestError,
    Message,
    MessageQueue,
    PriorityMessageQueue,
    create_message,
    load_queues,
    save_queues,
)


def take(queue: MessageQueue | PriorityMessageQueue) -> Message:
    """The next message, of which there must be one."""
    message = queue.get()
    assert message is not None
    return message


def test_first_in_first_out() -> None:
    queue = MessageQueue("orders")
    for bread in ("sourdough", "rye", "baguette"):
        queue.put(bread)
    assert (queue.name, queue.size, queue.max_retries) == ("orders", 3, 3)
    message = take(queue)
    assert message.body == "sourdough"
    assert queue.size == 2
    assert queue.acknowledge(message)
    assert not queue.acknowledge(message)
    assert not queue.reject(message)
    assert [take(queue).body for _ in range(2)] == ["rye", "baguette"]
    assert queue.get() is None
    assert queue.size == 0


def test_urgent_messages_first() -> None:
    queue = PriorityMessageQueue("emergencies")
    queue.put("routine checkup", priority=10)
    queue.put("FIRE ALARM!", priority=1)
    queue.put("lunch order", 5)
    queue.put("second fire", priority=1)
    queue.put("no hurry at all", priority=-1)
    bodies = [take(queue).body for _ in range(5)]
    assert bodies == ["no hurry at all", "FIRE ALARM!", "second fire", "lunch order", "routine checkup"]


@pytest.mark.parametrize("kind", [MessageQueue, PriorityMessageQueue])
def test_with_two_retries_the_third_reject_is_a_dead_letter(
    kind: type[MessageQueue | PriorityMessageQueue],
) -> None:
    queue = kind("deliveries", max_retries=2)
    first = queue.put("fragile package")
    for retries in range(3):
        assert queue.dead_letter_count == 0
        message = take(queue)
        assert (message.id, message.retries) == (first.id, retries)
        assert queue.reject(message)
    assert (queue.size, queue.dead_letter_count) == (0, 1)
    failed = queue.get_dead_letter()
    assert failed is not None
    assert (failed.body, failed.retries) == ("fragile package", 3)
    assert queue.dead_letter_count == 0
    assert queue.get_dead_letter() is None


def test_a_rejected_message_goes_to_the_end() -> None:
    queue = MessageQueue("orders", max_retries=1)
    queue.put("a")
    queue.put("b")
    queue.reject(take(queue))
    assert [take(queue).body for _ in range(2)] == ["b", "a"]


def test_without_retries_the_first_reject_is_a_dead_letter() -> None:
    queue = MessageQueue("orders", max_retries=0)
    queue.put("a")
    queue.reject(take(queue))
    assert queue.dead_letter_count == 1


def test_messages() -> None:
    made = create_message({"a": [1]}, priority=3)
    assert (made.body, made.priority, made.retries) == ({"a": [1]}, 3, 0)
    assert isinstance(made.id, uuid.UUID)
    moment = datetime.fromisoformat(made.timestamp)
    assert moment.utcoffset() == timedelta(0)
    assert create_message("x").id != made.id
    queue = PriorityMessageQueue("q")
    put = queue.put({"a": [1]}, priority=3)
    got = take(queue)
    assert got == put
    assert hash(got) == hash(put)
    got.body["a"].append(2)
    queue.reject(got)
    assert take(queue).body == {"a": [1]}


def test_what_can_not_be() -> None:
    with pytest.raises(InvalidNameError):
        MessageQueue("no blanks")
    with pytest.raises(InvalidRequestError, match="invalid max_retries -1"):
        MessageQueue("q", max_retries=-1)
    with pytest.raises(InvalidRequestError, match="invalid priority"):
        PriorityMessageQueue("q").put("x", priority=1 << 63)
    queue = MessageQueue("q")
    with pytest.raises(InvalidRequestError, match="can't be encoded"):
        queue.put(float("inf"))
    assert queue.size == 0


def test_queues_survive_in_a_file_and_what_was_taken_is_back_at_the_front(tmp_path: Path) -> None:
    orders, emergencies = MessageQueue("orders", max_retries=2), PriorityMessageQueue("emergencies")
    for body in ("a", b"\xff", {"c": 3}):
        orders.put(body)
    for body in ("late", "soon", "now", "now too"):
        emergencies.put(body, priority={"late": 9, "soon": 5}.get(body, 1))
    dead = MessageQueue("dead", max_retries=0)
    dead.put("gone")
    dead.reject(take(dead))
    taken = [take(orders), take(orders)]
    take(emergencies)
    take(emergencies)
    path = tmp_path / "queues.jsonl"
    path.write_text("what was there before")
    save_queues([orders, emergencies, dead], path)
    assert [file.name for file in tmp_path.iterdir()] == ["queues.jsonl"]
    # The queues themselves go on as they were.
    assert orders.acknowledge(taken[0])

    loaded = load_queues(path)
    assert list(loaded) == ["dead", "emergencies", "orders"] or list(loaded) == ["orders", "emergencies", "dead"]
    assert isinstance(loaded["orders"], MessageQueue)
    assert isinstance(loaded["emergencies"], PriorityMessageQueue)
    again = [take(loaded["orders"]) for _ in range(3)]
    assert [one.body for one in again] == ["a", b"\xff", {"c": 3}]
    assert again[0] == taken[0]
    assert [take(loaded["emergencies"]).body for _ in range(4)] == ["now", "now too", "soon", "late"]
    assert loaded["orders"].max_retries == 2
    letter = loaded["dead"].get_dead_letter()
    assert letter is not None
    assert (letter.body, letter.retries) == ("gone", 1)
    # Leases of before are none now, and retries are counted on.
    assert loaded["orders"].reject(again[0])
    assert take(loaded["orders"]).retries == 1


def test_what_a_file_can_not_hold(tmp_path: Path) -> None:
    path = tmp_path / "queues.jsonl"
    with pytest.raises(InvalidRequestError, match="two queues have the name 'q'"):
        save_queues([MessageQueue("q"), PriorityMessageQueue("q")], path)
    assert list(tmp_path.iterdir()) == []
    with pytest.raises(FileNotFoundError):
        load_queues(path)
    with pytest.raises(FileNotFoundError):
        save_queues([MessageQueue("q")], tmp_path / "nowhere" / "queues.jsonl")


def test_a_file_with_other_ids_is_refused(tmp_path: Path) -> None:
    queue = MessageQueue("q")
    message = queue.put("x")
    path = tmp_path / "queues.jsonl"
    save_queues([queue], path)
    path.write_text(path.read_text().replace(message.id.hex, "mine"))
    with pytest.raises(InvalidRequestError, match="the id 'mine' of a message of queue 'q' is no UUID"):
        load_queues(path)


async def test_a_broker_s_file_is_not_one_of_queues_for_scripts(tmp_path: Path) -> None:
    path = tmp_path / "broker.jsonl"
    async with Broker() as broker:
        broker.declare_queue("jobs")
        broker.save(path)
    with pytest.raises(InvalidRequestError, match=r"queue 'jobs' was not written by save_queues, but by Broker.save"):
        load_queues(path)
