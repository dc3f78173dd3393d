"""Every command that changes state, carried out in a meaningful way on a state made for it.

A function here gets a connection to a server on a virtual clock and the name of a queue that nobody else uses, and
does its command in all the ways in which it leaves something different behind. `CHANGES` has an entry for each.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias

from tests.support import Arg, Conn, advance, as_bytes, as_list, lease, lease_one, put, put_all
from tests.support.events import consume, delivered

Change: TypeAlias = Callable[[Conn, str], None]

_BLOB = bytes(range(256))


def qdeclare(conn: Conn, q: str) -> None:
    conn.ok("QDECLARE", q, "ACKTIMEOUT", "1500ms", "MAXATTEMPTS", 2, "RETRYDELAY", 0, "MAXRETRYDELAY", "2d")
    conn.ok("QDECLARE", f"{q}.2", "MAXLEN", 1, "OVERFLOW", "DROPHEAD", "TTL", "1h", "MAXDEAD", 3, "DEDUPE", 0)
    conn.ok("QDECLARE", f"{q}.3", "RETRYJITTER", "0.25", "RETRYDELAY", "3650d", "MAXRETRYDELAY", "3650d")
    conn.ok("QDECLARE", q, "ACKTIMEOUT", "1500ms", "MAXATTEMPTS", 2, "RETRYDELAY", 0, "MAXRETRYDELAY", "2d")


def qdelete(conn: Conn, q: str) -> None:
    for name in (q, f"{q}.again", f"{q}.gone"):
        conn.ok("QDECLARE", name, "MAXATTEMPTS", 1)
        conn.integer("QBIND", f"{q}.topic", name)
        conn.ok("EXCHANGE", "DECLARE", q, "FANOUT")
        conn.integer("EXCHANGE", "BIND", q, name)
        put_all(conn, name, ["dead", "leased", "ready"])
        put(conn, name, "delayed", "DELAY", "1h", "ID", "k")
        conn.integer("QNACK", name, lease_one(conn, name).lease)
        lease_one(conn, name)
    for name in (f"{q}.again", f"{q}.gone"):
        assert conn.integer("QDELETE", name) == 1
    conn.ok("QDECLARE", f"{q}.again", "TTL", "1d")
    put(conn, f"{q}.again", "the id is new here", "ID", "k")


def qpurge(conn: Conn, q: str) -> None:
    conn.ok("QDECLARE", q)
    put_all(conn, q, ["leased", "ready"])
    put(conn, q, "delayed", "DELAY", "1h", "ID", "k")
    lease_one(conn, q)
    assert conn.integer("QPURGE", q) == 2
    put(conn, q, "behind it")
    assert conn.cmd("QPUT", q, "a duplicate still", "ID", "k") is not None


def qput(conn: Conn, q: str) -> None:
    conn.ok("QDECLARE", q, "MAXLEN", 12, "DEDUPE", "10m")
    put(conn, q, b"")
    put(conn, q, _BLOB, "ID", _BLOB[1:], "HEADER", _BLOB[1:], _BLOB, "HEADER", "a", "", "ATTACH", _BLOB, "ATTACH", b"")
    put(conn, q, "urgent", "PRIORITY", -(2**63))
    put(conn, q, "not urgent", "PRIORITY", 2**63 - 1)
    put(conn, q, "late", "DELAY", "90s", "TTL", "2m")
    put(conn, q, "much later", "DELAY", "30d")
    put(conn, q, "short", "TTL", "1s")
    put(conn, q, "known", "ID", "k")
    conn.cmd("QPUT", q, "a duplicate", "ID", "k")
    lease_one(conn, q)
    put_all(conn, q, ["fills"] * 5)
    assert conn.error("QPUT", q, "too many").code == b"QUEUEFULL"
    conn.ok("QDECLARE", f"{q}.drops", "MAXLEN", 2, "OVERFLOW", "DROPHEAD", "MAXDEAD", 2)
    put_all(conn, f"{q}.drops", ["1", "2", "3", "4", "5"])


def qmput(conn: Conn, q: str) -> None:
    conn.ok("QDECLARE", q, "MAXLEN", 10)
    conn.array("QMPUT", q, "one", b"", _BLOB)
    conn.array("QMPUT", q, *["x"] * 7)
    assert conn.error("QMPUT", q, "no", "room").code == b"QUEUEFULL"


def qlease(conn: Conn, q: str) -> None:
    conn.ok("QDECLARE", q, "ACKTIMEOUT", "10s")
    conn.ok("QDECLARE", f"{q}.b")
    put_all(conn, q, [str(number) for number in range(12)])
    put_all(conn, f"{q}.b", ["b"])
    lease(conn, q)
    lease(conn, q, "COUNT", 3, "LEASE", "3s")
    lease(conn, q, "COUNT", 2, "REQID", _BLOB)
    lease(conn, q, "COUNT", 20, "LEASE", "3650d", "REQID", "all")
    lease(conn, q, f"{q}.b", "COUNT", 5)


def qack(conn: Conn, q: str) -> None:
    conn.ok("QDECLARE", q, "ACKTIMEOUT", "5s", "RETRYDELAY", "1h", "MAXRETRYDELAY", "1h")
    put_all(conn, q, ["1", "2", "3", "4", "5"])
    tokens = [found.lease for found in lease(conn, q, "COUNT", 4, "REQID", "r")]
    assert conn.integer("QACK", q, tokens[0], tokens[1], tokens[0], "nonsense") == 2
    advance(conn, "5s")
    assert conn.integer("QACK", q, tokens[2]) == 1  # late, but nobody has it


def qnack(conn: Conn, q: str) -> None:
    conn.ok("QDECLARE", q, "MAXATTEMPTS", 2, "RETRYDELAY", "10s", "ACKTIMEOUT", "1d")
    put_all(conn, q, [str(number) for number in range(9)])
    tokens = [found.lease for found in lease(conn, q, "COUNT", 9)]
    options = [
        (),
        ("DELAY", 0),
        ("DELAY", "1h", "ERROR", "later"),
        ("RELEASE",),
        ("RELEASE", "DELAY", "1m"),
        ("REJECT",),
        ("REJECT", "ERROR", _BLOB),
        ("RELEASE", "ERROR", "none"),
    ]
    for token, words in zip(tokens, options, strict=False):
        assert conn.integer("QNACK", q, token, *words) == 1
        assert conn.integer("QNACK", q, token) == 0
    for found in lease(conn, q, "COUNT", 3):
        assert conn.integer("QNACK", q, found.lease, "ERROR", "again") == 1


def qtouch(conn: Conn, q: str) -> None:
    conn.ok("QDECLARE", q, "ACKTIMEOUT", "10s")
    put_all(conn, q, ["1", "2", "3", "4"])
    tokens = [found.lease for found in lease(conn, q, "COUNT", 4)]
    advance(conn, "3s")
    assert conn.integer("QTOUCH", q, tokens[0], tokens[1], "nonsense") == 2
    assert conn.integer("QTOUCH", q, tokens[1], "FOR", "5m") == 1
    assert conn.integer("QTOUCH", q, tokens[2], "FOR", "1ms") == 1
    advance(conn, "2ms")
    assert conn.integer("QTOUCH", q, tokens[2]) == 0


def qdel(conn: Conn, q: str) -> None:
    conn.ok("QDECLARE", q)
    for name in ("leased", "ready", "stays", "leased, too"):
        put(conn, q, name, "ID", name)
    put(conn, q, "delayed", "ID", "delayed", "DELAY", "1m")
    assert [found.id for found in lease(conn, q, "COUNT", 1)] == [b"leased"]
    assert conn.integer("QDEL", q, "leased", "delayed", "nothing") == 2
    assert conn.integer("QDEL", q, "ready") == 1
    conn.cmd("QPUT", q, "remembered", "ID", "ready")


def qconsume(conn: Conn, q: str) -> None:
    conn.ok("QDECLARE", q, "ACKTIMEOUT", "20s")
    put_all(conn, q, ["1", "2", "3", "4"])
    tag = consume(conn, q, "PREFETCH", 2)
    assert [found.tag for found in delivered(conn)] == [tag, tag]


def qcancel(conn: Conn, q: str) -> None:
    conn.ok("QDECLARE", q, "MAXATTEMPTS", 2, "RETRYDELAY", 0)
    put_all(conn, q, ["1", "2", "3"])
    for _ in range(2):
        tag = consume(conn, q, "PREFETCH", 2)
        first, _second = delivered(conn)
        assert conn.integer("QACK", q, first.lease) == 1
        (_third,) = delivered(conn)
        assert conn.integer("QCANCEL", tag) == 2
        put_all(conn, q, ["4", "5"])


def qbind(conn: Conn, q: str) -> None:
    conn.ok("QDECLARE", q)
    conn.ok("QDECLARE", f"{q}.2")
    for pattern in (f"{q}.#", f"{q}.*.x", b"\xff.*", "#.never-published"):
        assert conn.integer("QBIND", pattern, q) == 1
        assert conn.integer("QBIND", pattern, q) == 0
    conn.integer("QBIND", f"{q}.#", f"{q}.2")
    assert conn.integer("PUBLISH", f"{q}.a.x", "event") == 2


def qunbind(conn: Conn, q: str) -> None:
    conn.ok("QDECLARE", q)
    for pattern in (f"{q}.a", f"{q}.b"):
        conn.integer("QBIND", pattern, q)
    assert conn.integer("QUNBIND", f"{q}.a", q) == 1
    assert conn.integer("QUNBIND", f"{q}.a", q) == 0


def publish(conn: Conn, q: str) -> None:
    conn.ok("QDECLARE", q, "MAXLEN", 2)
    conn.integer("QBIND", f"{q}.*", q)
    assert [conn.integer("PUBLISH", f"{q}.t", body) for body in (b"1", _BLOB, b"dropped")] == [1, 1, 0]


def qpublish(conn: Conn, q: str) -> None:
    conn.ok("QDECLARE", q)
    conn.ok("QDECLARE", f"{q}.lets-die", "MAXLEN", 1, "OVERFLOW", "DROPHEAD")
    conn.integer("QBIND", f"{q}.*", q)
    conn.integer("QBIND", f"{q}.#", f"{q}.lets-die")
    for body in (b"1", _BLOB):
        found = conn.array(
            "QPUBLISH", f"{q}.t", body, "HEADER", "topic", "theirs", "HEADER", "h", _BLOB, "ATTACH", _BLOB
        )
        assert found == [0, 2]


def exchange_declare(conn: Conn, q: str) -> None:
    for kind in ("FANOUT", "DIRECT", "TOPIC"):
        conn.ok("EXCHANGE", "DECLARE", f"{q}.{kind}", kind)
        conn.ok("EXCHANGE", "DECLARE", f"{q}.{kind}", kind)


def exchange_delete(conn: Conn, q: str) -> None:
    conn.ok("QDECLARE", q)
    for name in (q, f"{q}.again"):
        conn.ok("EXCHANGE", "DECLARE", name, "FANOUT")
        conn.integer("EXCHANGE", "BIND", name, q)
        assert conn.integer("EXCHANGE", "DELETE", name) == 1
    conn.ok("EXCHANGE", "DECLARE", f"{q}.again", "DIRECT")


def exchange_bind(conn: Conn, q: str) -> None:
    conn.ok("QDECLARE", q)
    bindings: dict[str, list[tuple[Arg, ...]]] = {
        "FANOUT": [()],
        "DIRECT": [(), ("k",), (_BLOB[128:],)],
        "TOPIC": [("a.*",), ("#",)],
    }
    for kind, keys in bindings.items():
        name = f"{q}.{kind}"
        conn.ok("EXCHANGE", "DECLARE", name, kind)
        for key in keys:
            assert conn.integer("EXCHANGE", "BIND", name, q, *key) == 1
            assert conn.integer("EXCHANGE", "BIND", name, q, *key) == 0


def exchange_unbind(conn: Conn, q: str) -> None:
    conn.ok("QDECLARE", q)
    conn.ok("EXCHANGE", "DECLARE", q, "DIRECT")
    for key in ("a", "b"):
        conn.integer("EXCHANGE", "BIND", q, q, key)
    assert conn.integer("EXCHANGE", "UNBIND", q, q, "a") == 1
    assert conn.integer("EXCHANGE", "UNBIND", q, q, "a") == 0


def exchange_publish(conn: Conn, q: str) -> None:
    conn.ok("QDECLARE", q)
    conn.ok("QDECLARE", f"{q}.full", "MAXLEN", 1)
    conn.ok("EXCHANGE", "DECLARE", q, "FANOUT")
    conn.integer("EXCHANGE", "BIND", q, q)
    conn.integer("EXCHANGE", "BIND", q, f"{q}.full")
    publish = ("EXCHANGE", "PUBLISH", q, "key", _BLOB, "HEADER", "h", "v", "ATTACH", _BLOB)
    assert [conn.integer(*publish) for _ in range(2)] == [2, 1]


def _dead(conn: Conn, q: str) -> None:
    conn.ok("QDECLARE", q, "MAXDEAD", 5)
    for number in range(6):
        put(conn, q, f"{number}", "ID", f"{number}", "HEADER", "h", _BLOB, "ATTACH", "a", "PRIORITY", number)
    for found in lease(conn, q, "COUNT", 6):
        conn.integer("QNACK", q, found.lease, "REJECT", "ERROR", _BLOB)


def qdead_pop(conn: Conn, q: str) -> None:
    _dead(conn, q)
    assert len(conn.array("QDEAD", "POP", q)) == 1
    assert len(conn.array("QDEAD", "POP", q, "COUNT", 2)) == 2


def qdead_replay(conn: Conn, q: str) -> None:
    _dead(conn, q)
    assert conn.integer("QDEAD", "REPLAY", q, "3", "nothing") == 1
    conn.ok("QDECLARE", f"{q}.all", "TTL", "1m")
    put_all(conn, f"{q}.all", ["1", "2"])
    advance(conn, "1m")
    assert conn.integer("QDEAD", "REPLAY", f"{q}.all") == 2
    lease_one(conn, f"{q}.all")


def qdead_purge(conn: Conn, q: str) -> None:
    _dead(conn, q)
    assert conn.integer("QDEAD", "PURGE", q, "2", "4", "nothing") == 2
    _dead(conn, f"{q}.all")
    assert conn.integer("QDEAD", "PURGE", f"{q}.all") == 5


def exec_(conn: Conn, q: str) -> None:
    conn.ok("QDECLARE", q)
    conn.ok("QDECLARE", f"{q}.next")
    put(conn, q, "m")
    found = lease_one(conn, q)
    *_, replies = conn.pipeline(
        [
            ("MULTI",),
            ("QACK", q, found.lease),
            ("QPUT", f"{q}.next", "n", "ID", "n"),
            ("QPUT", "nowhere", "n"),
            ("QLEASE", f"{q}.next", "REQID", "inside"),
            ("QPUT", f"{q}.next", "delayed", "DELAY", "1h"),
            ("EXEC",),
        ]
    )
    acked, id, _, leased, _ = as_list(replies)
    assert (acked, as_bytes(id), len(as_list(leased))) == (1, b"n", 1)


def time_goes_on(conn: Conn, q: str) -> None:
    """What the broker does by itself: leases end, messages fall due, wait too long and die, and are announced."""
    conn.ok("QDECLARE", q, "ACKTIMEOUT", "10s", "MAXATTEMPTS", 2, "RETRYDELAY", "5s", "MAXDEAD", 2)
    conn.ok("QDECLARE", f"{q}.deaths", "TTL", "1h")
    conn.integer("QBIND", f"$sys.dead.{q}", f"{q}.deaths")
    put_all(conn, q, ["fails", "fails, too", "is late"])
    put(conn, q, "ends", "TTL", "12s")
    put(conn, q, "is due", "DELAY", "7s")
    put(conn, q, "is due later", "DELAY", "1d", "PRIORITY", 1)
    lease(conn, q, "COUNT", 3)
    advance(conn, "16s")
    lease(conn, q, "COUNT", 2)
    advance(conn, "10s")
    lease(conn, q, "COUNT", 1)


CHANGES: dict[str, Change] = {
    "QDECLARE": qdeclare,
    "QDELETE": qdelete,
    "QPURGE": qpurge,
    "QPUT": qput,
    "QMPUT": qmput,
    "QLEASE": qlease,
    "QACK": qack,
    "QNACK": qnack,
    "QTOUCH": qtouch,
    "QDEL": qdel,
    "QCONSUME": qconsume,
    "QCANCEL": qcancel,
    "QBIND": qbind,
    "QUNBIND": qunbind,
    "PUBLISH": publish,
    "QPUBLISH": qpublish,
    "EXCHANGE DECLARE": exchange_declare,
    "EXCHANGE DELETE": exchange_delete,
    "EXCHANGE BIND": exchange_bind,
    "EXCHANGE UNBIND": exchange_unbind,
    "EXCHANGE PUBLISH": exchange_publish,
    "QDEAD POP": qdead_pop,
    "QDEAD REPLAY": qdead_replay,
    "QDEAD PURGE": qdead_purge,
    "EXEC": exec_,
    "DEBUG ADVANCE": time_goes_on,
}
