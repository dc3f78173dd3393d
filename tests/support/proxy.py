"""A TCP proxy that cuts connections where a test wants it: in the middle of a frame, of either direction."""

from __future__ import annotations

import socket
import struct
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from functools import partial
from typing import Literal

import trio

Direction = Literal["to server", "to client"]


class Proxy:
    """Passes bytes on, until it is told to cut. `accepted` counts the connections so far."""

    def __init__(self, target: int) -> None:
        self.target = target
        self.port = 0
        self.accepted = 0
        self.passed: dict[Direction, int] = {"to server": 0, "to client": 0}
        self._budget: dict[Direction, int | None] = {"to server": None, "to client": None}
        self._links: set[trio.CancelScope] = set()
        self._up = trio.Event()
        self._up.set()
        self.refused = 0
        self._open = 0

    def cut(self) -> None:
        """End all connections now."""
        for link in self._links:
            link.cancel()

    async def cut_now(self) -> None:
        """End all connections, and return when they are closed."""
        self.cut()
        while self._open:
            await trio.lowlevel.checkpoint()

    def cut_after(self, direction: Direction, count: int) -> None:
        """End all connections when so many more bytes have been passed on in this direction, and those bytes only."""
        self._budget[direction] = count

    def down(self) -> None:
        """End all connections, and refuse new ones."""
        self._up = trio.Event()
        self.cut()

    def up(self) -> None:
        """Accept connections again."""
        self._up.set()

    async def serve(self, client: trio.SocketStream) -> None:
        """One connection."""
        self._open += 1
        try:
            await self._serve(client)
        finally:
            await trio.aclose_forcefully(client)
            self._open -= 1

    async def _serve(self, client: trio.SocketStream) -> None:
        if not self._up.is_set():
            self.refused += 1
            return
        self.accepted += 1
        with trio.CancelScope() as link:
            self._links.add(link)
            try:
                async with (
                    await trio.open_tcp_stream("127.0.0.1", self.target) as server,
                    trio.open_nursery() as nursery,
                ):
                    nursery.start_soon(self._pass, client, server, "to server")
                    nursery.start_soon(self._pass, server, client, "to client")
            finally:
                self._links.discard(link)
        if link.cancelled_caught:
            # An orderly end would say that nothing was lost on the way; this is a reset.
            client.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))

    async def _pass(self, source: trio.SocketStream, sink: trio.SocketStream, direction: Direction) -> None:
        try:
            async for data in source:
                budget = self._budget[direction]
                allowed = data if budget is None else data[:budget]
                await sink.send_all(allowed)
                self.passed[direction] += len(allowed)
                if budget is not None:
                    if len(data) >= budget:
                        self._budget[direction] = None
                        self.cut()
                        await trio.sleep_forever()
                    self._budget[direction] = budget - len(data)
            await sink.send_eof()
        except trio.BrokenResourceError:
            self.cut()


@asynccontextmanager
async def open_proxy(target: int) -> AsyncGenerator[Proxy]:
    """A proxy in front of a port of this machine, on a port of its own."""
    proxy = Proxy(target)
    async with trio.open_nursery() as nursery:
        listeners: list[trio.SocketListener] = await nursery.start(
            partial(trio.serve_tcp, proxy.serve, 0, host="127.0.0.1")
        )
        proxy.port = listeners[0].socket.getsockname()[1]
        yield proxy
        nursery.cancel_scope.cancel()
