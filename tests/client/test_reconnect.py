"""Connections that break: in the middle of a frame, for a while, and under calls that are on their way."""

from __future__ import annotations

from collections.abc import AsyncIterator
from functools import partial

import pytest
import trio

from respmq import (
    BrokerError,
    BrokerUnavailableError,
    Client,
    ConnectionEvent,
    EmbeddedServer,
    QueueConfig,
    QueueNotFoundError,
    open_server,
)
from respmq.client import line
from respmq.client.line import pause_before
from tests.support.checkpoints import cancel_everywhere
from tests.support.control import Control, eventually
from tests.support.proxy import Direction, Proxy

#: More than the bytes of any single request or reply here.
ENOUGH = 800


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    """Reconnect almost at once."""
    monkeypatch.setattr(line, "_FIRST_PAUSE", 0.001)


async def places(proxy: Proxy, direction: Direction, step: int) -> AsyncIterator[int]:
    """Cuts the connection after so many bytes of what comes now; ends when that was more than there are."""
    for count in range(0, ENOUGH, step):
        accepted = proxy.accepted
        proxy.cut_after(direction, count)
        yield count
        if proxy.accepted == accepted:
            proxy.cut_after(direction, 1 << 30)
            return
    raise AssertionError("there was no end")


async def ready_again(mq: Client) -> None:
    await eventually(lambda: mq.connected, "it is connected again")


def has(told: list[ConnectionEvent], count: int) -> bool:
    return len(told) >= count


def has_accepted(proxy: Proxy, count: int) -> bool:
    return proxy.accepted >= count


@pytest.mark.parametrize("direction", ["to server", "to client"])
async def test_a_put_whose_connection_breaks_anywhere_is_there_once(
    direction: Direction, far: Client, proxy: Proxy, control: Control
) -> None:
    await far.declare_queue("jobs")
    put = 0
    async for _ in places(proxy, direction, 3):
        result = await far.put("jobs", put)
        put += 1
        assert not result.duplicate
        assert await control.stat("jobs", "ready") == put
    assert put > 5


@pytest.mark.parametrize("direction", ["to server", "to client"])
async def test_a_lease_whose_connection_breaks_anywhere_takes_its_messages_once(
    direction: Direction, far: Client, proxy: Proxy, control: Control
) -> None:
    await far.declare_queue("jobs")
    async for place in places(proxy, direction, 9):
        await control.cmd("QMPUT", "jobs", f"{place} a", f"{place} b")
        a, b = await far.lease("jobs", count=2)
        assert (a.body, b.body, a.attempt, b.attempt) == (f"{place} a", f"{place} b", 1, 1)
        assert await control.stat("jobs", "in_flight") == 2
        assert await control.cmd("QACK", "jobs", a.lease, b.lease) == 2


async def test_an_ack_whose_connection_breaks_anywhere_is_done(far: Client, proxy: Proxy, control: Control) -> None:
    """Whether it was the first or the second that did it, only the broker knows."""
    await far.declare_queue("jobs")
    outcomes: set[bool] = set()
    for direction in ("to server", "to client"):
        async for _ in places(proxy, "to client" if direction == "to client" else "to server", 5):
            await control.cmd("QPUT", "jobs", "x")
            [[_, _, lease, _, _]] = await control.cmd("QLEASE", "jobs")
            outcomes.add(await far.ack("jobs", lease.decode()))
            assert await control.stat("jobs", "in_flight") == 0
            assert await control.stat("jobs", "acked") == await control.stat("jobs", "enqueued")
    assert outcomes == {True, False}


async def test_what_cannot_be_sent_again_says_so(far: Client, proxy: Proxy, control: Control) -> None:
    await far.declare_queue("audit")
    await far.bind("#", "audit")
    proxy.cut_after("to client", 0)
    with pytest.raises(BrokerUnavailableError, match="before QPUBLISH was answered: it may have been run or not"):
        await far.publish("a", "x")
    assert await control.stat("audit", "ready") == 1
    await ready_again(far)
    proxy.cut_after("to client", 0)
    with pytest.raises(BrokerUnavailableError, match="QPURGE"):
        await far.purge_queue("audit")
    assert await far.list_queues() == ["audit"]


async def test_calls_wait_while_the_line_is_down(far: Client, proxy: Proxy) -> None:
    await far.declare_queue("jobs")
    proxy.down()
    done: list[str] = []

    async def put(body: str) -> None:
        await far.put("jobs", body)
        done.append(body)

    async with trio.open_nursery() as nursery:
        for body in ("a", "b", "c"):
            nursery.start_soon(put, body)
        await eventually(lambda: proxy.refused == 3, "it has tried to connect")
        assert not done
        assert not far.connected
        proxy.up()
    assert sorted(done) == ["a", "b", "c"]
    # A call that is cancelled while it waits is not made at all.
    proxy.down()
    with trio.move_on_after(0.02):
        await far.put("jobs", "never")
    proxy.up()
    assert (await far.stats("jobs")).enqueued == 3


