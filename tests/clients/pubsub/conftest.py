"""Fixtures of the tests of redis-py's pub/sub."""

import asyncio
import signal
from collections.abc import Callable, Iterator
from types import FrameType
from typing import Any

import pytest

from tests.clients.pubsub.stage import (
    PATTERN,
    SHARD,
    TOPIC,
    Kind,
    Play,
    Resp,
    Scenario,
    Stage,
    play_on_asyncio,
    play_synchronously,
)
from tests.clients.support import PATIENCE
from tests.support import ServerProcess


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


@pytest.fixture(params=[TOPIC, PATTERN, SHARD], ids=["topic", "pattern", "shard"])
def kind(request: pytest.FixtureRequest) -> Kind:
    assert isinstance(request.param, Kind)
    return request.param


@pytest.fixture
def topic(queue: str) -> str:
    """A topic of the test's own."""
    return queue
