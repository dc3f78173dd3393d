"""redis-py's pub/sub, synchronous and on asyncio, with RESP3 (its default) and with RESP2.

A scenario is written once for both: it is a generator that yields what a call returned, which on asyncio has to be
awaited, and is sent the result. Where redis-py has no counterpart on the other side, a test is for one of them.
"""

from collections.abc import Awaitable, Callable, Generator
from typing import Any, Literal, NamedTuple, Protocol

import redis
import redis.asyncio
from redis.asyncio.retry import Retry as AsyncioRetry
from redis.backoff import NoBackoff
from redis.retry import Retry

from tests.clients.support import PATIENCE
from tests.support import Conn, ServerProcess
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
