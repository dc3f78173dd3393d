"""The load against servers that do something else than they should, and what is made of it."""

from __future__ import annotations

import socket
import threading
from collections.abc import Callable, Generator
from contextlib import contextmanager, suppress

import pytest

from respmq.bench.control import Address, BenchError, Control
from respmq.bench.load import Load, Measurement
from respmq.bench.rounds import Settings, duration, measure_all
from respmq.bench.targets import TARGETS, Mode, RespmqTarget
from respmq.resp.reader import split_requests

PATIENCE = 20.0
ID = b"$2\r\nid\r\n"
LEASED = b"*1\r\n*5\r\n$1\r\nq\r\n$2\r\nid\r\n$1\r\nt\r\n:1\r\n$1\r\nx\r\n"
USUAL = {b"QPUT": ID, b"QLEASE": LEASED, b"QACK": b":1\r\n"}

Answer = Callable[[list[bytes]], bytes | None]


@contextmanager
def fake_server(answer: Answer) -> Generator[Address]:
    """A server that answers each command as it is told, and closes the connection for None."""

    def serve(sock: socket.socket) -> None:
        rest = b""
        with sock, suppress(OSError):
            while data := sock.recv(65536):
                requests, end = split_requests(rest + data)
                rest = (rest + data)[end:]
                for request in requests:
                    reply = answer(request)
                    if reply is None:
                        return
                    sock.sendall(reply)

    def accept() -> None:
        with suppress(OSError):
            while True:
                sock, _ = listener.accept()
                thread = threading.Thread(target=serve, args=(sock,))
                threads.append(thread)
                thread.start()

    with socket.create_server(("127.0.0.1", 0)) as listener:
        threads = [threading.Thread(target=accept)]
        threads[0].start()
        try:
            yield Address("127.0.0.1", listener.getsockname()[1])
        finally:
            listener.shutdown(socket.SHUT_RDWR)
            for thread in threads:
                thread.join(PATIENCE)


def fail(answer: Answer) -> str:
    """The error of a measurement that must fail."""
    plan = RespmqTarget().plan(Mode.SINGLE, "q", 1, b"x")
    with (
        fake_server(answer) as address,
        Load(address, plan, 2) as load,
        pytest.raises(BenchError) as caught,
    ):
        load.measure(0.05)
    return str(caught.value)


def test_a_server_that_does_as_it_should() -> None:
    plan = RespmqTarget().plan(Mode.SINGLE, "q", 1, b"x")
    with fake_server(lambda request: USUAL[request[0]]) as address, Load(address, plan, 2) as load:
        found = load.measure(0.05)
    assert found.cycles > 0
    assert found.rate > 0
    assert 0 < found.p50 <= found.p99
    assert found.busy > 0
    assert found.waited >= 0


def test_replies_in_pieces_and_requests_that_do_not_fit_a_buffer() -> None:
    """The server reads nothing until a socket's buffers are full many times over, and answers in small pieces."""
    body = b"x" * 1_000_000
    plan = RespmqTarget().plan(Mode.PIPELINED, "q", 8, body)
    received = 0

    def answer(request: list[bytes]) -> bytes:
        nonlocal received
        if request[0] == b"QPUT":
            assert request[2] == body
            received += 1
        return USUAL[request[0]]

    with fake_server(answer) as address, Load(address, plan, 1) as load:
        found = load.measure(0.01)
    assert received >= 8 * found.cycles > 0


@pytest.mark.parametrize(
    ("command", "reply", "message"),
    [
        (b"QPUT", b"-OOM no room\r\n", "OOM no room"),
        (b"QLEASE", b"-NOQUEUE no such queue\r\n", "NOQUEUE no such queue"),
        (b"QACK", b"-ERR what\r\n", "ERR what"),
        (b"QACK", b":0\r\n", "0 of 1 jobs were acked"),
        (b"QACK", b"$1\r\nx\r\n", "an ack was answered with [b'x']"),
        (b"QLEASE", b"*0\r\n", "a lease brought 0 jobs, 1 were there"),
        (b"QLEASE", b":5\r\n", "a lease was answered with [5]"),
        (b"QLEASE", b"*1\r\n*1\r\n:1\r\n", "a lease was answered with [[[1]]]"),
        (b"QPUT", b"HTTP/1.1 400\r\n", 'it does not speak the Redis protocol: Protocol error, got "H" as reply type'),
        (b"QLEASE", None, "the server closed a connection"),
    ],
)
def test_a_wrong_answer_ends_it(command: bytes, reply: bytes | None, message: str) -> None:
    assert fail(lambda request: reply if request[0] == command else USUAL[request[0]]).startswith(message)


