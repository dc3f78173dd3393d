"""A server in a process of its own that is killed and started again."""

from __future__ import annotations

from functools import partial

import trio

from respmq import Client, ConnectionEvent, QueueConfig
from tests.support.control import eventually
from tests.support.server import ServerProcess, start_server


async def start(port: int = 0) -> ServerProcess:
    return await trio.to_thread.run_sync(partial(start_server, "--port", str(port)))


async def test_a_server_that_is_killed_and_comes_back() -> None:
    """It has forgotten everything; the client sets up what it had, and everybody goes on."""
    server = await start()
    port = server.port
    told: list[ConnectionEvent] = []
    try:
        mq = Client("127.0.0.1", port, timeout=30)
        mq.on_event(told.append)
        async with mq:
            await mq.declare_queue("jobs", QueueConfig(retry_delay=0))
            await mq.declare_queue("audit")
            await mq.bind("job.#", "audit")
            got: list[str] = []
            waited: list[str] = []

            async def wait() -> None:
                waited.extend(delivery.body for delivery in await mq.lease("audit", wait=60))

            async with (
                mq.consume("jobs", prefetch=1) as jobs,
                mq.subscribe("job.*") as events,
                trio.open_nursery() as nursery,
            ):
                nursery.start_soon(wait)
                await mq.put("jobs", "before")
                before = await anext(jobs)
                await trio.to_thread.run_sync(server.kill)
                nursery.start_soon(mq.put, "jobs", "while it is down")
                server = await start(port)
                assert not await before.ack()
                async with await anext(jobs) as job:
                    got.append(job.body)
                await eventually(lambda: "reconnected" in told, "it is connected again")
                await mq.publish("job.done", "x")
                assert (await anext(events)).topic == "job.done"
            assert got == ["while it is down"]
            assert waited == ["x"]
            assert (await mq.stats("jobs")).in_flight == 0
            assert server.stop() == 0
        assert told[:3] == ["connected", "disconnected", "reconnected"]
    finally:
        server.kill()
