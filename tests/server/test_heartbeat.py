"""Peers that have vanished are found, whatever is on its way to them; peers that only don't read are left alone."""

from __future__ import annotations

import socket
import struct
import time
from collections.abc import Iterator
from typing import Any

import pytest

from respmq.server.heartbeat import Pulse, set_heartbeat, unanswered
from tests.support import Conn, Connect, as_bytes, counts, put, start_server, stat, wait_until
from tests.support.events import consume, pushed

#: More than the buffers of two sockets.
MUCH = 8_000_000


def deaf(conn: Conn) -> Conn:
    """A client that has asked for more than its socket takes, and reads nothing."""
    conn.start("ECHO", b"x" * MUCH)
    return conn


# -- In a server


def test_who_does_not_read_stays_and_who_has_vanished_goes(connect: Connect) -> None:
    """The one answers for its closed window, and was once cut off all the same; the others answer nothing."""
    with start_server("--heartbeat", "1") as server:
        b = connect(server)
        b.ok("QDECLARE", "q", "ACKTIMEOUT", "1h", "RETRYDELAY", 0)
        sleeper, gone = deaf(connect(server)), deaf(connect(server))
        waiting = connect(server, resp=3)
        consume(waiting, "q")
        wait_until(lambda: len(b.text("CLIENT", "LIST").splitlines()) == 4, "all are there")
        gone_number, sleeper_number = gone_and_sleeper(b, gone, sleeper)
        began = time.monotonic()
        gone.vanish()
        waiting.vanish()
        put(b, "q", "m")
        wait_until(lambda: stat(b, "q", "consumers") == 0, "data was in flight to the one that has vanished")
        assert counts(b, "q", "ready", "in_flight") == (1, 0)
        wait_until(lambda: not b.text("CLIENT", "LIST", "ID", gone_number), "its window was closed when it vanished")
        # Four heartbeats: the sleeper's system has had to answer for it more than once.
        while time.monotonic() < began + 4:
            assert b.text("CLIENT", "LIST", "ID", sleeper_number)
            time.sleep(0.1)
        assert len(as_bytes(sleeper.read())) == MUCH


def gone_and_sleeper(b: Conn, gone: Conn, sleeper: Conn) -> tuple[int, int]:
    """The numbers of two clients that can't ask for them any more."""
    numbers = {}
    for line in b.text("CLIENT", "LIST").splitlines():
        fields = dict(field.split("=", 1) for field in line.split(" "))
        numbers[int(fields["addr"].rpartition(":")[2])] = int(fields["id"])
    return numbers[gone.local_port], numbers[sleeper.local_port]