async def test_calls_give_up_when_the_line_is_down_for_too_long(proxy: Proxy) -> None:
    async with Client("127.0.0.1", proxy.port, timeout=0.2) as mq:
        await mq.declare_queue("jobs")
        proxy.down()
        for call in (mq.put("jobs", "x"), mq.lease("jobs"), mq.lease("jobs", wait=0.1)):
            with pytest.raises(
                BrokerUnavailableError, match=f"at 127.0.0.1:{proxy.port} within 0.2 seconds: "
            ) as caught:
                await call
            assert caught.value.code == "UNAVAILABLE"
        with pytest.raises(BrokerUnavailableError, match="QCONSUME"):
            async with mq.consume("jobs"):
                pass
        with pytest.raises(BrokerUnavailableError, match="PSUBSCRIBE"):
            async with mq.subscribe("#"):
                pass
        proxy.up()
        await ready_again(mq)
        # What gave up is not made later.
        stats = await mq.stats("jobs")
        assert (stats.enqueued, stats.consumers) == (0, 0)
        assert (await mq.broker_stats()).subscriptions == 0


async def test_events_tell_of_the_connection(broker: EmbeddedServer, proxy: Proxy) -> None:
    mq = Client("127.0.0.1", proxy.port)
    told: list[ConnectionEvent] = []

    def broken(_event: ConnectionEvent) -> None:
        raise ValueError("no")

    mq.on_event(broken)
    mq.on_event(told.append)
    async with mq:
        assert told == ["connected"]
        for times in (1, 2):
            proxy.cut()
            await eventually(partial(has, told, 1 + 2 * times), "it is connected again")
    assert told == ["connected", "disconnected", "reconnected", "disconnected", "reconnected"]


async def test_consumers_go_on_after_a_drop(far: Client, proxy: Proxy, control: Control) -> None:
    await far.declare_queue("jobs", QueueConfig(retry_delay=0))
    await far.qmput("jobs", "a", "b", "c")
    async with far.consume("jobs", prefetch=2) as jobs:
        a = await anext(jobs)
        proxy.cut()
        await ready_again(far)
        # Given back with the connection; b, which nobody had taken, isn't handed out from the dead one.
        assert not await a.ack()
        got = []
        with trio.fail_after(10):
            async for job in jobs:
                got.append((job.body, job.attempt))
                assert await job.ack()
                if len(got) == 3:
                    break
        assert sorted(got) == [("a", 2), ("b", 2), ("c", 1)]
    assert await control.stat("jobs", "consumers") == 0


async def test_subscriptions_go_on_after_a_drop(far: Client, proxy: Proxy) -> None:
    async with far.subscribe("a.#") as events, far.subscribe("a.#") as again:
        for _ in range(3):
            proxy.cut()
            await ready_again(far)
            await eventually(lambda: reached(far), "the subscription is there again")
            for each in (events, again):
                assert (await anext(each)).topic == "a.b"


async def reached(mq: Client) -> bool:
    """Whether an event has reached anybody."""
    try:
        return (await mq.publish("a.b", "x")).subscribers == 1
    except BrokerUnavailableError:
        return False


async def test_a_connection_that_breaks_while_it_is_made_ready_is_made_again(far: Client, proxy: Proxy) -> None:
    """In the middle of the greeting, and of the set-up that is replayed."""
    await far.declare_queue("jobs")
    await far.bind("a.#", "jobs")
    async with far.consume("jobs"), far.subscribe("a.#"):
        for count in range(0, 400, 23):
            proxy.cut()
            proxy.cut_after("to client", count)
            with trio.fail_after(10):
                await far.put("jobs", "x")
    assert (await far.stats("jobs")).enqueued == len(range(0, 400, 23))
    assert (await far.broker_stats()).subscriptions == 0


async def test_a_wait_goes_on_over_a_drop(far: Client, proxy: Proxy, control: Control) -> None:
    await far.declare_queue("jobs")

    async def one_waits() -> bool:
        return await control.stat("jobs", "waiters") == 1

    async with trio.open_nursery() as nursery:
        got: list[str] = []

        async def wait() -> None:
            got.extend(delivery.body for delivery in await far.lease("jobs", wait=60))

        nursery.start_soon(wait)
        for _ in range(3):
            await eventually(one_waits, "somebody waits")
            accepted = proxy.accepted
            proxy.cut()
            await eventually(partial(has_accepted, proxy, accepted + 2), "it is connected again")
        await eventually(one_waits, "somebody waits")
        await control.cmd("QPUT", "jobs", "x")
    assert got == ["x"]
    assert await control.stat("jobs", "delivered") == 1


