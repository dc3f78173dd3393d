"""What a command can see of the connection and the server it runs on."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from respmq.engine.base import Engine


class ServerView(Protocol):
    """The server, as commands see it."""

    @property
    def connections(self) -> int:
        """How many clients are connected."""
    @property
    def uptime(self) -> int:
        """Seconds since the start."""


class Context(Protocol):
    """The connection on which a command runs."""

    engine: Engine
    server: ServerView
    #: The name of the user who is logged in.
    user: bytes
