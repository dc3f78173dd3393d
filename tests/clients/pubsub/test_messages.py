"""redis-py's subscribers: what is confirmed, what comes, and how long it is waited for."""

import json
import time
from typing import Any

import pytest
import redis
from redis import Subscription

from tests.clients.pubsub.stage import (
    A_TICK,
    PATTERN,
    SHARD,
    SHORT,
    TOPIC,
    Kind,
    Message,
    Play,
    Resp,
    Scenario,
    Stage,
    confirmation,
    pong,
    receive,
    subscriber_count,
    subscribers,
)
from tests.clients.support import PATIENCE
from tests.support import Connect, ServerProcess, wait_until

# -- subscribing -------------------------------------------------------------------------------------------------------


def test_each_subscription_is_confirmed_and_counted(play: Play, kind: Kind, topic: str) -> None:
    names = [kind.name(f"{topic}.{word}.x") for word in ("one", "two", "grün")]

    def scenario(stage: Stage) -> Scenario:
        events = stage.pubsub()
        assert not events.subscribed
        yield kind.subscribe(events, names[0])
        yield kind.subscribe(events, *names[1:])
        for count, name in enumerate(names, 1):
            assert (yield receive(events)) == kind.confirmed(name, count)
        yield kind.subscribe(events, names[0])
        assert (yield receive(events)) == kind.confirmed(names[0], 3)
        yield kind.unsubscribe(events, names[0])
        assert (yield receive(events)) == kind.ended(names[0], 2)
        yield kind.unsubscribe(events)
        assert [(yield receive(events)), (yield receive(events))] == [kind.ended(names[1], 1), kind.ended(names[2], 0)]
        assert not events.subscribed

    play(scenario)


def test_subscribing_again_before_the_confirmations_are_read(play: Play, kind: Kind, topic: str) -> None:
    one, two = (kind.name(f"{topic}.{word}.x") for word in ("one", "two"))

    def scenario(stage: Stage) -> Scenario:
        events = stage.pubsub()
        yield kind.subscribe(events, one)
        yield kind.unsubscribe(events, one)
        yield kind.subscribe(events, one)
        yield kind.unsubscribe(events)
        yield kind.subscribe(events, two)
        for expected in (
            kind.confirmed(one, 1),
            kind.ended(one, 0),
            kind.confirmed(one, 1),
            kind.ended(one, 0),
            kind.confirmed(two, 1),
        ):
            assert events.subscribed
            assert (yield receive(events)) == expected
        assert events.subscribed

    play(scenario)


def test_topics_and_patterns_are_counted_together_and_shards_apart(play: Play, topic: str) -> None:
    def scenario(stage: Stage) -> Scenario:
        events = stage.pubsub()
        for kind, count in ((TOPIC, 1), (PATTERN, 2), (SHARD, 1)):
            name = kind.name(f"{topic}.x")
            yield kind.subscribe(events, name)
            assert (yield receive(events)) == kind.confirmed(name, count)
        yield events.unsubscribe("never.subscribed")
        assert (yield receive(events)) == confirmation("unsubscribe", "never.subscribed", 2)
        yield events.unsubscribe()
        assert (yield receive(events)) == confirmation("unsubscribe", f"{topic}.x", 1)
        yield events.unsubscribe()
        nothing = {"type": "unsubscribe", "pattern": None, "channel": None, "data": 1}
        assert (yield receive(events)) == nothing

    play(scenario)


def test_a_glob_is_refused_and_the_subscriber_lives_on(play: Play, topic: str) -> None:
    def scenario(stage: Stage) -> Scenario:
        events = stage.pubsub()
        yield events.subscribe(topic)
        yield receive(events)
        yield events.psubscribe(f"{topic}*")
        with pytest.raises(redis.ResponseError, match=r"INVALIDTOPIC .*\* \(one word\) or # \(any number of words\)"):
            yield receive(events)
        yield events.subscribe("news.*")
        with pytest.raises(redis.ResponseError, match=r"INVALIDTOPIC .* PSUBSCRIBE"):
            yield receive(events)
        assert (yield stage.client.publish(topic, "still here")) == 1
        assert (yield receive(events)) == TOPIC.event(topic, "still here")

    play(scenario)