async def test_a_client_that_is_closed_while_the_line_is_down(proxy: Proxy) -> None:
    with trio.fail_after(5):
        async with Client("127.0.0.1", proxy.port) as mq:
            await mq.declare_queue("jobs")
            async with mq.consume("jobs"), mq.subscribe("#"):
                proxy.down()
                await eventually(lambda: not mq.connected, "the line is down")


async def test_a_call_that_outlives_its_client_raises(broker: EmbeddedServer, proxy: Proxy) -> None:
    caught: list[BrokerError] = []

    async def call(mq: Client) -> None:
        try:
            await mq.list_queues()
        except BrokerError as error:
            caught.append(error)

    with trio.fail_after(5):
        async with trio.open_nursery() as nursery, Client("127.0.0.1", proxy.port) as mq:
            proxy.down()
            await eventually(lambda: not mq.connected, "the line is down")
            nursery.start_soon(call, mq)
            await trio.sleep(0.01)
    assert [str(error) for error in caught] == ["the client was closed before QLIST was answered"]


async def test_everything_is_set_up_again_on_a_broker_that_has_forgotten_it() -> None:
    async with open_server() as first:
        port = first.port
        mq = Client("127.0.0.1", port)
        told: list[ConnectionEvent] = []
        mq.on_event(told.append)
        async with mq:
            await mq.declare_queue("jobs", QueueConfig(ack_timeout=60))
            await mq.declare_queue("gone")
            await mq.bind("gone.#", "gone")
            await mq.delete_queue("gone")
            await mq.declare_queue("audit")
            await mq.bind("job.#", "audit")
            await mq.bind("other.#", "audit")
            await mq.unbind("other.#", "audit")
            await mq.declare_exchange("orders", "DIRECT")
            await mq.bind_exchange("orders", "jobs", "paid")
            await mq.declare_exchange("old")
            await mq.bind_exchange("old", "jobs", "#")
            await mq.exchange_delete("old")
            async with mq.consume("jobs") as jobs, mq.subscribe("job.*") as events:
                await restarted(mq, port, told)
                await mq.publish_exchange("orders", "paid", "work")
                assert (await anext(jobs)).body == "work"
                await mq.publish("job.done", "x")
                assert (await anext(events)).topic == "job.done"
            assert await mq.list_queues() == ["audit", "jobs"]
            assert (await mq.queue_config("jobs")).ack_timeout == 60
            assert await mq.qbindings() == [("job.#", "audit")]
            assert await mq.exchange_list() == [("orders", "DIRECT")]


async def restarted(mq: Client, port: int, told: list[ConnectionEvent]) -> None:
    """Let the broker on this port forget all it knows, as a restart would."""
    async with await trio.open_tcp_stream("127.0.0.1", port) as stream:
        # It listens for events, which is a type of its own.
        for line in (
            "MULTI",
            "QDELETE jobs",
            "QDELETE audit",
            "EXCHANGE DELETE orders",
            "CLIENT KILL TYPE pubsub",
            "EXEC",
        ):
            await stream.send_all(f"{line}\r\n".encode())
            await stream.receive_some()
    await eventually(lambda: told[-1] == "reconnected", "it is connected again")


async def test_a_consumer_whose_queue_is_gone_after_a_drop_ends(far: Client, proxy: Proxy, control: Control) -> None:
    await control.cmd("QDECLARE", "jobs")
    async with far.consume("jobs") as jobs:
        proxy.down()
        await control.cmd("QDELETE", "jobs")
        proxy.up()
        with trio.fail_after(10), pytest.raises(QueueNotFoundError, match="no such queue 'jobs'"):
            await anext(jobs)


async def test_a_conflict_in_what_is_set_up_again_is_logged(
    far: Client, proxy: Proxy, control: Control, caplog: pytest.LogCaptureFixture
) -> None:
    await far.declare_queue("jobs")
    proxy.down()
    await control.cmd("QDELETE", "jobs")
    await control.cmd("QDECLARE", "jobs", "MAXLEN", "5")
    proxy.up()
    assert (await far.queue_config("jobs")).max_len == 5
    assert any("QDECLARE jobs: " in record.getMessage() for record in caplog.records)


