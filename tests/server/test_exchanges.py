"""Exchanges: three kinds, who gets a copy, what it carries, and every error."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.support import (
    Arg,
    Conn,
    Connect,
    Error,
    Value,
    advance,
    as_bytes,
    as_dict,
    as_int,
    as_list,
    block,
    bodies,
    counts,
    dead,
    deliveries,
    lease_one,
    messages,
    peeked_bodies,
    put,
    stat,
)
from tests.support.events import arrived, consume, delivered_bodies, let_go, psubscribe

both_protocols = pytest.mark.parametrize("resp", [2, 3], ids=["resp2", "resp3"])


@pytest.fixture(autouse=True)
def _nothing_is_left(open_connections: list[Conn]) -> Iterator[None]:
    yield
    let_go(open_connections)


@pytest.fixture
def exchange(queue: str) -> str:
    """The name of an exchange that nothing else uses; it is not declared."""
    return f"{queue}.exchange"


def declare(conn: Conn, exchange: str, kind: str, *queues: str) -> None:
    conn.ok("EXCHANGE", "DECLARE", exchange, kind)
    for name in queues:
        conn.ok("QDECLARE", name)


def bindings(conn: Conn, exchange: str) -> list[tuple[bytes, bytes]]:
    """EXCHANGE BINDINGS, sorted."""
    found = []
    for one in conn.array("EXCHANGE", "BINDINGS", exchange):
        name, key = map(as_bytes, as_list(one))
        found.append((name, key))
    return sorted(found)


def publish(conn: Conn, exchange: str, key: Arg, *rest: Arg) -> int:
    return conn.integer("EXCHANGE", "PUBLISH", exchange, key, *(rest or ("body",)))


# -- Declaring


@both_protocols
@pytest.mark.parametrize("kind", ["FANOUT", "DIRECT", "TOPIC"])
def test_a_life(resp: int, kind: str, connect: Connect, exchange: str, queue: str) -> None:
    """Declare, confirm, conflict, list, bind, publish, unbind and delete, with their exact replies."""
    conn = connect(resp=resp)
    conn.ok("QDECLARE", queue)
    name = exchange.encode()
    assert conn.raw("EXCHANGE", "DECLARE", exchange, kind) == b"+OK\r\n"
    assert conn.raw("exchange", "declare", exchange, kind.lower()) == b"+OK\r\n"
    for other in {"FANOUT", "DIRECT", "TOPIC"} - {kind}:
        error = conn.error("EXCHANGE", "DECLARE", exchange, other)
        assert error.code == b"CONFLICT"
        assert name in error.text
    listed = [tuple(map(as_bytes, as_list(one))) for one in conn.array("EXCHANGE", "LIST")]
    assert [one for one in listed if one[0] == name] in ([(name, kind.encode())], [(name, kind.lower().encode())])
    assert conn.raw("EXCHANGE", "BINDINGS", exchange) == b"*0\r\n"
    assert conn.raw("EXCHANGE", "PUBLISH", exchange, "key", "dropped") == b":0\r\n"
    assert conn.raw("EXCHANGE", "BIND", exchange, queue, "key") == b":1\r\n"
    assert conn.raw("EXCHANGE", "BIND", exchange, queue, "key") == b":0\r\n"
    assert bindings(conn, exchange) == [(queue.encode(), b"" if kind == "FANOUT" else b"key")]
    assert conn.raw("EXCHANGE", "PUBLISH", exchange, "key", "body") == b":1\r\n"
    assert conn.raw("EXCHANGE", "UNBIND", exchange, queue, "key") == b":1\r\n"
    assert conn.raw("EXCHANGE", "UNBIND", exchange, queue, "key") == b":0\r\n"
    assert conn.raw("EXCHANGE", "PUBLISH", exchange, "key", "dropped") == b":0\r\n"
    assert conn.raw("EXCHANGE", "DELETE", exchange) == b":1\r\n"
    assert conn.error("EXCHANGE", "PUBLISH", exchange, "key", "x").code == b"NOEXCHANGE"
    assert peeked_bodies(conn, queue) == [b"body"]
    listed = [tuple(map(as_bytes, as_list(one))) for one in conn.array("EXCHANGE", "LIST")]
    assert name not in [one[0] for one in listed]


def test_a_type_in_use_can_be_changed_by_deleting_first(conn: Conn, exchange: str, queue: str) -> None:
    """Deleting forgets the bindings too."""
    declare(conn, exchange, "DIRECT", queue)
    conn.integer("EXCHANGE", "BIND", exchange, queue, "a")
    assert conn.integer("EXCHANGE", "DELETE", exchange) == 1
    declare(conn, exchange, "TOPIC")
    assert bindings(conn, exchange) == []
    assert publish(conn, exchange, "a") == 0


def test_a_queue_and_an_exchange_may_share_a_name(conn: Conn, queue: str) -> None:
    """They are apart."""
    declare(conn, queue, "FANOUT", queue)
    assert conn.integer("EXCHANGE", "BIND", queue, queue) == 1
    assert publish(conn, queue, "") == 1
    assert conn.integer("QDELETE", queue) == 1
    assert publish(conn, queue, "") == 0
    assert conn.integer("EXCHANGE", "DELETE", queue) == 1


# -- Errors


@pytest.mark.parametrize(
    "command",
    [
        ("DELETE", "{x}"),
        ("BIND", "{x}", "{q}", "k"),
        ("UNBIND", "{x}", "{q}", "k"),
        ("PUBLISH", "{x}", "k", "body"),
        ("BINDINGS", "{x}"),
    ],
    ids=lambda command: command[0],
)
def test_unknown_exchanges_and_queues(command: tuple[str, ...], conn: Conn, exchange: str, queue: str) -> None:
    """-NOEXCHANGE with the name, -NOQUEUE with the name, -INVALIDNAME for what can be neither."""
    conn.ok("QDECLARE", queue)
    words = [word.format(x=exchange, q=queue) for word in command]
    error = conn.error("EXCHANGE", *words)
    assert error.code == b"NOEXCHANGE"
    assert exchange.encode() in error.text
    words = [word.format(x="no..name", q=queue) for word in command]
    assert conn.error("EXCHANGE", *words).code == b"INVALIDNAME"
    if "{q}" in command:
        declare(conn, exchange, "DIRECT")
        words = [word.format(x=exchange, q=f"{queue}.none") for word in command]
        assert conn.error("EXCHANGE", *words).text == f"NOQUEUE no such queue '{queue}.none'".encode()
        words = [word.format(x=exchange, q="no..name") for word in command]
        assert conn.error("EXCHANGE", *words).code == b"INVALIDNAME"
        assert bindings(conn, exchange) == []


BAD_NAMES = ["", ".", "a..b", ".a", "a.", "a b", "a*", "#", "x" * 201, "\xe4", "COUNT", "wait", "a\x00", "a'b"]


@pytest.mark.parametrize("name", BAD_NAMES, ids=range(len(BAD_NAMES)))
def test_names_that_can_t_be(name: str, conn: Conn) -> None:
    """The rules of queue names."""
    assert conn.error("EXCHANGE", "DECLARE", name, "FANOUT").code == b"INVALIDNAME"


def test_mistakes_are_named(conn: Conn, exchange: str, queue: str) -> None:
    """Wrong types, numbers of arguments, options and subcommands; nothing has an effect."""
    error = conn.error("EXCHANGE", "DECLARE", exchange, "HEADERS")
    assert error.code == b"ERR"
    for word in (b"HEADERS", b"FANOUT", b"DIRECT", b"TOPIC"):
        assert word in error.text.upper()
    assert conn.error("EXCHANGE", "DELETE", exchange).code == b"NOEXCHANGE"
    assert conn.error("EXCHANGE", "FOO").text == b"ERR unknown subcommand 'FOO'. Try EXCHANGE HELP."
    assert any(b"BINDINGS" in getattr(line, "text", b"") for line in conn.array("EXCHANGE", "HELP"))
    declare(conn, exchange, "DIRECT", queue)
    conn.integer("EXCHANGE", "BIND", exchange, queue, "k")
    wrong: list[tuple[Arg, ...]] = [
        ("DECLARE",),
        ("DECLARE", exchange),
        ("DECLARE", exchange, "DIRECT", "x"),
        ("DELETE",),
        ("BIND", exchange),
        ("BIND", exchange, queue, "k", "x"),
        ("UNBIND", exchange),
        ("PUBLISH", exchange, "k"),
        ("LIST", "x"),
        ("BINDINGS",),
        ("PUBLISH", exchange, "k", "body", "FOO"),
        ("PUBLISH", exchange, "k", "body", "HEADER", "h"),
        ("PUBLISH", exchange, "k", "body", "ATTACH"),
        ("PUBLISH", exchange, "k", "body", "HEADER", "", "v"),
        ("PUBLISH", exchange, "k", "body", "PRIORITY", 1),
    ]
    for words in wrong:
        assert conn.error("EXCHANGE", *words).code == b"ERR", words
    assert conn.error("EXCHANGE").code == b"ERR"
    half = b"x" * (9 << 20)
    assert conn.error("EXCHANGE", "PUBLISH", exchange, "k", half, "ATTACH", half).code == b"TOOBIG"
    assert bindings(conn, exchange) == [(queue.encode(), b"k")]
    assert stat(conn, queue, "enqueued") == 0


# -- Who gets a copy


def test_fanout_ignores_keys(conn: Conn, exchange: str, queue: str) -> None:
    """Every bound queue gets one copy, whatever the routing key is; a binding has none, whatever was given."""
    others = [f"{queue}.{n}" for n in range(3)]
    declare(conn, exchange, "FANOUT", queue, *others)
    assert conn.integer("EXCHANGE", "BIND", exchange, others[0]) == 1
    assert conn.integer("EXCHANGE", "BIND", exchange, others[1], "a") == 1
    assert conn.integer("EXCHANGE", "BIND", exchange, others[1], "b") == 0
    assert bindings(conn, exchange) == [(others[0].encode(), b""), (others[1].encode(), b"")]
    for key in ("", "a", "x y\x00", "*.#"):
        assert publish(conn, exchange, key, key) == 2
    for name, size in ((queue, 0), (others[0], 4), (others[1], 4), (others[2], 0)):
        assert stat(conn, name, "ready") == size, name
    assert conn.integer("EXCHANGE", "UNBIND", exchange, others[1], "c") == 1
    assert conn.integer("EXCHANGE", "UNBIND", exchange, others[1]) == 0
    assert publish(conn, exchange, "b") == 1


def test_direct_wants_the_equal_key(conn: Conn, exchange: str, queue: str) -> None:
    """Byte for byte; a missing key is the empty one; wildcards mean nothing."""
    declare(conn, exchange, "DIRECT", queue)
    assert conn.integer("EXCHANGE", "BIND", exchange, queue) == 1
    assert conn.integer("EXCHANGE", "BIND", exchange, queue, "") == 0
    assert bindings(conn, exchange) == [(queue.encode(), b"")]
    assert [publish(conn, exchange, key) for key in ("", "a")] == [1, 0]
    assert conn.integer("EXCHANGE", "UNBIND", exchange, queue) == 1
    for key in (b"a.b", b"#", b"x y", b"\xff\x00", b"..", b"$sys.x"):
        assert conn.integer("EXCHANGE", "BIND", exchange, queue, key) == 1
        assert publish(conn, exchange, key, key) == 1
    assert [publish(conn, exchange, key) for key in (b"", b"a", b"A.B", b"a.b ", b"*", b"x  y")] == [0] * 6
    assert stat(conn, queue, "ready") == 7


def test_topic_matches_patterns(conn: Conn, exchange: str, queue: str) -> None:
    """As section 1's patterns; `$sys` keys are nothing special; a binding needs a key."""
    declare(conn, exchange, "TOPIC", queue)
    assert conn.error("EXCHANGE", "BIND", exchange, queue).code in {b"ERR", b"INVALIDTOPIC"}
    assert conn.error("EXCHANGE", "BIND", exchange, queue, "").code == b"INVALIDTOPIC"
    assert conn.error("EXCHANGE", "BIND", exchange, queue, "a*").code == b"INVALIDTOPIC"
    assert conn.integer("EXCHANGE", "BIND", exchange, queue, "*.red.#") == 1
    keys = ["a.red", "a.red.b.c", "$sys.red", "$sys.red.x", "red", "a.b.red", "a.Red"]
    assert [publish(conn, exchange, key) for key in keys] == [1, 1, 1, 1, 0, 0, 0]
    assert conn.integer("EXCHANGE", "UNBIND", exchange, queue, "*.red.#") == 1
    assert [publish(conn, exchange, key) for key in keys] == [0] * 7


