"""Topics and patterns on the wire: what may be one, what matches what, and how many take an event."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

import pytest

from tests.support import (
    Arg,
    Conn,
    Connect,
    ServerProcess,
    advance,
    as_int,
    as_list,
    lease_one,
    put,
    wait_until,
)
from tests.support.events import Event, arrived, event, events, frame, items, let_go, psubscribe, subscribe


@pytest.fixture(autouse=True)
def _nothing_is_left(open_connections: list[Conn]) -> Iterator[None]:
    yield
    let_go(open_connections)


# -- What may be a topic

GOOD_TOPICS = [
    b"a",
    b"a.b.c",
    b"A.b-C_d:e/f@g",
    b"\xff\xfe",
    b"a.\x80.\xff",
    "größe.日本".encode(),
    b"+([\\^?])|{}\"'!~`,;<>=&%",
    b"a$b.c$",
    b"$",
    b"$x.y",
    b"$sysx",
    b"$SYS.x",
    b"a.sys",
    b"1.2.3",
    b"x" * 255,
    b".".join([b"w"] * 128),
]
BAD_TOPICS = [
    b"",
    b".",
    b"..",
    b".a",
    b"a.",
    b"a..b",
    b"a b",
    b" a",
    b"a\t",
    b"a\n.b",
    b"a\r",
    b"\x0b",
    b"\x0c",
    b"a\x00b",
    b"\x1f",
    b"a.\x7f",
    b"a.$b",
    b"a.$",
    b"a.$sys.b",
    b"x" * 256,
]
WILDCARDS = [b"*", b"#", b"a.*", b"#.a", b"a*", b"*a.b", b"a.b#", b"a#b", b"**", b"a.##"]
GOOD_PATTERNS = [
    *(b"*", b"#", b"a.*", b"*.a", b"#.#", b"a.#.*.#", b"*.*.*", b"$sys.#", b"$sys.dead.*", b"$x.*", b"#.a.*"),
    *GOOD_TOPICS,
]
BAD_PATTERNS = [
    *BAD_TOPICS,
    *(b"a*", b"*a.b", b"a.b#", b"a#b", b"**", b"a.##", b"#*", b"*.a*", b"$*", b"#.$sys", b"*.$x", b"#..a", b"#."),
]


def named(values: Sequence[bytes]) -> list[str]:
    return [repr(value)[2:30] + f" ({len(value)})" * (len(value) > 30) for value in values]


@pytest.mark.parametrize("topic", GOOD_TOPICS, ids=named(GOOD_TOPICS))
def test_what_may_be_a_topic(topic: bytes, connect: Connect, conn: Conn) -> None:
    """It can be subscribed to and published to, and comes back as the same bytes."""
    a = connect()
    subscribe(a, topic)
    assert conn.cmd("QPUBLISH", topic, "body") == [1, 0]
    assert event(a.read()) == Event(topic, b"body")


@pytest.mark.parametrize("topic", BAD_TOPICS + WILDCARDS, ids=named(BAD_TOPICS + WILDCARDS))
@pytest.mark.parametrize("command", ["PUBLISH", "QPUBLISH", "SUBSCRIBE"])
def test_what_may_not_be_a_topic(command: str, topic: bytes, conn: Conn) -> None:
    """-INVALIDTOPIC, from everything that takes one; the connection and the subscriptions stay as they were."""
    arguments: list[Arg] = [topic] if command == "SUBSCRIBE" else [topic, "body"]
    assert conn.error(command, *arguments).code == b"INVALIDTOPIC"
    assert conn.raw("PING") == b"+PONG\r\n"


@pytest.mark.parametrize("topic", WILDCARDS, ids=named(WILDCARDS))
def test_subscribe_to_a_wildcard_points_to_psubscribe(topic: bytes, conn: Conn) -> None:
    """SUBSCRIBE to a name with a wildcard says which command would be right."""
    error = conn.error("SUBSCRIBE", topic)
    assert error.code == b"INVALIDTOPIC"
    assert b"PSUBSCRIBE" in error.text


@pytest.mark.parametrize("pattern", GOOD_PATTERNS, ids=named(GOOD_PATTERNS))
def test_what_may_be_a_pattern(pattern: bytes, conn: Conn, queue: str) -> None:
    """It can be subscribed to, bound and taken back."""
    conn.ok("QDECLARE", queue)
    assert conn.integer("QBIND", pattern, queue) == 1
    assert conn.integer("QUNBIND", pattern, queue) == 1
    assert conn.cmd("PSUBSCRIBE", pattern) == [b"psubscribe", pattern, 1]
    assert conn.cmd("PUNSUBSCRIBE", pattern) == [b"punsubscribe", pattern, 0]


@pytest.mark.parametrize("pattern", BAD_PATTERNS, ids=named(BAD_PATTERNS))
def test_what_may_not_be_a_pattern(pattern: bytes, conn: Conn, queue: str) -> None:
    """-INVALIDTOPIC from PSUBSCRIBE, QBIND and the binding of a TOPIC exchange."""
    conn.ok("QDECLARE", queue)
    conn.ok("EXCHANGE", "DECLARE", queue, "TOPIC")
    assert conn.error("PSUBSCRIBE", pattern).code == b"INVALIDTOPIC"
    assert conn.error("QBIND", pattern, queue).code == b"INVALIDTOPIC"
    assert conn.error("EXCHANGE", "BIND", queue, queue, pattern).code == b"INVALIDTOPIC"
    assert conn.array("QBINDINGS", queue) == []
    assert conn.array("EXCHANGE", "BINDINGS", queue) == []
    assert conn.integer("EXCHANGE", "DELETE", queue) == 1
    assert conn.raw("PING") == b"+PONG\r\n"


@pytest.mark.parametrize(
    ("command", "good", "bad"),
    [("SUBSCRIBE", "good.a", "bad..a"), ("PSUBSCRIBE", "good.*", "bad*"), ("SUBSCRIBE", "a", "#")],
)
def test_of_several_names_all_or_none(command: str, good: str, bad: str, conn: Conn) -> None:
    """One name that is no topic: an error that names it, one reply, and nothing is subscribed to."""
    for names in ((good, bad), (bad, good), (good, bad, good)):
        error = conn.error(command, *names)
        assert error.code == b"INVALIDTOPIC"
        assert bad.encode() in error.text
        assert conn.raw("PING") == b"+PONG\r\n"


@pytest.mark.parametrize("topic", ["$sys", "$sys.x", "$sys.dead.q", "$sys.dead"])
def test_what_belongs_to_the_broker(topic: str, connect: Connect, conn: Conn) -> None:
    """No client publishes to it, and no event of it reaches anybody; subscribing is free to everybody."""
    a = connect()
    subscribe(a, topic)
    psubscribe(a, "#")
    assert conn.error("PUBLISH", topic, "forged").code == b"INVALIDTOPIC"
    assert conn.error("QPUBLISH", topic, "forged", "HEADER", "a", "b").code == b"INVALIDTOPIC"
    assert [one for one in events(a) if one.body == b"forged"] == []


# -- What matches what

MATCHES: dict[str, tuple[list[str], list[str]]] = {
    "a.*.c": (["a.b.c", "a.x.c", "a.a.c"], ["a.b.x.c", "a.c", "a.b", "a.b.c.d", "x.b.c", "a.b.C", "A.b.c"]),
    "a.#": (["a", "a.b", "a.b.c"], ["b", "ab", "b.a"]),
    "#.c": (["c", "b.c", "a.b.c"], ["c.d", "a.bc"]),
    "a.#.c": (["a.c", "a.b.c", "a.b.b.c", "a.c.c"], ["a", "c", "a.c.d"]),
    "#": (["a", "a.b", "$x"], []),
    "*": (["a", "$x"], ["a.b"]),
    "*.*": (["a.b"], ["a", "a.b.c"]),
    "#.*": (["a", "a.b", "a.b.c"], []),
    "*.#.*": (["a.b", "a.b.c"], ["a"]),
    "#.a.#": (["a", "a.b", "b.a", "b.a.b", "a.a"], ["b", "b.aa"]),
    "a.b": (["a.b"], ["a", "a.b.c", "a.B"]),
    "$x.*": (["$x.a"], ["$x", "x.a"]),
    "a.+": (["a.+"], ["a.b", "a."[:1]]),
    "(a": (["(a"], ["a"]),
    "[ab]": (["[ab]"], ["a", "b"]),
    "a\\b": (["a\\b"], ["ab"]),
    "^a": (["^a"], ["a"]),
    "a?": (["a?"], ["ab", "a"]),
    "a.?": (["a.?"], ["a.b"]),
    "a|b": (["a|b"], ["a", "b"]),
}
FLAT = [(pattern, topic, True) for pattern, (yes, _) in MATCHES.items() for topic in yes] + [
    (pattern, topic, False) for pattern, (_, no) in MATCHES.items() for topic in no
]


@pytest.mark.parametrize(("pattern", "topic", "hit"), FLAT)
def test_what_a_pattern_matches(pattern: str, topic: str, hit: bool, connect: Connect, conn: Conn, queue: str) -> None:
    """The same for a subscription, a binding and a TOPIC exchange's binding, and for PUBSUB CHANNELS but for `*`."""
    a, mark = connect(), queue.encode()
    conn.ok("QDECLARE", queue)
    conn.integer("QBIND", pattern, queue)
    psubscribe(a, pattern)
    conn.ok("EXCHANGE", "DECLARE", queue, "TOPIC")
    conn.integer("EXCHANGE", "BIND", queue, queue, pattern)
    assert conn.cmd("QPUBLISH", topic, mark) == [int(hit), int(hit)]
    assert [one.body for one in events(a)] == [mark] * hit
    assert conn.integer("EXCHANGE", "PUBLISH", queue, topic, mark) == int(hit)
    b = connect()
    subscribe(b, topic)
    assert (topic.encode() in conn.array("PUBSUB", "CHANNELS", pattern)) is (hit or pattern == "*")
    conn.integer("QDELETE", queue)
    conn.integer("EXCHANGE", "DELETE", queue)


