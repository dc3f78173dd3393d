"""HELLO, AUTH and RESET; who may do what; what browsers send; and secrets that must not be read elsewhere."""

from __future__ import annotations

import contextlib
import re
from collections.abc import Iterator

import pytest

from tests.support import (
    OK,
    PONG,
    Arg,
    Conn,
    Connect,
    Error,
    Map,
    ServerProcess,
    Simple,
    as_dict,
    encode,
    info,
    is_null,
    peeked_bodies,
    put,
    settle,
    start_server,
)

PASSWORD = "correct-horse"
WRONGPASS = Error(b"WRONGPASS invalid username-password pair or user is disabled.")
NOAUTH = Error(b"NOAUTH Authentication required.")


@pytest.fixture(scope="module")
def guarded() -> Iterator[ServerProcess]:
    """A server with a password."""
    with start_server("--requirepass", PASSWORD) as running:
        yield running


@pytest.fixture
def stranger(guarded: ServerProcess, connect: Connect) -> Conn:
    """A connection that has not logged in."""
    return connect(guarded)


# -- HELLO


@pytest.mark.parametrize("version", [2, 3])
def test_hello_names_the_server(version: int, conn: Conn) -> None:
    """The fields that clients read, the version they asked for, in the shape of that version."""
    reply = conn.cmd("HELLO", version)
    assert isinstance(reply, Map if version == 3 else list)
    found = as_dict(reply)
    assert found[b"server"] == b"respmq"
    assert found[b"proto"] == version
    assert found[b"id"] == conn.id()
    assert (found[b"mode"], found[b"role"], found[b"modules"]) == (b"standalone", b"master", [])
    assert isinstance(found[b"version"], bytes)


def test_hello_without_a_version_keeps_the_protocol(conn: Conn) -> None:
    """`HELLO` alone tells, and changes nothing."""
    assert conn.mapping("HELLO")[b"proto"] == 2
    conn.hello(3)
    assert isinstance(conn.cmd("HELLO"), Map)


def test_info_names_the_server_too(conn: Conn) -> None:
    """`respmq_version` is its own, `redis_version` one that clients can parse."""
    found = info(conn, "server")
    assert re.fullmatch(r"\d+\.\d+\S*", found["respmq_version"])
    assert re.fullmatch(r"\d+\.\d+\.\d+", found["redis_version"])


@pytest.mark.parametrize(
    ("args", "code"),
    [
        ((4,), b"NOPROTO"),
        ((1,), b"NOPROTO"),
        ((0,), b"NOPROTO"),
        (("abc",), b"ERR"),
        ((3, "BOGUS"), b"ERR"),
        ((3, "AUTH", "default"), b"ERR"),
        ((3, "SETNAME"), b"ERR"),
        ((3, "SETNAME", "a b"), b"ERR"),
        ((3, "SETNAME", "fine", "BOGUS"), b"ERR"),
        ((3, "SETNAME", "fine", "AUTH", "default", "bad"), b"WRONGPASS"),
        ((3, "AUTH", "default", "bad", "SETNAME", "fine"), b"WRONGPASS"),
        ((3, "AUTH", "nobody", PASSWORD, "SETNAME", "fine"), b"WRONGPASS"),
        ((3, "AUTH", "default", PASSWORD, "SETNAME", "a b"), b"ERR"),
        ((3, "AUTH", "default", PASSWORD, "BOGUS"), b"ERR"),
    ],
)
def test_a_hello_that_fails_changes_nothing(args: tuple[Arg, ...], code: bytes, stranger: Conn) -> None:
    """HELLO with AUTH and SETNAME does all or nothing: protocol, user and name stay what they were."""
    reply = stranger.cmd("HELLO", *args)
    assert isinstance(reply, Error)
    assert reply.code == code
    assert stranger.cmd("PING") == NOAUTH
    stranger.ok("AUTH", PASSWORD)
    assert stranger.raw("CLIENT", "GETNAME") == b"$-1\r\n"


