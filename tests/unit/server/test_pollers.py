"""Both ways to find out which sockets are ready, and a whole server on each of them."""

from __future__ import annotations

import os
import random
import socket
import time
from typing import TYPE_CHECKING

import pytest
import trio
import trio.testing

from respmq.commands.registry import load
from respmq.config import Config
from respmq.engine.memory import MemoryEngine
from respmq.server.poller import HANG_UP, READ, WRITE, EpollPoller, Poller, SelectorPoller
from respmq.server.reactor import Reactor
from respmq.server.state import State

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    Pair = tuple[socket.socket, socket.socket]

POLLERS: list[Callable[[], Poller]] = [EpollPoller, SelectorPoller]


@pytest.fixture(params=POLLERS, ids=["epoll", "selectors"])
def poller(request: pytest.FixtureRequest) -> Iterator[Poller]:
    made: Poller = request.param()
    yield made
    made.close()


@pytest.fixture
def pair() -> Iterator[Pair]:
    one, other = socket.socketpair()
    with one, other:
        yield one, other


def test_a_socket_is_ready_for_what_was_asked(poller: Poller, pair: Pair) -> None:
    here, there = pair
    fd = here.fileno()
    poller.set(fd, READ)
    assert poller.ready() == []
    there.send(b"x")
    assert poller.ready() == [(fd, READ)]
    poller.set(fd, READ | WRITE)
    assert poller.ready() == [(fd, READ | WRITE)]
    poller.set(fd, WRITE)
    assert poller.ready() == [(fd, WRITE)]
    poller.set(fd, 0)
    assert poller.ready() == []
    poller.set(fd, READ)
    assert poller.ready() == [(fd, READ)]


def test_a_forgotten_socket_is_not_watched(poller: Poller, pair: Pair) -> None:
    here, there = pair
    poller.set(here.fileno(), READ)
    there.send(b"x")
    poller.forget(here.fileno())
    assert poller.ready() == []
    poller.forget(here.fileno())


def test_a_peer_that_has_closed_makes_the_socket_readable(poller: Poller, pair: Pair) -> None:
    here, there = pair
    poller.set(here.fileno(), READ)
    there.close()
    [(fd, event)] = poller.ready()
    assert fd == here.fileno()
    assert event & READ


def test_epoll_shows_a_hang_up_even_when_nothing_is_read(pair: Pair) -> None:
    here, there = pair
    poller = EpollPoller()
    poller.set(here.fileno(), 0)
    there.close()
    [(_, event)] = poller.ready()
    assert event & HANG_UP
    poller.close()


@pytest.mark.parametrize("make", POLLERS, ids=["epoll", "selectors"])
async def test_a_server_serves_on_either(make: Callable[[], Poller]) -> None:
    """Requests, a wait that is answered, a wait whose client goes, a large reply to a slow reader, and the stop."""
    now = time.time_ns() // 1_000_000
    state = State(
        Config(),
        MemoryEngine(now, os.urandom, random.uniform),
        load(),
        time.perf_counter_ns,
        lambda *_args, **_details: None,
    )
    listener = socket.socket()
    listener.bind(("127.0.0.1", 0))
    listener.listen()
    listener.setblocking(False)
    address = listener.getsockname()
    reactor = Reactor(state, [listener], lambda: now, make())

    async def connect() -> trio.SocketStream:
        return await trio.open_tcp_stream("127.0.0.1", address[1])

    async def ask(stream: trio.SocketStream, request: bytes, reply: bytes) -> None:
        await stream.send_all(request)
        got = b""
        while len(got) < len(reply):
            got += await stream.receive_some()
        assert got == reply

    async def blocked(count: int) -> None:
        while state.blocked_clients != count:
            await trio.testing.wait_all_tasks_blocked()

    with trio.fail_after(30):
        async with trio.open_nursery() as nursery:
            nursery.start_soon(reactor.run)
            one, two, gone = await connect(), await connect(), await connect()
            await ask(one, b"PING\r\n", b"+PONG\r\n")
            await ask(one, b"QDECLARE q\r\n", b"+OK\r\n")
            await gone.send_all(b"QLEASE q WAIT 0\r\n")
            await blocked(1)
            await gone.aclose()
            await blocked(0)
            await two.send_all(b"QLEASE q WAIT 0\r\n")
            await blocked(1)
            await ask(one, b"QPUT q hello ID x\r\n", b"$1\r\nx\r\n")
            assert (await two.receive_some()).startswith(b"*1\r\n*5\r\n$1\r\nq\r\n$1\r\nx\r\n")
            body = b"x" * 8_000_000
            await ask(one, b"*2\r\n$4\r\nECHO\r\n$8000000\r\n" + body + b"\r\n", b"$8000000\r\n" + body + b"\r\n")
            reactor.stop()
            assert await one.receive_some() == b""
            await one.aclose()
            await two.aclose()