def test_wildcards_and_what_is_the_broker_s(
    virtual_server: ServerProcess, virtual: Conn, connect: Connect, queue: str
) -> None:
    """One message dies: `#`, `*.dead.#`, `$sys.#` see it once each, two subscriptions of one connection twice."""
    topic = f"$sys.dead.{queue}".encode()
    one_each: dict[str, Conn] = {}
    for pattern in ("#", "*.#", "$sys.#", "$sys.dead.#", "*.dead.#", "#.dead.#"):
        one_each[pattern] = connect(virtual_server)
        psubscribe(one_each[pattern], pattern)
    both, exact, others = (connect(virtual_server) for _ in range(3))
    psubscribe(both, "#", "$sys.dead.#")
    subscribe(exact, topic)
    psubscribe(others, "$sys.x.#", "sys.#", f"*.{queue}", "dead.#")
    virtual.ok("QDECLARE", queue)
    put(virtual, queue, "m", "TTL", "1s")
    advance(virtual, "1s")
    for pattern, one in one_each.items():
        assert [(got.topic, got.pattern) for got in events(one)] == [(topic, pattern.encode())]
    assert sorted(got.pattern or b"" for got in events(both)) == [b"#", b"$sys.dead.#"]
    assert [(got.topic, got.pattern) for got in events(exact)] == [(topic, None)]
    assert arrived(others) == []


