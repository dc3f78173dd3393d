"""What an attack on a running server has found: all of it once ended it, stopped it, leaked or got lost."""

from __future__ import annotations

import contextlib
import re
import socket
import time

import pytest

from tests.support import (
    OK,
    PONG,
    Conn,
    Connect,
    Error,
    ServerProcess,
    Simple,
    as_bytes,
    bodies,
    counts,
    deliveries,
    encode,
    lease,
    lease_one,
    messages,
    put,
    start_server,
    stat,
    wait_until,
)

MOST = 2**63 - 1
#: More than the buffers of two sockets.
ECHOED = 8_000_000


def narrow(server: ServerProcess) -> Conn:
    """A client whose socket holds little that it hasn't read."""
    one = Conn(server.port)
    one.sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1 << 16)
    return one


def deaf(server: ServerProcess) -> Conn:
    """A client that has asked for more than its socket takes, and reads nothing."""
    one = narrow(server)
    one.send(encode("ECHO", b"x" * ECHOED))
    return one


def calls(conn: Conn, command: str) -> int:
    """How often a command was called on the server."""
    found = re.search(rf"^cmdstat_{command}:calls=(\d+)", conn.text("INFO", "commandstats"), re.MULTILINE)
    return int(found[1]) if found else 0


# -- Extreme values


@pytest.mark.parametrize("heartbeat", ["32768", "10h", "3650d"])
def test_a_heartbeat_longer_than_the_system_has_numbers_for(
    heartbeat: str, fresh_server: ServerProcess, connect: Connect
) -> None:
    """It once ended the server when the next client connected."""
    connect(fresh_server).ok("CONFIG", "SET", "heartbeat", heartbeat)
    assert connect(fresh_server).cmd("PING") == PONG


def test_the_largest_count_and_the_largest_offset(conn: Conn, queue: str) -> None:
    """Together they are more than a machine word."""
    conn.ok("QDECLARE", queue, "MAXATTEMPTS", 1)
    for n in range(4):
        put(conn, queue, str(n))
    for one in lease(conn, queue, "COUNT", 2):
        conn.cmd("QNACK", queue, one.lease)
    found = messages(conn.cmd("QPEEK", queue, "COUNT", MOST, "OFFSET", 1))
    assert [one[b"body"] for one in found] == [b"3"]
    assert messages(conn.cmd("QPEEK", queue, "COUNT", MOST, "OFFSET", MOST)) == []
    found = messages(conn.cmd("QDEAD", "LIST", queue, "COUNT", MOST, "OFFSET", 1))
    assert [one[b"body"] for one in found] == [b"1"]
    assert messages(conn.cmd("QDEAD", "LIST", queue, "COUNT", MOST, "OFFSET", MOST)) == []


def test_a_virtual_clock_ends_with_the_year_9999(fresh_virtual_server: ServerProcess, connect: Connect) -> None:
    """Behind it there is no date for an announcement, which was lost with the connection of whoever caused it."""
    a = connect(fresh_virtual_server)
    replies = a.pipeline([("DEBUG", "ADVANCE", "3650d")] * 900)
    refused = [reply for reply in replies if reply != OK]
    assert 0 < len(refused) < 200
    a.ok("QDECLARE", "q")
    a.ok("QDECLARE", "dead")
    assert a.integer("QBIND", "$sys.dead.#", "dead") == 1
    put(a, "q", "m")
    assert a.integer("QNACK", "q", lease_one(a, "q").lease, "REJECT") == 1
    assert b'"dead_at":"99' in lease_one(a, "dead").body


# -- Memory


def flood_unread(server: ServerProcess, one: Conn, words: tuple[str, ...]) -> int:
    """Send a command over and over until the server reads no more; how often it was sent in whole."""
    before = server.memory()
    command = encode(*words)
    batch = command * 100
    sent = 0
    one.sock.settimeout(1)
    with contextlib.suppress(TimeoutError):
        while sent < 100_000_000:
            sent += one.sock.send(batch[sent % len(command) :])
    assert sent < 100_000_000, "the server went on reading"
    assert server.memory() - before < 50 << 20
    return sent // len(command)


