"""One connection that does one thing after another: what a measurement needs before and after it."""

from __future__ import annotations

import socket
from dataclasses import dataclass
from typing import TYPE_CHECKING, Self, cast

import hiredis

from respmq.resp.reader import encode_request

if TYPE_CHECKING:
    from types import TracebackType

#: How long a server may take to accept a connection or to answer, in seconds.
PATIENCE = 10.0

_NOT_ALL = object()


class BenchError(Exception):
    """A server can't be reached, doesn't answer, or answers with something else than what was asked for."""


@dataclass(frozen=True, slots=True)
class Address:
    """Where a server listens."""

    host: str
    port: int

    def __str__(self) -> str:
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"

    def connect(self) -> socket.socket:
        """A connection whose small requests leave at once.

        Raises:
            BenchError: nobody listens there.
        """
        try:
            sock = socket.create_connection((self.host, self.port), PATIENCE)
        except OSError as error:
            raise BenchError(f"can't connect to {self}: {error.strerror or error}") from None
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        return sock


class Control:
    """Sends a command, waits for its reply."""

    def __init__(self, address: Address) -> None:
        self._address = address
        self._sock = address.connect()
        self._reader = hiredis.Reader(notEnoughData=_NOT_ALL)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, tb: TracebackType | None) -> None:
        self._sock.close()

    def call(self, *words: str) -> object:
        """The reply to a command.

        Raises:
            BenchError: it is an error, or doesn't come.
        """
        reply = self.ask(*words)
        if isinstance(reply, hiredis.ReplyError):
            raise BenchError(f"{self._address} answers {words[0]} with '{reply}'")
        return reply

    def ask(self, *words: str) -> object:
        """The reply to a command, which may be a `hiredis.ReplyError`.

        Raises:
            BenchError: it doesn't come.
        """
        try:
            self._sock.sendall(encode_request([word.encode() for word in words]))
            while (reply := cast("object", self._reader.gets())) is _NOT_ALL:
                data = self._sock.recv(65536)
                if not data:
                    raise BenchError(f"{self._address} has closed the connection instead of answering {words[0]}")
                self._reader.feed(data)
        except TimeoutError:
            raise BenchError(f"{self._address} does not answer {words[0]} within {PATIENCE:g} seconds") from None
        except OSError as error:
            raise BenchError(f"{self._address} does not answer {words[0]}: {error.strerror or error}") from None
        except hiredis.ProtocolError:
            raise BenchError(f"{self._address} does not speak the Redis protocol") from None
        return reply

    def identify(self) -> tuple[str, str]:
        """Whether this is "respmq" or a "redis", and its name with its version.

        Raises:
            BenchError: it doesn't say.
        """
        info = self.call("INFO", "server")
        if not isinstance(info, bytes):
            raise BenchError(f"{self._address} answers INFO with no text")
        lines = info.decode("utf-8", "replace").splitlines()
        fields = dict(line.split(":", 1) for line in lines if ":" in line)
        # Both others have a redis_version as well, for the sake of Redis' clients.
        for name in ("respmq", "valkey", "redis"):
            version = fields.get(f"{name}_version")
            if version is not None:
                # Compiled it would be about twice as fast.
                suffix = " (not compiled)" if fields.get("respmq_compiled") == "0" else ""
                return ("respmq" if name == "respmq" else "redis"), f"{name} {version}{suffix}"
        raise BenchError(f"{self._address} does not say in INFO what it is: respmq or a Redis is wanted")