# -- Who takes an event


def test_a_publish_counts_subscriptions_and_queues(connect: Connect, conn: Conn, queue: str) -> None:
    """Subscriptions, not connections; queues, not bindings; PUBLISH adds them up and QPUBLISH tells them apart."""
    topic, second = f"{queue}.x", f"{queue}.second"
    for name in (queue, second):
        conn.ok("QDECLARE", name)
        conn.integer("QBIND", f"{queue}.*", name)
        conn.integer("QBIND", f"{queue}.#", name)
    a, b = connect(), connect(resp=3)
    subscribe(a, topic, "unrelated")
    psubscribe(a, f"{queue}.*", "#")
    subscribe(b, topic)
    assert conn.integer("PUBLISH", topic, "1") == 6
    assert conn.cmd("QPUBLISH", topic, "2") == [4, 2]
    assert [one.body for one in events(a)] == [b"1"] * 3 + [b"2"] * 3
    assert [one.body for one in events(b)] == [b"1", b"2"]
    assert conn.integer("PUBLISH", "nobody.listens", "3") == 1
    assert conn.cmd("QPUBLISH", "nobody.listens", "3") == [1, 0]


def test_the_publisher_gets_its_own_event(connect: Connect) -> None:
    """A RESP3 connection may publish while it is subscribed; the push stands outside the reply."""
    a = connect(resp=3)
    subscribe(a, "own.topic")
    a.start("PUBLISH", "own.topic", "x")
    replies = a.read_many(2)
    assert sorted(replies, key=repr) == sorted([1, frame(3, b"message", b"own.topic", b"x")], key=repr)


@pytest.mark.parametrize("resp", [2, 3])
@pytest.mark.parametrize("body", [b"", bytes(range(256)), b"x" * 1_000_000, b"$5\r\nhello\r\n"], ids=len)
def test_bodies_are_bytes(body: bytes, resp: int, connect: Connect, conn: Conn, queue: str) -> None:
    """All byte values, none at all and a megabyte, to a subscriber, a pattern's and a bound queue."""
    topic = f"{queue}.".encode() + b"\xff\xfe"
    conn.ok("QDECLARE", queue)
    conn.integer("QBIND", f"{queue}.*", queue)
    a = connect(resp=resp)
    subscribe(a, topic)
    psubscribe(a, f"{queue}.*")
    assert conn.integer("PUBLISH", topic, body) == 3
    assert a.read() == frame(resp, b"message", topic, body)
    assert a.read() == frame(resp, b"pmessage", f"{queue}.*".encode(), topic, body)
    assert lease_one(conn, queue).body == body


