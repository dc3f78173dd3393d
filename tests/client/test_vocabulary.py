"""What a client can do, against a real server: each method once in earnest, and its errors."""

from __future__ import annotations

import math
from typing import Any

import pytest
import trio

from respmq import (
    AsyncBroker,
    BrokerStats,
    Client,
    DeadLetter,
    EmbeddedServer,
    ExchangeNotFoundError,
    InvalidNameError,
    InvalidRequestError,
    InvalidTopicError,
    OtherError,
    PublishResult,
    PutResult,
    QueueConfig,
    QueueConfigConflictError,
    QueuedMessage,
    QueueFullError,
    QueueNotFoundError,
    TooBigError,
    UnblockedError,
    open_server,
)
from respmq.calls.call import Call
from respmq.calls.decode import nothing
from tests.support.control import Control, eventually


async def test_it_has_all_that_workers_need(mq: Client) -> None:
    needed: AsyncBroker = mq
    assert needed.connected


async def test_queues(mq: Client) -> None:
    config = QueueConfig(ack_timeout=60, max_attempts=2, retry_jitter=0.25, overflow="DROPHEAD", ttl=0.5, dedupe=0)
    await mq.declare_queue("jobs", config)
    await mq.declare_queue("jobs", config)
    await mq.declare_queue("audit")
    assert await mq.queue_config("jobs") == config
    assert await mq.queue_config("audit") == QueueConfig()
    with pytest.raises(QueueConfigConflictError) as caught:
        await mq.declare_queue("jobs")
    assert caught.value.code == "CONFLICT"
    assert await mq.list_queues() == ["audit", "jobs"]
    assert await mq.qlist(match="a*") == ["audit"]
    await mq.put("audit", "x")
    assert await mq.purge_queue("audit") == 1
    await mq.delete_queue("audit")
    assert await mq.list_queues() == ["jobs"]
    assert await mq.broker_stats() == BrokerStats(queues=1, subscriptions=0, bindings=0, binding_drops=0)


async def test_every_method_on_a_queue_raises_for_an_unknown_one(mq: Client) -> None:
    async def consume() -> None:
        async with mq.consume("nowhere"):
            pass

    for call in (
        mq.queue_config("nowhere"),
        mq.delete_queue("nowhere"),
        mq.purge_queue("nowhere"),
        mq.stats("nowhere"),
        mq.put("nowhere", "x"),
        mq.lease("nowhere"),
        mq.lease("nowhere", wait=1),
        mq.ack("nowhere", "t"),
        mq.nack("nowhere", "t"),
        mq.touch("nowhere", "t"),
        mq.bind("#", "nowhere"),
        mq.unbind("#", "nowhere"),
        mq.dead_letters("nowhere"),
        mq.replay_dead("nowhere"),
        mq.purge_dead("nowhere"),
        consume(),
    ):
        with pytest.raises(QueueNotFoundError, match="no such queue 'nowhere'") as caught:
            await call
        assert caught.value.code == "NOQUEUE"


@pytest.mark.parametrize(
    "body", ["text", "", b"\x00\xff", b"bytes", {"n": [1, 2.5, None, True]}, [], 7, None, "\N{EURO SIGN}", "[1]"]
)
async def test_a_body_comes_out_as_it_was_put(body: Any, mq: Client) -> None:
    await mq.declare_queue("jobs")
    await mq.put("jobs", body)
    [delivery] = await mq.lease("jobs")
    assert delivery.body == body
    assert type(delivery.body) is type(body)


async def test_all_that_can_be_put_with_a_message(mq: Client) -> None:
    await mq.declare_queue("jobs")
    assert await mq.put("jobs", "late", priority=5) == PutResult((await mq.qpeek("jobs"))[0].id, duplicate=False)
    result = await mq.put(
        "jobs", "x", id="a", priority=-1, headers={"by": "ann"}, attachments=[b"\x00", b""], delay=0.01, ttl=60
    )
    assert result == PutResult("a", duplicate=False)
    assert await mq.put("jobs", "y", id="a") == PutResult("a", duplicate=True)
    [delivery] = await mq.lease("jobs", wait=5)
    if delivery.id != "a":
        [delivery] = await mq.lease("jobs", wait=5)
    assert (delivery.id, delivery.priority, delivery.headers) == ("a", -1, {"by": "ann"})
    assert delivery.attachments == (b"\x00", b"")
    assert delivery.deadline > delivery.enqueued_at


