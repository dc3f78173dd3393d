"""MULTI and EXEC: one atomic step, whose middle nobody sees, and which a torn connection never tears."""

from __future__ import annotations

import random
import threading
from collections.abc import Iterator

import pytest
import redis

from tests.support import (
    OK,
    PONG,
    Arg,
    Conn,
    Connect,
    Error,
    Push,
    ServerProcess,
    Simple,
    Value,
    advance,
    as_bytes,
    as_list,
    block,
    bodies,
    counts,
    deliveries,
    encode,
    lease,
    lease_one,
    peeked_bodies,
    put,
    put_all,
    settle,
    stat,
    wait_until,
)
from tests.support.events import (
    consume,
    delivered_bodies,
    event,
    let_go,
    psubscribe,
    subscribe,
)

QUEUED = Simple(b"QUEUED")
both_protocols = pytest.mark.parametrize("resp", [2, 3], ids=["resp2", "resp3"])


@pytest.fixture(autouse=True)
def _nothing_is_left(open_connections: list[Conn]) -> Iterator[None]:
    yield
    let_go(open_connections)


def multi(*commands: tuple[Arg, ...]) -> bytes:
    """A whole transaction."""
    return b"".join([encode("MULTI"), *(encode(*command) for command in commands), encode("EXEC")])


def transaction(conn: Conn, *commands: tuple[Arg, ...]) -> list[Value]:
    """Run one in one write; what EXEC answers."""
    conn.send(multi(*commands))
    assert conn.read() == OK
    assert conn.read_many(len(commands)) == [QUEUED] * len(commands)
    return as_list(conn.read())


# -- The commands themselves


@both_protocols
def test_replies(resp: int, connect: Connect, queue: str) -> None:
    """+OK, +QUEUED for each, and an array of all replies, as each would be alone."""
    conn = connect(resp=resp)
    assert conn.raw("MULTI") == b"+OK\r\n"
    assert conn.raw("QDECLARE", queue) == b"+QUEUED\r\n"
    for _ in range(2):
        assert conn.raw("QPUT", queue, "m", "ID", "k") == b"+QUEUED\r\n"
    assert conn.raw("QCONFIG", queue) == b"+QUEUED\r\n"
    assert conn.raw("PING") == b"+QUEUED\r\n"
    assert conn.raw("CLIENT", "ID") == b"+QUEUED\r\n"
    declared, first, second, config, pong, number = as_list(conn.cmd("EXEC"))
    assert (declared, first, pong) == (OK, b"k", PONG)
    assert second == conn.cmd("QSHOW", queue, "none")
    assert config == conn.cmd("QCONFIG", queue)
    assert number == conn.id()
    assert conn.raw("MULTI") == b"+OK\r\n"
    assert conn.raw("EXEC") == b"*0\r\n"


def test_commands_that_stand_alone(conn: Conn) -> None:
    """Without MULTI there is nothing to execute or discard; WATCH and UNWATCH are accepted and do nothing."""
    assert conn.error("EXEC").text == b"ERR EXEC without MULTI"
    assert conn.error("DISCARD").text == b"ERR DISCARD without MULTI"
    assert conn.raw("UNWATCH") == b"+OK\r\n"
    assert conn.raw("WATCH", "a", "b") == b"+OK\r\n"
    assert conn.error("WATCH").text.startswith(b"ERR wrong number of arguments for 'watch' command")
    for command in ("MULTI", "DISCARD", "UNWATCH"):
        assert conn.error(command, "x").text.startswith(b"ERR wrong number of arguments"), command


def test_watch_watches_nothing(connect: Connect, conn: Conn, queue: str) -> None:
    """Whatever happens to what was named, EXEC runs."""
    conn.ok("QDECLARE", queue)
    other = connect()
    conn.ok("WATCH", queue, "k")
    put(other, queue, "x")
    other.integer("QDELETE", queue)
    other.ok("QDECLARE", queue)
    assert transaction(conn, ("QPUT", queue, "m", "ID", "k")) == [b"k"]


def test_multi_and_watch_inside(conn: Conn) -> None:
    """Errors, and the transaction goes on."""
    conn.ok("MULTI")
    assert conn.raw("ECHO", "1") == b"+QUEUED\r\n"
    assert conn.error("MULTI").text == b"ERR MULTI calls can not be nested"
    assert conn.error("WATCH", "a").text == b"ERR WATCH inside MULTI is not allowed"
    assert conn.raw("UNWATCH") == b"+QUEUED\r\n"
    assert conn.cmd("EXEC") == [b"1", OK]


