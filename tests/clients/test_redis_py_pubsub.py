"""redis-py's pub/sub, synchronous and on asyncio, with RESP3 (its default) and with RESP2.

A scenario is written once for both: it is a generator that yields what a call returned, which on asyncio has to be
awaited, and is sent the result. Where redis-py has no counterpart on the other side, a test is for one of them.
"""

import asyncio
import json
import queue as queues
import signal
import threading
import time
from collections.abc import Awaitable, Callable, Generator, Iterator
from functools import partial
from types import FrameType
from typing import Any, Literal, NamedTuple, Protocol

import pytest
import redis
import redis.asyncio
from redis import Subscription
from redis.asyncio.retry import Retry as AsyncioRetry
from redis.backoff import NoBackoff
from redis.retry import Retry

from tests.clients.support import PATIENCE
from tests.support import Conn, Connect, ServerProcess, wait_until
from tests.support.values import as_int

Scenario = Generator[Any, Any, None]
Resp = Literal[2, 3]
Message = dict[str, object]

SHORT = 0.05
A_TICK = 0.016  # a wait may end so much early, by how coarse a clock is


class Stage:
    """What a scenario has: a client, and the subscribers that it opens, of the one or the other side of redis-py."""

    def __init__(self, client: Any, *, on_asyncio: bool) -> None:
        self.client = client
        self.on_asyncio = on_asyncio
        self.subscribers: list[Any] = []

    def pubsub(self, **options: Any) -> Any:
        subscriber = self.client.pubsub(**options)
        self.subscribers.append(subscriber)
        return subscriber

    def close(self, subscriber: Any) -> Any:
        return subscriber.aclose() if self.on_asyncio else subscriber.close()

    def following(self, listening: Any) -> Any:
        """The next of what listen() gives, None at its end."""
        return anext(listening, None) if self.on_asyncio else next(listening, None)


class Play(Protocol):
    """Plays a scenario against the session's server, or another one. `options` are the client's."""

    def __call__(
        self, scenario: Callable[[Stage], Scenario], *, at: ServerProcess | None = None, **options: Any
    ) -> None: ...


def new_client(port: int, resp: Resp, **options: Any) -> Any:
    """A synchronous client; with `retries=0` it reports errors that it would otherwise see to itself."""
    if "retries" in options:
        options["retry"] = Retry(NoBackoff(), options.pop("retries"))
    return redis.Redis(port=port, protocol=resp, socket_timeout=PATIENCE, **options)


def new_asyncio_client(port: int, resp: Resp, **options: Any) -> Any:
    if "retries" in options:
        options["retry"] = AsyncioRetry(NoBackoff(), options.pop("retries"))
    return redis.asyncio.Redis(port=port, protocol=resp, socket_timeout=PATIENCE, **options)


def play_synchronously(scenario: Callable[[Stage], Scenario], port: int, resp: Resp, **options: Any) -> None:
    with new_client(port, resp, **options) as client:
        stage = Stage(client, on_asyncio=False)
        steps = scenario(stage)
        try:
            result = next(steps)
            while True:
                result = steps.send(result)
        except StopIteration:
            pass
        finally:
            for subscriber in stage.subscribers:
                stage.close(subscriber)


async def play_on_asyncio(scenario: Callable[[Stage], Scenario], port: int, resp: Resp, **options: Any) -> None:
    async with new_asyncio_client(port, resp, **options) as client:
        stage = Stage(client, on_asyncio=True)
        steps = scenario(stage)
        try:
            call: Awaitable[Any] = next(steps)
            while True:
                try:
                    result = await call
                except redis.RedisError as error:
                    call = steps.throw(error)
                else:
                    call = steps.send(result)
        except StopIteration:
            pass
        finally:
            for subscriber in stage.subscribers:
                await stage.close(subscriber)


@pytest.fixture(autouse=True)
def _deadline() -> Iterator[None]:
    """What redis-py waits for without end fails here, with the place."""

    def give_up(number: int, frame: FrameType | None) -> None:
        pytest.fail(f"still waiting after {PATIENCE} s")

    before = signal.signal(signal.SIGALRM, give_up)
    signal.setitimer(signal.ITIMER_REAL, PATIENCE)
    yield
    signal.setitimer(signal.ITIMER_REAL, 0)
    signal.signal(signal.SIGALRM, before)