def test_a_closed_subscriber_gives_its_connection_back(play: Play, topic: str) -> None:
    def scenario(stage: Stage) -> Scenario:
        events = stage.pubsub()
        for _ in range(3):
            yield events.subscribe(topic)
            with pytest.raises(redis.ConnectionError):
                yield stage.client.ping()  # the pool's only connection is taken
            yield stage.close(events)
            assert events.connection is None
            assert events.channels == {}
            assert (yield stage.client.ping()) is True

    play(scenario, max_connections=1, retries=0)


def test_nothing_is_left_of_subscribers_that_never_read(play: Play, connect: Connect, topic: str) -> None:
    def scenario(stage: Stage) -> Scenario:
        for _ in range(50):
            yield stage.pubsub().subscribe(topic, f"{topic}.more")
        observer = connect()
        wait_until(lambda: subscriber_count(observer, topic) == 50, "50 subscribers")

    play(scenario)
    observer = connect()
    wait_until(lambda: subscriber_count(observer, topic) == 0, "no subscribers")


# -- messages ----------------------------------------------------------------------------------------------------------


def test_a_message(play: Play, kind: Kind, topic: str) -> None:
    def scenario(stage: Stage) -> Scenario:
        events = stage.pubsub()
        yield kind.subscribe(events, kind.name(f"{topic}.x"))
        yield receive(events)
        for body in ("first", "", "grün\r\n"):
            assert (yield kind.publish(stage.client, f"{topic}.x", body)) == 1
        for body in ("first", "", "grün\r\n"):
            assert (yield receive(events)) == kind.event(f"{topic}.x", body)
        yield kind.unsubscribe(events)
        assert (yield receive(events))["type"] == f"{kind.letter}unsubscribe"
        assert (yield kind.publish(stage.client, f"{topic}.x", "nobody")) == 0

    play(scenario)


def test_a_message_comes_once_through_each_subscription_that_matches(play: Play, topic: str) -> None:
    patterns = [f"{topic}.*", f"{topic}.#", f"{topic.partition('.')[0]}.*.x"]

    def scenario(stage: Stage) -> Scenario:
        events = stage.pubsub()
        yield events.subscribe(f"{topic}.x")
        yield events.psubscribe(*patterns, f"{topic}.*.x")
        yield events.ssubscribe(f"{topic}.x")
        for _ in range(6):
            yield receive(events)
        assert (yield stage.client.publish(f"{topic}.x", "seen")) == 4
        received: list[Message] = []
        for _ in range(4):
            received += [(yield receive(events))]
        assert received[0] == TOPIC.event(f"{topic}.x", "seen")
        assert {message["pattern"] for message in received[1:]} == {pattern.encode() for pattern in patterns}
        for message in received[1:]:
            assert message == PATTERN.event(f"{topic}.x", "seen") | {"pattern": message["pattern"]}
        assert (yield events.get_message(timeout=SHORT)) is None

    play(scenario)


def test_strings_instead_of_bytes(play: Play, kind: Kind, topic: str) -> None:
    name = kind.name(f"{topic}.grün.x")
    handled: list[Message] = []
    expected = {
        "type": f"{kind.letter}message",
        "pattern": name if kind == PATTERN else None,
        "channel": f"{topic}.grün.x",
        "data": "äöü",
    }

    def scenario(stage: Stage) -> Scenario:
        events = stage.pubsub()
        yield kind.subscribe(events, name)
        assert (yield receive(events)) == kind.confirmed(name, 1) | {"channel": name}
        yield kind.publish(stage.client, f"{topic}.grün.x", "äöü")
        assert (yield receive(events)) == expected
        yield kind.subscribe(events, **{name: handled.append})
        yield receive(events)
        yield events.connection.disconnect()
        assert (yield receive(events)) == kind.confirmed(name, 1) | {"channel": name}
        yield kind.publish(stage.client, f"{topic}.grün.x", "äöü")
        assert (yield receive(events)) is None
        assert handled == [expected]

    play(scenario, decode_responses=True)


def test_names_and_bodies_that_are_no_text(play: Play, topic: str) -> None:
    name = topic.encode() + b"\x80\x81\xff"
    handled: list[Message] = []
    expected = {"pattern": None, "channel": name, "data": b"\x00\xff"}

    def scenario(stage: Stage) -> Scenario:
        events = stage.pubsub()
        yield events.subscribe(name)
        yield events.psubscribe(Subscription(name + b".*", handled.append))
        for _ in range(2):
            assert [(yield receive(events)), (yield receive(events))] == [
                confirmation("subscribe", name, 1),
                confirmation("psubscribe", name + b".*", 2),
            ]
            yield stage.client.publish(name, b"\x00\xff")
            assert (yield receive(events)) == {"type": "message"} | expected
            yield stage.client.publish(name + b".\xfe", b"\x00\xff")
            assert (yield receive(events)) is None
            assert handled.pop() == expected | {
                "type": "pmessage",
                "pattern": name + b".*",
                "channel": name + b".\xfe",
            }
            yield events.connection.disconnect()

    play(scenario)


