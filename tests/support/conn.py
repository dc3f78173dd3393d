"""A raw and strict RESP client over one blocking socket: no retries, no pooling, a deadline on everything.

It reads what the server really sent: a byte that RESP doesn't allow, an unexpected end or a late reply is an error.
"""

from __future__ import annotations

import ctypes
import socket
import struct
import sys
import time
from collections.abc import Iterable, Sequence
from types import TracebackType
from typing import Self

from tests.support.values import (
    OK,
    Arg,
    BigNumber,
    Bool,
    Double,
    Error,
    Map,
    Null,
    Push,
    SetReply,
    Simple,
    Value,
    Verbatim,
    as_bytes,
    as_dict,
    as_int,
    as_list,
    encode,
)

DEADLINE = 20.0
"""Seconds that any single step may take before the test fails; a promise is never tested with it."""

_RESP2_KINDS = b"+-:$*"
_SO_ATTACH_FILTER = 26


class WireError(AssertionError):
    """The server sent something that is no RESP."""


class ClosedError(AssertionError):
    """The server closed the connection where a reply was due."""


class Conn:
    """One connection to a server, over TCP (`port`, `host`) or a Unix socket (`path`)."""

    def __init__(
        self, port: int = 0, *, host: str = "127.0.0.1", path: str | None = None, timeout: float = DEADLINE
    ) -> None:
        self.timeout = timeout
        self._buffer = bytearray()
        self._at = 0
        self._ended = False
        self._taken = bytearray()
        if path is None:
            self.sock = socket.create_connection((host, port), timeout)
            self.sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        else:
            self.sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
            self.sock.settimeout(timeout)
            self.sock.connect(path)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, tb: TracebackType | None) -> None:
        self.close()

    # -- sending

    def send(self, data: bytes) -> None:
        """Send exactly these bytes."""
        self.sock.settimeout(self.timeout)
        self.sock.sendall(data)

    def start(self, *args: Arg) -> None:
        """Send one command and leave its reply for later."""
        self.send(encode(*args))

    # -- reading

    def read(self, timeout: float | None = None) -> Value:
        """The next reply."""
        deadline = time.monotonic() + (self.timeout if timeout is None else timeout)
        self._taken.clear()
        value = self._value(deadline)
        del self._buffer[: self._at]
        self._at = 0
        return value

    def read_raw(self, timeout: float | None = None) -> bytes:
        """The exact bytes of the next reply."""
        self.read(timeout)
        return bytes(self._taken)

    def read_many(self, count: int) -> list[Value]:
        """The next `count` replies."""
        return [self.read() for _ in range(count)]

    def read_to_end(self) -> bytes:
        """Every byte up to the end of the stream; the end must come, and not before there was something to read."""
        deadline = time.monotonic() + self.timeout
        while not self._ended:
            try:
                self._fill(deadline)
            except ConnectionResetError:
                if not self._buffer:
                    raise
                self._ended = True
        data = bytes(self._buffer)
        self._buffer.clear()
        return data

    def read_all(self) -> list[Value]:
        """Every reply up to the end of the stream, which must lie between two replies."""
        replies = []
        while not self.at_eof():
            replies.append(self.read())
        return replies

    def at_eof(self, timeout: float | None = None) -> bool:
        """Whether the next thing is the end of the stream (True) or more bytes (False); waits for either."""
        if self._buffer:
            return False
        deadline = time.monotonic() + (self.timeout if timeout is None else timeout)
        if not self._ended:
            try:
                self._fill(deadline)
            except ConnectionResetError:
                self._ended = True
        return not self._buffer

    def pending(self) -> bytes:
        """What has arrived and is not read yet, without waiting for more."""
        self.sock.settimeout(0)
        try:
            while data := self.sock.recv(1 << 16):
                self._buffer += data
            self._ended = True
        except BlockingIOError:
            pass
        return bytes(self._buffer)

    # -- one command and its reply

    def cmd(self, *args: Arg) -> Value:
        """Send one command and read its reply."""
        self.send(encode(*args))
        return self.read()

    def raw(self, *args: Arg) -> bytes:
        """Send one command and read the exact bytes of its reply."""
        self.send(encode(*args))
        return self.read_raw()

    def pipeline(self, commands: Iterable[Sequence[Arg]]) -> list[Value]:
        """Send all commands in one write, then read a reply for each."""
        encoded = [encode(*command) for command in commands]
        self.send(b"".join(encoded))
        return self.read_many(len(encoded))

    def ok(self, *args: Arg) -> None:
        """A command whose reply must be `+OK`."""
        reply = self.cmd(*args)
        assert reply == OK, f"{args!r}: {reply!r}"

    def integer(self, *args: Arg) -> int:
        """A command whose reply must be an integer."""
        return as_int(self.cmd(*args))

    def bulk(self, *args: Arg) -> bytes:
        """A command whose reply must be a bulk string."""
        return as_bytes(self.cmd(*args))

    def array(self, *args: Arg) -> list[Value]:
        """A command whose reply must be an array."""
        return as_list(self.cmd(*args))

    def mapping(self, *args: Arg) -> dict[bytes, Value]:
        """A command whose reply must be a map of the protocol in use."""
        return as_dict(self.cmd(*args))

    def error(self, *args: Arg) -> Error:
        """A command whose reply must be an error."""
        reply = self.cmd(*args)
        assert isinstance(reply, Error), f"{args!r}: expected an error: {reply!r}"
        return reply

    def text(self, *args: Arg) -> str:
        """A command whose reply is text: a bulk string in RESP2, a verbatim string in RESP3."""
        reply = self.cmd(*args)
        return (reply.data if isinstance(reply, Verbatim) else as_bytes(reply)).decode()

    def hello(self, version: int) -> dict[bytes, Value]:
        """Switch the protocol."""
        return self.mapping("HELLO", version)

    def id(self) -> int:
        """The connection's number."""
        return self.integer("CLIENT", "ID")

    # -- ways to leave

    @property
    def local_port(self) -> int:
        """The client's own port, as the server sees it."""
        port = self.sock.getsockname()[1]
        assert isinstance(port, int)
        return port

    def close(self) -> None:
        """Close the socket (FIN, or RST if something was left unread)."""
        self.sock.close()

    def reset(self) -> None:
        """Close the socket with an RST."""
        self.sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self.sock.close()

    def shutdown_write(self) -> None:
        """Send a FIN and go on reading."""
        self.sock.shutdown(socket.SHUT_WR)

    def vanish(self) -> None:
        """From now on every packet from the server is lost on its way here, and nothing answers it: no ACK, no RST.

        A socket filter that accepts nothing does this; it needs no rights.
        """
        assert sys.platform == "linux"
        instruction = ctypes.create_string_buffer(struct.pack("HBBI", 0x06, 0, 0, 0))
        program = struct.pack("HL", 1, ctypes.addressof(instruction))
        self.sock.setsockopt(socket.SOL_SOCKET, _SO_ATTACH_FILTER, program)

    # -- decoding

    def _fill(self, deadline: float) -> None:
        left = deadline - time.monotonic()
        if left <= 0:
            raise TimeoutError(f"nothing came in time; so far: {bytes(self._buffer[:200])!r}")
        self.sock.settimeout(left)
        try:
            data = self.sock.recv(1 << 18)
        except TimeoutError:
            raise TimeoutError(f"nothing came in time; so far: {bytes(self._buffer[:200])!r}") from None
        if not data:
            self._ended = True
        self._buffer += data

    def _need(self, size: int, deadline: float) -> bytes:
        while len(self._buffer) - self._at < size:
            if self._ended:
                raise ClosedError(f"closed in the middle of a reply: {bytes(self._buffer[:200])!r}")
            self._fill(deadline)
        data = bytes(self._buffer[self._at : self._at + size])
        self._at += size
        self._taken += data
        return data

    def _line(self, deadline: float) -> bytes:
        start = self._at
        while (end := self._buffer.find(b"\n", start)) < 0:
            if self._ended:
                raise ClosedError(f"closed where a reply was due: {bytes(self._buffer[:200])!r}")
            start = len(self._buffer)
            self._fill(deadline)
        line = self._need(end + 1 - self._at, deadline)
        if line[-2:] != b"\r\n" or b"\r" in line[:-2]:
            raise WireError(f"a line must end in CRLF and hold no other CR: {line!r}")
        return line[:-2]

    def _number(self, text: bytes) -> int:
        digits = text[1:] if text.startswith(b"-") else text
        if not digits.isdigit() or (len(digits) > 1 and digits.startswith(b"0")):
            raise WireError(f"not an integer: {text!r}")
        return int(text)

    def _body(self, size: int, deadline: float) -> bytes:
        data = self._need(size + 2, deadline)
        if data[-2:] != b"\r\n":
            raise WireError(f"a bulk string must end in CRLF: {data[-20:]!r}")
        return data[:-2]

    def _values(self, count: int, deadline: float) -> list[Value]:
        return [self._value(deadline) for _ in range(count)]

    def _value(self, deadline: float) -> Value:
        line = self._line(deadline)
        kind, rest = line[:1], line[1:]
        if kind and kind in _RESP2_KINDS:
            return self._resp2(kind, rest, deadline)
        return self._resp3(kind, rest, deadline)

    def _resp2(self, kind: bytes, rest: bytes, deadline: float) -> Value:
        if kind == b"+":
            return Simple(rest)
        if kind == b"-":
            return Error(rest)
        number = self._number(rest)
        if kind == b":":
            return number
        if number < -1:
            raise WireError(f"a length below -1: {number}")
        if kind == b"$":
            return Null.BULK if number == -1 else self._body(number, deadline)
        return Null.ARRAY if number == -1 else self._values(number, deadline)

    def _resp3(self, kind: bytes, rest: bytes, deadline: float) -> Value:
        if kind == b"_" and not rest:
            return Null.RESP3
        if kind == b"#" and rest in {b"t", b"f"}:
            return Bool(rest == b"t")
        if kind == b",":
            float(rest)
            return Double(rest)
        if kind == b"(":
            self._number(rest)
            return BigNumber(rest)
        if kind == b"=":
            data = self._body(self._number(rest), deadline)
            if data[3:4] != b":":
                raise WireError(f"a verbatim string names its format: {data[:20]!r}")
            return Verbatim(data[:3], data[4:])
        if kind == b"%":
            flat = self._values(2 * self._number(rest), deadline)
            return Map(tuple(zip(flat[::2], flat[1::2], strict=True)))
        if kind == b"~":
            return SetReply(tuple(self._values(self._number(rest), deadline)))
        if kind == b">":
            return Push(tuple(self._values(self._number(rest), deadline)))
        raise WireError(f"no RESP: {(kind + rest)!r}")
