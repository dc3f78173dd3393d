"""CLIENT: who is connected, names, silence, pauses, and ends of connections and waits."""

import re

import pytest

from tests.unit.rig import Rig, Talker, Word

FIELDS = (
    "id addr laddr fd name age idle flags db sub psub ssub multi qbuf qbuf-free argv-mem multi-mem rbs rbp obl oll "
    "omem tot-mem events cmd user redir resp lib-name lib-ver"
)


def blocked(rig: Rig, queue: str = "q") -> Talker:
    """A client that waits for a message."""
    client = rig.connect()
    client.cmd("QDECLARE", queue)
    assert client.cmd("QLEASE", queue, "WAIT", 0) == b""
    return client


# -- the own connection


def test_id_is_the_connections_own(rig: Rig) -> None:
    first, second = rig.connect(), rig.connect()
    assert first.integer("CLIENT", "ID") == first.session.id != second.integer("CLIENT", "ID")


def test_info_is_one_line_of_redis_fields(client: Talker, client3: Talker) -> None:
    for one, resp in ((client, "2"), (client3, "3")):
        text = one.text("CLIENT", "INFO")
        assert text.endswith("\n")
        assert text.count("\n") == 1
        names = [field.partition("=")[0] for field in text.split()]
        assert names[: FIELDS.count(" ") + 1] == FIELDS.split()
        fields = one.fields()
        assert (fields["cmd"], fields["resp"], fields["addr"]) == ("client|info", resp, one.address)
    assert client3.cmd("CLIENT", "INFO").startswith(b"=")


def test_age_and_idle_time_are_seconds(rig: Rig, client: Talker) -> None:
    other = rig.connect()
    rig.advance(2_999)
    client.cmd("PING")
    rig.advance(1_001)
    assert other.fields()["age"] == "4"
    listed = dict(field.split("=", 1) for field in other.text("CLIENT", "LIST", "ID", client.session.id).split())
    assert (listed["age"], listed["idle"], listed["cmd"]) == ("4", "1", "ping")


def test_names(client: Talker, client3: Talker) -> None:
    assert (client.cmd("CLIENT", "GETNAME"), client3.cmd("CLIENT", "GETNAME")) == (b"$-1\r\n", b"_\r\n")
    assert client.cmd("CLIENT", "SETNAME", "!~") == b"+OK\r\n"
    for bad in ("a b", "a\n", b"a\xff", b"\x7f", "\x00"):
        error = client.error("CLIENT", "SETNAME", bad)
        assert error.startswith("ERR Client names cannot contain spaces, newlines or special characters.")
    assert client.cmd("CLIENT", "GETNAME") == b"$2\r\n!~\r\n"
    assert client.cmd("CLIENT", "SETNAME", "") == b"+OK\r\n"
    assert client.cmd("CLIENT", "GETNAME") == b"$-1\r\n"


def test_setinfo(client: Talker) -> None:
    assert client.cmd("CLIENT", "SETINFO", "lib-name", "redis-py") == b"+OK\r\n"
    assert client.cmd("CLIENT", "SETINFO", "LIB-VER", "8.1.0") == b"+OK\r\n"
    assert client.error("CLIENT", "SETINFO", "LIB-VER", "a b").startswith("ERR lib-ver cannot contain spaces")
    assert client.error("CLIENT", "SETINFO", "FOO", "x").startswith("ERR Unrecognized option 'FOO'")
    fields = client.fields()
    assert (fields["lib-name"], fields["lib-ver"]) == ("redis-py", "8.1.0")


def test_switches_are_shown_as_flags(client: Talker) -> None:
    for switch in ("NO-EVICT", "NO-TOUCH"):
        assert client.cmd("CLIENT", switch, "on") == b"+OK\r\n"
        assert client.error("CLIENT", switch, "x").startswith("ERR syntax error")
    assert client.fields()["flags"] == "eT"
    client.cmd("CLIENT", "NO-EVICT", "OFF")
    assert client.fields()["flags"] == "T"


def test_flags_tell_what_a_client_does(rig: Rig, client: Talker) -> None:
    blocked(rig)
    for does in (("MONITOR",), ("SUBSCRIBE", "t"), ("MULTI",)):
        rig.connect().cmd(*does)
    local = rig.connect(address="/run/respmq.sock:0")
    flags = re.findall(r" flags=(\S+) ", client.text("CLIENT", "LIST"))
    assert flags == ["N", "b", "O", "P", "x", "U"]
    assert local.fields()["addr"] == "/run/respmq.sock:0"


