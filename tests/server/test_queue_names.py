"""Queue names: what is one, and that every command refuses what isn't with the same word."""

from __future__ import annotations

import pytest

from tests.support import Arg, Conn, put

BAD_NAMES: list[str | bytes] = [
    "",
    ".",
    "..",
    ".a",
    "a.",
    "a..b",
    "a.b..c",
    " ",
    "a b",
    "a\t",
    "a\n",
    "a\x00",
    "a*",
    "*",
    "#",
    "a?",
    "$sys.dead",
    "a,b",
    "a;b",
    "a|b",
    "a~",
    "a[0]",
    "a\\b",
    "caf\N{LATIN SMALL LETTER E WITH ACUTE}",
    b"\xff",
    "a" * 201,
    "a" * 100_000,
    "COUNT",
    "WAIT",
    "LEASE",
    "REQID",
    "FULL",
    "count",
    "Wait",
    "reqId",
]

GOOD_NAMES = [
    "a",
    "0",
    "a" * 200,
    "ABCXYZ.abcxyz.0189",
    "a.b.c",
    "-",
    "_",
    "jobs:high/eu@host{tag}-1_x",
    "counts",
    "COUNT.x",
    "x.count",
    "full-",
]


def command_of(name: str, queue: Arg) -> tuple[Arg, ...]:
    """A command that would be right but for the queue's name."""
    return {
        "QDECLARE": ("QDECLARE", queue),
        "QDELETE": ("QDELETE", queue),
        "QPURGE": ("QPURGE", queue),
        "QCONFIG": ("QCONFIG", queue),
        "QSTATS": ("QSTATS", queue),
        "QPUT": ("QPUT", queue, "body"),
        "QMPUT": ("QMPUT", queue, "body"),
        "QLEASE": ("QLEASE", queue),
        "QACK": ("QACK", queue, "token"),
        "QNACK": ("QNACK", queue, "token"),
        "QTOUCH": ("QTOUCH", queue, "token"),
        "QPEEK": ("QPEEK", queue),
        "QSHOW": ("QSHOW", queue, "id"),
        "QDEL": ("QDEL", queue, "id"),
        "QDEAD LIST": ("QDEAD", "LIST", queue),
        "QDEAD LEN": ("QDEAD", "LEN", queue),
        "QDEAD POP": ("QDEAD", "POP", queue),
        "QDEAD REPLAY": ("QDEAD", "REPLAY", queue),
        "QDEAD PURGE": ("QDEAD", "PURGE", queue),
    }[name]


COMMANDS = [
    "QDECLARE",
    "QDELETE",
    "QPURGE",
    "QCONFIG",
    "QSTATS",
    "QPUT",
    "QMPUT",
    "QLEASE",
    "QACK",
    "QNACK",
    "QTOUCH",
    "QPEEK",
    "QSHOW",
    "QDEL",
    "QDEAD LIST",
    "QDEAD LEN",
    "QDEAD POP",
    "QDEAD REPLAY",
    "QDEAD PURGE",
]


@pytest.mark.parametrize("command", COMMANDS)
def test_what_is_no_queue_name_is_refused_by_every_command(command: str, conn: Conn) -> None:
    """-INVALIDNAME, whether or not such a queue could exist: no empty word, no other characters, no option word."""
    for name in BAD_NAMES:
        assert conn.error(*command_of(command, name)).code == b"INVALIDNAME", name
    assert not set(conn.array("QLIST")) & {name if isinstance(name, bytes) else name.encode() for name in BAD_NAMES}


@pytest.mark.parametrize("command", [name for name in COMMANDS if name != "QDECLARE"])
def test_a_queue_that_does_not_exist_is_named(command: str, conn: Conn) -> None:
    """-NOQUEUE no such queue 'x', by every command that names one."""
    for name in GOOD_NAMES:
        assert conn.error(*command_of(command, name)).text == f"NOQUEUE no such queue '{name}'".encode()


def test_every_other_name_is_a_queue_name(conn: Conn) -> None:
    """1 to 200 bytes, case-sensitive."""
    for name in GOOD_NAMES:
        conn.ok("QDECLARE", name)
        put(conn, name, name)
    assert set(conn.array("QLIST")) >= {name.encode() for name in GOOD_NAMES}
    assert conn.error("QSTATS", "A").code == b"NOQUEUE"
    for name in GOOD_NAMES:
        (found,) = conn.array("QLEASE", name)
        assert isinstance(found, list)
        assert (found[0], found[4]) == (name.encode(), name.encode())
        assert conn.integer("QDELETE", name) == 1


def test_a_bad_name_among_good_ones_takes_nothing(conn: Conn, queue: str) -> None:
    """QLEASE of several queues, one of them impossible or unknown: an error, and no message is leased."""
    conn.ok("QDECLARE", queue)
    put(conn, queue, "m")
    assert conn.error("QLEASE", queue, "a..b").code == b"INVALIDNAME"
    assert conn.error("QLEASE", queue, "no-such-queue").code == b"NOQUEUE"
    assert conn.mapping("QSTATS", queue)[b"in_flight"] == 0


def test_names_are_listed_sorted_and_by_pattern(conn: Conn, queue: str) -> None:
    """QLIST, QLIST MATCH glob."""
    names = [f"{queue}.{tail}" for tail in ("b", "a", "C", "a.x", "10", "9")]
    for name in names:
        conn.ok("QDECLARE", name)
    expected = sorted(name.encode() for name in names)
    assert conn.array("QLIST", "MATCH", f"{queue}.*") == expected
    everything = conn.array("QLIST")
    assert everything == sorted(name for name in everything if isinstance(name, bytes))
    assert conn.array("QLIST", "MATCH", f"{queue}.[ab]") == [f"{queue}.a".encode(), f"{queue}.b".encode()]