def test_hello_can_log_in_with_the_first_bytes(stranger: Conn) -> None:
    """The gate looks at the credentials that the command brings."""
    reply = stranger.cmd("HELLO", 3, "AUTH", "default", PASSWORD, "SETNAME", "me")
    assert isinstance(reply, Map)
    assert stranger.cmd("PING") == PONG
    assert stranger.bulk("CLIENT", "GETNAME") == b"me"


@pytest.mark.parametrize("version", [2, 3])
def test_hello_alone_is_refused_before_a_login_and_a_later_auth_works(version: int, stranger: Conn) -> None:
    """`HELLO 3` -> -NOAUTH, in RESP2, and the connection goes on."""
    assert stranger.error("HELLO", version).code == b"NOAUTH"
    stranger.ok("AUTH", "default", PASSWORD)
    assert stranger.raw("CLIENT", "GETNAME") == b"$-1\r\n"
    assert stranger.hello(version)[b"proto"] == version


# -- AUTH


def test_each_command_of_a_pipeline_has_its_own_reply_before_a_login(stranger: Conn) -> None:
    """PING, AUTH bad, PING in one write: three replies in order."""
    assert stranger.pipeline([("PING",), ("AUTH", "bad"), ("PING",)]) == [NOAUTH, WRONGPASS, NOAUTH]


def test_each_command_of_a_pipeline_has_its_own_reply_when_hello_fails(stranger: Conn) -> None:
    """HELLO 3, AUTH bad, PING in one write: three replies in order."""
    replies = stranger.pipeline([("HELLO", 3), ("AUTH", "bad"), ("PING",)])
    assert isinstance(replies[0], Error)
    assert replies[0].code == b"NOAUTH"
    assert replies[1:] == [WRONGPASS, NOAUTH]


@pytest.mark.parametrize("resp", [2, 3])
def test_a_failed_auth_leaves_the_user_that_was(resp: int, guarded: ServerProcess) -> None:
    """Who is logged in stays so."""
    with Conn(guarded.port) as a:
        a.ok("AUTH", PASSWORD)
        a.hello(resp)
        replies = a.pipeline([("PING",), ("AUTH", "bad"), ("PING",), ("AUTH", "nobody", PASSWORD), ("PING",)])
        assert replies == [PONG, WRONGPASS, PONG, WRONGPASS, PONG]


def test_a_login_counts_for_the_rest_of_its_pipeline(stranger: Conn) -> None:
    """Commands before AUTH are refused, those after it run."""
    assert stranger.pipeline([("PING",), ("AUTH", PASSWORD), ("PING",), ("RESET",), ("PING",)]) == [
        NOAUTH,
        OK,
        PONG,
        Simple(b"RESET"),
        NOAUTH,
    ]


def test_only_the_default_user_exists_on_a_server_without_password(conn: Conn) -> None:
    """Redis' answers: `AUTH x` names the missing configuration, AUTH as default works, as anyone else not."""
    assert conn.error("AUTH", "x").text.startswith(b"ERR AUTH <password> called without any password configured")
    assert conn.error("AUTH", "nobody", "x") == WRONGPASS
    conn.ok("AUTH", "default", "anything")


@pytest.mark.parametrize("args", [(), ("a", "b", "c")])
def test_auth_with_a_wrong_number_of_arguments(args: tuple[str, ...], stranger: Conn) -> None:
    """Refused as syntax, never as a login."""
    assert stranger.error("AUTH", *args).code == b"ERR"
    assert stranger.cmd("PING") == NOAUTH


