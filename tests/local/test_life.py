"""How a broker begins and ends."""

from __future__ import annotations

import pytest
from trio.testing import MockClock

from respmq import (
    Broker,
    BrokerUnavailableError,
    QueueNotFoundError,
)


async def test_a_broker_is_open_inside_async_with_and_only_there(autojump_clock: MockClock) -> None:
    broker = Broker()
    states = [broker.connected]
    with pytest.raises(BrokerUnavailableError, match="use it in `async with Broker"):
        broker.list_queues()
    async with broker:
        states.append(broker.connected)
        broker.declare_queue("jobs")
        broker.close()
        broker.close()
        with pytest.raises(BrokerUnavailableError, match="the broker is closed") as error:
            broker.put("jobs", "x")
        assert error.value.code == "UNAVAILABLE"
        states.append(broker.connected)
    assert states == [False, True, False]
    with pytest.raises(BrokerUnavailableError, match="can be opened only once"):
        await broker.__aenter__()


async def test_an_error_in_the_body_comes_out_as_it_is(autojump_clock: MockClock) -> None:
    with pytest.raises(QueueNotFoundError):
        async with Broker() as broker:
            broker.put("none", "x")


async def test_a_closed_broker_calls_nobody(autojump_clock: MockClock) -> None:
    called: list[str] = []
    async with Broker() as broker:
        broker.subscribe("#", lambda sub, event: broker.close())
        broker.subscribe("#", lambda sub, event: called.append(sub))
        broker.publish("t", "x")
    assert called == []
