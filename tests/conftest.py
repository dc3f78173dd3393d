"""Fixtures of every test that talks to a server: the servers, connections to them, and a queue name of its own."""

from __future__ import annotations

import itertools
from collections.abc import Iterator

import pytest

from tests.support import Conn, Connect, ServerProcess, start_server

_numbers = itertools.count(1)


def _serve(*flags: str) -> Iterator[ServerProcess]:
    """One server, which must end in order and must not have met an exception that nobody expected."""
    with start_server(*flags) as running:
        yield running
        assert running.running, f"the server ended by itself:\n{running.log}"
        assert running.stop() == 0, running.log
        assert "Traceback" not in running.log, running.log


@pytest.fixture(scope="session")
def server() -> Iterator[ServerProcess]:
    """The session's server, with the default settings."""
    yield from _serve()


@pytest.fixture(scope="session")
def virtual_server() -> Iterator[ServerProcess]:
    """The session's server on a clock that stands still until a test advances it."""
    yield from _serve("--virtual-clock")


@pytest.fixture
def fresh_server() -> Iterator[ServerProcess]:
    """A server for one test that changes settings, stops it or measures it."""
    yield from _serve()


@pytest.fixture
def fresh_virtual_server() -> Iterator[ServerProcess]:
    """A server on a virtual clock for one test."""
    yield from _serve("--virtual-clock")


@pytest.fixture
def open_connections() -> Iterator[list[Conn]]:
    """What `connect` has opened; closed at the end, before any server of the test stops."""
    opened: list[Conn] = []
    yield opened
    for one in opened:
        one.close()


@pytest.fixture
def connect(request: pytest.FixtureRequest, open_connections: list[Conn]) -> Connect:
    """Opens connections, to the session's server unless another one is named."""

    def open_one(server: ServerProcess | None = None, *, resp: int = 2) -> Conn:
        target = request.getfixturevalue("server") if server is None else server
        assert isinstance(target, ServerProcess)
        conn = Conn(target.port)
        open_connections.append(conn)
        if resp != 2:
            conn.hello(resp)
        return conn

    return open_one


@pytest.fixture
def conn(connect: Connect) -> Conn:
    """A connection to the session's server."""
    return connect()


@pytest.fixture
def virtual(virtual_server: ServerProcess, connect: Connect) -> Conn:
    """A connection to the session's server on a virtual clock."""
    return connect(virtual_server)


@pytest.fixture
def queue() -> str:
    """The name of a queue that nothing else uses; it is not declared."""
    return f"test.queue-{next(_numbers)}"
