"""A client of either kind, with either protocol, behind the same blocking methods."""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Iterator
from typing import Any

import pytest

from respmq.redis import AsyncRespMQ, RespMQ
from tests.support import ServerProcess

KINDS = ["blocking-2", "blocking-3", "asyncio-2", "asyncio-3"]


class Awaited:
    """An `AsyncRespMQ` whose methods are run to their end."""

    def __init__(self, port: int, **options: Any) -> None:
        self.loop = asyncio.new_event_loop()
        self.client = AsyncRespMQ(port=port, **options)

    def __getattr__(self, name: str) -> Any:
        method = getattr(self.client, name)

        def call(*args: Any, **options: Any) -> Any:
            result = method(*args, **options)
            return self.loop.run_until_complete(result) if inspect.isawaitable(result) else result

        return call

    def close(self) -> None:
        self.loop.run_until_complete(self.client.aclose())
        self.loop.close()


def make(kind: str, port: int, **options: Any) -> Any:
    """A client of a kind."""
    name, _, protocol = kind.partition("-")
    options["protocol"] = int(protocol)
    return RespMQ(port=port, **options) if name == "blocking" else Awaited(port, **options)


@pytest.fixture(params=KINDS)
def r(request: pytest.FixtureRequest, server: ServerProcess) -> Iterator[Any]:
    """A client of each kind, of the session's server."""
    client = make(request.param, server.port)
    yield client
    client.close()


@pytest.fixture
def mq(server: ServerProcess) -> Iterator[RespMQ]:
    """A client that blocks."""
    with RespMQ(port=server.port) as client:
        yield client
