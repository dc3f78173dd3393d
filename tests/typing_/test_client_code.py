# pyright: strict
"""A program that uses every name of the clients' side: it runs, and strict checkers know its types."""

from __future__ import annotations

import asyncio
import inspect
import math
import ssl
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Literal, assert_type

import pytest
import trio

import respmq.client
import respmq.redis
import respmq.testing
from respmq import (
    AsyncBroker,
    Broker,
    BrokerError,
    BrokerStats,
    Client,
    ConnectionEvent,
    Consumer,
    DeadLetter,
    Delivery,
    EmbeddedServer,
    Event,
    OtherError,
    PublishResult,
    PutResult,
    QueueConfig,
    QueuedMessage,
    QueueStats,
    Subscription,
    UnblockedError,
    open_server,
)
from respmq.calls.methods import Commands
from respmq.client.vocabulary import Vocabulary
from respmq.redis import AsyncJobs, AsyncRespMQ, Jobs, RespMQ
from respmq.testing import RunningServer, respmq_broker, respmq_server, run_server

Kind = Literal["FANOUT", "DIRECT", "TOPIC"]


async def test_a_client_has_types() -> None:
    async with open_server({"virtual-clock": True}) as server:
        assert_type(server, EmbeddedServer)
        assert_type((server.host, server.port, server.url), tuple[str, int, str])
        mq = Client(server.host, server.port, username=None, password=None, name="types", timeout=5)
        told: list[ConnectionEvent] = []
        mq.on_event(told.append)
        async with mq as same:
            assert_type(same, Client)
            assert_type(mq.connected, bool)
            side: AsyncBroker = mq
            assert side.connected
            await mq.declare_queue("jobs", QueueConfig(max_attempts=1))
            assert_type(await mq.queue_config("jobs"), QueueConfig)
            assert_type(await mq.list_queues(), list[str])
            assert_type(await mq.put("jobs", {"n": [1, None]}, id="a", headers={"h": "v"}), PutResult)
            [delivery] = assert_type(await mq.lease("jobs", count=1, wait=math.inf), list[Delivery])
            assert_type(delivery.body, Any)
            assert_type(await mq.touch("jobs", delivery.lease, 5), bool)
            assert_type(await mq.nack("jobs", delivery.lease, requeue=False, error="bad"), bool)
            assert_type(await mq.ack("jobs", delivery.lease), bool)
            assert_type(await mq.dead_letters("jobs"), list[DeadLetter])
            assert_type(await mq.replay_dead("jobs", ["b"]), int)
            assert_type(await mq.purge_dead("jobs"), int)
            assert_type(await mq.purge_queue("jobs"), int)
            assert_type(await mq.stats("jobs"), QueueStats)
            assert_type(await mq.broker_stats(), BrokerStats)
            assert_type(await mq.bind("a.#", "jobs"), bool)
            assert_type(await mq.unbind("a.#", "jobs"), bool)
            assert_type(await mq.publish("a.b", b"x"), PublishResult)
            await mq.declare_exchange("logs", "FANOUT")
            assert_type(await mq.bind_exchange("logs", "jobs"), bool)
            assert_type(await mq.publish_exchange("logs", "", "x"), int)
            assert_type(await mq.unbind_exchange("logs", "jobs"), bool)
            assert_type(await mq.qstats("jobs"), QueueStats)
            assert_type(await mq.qstats(), BrokerStats)
            assert_type(await mq.qpeek("jobs"), list[QueuedMessage])
            assert_type(await mq.qshow("jobs", "a"), QueuedMessage | DeadLetter | None)
            assert_type(await mq.exchange_list(), list[tuple[str, Kind]])
            await mq.debug_advance(1)
            async with mq.consume("jobs", prefetch=2) as jobs, mq.subscribe("a.#") as events:
                assert_type(jobs, Consumer)
                assert_type(events, Subscription)
                await mq.publish("a.b", {"n": 1})
                event = assert_type(await anext(events), Event)
                assert_type((event.topic, event.raw, events.dropped), tuple[str, bytes, int])
                async for job in jobs:
                    async with assert_type(job, Delivery):
                        break
            await handlers(mq)
            await mq.delete_queue("jobs")
        assert told == [ConnectionEvent.CONNECTED]
    Client("respmqs://localhost", tls=ssl.create_default_context())


async def handlers(mq: Client) -> None:
    """Both kinds of handlers."""
    done = trio.Event()

    async def work(job: Delivery) -> str:
        done.set()
        return job.id

    def notice(event: Event) -> None:
        assert event.topic

    async with mq.consume("jobs", handler=work), mq.subscribe("a.*", handler=notice):
        await mq.put("jobs", "x")
        await done.wait()
    seen: list[str] = []
    async with mq.consume("jobs", handler=lambda job: seen.append(job.id)):
        pass


@pytest.fixture
def here() -> Iterator[RunningServer]:
    with run_server("--maxclients", "50") as server:
        yield server


