"""redis-py, synchronous and on asyncio, with its defaults (RESP3) and with RESP2."""

import asyncio
from collections.abc import Awaitable, Callable, Generator
from typing import Literal, NamedTuple, TypeVar

import pytest
import redis
import redis.asyncio

from tests.clients.support import PATIENCE
from tests.support import ServerProcess

T = TypeVar("T")
Command = tuple[str | int, ...]
Commands = Generator[Command, object, T]

# None: redis-py is not told which protocol to speak, and chooses RESP3.
Protocol = Literal[2] | None
both_protocols = pytest.mark.parametrize("protocol", [None, 2], ids=["default", "resp2"])


class Tally(NamedTuple):
    put: int
    acked: int
    retried: int


def worker(queue: str, n: int) -> "Commands[Tally]":
    """Yields commands and is sent their replies: puts n jobs, settles each of them, fails the first one once."""
    assert (yield "QDECLARE", queue) == b"OK"
    put = set[object]()
    for i in range(n):
        put.add((yield "QPUT", queue, f"job {i}", "HEADER", "n", i))
    acked = set[object]()
    retried = 0
    while deliveries := (yield "QLEASE", queue, "WAIT", 1):
        assert isinstance(deliveries, list)
        for delivery in deliveries:
            assert isinstance(delivery, list)
            source, message, lease, attempt, body = delivery
            assert source == queue.encode()
            assert message in put
            assert isinstance(lease, bytes)
            if body == b"job 0" and attempt == 1:
                nack = ("QNACK", queue, lease.decode(), "DELAY", 0, "ERROR", "failed on purpose")
                assert (yield nack) == 1
                continue
            assert attempt == (2 if body == b"job 0" else 1)
            retried += attempt == 2
            assert (yield "QACK", queue, lease.decode()) == 1
            acked.add(message)
    assert deliveries == []
    return Tally(len(put), len(acked), retried)


def handshake(protocol: Protocol) -> "Commands[None]":
    """What the server knows of the connection after redis-py has set it up."""
    assert (yield ("PING",)) is True
    client = yield ("CLIENT INFO",)
    assert isinstance(client, dict)
    assert client["lib-name"] == "redis-py"
    assert str(client["resp"]) == str(protocol or 3)
    info = yield "INFO", "server"
    assert isinstance(info, dict)
    assert "respmq_version" in info


def drive(client: redis.Redis, commands: "Commands[T]") -> T:
    call: Callable[..., object] = client.execute_command
    command = next(commands)
    while True:
        reply = call(*command)
        try:
            command = commands.send(reply)
        except StopIteration as stop:
            result: T = stop.value
            return result


async def drive_asyncio(client: redis.asyncio.Redis, commands: "Commands[T]") -> T:
    call: Callable[..., Awaitable[object]] = client.execute_command
    command = next(commands)
    while True:
        reply = await call(*command)
        try:
            command = commands.send(reply)
        except StopIteration as stop:
            result: T = stop.value
            return result


def connect(server: ServerProcess, protocol: Protocol) -> redis.Redis:
    return redis.Redis(port=server.port) if protocol is None else redis.Redis(port=server.port, protocol=protocol)


def connect_asyncio(server: ServerProcess, protocol: Protocol) -> redis.asyncio.Redis:
    if protocol is None:
        return redis.asyncio.Redis(port=server.port)
    return redis.asyncio.Redis(port=server.port, protocol=protocol)


@both_protocols
def test_handshake(server: ServerProcess, protocol: Protocol) -> None:
    with connect(server, protocol) as client:
        drive(client, handshake(protocol))


@both_protocols
def test_a_worker_settles_every_job(server: ServerProcess, queue: str, protocol: Protocol) -> None:
    with connect(server, protocol) as client:
        assert drive(client, worker(queue, 25)) == Tally(put=25, acked=25, retried=1)


@both_protocols
@pytest.mark.parametrize("transaction", [True, False], ids=["multi", "plain"])
def test_pipeline(server: ServerProcess, queue: str, protocol: Protocol, transaction: bool) -> None:
    with connect(server, protocol) as client:
        with client.pipeline(transaction=transaction) as pipeline:
            pipeline.execute_command("QDECLARE", queue)
            pipeline.execute_command("QPUT", queue, "a", "ID", "1")
            pipeline.execute_command("QPUT", f"{queue}.nowhere", "b")
            pipeline.execute_command("QPUT", queue, "c", "ID", "1")
            pipeline.execute_command("QLEASE", queue)
            declared, first, failed, duplicate, deliveries = pipeline.execute(raise_on_error=False)
        assert (declared, first, duplicate) == (b"OK", b"1", None)
        assert isinstance(failed, redis.ResponseError)
        assert f"no such queue '{queue}.nowhere'" in str(failed)
        ((source, message, lease, attempt, body),) = deliveries
        assert (source, message, attempt, body) == (queue.encode(), b"1", 1, b"a")
        with client.pipeline(transaction=transaction) as pipeline:
            pipeline.execute_command("QACK", queue, lease)
            pipeline.execute_command("QPUT", queue, "next", "ID", "2")
            assert pipeline.execute() == [1, b"2"]


@both_protocols
def test_events(server: ServerProcess, queue: str, protocol: Protocol) -> None:
    with connect(server, protocol) as client, client.pubsub(ignore_subscribe_messages=True) as events:
        events.psubscribe(f"{queue}.*.failed")
        assert events.get_message(timeout=PATIENCE) is None  # the confirmation
        assert client.publish(f"{queue}.nightly.failed", "disk full") == 1
        event = events.get_message(timeout=PATIENCE)
        assert event == {
            "type": "pmessage",
            "pattern": f"{queue}.*.failed".encode(),
            "channel": f"{queue}.nightly.failed".encode(),
            "data": b"disk full",
        }


@both_protocols
def test_asyncio_handshake(server: ServerProcess, protocol: Protocol) -> None:
    async def main() -> None:
        async with connect_asyncio(server, protocol) as client:
            await drive_asyncio(client, handshake(protocol))

    asyncio.run(main())


@both_protocols
def test_an_asyncio_worker_settles_every_job(server: ServerProcess, queue: str, protocol: Protocol) -> None:
    async def main() -> Tally:
        async with connect_asyncio(server, protocol) as client:
            return await drive_asyncio(client, worker(queue, 25))

    assert asyncio.run(main()) == Tally(put=25, acked=25, retried=1)


@both_protocols
@pytest.mark.parametrize("transaction", [True, False], ids=["multi", "plain"])
def test_asyncio_pipeline(server: ServerProcess, queue: str, protocol: Protocol, transaction: bool) -> None:
    async def main() -> list[object]:
        async with connect_asyncio(server, protocol) as client, client.pipeline(transaction=transaction) as pipeline:
            pipeline.execute_command("QDECLARE", queue)
            pipeline.execute_command("QPUT", queue, "a", "ID", "1")
            pipeline.execute_command("QDEL", queue, "1")
            return await pipeline.execute()

    assert asyncio.run(main()) == [b"OK", b"1", 1]