def test_pauses_grow_and_vary(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(line, "_FIRST_PAUSE", 0.05)
    assert all(0.025 <= pause_before(1) <= 0.075 for _ in range(50))
    assert all(0.1 <= pause_before(3) <= 0.3 for _ in range(50))
    assert all(2.5 <= pause_before(attempt) <= 7.5 for attempt in (8, 100, 10_000))
    assert len({pause_before(5) for _ in range(10)}) > 1


#: The answer of a respmq server, as far as a client looks at it.
HELLO = b"%1\r\n$6\r\nserver\r\n$6\r\nrespmq\r\n"


async def test_a_push_that_makes_no_sense_ends_the_connection_and_not_the_client() -> None:
    """A server that is broken."""
    connections = 0

    async def serve(stream: trio.SocketStream) -> None:
        nonlocal connections
        connections += 1
        wire = b""
        async for data in stream:
            wire += data
            if b"QCONSUME" in wire:
                await stream.send_all(
                    b"$6\r\nctag-1\r\n>3\r\n$7\r\ndeliver\r\n$6\r\nctag-1\r\n%1\r\n$2\r\nid\r\n:1\r\n"
                )
                wire = b""
            elif b"DBSIZE" in wire:
                await stream.send_all(HELLO + b"+OK\r\n" * 3)
                wire = b""

    async with trio.open_nursery() as nursery:
        listeners: list[trio.SocketListener] = await nursery.start(partial(trio.serve_tcp, serve, 0, host="127.0.0.1"))
        port = listeners[0].socket.getsockname()[1]
        async with Client("127.0.0.1", port, timeout=1) as mq:
            with pytest.raises(BrokerUnavailableError):
                async with mq.consume("jobs"):
                    await mq.list_queues()
            assert connections > 1
        nursery.cancel_scope.cancel()


async def test_a_server_that_still_reads_its_journal_is_waited_for() -> None:
    connections = 0

    async def serve(stream: trio.SocketStream) -> None:
        nonlocal connections
        connections += 1
        async for data in stream:
            if b"DBSIZE" in data:
                ready = b":0\r\n" if connections > 3 else b"-LOADING respmq is loading the journal\r\n"
                await stream.send_all(HELLO + b"+OK\r\n" * 2 + ready)
            elif b"QLIST" in data:
                await stream.send_all(b"*1\r\n$4\r\njobs\r\n")
            else:
                await stream.send_all(b"+PONG\r\n")

    async with trio.open_nursery() as nursery:
        listeners: list[trio.SocketListener] = await nursery.start(partial(trio.serve_tcp, serve, 0, host="127.0.0.1"))
        port = listeners[0].socket.getsockname()[1]
        async with Client("127.0.0.1", port) as mq:
            assert await mq.list_queues() == ["jobs"]
        assert connections == 4
        connections = -1000
        with pytest.raises(BrokerUnavailableError, match="is loading the journal"):
            async with Client("127.0.0.1", port, timeout=0.1):
                pass
        nursery.cancel_scope.cancel()


async def test_a_lease_that_is_cancelled_when_its_connection_breaks_leaves_nothing_leased(
    far: Client, proxy: Proxy, control: Control
) -> None:
    """Its answer is lost, so only its REQID tells what it had leased."""
    await far.declare_queue("jobs")
    await far.qmput("jobs", "a", "b")

    async def nothing_leased() -> bool:
        return await control.stat("jobs", "in_flight") == 0

    for wait in (None, 60):
        runs = 0
        proxy.cut_after("to client", 0)
        async for cancelled in cancel_everywhere(partial(far.lease, "jobs", count=2, wait=wait)):
            runs += 1
            if cancelled:
                await eventually(nothing_leased, "nothing is leased")
                await ready_again(far)
                proxy.cut_after("to client", 0)
        assert runs > 5
        proxy.cut_after("to client", 1 << 30)
        found = await far.qpeek("jobs", state="LEASED")
        # What an earlier run had taken may have been on its way back yet.
        assert {message.attempt for message in found} == {1}
        for message in found:
            assert message.lease is not None
            assert await far.nack("jobs", message.lease, release=True)
        await eventually(nothing_leased, "nothing is leased")
        assert [message.attempt for message in await far.qpeek("jobs")] == [0, 0]


async def test_a_broker_that_stays_away_is_warned_of(
    far: Client, proxy: Proxy, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """Not one that is restarted: that is no news."""
    monkeypatch.setattr(line, "_FIRST_PAUSE", 0.001)
    monkeypatch.setattr(line, "_LONGEST_PAUSE", 0.001)
    caplog.set_level("INFO", "respmq.client")
    proxy.down()

    def levels() -> list[str]:
        return [record.levelname for record in caplog.records if record.message.startswith("no connection to ")]

    await eventually(lambda: len(levels()) > 6, "it has tried again and again")
    assert set(levels()[:3]) == {"INFO"}
    assert levels()[6] == "WARNING"
    proxy.up()
    await far.list_queues()
