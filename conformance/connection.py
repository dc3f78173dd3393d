"""A client connection with a deadline on every wait, and the control connection that the runner asks with.

A :class:`Connection` never blocks for ever: what is sent is sent while what arrives is collected, and each read
ends with a reply, with the end of the stream or with :class:`TimedOut`.
"""

import contextlib
import select
import socket
import struct
import time

from conformance.resp import BadReply, Incomplete, Reply, encode_command, parse_reply, show, show_bytes

BYTEWISE_HEAD, BYTEWISE_TAIL = 1500, 100


class TimedOut(Exception):
    """Nothing (or not enough) arrived before the deadline."""


class Closed(Exception):
    """The server closed the connection where a reply was expected."""


class Broken(Exception):
    """The runner's own control connection can't be used: the server is gone, or it answers nonsense."""


class Connection:
    """One TCP connection under test."""

    def __init__(self, address: tuple[str, int], timeout: float) -> None:
        self.timeout = timeout
        self.protocol = 2
        self.client_id: int | None = None
        self.ended: str | None = None
        self._buffer = bytearray()
        self._socket = socket.create_connection(address, timeout=timeout)
        self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._socket.setblocking(False)

    def send(self, data: bytes, *, bytewise: bool = False) -> None:
        """Send everything, as one write or byte by byte; a server that has closed is no error here."""
        if not bytewise:
            self._send(data)
            return
        head, tail = data[:BYTEWISE_HEAD], data[BYTEWISE_HEAD:]
        middle, tail = tail[:-BYTEWISE_TAIL], tail[-BYTEWISE_TAIL:]
        for part in (head, tail):
            for at in range(len(part)):
                self._send(part[at : at + 1])
            if part is head and middle:
                self._send(middle)

    def _send(self, data: bytes) -> None:
        view = memoryview(data)
        deadline = time.monotonic() + self.timeout
        while view and self.ended is None:
            try:
                view = view[self._socket.send(view) :]
            except BlockingIOError:
                left = deadline - time.monotonic()
                if left <= 0:
                    raise TimedOut(f"the server took only {len(data) - len(view)} of {len(data)} bytes") from None
                readable, _, _ = select.select([self._socket], [self._socket], [], left)
                if readable:
                    self._receive()
            except OSError:
                self.poll()
                return

    def _receive(self) -> None:
        """Take what is there; at the end of the stream, note how it ended."""
        try:
            data = self._socket.recv(1 << 20)
        except BlockingIOError:
            return
        except OSError as error:
            self.ended = f"connection lost ({error.strerror})"
            return
        self._buffer += data
        if not data:
            self.ended = "connection closed"

    def _wait(self, deadline: float) -> bool:
        """Receive something before the deadline; False if nothing came."""
        left = deadline - time.monotonic()
        if left <= 0 or not select.select([self._socket], [], [], left)[0]:
            return False
        self._receive()
        return True

    def read_reply(self) -> Reply:
        """The next reply (or push)."""
        deadline = time.monotonic() + self.timeout
        while True:
            with contextlib.suppress(Incomplete):
                reply, end = parse_reply(self._buffer)
                del self._buffer[:end]
                return reply
            if self.ended:
                raise Closed(self._leftover(self.ended))
            if not self._wait(deadline):
                raise TimedOut(self._leftover(f"no reply within {self.timeout:g} s"))

    def read_bytes(self, count: int) -> bytes:
        """The next ``count`` bytes, or fewer if no more come."""
        deadline = time.monotonic() + self.timeout
        while len(self._buffer) < count and not self.ended and self._wait(deadline):
            pass
        data = bytes(self._buffer[:count])
        del self._buffer[:count]
        return data

    def read_end(self) -> bytes:
        """Everything up to the end of the stream."""
        deadline = time.monotonic() + self.timeout
        while not self.ended:
            if not self._wait(deadline):
                raise TimedOut(self._leftover(f"still open after {self.timeout:g} s"))
        return self.poll()

    def poll(self) -> bytes:
        """What has arrived and was not read yet (it stays in the buffer)."""
        while not self.ended and select.select([self._socket], [], [], 0)[0]:
            self._receive()
        return bytes(self._buffer)

    def close(self, how: str = "fin") -> None:
        """Close at once, by the ordinary end or by a reset."""
        if how == "reset":
            self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self._socket.close()
        self.ended = self.ended or "closed by the vector"

    def _leftover(self, text: str) -> str:
        return f"{text}, after the bytes {show_bytes(bytes(self._buffer))!r}" if self._buffer else text


class Control:
    """The runner's own connection: barriers, the server's clock, and what CLIENT LIST knows of the others."""

    def __init__(self, address: tuple[str, int], timeout: float) -> None:
        self._address = address
        self._timeout = timeout
        self._connection: Connection | None = None
        self.virtual = self.command("DEBUG", "ADVANCE", "0") == Reply("+", b"OK")

    def command(self, *words: str | bytes) -> Reply:
        """One command and its reply (a new connection if the last one was lost)."""
        return self.commands([words])[0]

    def commands(self, commands: list[tuple[str | bytes, ...]]) -> list[Reply]:
        """Several commands in one write, and their replies."""
        try:
            if self._connection is None or self._connection.ended:
                self._connection = Connection(self._address, self._timeout)
            for words in commands:
                self._connection.send(encode_command([w.encode() if isinstance(w, str) else w for w in words]))
            return [self._connection.read_reply() for _ in commands]
        except (OSError, TimedOut, Closed, BadReply) as error:
            self.close()
            raise Broken(f"control connection: {error}") from error

    def barrier(self) -> None:
        """Return when the server has been round its loop, and so has seen what was sent before."""
        self._expect_ok("PING", "PONG")

    def advance(self, duration: str) -> None:
        """Let the server's virtual clock go on."""
        self._expect_ok(f"DEBUG ADVANCE {duration}", "OK")

    def _expect_ok(self, command: str, wanted: str) -> None:
        reply = self.command(*command.split(" "))
        if reply != Reply("+", wanted.encode()):
            raise Broken(f"{command} on the control connection: {show(reply)}")

    def now_ms(self) -> int:
        """The server's time."""
        reply = self.command("TIME")
        try:
            seconds, micros = (int(item.value) for item in reply.value)
        except (AttributeError, TypeError, ValueError):
            raise Broken(f"TIME on the control connection: {show(reply)}") from None
        return seconds * 1000 + micros // 1000

    def client(self, client_id: int) -> dict[str, str] | None:
        """The fields that CLIENT LIST has for a client, None if it isn't connected."""
        reply = self.command("CLIENT", "LIST", "ID", str(client_id))
        if reply.kind != "$":
            raise Broken(f"CLIENT LIST ID {client_id} on the control connection: {show(reply)}")
        line = reply.value.decode("utf-8", "replace").strip()
        return dict(item.partition("=")[::2] for item in line.split(" ")) if line else None

    def close(self) -> None:
        """Close; the next command opens a new one."""
        if self._connection:
            self._connection.close()
            self._connection = None