def test_nothing_but_the_handshake_runs_before_a_login(stranger: Conn, guarded: ServerProcess, queue: str) -> None:
    """Commands that read, that store and that administrate are all refused, and have no effect."""
    with Conn(guarded.port) as admin:
        admin.ok("AUTH", PASSWORD)
        admin.ok("QDECLARE", queue)
        put(admin, queue, "m")
        commands: list[tuple[Arg, ...]] = [
            ("QPUT", queue, "x"),
            ("QLEASE", queue),
            ("QLEASE", queue, "WAIT", 0),
            ("QPURGE", queue),
            ("QDELETE", queue),
            ("QLIST",),
            ("QSTATS",),
            ("INFO",),
            ("CONFIG", "GET", "requirepass"),
            ("CONFIG", "SET", "requirepass", ""),
            ("CLIENT", "LIST"),
            ("COMMAND", "COUNT"),
            ("ECHO", "x"),
            ("SELECT", 0),
            ("DBSIZE",),
            ("MONITOR",),
            ("SHUTDOWN",),
        ]
        assert stranger.pipeline(commands) == [NOAUTH] * len(commands)
        assert peeked_bodies(admin, queue) == [b"m"]


def test_a_password_set_while_running_holds_for_whom_comes_later(fresh_server: ServerProcess, connect: Connect) -> None:
    """CONFIG SET requirepass: who is in stays in, new ones must log in; the empty one opens the door again."""
    first = connect(fresh_server)
    first.ok("CONFIG", "SET", "requirepass", PASSWORD)
    assert first.cmd("PING") == PONG
    second = connect(fresh_server)
    assert second.cmd("PING") == NOAUTH
    second.ok("AUTH", PASSWORD)
    assert second.cmd("PING") == PONG
    first.ok("CONFIG", "SET", "requirepass", "")
    assert connect(fresh_server).cmd("PING") == PONG


def test_reset_takes_everything_back(conn: Conn) -> None:
    """RESET: RESP2 again, no name."""
    conn.hello(3)
    conn.ok("CLIENT", "SETNAME", "me")
    assert conn.cmd("RESET") == Simple(b"RESET")
    assert is_null(conn.cmd("CLIENT", "GETNAME"))
    assert conn.raw("CLIENT", "GETNAME") == b"$-1\r\n"


# -- HTTP


def rest(conn: Conn) -> bytes:
    """What the server still says before it closes, which it may do in any way."""
    try:
        return conn.read_to_end()
    except ConnectionResetError:
        return b""


@pytest.mark.parametrize("separately", [False, True])
@pytest.mark.parametrize(
    "head",
    [
        b"POST / HTTP/1.1\r\nHost: x\r\n",
        b"post / HTTP/1.1\r\n",
        b"GET / HTTP/1.1\r\nHost: x\r\n",
        b"PUT /q HTTP/1.1\r\nHost: x\r\n",
        b"DELETE /q HTTP/1.0\r\nUser-Agent: y\r\nhost: x\r\n",
        b"HEAD / HTTP/1.1\nHost: x\n",
        b"Host: x\r\n",
        b"host: x\r\n",
    ],
    ids=repr,
)
def test_a_browser_cannot_run_commands(
    head: bytes, separately: bool, fresh_server: ServerProcess, connect: Connect
) -> None:
    """A request is closed before the lines of its body run, and the log names the peer in one line."""
    observer, a = connect(fresh_server), connect(fresh_server)
    queue = f"http.{a.local_port}"
    observer.ok("QDECLARE", queue)
    put(observer, queue, "m")
    peer = f"127.0.0.1:{a.local_port}"
    body = b"\r\nQPURGE " + queue.encode() + b"\r\nQPUT " + queue.encode() + b" x\r\n"
    if separately:
        a.send(head)
        settle(observer)
    with contextlib.suppress(BrokenPipeError, ConnectionResetError):
        a.send(body if separately else head + body)
    answer = rest(a)
    assert b":1\r\n" not in answer
    assert b"$" not in answer
    assert peeked_bodies(observer, queue) == [b"m"]
    fresh_server.wait_for_log(re.escape(peer))
    assert fresh_server.log.count(peer) == 1


