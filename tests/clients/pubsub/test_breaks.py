"""redis-py's subscribers whose connections break, and those that run in threads and tasks."""

import asyncio
import queue as queues
import threading
from functools import partial
from typing import Any

import pytest
import redis

from tests.clients.pubsub.stage import (
    PATTERN,
    SHARD,
    SHORT,
    TOPIC,
    Client,
    Message,
    Play,
    Resp,
    Scenario,
    Stage,
    confirmation,
    new_asyncio_client,
    new_client,
    receive,
    subscribers,
)
from tests.clients.support import PATIENCE
from tests.support import Conn, Connect, ServerProcess, wait_until

# -- connections that break --------------------------------------------------------------------------------------------


def kill_subscriber(observer: Conn, name: str) -> Client:
    """Let the server close the connection of the only one."""
    (victim,) = subscribers(observer, name)
    assert observer.integer("CLIENT", "KILL", "ID", victim.id) == 1
    return victim


def has_come_back(observer: Conn, name: str, victim: Client) -> bool:
    """Whether another connection, and it alone, has as many subscriptions as the one that was closed had."""
    return [(client.topics, client.patterns) for client in subscribers(observer, name) if client.id != victim.id] == [
        (victim.topics, victim.patterns)
    ]


@pytest.mark.parametrize("by", ["client", "server"])
def test_everything_is_subscribed_to_again_after_a_broken_connection(
    play: Play, connect: Connect, topic: str, by: str
) -> None:
    handled: list[Message] = []
    confirmed = [
        confirmation("subscribe", f"{topic}.x", 1),
        confirmation("subscribe", f"{topic}.y", 2),
        confirmation("psubscribe", f"{topic}.*", 3),
        confirmation("ssubscribe", f"{topic}.x", 1),
    ]

    def scenario(stage: Stage) -> Scenario:
        events = stage.pubsub()
        yield events.subscribe(f"{topic}.x", f"{topic}.y")
        yield events.psubscribe(**{f"{topic}.*": handled.append})
        yield events.ssubscribe(f"{topic}.x")
        for expected in confirmed:
            assert (yield receive(events)) == expected
        if by == "client":
            yield events.connection.disconnect()
        else:
            kill_subscriber(connect(), topic)
        for expected in confirmed:
            assert (yield receive(events)) == expected
        assert (yield stage.client.publish(f"{topic}.x", "again")) == 2
        assert [(yield receive(events)), (yield receive(events))] == [TOPIC.event(f"{topic}.x", "again"), None]
        assert handled == [PATTERN.event(f"{topic}.x", "again")]
        assert (yield stage.client.spublish(f"{topic}.x", "again")) == 1
        assert (yield receive(events)) == SHARD.event(f"{topic}.x", "again")

    play(scenario, client_name=topic)


def test_a_broken_connection_is_an_error_for_those_who_do_not_retry(play: Play, connect: Connect, topic: str) -> None:
    def scenario(stage: Stage) -> Scenario:
        events = stage.pubsub()
        yield events.subscribe(topic)
        yield receive(events)
        kill_subscriber(connect(), topic)
        with pytest.raises(redis.ConnectionError):
            yield receive(events)

    play(scenario, client_name=topic, retries=0)


# -- threads and tasks -------------------------------------------------------------------------------------------------


def test_a_thread_handles_messages_and_survives_a_broken_connection(
    server: ServerProcess, connect: Connect, resp: Resp, topic: str
) -> None:
    handled = queues.Queue[Message]()
    observer = connect()
    with new_client(server.port, resp, client_name=topic) as client:
        events = client.pubsub()
        events.subscribe(**{topic: handled.put})
        events.psubscribe(**{f"{topic}.*": handled.put})
        assert [receive(events)["type"], receive(events)["type"]] == ["subscribe", "psubscribe"]
        thread = events.run_in_thread(sleep_time=SHORT, daemon=True)
        try:
            for body in ("before", "after"):
                assert client.publish(topic, body) == 1
                assert handled.get(timeout=PATIENCE) == TOPIC.event(topic, body)
                assert client.publish(f"{topic}.x", body) == 1
                assert handled.get(timeout=PATIENCE) == PATTERN.event(f"{topic}.x", body)
                victim = kill_subscriber(observer, topic)
                wait_until(partial(has_come_back, observer, topic, victim), "both subscriptions again")
        finally:
            thread.stop()
            thread.join(PATIENCE)
        assert not thread.is_alive()
        assert events.connection is None
        wait_until(lambda: subscribers(observer, topic) == [], "its connection is closed")


def test_an_error_in_a_thread_goes_to_its_exception_handler(server: ServerProcess, resp: Resp, topic: str) -> None:
    errors = queues.Queue[str]()

    def fail(message: Message) -> None:
        raise ValueError(message["data"])

    def handle(error: BaseException, subscriber: Any, thread: Any) -> None:
        errors.put(repr(error))
        thread.stop()

    with new_client(server.port, resp) as client:
        events = client.pubsub()
        events.subscribe(**{topic: fail})
        receive(events)
        thread = events.run_in_thread(sleep_time=SHORT, daemon=True, exception_handler=handle)
        client.publish(topic, "bad")
        assert errors.get(timeout=PATIENCE) == "ValueError(b'bad')"
        thread.join(PATIENCE)
        assert not thread.is_alive()


def test_a_subscription_made_while_another_thread_waits(server: ServerProcess, resp: Resp, topic: str) -> None:
    received = queues.Queue[object]()
    with new_client(server.port, resp) as client, client.pubsub() as events:
        thread = threading.Thread(target=lambda: received.put(receive(events)), daemon=True)
        thread.start()
        events.subscribe(topic)
        assert received.get(timeout=PATIENCE) == confirmation("subscribe", topic, 1)
        thread.join(PATIENCE)


def test_a_task_handles_messages_and_survives_a_broken_connection(
    server: ServerProcess, connect: Connect, resp: Resp, topic: str
) -> None:
    async def main() -> None:
        handled = asyncio.Queue[Message]()
        observer = connect()
        async with new_asyncio_client(server.port, resp, client_name=topic) as client, client.pubsub() as events:
            await events.connect()
            task = asyncio.create_task(events.run(poll_timeout=SHORT))
            await events.subscribe(**{topic: handled.put_nowait})  # late: it runs already
            victim = Client(id="", last="", topics=1, patterns=0)
            for body in ("before", "after"):
                while not has_come_back(observer, topic, victim):
                    await client.ping()
                await client.publish(topic, body)
                assert await handled.get() == TOPIC.event(topic, body)
                victim = kill_subscriber(observer, topic)
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task

    asyncio.run(main())


def test_an_error_in_a_task_goes_to_its_exception_handler(server: ServerProcess, resp: Resp, topic: str) -> None:
    async def main() -> None:
        errors = asyncio.Queue[str]()

        def fail(message: Message) -> None:
            raise ValueError(message["data"])

        def handle(error: BaseException, subscriber: Any) -> None:
            errors.put_nowait(repr(error))

        async with new_asyncio_client(server.port, resp) as client, client.pubsub() as events:
            await events.subscribe(**{topic: fail})
            await receive(events)
            task = asyncio.create_task(events.run(exception_handler=handle, poll_timeout=SHORT))
            for body in ("bad", "worse"):
                await client.publish(topic, body)
                assert await errors.get() == f"ValueError({body.encode()!r})"
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task

    asyncio.run(main())
