"""The byte stream: the same bytes mean the same however they are cut, and what can't be followed is refused at once."""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Iterator

import pytest

from tests.support import (
    NULLS,
    Conn,
    Connect,
    Error,
    ServerProcess,
    encode,
    peeked_bodies,
    put,
    settle,
    start_server,
    stat,
    stats,
)

PASSWORD = "correct horse"

BAD_COUNTS = [
    b"*abc\r\n",
    b"*\r\n",
    b"*+1\r\n",
    b"*01\r\n",
    b"*1 \r\n",
    b"* 1\r\n",
    b"*1.0\r\n",
    b"*1e1\r\n",
    b"*?\r\n",
    b"*1048577\r\n",
    b"*2147483648\r\n",
    b"*99999999999999999999\r\n",
]
BAD_LENGTHS = [
    b"*1\r\n$abc\r\n",
    b"*1\r\n$\r\n",
    b"*1\r\n$+4\r\n",
    b"*1\r\n$04\r\n",
    b"*1\r\n$ 4\r\n",
    b"*1\r\n$4 \r\n",
    b"*1\r\n$4.0\r\n",
    b"*1\r\n$?\r\n",
    b"*1\r\n$-1\r\n",
    b"*2\r\n$4\r\nPING\r\n$-5\r\n",
    b"*3\r\n$4\r\nQPUT\r\n$1\r\nq\r\n$-1\r\n",
    b"*1\r\n$536870913\r\n",
    b"*1\r\n$99999999999999999999\r\n",
]
BAD_KINDS = [
    b"*1\r\n" + kind
    for kind in (
        b"*0\r\n",
        b"*1\r\n$4\r\nPING\r\n",
        b":1\r\n",
        b"-x\r\n",
        b"+x\r\n",
        b"_\r\n",
        b"#t\r\n",
        b"#f\r\n",
        b",1.5\r\n",
        b"(1\r\n",
        b"%0\r\n",
        b"~0\r\n",
        b">0\r\n",
        b"=5\r\ntxt:x\r\n",
        b"!1\r\nx\r\n",
        b"\r\n",
        b"PING\r\n",
    )
]
BAD_ENDS = [
    b"*1\r\n$4\r\nPINGxx",
    b"*1\r\n$4\r\nPINGPING\r\n",
    b"*2\r\n$4\r\nECHO\r\n$1\r\nab\r\n",
]
BAD_INLINE = [
    b"ECHO 'a\r\n",
    b'ECHO "a\r\n',
    b'ECHO "a"b\r\n',
    b"ECHO 'a'b\r\n",
]
MALFORMED = [*BAD_COUNTS, *BAD_LENGTHS, *BAD_KINDS, *BAD_ENDS, *BAD_INLINE]
ENDLESS = [b"*" + b"1" * 200_000, b"*1\r\n$" + b"1" * 200_000, b"x" * 200_000]


def send_what_goes(conn: Conn, data: bytes) -> None:
    """Send as much as the server takes before it closes."""
    with contextlib.suppress(BrokenPipeError, ConnectionResetError):
        conn.send(data)


def assert_one_protocol_error(stream: bytes) -> None:
    assert stream.startswith(b"-ERR Protocol error"), stream
    assert stream.endswith(b"\r\n"), stream
    assert stream.count(b"\r\n") == 1, stream


@pytest.fixture(scope="module")
def guarded_server() -> Iterator[ServerProcess]:
    """A server with a password."""
    with start_server("--requirepass", PASSWORD) as running:
        yield running


@pytest.mark.parametrize("bad", MALFORMED, ids=repr)
def test_malformed_input_is_one_error_and_a_close_and_nothing_after_it_runs(
    bad: bytes, connect: Connect, conn: Conn, queue: str
) -> None:
    """What came before is answered, the fault gets one protocol error and a close; what follows is never executed."""
    conn.ok("QDECLARE", queue)
    a = connect()
    a.send(encode("PING") + bad + b"\r\n" + encode("QPUT", queue, "after"))
    answer = a.read_to_end()
    assert answer.startswith(b"+PONG\r\n")
    assert_one_protocol_error(answer.removeprefix(b"+PONG\r\n"))
    assert stat(conn, queue, "enqueued") == 0


def test_no_null_is_ever_stored_as_a_message(conn: Conn, connect: Connect) -> None:
    """`QPUT q $-1` is a protocol error: a null is no body."""
    conn.ok("QDECLARE", "q")
    a = connect()
    a.send(b"*3\r\n$4\r\nQPUT\r\n$1\r\nq\r\n$-1\r\n")
    assert_one_protocol_error(a.read_to_end())
    assert stat(conn, "q", "enqueued") == 0
    assert conn.integer("QDELETE", "q") == 1