def test_reply_off_and_on(client: Talker) -> None:
    replies = client.all(
        ("CLIENT", "REPLY", "OFF"),
        ("PING",),
        ("NOPE",),
        ("CLIENT", "REPLY", "SKIP"),
        ("PING",),
        ("CLIENT", "REPLY", "ON"),
        ("PING",),
    )
    assert replies == b"+OK\r\n+PONG\r\n"


def test_reply_skip_is_for_one_command(client: Talker) -> None:
    assert client.all(("CLIENT", "REPLY", "SKIP"), ("ECHO", "a"), ("ECHO", "b")) == b"$1\r\nb\r\n"
    skip = ("CLIENT", "REPLY", "SKIP")
    assert client.all(skip, skip, ("ECHO", "a"), ("ECHO", "b")) == b"$1\r\nb\r\n"
    assert client.error("CLIENT", "REPLY", "FOO").startswith("ERR syntax error")


def test_a_wait_under_reply_off_is_silent(rig: Rig, client: Talker) -> None:
    client.cmd("QDECLARE", "q")
    client.cmd("CLIENT", "REPLY", "OFF")
    assert client.cmd("QLEASE", "q", "WAIT", 1) == b""
    rig.advance(1_000)
    assert client.read() == b""
    assert client.all(("CLIENT", "REPLY", "ON"), ("PING",)) == b"+OK\r\n+PONG\r\n"


def test_reply_off_holds_for_large_replies_too(client: Talker) -> None:
    client.cmd("CONFIG", "SET", "client-output-buffer-limit", "64kb")
    large = ("ECHO", "x" * 40_000)
    off, on = ("CLIENT", "REPLY", "OFF"), ("CLIENT", "REPLY", "ON")
    assert client.all(off, large, large, large, on, ("PING",)) == b"+OK\r\n+PONG\r\n"


def test_what_is_pushed_meanwhile_is_not_silenced(client3: Talker) -> None:
    client3.cmd("QDECLARE", "q")
    client3.cmd("QCONSUME", "q")
    replies = client3.all(("CLIENT", "REPLY", "SKIP"), ("QPUT", "q", "m", "ID", "m"), ("PING",))
    assert replies.startswith(b">7\r\n$7\r\ndeliver\r\n")
    assert replies.endswith(b":1\r\n$1\r\nm\r\n+PONG\r\n")
    assert replies.count(b"\r\nm\r\n") == 2


# -- LIST and KILL


def test_list_by_type_and_by_id(rig: Rig, client: Talker) -> None:
    other = rig.connect()
    ids = f"id={client.session.id} ", f"id={other.session.id} "
    assert all(id in client.text("CLIENT", "LIST") for id in ids)
    assert all(id in client.text("CLIENT", "LIST", "TYPE", "normal") for id in ids)
    for type in ("pubsub", "master", "replica", "slave"):
        assert client.text("CLIENT", "LIST", "TYPE", type) == ""
    other.cmd("PSUBSCRIBE", "t.*")
    assert client.text("CLIENT", "LIST", "TYPE", "PUBSUB").startswith(ids[1])
    assert ids[1] not in client.text("CLIENT", "LIST", "TYPE", "NORMAL")
    assert client.text("CLIENT", "LIST", "ID", other.session.id, 999, -1).startswith(ids[1])
    assert client.text("CLIENT", "LIST", "ID", 0) == ""


@pytest.mark.parametrize(
    ("args", "error"),
    [
        (("TYPE", "foo"), "ERR Unknown client type 'foo'"),
        (("TYPE",), "ERR syntax error"),
        (("ID",), "ERR syntax error"),
        (("ID", "x"), "ERR Invalid client ID"),
        (("FOO",), "ERR syntax error"),
        (("TYPE", "normal", "ID", "1"), "ERR syntax error"),
    ],
)
def test_list_errors(args: tuple[Word, ...], error: str, client: Talker) -> None:
    assert client.error("CLIENT", "LIST", *args).startswith(error)


def test_kill_by_address(rig: Rig, client: Talker) -> None:
    victim = rig.connect()
    assert client.cmd("CLIENT", "KILL", victim.address) == b"+OK\r\n"
    assert victim.session.closed
    assert client.error("CLIENT", "KILL", victim.address) == "ERR No such client"
    assert client.integer("CLIENT", "KILL", "ADDR", victim.address) == 0


