"""SUBSCRIBE and its kin: frames, what a subscribed connection may do, and what is left when it goes."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator

import pytest

from tests.support import (
    NULLS,
    PONG,
    Arg,
    Conn,
    Connect,
    Error,
    Map,
    Null,
    Push,
    ServerProcess,
    Simple,
    Value,
    as_bytes,
    as_int,
    block,
    bodies,
    deliveries,
    encode,
    info,
    put,
    settle,
    stat,
    wait_until,
)
from tests.support.events import arrived, event, events, frame, items, let_go, psubscribe, subscribe

both_protocols = pytest.mark.parametrize("resp", [2, 3], ids=["resp2", "resp3"])
LEAVE = pytest.mark.parametrize("leave", [Conn.close, Conn.reset], ids=["fin", "rst"])


@pytest.fixture(autouse=True)
def _nothing_is_left(open_connections: list[Conn]) -> Iterator[None]:
    yield
    let_go(open_connections)


def subscriptions(conn: Conn) -> int:
    """QSTATS's number of them, on the whole server."""
    return as_int(conn.mapping("QSTATS")[b"subscriptions"])


def client_fields(conn: Conn, number: int) -> dict[str, str]:
    """The fields of a client in CLIENT LIST."""
    line = conn.text("CLIENT", "LIST", "ID", number).strip()
    return dict(field.split("=", 1) for field in line.split(" "))


# -- Frames


def test_frames_of_resp2(connect: Connect, conn: Conn) -> None:
    """Each topic has an array of its own: kind, topic and how many subscriptions the connection has now."""
    a = connect()
    a.start("SUBSCRIBE", "f.a", "f.b")
    assert a.read_raw() == b"*3\r\n$9\r\nsubscribe\r\n$3\r\nf.a\r\n:1\r\n"
    assert a.read_raw() == b"*3\r\n$9\r\nsubscribe\r\n$3\r\nf.b\r\n:2\r\n"
    assert a.raw("PSUBSCRIBE", "f.*") == b"*3\r\n$10\r\npsubscribe\r\n$3\r\nf.*\r\n:3\r\n"
    conn.cmd("PUBLISH", "f.a", "hello")
    assert a.read_raw() == b"*3\r\n$7\r\nmessage\r\n$3\r\nf.a\r\n$5\r\nhello\r\n"
    assert a.read_raw() == b"*4\r\n$8\r\npmessage\r\n$3\r\nf.*\r\n$3\r\nf.a\r\n$5\r\nhello\r\n"
    assert a.raw("UNSUBSCRIBE", "f.a") == b"*3\r\n$11\r\nunsubscribe\r\n$3\r\nf.a\r\n:2\r\n"
    assert a.raw("PUNSUBSCRIBE", "f.*") == b"*3\r\n$12\r\npunsubscribe\r\n$3\r\nf.*\r\n:1\r\n"
    assert a.raw("UNSUBSCRIBE") == b"*3\r\n$11\r\nunsubscribe\r\n$3\r\nf.b\r\n:0\r\n"
    assert a.raw("UNSUBSCRIBE") == b"*3\r\n$11\r\nunsubscribe\r\n$-1\r\n:0\r\n"
    assert a.raw("PUNSUBSCRIBE") == b"*3\r\n$12\r\npunsubscribe\r\n$-1\r\n:0\r\n"