@pytest.mark.parametrize("bad", MALFORMED, ids=repr)
def test_a_fault_is_the_same_wherever_the_stream_is_cut(bad: bytes, server: ServerProcess, conn: Conn) -> None:
    """The error of a command that was resumed in its middle is the error of the whole one, and comes as promptly."""
    with Conn(server.port) as whole:
        whole.send(bad)
        expected = whole.read_to_end()
    assert_one_protocol_error(expected)
    for cut in range(1, len(bad)):
        with Conn(server.port) as a:
            a.send(bad[:cut])
            settle(conn)
            send_what_goes(a, bad[cut:])
            assert a.read_to_end() == expected, f"cut at {cut}"
    with Conn(server.port) as a:
        for at in range(len(bad)):
            send_what_goes(a, bad[at : at + 1])
        assert a.read_to_end() == expected


VALID = (
    b"PING\n"
    b"\r\n"
    b"*0\r\n"
    b"  ECHO  'a \"b'  \r\n"
    + encode("ECHO", b"\r\n*1\r\n$4\r\nPING\r\n")
    + b"*-1\r\n"
    + encode("ECHO", b"")
    + b"NOSUCHCOMMAND\r\n"
    + encode("ECHO", b"\x00\xff")
    + b"\n"
    + b'ECHO "\\x00\\xff"\n'
    + encode("PING")
)
VALID_ANSWERS = [
    b"+PONG\r\n",
    b'$4\r\na "b\r\n',
    b"$16\r\n\r\n*1\r\n$4\r\nPING\r\n\r\n",
    b"$0\r\n\r\n",
    b"-ERR unknown command 'NOSUCHCOMMAND'",
    b"$2\r\n\x00\xff\r\n",
    b"$2\r\n\x00\xff\r\n",
    b"+PONG\r\n",
]


def test_a_valid_stream_is_answered_alike_wherever_it_is_cut(connect: Connect, conn: Conn) -> None:
    """Inline and array commands, blank lines and empty arrays mixed: every cut gives the replies of the whole."""
    a = connect()
    a.send(VALID)
    whole = [a.read_raw() for _ in VALID_ANSWERS]
    assert all(got.startswith(want) for got, want in zip(whole, VALID_ANSWERS, strict=True)), whole
    for cut in range(1, len(VALID)):
        a.send(VALID[:cut])
        settle(conn)
        a.send(VALID[cut:])
        assert [a.read_raw() for _ in whole] == whole, f"cut at {cut}"
    for at in range(len(VALID)):
        a.send(VALID[at : at + 1])
    assert [a.read_raw() for _ in whole] == whole
    assert a.pending() == b""


def test_a_line_may_end_in_lf_alone(conn: Conn) -> None:
    """`PING\\nPING\\n*1...` in one write: three answers, no byte counted twice."""
    conn.send(b"PING\nPING\n*1\r\n$4\r\nPING\r\n")
    assert [conn.read_raw() for _ in range(3)] == [b"+PONG\r\n"] * 3
    assert conn.pending() == b""


@pytest.mark.parametrize("stream", ENDLESS, ids=["count", "length", "inline"])
def test_a_line_without_an_end_is_refused_instead_of_buffered(stream: bytes, connect: Connect) -> None:
    """A header or an inline command that never ends is refused long before it is large."""
    a = connect()
    for at in range(0, len(stream), 1000):
        send_what_goes(a, stream[at : at + 1000])
    assert_one_protocol_error(a.read_to_end())


@pytest.mark.parametrize("bad", [b"*1\r\n:1\r\n", b"*abc\r\n", b"*1\r\n$-5\r\n", b"ECHO 'a\r\n"], ids=repr)
def test_the_close_never_loses_the_error(bad: bytes, server: ServerProcess) -> None:
    """A client that has sent a megabyte behind its mistake can still read what the mistake was."""
    for _ in range(20):
        with Conn(server.port) as a:
            send_what_goes(a, bad + b"x" * 1_000_000)
            assert a.read_raw().startswith(b"-ERR Protocol error")
            assert a.at_eof()


@pytest.mark.parametrize(
    "header",
    [
        b"*2\r\n$4\r\nAUTH\r\n$536870912\r\n",
        b"*2\r\n$4\r\nAUTH\r\n$16385\r\n",
        b"*1\r\n$100000\r\n",
        b"*11\r\n",
        b"*1000000\r\n",
        b"*1048576\r\n",
    ],
    ids=repr,
)
def test_before_login_a_large_header_is_refused_as_soon_as_it_is_seen(
    header: bytes, guarded_server: ServerProcess
) -> None:
    """10 arguments of 16 KiB while not authenticated: the header alone is enough, nothing is waited for."""
    with Conn(guarded_server.port) as a:
        a.send(header)
        assert_one_protocol_error(a.read_to_end())
    for cut in range(1, len(header)):
        with Conn(guarded_server.port) as a, Conn(guarded_server.port) as other:
            a.send(header[:cut])
            settle(other)
            a.send(header[cut:])
            assert_one_protocol_error(a.read_to_end())


