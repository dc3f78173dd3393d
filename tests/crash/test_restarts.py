"""What a worker, a producer and a message notice of a restart: nothing but the time that it took."""

from __future__ import annotations

import json
import signal
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.crash.running import serve
from tests.crash.wire_dump import differences, dump
from tests.support import (
    Conn,
    ServerProcess,
    advance,
    as_bytes,
    as_int,
    bodies,
    counts,
    dead,
    is_null,
    lease,
    lease_one,
    peek,
    put,
    put_all,
    stat,
)
from tests.support.events import arrived, consume, delivered, psubscribe

VIRTUAL = ("--virtual-clock",)


def terminate(server: ServerProcess) -> None:
    assert server.stop(signal.SIGTERM) == 0
    assert "Traceback" not in server.log


def kill(server: ServerProcess) -> None:
    server.kill()
    assert "Traceback" not in server.log


End = Callable[[ServerProcess], None]
ENDS = pytest.mark.parametrize("end", [terminate, kill])


@pytest.fixture
def data(tmp_path: Path) -> Path:
    return tmp_path / "data"


# -- Leases


@ENDS
@pytest.mark.parametrize("policy", ["always", "everysec", "no"])
def test_a_worker_acks_after_the_restart_what_it_took_before(policy: str, end: End, data: Path) -> None:
    """By QLEASE and by QCONSUME; nobody else gets it meanwhile, and the stop is no nack: attempts and counters stay."""
    flags = ("--fsync", policy)
    with serve(data, *flags) as server, Conn(server.port) as worker, Conn(server.port) as consumer:
        worker.ok("QDECLARE", "q", "MAXATTEMPTS", 1)
        put_all(worker, "q", ["1", "2", "3", "4", "5"])
        held = lease(worker, "q", "COUNT", 2)
        consumer.hello(3)
        consume(consumer, "q", "PREFETCH", 2)
        pushed = delivered(consumer)
        assert [found.body for found in pushed] == [b"3", b"4"]
        end(server)
    for _ in range(2):
        with serve(data, *flags) as server, Conn(server.port) as other:
            assert counts(other, "q", "ready", "in_flight", "retried", "dead") == (1, 4, 0, 0)
            first = lease_one(other, "q")
            assert (first.body, lease(other, "q")) == (b"5", [])
            assert other.integer("QNACK", "q", first.lease, "RELEASE") == 1
            end(server)
    with serve(data, *flags) as server, Conn(server.port) as worker:
        tokens = [*(one.lease for one in held), *(one.lease for one in pushed)]
        assert worker.integer("QTOUCH", "q", *tokens) == 4
        assert worker.integer("QACK", "q", *tokens) == 4
        assert worker.integer("QACK", "q", *tokens) == 0
        assert counts(worker, "q", "acked", "in_flight", "dead") == (4, 0, 0)


@ENDS
def test_a_lease_ends_when_it_would_have_ended(end: End, data: Path) -> None:
    """Not before and not later, however often the server was restarted, and its token is stale then."""
    with serve(data, *VIRTUAL) as server, Conn(server.port) as conn:
        conn.ok("QDECLARE", "q", "ACKTIMEOUT", "10s", "RETRYDELAY", 0)
        put(conn, "q", "m")
        token = lease_one(conn, "q").lease
        (before,) = peek(conn, "q", "STATE", "LEASED")
        end(server)
    for seconds in (4, 5):
        with serve(data, *VIRTUAL) as server, Conn(server.port) as conn:
            assert peek(conn, "q", "STATE", "LEASED") == [before]
            advance(conn, f"{seconds}s")
            assert lease(conn, "q") == []
            end(server)
    with serve(data, *VIRTUAL) as server, Conn(server.port) as conn:
        advance(conn, "999ms")
        assert lease(conn, "q") == []
        advance(conn, "1ms")
        found = lease_one(conn, "q")
        assert (found.attempt, found.lease != token) == (2, True)
        assert conn.integer("QACK", "q", token) == 0
        assert conn.integer("QACK", "q", found.lease) == 1