def test_frames_of_resp3(connect: Connect, conn: Conn) -> None:
    """They are pushes, the null is RESP3's, and there is no reply besides."""
    a = connect(resp=3)
    a.send(encode("SUBSCRIBE", "f.a", "f.b") + encode("PING"))
    assert a.read_raw() == b">3\r\n$9\r\nsubscribe\r\n$3\r\nf.a\r\n:1\r\n"
    assert a.read_raw() == b">3\r\n$9\r\nsubscribe\r\n$3\r\nf.b\r\n:2\r\n"
    assert a.read_raw() == b"+PONG\r\n"
    assert a.raw("PSUBSCRIBE", "f.*") == b">3\r\n$10\r\npsubscribe\r\n$3\r\nf.*\r\n:3\r\n"
    conn.cmd("PUBLISH", "f.a", "hello")
    assert a.read_raw() == b">3\r\n$7\r\nmessage\r\n$3\r\nf.a\r\n$5\r\nhello\r\n"
    assert a.read_raw() == b">4\r\n$8\r\npmessage\r\n$3\r\nf.*\r\n$3\r\nf.a\r\n$5\r\nhello\r\n"
    assert a.raw("UNSUBSCRIBE", "f.a") == b">3\r\n$11\r\nunsubscribe\r\n$3\r\nf.a\r\n:2\r\n"
    assert a.raw("PUNSUBSCRIBE", "f.*") == b">3\r\n$12\r\npunsubscribe\r\n$3\r\nf.*\r\n:1\r\n"
    assert a.raw("UNSUBSCRIBE") == b">3\r\n$11\r\nunsubscribe\r\n$3\r\nf.b\r\n:0\r\n"
    assert a.raw("UNSUBSCRIBE") == b">3\r\n$11\r\nunsubscribe\r\n_\r\n:0\r\n"
    assert a.raw("PUNSUBSCRIBE") == b">3\r\n$12\r\npunsubscribe\r\n_\r\n:0\r\n"


@both_protocols
def test_one_who_never_subscribed_is_answered(resp: int, connect: Connect) -> None:
    """UNSUBSCRIBE without arguments, and with names, gives a frame for each; what follows is in step."""
    a = connect(resp=resp)
    null = Null.RESP3 if resp == 3 else Null.BULK
    a.send(b"".join(map(encode, ("UNSUBSCRIBE", "PUNSUBSCRIBE"))) + encode("UNSUBSCRIBE", "x", "y") + encode("PING"))
    assert a.read() == frame(resp, b"unsubscribe", null, 0)
    assert a.read() == frame(resp, b"punsubscribe", null, 0)
    assert a.read() == frame(resp, b"unsubscribe", b"x", 0)
    assert a.read() == frame(resp, b"unsubscribe", b"y", 0)
    assert a.read() == PONG


@both_protocols
def test_the_same_name_again(resp: int, connect: Connect, conn: Conn, queue: str) -> None:
    """A second subscription to a topic is confirmed, counts once and brings one copy."""
    a, name = connect(resp=resp), queue.encode()
    a.start("SUBSCRIBE", queue, queue)
    assert a.read_many(2) == [frame(resp, b"subscribe", name, 1)] * 2
    assert a.cmd("SUBSCRIBE", queue) == frame(resp, b"subscribe", name, 1)
    a.start("PSUBSCRIBE", queue, queue)
    assert a.read_many(2) == [frame(resp, b"psubscribe", name, 2)] * 2
    assert conn.integer("PUBLISH", queue, "x") == 2
    assert arrived(a) == [frame(resp, b"message", name, b"x"), frame(resp, b"pmessage", name, name, b"x")]
    a.start("UNSUBSCRIBE", queue, queue)
    assert a.read_many(2) == [frame(resp, b"unsubscribe", name, 1)] * 2
    assert conn.integer("PUBLISH", queue, "x") == 1


@both_protocols
def test_a_topic_comes_before_patterns(resp: int, connect: Connect, conn: Conn, queue: str) -> None:
    """Whichever was subscribed to first, the copy of the topic's own subscription comes first, as in Redis."""
    a = connect(resp=resp)
    psubscribe(a, f"{queue}.*")
    subscribe(a, f"{queue}.x")
    for n in range(3):
        assert conn.integer("PUBLISH", f"{queue}.x", n) == 2
    assert [items(value)[0] for value in arrived(a)] == [b"message", b"pmessage"] * 3


