"""PING, ECHO, HELLO, AUTH, QUIT, RESET, SELECT and TIME: exact bytes, and who is logged in afterwards."""

import pytest

from respmq.version import REDIS_VERSION
from tests.unit.rig import START, Rig, Talker, Word

PASSWORD = "sesame"
WRONGPASS = b"-WRONGPASS invalid username-password pair or user is disabled.\r\n"
NOAUTH = b"-NOAUTH Authentication required.\r\n"
BAD_NAME = "ERR Client names cannot contain spaces, newlines or special characters."


def hello_fields(proto: int, id: int) -> bytes:
    return (
        b"$6\r\nserver\r\n$6\r\nrespmq\r\n"
        b"$7\r\nversion\r\n$%d\r\n%b\r\n"
        b"$5\r\nproto\r\n:%d\r\n"
        b"$2\r\nid\r\n:%d\r\n"
        b"$4\r\nmode\r\n$10\r\nstandalone\r\n"
        b"$4\r\nrole\r\n$6\r\nmaster\r\n"
        b"$7\r\nmodules\r\n*0\r\n"
    ) % (len(REDIS_VERSION), REDIS_VERSION.encode(), proto, id)


@pytest.fixture
def guarded() -> Rig:
    return Rig(requirepass=PASSWORD)


def test_ping(client: Talker) -> None:
    assert client.cmd("PING") == b"+PONG\r\n"
    assert client.cmd("ping", b"a\0\r\n") == b"$4\r\na\0\r\n\r\n"
    assert client.error("PING", "a", "b").startswith("ERR wrong number of arguments for 'ping' command")


def test_echo(client: Talker) -> None:
    assert client.cmd("ECHO", "") == b"$0\r\n\r\n"
    assert client.error("ECHO").startswith("ERR wrong number of arguments for 'echo' command")


def test_hello_2_is_a_flat_array(client: Talker) -> None:
    assert client.cmd("HELLO", 2) == b"*14\r\n" + hello_fields(2, client.session.id)


def test_hello_3_is_a_map_and_hello_alone_keeps_the_protocol(client: Talker) -> None:
    expected = b"%7\r\n" + hello_fields(3, client.session.id)
    assert client.cmd("HELLO", 3) == expected
    assert client.cmd("HELLO") == expected
    assert client.cmd("CLIENT", "GETNAME") == b"_\r\n"


def test_redis_version_is_numeric() -> None:
    assert all(part.isdigit() for part in REDIS_VERSION.split("."))
    assert REDIS_VERSION.count(".") == 2


@pytest.mark.parametrize(
    ("args", "error"),
    [
        ((4,), "NOPROTO unsupported protocol version"),
        ((0,), "NOPROTO unsupported protocol version"),
        (("x",), "ERR Protocol version is not an integer or out of range"),
        ((1 << 80,), "ERR Protocol version is not an integer or out of range"),
        ((3, "BOGUS"), "ERR Syntax error in HELLO option 'BOGUS'"),
        ((3, "AUTH", "default"), "ERR Syntax error in HELLO option 'AUTH'"),
        ((3, "setname"), "ERR Syntax error in HELLO option 'setname'"),
        ((3, "SETNAME", "a b"), BAD_NAME),
        ((3, "SETNAME", "new", "BOGUS"), "ERR Syntax error in HELLO option 'BOGUS'"),
        ((3, "SETNAME", "new", "AUTH", "nobody", "x"), "WRONGPASS "),
        ((3, "AUTH", "default", "x", "SETNAME", "a b"), BAD_NAME),
        ((4, "SETNAME", "new"), "NOPROTO "),
    ],
)
def test_a_hello_that_fails_changes_nothing(args: tuple[Word, ...], error: str, client: Talker) -> None:
    client.cmd("CLIENT", "SETNAME", "old")
    assert client.error("HELLO", *args).startswith(error)
    assert not client.session.resp3
    assert client.cmd("CLIENT", "GETNAME") == b"$3\r\nold\r\n"


def test_hello_does_all_at_once(guarded: Rig) -> None:
    client = guarded.connect()
    reply = client.cmd("HELLO", 3, "AUTH", "default", PASSWORD, "SETNAME", "me")
    assert reply == b"%7\r\n" + hello_fields(3, client.session.id)
    assert client.cmd("CLIENT", "GETNAME") == b"$2\r\nme\r\n"