@pytest.mark.parametrize(
    ("pattern", "takes"), [("#", 1), ("#.#", 1), ("#.#.#", 1), ("*", 0), ("#.*", 0), ("a", 0), ("*.#", 0), ("#.a.#", 0)]
)
def test_an_empty_routing_key(pattern: str, takes: int, conn: Conn, exchange: str, queue: str) -> None:
    """It has no words: only patterns made of `#` match it."""
    declare(conn, exchange, "TOPIC", queue)
    conn.integer("EXCHANGE", "BIND", exchange, queue, pattern)
    assert publish(conn, exchange, "") == takes
    assert stat(conn, queue, "ready") == takes


@pytest.mark.parametrize("key", ["a..b", ".", "a b", "*", "a.#", "a*", "a.$b", "x" * 256])
def test_a_topic_s_routing_key_is_a_topic(key: str, conn: Conn, exchange: str, queue: str) -> None:
    """Anything else is -INVALIDTOPIC, and nobody gets a copy."""
    declare(conn, exchange, "TOPIC", queue)
    conn.integer("EXCHANGE", "BIND", exchange, queue, "#")
    assert conn.error("EXCHANGE", "PUBLISH", exchange, key, "body").code == b"INVALIDTOPIC"
    assert stat(conn, queue, "ready") == 0