@both_protocols
def test_leaving_all_at_once(resp: int, connect: Connect, conn: Conn, queue: str) -> None:
    """UNSUBSCRIBE without arguments: a frame for each topic with the number going down; patterns are left alone."""
    a = connect(resp=resp)
    names = [f"{queue}.{n}" for n in range(5)]
    subscribe(a, *names)
    psubscribe(a, "left.alone", "also.#")
    a.start("UNSUBSCRIBE")
    frames = [items(a.read()) for _ in names]
    assert [kind for kind, _, _ in frames] == [b"unsubscribe"] * 5
    assert sorted(as_bytes(name) for _, name, _ in frames) == [name.encode() for name in names]
    assert [count for _, _, count in frames] == [6, 5, 4, 3, 2]
    a.start("PUNSUBSCRIBE")
    assert [count for _, _, count in (items(a.read()) for _ in range(2))] == [1, 0]
    assert conn.integer("PUBLISH", names[0], "x") == 0
    assert a.raw("PING") == b"+PONG\r\n"


def test_wrong_numbers_of_arguments(conn: Conn) -> None:
    """SUBSCRIBE and PSUBSCRIBE want a name."""
    for command in ("SUBSCRIBE", "PSUBSCRIBE", "SSUBSCRIBE"):
        assert conn.error(command).text.startswith(b"ERR wrong number of arguments for '%b'" % command.lower().encode())


# -- What a subscribed connection may do

REFUSED: list[tuple[Arg, ...]] = [
    *(("PUBLISH", "a", "b"), ("QPUT", "q", "x"), ("QLEASE", "q"), ("QSTATS",), ("ECHO", "x"), ("HELLO", 3), ("MULTI",)),
    *(("CLIENT", "ID"), ("INFO",), ("EXEC",), ("QACK", "q", "x"), ("EXCHANGE", "LIST"), ("SELECT", 0)),
]


@pytest.mark.parametrize("command", REFUSED, ids=lambda command: command[0])
@pytest.mark.parametrize("subscribed", ["SUBSCRIBE", "PSUBSCRIBE", "SSUBSCRIBE"])
def test_resp2_refuses_other_commands(subscribed: str, command: tuple[Arg, ...], connect: Connect, conn: Conn) -> None:
    """While there is a subscription, only these commands are allowed; the error says so and nothing was done."""
    a = connect()
    items(a.cmd(subscribed, "some.topic"))
    before = subscriptions(conn)
    error = a.error(*command)
    assert error.text.startswith(b"ERR Can't execute '%b" % str(command[0]).lower().encode())
    for word in (b"SUBSCRIBE", b"PING", b"QUIT", b"RESET", b"QCONSUME", b"QCANCEL"):
        assert word in error.text
    assert subscriptions(conn) == before
    kind = f"{subscribed[: subscribed.index('SUB')]}UNSUBSCRIBE"
    assert items(a.cmd(kind))[2] == 0
    assert a.raw("ECHO", "free again") == b"$10\r\nfree again\r\n"


@pytest.mark.parametrize("command", REFUSED, ids=lambda command: command[0])
def test_resp3_allows_every_command(command: tuple[Arg, ...], connect: Connect) -> None:
    """The same commands do what they always do."""
    a = connect(resp=3)
    fresh = connect(resp=3)
    subscribe(a, "another.topic")
    mine, other = a.cmd(*command), fresh.cmd(*command)
    assert type(mine) is type(other)
    assert not (isinstance(mine, Error) and b"context" in mine.text)


def test_ping_while_subscribed(connect: Connect) -> None:
    """RESP2: an array, with the message or an empty one; RESP3: as always."""
    a, b = connect(), connect(resp=3)
    for one in (a, b):
        subscribe(one, "any.topic")
    assert a.raw("PING") == b"*2\r\n$4\r\npong\r\n$0\r\n\r\n"
    assert a.raw("PING", "hi") == b"*2\r\n$4\r\npong\r\n$2\r\nhi\r\n"
    assert b.raw("PING") == b"+PONG\r\n"
    assert b.raw("PING", "hi") == b"$2\r\nhi\r\n"