def test_deliveries_wait_for_a_consumer_that_does_not_read(connect: Connect) -> None:
    """For longer than two heartbeats; all of them are there when it reads."""
    with start_server("--heartbeat", "1") as server:
        a, b = connect(server, resp=3), connect(server)
        b.ok("QDECLARE", "q", "ACKTIMEOUT", "1h")
        consume(a, "q", "PREFETCH", 100)
        body = b"x" * (MUCH // 50)
        for _ in range(100):
            put(b, "q", body)
        time.sleep(3)
        assert [pushed(a.read()).body for _ in range(100)] == [body] * 100
        assert counts(b, "q", "in_flight", "consumers", "retried") == (100, 1, 0)


# -- What the system says


@pytest.fixture
def pair() -> Iterator[tuple[Conn, socket.socket]]:
    """A client, and the server's side of its connection."""
    with socket.create_server(("127.0.0.1", 0)) as listener, Conn(listener.getsockname()[1]) as client:
        served, _ = listener.accept()
        with served:
            served.setblocking(False)
            set_heartbeat(served, 1_000)
            yield client, served


def fill(sock: socket.socket) -> None:
    """Send until nothing more is taken."""
    try:
        while True:
            sock.send(b"x" * 100_000)
    except BlockingIOError:
        return


def test_nothing_is_owed_by_a_peer_that_was_sent_nothing(pair: tuple[Conn, socket.socket]) -> None:
    assert unanswered(pair[1]) == 0


def test_data_that_is_not_answered(pair: tuple[Conn, socket.socket]) -> None:
    """The time counts from when the peer was heard."""
    client, served = pair
    began = time.monotonic()
    client.send(b"x")
    wait_until(lambda: bool(peek(served)), "it has arrived")
    heard = time.monotonic()
    client.vanish()
    served.send(b"y")
    time.sleep(0.3)
    before = time.monotonic()
    silence = unanswered(served)
    # The system counts in ticks of up to 10 ms.
    assert before - heard - 0.02 <= silence <= time.monotonic() - began + 0.02


def peek(sock: socket.socket) -> bytes:
    """What has arrived, without taking it."""
    try:
        return sock.recv(1, socket.MSG_PEEK)
    except BlockingIOError:
        return b""


def test_a_closed_window_is_probed(pair: tuple[Conn, socket.socket]) -> None:
    """A peer that is well owes nothing between two probes; one that has vanished owes the answers to them."""
    client, served = pair
    fill(served)
    wait_until(lambda: unanswered(served) == 0, "all that fits has been taken")
    client.vanish()
    wait_until(lambda: unanswered(served) > 0.2, "it is probed and doesn't answer")


# -- What is made of it


class Told(socket.socket):
    """A socket that says of its peer what it was told to."""

    probes = unacked = silent_millis = asked = 0

    def getsockopt(self, *_: Any) -> Any:
        self.asked += 1
        return struct.pack("=3xB20xI28xI", self.probes, self.unacked, self.silent_millis)


@pytest.fixture
def told() -> Iterator[Told]:
    with Told() as sock:
        yield sock


def tell(sock: Told, silent: float, *, probes: int = 0, unacked: int = 0) -> None:
    """What it says from now on."""
    sock.silent_millis, sock.probes, sock.unacked = round(silent * 1000), probes, unacked


@pytest.mark.parametrize("outstanding", [{"probes": 3}, {"unacked": 1}], ids=["probes", "data"])
def test_two_heartbeats_without_an_answer(told: Told, outstanding: dict[str, int]) -> None:
    pulse = Pulse(told, 5_000)
    lost = []
    for tick in range(30):
        tell(told, tick / 2, **outstanding)
        lost.append(pulse.lost(100 + tick / 2))
    assert lost == [False] * 20 + [True] * 10


def test_silence_of_a_peer_that_owes_nothing(told: Told) -> None:
    """With the system's probes ever further apart, the peer is heard ever less often."""
    pulse = Pulse(told, 5_000)
    for tick in range(200):
        tell(told, tick / 2)
        assert not pulse.lost(100 + tick / 2)


def test_a_probe_on_its_way_after_a_long_silence(told: Told) -> None:
    """The peer was not asked before: it has a whole heartbeat more to answer."""
    pulse = Pulse(told, 5_000)
    tell(told, 60)
    assert not pulse.lost(100)
    tell(told, 65, probes=1)
    assert not pulse.lost(105)
    tell(told, 69.5, probes=1)
    assert not pulse.lost(109.5)
    tell(told, 0)
    assert not pulse.lost(110)
    tell(told, 60, probes=1)
    assert not pulse.lost(170)
    tell(told, 65, probes=1)
    assert pulse.lost(175)


def test_it_looks_once_a_heartbeat_while_nothing_is_owed(told: Told) -> None:
    pulse = Pulse(told, 5_000)
    assert not any(pulse.lost(100 + tick / 2) for tick in range(100))
    assert told.asked == 10


def test_without_a_heartbeat_nobody_is_lost(told: Told) -> None:
    pulse = Pulse(told, 0)
    tell(told, 1_000_000, unacked=1)
    assert not any(pulse.lost(100 + tick) for tick in range(100))


def test_who_is_on_the_same_machine_is_not_asked() -> None:
    """There is no such question for a Unix socket."""
    one, other = socket.socketpair()
    with one, other:
        assert not any(Pulse(one, 1_000).lost(100 + tick) for tick in range(100))
