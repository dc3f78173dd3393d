"""The commands that Redis has too, answered by a real redis-server and by this one: the same bytes.

An error may say more than Redis' does, but begins with it. What is different on purpose has a test of its own at the
end.
"""

import re
from collections.abc import Iterator

import pytest

from tests.clients.dialogues import ALIKE, DIALOGUES, Commands
from tests.support import Arg, Conn, ServerProcess, Value, as_list, encode

END = b"the end of it"


class Both:
    """A connection to each of the two servers."""

    def __init__(self, redis: Conn, ours: Conn) -> None:
        self.redis = redis
        self.ours = ours

    def say(self, *commands: tuple[Arg, ...]) -> tuple[list[bytes], list[bytes]]:
        """Send commands in one write; all replies of Redis and of ours, with that to an ECHO at the end."""
        return self._say(self.redis, commands), self._say(self.ours, commands)

    def values(self, *command: Arg) -> tuple[Value, Value]:
        """The two replies to one command."""
        return self.redis.cmd(*command), self.ours.cmd(*command)

    def _say(self, conn: Conn, commands: tuple[tuple[Arg, ...], ...]) -> list[bytes]:
        conn.send(b"".join(encode(*command) for command in commands) + encode("ECHO", END))
        replies: list[bytes] = []
        while not replies or END not in replies[-1]:
            replies.append(conn.read_raw())
        return replies


@pytest.fixture(params=[2, 3], ids=["resp2", "resp3"])
def both(redis_socket: str, server: ServerProcess, request: pytest.FixtureRequest) -> Iterator[Both]:
    with Conn(path=redis_socket) as redis, Conn(server.port) as ours:
        if request.param == 3:
            redis.hello(3)
            ours.hello(3)
        yield Both(redis, ours)


def assert_same(redis: list[bytes], ours: list[bytes]) -> None:
    assert len(redis) == len(ours), (redis, ours)
    for theirs, our in zip(redis, ours, strict=True):
        if theirs.startswith(b"-"):
            assert our.startswith(theirs.removesuffix(b"\r\n").removesuffix(b".")), (theirs, our)
        else:
            assert our == theirs


@pytest.mark.parametrize("command", ALIKE, ids=lambda command: command[:60])
def test_one_command(command: str, both: Both) -> None:
    assert_same(*both.say(tuple(command.split())))


@pytest.mark.parametrize("name", DIALOGUES)
def test_dialogues(name: str, both: Both) -> None:
    redis, ours = both.say(*DIALOGUES[name])
    if name == "settings":
        # What is wrong with a value is said in other words.
        common = re.compile(rb"-ERR CONFIG SET failed \(possibly related to argument 'slowlog-max-len'\) - ")
        assert common.match(redis[4])
        assert common.match(ours[4])
        redis[4] = ours[4] = b""
    assert_same(redis, ours)


@pytest.mark.parametrize(
    "commands",
    [
        [("PING",), ("QUIT",), ("PING",)],
        [("QUIT", "now")],
        [("CLIENT", "KILL", "TYPE", "normal", "ID", "{id}", "SKIPME", "no"), ("PING",)],
    ],
    ids=["quit", "quit-now", "kill-self"],
)
def test_ends(commands: Commands, both: Both) -> None:
    ends = []
    for conn in (both.redis, both.ours):
        number = conn.id()
        conn.send(b"".join(encode(*(str(word).format(id=number) for word in command)) for command in commands))
        ends.append(conn.read_to_end())
    assert ends[0] == ends[1]


NAMES = """
    ping echo hello auth quit reset select time command command|count command|docs command|getkeys command|help
    command|info command|list client client|getname client|help client|id client|info client|kill client|list
    client|no-evict client|pause client|reply client|setname client|unblock client|unpause config config|get config|help
    config|resetstat config|rewrite config|set info latency latency|help latency|histogram latency|latest latency|reset
    lolwut monitor shutdown slowlog slowlog|get slowlog|help slowlog|len slowlog|reset
"""


@pytest.mark.parametrize("name", NAMES.split())
def test_command_info(name: str, both: Both) -> None:
    """All of the ten fields, but for the hints for clusters (tips) and a container's subcommands."""
    redis, ours = both.values("COMMAND", "INFO", name)
    (theirs,), (own,) = as_list(redis), as_list(ours)
    assert [as_list(own)[i] for i in (0, 1, 2, 3, 4, 5, 6, 8)] == [as_list(theirs)[i] for i in (0, 1, 2, 3, 4, 5, 6, 8)]
    assert type(as_list(own)[7]) is type(as_list(theirs)[7])


def shape(value: Value) -> object:
    """Which types a value is made of: what a client must be able to parse."""
    if isinstance(value, list):
        return [shape(item) for item in value]
    pairs = getattr(value, "pairs", None)
    if pairs is not None:
        return {key: shape(item) for key, item in pairs}
    return type(value)


def test_hello(both: Both) -> None:
    for version in (2, 3):
        redis, ours = both.values("HELLO", version)
        assert shape(ours) == shape(redis)
        assert_same([both.redis.raw("CLIENT", "GETNAME")], [both.ours.raw("CLIENT", "GETNAME")])