def test_unknown_commands_are_unknown_in_any_state(connect: Connect) -> None:
    """The error for a mistyped command is that, not one about subscriptions."""
    a = connect()
    subscribe(a, "any.topic")
    assert a.error("NOSUCH", "x").code == b"ERR"
    assert a.error("SUBSCRIBE").text.startswith(b"ERR wrong number of arguments")


@both_protocols
def test_reset_ends_all_subscriptions(resp: int, connect: Connect, conn: Conn, queue: str) -> None:
    """RESET answers +RESET alone: no frames; nothing comes any more, and the protocol is RESP2 again."""
    a = connect(resp=resp)
    subscribe(a, queue)
    psubscribe(a, f"{queue}.#")
    items(a.cmd("SSUBSCRIBE", queue))
    assert a.raw("RESET") == b"+RESET\r\n"
    assert conn.integer("PUBLISH", queue, "x") == 0
    assert conn.integer("SPUBLISH", queue, "x") == 0
    assert a.raw("PING") == b"+PONG\r\n"
    assert a.raw("QSHOW", queue, "x").startswith(b"-NOQUEUE")
    assert a.raw("UNSUBSCRIBE") == b"*3\r\n$11\r\nunsubscribe\r\n$-1\r\n:0\r\n"


@both_protocols
def test_quit_is_answered_while_subscribed(resp: int, connect: Connect, conn: Conn, queue: str) -> None:
    """+OK, then the end; the subscription is gone."""
    a = connect(resp=resp)
    subscribe(a, queue)
    assert a.raw("QUIT") == b"+OK\r\n"
    assert a.at_eof()
    assert conn.integer("PUBLISH", queue, "x") == 0


def test_the_protocol_may_change_while_subscribed(connect: Connect, conn: Conn, queue: str) -> None:
    """RESP3 allows HELLO 2, and what comes afterwards has RESP2's frames and restrictions."""
    a = connect(resp=3)
    subscribe(a, queue)
    a.mapping("HELLO", 2)
    conn.cmd("PUBLISH", queue, "x")
    assert a.read() == [b"message", queue.encode(), b"x"]
    assert a.error("ECHO", "x").text.startswith(b"ERR Can't execute 'echo'")


def test_events_come_while_a_command_blocks(connect: Connect, conn: Conn, queue: str) -> None:
    """A RESP3 connection that waits in QLEASE goes on getting events, and its reply when there is a message."""
    conn.ok("QDECLARE", queue)
    a = connect(resp=3)
    subscribe(a, queue)
    block(a, conn, queue)
    conn.integer("PUBLISH", queue, "1")
    assert event(a.read()).body == b"1"
    put(conn, queue, "m")
    conn.integer("PUBLISH", queue, "2")
    assert bodies(deliveries(a.read())) == [b"m"]
    assert event(a.read()).body == b"2"


def test_pushes_stand_between_whole_replies(connect: Connect, conn: Conn, queue: str) -> None:
    """While another client publishes without end, a subscribed one (RESP3) gets exactly its replies, in order."""
    conn.ok("QDECLARE", queue)
    put(conn, queue, "m", "HEADER", "h", "v" * 5000, "ATTACH", "a")
    a, b = connect(resp=3), connect()
    subscribe(a, queue)
    stop = threading.Event()

    def publish() -> None:
        while not stop.is_set():
            b.pipeline([("PUBLISH", queue, "x" * 300)] * 20)

    publisher = threading.Thread(target=publish)
    publisher.start()
    commands: list[tuple[Arg, ...]] = [("QSTATS", queue), ("QPEEK", queue), ("ECHO", "e"), ("PUBLISH", queue, "own")]
    replies: list[Value] = []
    pushed: list[bytes] = []
    try:
        for n in range(1, 101):
            a.send(b"".join(encode(*command) for command in commands))
            while len(replies) < len(commands) * n:
                value = a.read()
                if isinstance(value, Push):
                    pushed.append(event(value).body)
                else:
                    replies.append(value)
    finally:
        stop.set()
        publisher.join()
    assert [type(value) for value in replies] == [Map, list, bytes, int] * 100
    assert replies[2::4] == [b"e"] * 100
    assert pushed.count(b"own") == 100
    assert set(pushed) == {b"own", b"x" * 300}