def test_discard(conn: Conn, queue: str) -> None:
    """Nothing is run, also when a command was refused; then there is no transaction."""
    conn.ok("QDECLARE", queue)
    for bad in (False, True):
        conn.ok("MULTI")
        assert conn.cmd("QPUT", queue, "m") == QUEUED
        if bad:
            conn.error("NOSUCH")
        conn.ok("DISCARD")
        assert conn.error("EXEC").text == b"ERR EXEC without MULTI"
        assert stat(conn, queue, "enqueued") == 0


BAD: list[tuple[Arg, ...]] = [
    ("NOSUCH", "x"),
    ("QPUT",),
    ("QPUT", "q"),
    ("QPUT", "q", "x", "PRIORITY", "high"),
    ("QLEASE", "q", "COUNT", 0),
    ("GET", "x"),
    ("CLIENT", "NOSUCH"),
    ("QDEAD",),
    ("QDEAD", "LEN"),
    ("QLEASE",),
    ("EXCHANGE", "NOSUCH"),
]


@pytest.mark.parametrize("bad", BAD, ids=lambda command: " ".join(map(str, command)))
def test_a_command_that_can_t_be_queued_aborts_all(
    bad: tuple[Arg, ...], connect: Connect, conn: Conn, queue: str
) -> None:
    """Its error at once, -EXECABORT from EXEC, and nothing was run; afterwards all is as before."""
    conn.ok("QDECLARE", queue)
    a = connect()
    a.ok("MULTI")
    assert a.cmd("QPUT", queue, "1") == QUEUED
    assert a.error(*bad).code == b"ERR"
    assert a.cmd("QPUT", queue, "2") == QUEUED
    assert a.error("EXEC").text == b"EXECABORT Transaction discarded because of previous errors."
    assert a.error("EXEC").text == b"ERR EXEC without MULTI"
    assert stat(a, queue, "enqueued") == 0


def test_a_command_that_fails_stops_no_other(conn: Conn, queue: str) -> None:
    """Its error is its reply; the others are run."""
    conn.ok("QDECLARE", queue, "MAXLEN", 2)
    replies = transaction(
        conn,
        ("QPUT", queue, "1", "ID", "a"),
        ("QPUT", f"{queue}.none", "x"),
        ("QPUT", queue, "2", "ID", "b"),
        ("QPUT", queue, "3", "ID", "c"),
        ("PUBLISH", "a..b", "x"),
        ("QDEL", queue, "a"),
    )
    codes = [reply.code if isinstance(reply, Error) else reply for reply in replies]
    assert codes == [b"a", b"NOQUEUE", b"b", b"QUEUEFULL", b"INVALIDTOPIC", 1]
    assert peeked_bodies(conn, queue) == [b"2"]


def test_reset_quit_and_a_lost_connection_discard(connect: Connect, conn: Conn, queue: str) -> None:
    """+RESET and +OK at once; what was queued is never run."""
    conn.ok("QDECLARE", queue)
    a, b, c = connect(resp=3), connect(), connect()
    for one in (a, b, c):
        one.ok("MULTI")
        assert one.cmd("QPUT", queue, "m") == QUEUED
    assert a.raw("RESET") == b"+RESET\r\n"
    assert a.error("EXEC").text == b"ERR EXEC without MULTI"
    assert a.raw("PING") == b"+PONG\r\n"
    assert b.raw("QUIT") == b"+OK\r\n"
    assert b.at_eof()
    c.close()
    settle(conn)
    assert stat(conn, queue, "enqueued") == 0


@both_protocols
@pytest.mark.parametrize("command", ["SUBSCRIBE", "PSUBSCRIBE", "SSUBSCRIBE", "UNSUBSCRIBE", "QCONSUME"])
def test_what_answers_with_pushes_is_refused_inside(command: str, resp: int, connect: Connect, queue: str) -> None:
    """It is no part of a transaction, so EXEC's reply has one element a command and no push stands inside it."""
    a = connect(resp=resp)
    a.ok("MULTI")
    error = a.error(command, queue)
    assert error.code == b"ERR"
    assert command.encode() in error.text
    assert a.error("EXEC").code == b"EXECABORT"
    assert a.raw("PING") == b"+PONG\r\n"


# -- Nothing blocks inside


