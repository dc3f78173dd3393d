"""All that a broker tells over the wire about its durable state, as data that can be compared."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict, dataclass
from typing import TypeAlias

from tests.support import Arg, Conn, Value, as_bytes, as_dict, as_int, as_list
from tests.support.broker import messages

Message: TypeAlias = "dict[bytes, Value]"
Command: TypeAlias = "tuple[Arg, ...]"

PAGE = 1000
"""As many messages as the server lists at a time."""

STATES = ("READY", "DELAYED", "LEASED")

#: What belongs to connections, and ends with them.
_PASSING = {b"consumers", b"waiters", b"connections", b"subscriptions", b"event_drops", b"uptime"}


@dataclass(frozen=True, slots=True)
class QueueDump:
    """A queue: settings, counters, messages by state (in the order that QPEEK gives), dead letters and bindings."""

    config: dict[bytes, Value]
    stats: dict[bytes, Value]
    live: dict[str, list[Message]]
    dead: list[Message]
    bindings: list[Value]


@dataclass(frozen=True, slots=True)
class Dump:
    """A broker."""

    queues: dict[bytes, QueueDump]
    exchanges: dict[bytes, tuple[bytes, list[Value]]]
    bindings: list[Value]
    stats: dict[bytes, Value]


def dump(conn: Conn, *, ages: bool = True) -> Dump:
    """The state of a broker that nobody else uses; `ages` are those that change while time runs."""
    return Dump(
        {as_bytes(name): dump_queue(conn, as_bytes(name), ages=ages) for name in conn.array("QLIST")},
        {
            as_bytes(name): (as_bytes(kind), conn.array("EXCHANGE", "BINDINGS", as_bytes(name)))
            for name, kind in map(as_list, conn.array("EXCHANGE", "LIST"))
        },
        conn.array("QBINDINGS"),
        _lasting(conn.mapping("QSTATS")),
    )


def dump_queue(conn: Conn, name: bytes, *, ages: bool = True) -> QueueDump:
    """The state of one queue, in one moment."""
    stats = conn.mapping("QSTATS", name)
    most = max(as_int(stats[size]) for size in (b"ready", b"delayed", b"in_flight", b"dead"))
    pages = range(0, 2 * most + 1, PAGE)
    lists: list[Command] = [("QPEEK", name, "STATE", state) for state in STATES]
    lists.append(("QDEAD", "LIST", name))
    listing = [(*command, "COUNT", PAGE, "OFFSET", offset) for command in lists for offset in pages]
    *_, replies = conn.pipeline(
        [("MULTI",), ("QCONFIG", name), ("QSTATS", name), ("QBINDINGS", name), *listing, ("EXEC",)]
    )
    config, found, bindings, *listed = as_list(replies)
    lasting = _lasting(as_dict(found))
    if not ages:
        del lasting[b"oldest_ready_age"]
    whole = [
        [message for page in listed[at : at + len(pages)] for message in messages(page)]
        for at in range(0, len(listed), len(pages))
    ]
    live: dict[str, list[Message]] = dict(zip(STATES, whole, strict=False))
    live["LEASED"] = _by_deadline(live["LEASED"])
    return QueueDump(as_dict(config), lasting, live, whole[-1], as_list(bindings))


def _lasting(stats: dict[bytes, Value]) -> dict[bytes, Value]:
    return {name: value for name, value in stats.items() if name not in _PASSING}


def _by_deadline(leased: list[Message]) -> list[Message]:
    """Leases in the order in which they end, which must be the one they came in; those that end together by id."""
    deadlines = [as_int(message[b"deadline"]) for message in leased]
    assert deadlines == sorted(deadlines)
    return sorted(leased, key=lambda message: (as_int(message[b"deadline"]), as_bytes(message[b"id"])))


def differences(found: Dump, expected: Dump) -> str:
    """Where two dumps differ, a line for each place; empty if they are equal."""
    return "\n".join(_differences(asdict(found), asdict(expected), ""))


def _differences(found: object, expected: object, path: str) -> Iterator[str]:
    if isinstance(found, dict) and isinstance(expected, dict) and found.keys() == expected.keys():
        for key, value in found.items():
            yield from _differences(value, expected[key], f"{path}/{key}")
    elif isinstance(found, list) and isinstance(expected, list) and len(found) == len(expected):
        for number, (one, other) in enumerate(zip(found, expected, strict=True)):
            yield from _differences(one, other, f"{path}/{number}")
    elif found != expected:
        yield f"{path}: {found!r} instead of {expected!r}"
