"""Fixtures of the client's tests: a server in this process, and clients of it."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from respmq import Client, EmbeddedServer, open_server
from tests.support.control import Control, open_control
from tests.support.proxy import Proxy, open_proxy


@pytest.fixture
async def broker() -> AsyncIterator[EmbeddedServer]:
    """A server for one test."""
    async with open_server() as server:
        yield server


@pytest.fixture
async def mq(broker: EmbeddedServer) -> AsyncIterator[Client]:
    """A client of it."""
    async with Client(broker.host, broker.port) as client:
        yield client


@pytest.fixture
async def proxy(broker: EmbeddedServer) -> AsyncIterator[Proxy]:
    """A proxy in front of it."""
    async with open_proxy(broker.port) as running:
        yield running


@pytest.fixture
async def far(proxy: Proxy) -> AsyncIterator[Client]:
    """A client behind the proxy."""
    async with Client("127.0.0.1", proxy.port, timeout=5) as client:
        yield client


@pytest.fixture
async def control(broker: EmbeddedServer) -> AsyncIterator[Control]:
    """What the server says, over a connection of its own."""
    async with open_control(broker.port) as connection:
        yield connection
