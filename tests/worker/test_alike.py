"""The broker in one process and the client of a server: the same calls, the same results, the same errors."""

from __future__ import annotations

import dataclasses
import inspect
from collections.abc import Callable

import trio

from respmq import BrokerError, DeadLetter, Delivery, InvalidRequestError, QueueConfig
from respmq.client.client import Client
from respmq.local.broker import Broker
from tests.support import ServerProcess

PATIENCE = 20


class Transcript:
    """Calls methods by name and notes what came, without what differs from run to run: moments and tokens."""

    def __init__(self, target: Broker | Client, prefix: str) -> None:
        self._target = target
        self.queue = f"{prefix}.jobs"
        self.other = f"{prefix}.other"
        self.exchange = f"{prefix}.logs"
        self.lines: list[object] = []

    async def call(self, name: str, *args: object, **options: object) -> object:
        method: Callable[..., object] = getattr(self._target, name)
        result: object = None
        try:
            result = method(*args, **options)
            if inspect.isawaitable(result):
                result = await result
            shown: object = self._plain(result)
        except BrokerError as error:
            # A wrong argument has another name on the wire.
            text = "" if isinstance(error, InvalidRequestError) else str(error)
            shown = (type(error).__name__, error.code, text)
        self.lines.append((name, shown))
        return result

    async def lease(self, count: int = 1) -> list[Delivery]:
        leased = await self.call("lease", self.queue, count=count)
        assert isinstance(leased, list)
        return [one for one in leased if isinstance(one, Delivery)]

    def _plain(self, value: object) -> object:
        if isinstance(value, list):
            return [self._plain(one) for one in value]
        if isinstance(value, Delivery):
            assert value.deadline > value.enqueued_at > 1e9
            id = "made" if len(value.id) == 32 else value.id
            fields = (value.queue, id, value.attempt, value.raw, value.body, dict(value.headers))
            return (*fields, value.attachments, value.priority, round(value.deadline - value.enqueued_at) // 10)
        if isinstance(value, DeadLetter):
            assert value.dead_at >= value.enqueued_at > 1e9
            fields = (value.queue, value.id, value.attempt, value.raw, value.body, dict(value.headers))
            return (*fields, value.attachments, value.priority, value.reason, value.error)
        if dataclasses.is_dataclass(value) and not isinstance(value, type):
            shown = dataclasses.asdict(value)
            if shown.get("oldest_ready_age") is not None:
                shown["oldest_ready_age"] = "some seconds"
            return shown
        return value


async def story(target: Broker | Client, prefix: str) -> list[object]:
    """Everything that both can do."""
    tell = Transcript(target, prefix)
    queue, other, exchange = tell.queue, tell.other, tell.exchange
    call = tell.call
    config = QueueConfig(ack_timeout=60, max_attempts=2, retry_delay=0, max_len=6, overflow="REJECT", ttl=600)
    await call("declare_queue", queue, config)
    await call("declare_queue", queue, config)
    await call("declare_queue", queue)
    await call("declare_queue", "no blanks")
    await call("queue_config", queue)
    await call("queue_config", other)
    for number, body in enumerate(["text", b"\xff\x00", {"a": [1, None, 2.5]}, 7]):
        await call("put", queue, body, id=f"id-{number}", priority=number % 2, headers={"h\udcff": "v"}, ttl=500)
    await call("put", queue, "again", id="id-0")
    await call("put", queue, "late", id="late", delay=100, attachments=[b"x", b""])
    await call("put", queue, "late", delay=1000)
    await call("put", queue, {1: 2})
    await call("put", queue, "x", id="")
    await call("put", other, "x")
    await call("put", queue, "sixth", id="sixth")
    await call("put", queue, "seventh")
    await call("stats", queue)
    leased = await tell.lease(9)
    assert len(leased) == 5
    await call("touch", queue, leased[0].lease, 90)
    await call("ack", queue, leased[0].lease)
    await call("ack", queue, leased[0].lease)
    await call("nack", queue, leased[1].lease, release=True)
    await call("nack", queue, leased[2].lease, error="first \N{SNOWMAN}")
    await call("nack", queue, leased[3].lease, requeue=False, error="hopeless")
    await call("nack", queue, leased[4].lease, delay=200)
    await call("nack", queue, "stale")
    await call("nack", queue, "stale", requeue=False, delay=1)
    await call("touch", queue, "stale")
    again = await tell.lease(9)
    await call("nack", queue, again[0].lease, error="second")
    await call("nack", queue, again[1].lease, error="second")
    await call("dead_letters", queue)
    await call("dead_letters", queue, 1)
    await call("stats", queue)
    await call("replay_dead", queue, ["id-1", "nobody"])
    await call("replay_dead", queue, [])
    await call("purge_dead", queue, [])
    await call("replay_dead", queue)
    await call("purge_dead", queue)
    await call("bind", f"{prefix}.#", queue)
    await call("bind", f"{prefix}.#", queue)
    await call("bind", "a*", queue)
    await call("publish", f"{prefix}.news", {"n": 1}, headers={"user": "ann"}, attachments=[b"y"])
    await call("publish", "$sys.dead.x", "forged")
    await call("unbind", f"{prefix}.#", queue)
    await call("unbind", f"{prefix}.#", queue)
    await call("declare_exchange", exchange, "TOPIC")
    await call("declare_exchange", exchange, "FANOUT")
    await call("bind_exchange", exchange, queue, "*.error")
    await call("bind_exchange", exchange, queue)
    await call("bind_exchange", f"{exchange}.none", queue, "#")
    await call("purge_queue", queue)
    await call("publish_exchange", exchange, "web.error", [1], headers={"h": "v"}, attachments=[b"z"])
    await call("publish_exchange", exchange, "", "x")
    (copy,) = await tell.lease()
    async with copy:
        tell.lines.append(copy.body)
    await call("unbind_exchange", exchange, queue, "*.error")
    await call("unbind_exchange", exchange, queue, "*.error")
    await call("stats", queue)
    await call("delete_queue", queue)
    await call("delete_queue", queue)
    return tell.lines


async def test_the_same_calls_have_the_same_results(server: ServerProcess, queue: str) -> None:
    with trio.fail_after(PATIENCE):
        async with Broker() as broker:
            local = await story(broker, queue)
        async with Client("127.0.0.1", server.port) as client:
            remote = await story(client, queue)
    for near, far in zip(local, remote, strict=True):
        assert near == far


def test_the_client_has_all_that_the_broker_has() -> None:
    def public(kind: type) -> dict[str, list[str]]:
        return {
            name: [p.name for p in inspect.signature(member).parameters.values()]
            for name, member in inspect.getmembers(kind, inspect.isfunction)
            if not name.startswith("_")
        }

    near, far = public(Broker), public(Client)
    only_here = {"asynchronous", "save", "load", "close", "unsubscribe", "cancel", "deliveries"}
    #: Context managers there, functions with sinks here.
    forms = {"consume", "subscribe"}
    for name in near.keys() - only_here - forms:
        assert name in far, name
        if name != "lease":
            assert near[name] == far[name], name