def test_one_copy_for_each_queue(conn: Conn, exchange: str, queue: str) -> None:
    """However many of its patterns match."""
    declare(conn, exchange, "TOPIC", queue)
    for key in ("#", "a.*", "a.b", "*.b"):
        assert conn.integer("EXCHANGE", "BIND", exchange, queue, key) == 1
    assert publish(conn, exchange, "a.b") == 1
    assert conn.integer("EXCHANGE", "UNBIND", exchange, queue, "#") == 1
    assert publish(conn, exchange, "a.b") == 1
    assert stat(conn, queue, "ready") == 2


# -- Copies


@pytest.mark.parametrize("kind", ["FANOUT", "DIRECT", "TOPIC"])
def test_what_a_copy_carries(kind: str, virtual: Conn, exchange: str, queue: str) -> None:
    """The exchange and the key as headers, the broker's whatever the publisher sent; all else is the publisher's."""
    other = f"{queue}.other"
    declare(virtual, exchange, kind, queue, other)
    for name in (queue, other):
        virtual.integer("EXCHANGE", "BIND", exchange, name, b"a.\xff")
    options: list[Arg] = ["HEADER", "exchange", "forged", "HEADER", "h", "1", "HEADER", "routing-key", "forged"]
    options += ["HEADER", "h", "2", "ATTACH", "x", "ATTACH", b"\x00"]
    assert publish(virtual, exchange, b"a.\xff", b"\xfe", *options) == 2
    ids = set()
    for name in (queue, other):
        (found,) = messages(virtual.cmd("QLEASE", name, "FULL"))
        assert as_dict(found[b"headers"]) == {b"exchange": exchange.encode(), b"routing-key": b"a.\xff", b"h": b"2"}
        assert found[b"attachments"] == [b"x", b"\x00"]
        assert (found[b"body"], found[b"priority"], found[b"attempt"]) == (b"\xfe", 0, 1)
        ids.add(as_bytes(found[b"id"]))
    assert {len(message_id) for message_id in ids} == {32}
    assert len(ids) == 2


