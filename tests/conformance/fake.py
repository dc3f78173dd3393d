"""A tiny server for testing the runner: right by default, and wrong in exactly the ways that a test asks for."""

from __future__ import annotations

import socket
import socketserver
import threading
from collections.abc import Callable, Generator
from contextlib import contextmanager, suppress

Answer = bytes | None | Callable[["FakeConnection"], bytes | None]

HELLO = b"%1\r\n$5\r\nproto\r\n:3\r\n"


class FakeConnection:
    """What an answer may look at or do: the connection it goes to, and all the others."""

    def __init__(self, server: FakeServer, sock: socket.socket) -> None:
        self.server = server
        self.sock = sock
        self.id = server.next_id()
        self.blocked = False


class FakeServer(socketserver.ThreadingTCPServer):
    """Answers each command line with the bytes in `answers`; None closes the connection, b"" says nothing.

    What isn't there has an ordinary answer where the runner itself needs one, and an error otherwise.
    """

    daemon_threads = True
    allow_reuse_address = True

    def __init__(self, answers: dict[str, Answer], *, virtual: bool = False) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.answers = answers
        self.virtual = virtual
        self.received: list[str] = []
        self.live: dict[int, FakeConnection] = {}
        self._ids = 0
        self._lock = threading.Lock()

    @property
    def address(self) -> tuple[str, int]:
        host, port = self.server_address[:2]
        return str(host), int(port)

    def next_id(self) -> int:
        with self._lock:
            self._ids += 1
            return self._ids

    def answer(self, words: list[bytes], connection: FakeConnection) -> bytes | None:
        line = b" ".join(words).decode("latin-1")
        self.received.append(line)
        for key in (line, words[0].decode("latin-1")):
            if key in self.answers:
                found = self.answers[key]
                return found(connection) if callable(found) else found
        return self._ordinary(line, connection)

    def _ordinary(self, line: str, connection: FakeConnection) -> bytes:
        if line == "PING":
            return b"+PONG\r\n"
        if line.startswith("ECHO "):
            return b"$%d\r\n%s\r\n" % (len(line) - 5, line[5:].encode("latin-1"))
        if line == "HELLO 3":
            return HELLO
        if line == "TIME":
            return b"*2\r\n$4\r\n1000\r\n$6\r\n500000\r\n"
        if line == "CLIENT ID":
            return b":%d\r\n" % connection.id
        if line.startswith("CLIENT LIST ID "):
            other = self.live.get(int(line.rpartition(" ")[2]))
            text = b"" if other is None else b"id=%d flags=%s\n" % (other.id, b"b" if other.blocked else b"N")
            return b"$%d\r\n%s\r\n" % (len(text), text)
        if line.startswith("DEBUG ADVANCE ") and self.virtual:
            return b"+OK\r\n"
        return b"-ERR unknown command\r\n"


class _Handler(socketserver.StreamRequestHandler):
    disable_nagle_algorithm = True

    def handle(self) -> None:
        assert isinstance(self.server, FakeServer)
        connection = FakeConnection(self.server, self.request)
        self.server.live[connection.id] = connection
        try:
            with suppress(ConnectionError, ValueError):
                self._serve(self.server, connection)
        finally:
            del self.server.live[connection.id]

    def _serve(self, server: FakeServer, connection: FakeConnection) -> None:
        while line := self.rfile.readline():
            if line.startswith(b"*"):
                words = []
                for _ in range(int(line[1:])):
                    words.append(self.rfile.read(int(self.rfile.readline()[1:])))
                    self.rfile.read(2)
            else:
                words = line.split()
            if not words:
                continue
            reply = server.answer(words, connection)
            if reply is None:
                return
            self.wfile.write(reply)


@contextmanager
def fake_server(answers: dict[str, Answer], *, virtual: bool = False) -> Generator[FakeServer, None, None]:
    """A running fake; it is closed, threads and all, at the end."""
    with FakeServer(answers, virtual=virtual) as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        try:
            yield server
        finally:
            server.shutdown()
            thread.join()