def test_hello_without_a_login_is_refused_and_says_how(guarded: Rig) -> None:
    client = guarded.connect()
    assert client.error("HELLO", 3) == (
        "NOAUTH HELLO must be called with the client already authenticated, otherwise the HELLO <proto> AUTH <user> "
        "<pass> option can be used to authenticate the client and select the RESP protocol version at the same time"
    )
    assert client.cmd("AUTH", PASSWORD) == b"+OK\r\n"
    assert client.cmd("CLIENT", "GETNAME") == b"$-1\r\n"


def test_auth_without_a_password(client: Talker) -> None:
    assert client.error("AUTH", "x") == (
        "ERR AUTH <password> called without any password configured for the default user. "
        "Are you sure your configuration is correct?"
    )
    assert client.cmd("AUTH", "default", "x") == b"+OK\r\n"
    assert client.cmd("AUTH", "nobody", "x") == WRONGPASS


def test_auth_counts_its_arguments(client: Talker) -> None:
    assert client.error("AUTH").startswith("ERR wrong number of arguments for 'auth' command")
    assert client.error("AUTH", "a", "b", "c").startswith("ERR syntax error")


def test_before_the_login_only_the_handshake_runs(guarded: Rig) -> None:
    client = guarded.connect()
    replies = client.all(
        ("PING",), ("AUTH", "bad"), ("AUTH", "default", "bad"), ("INFO",), ("AUTH", PASSWORD), ("PING",)
    )
    assert replies == NOAUTH + WRONGPASS * 2 + NOAUTH + b"+OK\r\n+PONG\r\n"


def test_a_failed_auth_leaves_the_user_that_was(guarded: Rig) -> None:
    client = guarded.connect()
    client.cmd("AUTH", PASSWORD)
    assert client.all(("AUTH", "bad"), ("PING",)) == WRONGPASS + b"+PONG\r\n"


def test_passwords_are_any_utf8(client: Talker) -> None:
    assert client.cmd("CONFIG", "SET", "requirepass", "p\xe4ss w\xf6rd") == b"+OK\r\n"
    assert client.cmd("AUTH", "p\xe4ss w\xf6rd") == b"+OK\r\n"
    assert client.cmd("AUTH", "p\xe4ss w\xf6rd ") == WRONGPASS
    assert client.cmd("AUTH", b"\xff") == WRONGPASS


def test_failed_logins_are_logged_without_what_was_tried(guarded: Rig) -> None:
    client = guarded.connect()
    client.all(("AUTH", "s3cret"), ("AUTH", "s3cret-user", "x"), ("HELLO", 3, "AUTH", "default", "s3cret"))
    assert [line.event for line in guarded.log] == ["login failed"] * 3
    assert all(line.details == {"client": client.address} for line in guarded.log)
    client.cmd("AUTH", PASSWORD)
    assert "acl_access_denied_auth:3\r\n" in client.text("INFO", "stats")


def test_quit_answers_and_ends(client: Talker) -> None:
    assert client.all(("PING",), ("QUIT", "now"), ("PING",)) == b"+PONG\r\n+OK\r\n"
    assert client.closed


def test_reset_makes_a_new_connection_of_it(guarded: Rig) -> None:
    client = guarded.connect()
    client.cmd("HELLO", 3, "AUTH", "default", PASSWORD, "SETNAME", "me")
    for change in (
        ("CLIENT", "NO-EVICT", "ON"),
        ("CLIENT", "SETINFO", "LIB-NAME", "lib"),
        ("MONITOR",),
        ("CLIENT", "REPLY", "OFF"),
    ):
        client.cmd(*change)
    assert client.cmd("RESET") == b"+RESET\r\n"
    assert client.cmd("PING") == NOAUTH
    client.cmd("AUTH", PASSWORD)
    assert client.cmd("CLIENT", "GETNAME") == b"$-1\r\n"
    assert client.fields()["flags"] == "N"
    assert client.fields()["lib-name"] == "lib"
    assert not guarded.state.monitors


def test_select_has_database_0_only(client: Talker) -> None:
    assert client.cmd("SELECT", 0) == b"+OK\r\n"
    assert client.error("SELECT", 1).startswith("ERR DB index is out of range")
    assert client.error("SELECT", "x").startswith("ERR value is not an integer or out of range")


def test_time_is_the_brokers(rig: Rig, client: Talker) -> None:
    rig.advance(1_234)
    assert client.cmd("TIME") == b"*2\r\n$10\r\n%d\r\n$6\r\n234000\r\n" % (START // 1000 + 1)
    rig.advance(765)
    assert client.cmd("TIME").endswith(b"$6\r\n999000\r\n")
    rig.advance(1)
    assert client.cmd("TIME").endswith(b"$1\r\n0\r\n")