@pytest.mark.parametrize("words", [("NOPE",), ("ECHO", "x" * 4000)], ids=["NOPE", "ECHO"])
def test_small_replies_that_nobody_reads_are_limited(words: tuple[str, ...]) -> None:
    """Not only large ones count for client-output-buffer-limit; all come, once the client reads."""
    with (
        start_server("--client-output-buffer-limit", "1mb") as server,
        narrow(server) as one,
        Conn(server.port) as other,
    ):
        sent = flood_unread(server, one, words)
        assert other.cmd("PING") == PONG
        assert len({one.read_raw() for _ in range(sent)}) == 1
        assert one.pending() == b""


def test_errors_that_nobody_reads_are_limited_before_login() -> None:
    """Whoever hasn't logged in could fill the memory."""
    with (
        start_server("--client-output-buffer-limit", "1mb", "--requirepass", "secret") as server,
        narrow(server) as one,
    ):
        sent = flood_unread(server, one, ("NOPE",))
        assert len({one.read_raw() for _ in range(sent)}) == 1


def test_a_transaction_is_not_above_the_limit_of_a_command(connect: Connect) -> None:
    """As in Redis, client-query-buffer-limit holds for what MULTI has queued; here the connection goes on."""
    with start_server("--client-query-buffer-limit", "1mb") as server:
        a = connect(server)
        a.ok("QDECLARE", "q")
        a.ok("MULTI")
        before = server.memory()
        replies = [a.cmd("QPUT", "q", b"x" * 100_000) for _ in range(400)]
        assert replies[:10] == [Simple(b"QUEUED")] * 10
        (refused,) = [reply for reply in replies if isinstance(reply, Error)]
        assert refused.text.startswith(b"ERR the transaction is above 1048576 bytes (client-query-buffer-limit)")
        assert server.memory() - before < 20 << 20
        assert a.error("EXEC").code == b"EXECABORT"
        assert stat(a, "q", "enqueued") == 0
        assert a.cmd("PING") == PONG


def test_leases_whose_replies_are_switched_off_are_not_kept(connect: Connect) -> None:
    """With CLIENT REPLY OFF nothing was ever written, and what was handed out was kept to be given back."""
    with start_server() as server:
        a, b = connect(server), connect(server)
        b.ok("QDECLARE", "q", "ACKTIMEOUT", "1ms", "MAXATTEMPTS", 1, "MAXDEAD", 1)
        before = server.memory()
        a.start("CLIENT", "REPLY", "OFF")
        for _ in range(2000):
            a.send(encode("QPUT", "q", b"x" * 50_000) + encode("QLEASE", "q"))
        wait_until(lambda: stat(b, "q", "dead_lettered") == 2000, "all are dead")
        assert server.memory() - before < 40 << 20


def test_priorities_that_were_evicted_leave_nothing(fresh_server: ServerProcess, connect: Connect) -> None:
    """Under DROPHEAD each new least urgent one pushes out the one before: the memory stays, QSTATS stays quick."""
    a = connect(fresh_server)
    a.ok("QDECLARE", "q", "MAXLEN", 10, "OVERFLOW", "DROPHEAD", "MAXDEAD", 1)
    a.pipeline([("QPUT", "q", "x", "PRIORITY", -1)] * 10)
    before = fresh_server.memory()
    for start in range(0, 100_000, 5000):
        a.pipeline([("QPUT", "q", "x", "PRIORITY", n) for n in range(start, start + 5000)])
    assert fresh_server.memory() - before < 6 << 20
    assert counts(a, "q", "ready", "enqueued") == (10, 100_010)
    assert bodies(lease(a, "q", "COUNT", 20)) == [b"x"] * 10


# -- Clients that vanish or stop reading


def test_a_lease_that_was_handed_out_again_survives_the_first_connection(connect: Connect, queue: str) -> None:
    """REQID: what the first one never read has reached the second one, so it isn't given to a third."""
    with start_server() as server:
        b = connect(server)
        b.ok("QDECLARE", queue)
        put(b, queue, "m")
        with deaf(server) as a:
            a.start("QLEASE", queue, "REQID", "k")
            wait_until(lambda: stat(b, queue, "in_flight") == 1, "it is leased")
            mine = lease_one(b, queue, "REQID", "k")
            a.reset()
        wait_until(lambda: b.mapping("QSTATS")[b"connections"] == 1, "the first one is gone")
        assert lease(connect(server), queue) == []
        assert b.integer("QACK", queue, mine.lease) == 1
        assert counts(b, queue, "acked", "delivered") == (1, 1)


