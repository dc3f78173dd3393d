"""A history of a broker, step by step, with the state after each step and the bytes of the journal that it took."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

from tests.crash.running import SMALLEST, segments, serve
from tests.crash.wire_dump import Dump, dump
from tests.support import Conn, advance, as_list, lease, lease_one, put

FLAGS = ("--virtual-clock", *SMALLEST)


@dataclass(frozen=True, slots=True)
class Step:
    """The state after a step, and where the journal ended then: all of it is in the bytes before `end`."""

    end: int
    state: Dump


@dataclass(frozen=True, slots=True)
class History:
    """A journal of one segment: its name, its bytes, and the steps that it holds, of which the first is empty."""

    name: str
    journal: bytes
    steps: list[Step]

    @property
    def end(self) -> int:
        """Where the last step ends; what follows was only set aside."""
        return self.steps[-1].end

    def at(self, size: int) -> Dump | None:
        """The state that the first `size` bytes hold; None if there are too few for any."""
        return next((step.state for step in reversed(self.steps) if step.end <= size), None)

    def damaged(self, folder: Path, journal: bytes) -> Path:
        """A new folder with other bytes in the segment."""
        folder.mkdir(parents=True)
        (folder / self.name).write_bytes(journal)
        return folder


def record(data: Path) -> History:
    """Let a server live through it, on a folder that doesn't exist yet."""
    journals: list[bytes] = []
    name = ""
    states: list[Dump] = []
    with serve(data, *FLAGS) as server, Conn(server.port) as conn:
        for _ in play(conn):
            (segment,) = segments(data)
            name = segment.name
            journals.append(segment.read_bytes())
            states.append(dump(conn, ages=False))
        server.kill()
    # A step ends where the next one's bytes begin; the last one at its last byte.
    ends = [_first_difference(before, after) for before, after in pairwise(journals)]
    ends.append(len(journals[-1].rstrip(b"\0")))
    steps = [Step(end, state) for end, state in zip(ends, states, strict=True)]
    return History(name, journals[-1], steps)


def _first_difference(before: bytes, after: bytes) -> int:
    for at, (a, b) in enumerate(zip(before, after, strict=False)):
        if a != b:
            return at
    assert len(after) > len(before), "a step left no trace in the journal"
    return len(before)


def play(conn: Conn) -> Iterator[None]:
    """Every kind of change once, none of which makes more than one thing happen."""
    yield
    conn.ok("QDECLARE", "q", "ACKTIMEOUT", "10s", "MAXATTEMPTS", 3, "RETRYDELAY", "1s", "MAXDEAD", 2)
    yield
    conn.ok("QDECLARE", "r.x", "TTL", "30s", "OVERFLOW", "DROPHEAD", "MAXLEN", 3, "DEDUPE", 0)
    yield
    yield from _messages(conn)
    yield from _topics(conn)
    yield from _dead_letters(conn)
    assert conn.integer("QPURGE", "q") > 0
    yield
    assert conn.integer("QDELETE", "r.x") == 1
    yield
    put(conn, "q", "the last one")
    yield


def _messages(conn: Conn) -> Iterator[None]:
    put(
        conn,
        "q",
        b"\x00\xff\r\n",
        "ID",
        b"\xfeid",
        "PRIORITY",
        -5,
        "HEADER",
        "h",
        b"\xff",
        "ATTACH",
        b"",
        "ATTACH",
        "a",
    )
    yield
    conn.array("QMPUT", "q", "1", "2", "3", "4", "")
    yield
    put(conn, "q", "late", "DELAY", "1s", "TTL", "5s")
    yield
    first, second = lease(conn, "q", "COUNT", 2)
    yield
    assert conn.integer("QACK", "q", first.lease) == 1
    yield
    assert conn.integer("QTOUCH", "q", second.lease, "FOR", "20s") == 1
    yield
    assert conn.integer("QNACK", "q", second.lease, "ERROR", "not yet") == 1
    yield
    # The message with a delay is due now; the one that failed was put back in the same moment.
    advance(conn, "1s")
    yield
    third = lease_one(conn, "q", "REQID", "again")
    yield
    assert conn.integer("QNACK", "q", third.lease, "RELEASE") == 1
    yield
    fourth = lease_one(conn, "q")
    yield
    # Its lease ends.
    advance(conn, "10s")
    yield
    put(conn, "q", "chosen", "ID", "k")
    yield
    conn.cmd("QPUT", "q", "chosen", "ID", "k")  # a duplicate is counted
    yield
    assert conn.integer("QDEL", "q", "k", fourth.id) == 2
    yield
    conn.pipeline([("MULTI",), ("QPUT", "q", "both"), ("QPUT", "r.x", "both"), ("EXEC",)])
    yield
    fifth = lease_one(conn, "q")
    yield
    replies = conn.pipeline([("MULTI",), ("QACK", "q", fifth.lease), ("QPUT", "r.x", "next"), ("EXEC",)])
    assert as_list(replies[-1])[0] == 1
    yield


def _topics(conn: Conn) -> Iterator[None]:
    assert conn.integer("QBIND", "a.#", "r.x") == 1
    yield
    assert conn.array("QPUBLISH", "a.b", "event", "HEADER", "h", "v") == [0, 1]
    yield
    assert conn.integer("PUBLISH", "a", "one lets the oldest die") == 1
    yield
    conn.ok("EXCHANGE", "DECLARE", "x", "DIRECT")
    yield
    assert conn.integer("EXCHANGE", "BIND", "x", "q", "key") == 1
    yield
    assert conn.integer("EXCHANGE", "PUBLISH", "x", "key", "copy") == 1
    yield
    assert conn.integer("EXCHANGE", "UNBIND", "x", "q", "key") == 1
    yield
    assert conn.integer("QUNBIND", "a.#", "r.x") == 1
    yield
    assert conn.integer("EXCHANGE", "DELETE", "x") == 1
    yield


def _dead_letters(conn: Conn) -> Iterator[None]:
    leased = lease(conn, "q", "COUNT", 3)
    yield
    for found in leased:
        # Of three dead letters two are kept.
        assert conn.integer("QNACK", "q", found.lease, "REJECT", "ERROR", b"bad \xff") == 1
        yield
    assert conn.integer("QDEAD", "REPLAY", "q") == 2
    yield
    found = lease_one(conn, "q")
    yield
    assert conn.integer("QNACK", "q", found.lease, "REJECT") == 1
    yield
    assert len(conn.array("QDEAD", "POP", "q")) == 1
    yield