def test_redis_py_has_types(here: RunningServer) -> None:
    assert_type((here.host, here.port, here.url, here.log), tuple[str, int, str, str])
    with RespMQ(port=here.port) as r:
        assert_type(r.qdeclare("jobs", acktimeout=5, overflow="DROPHEAD"), None)
        assert_type(r.qconfig("jobs"), QueueConfig)
        assert_type(r.qlist(match="*"), list[str])
        assert_type(r.qput("jobs", ["x"], delay=0.5, attachments=[b"x"]), PutResult)
        here.advance(0.5)
        assert_type(r.qmput("jobs", "x", b"y"), list[str])
        [one, two] = assert_type(r.qlease("jobs", "jobs", count=2, wait=1, lease=60), list[Delivery])
        assert_type(r.qtouch("jobs", one.lease, for_=5), int)
        assert_type(r.qack("jobs", one.lease), int)
        assert_type(r.qnack("jobs", two.lease, mode="REJECT", error="no"), bool)
        assert_type(r.qstats("jobs"), QueueStats)
        assert_type(r.qstats(), BrokerStats)
        [peeked] = assert_type(r.qpeek("jobs", state="READY"), list[QueuedMessage])
        assert_type(peeked.state, Literal["ready", "delayed", "leased"])
        assert_type((peeked.lease, peeked.deadline), tuple[str | None, float | None])
        assert_type(r.qshow("jobs", "a"), QueuedMessage | DeadLetter | None)
        assert_type(r.qdead_list("jobs", count=5, offset=0), list[DeadLetter])
        assert_type(r.qdead_len("jobs"), int)
        assert_type(r.qdead_replay("jobs", "a"), int)
        assert_type(r.qdead_pop("jobs"), list[DeadLetter])
        assert_type(r.qdead_purge("jobs"), int)
        assert_type(r.qdel("jobs", "a"), int)
        assert_type(r.qbind("a.#", "jobs"), bool)
        assert_type(r.qbindings("jobs"), list[tuple[str, str]])
        assert_type(r.qpublish("b.c", "x", headers={"h": "v"}), PublishResult)
        assert_type(r.qunbind("a.#", "jobs"), bool)
        assert_type(r.exchange_declare("logs", "TOPIC"), None)
        assert_type(r.exchange_bind("logs", "jobs", "#"), bool)
        assert_type(r.exchange_bindings("logs"), list[tuple[str, str]])
        assert_type(r.exchange_list(), list[tuple[str, Kind]])
        assert_type(r.exchange_publish("logs", "web", "x"), int)
        assert_type(r.exchange_unbind("logs", "jobs", "#"), bool)
        assert_type(r.exchange_delete("logs"), int)
        r.debug_advance(0)
        loop = assert_type(r.worker("jobs", config=None, lease=5, wait=0), Jobs)
        for job in loop:
            assert_type(job, Delivery)
            loop.stop()
        with r.worker("jobs", wait=0) as same:
            assert_type(same, Jobs)
        assert_type(r.qpurge("jobs"), int)
        assert_type(r.qdelete("jobs"), int)


def test_a_client_of_redis_py_by_url(here: RunningServer) -> None:
    r = RespMQ.from_url(f"redis://{here.host}:{here.port}")
    assert_type(r, RespMQ)
    assert_type(r.qlist(), list[str])
    r.close()


def test_redis_py_for_asyncio_has_types(here: RunningServer) -> None:
    async def main() -> None:
        async with AsyncRespMQ(port=here.port) as r:
            assert_type(await r.qdeclare("jobs"), None)
            assert_type(await r.qput("jobs", None), PutResult)
            assert_type(await r.qstats("jobs"), QueueStats)
            assert_type(await r.qstats(), BrokerStats)
            async with r.worker("jobs", wait=0) as jobs:
                assert_type(jobs, AsyncJobs)
                async for job in jobs:
                    assert_type(job, Delivery)
                    assert_type(await job.ack(), bool)
                    jobs.stop()
            assert_type(await r.qlease("jobs"), list[Delivery])
        async with AsyncRespMQ.from_url(f"redis://{here.host}:{here.port}") as same:
            assert_type(same, AsyncRespMQ)
            assert_type(await same.qlist(), list[str])

    asyncio.run(main())


def test_errors_have_codes() -> None:
    errors: list[BrokerError] = [UnblockedError("text"), OtherError("MISCONF", "text")]
    assert [error.code for error in errors] == ["UNBLOCKED", "MISCONF"]
    assert_type(errors[0].code, str)


def test_fixtures_are_functions() -> None:
    """What they give, `RunningServer` and `Broker`, is what their users write down."""
    assert respmq_server.name == "respmq_server"
    assert respmq_broker.name == "respmq_broker"
    assert inspect.isclass(Broker)


def test_this_file_uses_every_name() -> None:
    text = Path(__file__).read_text(encoding="utf-8").partition("\n\nKind = ")[2]
    for module in (respmq.client, respmq.redis, respmq.testing):
        for name in module.__all__:
            assert name in text, f"{module.__name__}.{name}"
    for kind in (Vocabulary, Commands):
        for name, _ in inspect.getmembers(kind, inspect.isfunction):
            used = name.startswith("_") or f".{name}(" in text
            # What a client is awaited for is the same on redis-py, which the types of this file show.
            assert used or (kind is Vocabulary and name.startswith(("q", "exchange_"))), name