# -- What others see of it


@both_protocols
def test_client_list_counts_subscriptions(resp: int, connect: Connect, conn: Conn, queue: str) -> None:
    """sub= and psub=, and the flag P; TYPE pubsub finds it."""
    a = connect(resp=resp)
    number = a.id()
    assert (client_fields(conn, number)["sub"], client_fields(conn, number)["psub"]) == ("0", "0")
    subscribe(a, f"{queue}.a", f"{queue}.b")
    psubscribe(a, f"{queue}.#")
    fields = client_fields(conn, number)
    assert (fields["sub"], fields["psub"]) == ("2", "1")
    assert "P" in fields["flags"]
    assert f"id={number} " in conn.text("CLIENT", "LIST", "TYPE", "pubsub")
    a.start("UNSUBSCRIBE")
    a.start("PUNSUBSCRIBE")
    a.read_many(3)
    fields = client_fields(conn, number)
    assert (fields["sub"], fields["psub"], "P" in fields["flags"]) == ("0", "0", False)


def test_info_counts_topics_and_patterns(fresh_server: ServerProcess, connect: Connect) -> None:
    """Different topics and patterns, as Redis counts them."""
    observer, a, b = (connect(fresh_server) for _ in range(3))
    subscribe(a, "x", "y")
    subscribe(b, "x")
    psubscribe(a, "#")
    psubscribe(b, "#")
    found = info(observer)
    assert (found["pubsub_channels"], found["pubsub_patterns"]) == ("2", "1")
    a.close()
    b.close()
    wait_until(lambda: info(observer)["pubsub_channels"] == "0", "the topics are gone")
    assert info(observer)["pubsub_patterns"] == "0"


@both_protocols
def test_unblock_of_a_subscribed_client_does_nothing(resp: int, connect: Connect, conn: Conn, queue: str) -> None:
    """0, and its subscription goes on."""
    a = connect(resp=resp)
    number = a.id()
    subscribe(a, queue)
    assert conn.integer("CLIENT", "UNBLOCK", number) == 0
    assert conn.integer("CLIENT", "UNBLOCK", number, "ERROR") == 0
    assert conn.integer("PUBLISH", queue, "x") == 1
    assert [one.body for one in events(a)] == [b"x"]


# -- What is left when it goes


@LEAVE
def test_one_that_left_is_no_receiver(leave: Callable[[Conn], None], connect: Connect, conn: Conn, queue: str) -> None:
    """Subscriptions end with their connection, with events on their way or without."""
    for n in range(20):
        a = connect()
        subscribe(a, queue)
        psubscribe(a, f"{queue}.#")
        assert conn.integer("PUBLISH", queue, "x") == 2
        leave(a)
        if n % 2:
            conn.pipeline([("PUBLISH", queue, "x" * 1000)] * 20)
        wait_until(lambda: conn.integer("PUBLISH", queue, "x") == 0, "the subscriptions are gone")


def test_a_killed_subscriber(connect: Connect, conn: Conn, queue: str) -> None:
    """CLIENT KILL and a publish in one write: nobody takes it."""
    a = connect()
    number = a.id()
    subscribe(a, queue)
    assert conn.pipeline([("CLIENT", "KILL", "ID", number), ("PUBLISH", queue, "x")]) == [1, 0]
    assert a.at_eof()


