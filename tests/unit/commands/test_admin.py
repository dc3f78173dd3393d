"""MONITOR, SLOWLOG, LATENCY, SHUTDOWN, DBSIZE, DEBUG and LOLWUT."""

import pytest

from respmq import __version__
from tests.unit.rig import START, Rig, Talker, Word

# -- MONITOR


@pytest.fixture
def watcher(rig: Rig) -> Talker:
    """A client that sees all commands."""
    watching = rig.connect()
    assert watching.cmd("MONITOR") == b"+OK\r\n"
    return watching


def line(client: Talker, words: bytes, millis: int = 0) -> bytes:
    """What MONITOR shows of a command."""
    at = START + millis
    return b"+%d.%06d [0 %b] %b\r\n" % (at // 1000, at % 1000 * 1000, client.address.encode(), words)


def test_monitor_shows_commands_as_they_were_sent(rig: Rig, client: Talker, watcher: Talker) -> None:
    rig.advance(1_042)
    client.all(("ping",), ("ECHO", b'a\0\n"\\\xff'), ("Client", "id"))
    expected = [b'"ping"', rb'"ECHO" "a\x00\n\"\\\xff"', b'"Client" "id"']
    assert watcher.read() == b"".join(line(client, words, 1_042) for words in expected)


def test_monitor_is_the_same_in_resp3(rig: Rig, client: Talker) -> None:
    watching = rig.connect(resp=3)
    assert watching.cmd("MONITOR") == b"+OK\r\n"
    client.cmd("PING")
    assert watching.read() == line(client, b'"PING"')


def test_monitor_leaves_out_what_administrators_do_and_what_is_wrong(client: Talker, watcher: Talker) -> None:
    client.all(("CONFIG", "GET", "port"), ("SLOWLOG", "LEN"), ("NOPE",), ("ECHO",), ("ECHO", "a", "b"))
    assert watcher.read() == b""


def test_monitor_shows_a_command_that_waits_once(rig: Rig, client: Talker, watcher: Talker) -> None:
    client.cmd("QDECLARE", "q")
    client.cmd("QLEASE", "q", "WAIT", 1)
    rig.advance(1_000)
    expected = [b'"QDECLARE" "q"', b'"QLEASE" "q" "WAIT" "1"']
    assert watcher.read() == b"".join(line(client, words) for words in expected)


def test_monitor_shows_a_transaction_when_it_runs(client: Talker, watcher: Talker) -> None:
    client.all(("MULTI",), ("ECHO", "x"), ("CONFIG", "GET", "port"))
    assert watcher.read() == line(client, b'"MULTI"')
    client.cmd("EXEC")
    assert watcher.read() == line(client, b'"ECHO" "x"') + line(client, b'"EXEC"')


def test_monitor_and_shutdown_are_no_part_of_a_transaction(rig: Rig, client: Talker) -> None:
    assert client.all(("MULTI",), ("MONITOR",)) == b"+OK\r\n+QUEUED\r\n"
    assert client.cmd("EXEC").startswith(b"*1\r\n-ERR MONITOR isn't allowed for DENY BLOCKING client")
    client.cmd("MULTI")
    assert client.error("SHUTDOWN").startswith("ERR Command not allowed inside a transaction")
    assert client.error("EXEC").startswith("EXECABORT ")
    assert rig.stops == []


def test_monitor_shows_the_watchers_own_commands_after_their_answers(watcher: Talker) -> None:
    assert watcher.cmd("PING") == b"+PONG\r\n" + line(watcher, b'"PING"')
    assert watcher.cmd("RESET") == b"+RESET\r\n"
    assert watcher.cmd("PING") == b"+PONG\r\n"


def test_monitor_of_a_client_on_a_unix_socket(rig: Rig, watcher: Talker) -> None:
    rig.connect(address="/run/respmq.sock:0").cmd("PING")
    assert watcher.read().endswith(b' [0 unix:/run/respmq.sock] "PING"\r\n')


def test_monitor_cuts_what_is_long(client: Talker, watcher: Talker) -> None:
    client.cmd("CONFIG", "SET", "max-message-size", "1mb")
    client.cmd("ECHO", "x" * 100_000)
    shown = watcher.read()
    assert shown.endswith(b'x... (34484 more bytes)"\r\n')
    assert len(shown) < 66_000
    client.cmd("QMPUT", "q", *["y"] * 10_000)
    shown = watcher.read()
    assert shown.endswith(b'"y" "... (6147 more arguments)"\r\n')
    assert len(shown) < 66_000


def test_a_monitor_that_reads_is_not_closed(client: Talker, watcher: Talker) -> None:
    client.cmd("CONFIG", "SET", "client-output-buffer-limit", "64kb")
    for _ in range(10):
        client.cmd("ECHO", "x" * 30_000)
        assert len(watcher.cmd("PING")) > 30_000
    assert not watcher.closed


def test_a_monitor_that_does_not_read_is_closed(rig: Rig, client: Talker, watcher: Talker) -> None:
    client.cmd("CONFIG", "SET", "client-output-buffer-limit", "64kb")
    for _ in range(3):
        client.cmd("ECHO", "x" * 30_000)
    assert watcher.session.closed
    assert not rig.state.monitors
    assert client.cmd("PING") == b"+PONG\r\n"


SECRET_CALLS: list[tuple[Word, ...]] = [
    ("AUTH", "s3cret"),
    ("auth", "default", "s3cret"),
    ("AUTH", "default", "s3cret", "more"),
    ("HELLO", 3, "AUTH", "default", "s3cret"),
    ("HELLO", "AUTH", "default", "s3cret"),
    ("HELLO", 3, "SETNAME", "n", "auth", "default", "s3cret", "AUTH", "default", "s3cret"),
    ("CONFIG", "SET", "requirepass", "s3cret"),
    ("CONFIG", "SET", "maxclients", "REQUIREPASS", "s3cret"),
    ("AUHT", "s3cret"),
]


@pytest.mark.parametrize("call", SECRET_CALLS, ids=repr)
def test_secrets_are_not_shown(call: tuple[Word, ...], rig: Rig, client: Talker, watcher: Talker) -> None:
    client.cmd("CONFIG", "SET", "slowlog-log-slower-than", 0)
    client.cmd(*call)
    assert b"s3cret" not in watcher.read()
    assert b"s3cret" not in client.cmd("SLOWLOG", "GET", -1)
    assert not any("s3cret" in str(entry) for entry in rig.log)


# -- SLOWLOG


def test_slowlog_keeps_what_took_long(rig: Rig, client: Talker) -> None:
    rig.step = 9_999_000
    client.cmd("PING")
    assert client.cmd("SLOWLOG", "LEN") == b":0\r\n"
    rig.step = 10_000_000
    client.cmd("CLIENT", "SETNAME", "me")
    rig.advance(2_000)
    client.cmd("ECHO", "a")
    rig.step = 1_000
    address = client.address.encode()
    entries = [
        (1, START // 1000 + 2, b"*2\r\n$4\r\nECHO\r\n$1\r\na\r\n", b"$2\r\nme\r\n"),
        (0, START // 1000, b"*3\r\n$6\r\nCLIENT\r\n$7\r\nSETNAME\r\n$2\r\nme\r\n", b"$2\r\nme\r\n"),
    ]
    expected = b"*2\r\n" + b"".join(
        b"*6\r\n:%d\r\n:%d\r\n:10000\r\n%b$%d\r\n%b\r\n%b" % (number, at, args, len(address), address, name)
        for number, at, args, name in entries
    )
    assert client.cmd("SLOWLOG", "GET") == expected
    assert client.cmd("SLOWLOG", "RESET") == b"+OK\r\n"
    assert client.cmd("SLOWLOG", "GET") == b"*0\r\n"


def test_slowlog_is_bounded_and_cuts_what_is_long(client: Talker) -> None:
    client.cmd("CONFIG", "SET", "slowlog-log-slower-than", 0, "slowlog-max-len", 3)
    client.cmd("QMPUT", "q" * 200, *range(40))
    newest = client.cmd("SLOWLOG", "GET", 1)
    assert b"*32\r\n$5\r\nQMPUT\r\n$147\r\n" + b"q" * 128 + b"... (72 more bytes)\r\n" in newest
    assert b"... (11 more arguments)\r\n" in newest
    assert client.cmd("SLOWLOG", "LEN") == b":3\r\n"
    assert client.cmd("SLOWLOG", "GET", -1).startswith(b"*3\r\n")
    client.cmd("CONFIG", "SET", "slowlog-max-len", 0)
    assert client.cmd("SLOWLOG", "LEN") == b":0\r\n"


@pytest.mark.parametrize(
    ("args", "error"),
    [
        (("GET", "x"), "ERR count should be greater than or equal to -1"),
        (("GET", "-2"), "ERR count should be greater than or equal to -1"),
        (("GET", "1", "2"), "ERR unknown subcommand or wrong number of arguments for 'GET'. Try SLOWLOG HELP."),
        (("LEN", "x"), "ERR wrong number of arguments for 'slowlog|len' command"),
        (("FOO",), "ERR unknown subcommand 'FOO'. Try SLOWLOG HELP."),
    ],
)
def test_slowlog_errors(args: tuple[Word, ...], error: str, client: Talker) -> None:
    assert client.error("SLOWLOG", *args).startswith(error)


# -- LATENCY


def test_latency_has_recorded_nothing(client: Talker, client3: Talker) -> None:
    assert client.cmd("LATENCY", "LATEST") == b"*0\r\n"
    assert client.cmd("LATENCY", "HISTOGRAM") == b"*0\r\n"
    assert client3.cmd("LATENCY", "HISTOGRAM", "ping", "nope") == b"%0\r\n"
    assert client.cmd("LATENCY", "RESET", "command") == b":0\r\n"


# -- SHUTDOWN


@pytest.mark.parametrize(
    ("args", "now"), [((), False), (("NOSAVE",), False), (("save", "FORCE"), False), (("NOW", "FORCE"), True)]
)
def test_shutdown_answers_nothing_and_ends(args: tuple[Word, ...], now: bool, rig: Rig, client: Talker) -> None:
    assert client.all(("PING",), ("SHUTDOWN", *args), ("PING",)) == b"+PONG\r\n"
    assert rig.stops == [(f"SHUTDOWN from {client.address}", now)]
    assert client.closed


@pytest.mark.parametrize(
    ("args", "error"),
    [
        (("ABORT",), "ERR No shutdown in progress."),
        (("NOW", "ABORT"), "ERR syntax error"),
        (("FOO",), "ERR syntax error"),
        (("SAVE", "NOSAVE"), "ERR syntax error"),
    ],
)
def test_shutdown_errors_stop_nothing(args: tuple[Word, ...], error: str, rig: Rig, client: Talker) -> None:
    assert client.error("SHUTDOWN", *args).startswith(error)
    assert rig.stops == []
    assert client.cmd("PING") == b"+PONG\r\n"


# -- the rest


def test_dbsize_is_the_number_of_queues(client: Talker) -> None:
    assert client.cmd("DBSIZE") == b":0\r\n"
    client.all(("QDECLARE", "a"), ("QDECLARE", "a"), ("QDECLARE", "b"))
    assert client.cmd("DBSIZE") == b":2\r\n"
    client.cmd("QDELETE", "a")
    assert client.cmd("DBSIZE") == b":1\r\n"


def test_debug_advance_does_all_that_falls_due() -> None:
    rig = Rig(virtual_clock="yes")
    client, waiting = rig.connect(), rig.connect()
    client.cmd("QDECLARE", "q")
    client.cmd("QPUT", "q", "m", "ID", "m", "DELAY", "1h")
    waiting.cmd("QLEASE", "q", "WAIT", "2h")
    assert client.cmd("DEBUG", "ADVANCE", "59m") == b"+OK\r\n"
    assert waiting.read() == b""
    assert client.cmd("DEBUG", "ADVANCE", "1d") == b"+OK\r\n"
    assert b"\r\n$1\r\nm\r\n" in waiting.read()
    assert client.cmd("DEBUG", "ADVANCE", 0) == b"+OK\r\n"
    assert client.cmd("TIME").startswith(b"*2\r\n$10\r\n%d\r\n" % (START // 1000 + 59 * 60 + 86_400))
    assert client.error("DEBUG", "ADVANCE", "-1").startswith("ERR invalid duration '-1'")


def test_debug_advance_needs_a_virtual_clock(rig: Rig, client: Talker) -> None:
    assert "--virtual-clock" in client.error("DEBUG", "ADVANCE", "1s")
    assert rig.state.engine.now == START
    assert client.error("DEBUG", "FOO") == "ERR unknown subcommand 'FOO'. Try DEBUG HELP."


def test_lolwut_tells_the_version(client: Talker, client3: Talker) -> None:
    for one in (client, client3):
        assert one.text("LOLWUT").endswith(f"\nrespmq ver. {__version__}\n")
        assert one.text("LOLWUT", "VERSION", 5) == one.text("LOLWUT")
    assert client.error("LOLWUT", "VERSION", "x").startswith("ERR value is not an integer or out of range")
