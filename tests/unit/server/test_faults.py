"""A fault of ours ends the connection that met it, is logged, and ends nothing else."""

from __future__ import annotations

import os
import random
import socket
import time
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Any

import pytest
import trio

from respmq.commands.registry import load
from respmq.config import Config
from respmq.engine.memory import MemoryEngine
from respmq.server.client import Client
from respmq.server.connection import Connection
from respmq.server.heartbeat import Pulse
from respmq.server.notice import Level
from respmq.server.reactor import Reactor
from respmq.server.session import Session
from respmq.server.state import State


class Fault(Exception):
    """Something that nobody has thought of."""


class Served:
    """A server in this process, and what it has logged."""

    def __init__(self) -> None:
        self.log: list[tuple[str, Level, dict[str, object]]] = []
        self.now = time.time_ns() // 1_000_000
        self.state = State(
            Config(), MemoryEngine(self.now, os.urandom, random.uniform), load(), time.perf_counter_ns, self._notice
        )
        listener = socket.create_server(("127.0.0.1", 0))
        listener.setblocking(False)
        self.port: int = listener.getsockname()[1]
        self.reactor = Reactor(self.state, [listener], lambda: self.now)

    def _notice(self, event: str, *, level: Level = "info", **details: object) -> None:
        self.log.append((event, level, details))

    @property
    def faults(self) -> list[object]:
        """What was logged of faults."""
        assert all((event, level) == ("internal error", "error") for event, level, _ in self.log)
        return [details["exc_info"] for _, _, details in self.log]

    async def connect(self) -> trio.SocketStream:
        return await trio.open_tcp_stream("127.0.0.1", self.port)

    async def works(self) -> None:
        """A new client is served."""
        async with await self.connect() as client:
            assert await ask(client, b"PING\r\n") == b"+PONG\r\n"


async def ask(stream: trio.SocketStream, request: bytes) -> bytes:
    await stream.send_all(request)
    return bytes(await stream.receive_some())


@asynccontextmanager
async def serving() -> AsyncGenerator[Served]:
    served = Served()
    with trio.fail_after(30):
        async with trio.open_nursery() as nursery:

            async def run() -> None:
                await served.reactor.run()
                nursery.cancel_scope.cancel()

            nursery.start_soon(run)
            nursery.start_soon(served.reactor.tidy)
            try:
                yield served
            finally:
                served.reactor.stop()


def failing_once(monkeypatch: pytest.MonkeyPatch, owner: type, name: str) -> Fault:
    """Let the next call of a method raise, after what it has to do where that is to close."""
    original: Any = getattr(owner, name)
    fault = Fault(name)
    calls = []

    def call(self: Any, *args: Any, **options: Any) -> Any:
        calls.append(self)
        result = original(self, *args, **options)
        if len(calls) == 1:
            raise fault
        return result

    monkeypatch.setattr(owner, name, call)
    return fault


@pytest.mark.parametrize(
    ("owner", "name"),
    [(Session, "close"), (Connection, "write"), (Client, "written"), (Session, "receive"), (Client, "take_out")],
)
async def test_a_connection_that_fails_ends_alone(owner: type, name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    async with serving() as served:
        async with await served.connect() as other, await served.connect() as one:
            assert await ask(other, b"PING\r\n") == b"+PONG\r\n"
            fault = failing_once(monkeypatch, owner, name)
            # Large, so that its answer is counted; and the end, which takes the long way of writing.
            await one.send_all(b"ECHO " + b"x" * 8_000 + b"\r\nQUIT\r\n")
            while await one.receive_some():
                pass
            assert await ask(other, b"PING\r\n") == b"+PONG\r\n"
        await served.works()
        assert served.faults == [fault]


async def test_a_connection_that_fails_when_it_is_idle_ends_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    fault = failing_once(monkeypatch, Pulse, "lost")
    async with serving() as served:
        async with await served.connect() as one:
            assert await one.receive_some() == b""
        await served.works()
        assert served.faults == [fault]


async def test_a_connection_that_can_t_be_begun_is_closed(monkeypatch: pytest.MonkeyPatch) -> None:
    async with serving() as served:
        fault = failing_once(monkeypatch, State, "next_client_id")
        async with await served.connect() as one:
            assert await one.receive_some() == b""
        await served.works()
        assert served.faults == [fault]


async def test_what_is_due_and_fails_does_not_end_the_server(monkeypatch: pytest.MonkeyPatch) -> None:
    """It is tried again after a while."""
    async with serving() as served:
        await served.works()
        fault = failing_once(monkeypatch, State, "tick")
        await served.works()
        assert served.faults == [fault]
        async with await served.connect() as one:
            await one.send_all(b"QDECLARE q\r\nQLEASE q WAIT 1\r\n")
            assert await one.receive_some() == b"+OK\r\n"
            served.now += 1_000
            await served.works()
            assert await one.receive_some() == b"*0\r\n"