def test_kill_filters_must_all_hold(rig: Rig, client: Talker) -> None:
    victim = rig.connect()
    number = victim.session.id
    for filters in (
        ("TYPE", "pubsub"),
        ("ADDR", "1.2.3.4:5"),
        ("LADDR", "1.2.3.4:5"),
        ("ID", client.session.id),
        ("MAXAGE", 1),
    ):
        wanted = filters if filters[0] == "ID" else ("ID", number, *filters)
        assert client.integer("CLIENT", "KILL", *wanted) == 0
    assert not victim.closed
    matching = ("TYPE", "normal", "LADDR", "127.0.0.1:6390", "USER", "default", "ADDR", victim.address, "SKIPME", "no")
    assert client.integer("CLIENT", "KILL", "ID", number, *matching) == 1
    assert victim.session.closed


def test_kill_by_age(rig: Rig, client: Talker) -> None:
    old = rig.connect()
    rig.advance(5_000)
    young = rig.connect()
    assert client.integer("CLIENT", "KILL", "MAXAGE", 5) == 1
    assert (old.closed, young.closed) == (True, False)


def test_kill_spares_the_caller_unless_told_otherwise(rig: Rig, client: Talker) -> None:
    others = [rig.connect() for _ in range(3)]
    assert client.integer("CLIENT", "KILL", "TYPE", "normal") == 3
    assert all(other.closed for other in others)
    assert client.all(("CLIENT", "KILL", "TYPE", "normal", "SKIPME", "no"), ("PING",)) == b":1\r\n"
    assert client.closed
    assert not client.session.closed


@pytest.mark.parametrize(
    ("args", "error"),
    [
        ((), "ERR wrong number of arguments for 'client|kill' command"),
        (("ID", "x"), "ERR client-id should be greater than 0"),
        (("ID", "0"), "ERR client-id should be greater than 0"),
        (("TYPE", "foo"), "ERR Unknown client type 'foo'"),
        (("USER", "nobody"), "ERR No such user 'nobody'"),
        (("ID", "1", "SKIPME", "maybe"), "ERR syntax error"),
        (("FOO", "bar"), "ERR syntax error"),
        (("ADDR", "x", "BAR"), "ERR syntax error"),
        (("MAXAGE", "0"), "ERR maxage is not an integer or out of range"),
    ],
)
def test_kill_errors_end_nothing(args: tuple[Word, ...], error: str, rig: Rig, client: Talker) -> None:
    other = rig.connect()
    assert client.error("CLIENT", "KILL", *args).startswith(error)
    assert not other.closed


def test_a_killed_waiter_takes_nothing_with_it(rig: Rig, client: Talker) -> None:
    waiting = blocked(rig)
    kill = ("CLIENT", "KILL", "ID", waiting.session.id)
    replies = client.all(kill, ("QPUT", "q", "m", "ID", "m"), ("QLEASE", "q"))
    assert replies.startswith(b":1\r\n$1\r\nm\r\n*1\r\n*5\r\n")
    assert waiting.read() == b""


# -- UNBLOCK


@pytest.mark.parametrize(
    ("reason", "reply"),
    [
        ((), b"*0\r\n"),
        (("timeout",), b"*0\r\n"),
        (("ERROR",), b"-UNBLOCKED client unblocked via CLIENT UNBLOCK\r\n"),
    ],
)
def test_unblock_ends_a_wait(reason: tuple[str, ...], reply: bytes, rig: Rig, client: Talker) -> None:
    waiting = blocked(rig)
    waiting.cmd("PING")
    assert client.integer("CLIENT", "UNBLOCK", waiting.session.id, *reason) == 1
    rig.settle()
    assert waiting.read() == reply + b"+PONG\r\n"
    assert client.integer("CLIENT", "UNBLOCK", waiting.session.id, *reason) == 0
    assert rig.state.engine.stats(b"q").waiters == 0


def test_unblock_of_one_that_waits_for_nothing(rig: Rig, client: Talker) -> None:
    idle, watching, paused = rig.connect(), rig.connect(), rig.connect()
    watching.cmd("MONITOR")
    client.cmd("CLIENT", "PAUSE", 60_000)
    assert paused.cmd("PING") == b""
    for number in (idle.session.id, watching.session.id, paused.session.id, client.session.id, 1 << 40, -1):
        assert client.integer("CLIENT", "UNBLOCK", number) == 0
        assert client.integer("CLIENT", "UNBLOCK", number, "ERROR") == 0
    client.cmd("CLIENT", "UNPAUSE")
    rig.settle()
    assert paused.read() == b"+PONG\r\n"