def test_events_come_in_the_order_in_which_they_were_published(connect: Connect, conn: Conn, queue: str) -> None:
    """Whichever topics they were published to."""
    a = connect()
    psubscribe(a, f"{queue}.#")
    bodies = [b"%d" % n for n in range(300)]
    assert conn.pipeline([("PUBLISH", f"{queue}.{n % 7}", body) for n, body in enumerate(bodies)]) == [1] * 300
    assert [event(a.read()).body for _ in bodies] == bodies


def test_arguments_of_publish(conn: Conn) -> None:
    """Each mistake is named, and nothing is published."""
    psubscribe(watcher := conn, "#")
    watcher.cmd("PUNSUBSCRIBE")
    for command in (("PUBLISH",), ("PUBLISH", "a"), ("PUBLISH", "a", "b", "c"), ("QPUBLISH",), ("QPUBLISH", "a")):
        assert conn.error(*command).text.startswith(b"ERR wrong number of arguments"), command
    for options, word in (
        (("FOO",), b"FOO"),
        (("HEADER",), b"HEADER"),
        (("HEADER", "a"), b"HEADER"),
        (("ATTACH",), b"ATTACH"),
        (("HEADER", "", "x"), b"HEADER"),
        (("HEADER", "x" * 256, "x"), b"HEADER"),
        (("PRIORITY", "1"), b"PRIORITY"),
    ):
        error = conn.error("QPUBLISH", "a", "b", *options)
        assert error.code == b"ERR", options
        assert re.search(word, error.text, re.IGNORECASE), options


# -- PUBSUB


@pytest.mark.parametrize("resp", [2, 3])
def test_pubsub_tells_who_is_subscribed(resp: int, fresh_server: ServerProcess, connect: Connect) -> None:
    """CHANNELS: topics with subscribers; NUMSUB: how many each; NUMPAT: different patterns; patterns are our own."""
    watching, a, b = connect(fresh_server, resp=resp), connect(fresh_server), connect(fresh_server)
    assert watching.raw("PUBSUB", "CHANNELS") == b"*0\r\n"
    assert watching.raw("PUBSUB", "NUMPAT") == b":0\r\n"
    assert watching.raw("PUBSUB", "NUMSUB") == b"*0\r\n"
    subscribe(a, "x", "x.y", "x.y.z")
    subscribe(b, "x.y")
    psubscribe(a, "p.*", "q")
    psubscribe(b, "p.*")
    assert sorted(map(repr, watching.array("PUBSUB", "CHANNELS"))) == ["b'x'", "b'x.y'", "b'x.y.z'"]
    assert watching.array("PUBSUB", "CHANNELS", "*") == watching.array("PUBSUB", "CHANNELS")
    assert sorted(map(repr, watching.array("PUBSUB", "CHANNELS", "x.*"))) == ["b'x.y'"]
    assert sorted(map(repr, watching.array("pubsub", "channels", "#.y.#"))) == ["b'x.y'", "b'x.y.z'"]
    assert watching.cmd("PUBSUB", "NUMSUB", "x.y", "none", "x") == [b"x.y", 2, b"none", 0, b"x", 1]
    assert watching.integer("PUBSUB", "NUMPAT") == 2
    assert as_int(watching.mapping("QSTATS")[b"subscriptions"]) == 7
    a.close()
    wait_until(lambda: as_int(watching.mapping("QSTATS")[b"subscriptions"]) == 2, "a's subscriptions are gone")
    assert watching.array("PUBSUB", "CHANNELS") == [b"x.y"]
    assert watching.integer("PUBSUB", "NUMPAT") == 1
    items(b.cmd("UNSUBSCRIBE"))
    items(b.cmd("PUNSUBSCRIBE"))
    assert watching.raw("PUBSUB", "CHANNELS") == b"*0\r\n"
    assert watching.raw("PUBSUB", "NUMPAT") == b":0\r\n"


def test_pubsub_s_own_errors(conn: Conn) -> None:
    """Unknown subcommands are named, arguments counted; HELP is a list of lines."""
    assert conn.error("PUBSUB", "FOO").text == b"ERR unknown subcommand 'FOO'. Try PUBSUB HELP."
    assert conn.error("PUBSUB").code == b"ERR"
    assert conn.error("PUBSUB", "CHANNELS", "a", "b").code == b"ERR"
    assert conn.error("PUBSUB", "NUMPAT", "a").code == b"ERR"
    assert conn.error("PUBSUB", "CHANNELS", "a*").code == b"INVALIDTOPIC"
    assert any(b"NUMSUB" in getattr(line, "text", b"") for line in as_list(conn.cmd("PUBSUB", "HELP")))