def test_before_login_the_limit_itself_is_allowed(guarded_server: ServerProcess) -> None:
    """10 arguments and 16 KiB are not over the limit: refused for want of a login only, and the connection stays."""
    with Conn(guarded_server.port) as a:
        reply = a.error("QMPUT", "q", *[b"x" * 16384] * 8)
        assert reply.code == b"NOAUTH"
        a.ok("AUTH", PASSWORD)


def test_refused_logins_leave_no_memory_behind(guarded_server: ServerProcess) -> None:
    """500 clients that announce half a gigabyte cost nothing."""
    with Conn(guarded_server.port) as observer:
        observer.ok("AUTH", PASSWORD)
        before = guarded_server.memory()
        for _ in range(500):
            with Conn(guarded_server.port) as a:
                a.send(b"*2\r\n$4\r\nAUTH\r\n$536870912\r\n")
                assert_one_protocol_error(a.read_to_end())
        assert guarded_server.memory() - before < 16 << 20


@pytest.mark.parametrize("in_one_write", [False, True])
def test_after_login_the_ordinary_limits_hold(in_one_write: bool, guarded_server: ServerProcess, queue: str) -> None:
    """The limits change with the very command that logs in, also for what was sent together with it."""
    with Conn(guarded_server.port) as a:
        login = encode("AUTH", PASSWORD)
        work = [
            encode("QDECLARE", queue),
            encode("QMPUT", queue, *[str(n) for n in range(100)]),
            encode("QPUT", queue, b"x" * 1_000_000),
        ]
        if in_one_write:
            a.send(login + b"".join(work))
            replies = [a.read_raw() for _ in range(4)]
        else:
            replies = []
            for command in [login, *work]:
                a.send(command)
                replies.append(a.read_raw())
        assert replies[:2] == [b"+OK\r\n"] * 2
        assert replies[2].startswith(b"*100\r\n")
        assert replies[3].startswith(b"$")
        assert len(peeked_bodies(a, queue)[-1]) == 1_000_000


def test_reset_brings_the_narrow_limits_back(guarded_server: ServerProcess) -> None:
    """RESET logs out, so what holds before a login holds again."""
    with Conn(guarded_server.port) as a:
        a.ok("AUTH", PASSWORD)
        a.send(encode("RESET") + b"*11\r\n")
        assert a.read_raw() == b"+RESET\r\n"
        assert_one_protocol_error(a.read_to_end())


def test_a_message_that_is_too_big_is_an_error_and_the_connection_goes_on(conn: Conn, queue: str) -> None:
    """Over max-message-size (16 MiB) a put is refused with TOOBIG; the stream stays in step and nothing is stored."""
    conn.ok("QDECLARE", queue)
    assert conn.error("QPUT", queue, b"x" * ((16 << 20) + 1)).code == b"TOOBIG"
    assert stats(conn, queue)["enqueued"] == 0
    put(conn, queue, "small")


def drain(conn: Conn, size: int, done: threading.Event) -> None:
    """Read exactly `size` bytes of replies."""
    left = size
    while left:
        conn.sock.settimeout(60)
        data = conn.sock.recv(1 << 20)
        assert data, "closed in the middle"
        left -= len(data)
    done.set()


def flood_seconds(server: ServerProcess, commands: int) -> tuple[float, int]:
    """One write of so many PINGs: how long until all are answered, and how often another client was served."""
    done = threading.Event()
    served = 0
    with Conn(server.port) as a, Conn(server.port) as b:
        reader = threading.Thread(target=drain, args=(a, commands * len(b"+PONG\r\n"), done))
        writer = threading.Thread(target=a.sock.sendall, args=(b"*1\r\n$4\r\nPING\r\n" * commands,))
        start = time.monotonic()
        reader.start()
        writer.start()
        while not done.is_set():
            b.cmd("PING")
            served += 1
        elapsed = time.monotonic() - start
        writer.join()
        reader.join()
    return elapsed, served


def test_a_large_write_takes_time_in_proportion_and_others_are_served(server: ServerProcess) -> None:
    """20 MB of PINGs in one write take about four times as long as 5 MB, and nobody waits for them to end."""
    flood_seconds(server, 50_000)
    small, _ = flood_seconds(server, 350_000)
    large, served = flood_seconds(server, 1_400_000)
    assert large < 8 * small
    assert served > 5


def test_replies_never_hold_a_null_of_the_other_protocol(connect: Connect, queue: str) -> None:
    """A connection that switches its protocol in mid-pipeline gets each reply in the protocol of its moment."""
    a = connect()
    a.send(encode("CLIENT", "GETNAME") + encode("HELLO", 3) + encode("CLIENT", "GETNAME") + encode("HELLO", 2))
    assert a.read_raw() == b"$-1\r\n"
    assert a.read_raw().startswith(b"%")
    assert a.read_raw() == b"_\r\n"
    assert a.read_raw().startswith(b"*")
    reply = a.cmd("CLIENT", "GETNAME")
    assert not isinstance(reply, Error)
    assert reply in NULLS