def test_subscribers_and_waiters_leave_in_the_middle(connect: Connect, conn: Conn, queue: str) -> None:
    """50 wait and 50 are subscribed; 50 messages and events while half of them leave and some are killed."""
    conn.ok("QDECLARE", queue)
    waiting, subscribed = [connect() for _ in range(50)], [connect() for _ in range(50)]
    numbers = [one.id() for one in (*waiting, *subscribed)]
    for one in waiting:
        block(one, conn, queue)
    for one in subscribed:
        subscribe(one, queue)
    killed, left, stay = numbers[::4], set(range(1, 100, 4)), {*range(2, 100, 4), *range(3, 100, 4)}
    commands: list[tuple[Arg, ...]] = []
    for n, number in enumerate(killed):
        commands += [("QPUT", queue, 2 * n), ("PUBLISH", queue, 2 * n), ("CLIENT", "KILL", "ID", number)]
        commands += [("QPUT", queue, 2 * n + 1), ("PUBLISH", queue, 2 * n + 1)]
    conn.send(b"".join(encode(*command) for command in commands))
    for n in left:
        (*waiting, *subscribed)[n].reset()
    replies = conn.read_many(len(commands))
    assert not [reply for reply in replies if isinstance(reply, Error)]
    settle(conn)
    served = [bodies(deliveries(one.read())) for n, one in enumerate(waiting) if n in stay]
    assert all(len(bodies_of_one) == 1 for bodies_of_one in served), "each survivor was served once"
    for n, one in enumerate(subscribed, 50):
        if n in stay:
            assert [got.body for got in events(one)] == [b"%d" % m for m in range(50)]
    wait_until(lambda: stat(conn, queue, "waiters") == 0, "no waiter is left")
    assert stat(conn, queue, "ready") + stat(conn, queue, "in_flight") == 50
    assert stat(conn, queue, "in_flight") >= len(served)


def test_dropped_connections_leave_no_subscription(fresh_server: ServerProcess, connect: Connect) -> None:
    """10,000 times connect, subscribe and reset, to new names: no subscription and no memory is left."""
    observer = connect(fresh_server)
    number = 0

    def cycle() -> None:
        nonlocal number
        opened = [Conn(fresh_server.port) for _ in range(100)]
        for one in opened:
            number += 1
            one.send(encode("SUBSCRIBE", f"a.{number}", "a.b") + encode("PSUBSCRIBE", f"a.*.{number}.#", "a.#"))
        for one in opened:
            one.read_many(4)
            one.reset()
        wait_until(lambda: subscriptions(observer) == 0, "the subscriptions are gone")

    for _ in range(30):
        cycle()
    before = fresh_server.memory()
    for _ in range(70):
        cycle()
    after = fresh_server.memory()
    assert observer.raw("PUBSUB", "CHANNELS") == b"*0\r\n"
    assert observer.raw("PUBSUB", "NUMPAT") == b":0\r\n"
    assert after < before * 1.08 + (1 << 20), f"{before >> 10} KiB became {after >> 10} KiB"


def test_shard_topics(connect: Connect, conn: Conn, queue: str) -> None:
    """SSUBSCRIBE, SPUBLISH and SUNSUBSCRIBE are apart from the other topics."""
    a, b, name = connect(), connect(resp=3), queue.encode()
    assert a.cmd("SSUBSCRIBE", queue) == [b"ssubscribe", name, 1]
    subscribe(b, queue)
    assert conn.integer("SPUBLISH", queue, "shard") == 1
    assert conn.integer("PUBLISH", queue, "plain") == 1
    assert arrived(a) == [[b"smessage", name, b"shard"]]
    assert arrived(b) == [frame(3, b"message", name, b"plain")]
    assert conn.cmd("PUBSUB", "SHARDNUMSUB", queue) == [name, 1]
    assert conn.array("PUBSUB", "SHARDCHANNELS", queue) == [name]
    assert a.cmd("SUNSUBSCRIBE") == [b"sunsubscribe", name, 0]
    left = a.cmd("SUNSUBSCRIBE")
    assert isinstance(left, list)
    assert left[1] in NULLS
    assert a.cmd("RESET") == Simple(b"RESET")