def test_handlers(play: Play, kind: Kind, topic: str) -> None:
    handled: list[Message] = []
    name = kind.name(f"{topic}.x")

    def scenario(stage: Stage) -> Scenario:
        events = stage.pubsub()
        yield kind.subscribe(events, **{name: handled.append})
        assert (yield receive(events)) == kind.confirmed(name, 1)
        assert (yield kind.publish(stage.client, f"{topic}.x", "for the handler")) == 1
        assert (yield receive(events)) is None
        assert handled == [kind.event(f"{topic}.x", "for the handler")]

    play(scenario)


def test_push_handler(play: Play, kind: Kind, topic: str, resp: Resp) -> None:
    """Of RESP3 alone: in RESP2 there are no pushes, and the handler isn't asked."""
    pushed: list[object] = []
    name = kind.name(f"{topic}.x").encode()

    async def keep(push: object) -> None:
        pushed.append(push)

    def scenario(stage: Stage) -> Scenario:
        events = stage.pubsub(push_handler_func=keep if stage.on_asyncio else pushed.append)
        yield kind.subscribe(events, name)
        confirmed = yield receive(events)
        yield kind.publish(stage.client, f"{topic}.x", "pushed")
        event = yield receive(events)
        if resp == 2:
            assert pushed == []
            assert [confirmed, event] == [kind.confirmed(name, 1), kind.event(f"{topic}.x", "pushed")]
            return
        assert [confirmed, event] == [None, None]
        names = [name] if kind == PATTERN else []
        assert pushed == [
            [f"{kind.letter}subscribe".encode(), name, 1],
            [f"{kind.letter}message".encode(), *names, f"{topic}.x".encode(), b"pushed"],
        ]

    play(scenario)


@pytest.mark.parametrize("always", [True, False], ids=["always", "once"])
def test_confirmations_can_be_ignored(play: Play, kind: Kind, topic: str, always: bool) -> None:
    name = kind.name(f"{topic}.x")

    def scenario(stage: Stage) -> Scenario:
        events = stage.pubsub(ignore_subscribe_messages=always)

        def ignoring() -> Any:
            return events.get_message(ignore_subscribe_messages=not always, timeout=PATIENCE)

        yield kind.subscribe(events, name)
        assert (yield ignoring()) is None
        yield kind.publish(stage.client, f"{topic}.x", "not ignored")
        assert (yield ignoring()) == kind.event(f"{topic}.x", "not ignored")
        yield kind.unsubscribe(events)
        assert events.subscribed
        assert (yield ignoring()) is None
        assert not events.subscribed

    play(scenario)


# -- waiting -----------------------------------------------------------------------------------------------------------


def test_get_message_ends_when_its_time_is_over(play: Play, topic: str) -> None:
    def scenario(stage: Stage) -> Scenario:
        events = stage.pubsub()
        yield events.subscribe(topic)
        yield receive(events)
        assert (yield events.get_message()) is None
        began = time.monotonic()
        assert (yield events.get_message(timeout=SHORT)) is None
        assert time.monotonic() - began >= SHORT - A_TICK
        yield stage.client.publish(topic, "in time")
        assert (yield receive(events)) == TOPIC.event(topic, "in time")

    play(scenario)


@pytest.mark.parametrize("how", ["get_message", "listen"])
def test_waiting_without_end_for_what_comes_later(play: Play, queue: str, how: str) -> None:
    """Something dies later, and the broker announces it; longer than `socket_timeout`, which isn't for this."""

    def scenario(stage: Stage) -> Scenario:
        events = stage.pubsub()
        listening = events.listen()

        def wait() -> Any:
            return events.get_message(timeout=None) if how == "get_message" else stage.following(listening)

        yield events.subscribe(f"$sys.dead.{queue}")
        assert (yield wait()) == confirmation("subscribe", f"$sys.dead.{queue}", 1)
        yield stage.client.execute_command("QDECLARE", queue)
        yield stage.client.execute_command("QPUT", queue, "too late", "TTL", "750ms")
        events.connection.socket_timeout = 0.25
        message = yield wait()
        assert message["type"] == "message"
        assert json.loads(message["data"])["reason"] == "ttl_expired"

    play(scenario)


