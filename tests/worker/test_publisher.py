"""Publishers: by which key a message goes to its exchange."""

from __future__ import annotations

import pytest

from respmq import Broker, InvalidRequestError, InvalidTopicError, Publisher, QueueConfigConflictError


async def test_the_key_is_what_the_function_says_else_the_route_else_empty(broker: Broker) -> None:
    broker.declare_queue("all")
    broker.declare_exchange("logs")
    broker.bind_exchange("logs", "all", "#")
    assert await Publisher(broker, "logs")({"n": 1}) == 1
    assert await Publisher(broker, "logs", "fixed")({"n": 2}) == 1
    by_kind = Publisher(broker, "logs", route="fixed", route_func=lambda message: f"kind.{message!s}")
    assert await by_kind("a") == 1
    assert by_kind.route("b") == "kind.b"
    jobs = broker.lease("all", count=9)
    assert [(job.headers["routing-key"], job.body) for job in jobs] == [
        ("", {"n": 1}),
        ("fixed", {"n": 2}),
        ("kind.a", "a"),
    ]


async def test_an_exchange_that_is_not_there_is_declared(broker: Broker) -> None:
    assert await Publisher(broker.asynchronous(), "new")("x") == 0
    with pytest.raises(QueueConfigConflictError, match="it is TOPIC"):
        broker.declare_exchange("new", "FANOUT")


async def test_what_can_not_be_published(broker: Broker) -> None:
    with pytest.raises(InvalidRequestError, match="can't be encoded"):
        await Publisher(broker, "logs")(float("nan"))
    with pytest.raises(InvalidTopicError):
        await Publisher(broker, "logs", "no blanks")("x")