def test_docs_of_a_command_without_arguments(both: Both) -> None:
    """The framing; the words are our own."""
    redis, ours = both.values("COMMAND", "DOCS", "time")
    assert shape(ours) == shape(redis)


def test_docs_of_a_command_with_an_argument(both: Both) -> None:
    redis, ours = both.values("COMMAND", "DOCS", "ping")
    assert shape(ours) == shape(redis)


def test_time(both: Both) -> None:
    redis, ours = both.values("TIME")
    assert shape(ours) == shape(redis)
    assert isinstance(redis, list)
    assert isinstance(ours, list)
    assert isinstance(redis[0], bytes)
    assert isinstance(ours[0], bytes)
    assert abs(int(redis[0]) - int(ours[0])) <= 1


def test_slow_commands(both: Both) -> None:
    for conn in (both.redis, both.ours):
        conn.ok("CONFIG", "SET", "slowlog-log-slower-than", 0)
        conn.ok("SLOWLOG", "RESET")
        conn.ok("CLIENT", "SETNAME", "me")
    try:
        redis, ours = both.values("SLOWLOG", "GET", 2)
        assert shape(ours) == shape(redis)
        for theirs, own in zip(as_list(redis), as_list(ours), strict=True):
            assert as_list(own)[3] == as_list(theirs)[3]
            assert as_list(own)[5] == as_list(theirs)[5]
    finally:
        for conn in (both.redis, both.ours):
            conn.ok("CONFIG", "SET", "slowlog-log-slower-than", 10_000)


def test_monitor(both: Both, redis_socket: str, server: ServerProcess) -> None:
    seen = []
    for watching, other in ((both.redis, Conn(path=redis_socket)), (both.ours, Conn(server.port))):
        with other:
            watching.ok("MONITOR")
            words: Commands = [
                ("ping",),
                ("AUTH", "default", "x"),
                ("CONFIG", "GET", "port"),
                ("HELLO", 2, "AUTH", "default", "x", "SETNAME", "n"),
                ("NOPE",),
                ("ECHO",),
                ("PING", "a", "b"),
                ("ECHO", bytes(range(256))),
                ("MULTI",),
                ("ECHO", "a"),
                ("ECHO",),
                ("EXEC",),
                ("MULTI",),
                ("ECHO", "b"),
                ("CONFIG", "GET", "port"),
                ("PING",),
                ("EXEC",),
                ("ECHO", END),
            ]
            other.pipeline(words)
            lines: list[bytes] = []
            while not lines or END not in lines[-1]:
                lines.append(re.sub(rb"\+\d+\.\d{6} \[0 \S+\]", b"", watching.read_raw()))
            seen.append(lines)
    assert seen[0] == seen[1]


def names_of(text: str) -> list[str]:
    return [field.partition("=")[0] for field in text.split()]


def test_client_info_has_all_fields_of_redis_in_their_order(both: Both) -> None:
    for command in (("CLIENT", "INFO"), ("CLIENT", "LIST", "ID", both.redis.id(), both.ours.id())):
        redis, ours = names_of(both.redis.text(*command)), names_of(both.ours.text(*command))
        assert ours[: len(redis)] == redis


def sections(text: str) -> dict[str, list[str]]:
    found: dict[str, list[str]] = {}
    for line in text.split("\r\n"):
        if line.startswith("# "):
            found[line] = []
        elif line:
            found[list(found)[-1]].append(line.partition(":")[0])
    return found


#: What INFO has here and Redis has not.
OWN_FIELDS = {"respmq_version", "respmq_compiled", "python_version", "listener0", "acl_access_denied_auth"}


def test_info_has_sections_of_redis_in_their_order(both: Both) -> None:
    redis, ours = sections(both.redis.text("INFO")), sections(both.ours.text("INFO"))
    assert [name for name in redis if name in ours] == list(ours)
    for name in ("# Server", "# Clients", "# Memory", "# CPU", "# Cluster"):
        assert set(ours[name]) - OWN_FIELDS <= set(redis[name])


# -- different on purpose


def test_client_goes_on_during_a_pause(redis_socket: str, server: ServerProcess) -> None:
    """Redis holds back CLIENT UNPAUSE itself, here it ends the pause."""
    with Conn(server.port) as a, Conn(server.port) as b:
        a.ok("CLIENT", "PAUSE", 60_000)
        b.start("PING")
        a.ok("CLIENT", "UNPAUSE")
        assert b.read_raw() == b"+PONG\r\n"


def test_an_option_given_twice_is_refused(both: Both) -> None:
    """Redis takes the last one."""
    redis, ours = both.say(("CLIENT", "KILL", "ADDR", "x", "ADDR", "y"))
    assert redis[0] == b":0\r\n"
    assert ours[0].startswith(b"-ERR syntax error")


def test_there_is_one_database(both: Both) -> None:
    redis, ours = both.say(("SELECT", 1))
    assert redis[0] == b"+OK\r\n"
    assert ours[0].startswith(b"-ERR DB index is out of range")
