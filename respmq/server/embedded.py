"""A real server inside another Trio program: for tests, for notebooks, for trying things out."""

from __future__ import annotations

import logging
from collections.abc import AsyncGenerator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

import trio

from respmq.config import Config, read_setting
from respmq.nursery import open_background
from respmq.server.app import check_exposure, make_reactor, open_listeners

if TYPE_CHECKING:
    from respmq.server.notice import Level

_LOG = logging.getLogger("respmq.server")
_LEVELS = {"debug": logging.DEBUG, "info": logging.INFO, "warning": logging.WARNING, "error": logging.ERROR}


@dataclass(frozen=True, slots=True)
class EmbeddedServer:
    """Where a server of `open_server` can be reached.

    Args:
        host: the address that it listens on.
        port: the TCP port.
        url: both, with the password if there is one, for `Client`.
    """

    host: str
    port: int
    url: str


@asynccontextmanager
async def open_server(settings: Mapping[str, object] | None = None) -> AsyncGenerator[EmbeddedServer]:
    """Run a server in this program, on a free port of 127.0.0.1, until the body is left.

    It serves real sockets with the wall clock (or, with `virtual-clock`, one that only `DEBUG ADVANCE` moves), not with
    Trio's clock. It leaves signals and the garbage collector to the program, and logs to `respmq.server`.

    Args:
        settings: as in a configuration file, `{"requirepass": "secret", "virtual-clock": True}`.

    Raises:
        ConfigError: a setting doesn't exist or can't have this value.
        ListenError: it can't listen there.
    """
    values: dict[str, Any] = {"port": 0}
    values.update(read_setting(name, value, "open_server") for name, value in (settings or {}).items())
    config = Config(**values)
    check_exposure(config)
    listeners = open_listeners(config)
    host, port = listeners[0].getsockname()[:2]
    state, reactor = make_reactor(config, listeners, _notice)
    try:
        async with open_background() as nursery:

            async def run() -> None:
                # What a cancelled body still has to say is heard.
                with trio.CancelScope(shield=True):
                    await reactor.run()

            state.request_stop = lambda _reason, now: reactor.stop(now=now)
            nursery.start_soon(reactor.tidy)
            nursery.start_soon(run)
            try:
                yield EmbeddedServer(host, port, _url(config, host, port))
            finally:
                reactor.stop(now=True)
    finally:
        for listener in listeners:
            listener.close()
        if config.unixsocket:
            with trio.CancelScope(shield=True):
                await trio.Path(config.unixsocket).unlink(missing_ok=True)


def _url(config: Config, host: str, port: int) -> str:
    login = f":{quote(config.requirepass, safe='')}@" if config.requirepass else ""
    return f"respmq://{login}{f'[{host}]' if ':' in host else host}:{port}"


def _notice(event: str, *, level: Level = "info", **details: object) -> None:
    cause = details.pop("exc_info", None)
    shown = " ".join(f"{name}={value!r}" for name, value in details.items())
    _LOG.log(_LEVELS[level], "%s %s", event, shown, exc_info=cause if isinstance(cause, BaseException) else None)