async def test_settling(mq: Client) -> None:
    await mq.declare_queue("jobs", QueueConfig(retry_delay=0))
    await mq.qmput("jobs", "a", "b", "c", "d")
    a, b, c, d = await mq.lease("jobs", count=4)
    assert await a.touch(60)
    assert await a.ack()
    assert not await a.ack()
    assert not await a.touch()
    assert await b.nack(error="later")
    assert await c.nack(requeue=False, error="bad file")
    assert await d.nack(release=True)
    assert not await d.nack()
    [letter] = await mq.dead_letters("jobs")
    assert isinstance(letter, DeadLetter)
    assert (letter.body, letter.reason, letter.error) == ("c", "rejected", "bad file")
    assert await mq.dead_letters("jobs", limit=0) == []
    d, b = await mq.lease("jobs", count=4)
    assert (b.body, b.attempt, d.body, d.attempt) == ("b", 2, "d", 1)
    with pytest.raises(InvalidRequestError, match="takes neither delay nor release"):
        await mq.nack("jobs", b.lease, requeue=False, delay=1)


async def test_a_delivery_as_a_context(mq: Client) -> None:
    await mq.declare_queue("jobs", QueueConfig(max_attempts=1))
    await mq.qmput("jobs", "good", "bad", "by hand")
    good, bad, by_hand = await mq.lease("jobs", count=3)
    async with good:
        pass
    with pytest.raises(ValueError, match="no such file"):
        async with bad:
            raise ValueError("no such file")
    async with by_hand:
        await by_hand.nack(requeue=False, error="no")
    stats = await mq.stats("jobs")
    assert (stats.acked, stats.dead, stats.in_flight) == (1, 2, 0)
    assert [letter.error for letter in await mq.dead_letters("jobs")] == ["ValueError: no such file", "no"]


async def test_dead_letters(mq: Client) -> None:
    await mq.declare_queue("jobs")
    for id in ("a", "b", "c"):
        await mq.put("jobs", id, id=id)
        [delivery] = await mq.lease("jobs")
        await delivery.nack(requeue=False)
    assert await mq.replay_dead("jobs", []) == await mq.purge_dead("jobs", ()) == 0
    with pytest.raises(InvalidRequestError, match="ids are wanted, not the one text 'ab'"):
        await mq.replay_dead("jobs", "ab")
    assert await mq.replay_dead("jobs", ["b", "x"]) == 1
    assert await mq.purge_dead("jobs", ["a"]) == 1
    assert await mq.replay_dead("jobs") == 1
    assert (await mq.stats("jobs")).ready == 2
    assert await mq.purge_dead("jobs") == 0


async def test_topics_and_exchanges(mq: Client) -> None:
    await mq.declare_queue("audit")
    assert await mq.bind("job.#", "audit") is True
    assert await mq.bind("job.#", "audit") is False
    assert await mq.publish("job.a", {"n": 1}, headers={"by": "ann"}) == PublishResult(subscribers=0, queues=1)
    [copy] = await mq.lease("audit")
    assert copy.body == {"n": 1}
    assert (copy.headers["topic"], copy.headers["by"]) == ("job.a", "ann")
    assert await mq.qbindings() == [("job.#", "audit")]
    assert await mq.unbind("job.#", "audit") is True
    with pytest.raises(InvalidTopicError):
        await mq.publish("job.*", "x")

    await mq.declare_exchange("orders", "DIRECT")
    with pytest.raises(QueueConfigConflictError):
        await mq.declare_exchange("orders")
    assert await mq.bind_exchange("orders", "audit", "paid") is True
    assert await mq.exchange_bindings("orders") == [("audit", "paid")]
    assert await mq.exchange_list() == [("orders", "DIRECT")]
    assert await mq.publish_exchange("orders", "paid", b"\x00") == 1
    assert await mq.publish_exchange("orders", "lost", b"\x00") == 0
    assert await mq.unbind_exchange("orders", "audit", "paid") is True
    with pytest.raises(ExchangeNotFoundError):
        await mq.publish_exchange("nowhere", "", "x")


async def test_what_is_shown_without_leasing(mq: Client) -> None:
    await mq.declare_queue("jobs")
    await mq.put("jobs", "x", id="a")
    shown = await mq.qshow("jobs", "a")
    assert isinstance(shown, QueuedMessage)
    assert (shown.state, shown.lease, shown.attempt, shown.body) == ("ready", None, 0, "x")
    await mq.lease("jobs")
    [leased] = await mq.qpeek("jobs", state="LEASED")
    assert (leased.state, leased.attempt) == ("leased", 1)
    assert await mq.qdel("jobs", "a", "b") == 1
    assert await mq.qshow("jobs", "a") is None


