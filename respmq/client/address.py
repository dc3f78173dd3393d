"""Where a broker is, how it is written down, and how it is reached."""

from __future__ import annotations

import socket
import ssl
from dataclasses import dataclass, field
from urllib.parse import SplitResult, unquote, urlsplit

import trio

from respmq.errors import InvalidRequestError

#: Where `respmq serve` listens if nobody says otherwise.
DEFAULT_HOST = "127.0.0.1"
DEFAULT_PORT = 6390

#: Seconds after which the kernel asks a silent peer whether it is still there, and gives up on one that isn't.
_KEEPALIVE = 5
_USER_TIMEOUT = 10


@dataclass(frozen=True, slots=True, kw_only=True)
class Address:
    """Where a broker is and who logs in there.

    Args:
        host: name or IP address.
        port: TCP port.
        path: a Unix socket, instead of both.
        tls: the context for TLS; None without.
        username: who logs in; None for the default user.
        password: None to log in as nobody.
    """

    host: str = DEFAULT_HOST
    port: int = DEFAULT_PORT
    path: str | None = None
    tls: ssl.SSLContext | None = None
    username: str | None = None
    password: str | None = field(default=None, repr=False)

    def __str__(self) -> str:
        """As errors name it, without the password."""
        if self.path is not None:
            return self.path
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"

    async def connect(self) -> trio.abc.Stream:
        """Connect.

        Raises:
            OSError: it can't be reached.
        """
        if self.path is not None:
            return await trio.open_unix_socket(self.path)
        stream = await trio.open_tcp_stream(self.host, self.port)
        _set_heartbeat(stream)
        if self.tls is None:
            return stream
        return trio.SSLStream(stream, self.tls, server_hostname=self.host, https_compatible=True)


def _set_heartbeat(stream: trio.SocketStream) -> None:
    stream.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    for name, value in (
        ("TCP_KEEPIDLE", _KEEPALIVE),
        ("TCP_KEEPINTVL", 2),
        ("TCP_KEEPCNT", 3),
        ("TCP_USER_TIMEOUT", _USER_TIMEOUT * 1000),
    ):
        option: int | None = getattr(socket, name, None)
        if option is not None:
            stream.setsockopt(socket.IPPROTO_TCP, option, value)


def parse_url(url: str, tls: ssl.SSLContext | None = None) -> Address:
    """The address that a URL stands for.

    Args:
        url: `respmq://user:password@host:port`, `respmqs://...` for TLS, or `respmq+unix:///path`. User, password and
            port may be left out; what would end them too early is written as `%40`.
        tls: the context for `respmqs://`; by default the system's certificates are trusted.

    Raises:
        InvalidRequestError: it is none of these.
    """
    try:
        parts = urlsplit(url)
        port = parts.port
    except ValueError as error:
        raise _wrong(url, str(error)) from error
    if parts.query or parts.fragment:
        raise _wrong(url, "nothing may stand behind the address")
    if parts.scheme == "respmq+unix":
        if parts.hostname or not parts.path.startswith("/"):
            raise _wrong(url, "a path is wanted, behind three slashes")
        return Address(path=unquote(parts.path), username=_user(parts), password=_password(parts))
    if parts.scheme not in {"respmq", "respmqs"}:
        raise _wrong(url, f"the scheme '{parts.scheme}' is not known")
    if not parts.hostname or parts.path not in {"", "/"}:
        raise _wrong(url, "a host is wanted and no path")
    if parts.scheme == "respmqs":
        tls = tls or ssl.create_default_context()
    elif tls is not None:
        raise _wrong(url, "a TLS context is for respmqs://")
    return Address(
        host=unquote(parts.hostname),
        port=DEFAULT_PORT if port is None else port,
        tls=tls,
        username=_user(parts),
        password=_password(parts),
    )


def _user(parts: SplitResult) -> str | None:
    return unquote(parts.username) if parts.username else None


def _password(parts: SplitResult) -> str | None:
    return None if parts.password is None else unquote(parts.password)


def _wrong(url: str, reason: str) -> InvalidRequestError:
    # Not the whole URL: it may hold a password.
    _, at, rest = url.rpartition("@")
    shown = f"...{at}{rest}" if at else rest
    return InvalidRequestError(
        f"invalid URL of a broker ({shown}): {reason}; such are respmq://user:password@host:6390, "
        "respmqs://host:6390 and respmq+unix:///run/respmq.sock"
    )