def test_listen_gives_everything_in_order_and_ends_after_the_last_subscription(play: Play, topic: str) -> None:
    bodies = [f"event {i}" for i in range(200)]

    def scenario(stage: Stage) -> Scenario:
        events = stage.pubsub()
        listening = events.listen()
        yield events.subscribe(topic)
        assert (yield stage.following(listening)) == confirmation("subscribe", topic, 1)
        pipeline = stage.client.pipeline(transaction=False)
        for body in bodies:
            pipeline.publish(topic, body)
        assert (yield pipeline.execute()) == [1] * len(bodies)
        yield events.unsubscribe()
        for body in bodies:
            assert (yield stage.following(listening)) == TOPIC.event(topic, body)
        assert (yield stage.following(listening)) == confirmation("unsubscribe", topic, 0)
        assert (yield stage.following(listening)) is None

    play(scenario)


# -- PING --------------------------------------------------------------------------------------------------------------


def test_ping_of_a_subscriber(play: Play, kind: Kind, topic: str) -> None:
    def scenario(stage: Stage) -> Scenario:
        events = stage.pubsub()
        yield kind.subscribe(events, kind.name(f"{topic}.x"))
        yield receive(events)
        yield events.ping()
        yield events.ping("are you there?")
        yield kind.publish(stage.client, f"{topic}.x", "in between")
        received: list[object] = []
        for _ in range(3):
            received += [(yield receive(events))]
        event = kind.event(f"{topic}.x", "in between")
        assert event in received
        received.remove(event)
        assert received == [pong(b""), pong(b"are you there?")]

    play(scenario)


def test_health_checks_are_answered_and_not_shown(play: Play, connect: Connect, topic: str) -> None:
    observer = connect()

    def scenario(stage: Stage) -> Scenario:
        events = stage.pubsub()
        yield events.subscribe(topic)
        yield receive(events)
        for i in range(3):
            events.connection.next_health_check = 0
            assert (yield receive(events)) is None  # it was the reply
            assert [client.last for client in subscribers(observer, topic)] == ["ping"]
            yield stage.client.publish(topic, f"event {i}")
            assert (yield receive(events)) == TOPIC.event(topic, f"event {i}")
        yield events.unsubscribe()
        yield receive(events)
        assert not events.subscribed

    play(scenario, client_name=topic, health_check_interval=3600)


# -- PUBSUB ------------------------------------------------------------------------------------------------------------


def test_counts(play: Play, fresh_server: ServerProcess) -> None:
    def scenario(stage: Stage) -> Scenario:
        client = stage.client
        assert (yield client.pubsub_channels("#")) == []
        assert (yield client.pubsub_shardchannels("#")) == []
        assert (yield client.pubsub_numpat()) == 0
        assert (yield client.pubsub_numsub()) == []
        subscribers = [stage.pubsub() for _ in range(3)]
        for n, events in enumerate(subscribers):
            topics = ["orders.eu", "orders.us", "news"][n:]
            yield events.subscribe(*topics)
            yield events.ssubscribe(topics[-1])
            yield events.psubscribe("orders.*", f"news.{n}")
            for _ in range(len(topics) + 3):
                yield receive(events)
        assert sorted((yield client.pubsub_channels("#"))) == [b"news", b"orders.eu", b"orders.us"]
        assert sorted((yield client.pubsub_channels("orders.*"))) == [b"orders.eu", b"orders.us"]
        assert (yield client.pubsub_channels("orders.asia")) == []
        assert (yield client.pubsub_shardchannels("#")) == [b"news"]
        assert (yield client.pubsub_numpat()) == 4
        names = ("orders.eu", "orders.us", "news", "nobody")
        counted = [(b"orders.eu", 1), (b"orders.us", 2), (b"news", 3), (b"nobody", 0)]
        assert (yield client.pubsub_numsub(*names)) == counted
        counted = [(b"orders.eu", 0), (b"news", 3)]
        assert [tuple(pair) for pair in pairs((yield client.pubsub_shardnumsub("orders.eu", "news")))] == counted

    play(scenario, at=fresh_server)


def pairs(reply: list[Any]) -> list[Any]:
    """redis-py makes pairs of the reply to PUBSUB NUMSUB, but not always of that to PUBSUB SHARDNUMSUB."""
    return reply if reply and isinstance(reply[0], tuple) else list(zip(reply[::2], reply[1::2], strict=True))