@pytest.mark.parametrize("wait", ["0", "10"])
def test_a_wait_inside_does_not_wait(wait: str, conn: Conn, queue: str) -> None:
    """QLEASE WAIT answers an empty array at once if there is nothing, and what there is otherwise."""
    conn.ok("QDECLARE", queue)
    nothing, put_id, found, again = transaction(
        conn,
        ("QLEASE", queue, "WAIT", wait),
        ("QPUT", queue, "m", "ID", "k"),
        ("QLEASE", queue, "WAIT", wait, "COUNT", 5),
        ("QLEASE", queue, "WAIT", wait, "REQID", "r"),
    )
    assert (nothing, put_id, again) == ([], b"k", [])
    assert bodies(deliveries(found)) == [b"m"]
    assert counts(conn, queue, "waiters", "in_flight") == (0, 1)


def test_leases_of_a_transaction_are_ordinary_ones(connect: Connect, conn: Conn, queue: str) -> None:
    """They can be settled from elsewhere, and a REQID works inside too."""
    conn.ok("QDECLARE", queue)
    put_all(conn, queue, ["1", "2"])
    first, again = transaction(conn, ("QLEASE", queue, "REQID", "r"), ("QLEASE", queue, "REQID", "r"))
    assert first == again
    assert connect().integer("QACK", queue, deliveries(first)[0].lease) == 1


# -- Nobody sees the middle


def test_a_waiter_does_not_see_the_middle(connect: Connect, conn: Conn, queue: str) -> None:
    """Put and delete; put and lease; a put that a more urgent one overtakes: only the end counts."""
    conn.ok("QDECLARE", queue)
    a = connect()
    block(a, conn, queue)
    assert transaction(conn, ("QPUT", queue, "gone", "ID", "k"), ("QDEL", queue, "k")) == [b"k", 1]
    taken = transaction(conn, ("QPUT", queue, "mine"), ("QLEASE", queue))[1]
    assert bodies(deliveries(taken)) == [b"mine"]
    assert a.pending() == b""
    assert stat(conn, queue, "waiters") == 1
    transaction(conn, ("QPUT", queue, "2"), ("QPUT", queue, "1", "PRIORITY", -1))
    assert bodies(deliveries(a.read())) == [b"1"]
    assert peeked_bodies(conn, queue) == [b"2"]


@both_protocols
def test_a_consumer_does_not_see_the_middle(resp: int, connect: Connect, conn: Conn, queue: str) -> None:
    """The same for one with room."""
    conn.ok("QDECLARE", queue)
    a = connect(resp=resp)
    consume(a, queue, "PREFETCH", 2)
    transaction(conn, ("QPUT", queue, "gone", "ID", "k"), ("QDEL", queue, "k"))
    transaction(conn, ("QMPUT", queue, "a", "b"), ("QPURGE", queue))
    transaction(conn, ("QPUT", queue, "2"), ("QPUT", queue, "3"), ("QPUT", queue, "1", "PRIORITY", -1))
    assert delivered_bodies(a) == [b"1", b"2"]
    assert counts(conn, queue, "delivered", "ready") == (2, 1)


def test_deleting_a_queue_in_the_middle(connect: Connect, conn: Conn, queue: str) -> None:
    """Deleted and declared anew in one step: those who waited are told all the same, the new queue is another one."""
    conn.ok("QDECLARE", queue)
    a, b = connect(), connect(resp=3)
    block(a, conn, queue)
    tag = consume(b, queue)
    assert transaction(conn, ("QDELETE", queue), ("QDECLARE", queue), ("QPUT", queue, "m", "ID", "k")) == [1, OK, b"k"]
    reply = a.read()
    assert isinstance(reply, Error)
    assert reply.code == b"NOQUEUE"
    cancelled = b.read()
    assert isinstance(cancelled, Push)
    assert cancelled.items[:2] == (b"cancelled", tag)
    assert bodies(lease(conn, queue)) == [b"m"]


def test_a_subscriber_does_not_see_the_middle(connect: Connect, conn: Conn, queue: str) -> None:
    """Whoever has the event finds all that the transaction did."""
    conn.ok("QDECLARE", queue)
    a, b = connect(), connect()
    subscribe(a, queue)
    commands: list[tuple[Arg, ...]] = [("PUBLISH", queue, "first"), *[("QPUT", queue, n) for n in range(500)]]
    commands.append(("PUBLISH", queue, "last"))
    conn.send(multi(*commands))
    assert event(a.read()).body == b"first"
    assert len(lease(b, queue, "COUNT", 1000)) == 500
    assert event(a.read()).body == b"last"
    conn.read_many(len(commands) + 2)