def test_of_two_answers_that_nobody_read_the_last_one_gives_back(connect: Connect, queue: str) -> None:
    """REQID: if neither could be written, the message stands where it stood."""
    with start_server() as server:
        b = connect(server)
        b.ok("QDECLARE", queue)
        put(b, queue, "m")
        with deaf(server) as one, deaf(server) as two:
            for number, each in enumerate((one, two), 1):
                each.start("QLEASE", queue, "REQID", "k")
                wait_until(lambda: calls(b, "qlease") == number, "it is leased")  # noqa: B023
            one.reset()
            wait_until(lambda: b.mapping("QSTATS")[b"connections"] == 2, "one is gone")
            assert stat(b, queue, "in_flight") == 1
            two.reset()
        wait_until(lambda: stat(b, queue, "ready") == 1, "it is back")
        assert lease_one(b, queue).attempt == 1


def test_a_client_that_has_closed_its_side_and_does_not_read_costs_no_time(connect: Connect) -> None:
    """The end of its side was found again and again, as fast as the processor goes."""
    with start_server() as server, deaf(server) as one:
        one.shutdown_write()
        connect(server).cmd("PING")
        time.sleep(0.2)
        before = server.cpu_seconds()
        time.sleep(1)
        assert server.cpu_seconds() - before < 0.3
        assert len(as_bytes(one.read())) == ECHOED
        assert one.at_eof()


# -- The idle timeout


def test_the_idle_timeout_on_a_server_where_nothing_happens(connect: Connect) -> None:
    """The broker's clock only moved on when something happened."""
    with start_server("--timeout", "0.5") as server:
        a = connect(server)
        assert a.cmd("PING") == PONG
        assert a.at_eof()


@pytest.mark.parametrize("words", [("SUBSCRIBE", "t"), ("PSUBSCRIBE", "#"), ("SSUBSCRIBE", "t"), ("QCONSUME", "q")])
def test_who_waits_for_pushes_is_not_idle(words: tuple[str, ...], connect: Connect) -> None:
    """As in Redis: a subscriber says nothing for as long as nothing comes."""
    with start_server("--timeout", "0.5") as server:
        b = connect(server)
        b.ok("QDECLARE", "q")
        a = connect(server, resp=3)
        a.cmd(*words)
        for _ in range(15):
            time.sleep(0.1)
            assert b.cmd("PING") == PONG
        assert a.cmd("PING") == PONG


def test_what_an_idle_client_never_read_is_for_those_who_wait(connect: Connect, queue: str) -> None:
    """It was closed beside the loop, which slept on: nobody was served until something else happened."""
    with start_server("--timeout", "1", "--heartbeat", "0") as server:
        b = connect(server)
        b.ok("QDECLARE", queue, "ACKTIMEOUT", "1h")
        put(b, queue, "m")
        with deaf(server) as a:
            a.start("QLEASE", queue)
            wait_until(lambda: stat(b, queue, "in_flight") == 1, "it is leased")
            b.start("QLEASE", queue, "WAIT", 0)
            (found,) = deliveries(b.read(5))
            assert (found.attempt, found.body) == (1, b"m")


# -- MONITOR


def test_a_monitor_that_is_closed_in_its_own_transaction_leases_nothing(connect: Connect, queue: str) -> None:
    """It was closed in the middle of EXEC; what came after that was leased to a client that was gone."""
    with start_server("--client-output-buffer-limit", "64kb") as server:
        b = connect(server)
        b.ok("QDECLARE", queue)
        put(b, queue, "m")
        a = connect(server)
        a.ok("MONITOR")
        a.send(encode("MULTI") + encode("ECHO", b"y" * 30_000) * 5 + encode("QLEASE", queue) + encode("EXEC"))
        wait_until(lambda: b.mapping("QSTATS")[b"connections"] == 1, "it is closed")
        assert counts(b, queue, "ready", "in_flight") == (1, 0)
