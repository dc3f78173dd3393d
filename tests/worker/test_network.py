"""Workers on a broker behind the network: the same as in one process, and what only a network can do."""

from __future__ import annotations

import trio

from respmq import Body, Client, Delivery, HardFailure, Publisher, RetryPolicy, SoftFailure, Worker, open_server
from tests.support import ServerProcess
from tests.support.proxy import open_proxy
from tests.worker.waiting import until

PATIENCE = 20


async def test_a_pipeline_of_workers(server: ServerProcess, queue: str) -> None:
    done = trio.Event()
    seen: list[Body] = []
    attempts: list[int] = []

    async def double(job: Delivery) -> Body:
        if job.body == 3:
            attempts.append(job.attempt)
            if job.attempt == 1:
                raise SoftFailure("busy", retry_after=0.01)
        if job.body == 4:
            raise HardFailure("four")
        return {"was": job.body, "is": job.body * 2}

    def collect(job: Delivery) -> None:
        seen.append(job.body)
        if len(seen) == 4:
            trio.from_thread.run_sync(done.set)

    with trio.fail_after(PATIENCE):
        async with Client("127.0.0.1", server.port) as client:
            exchange = f"{queue}.exchange"
            workers = [
                Worker(
                    client,
                    f"{queue}.in",
                    double,
                    concurrency=3,
                    results=Publisher(client, exchange, "out"),
                    control=Publisher(client, exchange, "dead"),
                ),
                Worker(client, f"{queue}.out", collect, exchange=exchange),
            ]
            async with trio.open_nursery() as nursery:
                for worker in workers:
                    await nursery.start(worker.run)
                for number in (1, 2, 3, 4):
                    await client.put(f"{queue}.in", number)
                await done.wait()
                assert workers[0].health().connected
                for worker in workers:
                    worker.stop()
            assert (await client.stats(f"{queue}.in")).acked == 3
            assert [one.error for one in await client.dead_letters(f"{queue}.in")] == ["four"]
            assert (await client.queue_config(f"{queue}.in")).max_attempts == 11
            assert (await client.stats(f"{queue}.out")).waiters == 0
    assert attempts == [1, 2]
    assert {"was": 3, "is": 6} in seen
    assert [one["error"] for one in seen if isinstance(one, dict) and "error" in one] == ["four"]


async def test_a_queue_that_is_gone_is_declared_anew(server: ServerProcess, queue: str) -> None:
    seen: list[object] = []
    got = trio.Event()

    async def work(job: Delivery) -> None:
        seen.append(job.body)
        got.set()

    with trio.fail_after(PATIENCE):
        async with (
            Client("127.0.0.1", server.port) as client,
            Client("127.0.0.1", server.port) as other,
            trio.open_nursery() as nursery,
        ):
            worker = Worker(client, queue, work, retry=RetryPolicy(initial_delay=0))
            await nursery.start(worker.run)
            await other.put(queue, "before")
            await got.wait()
            await other.delete_queue(queue)

            async def is_back() -> bool:
                return queue in await other.list_queues()

            await until(is_back)
            got = trio.Event()
            await other.put(queue, "after")
            await got.wait()
            worker.stop()
    assert seen == ["before", "after"]


async def test_what_runs_when_a_worker_is_cancelled_goes_back(server: ServerProcess, queue: str) -> None:
    begun = trio.Event()

    async def work(job: Delivery) -> None:
        begun.set()
        await trio.sleep_forever()

    with trio.fail_after(PATIENCE):
        async with Client("127.0.0.1", server.port) as client:
            worker = Worker(client, queue, work)
            async with trio.open_nursery() as nursery:
                await nursery.start(worker.run)
                await client.put(queue, "x")
                await begun.wait()
                nursery.cancel_scope.cancel()
            (back,) = await client.lease(queue)
            assert (back.body, back.attempt) == ("x", 1)
            async with back:
                pass


async def test_a_worker_goes_on_when_its_connection_breaks_and_when_the_broker_is_another_one(queue: str) -> None:
    """The second broker knows nothing: neither the queue, nor the lease of what runs."""
    seen: list[object] = []
    begun, go_on, got = trio.Event(), trio.Event(), trio.Event()

    async def work(job: Delivery) -> None:
        seen.append(job.body)
        if job.body == "slow":
            begun.set()
            await go_on.wait()
        if job.body == "last":
            got.set()

    with trio.fail_after(PATIENCE):
        async with (
            open_server() as first,
            open_server() as second,
            open_proxy(first.port) as proxy,
            Client("127.0.0.1", proxy.port) as client,
            Client("127.0.0.1", second.port) as other,
        ):
            worker = Worker(client, queue, work, concurrency=2)
            async with trio.open_nursery() as nursery:
                await nursery.start(worker.run)
                await client.put(queue, "slow")
                await begun.wait()
                await proxy.cut_now()
                await client.put(queue, "quick")
                await until(lambda: seen == ["slow", "quick"])
                await client.stats(queue)
                proxy.target = second.port
                await proxy.cut_now()

                async def is_there() -> bool:
                    return queue in await other.list_queues()

                await until(is_there)
                go_on.set()
                await other.put(queue, "last")
                await got.wait()
                worker.stop()
            assert (await other.stats(queue)).acked == 1
    assert seen == ["slow", "quick", "last"]