@pytest.fixture(params=[3, 2], ids=["resp3", "resp2"])
def resp(request: pytest.FixtureRequest) -> Resp:
    return 3 if request.param == 3 else 2


@pytest.fixture(params=["sync", "asyncio"])
def play(request: pytest.FixtureRequest, server: ServerProcess, resp: Resp) -> Play:
    def play_it(scenario: Callable[[Stage], Scenario], *, at: ServerProcess | None = None, **options: Any) -> None:
        port = (at or server).port
        if request.param == "sync":
            play_synchronously(scenario, port, resp, **options)
        else:
            asyncio.run(play_on_asyncio(scenario, port, resp, **options))

    return play_it


class Kind(NamedTuple):
    """A kind of subscription; `letter` is what its commands and frames begin with."""

    letter: str

    def subscribe(self, subscriber: Any, *names: Any, **handlers: Any) -> Any:
        return getattr(subscriber, f"{self.letter}subscribe")(*names, **handlers)

    def unsubscribe(self, subscriber: Any, *names: Any) -> Any:
        return getattr(subscriber, f"{self.letter}unsubscribe")(*names)

    def publish(self, client: Any, topic: str | bytes, body: str | bytes) -> Any:
        return client.spublish(topic, body) if self.letter == "s" else client.publish(topic, body)

    def name(self, topic: str) -> str:
        """What to subscribe to for the events of a topic and, with a pattern, of its siblings."""
        return f"{topic.rpartition('.')[0]}.*" if self.letter == "p" else topic

    def confirmed(self, name: str | bytes, count: int) -> Message:
        return confirmation(f"{self.letter}subscribe", name, count)

    def ended(self, name: str | bytes, count: int) -> Message:
        return confirmation(f"{self.letter}unsubscribe", name, count)

    def event(self, topic: str, body: str) -> Message:
        """What comes through `name(topic)`."""
        pattern = as_bytes(self.name(topic)) if self.letter == "p" else None
        return {
            "type": f"{self.letter}message",
            "pattern": pattern,
            "channel": as_bytes(topic),
            "data": as_bytes(body),
        }


TOPIC, PATTERN, SHARD = Kind(""), Kind("p"), Kind("s")


@pytest.fixture(params=[TOPIC, PATTERN, SHARD], ids=["topic", "pattern", "shard"])
def kind(request: pytest.FixtureRequest) -> Kind:
    assert isinstance(request.param, Kind)
    return request.param


@pytest.fixture
def topic(queue: str) -> str:
    """A topic of the test's own."""
    return queue


def as_bytes(text: str | bytes) -> bytes:
    return text if isinstance(text, bytes) else text.encode()


def confirmation(what: str, name: str | bytes, count: int) -> Message:
    return {"type": what, "pattern": None, "channel": as_bytes(name), "data": count}


def pong(body: bytes) -> Message:
    return {"type": "pong", "pattern": None, "channel": None, "data": body}


def receive(subscriber: Any) -> Any:
    """The next message; None if redis-py has seen to it itself."""
    return subscriber.get_message(timeout=PATIENCE)


def subscriber_count(observer: Conn, topic: str) -> int:
    _, count = observer.array("PUBSUB", "NUMSUB", topic)
    return as_int(count)


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


# -- connections that break --------------------------------------------------------------------------------------------


class Client(NamedTuple):
    """A client with subscriptions, as the server lists it. `last` is the command that it sent last."""

    id: str
    last: str
    topics: int
    patterns: int


def subscribers(observer: Conn, name: str) -> list[Client]:
    """The clients with this name that have subscriptions."""
    listed = [
        dict(field.split("=", 1) for field in line.split(" ")) for line in observer.text("CLIENT", "LIST").splitlines()
    ]
    clients = [
        Client(one["id"], one["cmd"], int(one["sub"]), int(one["psub"])) for one in listed if one["name"] == name
    ]
    return [client for client in clients if client.topics + client.patterns]


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