@ENDS
def test_a_resent_qlease_has_its_answer_after_the_restart(end: End, data: Path) -> None:
    """The same REQID: the leases that are still live, with their tokens, and nothing new."""
    with serve(data) as server, Conn(server.port) as conn:
        conn.ok("QDECLARE", "q")
        put_all(conn, "q", ["1", "2", "3", "4"])
        held = lease(conn, "q", "COUNT", 3, "REQID", "r")
        assert conn.integer("QACK", "q", held[0].lease) == 1
        end(server)
    with serve(data) as server, Conn(server.port) as conn:
        assert lease(conn, "q", "COUNT", 3, "REQID", "r") == held[1:]
        assert conn.integer("QACK", "q", held[1].lease, held[2].lease) == 2
        assert bodies(lease(conn, "q", "COUNT", 3, "REQID", "r")) == [b"4"]


def test_tokens_and_ids_are_never_used_again(data: Path) -> None:
    """However often it restarts, on a clock that stands still, too."""
    seen: set[bytes] = set()
    for life in range(3):
        with serve(data, *VIRTUAL) as server, Conn(server.port) as conn:
            conn.ok("QDECLARE", "q")
            ids = put_all(conn, "q", ["m"] * 5)
            fresh = [one.lease for one in lease(conn, "q", "COUNT", 3)] + ids
            assert not seen.intersection(fresh)
            seen.update(fresh)
            (kill if life else terminate)(server)
    assert len(seen) == 24


# -- Messages


def test_a_delay_ends_when_it_would_have_ended(data: Path) -> None:
    """DELAY 60s, killed after 20 s: 40 s are left, and the same of a backoff and of a TTL."""
    with serve(data, *VIRTUAL) as server, Conn(server.port) as conn:
        conn.ok("QDECLARE", "q", "RETRYDELAY", "60s")
        put(conn, "q", "failed")
        assert conn.integer("QNACK", "q", lease_one(conn, "q").lease) == 1
        put(conn, "q", "delayed", "DELAY", "60s")
        put(conn, "q", "mortal", "TTL", "60s")
        advance(conn, "20s")
        server.kill()
    with serve(data, *VIRTUAL) as server, Conn(server.port) as conn:
        advance(conn, "39s")
        server.kill()
    with serve(data, *VIRTUAL) as server, Conn(server.port) as conn:
        advance(conn, "999ms")
        assert counts(conn, "q", "ready", "delayed", "dead") == (1, 2, 0)
        advance(conn, "1ms")
        assert counts(conn, "q", "ready", "delayed", "dead") == (2, 0, 1)
        assert bodies(lease(conn, "q", "COUNT", 2)) == [b"failed", b"delayed"]


def test_real_time_goes_on_while_the_server_is_down(data: Path) -> None:
    """What fell due meanwhile is there at once, what did not keeps its moment."""
    with serve(data) as server, Conn(server.port) as conn:
        conn.ok("QDECLARE", "q", "RETRYDELAY", 0)
        put(conn, "q", "leased")
        lease_one(conn, "q", "LEASE", "300ms")
        put(conn, "q", "delayed", "DELAY", "300ms")
        put(conn, "q", "mortal", "TTL", "300ms", "PRIORITY", 1)
        put(conn, "q", "later", "DELAY", "1h")
        server.kill()
    time.sleep(0.3)
    with serve(data) as server, Conn(server.port) as conn:
        assert sorted(bodies(lease(conn, "q", "COUNT", 9))) == [b"delayed", b"leased"]
        assert counts(conn, "q", "delayed", "dead", "expired_leases") == (1, 1, 1)


def test_a_message_is_no_duplicate_of_itself(data: Path) -> None:
    """It is delivered after its delay, a nack, an expiry and a restart; only a new put with its id is turned away."""
    with serve(data, *VIRTUAL) as server, Conn(server.port) as conn:
        conn.ok("QDECLARE", "q", "ACKTIMEOUT", "10s", "RETRYDELAY", 0, "DEDUPE", "1h")
        put(conn, "q", "m", "ID", "k", "DELAY", "50ms")
        server.kill()
    steps: list[tuple[str, int]] = [("50ms", 1), ("1s", 2), ("10s", 3)]
    for step, attempt in steps:
        with serve(data, *VIRTUAL) as server, Conn(server.port) as conn:
            advance(conn, step)
            found = lease_one(conn, "q")
            assert (found.id, found.attempt) == (b"k", attempt)
            assert is_null(conn.cmd("QPUT", "q", "m", "ID", "k"))
            if attempt == 1:
                assert conn.integer("QNACK", "q", found.lease, "DELAY", "1s") == 1
            server.kill()
    with serve(data, *VIRTUAL) as server, Conn(server.port) as conn:
        assert stat(conn, "q", "duplicates") == 3