def test_an_exchange_is_no_topic(connect: Connect, conn: Conn, exchange: str, queue: str) -> None:
    """Neither subscribers nor bindings of topics see what is published to it, nor the other way round."""
    declare(conn, exchange, "TOPIC", queue)
    conn.integer("QBIND", "a.b", queue)
    a = connect()
    psubscribe(a, "#")
    assert publish(conn, exchange, "a.b") == 0
    conn.integer("EXCHANGE", "BIND", exchange, queue, "a.b")
    assert conn.cmd("QPUBLISH", "a.b", "topic") == [1, 1]
    assert publish(conn, exchange, "a.b", "exchange") == 1
    assert peeked_bodies(conn, queue) == [b"topic", b"exchange"]
    assert arrived(a) == [[b"pmessage", b"#", b"a.b", b"topic"]]


@pytest.mark.parametrize("taker", ["waiter", "consumer"])
def test_a_copy_wakes_who_waits(taker: str, connect: Connect, conn: Conn, exchange: str, queue: str) -> None:
    """As a put does."""
    declare(conn, exchange, "FANOUT", queue)
    conn.integer("EXCHANGE", "BIND", exchange, queue)
    a = connect(resp=3)
    if taker == "waiter":
        block(a, conn, queue)
    else:
        consume(a, queue)
    assert publish(conn, exchange, "", "m") == 1
    assert (bodies(deliveries(a.read())) if taker == "waiter" else delivered_bodies(a)) == [b"m"]