def test_unblock_errors(client: Talker) -> None:
    assert client.error("CLIENT", "UNBLOCK", "x").startswith("ERR value is not an integer or out of range")
    assert client.error("CLIENT", "UNBLOCK", 9, "x").startswith("ERR CLIENT UNBLOCK reason should be TIMEOUT or ERROR")
    assert client.error("CLIENT", "UNBLOCK", 9, "ERROR", "x").startswith(
        "ERR unknown subcommand or wrong number of arguments for 'UNBLOCK'. Try CLIENT HELP."
    )


# -- PAUSE


def test_a_clock_that_stands_still_can_be_moved_during_a_pause() -> None:
    """Otherwise no time would ever pass, and the pause never end."""
    rig = Rig(virtual_clock="yes")
    client, other = rig.connect(), rig.connect()
    assert client.cmd("CLIENT", "PAUSE", 500, "ALL") == b"+OK\r\n"
    assert other.cmd("PING") == b""
    assert client.cmd("DEBUG", "ADVANCE", "499ms") == b"+OK\r\n"
    assert other.read() == b""
    assert client.cmd("DEBUG", "ADVANCE", "1ms") == b"+OK\r\n"
    assert other.read() == b"+PONG\r\n"


def test_pause_holds_everything_back_until_its_time(rig: Rig, client: Talker) -> None:
    other = rig.connect()
    assert client.cmd("CLIENT", "PAUSE", 500) == b"+OK\r\n"
    assert other.all(("PING",), ("ECHO", "x")) == b""
    rig.advance(499)
    assert other.read() == b""
    rig.advance(1)
    assert other.read() == b"+PONG\r\n$1\r\nx\r\n"


def test_pause_of_writes_lets_the_rest_go_on(rig: Rig, client: Talker) -> None:
    other = rig.connect()
    client.cmd("QDECLARE", "q")
    assert client.cmd("CLIENT", "PAUSE", 60_000, "write") == b"+OK\r\n"
    assert client.cmd("PING") == b"+PONG\r\n"
    assert other.cmd("QPUT", "q", "m") == b""
    assert client.cmd("CLIENT", "UNPAUSE") == b"+OK\r\n"
    rig.settle()
    assert other.read().startswith(b"$32\r\n")


def test_a_second_pause_only_adds(rig: Rig, client: Talker) -> None:
    other = rig.connect()
    client.cmd("CLIENT", "PAUSE", 1_000, "ALL")
    client.cmd("CLIENT", "PAUSE", 100, "WRITE")
    assert other.cmd("PING") == b""
    rig.advance(999)
    assert other.read() == b""
    rig.advance(1)
    assert other.read() == b"+PONG\r\n"


@pytest.mark.parametrize(
    ("args", "error"),
    [
        ((), "ERR wrong number of arguments for 'client|pause' command"),
        (("x",), "ERR timeout is not an integer or out of range"),
        (("1.5",), "ERR timeout is not an integer or out of range"),
        (("-1",), "ERR timeout is negative"),
        (("1", "FOO"), "ERR CLIENT PAUSE mode must be WRITE or ALL"),
        (("1", "ALL", "x"), "ERR unknown subcommand or wrong number of arguments for 'PAUSE'. Try CLIENT HELP."),
    ],
)
def test_pause_errors(args: tuple[Word, ...], error: str, client: Talker) -> None:
    assert client.error("CLIENT", "PAUSE", *args).startswith(error)
    assert client.cmd("PING") == b"+PONG\r\n"


# -- the container


def test_subcommands_that_do_not_exist(client: Talker) -> None:
    assert client.error("CLIENT", "FOO") == "ERR unknown subcommand 'FOO'. Try CLIENT HELP."
    maintenance = ("CLIENT", "MAINT_NOTIFICATIONS", "ON", "moving-endpoint-type", "internal-ip")
    assert client.error(*maintenance) == "ERR unknown subcommand 'MAINT_NOTIFICATIONS'. Try CLIENT HELP."
    assert client.error("CLIENT").startswith("ERR wrong number of arguments for 'client' command")