def test_what_came_before_a_request_is_answered(connect: Connect) -> None:
    """The commands in front of the first such line are carried out and answered."""
    a = connect()
    a.send(encode("PING") + b"POST / HTTP/1.1\r\nPING\r\n")
    assert a.read_raw() == b"+PONG\r\n"
    assert b"PONG" not in rest(a)


# -- Secrets


def assert_hidden(secret: str, where: str) -> None:
    assert secret not in where, f"a secret can be read: {where}"


def test_credentials_are_redacted_wherever_others_read(connect: Connect) -> None:
    """AUTH, HELLO AUTH and CONFIG SET requirepass in SLOWLOG, MONITOR and the log, right or wrong ones alike."""
    secrets = ["s3cret-one", "s3cret-two", "s3cret-wrong", "s3cret-typo"]
    with start_server("--requirepass", secrets[0]) as server:
        admin, watcher = connect(server), connect(server)
        for one in (admin, watcher):
            one.ok("AUTH", secrets[0])
        admin.ok("CONFIG", "SET", "slowlog-log-slower-than", 0)
        watcher.ok("MONITOR")
        a = connect(server)
        a.cmd("HELLO", 3, "AUTH", "default", secrets[0], "SETNAME", "n")
        a.cmd("HELLO", 2, "SETNAME", "n", "AUTH", "default", secrets[0])
        a.cmd("AUTH", secrets[2])
        a.cmd("AUTH", "default", secrets[2])
        a.cmd("HELLO", 3, "AUTH", "default", secrets[2])
        a.cmd("AUTH", "default", secrets[2], "too many")
        a.cmd("HELLO", 3, "AUTH", "default", secrets[2], "BOGUS")
        a.cmd("CONFIG", "SET", "requirepass", secrets[1])
        a.cmd("CONFIG", "SET", "maxclients", "nonsense", "requirepass", secrets[3])
        a.send(b"auth " + secrets[1].encode() + b"\r\n")
        a.cmd("ECHO", "the-end")
        seen = []
        while b"the-end" not in (line := watcher.read_raw()):
            seen.append(line.decode())
        slow = admin.raw("SLOWLOG", "GET", 100).decode()
        clients = admin.text("CLIENT", "LIST")
        assert server.stop() == 0
        for secret in secrets:
            assert_hidden(secret, "".join(seen))
            assert_hidden(secret, slow)
            assert_hidden(secret, clients)
            assert_hidden(secret, server.log)


def test_credentials_in_protocol_errors_are_not_logged(connect: Connect) -> None:
    """A stream that breaks right behind a password doesn't bring the password into the log."""
    with start_server("--requirepass", PASSWORD) as server:
        for broken in (
            b'AUTH "s3cret-word\r\n',
            b"*2\r\n$4\r\nAUTH\r\n$12\r\ns3cret-wordxx",
            b"AUTH s3cret-word\r\nPOST /\r\n",
        ):
            a = connect(server)
            a.send(broken + b"\r\n")
            a.read_to_end()
        assert server.stop() == 0
        assert_hidden("s3cret-word", server.log)


def test_failed_logins_cannot_fill_the_log(connect: Connect) -> None:
    """The log of wrong passwords is rate-limited, and says how many it left out."""
    total, batch = 200_000, 2000
    with start_server("--requirepass", PASSWORD) as server:
        a = connect(server)
        for _ in range(total // batch):
            assert a.pipeline([("AUTH", "bad")] * batch) == [WRONGPASS] * batch
        assert server.stop() == 0
        lines = [line for line in server.log.splitlines() if re.search(r"auth|log-?in|password", line, re.IGNORECASE)]
        assert 0 < len(lines) < 200
        text = re.sub(r"127\.0\.0\.1:\d+|\d{4}-\d\d-\d\d", "", "\n".join(lines))
        numbers = [int(found) for found in re.findall(r"(?<![\d.:])\d+(?![\d.:])", text)]
        assert sum(n for n in numbers if 100 < n <= total and n != server.pid) > total // 2, server.log
