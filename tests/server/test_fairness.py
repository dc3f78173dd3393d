"""Many clients at once: nothing is lost and nothing comes twice when they come and go, and nobody starves others."""

from __future__ import annotations

import contextlib
import random
import subprocess
import sys
import threading
from collections.abc import Generator

import pytest

from tests.support import (
    Conn,
    Connect,
    Pinger,
    ServerProcess,
    advance,
    block,
    bodies,
    counts,
    deliveries,
    encode,
    lease,
    put,
    put_all,
    stat,
    wait_for_waiters,
    wait_until,
)
from tests.support.server import ROOT

# -- Coming and going


@pytest.mark.parametrize("seed", range(5))
def test_waiters_that_leave_while_messages_arrive(
    seed: int, virtual: Conn, virtual_server: ServerProcess, connect: Connect, queue: str
) -> None:
    """100 wait; 100 messages come while a quarter hangs up and a quarter is killed: each of the others has exactly one.

    What was handed to one that left is back when its lease ends, and every message is accounted for once.
    """
    pick = random.Random(seed)
    virtual.ok("QDECLARE", queue, "ACKTIMEOUT", "30s", "RETRYDELAY", 0)
    waiting = [connect(virtual_server) for _ in range(100)]
    numbers = [one.id() for one in waiting]
    for one in waiting:
        block(one, virtual, queue)
    leaving = pick.sample(range(100), 50)
    steps = [
        *[("put", n) for n in range(100)],
        *[("leave", n) for n in leaving[:25]],
        *[("kill", n) for n in leaving[25:]],
    ]
    pick.shuffle(steps)
    for what, n in steps:
        if what == "put":
            put(virtual, queue, str(n))
        elif what == "kill":
            assert virtual.integer("CLIENT", "KILL", "ID", numbers[n]) in {0, 1}
        elif n % 2:
            waiting[n].reset()
        else:
            waiting[n].close()
    served: list[bytes] = []
    for n, one in enumerate(waiting):
        if n not in leaving:
            (found,) = deliveries(one.read())
            served.append(found.body)
            assert found.attempt == 1
            assert virtual.integer("QACK", queue, found.lease) == 1
            assert one.pending() == b""
    advance(virtual, "30s")
    rest = bodies(lease(virtual, queue, "COUNT", 200))
    assert len(served) == 50
    assert sorted([*served, *rest]) == sorted(b"%d" % n for n in range(100))
    assert counts(virtual, queue, "waiters", "ready", "delayed", "dead", "in_flight") == (0, 0, 0, 0, 50)


def test_those_that_stay_are_served_in_their_order(connect: Connect, conn: Conn, queue: str) -> None:
    """Every second of 100 waiters leaves before the messages come: the others get them in the order they waited in."""
    conn.ok("QDECLARE", queue)
    waiting = [connect() for _ in range(100)]
    for one in waiting:
        block(one, conn, queue)
    for n, one in enumerate(waiting):
        if n % 2 == 0:
            if n % 4:
                one.close()
            else:
                one.reset()
    put_all(conn, queue, range(50))
    assert [bodies(deliveries(one.read())) for one in waiting[1::2]] == [[b"%d" % n] for n in range(50)]
    assert counts(conn, queue, "waiters", "ready", "in_flight") == (0, 0, 50)


def test_consumers_that_compete_get_each_message_once(server: ServerProcess, connect: Connect, queue: str) -> None:
    """Eight threads lease and ack in a loop while two put: every message is worked on exactly once."""
    observer = connect()
    observer.ok("QDECLARE", queue)
    seen: list[bytes] = []

    def work() -> None:
        with Conn(server.port) as mine:
            while (found := deliveries(mine.cmd("QLEASE", queue, "COUNT", 7, "WAIT", 0)))[0].body != b"stop":
                seen.extend(bodies(found))
                assert mine.integer("QACK", queue, *[one.lease for one in found]) == len(found)

    def produce(first: int) -> None:
        with Conn(server.port) as mine:
            for n in range(first, first + 1000):
                put(mine, queue, str(n))

    workers = [threading.Thread(target=work) for _ in range(8)]
    producers = [threading.Thread(target=produce, args=(1000 * n,)) for n in range(2)]
    for thread in [*workers, *producers]:
        thread.start()
    for thread in producers:
        thread.join(50)
    wait_until(lambda: stat(observer, queue, "acked") == 2000, "everything is acked")
    for _ in workers:
        put(observer, queue, "stop")
    for thread in workers:
        thread.join(50)
    assert sorted(seen) == sorted(b"%d" % n for n in range(2000))