async def test_errors_are_of_the_classes_that_the_broker_raises(mq: Client, control: Control) -> None:
    await mq.declare_queue("small", QueueConfig(max_len=1))
    await mq.put("small", "x")
    with pytest.raises(QueueFullError):
        await mq.put("small", "x")
    with pytest.raises(InvalidNameError):
        await mq.declare_queue("a..b")
    await control.cmd("CONFIG", "SET", "max-message-size", "1024")
    with pytest.raises(TooBigError):
        await mq.put("small", "x" * 2000)
    with pytest.raises(InvalidRequestError, match="invalid delay -1"):
        await mq.put("small", "x", delay=-1)
    with pytest.raises(InvalidRequestError, match="unknown command") as caught:
        await mq._run_call(Call((b"NONSENSE",), nothing, resend=False))
    assert caught.value.code == "ERR"
    assert mq.connected
    assert not issubclass(OtherError, InvalidRequestError)


async def test_calls_are_pipelined_over_one_connection(mq: Client, control: Control) -> None:
    await mq.declare_queue("jobs")
    order: list[int] = []

    async def put(number: int) -> None:
        await mq.put("jobs", number, id=str(number))
        order.append(number)

    async with trio.open_nursery() as nursery:
        for number in range(100):
            nursery.start_soon(put, number)
    assert sorted(order) == list(range(100))
    assert len(await control.clients()) == 1
    info = (await control.cmd("INFO", "stats")).decode()
    assert "total_connections_received:2" in info


async def test_a_lease_that_waits_holds_nobody_up(mq: Client, control: Control) -> None:
    await mq.declare_queue("jobs")
    found: list[object] = []

    async def wait(seconds: float) -> None:
        found.extend(await mq.lease("jobs", wait=seconds))

    async def three_wait() -> bool:
        return (await mq.stats("jobs")).waiters == 3

    with trio.fail_after(10):
        async with trio.open_nursery() as nursery:
            for seconds in (60, 60, math.inf):
                nursery.start_soon(wait, seconds)
            await eventually(three_wait, "three wait")
            await mq.qmput("jobs", "a", "b", "c")
    assert len(found) == 3
    assert len(await control.clients()) == 4
    # Its connections are used again.
    assert await mq.lease("jobs", wait=0.01) == []
    assert len(await control.clients()) == 4


async def test_a_wait_of_nothing_does_not_wait(mq: Client, control: Control) -> None:
    await mq.declare_queue("jobs")
    assert await mq.lease("jobs", wait=0) == []
    assert len(await control.clients()) == 1


async def test_a_wait_that_somebody_else_ends(mq: Client, control: Control) -> None:
    await mq.declare_queue("jobs")
    caught: list[type[Exception]] = []

    async def wait() -> None:
        try:
            await mq.lease("jobs", wait=60)
        except (UnblockedError, QueueNotFoundError) as error:
            caught.append(type(error))

    async def waits() -> bool:
        return await control.stat("jobs", "waiters") == 1

    async with trio.open_nursery() as nursery:
        nursery.start_soon(wait)
        await eventually(waits, "somebody waits")
        [blocked] = [client for client in await control.clients() if "b" in client["flags"]]
        await control.cmd("CLIENT", "UNBLOCK", blocked["id"], "ERROR")
    async with trio.open_nursery() as nursery:
        nursery.start_soon(wait)
        await eventually(waits, "somebody waits")
        await mq.delete_queue("jobs")
    assert caught == [UnblockedError, QueueNotFoundError]


async def test_a_virtual_clock() -> None:
    async with open_server({"virtual-clock": True}) as server, Client(server.url) as mq:
        await mq.declare_queue("jobs")
        await mq.put("jobs", "x", delay=3600)
        assert await mq.lease("jobs") == []
        await mq.debug_advance(3600)
        [delivery] = await mq.lease("jobs")
        assert delivery.body == "x"


async def test_a_client_that_is_not_open(broker: EmbeddedServer) -> None:
    mq = Client(broker.host, broker.port)
    assert not mq.connected
    with pytest.raises(InvalidRequestError, match="the client is not open"):
        await mq.stats("jobs")
    async with mq:
        await mq.declare_queue("jobs")
    assert not mq.connected
    for wait in (None, 1):
        with pytest.raises(InvalidRequestError, match="the client is not open"):
            await mq.lease("jobs", wait=wait)
    with pytest.raises(InvalidRequestError, match="is or was open already"):
        await mq.__aenter__()
