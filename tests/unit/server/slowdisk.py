"""A server with a real event loop, and a disk that is done when a test says so."""

from __future__ import annotations

import errno
import random
import socket
import time
from collections.abc import AsyncGenerator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path

import trio
import trio.testing

from respmq.commands.registry import load
from respmq.config import Config
from respmq.engine.journaled import JournaledEngine
from respmq.server.notice import Level
from respmq.server.reactor import Reactor
from respmq.server.state import State
from tests.unit.journal.rig import START, HeldWorker, QuickFiles, journal_of
from tests.unit.rig import Word, encode

#: How long nothing has to come before it is believed that nothing comes.
QUIET = 0.005
#: How long something may take that has to come.
_PATIENCE = 10


class SlowEngine(JournaledEngine):
    """Loads until a test says that it is enough."""

    slow = False

    def loading(self) -> Iterator[None]:
        while self.slow:
            yield
        yield from super().loading()


class Client:
    """A connection to the server."""

    def __init__(self, stream: trio.SocketStream) -> None:
        self.stream = stream
        self._got = b""

    async def send(self, *words: Word) -> None:
        """Send a command."""
        await self.stream.send_all(encode(*words))

    async def read(self, expected: bytes) -> None:
        """See that this comes next."""
        with trio.fail_after(_PATIENCE):
            while len(self._got) < len(expected) and await self._more():
                pass
        assert self._got[: len(expected)] == expected
        self._got = self._got[len(expected) :]

    async def line(self) -> bytes:
        """The next line."""
        with trio.fail_after(_PATIENCE):
            while b"\r\n" not in self._got and await self._more():
                pass
        line, end, self._got = self._got.partition(b"\r\n")
        return line + end

    async def _more(self) -> bool:
        data = await self.stream.receive_some(4096)
        self._got += data
        return bool(data)

    async def cmd(self, *words: Word) -> bytes:
        """Send a command whose answer is a line."""
        await self.send(*words)
        return await self.line()

    async def silent(self) -> None:
        """See that nothing comes."""
        await trio.testing.wait_all_tasks_blocked(QUIET)
        with trio.move_on_after(QUIET / 5):
            await self._more()
        assert self._got == b""

    async def end(self) -> None:
        """See that the server has closed the connection."""
        assert self._got == b""
        with trio.fail_after(_PATIENCE):
            assert not await self._more()


class Server:
    """A server on a disk that works when it is told to."""

    def __init__(self, folder: Path, *, slow: bool = False) -> None:
        self.worker = HeldWorker()
        self.files = QuickFiles()
        self.config = Config()
        self.log: list[tuple[str, Level]] = []
        chance = random.Random(0)
        self.engine = SlowEngine(
            START,
            chance.randbytes,
            chance.uniform,
            folder,
            wall=lambda: self.engine.now,
            files=self.files,
            make_worker=lambda: self.worker,
        )
        self.engine.slow = slow
        self.state = State(self.config, self.engine, load(), time.perf_counter_ns, self._notice, self.engine)
        listener = socket.create_server(("127.0.0.1", 0))
        listener.setblocking(False)
        self._streams: list[trio.SocketStream] = []
        self._port = listener.getsockname()[1]
        self.reactor = Reactor(self.state, [listener], lambda: self.engine.now)

    def _notice(self, event: str, *, level: Level = "info", **details: object) -> None:
        del details
        self.log.append((event, level))

    async def connect(self) -> Client:
        stream = await trio.open_tcp_stream("127.0.0.1", self._port)
        self._streams.append(stream)
        return Client(stream)

    async def fill(self, client: Client) -> None:
        """Let the disk be full, and somebody be told so."""
        self.files.space = 0
        for _ in range(20):
            await client.send("QPUT", "q", bytes(100_000))
            await self.sync()
            if (await client.line()).startswith(b"-MISCONF the disk that "):
                break
            await client.line()
        self.files.fail["write"] = errno.ENOSPC

    async def empty(self) -> None:
        """Let there be space again, and the server look for it now."""
        self.files.space = None
        self.files.fail.clear()
        journal_of(self.engine)._retry_at = 0
        await (await self.connect()).send("PING")

    async def close(self) -> None:
        """Close all connections from the side of the clients."""
        for stream in self._streams:
            await stream.aclose()

    async def loaded(self) -> Client:
        """A connection to the server when it has loaded and has a queue `q`, on a disk that has done everything."""
        client = await self.connect()
        await client.send("QDECLARE", "q", "RETRYDELAY", "0")
        await self.sync()
        await client.read(b"+OK\r\n")
        return client

    def work(self, count: int = 1 << 30) -> None:
        """Let the disk do some of its jobs, and wake the server."""
        for _ in range(min(count, 1 << 30)):
            if not self.worker.jobs:
                break
            self.worker.work_one()
        self.worker.wake()

    async def sync(self) -> None:
        """Let the disk do all that comes."""
        while True:
            await trio.testing.wait_all_tasks_blocked(QUIET)
            if not self.worker.jobs:
                return
            self.work()


@asynccontextmanager
async def served(tmp_path: Path, *, slow: bool = False) -> AsyncGenerator[Server]:
    """A server that runs, and ends."""
    server = Server(tmp_path / "journal", slow=slow)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(server.reactor.run)
        try:
            yield server
        finally:
            server.files.fail.clear()
            server.reactor.stop(now=True)
            await server.close()