def test_connections_that_come_and_go_leave_nothing(fresh_server: ServerProcess, connect: Connect, queue: str) -> None:
    """1,000 clients connect, wait and hang up in every way: no waiter and no connection is left."""
    observer = connect(fresh_server)
    observer.ok("QDECLARE", queue)
    for n in range(1000):
        a = Conn(fresh_server.port)
        a.start("QLEASE", queue, "WAIT", 0)
        if n % 3 == 0:
            a.shutdown_write()
        if n % 2:
            a.reset()
        else:
            a.close()
    put(observer, queue, "m")
    wait_for_waiters(observer, queue, 0)
    wait_until(lambda: observer.mapping("QSTATS")[b"connections"] == 1, "one connection")
    assert stat(observer, queue, "in_flight") + stat(observer, queue, "ready") == 1


# -- Starving


@contextlib.contextmanager
def flood(server: ServerProcess, total: int, *words: str) -> Generator[subprocess.Popen[str]]:
    """A process that floods the server, from when its replies have begun to come."""
    command = [sys.executable, "-m", "tests.support.flood", str(server.port), str(total), *words]
    with subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "flooding\n"
        try:
            yield process
        finally:
            process.kill()


@pytest.mark.parametrize("flooders", [1, 4])
@pytest.mark.parametrize(
    "words", [("PING",), ("QPUT", "flood", "x", "PRIORITY", "1"), ("QLEASE", "empty")], ids=" ".join
)
def test_a_client_that_pipelines_without_end_starves_nobody(
    words: tuple[str, ...], flooders: int, fresh_server: ServerProcess, connect: Connect
) -> None:
    """While floods run, another client is answered again and again, each time long before they end."""
    b = connect(fresh_server)
    b.ok("QDECLARE", "flood", "MAXLEN", 1, "OVERFLOW", "DROPHEAD", "MAXDEAD", 1)
    b.ok("QDECLARE", "empty")
    pinger = Pinger(fresh_server, b)
    with contextlib.ExitStack() as stack:
        floods = [stack.enter_context(flood(fresh_server, 400_000 // flooders, *words)) for _ in range(flooders)]
        while any(process.poll() is None for process in floods):
            pinger.ping()
        for process in floods:
            assert process.stdout is not None
            assert process.stdout.read() == "done\n"
    assert pinger.count > 5
    assert pinger.worst < 0.25 + 0.1 * (flooders - 1)


def test_a_client_that_never_reads_costs_only_itself(fresh_server: ServerProcess, connect: Connect) -> None:
    """It asks for far more than it takes: others are served, and the server's memory stays bounded."""
    a, b = connect(fresh_server), connect(fresh_server)
    b.cmd("PING")
    before = fresh_server.memory()
    request = encode("ECHO", b"x" * 10_000) * 10
    a.sock.settimeout(2)
    with contextlib.suppress(TimeoutError, BrokenPipeError, ConnectionResetError):
        for _ in range(5000):
            a.sock.sendall(request)
            assert b.raw("PING") == b"+PONG\r\n"
    assert b.raw("PING") == b"+PONG\r\n"
    assert fresh_server.memory() - before < 200 << 20


def test_a_half_sent_command_holds_nobody_up(connect: Connect, conn: Conn, queue: str) -> None:
    """Clients that stop in the middle of a command wait alone."""
    conn.ok("QDECLARE", queue)
    command = encode("QPUT", queue, "m" * 1000)
    halves = [connect() for _ in range(50)]
    for n, one in enumerate(halves):
        one.send(command[: 1 + n * len(command) // 60])
    assert conn.raw("PING") == b"+PONG\r\n"
    assert stat(conn, queue, "enqueued") == 0
    for n, one in enumerate(halves):
        one.send(command[1 + n * len(command) // 60 :])
        assert isinstance(one.read(), bytes)
    assert stat(conn, queue, "enqueued") == 50
