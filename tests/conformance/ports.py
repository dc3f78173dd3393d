"""A port for a server that can't choose one itself."""

from __future__ import annotations

import socket


def free_port() -> int:
    """A TCP port of the loopback interface that was free a moment ago."""
    with socket.socket() as sock:
        sock.bind(("127.0.0.1", 0))
        return int(sock.getsockname()[1])
