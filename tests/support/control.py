"""A second view of a server that runs in this process: commands of any kind, over a connection of their own."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any

import trio

from respmq.client.wire import Reply, Wire

#: Seconds after which something that should happen won't.
_PATIENCE = 10.0


class Control:
    """Sends commands and reads their replies, one after the other."""

    def __init__(self, stream: trio.SocketStream) -> None:
        self._stream = stream
        self._wire: Wire[None] = Wire()

    async def cmd(self, *words: str | bytes) -> Any:
        """A command; an error is returned, not raised."""
        await self.send(*words)
        return await self.reply()

    async def send(self, *words: str | bytes) -> None:
        """Send a command and leave its reply for later."""
        encoded = tuple(word.encode() if isinstance(word, str) else word for word in words)
        await self._stream.send_all(self._wire.send(encoded, None))

    async def reply(self) -> Any:
        """The reply to what was sent."""
        while True:
            data = await self._stream.receive_some()
            assert data, "the server closed the connection"
            for item in self._wire.receive(bytes(data)):
                if isinstance(item, Reply):
                    return item.value

    async def clients(self) -> list[dict[str, str]]:
        """CLIENT LIST, without this connection."""
        lines = (await self.cmd("CLIENT", "LIST")).decode().splitlines()
        found = [dict(field.partition("=")[::2] for field in line.split(" ")) for line in lines]
        own = str(await self.cmd("CLIENT", "ID"))
        return [client for client in found if client["id"] != own]

    async def stat(self, queue: str, name: str) -> int:
        """One number of QSTATS."""
        found = (await self.cmd("QSTATS", queue))[name.encode()]
        assert isinstance(found, int)
        return found


@asynccontextmanager
async def open_control(port: int) -> AsyncGenerator[Control]:
    """A connection of its own to a server on this machine."""
    async with await trio.open_tcp_stream("127.0.0.1", port) as stream:
        control = Control(stream)
        await control.cmd("HELLO", "3")
        yield control


async def eventually(holds: Callable[[], bool | Awaitable[bool]], what: str) -> None:
    """Ask again and again until it holds."""
    with trio.move_on_after(_PATIENCE):
        while True:
            answer = holds()
            if answer is True or (not isinstance(answer, bool) and await answer):
                return
            await trio.lowlevel.checkpoint()
    raise AssertionError(f"never happened: {what}")