@ENDS
def test_the_dedupe_window_outlives_its_messages(end: End, data: Path) -> None:
    """Put, leased, acked, restarted: the id is still known, as long as the window lasts."""
    with serve(data, *VIRTUAL) as server, Conn(server.port) as conn:
        conn.ok("QDECLARE", "q", "DEDUPE", "1h")
        put(conn, "q", "m", "ID", "acked")
        assert conn.integer("QACK", "q", lease_one(conn, "q").lease) == 1
        put(conn, "q", "m", "ID", "deleted")
        assert conn.integer("QDEL", "q", "deleted") == 1
        put(conn, "q", "m", "ID", "purged")
        assert conn.integer("QPURGE", "q") == 1
        advance(conn, "30m")
        end(server)
    for step in ("0", "29m"):
        with serve(data, *VIRTUAL) as server, Conn(server.port) as conn:
            advance(conn, step)
            assert all(is_null(conn.cmd("QPUT", "q", "m", "ID", id)) for id in ("acked", "deleted", "purged"))
            end(server)
    with serve(data, *VIRTUAL) as server, Conn(server.port) as conn:
        advance(conn, "1m")
        assert [put(conn, "q", "m", "ID", id) for id in ("acked", "deleted")] == [b"acked", b"deleted"]


# -- Loading


def test_loading_does_nothing_twice(data: Path) -> None:
    """One that failed once, several dead, restarted five times: attempts, counters, the order of the dead, ids and
    bindings stay; nothing is announced again and no backoff begins anew.
    """
    with serve(data, *VIRTUAL) as server, Conn(server.port) as conn:
        conn.ok("QDECLARE", "q", "MAXATTEMPTS", 3, "RETRYDELAY", "10s")
        conn.ok("QDECLARE", "deaths")
        conn.integer("QBIND", "$sys.dead.#", "deaths")
        put_all(conn, "q", ["3", "1", "2", "failed"])
        for found in lease(conn, "q", "COUNT", 3):
            assert conn.integer("QNACK", "q", found.lease, "REJECT", "ERROR", "why") == 1
        assert conn.integer("QNACK", "q", lease_one(conn, "q").lease) == 1
        advance(conn, "4s")
        expected = dump(conn)
        assert as_int(expected.queues[b"deaths"].stats[b"enqueued"]) == 3
        server.kill()
    for life in range(5):
        with serve(data, *VIRTUAL) as server, Conn(server.port) as conn, Conn(server.port) as subscriber:
            psubscribe(subscriber, "#")
            assert not differences(dump(conn), expected)
            assert arrived(subscriber) == []
            (kill if life % 2 else terminate)(server)
    with serve(data, *VIRTUAL) as server, Conn(server.port) as conn:
        assert [found[b"body"] for found in dead(conn, "q")] == [b"3", b"1", b"2"]
        advance(conn, "5999ms")
        assert lease(conn, "q") == []
        advance(conn, "1ms")
        assert lease_one(conn, "q").attempt == 2


def test_what_falls_due_after_loading_happens_once(data: Path) -> None:
    """A message whose time ended while the server was down dies once, and is announced once."""
    with serve(data) as server, Conn(server.port) as conn:
        conn.ok("QDECLARE", "q")
        conn.ok("QDECLARE", "deaths")
        conn.integer("QBIND", "$sys.dead.#", "deaths")
        put(conn, "q", "m", "TTL", "100ms", "ID", "k")
        server.kill()
    time.sleep(0.1)
    for _ in range(2):
        with serve(data) as server, Conn(server.port) as conn:
            assert counts(conn, "q", "dead", "dead_lettered", "ready") == (1, 1, 0)
            (announced,) = peek(conn, "deaths")
            assert json.loads(as_bytes(announced[b"body"]))["reason"] == "ttl_expired"
            server.kill()


def test_without_data_everything_is_forgotten(data: Path) -> None:
    """Memory only by default, and no file is made."""
    with serve(data) as server, Conn(server.port) as conn:
        conn.ok("QDECLARE", "q")
        assert server.stop() == 0
    before = {path: path.stat().st_mtime_ns for path in data.iterdir()}
    with ServerProcess(["--port", "0"]) as server, Conn(server.port) as conn:
        assert conn.array("QLIST") == []
    assert before == {path: path.stat().st_mtime_ns for path in data.iterdir()}
