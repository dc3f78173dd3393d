"""What the black-box tests stand on: a real server in a process of its own and a strict RESP client.

Nothing here imports the broker: what these tests know is the protocol.
"""

from __future__ import annotations

from typing import Protocol

from tests.support.broker import (
    Delivery,
    advance,
    block,
    bodies,
    counts,
    dead,
    dead_bodies,
    dead_letters,
    deliveries,
    info,
    is_empty_map,
    is_null,
    lease,
    lease_one,
    messages,
    pages,
    peek,
    peeked_bodies,
    put,
    put_all,
    settle,
    stat,
    stats,
    wait_for_waiters,
    wait_until,
)
from tests.support.conn import ClosedError, Conn, WireError
from tests.support.pinger import Pinger
from tests.support.server import ServerProcess, StartError, run_to_end, start_server
from tests.support.values import (
    NULLS,
    OK,
    PONG,
    Arg,
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


class Connect(Protocol):
    """The `connect` fixture: opens connections that are closed when the test ends."""

    def __call__(self, server: ServerProcess | None = None, *, resp: int = 2) -> Conn:
        """A connection to `server` (default: the session's) that speaks RESP2 or RESP3."""
        ...


__all__ = [
    "NULLS",
    "OK",
    "PONG",
    "Arg",
    "Bool",
    "ClosedError",
    "Conn",
    "Connect",
    "Delivery",
    "Double",
    "Error",
    "Map",
    "Null",
    "Pinger",
    "Push",
    "ServerProcess",
    "SetReply",
    "Simple",
    "StartError",
    "Value",
    "Verbatim",
    "WireError",
    "advance",
    "as_bytes",
    "as_dict",
    "as_int",
    "as_list",
    "block",
    "bodies",
    "counts",
    "dead",
    "dead_bodies",
    "dead_letters",
    "deliveries",
    "encode",
    "info",
    "is_empty_map",
    "is_null",
    "lease",
    "lease_one",
    "messages",
    "pages",
    "peek",
    "peeked_bodies",
    "put",
    "put_all",
    "run_to_end",
    "settle",
    "start_server",
    "stat",
    "stats",
    "wait_for_waiters",
    "wait_until",
]