def test_a_server_that_does_not_answer(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("respmq.bench.load.PATIENCE", 0.1)
    assert fail(lambda request: b"" if request[0] == b"QLEASE" else USUAL[request[0]]).startswith("there was no cycle")


def test_closing_waits_until_the_server_is_done(monkeypatch: pytest.MonkeyPatch) -> None:
    """Else what was sent might be done when the queue has been removed."""
    done: list[bytes] = []
    go_on = threading.Event()

    def answer(request: list[bytes]) -> bytes:
        go_on.wait(PATIENCE)
        done.append(request[0])
        return USUAL[request[0]]

    plan = RespmqTarget().plan(Mode.PIPELINED, "q", 5, b"x")
    with fake_server(answer) as address:
        load = Load(address, plan, 1)
        threading.Timer(0.2, go_on.set).start()
        with monkeypatch.context() as patch:
            patch.setattr("respmq.bench.load.PATIENCE", 0.05)
            with pytest.raises(BenchError):
                load.measure(0.01)
        load.close()
    assert done == [b"QPUT"] * 5


# -- Control -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("reply", "message"),
    [
        (b"-NOAUTH Authentication required.\r\n", "{} answers INFO with 'NOAUTH Authentication required.'"),
        (b":1\r\n", "{} answers INFO with no text"),
        (b"$3\r\na:b\r\n", "{} does not say in INFO what it is: respmq or a Redis is wanted"),
        (b"HTTP/1.1 400\r\n", "{} does not speak the Redis protocol"),
        (None, "{} has closed the connection instead of answering INFO"),
    ],
)
def test_what_is_no_such_server(reply: bytes | None, message: str) -> None:
    with fake_server(lambda _: reply) as address, Control(address) as control:
        with pytest.raises(BenchError) as caught:
            control.identify()
        assert str(caught.value) == message.format(address)


def test_a_server_that_does_not_answer_a_command(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("respmq.bench.control.PATIENCE", 0.1)
    with fake_server(lambda _: b"") as address, Control(address) as control:
        with pytest.raises(BenchError) as caught:
            control.call("INFO")
        assert str(caught.value) == f"{address} does not answer INFO within 0.1 seconds"


@pytest.mark.parametrize(
    ("info", "found"),
    [
        (b"redis_version:7.2.0\r\nrespmq_version:0.1.0\r\n", ("respmq", "respmq 0.1.0")),
        (b"redis_version:7.2.4\r\nvalkey_version:8.0.1\r\n", ("redis", "valkey 8.0.1")),
        (b"# Server\r\nredis_version:7.0.15\r\n", ("redis", "redis 7.0.15")),
    ],
)
def test_servers_tell_what_they_are(info: bytes, found: tuple[str, str]) -> None:
    with fake_server(lambda _: b"$%d\r\n%b\r\n" % (len(info), info)) as address, Control(address) as control:
        assert control.identify() == found


def test_nobody_listens() -> None:
    with socket.socket() as sock:
        sock.bind(("127.0.0.1", 0))
        address = Address("127.0.0.1", sock.getsockname()[1])
        with pytest.raises(BenchError, match=f"can't connect to {address}: Connection refused"):
            Control(address)


# -- Rounds ------------------------------------------------------------------------------------------------------------


def test_what_fails_is_not_tried_again() -> None:
    """Nothing of it counts, even what had worked before."""
    made: list[str] = []

    def answer(request: list[bytes]) -> bytes:
        command = request[0]
        if command == b"QDECLARE":
            made.append(request[1].decode())
        if command == b"QLEASE" and len(made) == 4:
            return b"-ERR enough\r\n"
        others = {b"QCONFIG": b"-NOQUEUE none\r\n", b"QDECLARE": b"+OK\r\n", b"QDELETE": b":1\r\n"}
        batch = {b"QMPUT": b"*2\r\n" + 2 * ID}
        if command == b"QLEASE" and len(request) > 2:
            return b"*2\r\n" + 2 * LEASED.removeprefix(b"*1\r\n")
        if command == b"QACK" and len(request) > 3:
            return b":2\r\n"
        return (others | batch | USUAL)[command]

    shown: list[tuple[str, Mode]] = []
    settings = Settings(connections=1, depth=2, body=1, seconds=0.01, rounds=3)
    with fake_server(answer) as address:
        targets = [(TARGETS[0], address)]
        outcomes = measure_all(targets, settings, lambda target, mode: shown.append((target.key, mode)))
    assert [mode for _, mode in shown] == [*Mode, *Mode, Mode.PIPELINED, Mode.BATCH]
    assert [(outcome.error, len(outcome.measurements)) for outcome in outcomes] == [
        ("ERR enough", 0),
        (None, 3),
        (None, 3),
    ]
    assert len(set(made)) == 8
    assert all(name.startswith("respmq-bench-") for name in made)


def test_no_target_is_always_the_first(monkeypatch: pytest.MonkeyPatch) -> None:
    measurement = Measurement(cycles=1, rate=1.0, p50=1.0, p99=1.0, busy=0.0, waited=0.0)
    monkeypatch.setattr("respmq.bench.rounds._measure", lambda *_: measurement)
    shown: list[str] = []
    targets = [(target, Address("127.0.0.1", 1)) for target in TARGETS]
    outcomes = measure_all(targets, Settings(rounds=3), lambda target, mode: shown.append(target.key))
    assert shown == [
        *["respmq", "streams", "lists"] * 3,
        *["streams", "lists", "respmq"] * 3,
        *["lists", "respmq", "streams"] * 3,
    ]
    assert [(outcome.mode, outcome.target) for outcome in outcomes] == [(mode, one) for mode in Mode for one in TARGETS]


def test_how_long_it_takes() -> None:
    assert duration(3, Settings(seconds=2.0, rounds=4)) == 3 * 3 * 4 * 2.5