def test_others_see_all_or_nothing(connect: Connect, conn: Conn, queue: str) -> None:
    """While one client moves messages between two queues, another always counts the same sum."""
    other = f"{queue}.other"
    for name in (queue, other):
        conn.ok("QDECLARE", name)
    put_all(conn, queue, range(50))
    a = connect()

    def move() -> None:
        for n in range(50):
            message = lease_one(a, queue)
            a.send(multi(("QACK", queue, message.lease), *[("ECHO", "x" * 100)] * 20, ("QPUT", other, n)))
            a.read_many(24)

    mover = threading.Thread(target=move)
    mover.start()
    try:
        while stat(conn, other, "ready") < 50:
            first, second = transaction(conn, ("QSTATS", queue), ("QSTATS", other))
            sums = [dict(zip(as_list(one)[::2], as_list(one)[1::2], strict=True)) for one in (first, second)]
            assert sum(int(str(found[key])) for found in sums for key in (b"ready", b"in_flight")) == 50
    finally:
        mover.join()


# -- Pushes stand outside


def test_pushes_never_stand_inside_the_reply(connect: Connect, conn: Conn, queue: str) -> None:
    """RESP3: one's own events and deliveries, caused in the middle, come before or behind EXEC's reply."""
    conn.ok("QDECLARE", queue)
    a = connect(resp=3)
    subscribe(a, queue)
    psubscribe(a, f"{queue}.#")
    consume(a, queue)
    commands: list[tuple[Arg, ...]] = [
        ("PUBLISH", queue, "e"),
        ("QPUT", queue, "m", "ID", "k"),
        ("QSTATS", queue),
        ("PUBLISH", queue, "f"),
        ("ECHO", "x"),
    ]
    a.send(multi(*commands) + encode("PING", "end"))
    values: list[Value] = []
    while not values or values[-1] != b"end":
        values.append(a.read())
    replies = [value for value in values if not isinstance(value, Push)]
    pushes = [value for value in values if isinstance(value, Push)]
    assert replies[:6] == [OK, *[QUEUED] * 5]
    (result,) = map(as_list, replies[6:-1])
    assert [result[n] for n in (0, 1, 3, 4)] == [2, b"k", 2, b"x"]
    assert not [value for value in result if isinstance(value, Push)]
    kinds = sorted(as_bytes(push.items[0]) for push in pushes)
    assert kinds == [b"deliver", b"message", b"message", b"pmessage", b"pmessage"]
    assert [event(push).body for push in pushes if push.items[0] == b"message"] == [b"e", b"f"]


def test_pushes_of_others_do_not_stand_inside_either(connect: Connect, conn: Conn, queue: str) -> None:
    """A subscriber and consumer runs transactions while others publish and put in a loop: its replies keep step."""
    conn.ok("QDECLARE", queue, "MAXLEN", 100_000)
    a, b = connect(resp=3), connect()
    subscribe(a, queue)
    consume(a, queue, "PREFETCH", 100_000)
    stop = threading.Event()

    def flood() -> None:
        while not stop.is_set():
            b.pipeline([("PUBLISH", queue, "x"), ("QPUT", queue, "y")] * 10)

    flooding = threading.Thread(target=flood)
    flooding.start()
    pushes = 0
    try:
        for n in range(200):
            a.send(multi(("ECHO", n), ("PUBLISH", queue, "own"), ("QSTATS", queue), ("ECHO", n)))
            replies: list[Value] = []
            while len(replies) < 6:
                value = a.read()
                if isinstance(value, Push):
                    pushes += 1
                else:
                    replies.append(value)
            result = as_list(replies[5])
            assert (result[0], result[1], result[3]) == (b"%d" % n, 1, b"%d" % n)
    finally:
        stop.set()
        flooding.join()
    assert pushes > 400


# -- Ack this and put the next