def test_a_copy_lives_and_dies_as_any_message(virtual: Conn, exchange: str, queue: str) -> None:
    """With its headers, through retries, death and replay."""
    declare(virtual, exchange, "DIRECT")
    virtual.ok("QDECLARE", queue, "MAXATTEMPTS", 2, "RETRYDELAY", "1s")
    virtual.integer("EXCHANGE", "BIND", exchange, queue, "k")
    publish(virtual, exchange, "k", "m", "ATTACH", "a")
    for _ in range(2):
        assert virtual.integer("QNACK", queue, lease_one(virtual, queue).lease) == 1
        advance(virtual, "1s")
    (letter,) = dead(virtual, queue)
    assert as_dict(letter[b"headers"]) == {b"exchange": exchange.encode(), b"routing-key": b"k"}
    assert virtual.integer("QDEAD", "REPLAY", queue) == 1
    (found,) = messages(virtual.cmd("QLEASE", queue, "FULL"))
    assert as_dict(found[b"headers"]) == as_dict(letter[b"headers"])
    assert (found[b"attachments"], found[b"attempt"]) == ([b"a"], 1)


# -- Limits and deletion


def test_a_full_queue_loses_the_copy_and_stops_nobody(conn: Conn, exchange: str, queue: str) -> None:
    """It isn't counted as one that took it, but in binding_drops."""
    other = f"{queue}.other"
    declare(conn, exchange, "FANOUT", other)
    conn.ok("QDECLARE", queue, "MAXLEN", 1)
    for name in (queue, other):
        conn.integer("EXCHANGE", "BIND", exchange, name)
    before = as_int(conn.mapping("QSTATS")[b"binding_drops"])
    assert [publish(conn, exchange, "", n) for n in range(3)] == [2, 1, 1]
    assert as_int(conn.mapping("QSTATS")[b"binding_drops"]) == before + 2
    assert (peeked_bodies(conn, queue), peeked_bodies(conn, other)) == ([b"0"], [b"0", b"1", b"2"])


@pytest.mark.parametrize("kind", ["FANOUT", "DIRECT", "TOPIC"])
def test_deleting_a_queue_forgets_its_bindings(kind: str, conn: Conn, exchange: str, queue: str) -> None:
    """In every exchange, and a queue of that name begins without them."""
    other, second = f"{queue}.other", f"{exchange}.second"
    declare(conn, exchange, kind, queue, other)
    declare(conn, second, "FANOUT")
    for name in (queue, other):
        for key in ("a", "b"):
            conn.integer("EXCHANGE", "BIND", exchange, name, key)
    conn.integer("EXCHANGE", "BIND", second, queue)
    assert conn.integer("QDELETE", queue) == 1
    keys = [b""] if kind == "FANOUT" else [b"a", b"b"]
    assert bindings(conn, exchange) == [(other.encode(), key) for key in keys]
    assert bindings(conn, second) == []
    conn.ok("QDECLARE", queue)
    assert publish(conn, exchange, "a") == 1
    assert publish(conn, second, "a") == 0
    assert counts(conn, queue, "ready", "enqueued") == (0, 0)


def test_exchanges_that_come_and_go(conn: Conn, exchange: str, queue: str) -> None:
    """A thousand times, with bindings: the list is what it was."""
    conn.ok("QDECLARE", queue)
    before: Value = conn.cmd("EXCHANGE", "LIST")
    commands: list[tuple[Arg, ...]] = []
    for n in range(1000):
        name = f"{exchange}.{n}"
        commands += [("EXCHANGE", "DECLARE", name, "TOPIC"), ("EXCHANGE", "BIND", name, queue, f"a.{n}.#")]
        commands.append(("EXCHANGE", "DELETE", name))
    replies = conn.pipeline(commands)
    assert not [reply for reply in replies if isinstance(reply, Error)]
    assert conn.cmd("EXCHANGE", "LIST") == before
    put(conn, queue, "m")
    assert conn.integer("QDELETE", queue) == 1
