"""How long others keep a client waiting, told apart from how busy the machine is."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from tests.support.conn import Conn
from tests.support.server import ServerProcess

T = TypeVar("T")


class Pinger:
    """A client that sends PING after PING and notes the most that the server does before it answers one.

    What is measured is the server's processor time and not the wall clock's: on a machine that is busy with other
    things any reply may be late, but the server still mustn't do a whole long job first.
    """

    def __init__(self, server: ServerProcess, conn: Conn) -> None:
        self.count = 0
        self.worst = 0.0
        self._server = server
        self._conn = conn

    def ping(self) -> None:
        """One PING and its answer."""
        assert self.measure(lambda: self._conn.raw("PING")) == b"+PONG\r\n"
        self.count += 1

    def measure(self, ask: Callable[[], T]) -> T:
        """Any other short question, which mustn't wait longer than a PING."""
        before = self._server.cpu_seconds()
        answer = ask()
        self.worst = max(self.worst, self._server.cpu_seconds() - before)
        return answer