def test_ack_and_put_are_never_torn(fresh_server: ServerProcess, connect: Connect) -> None:
    """A client is cut off anywhere in MULTI, QACK, QPUT, EXEC: both have happened or neither."""
    observer = connect(fresh_server)
    observer.ok("QDECLARE", "in", "RETRYDELAY", 0, "MAXATTEMPTS", 1000)
    observer.ok("QDECLARE", "out")
    chance = random.Random(1)
    done = 0
    for n in range(400):
        message = put(observer, "in", n)
        a = Conn(fresh_server.port)
        number = a.id()
        token = lease_one(a, "in").lease
        data = multi(("QACK", "in", token), ("QPUT", "out", n, "ID", f"next-{n}"))
        cut = chance.choice([chance.randrange(1, len(data)), len(data) - chance.randrange(8), len(data)])
        a.send(data[:cut])
        way = n % 3
        if way == 0:
            a.reset()
        elif way == 1:
            a.close()
        else:
            observer.integer("CLIENT", "KILL", "ID", number)
            a.close()
        wait_until(lambda number=number: observer.text("CLIENT", "LIST", "ID", number) == "", "it is gone")  # type: ignore[misc]
        replies = transaction(observer, ("QSHOW", "in", message), ("QSHOW", "out", f"next-{n}"))
        waits, follows = (isinstance(reply, list) for reply in replies)
        assert waits != follows, f"cut at {cut} of {len(data)}: {replies}"
        if cut < len(data):
            assert waits, "EXEC was never there in whole"
        done += follows
        if waits:
            assert observer.integer("QDEL", "in", message) == 1
    assert done > 20
    assert counts(observer, "in", "ready", "delayed", "in_flight") == (0, 0, 0)
    assert stat(observer, "out", "ready") == done


def test_a_stale_ack_does_not_stop_the_put(virtual: Conn, queue: str) -> None:
    """A transaction is atomic, not conditional: the reply tells that the lease was stale."""
    virtual.ok("QDECLARE", queue, "ACKTIMEOUT", "1s", "RETRYDELAY", 0)
    put(virtual, queue, "m")
    token = lease_one(virtual, queue).lease
    advance(virtual, "1s")
    lease_one(virtual, queue)
    assert transaction(virtual, ("QACK", queue, token), ("QPUT", queue, "next", "ID", "k")) == [0, b"k"]


@pytest.mark.parametrize("protocol", [2, 3])
def test_redis_py_s_pipeline(protocol: int, server: ServerProcess, connect: Connect, conn: Conn, queue: str) -> None:
    """Its default pipeline is a transaction: all in one step, errors in place or raised, WATCH accepted."""
    conn.ok("QDECLARE", queue)
    a = connect()
    block(a, conn, queue)
    with redis.Redis(port=server.port, protocol=protocol) as client, client.pipeline() as pipeline:
        pipeline.watch(queue)
        pipeline.multi()
        pipeline.execute_command("QPUT", queue, "2", "ID", "x")
        pipeline.execute_command("QPUT", queue, "1", "PRIORITY", -1, "ID", "y")
        assert pipeline.execute() == [b"x", b"y"]
        assert bodies(deliveries(a.read())) == [b"1"]
        pipeline.execute_command("QDEL", queue, "x")
        pipeline.execute_command("QSTATS", f"{queue}.none")
        pipeline.execute_command("QPUT", queue, "3", "ID", "z")
        with pytest.raises(redis.ResponseError, match="no such queue"):
            pipeline.execute()
        pipeline.execute_command("QPUT", queue)
        pipeline.execute_command("QDEL", queue, "z")
        with pytest.raises(redis.ResponseError, match="wrong number of arguments"):
            pipeline.execute()
        assert client.execute_command("PING")
    assert peeked_bodies(conn, queue) == [b"3"]


def test_a_large_transaction(conn: Conn, queue: str) -> None:
    """Ten thousand commands, one reply."""
    conn.ok("QDECLARE", queue, "MAXLEN", 20_000)
    replies = transaction(conn, *[("QPUT", queue, n, "ID", n) for n in range(10_000)])
    assert replies == [b"%d" % n for n in range(10_000)]
    assert [one.body for one in lease(conn, queue, "COUNT", 20_000)] == replies


def test_client_list_shows_an_open_transaction(connect: Connect, conn: Conn) -> None:
    """multi= counts the queued commands, -1 without; the flag x."""
    a = connect()
    number = a.id()

    def shown() -> tuple[str, bool]:
        line = conn.text("CLIENT", "LIST", "ID", number).strip()
        fields = dict(field.split("=", 1) for field in line.split(" "))
        return fields["multi"], "x" in fields["flags"]

    assert shown() == ("-1", False)
    a.ok("MULTI")
    assert shown() == ("0", True)
    a.cmd("PING")
    a.cmd("PING")
    assert shown() == ("2", True)
    a.cmd("EXEC")
    assert shown() == ("-1", False)
