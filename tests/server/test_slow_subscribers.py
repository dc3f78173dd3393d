"""A subscriber that doesn't read costs only itself: bounded memory, nobody slowed, the oldest events dropped."""

from __future__ import annotations

import threading
from collections.abc import Sequence

import pytest

from tests.support import (
    Conn,
    Connect,
    Map,
    Push,
    ServerProcess,
    Value,
    as_int,
    encode,
    info,
    lease_one,
    put,
    start_server,
    wait_until,
)
from tests.support.events import Event, arrived, consume, event, events, frame, items, psubscribe, subscribe

both_protocols = pytest.mark.parametrize("resp", [2, 3], ids=["resp2", "resp3"])


def publish(conn: Conn, topic: str, bodies: Sequence[bytes], batch: int = 100) -> None:
    """Publish all of them, which somebody must take."""
    for start in range(0, len(bodies), batch):
        replies = conn.pipeline([("PUBLISH", topic, body) for body in bodies[start : start + batch]])
        assert min(map(as_int, replies)) > 0


def numbered(count: int, size: int) -> list[bytes]:
    return [b"%d " % n + b"x" * size for n in range(count)]


def numbers(found: Sequence[Event]) -> list[int]:
    return [int(one.body.split()[0]) for one in found]


def waking(sleeper: Conn, publisher: Conn, topic: str = "t") -> list[Event]:
    """All events that a sleeper gets when it reads at last, without one that is published now to mark the end."""
    publish(publisher, topic, [b"the end"])
    found = []
    while (one := event(sleeper.read())).body != b"the end":
        found.append(one)
    return found


def drops(conn: Conn, number: int) -> int:
    """What CLIENT LIST says that a client has lost."""
    line = conn.text("CLIENT", "LIST", "ID", number).strip()
    return int(dict(field.split("=", 1) for field in line.split(" "))["event-drops"])


def all_drops(conn: Conn) -> int:
    return as_int(conn.mapping("QSTATS")[b"event_drops"])


@both_protocols
def test_the_oldest_go_and_are_counted(resp: int, connect: Connect) -> None:
    """What is read at last is in order, ends with the newest max-pending, and all that lacks was counted."""
    with start_server("--max-pending", "50") as server:
        a, b = connect(server, resp=resp), connect(server)
        number = a.id()
        subscribe(a, "t")
        assert (drops(b, number), all_drops(b)) == (0, 0)
        publish(b, "t", numbered(3000, 10_000))
        found = numbers(waking(a, b))
        lost = drops(b, number)
        assert 0 < lost == all_drops(b)
        assert found == sorted(set(found))
        assert found[-49:] == list(range(2951, 3000))
        assert len(found) + lost == 3000
        assert found[0] == 0, "what the socket had taken is not lost"
        assert (drops(b, number), all_drops(b)) == (lost, lost)
        publish(b, "t", [b"3000"])
        assert numbers(events(a)) == [3000]
        a.close()
        assert all_drops(b) == lost, "the server's number doesn't go down when the client leaves"


def test_the_default_is_a_thousand(fresh_server: ServerProcess, connect: Connect) -> None:
    """Of many small events a sleeper gets at least the last thousand."""
    a, b = connect(fresh_server), connect(fresh_server)
    number = a.id()
    subscribe(a, "t")
    publish(b, "t", numbered(6000, 3000))
    found = numbers(waking(a, b))
    lost = drops(b, number)
    assert lost > 0
    assert len(found) + lost == 6000
    assert found[-999:] == list(range(5001, 6000))


def test_max_pending_can_be_set_while_the_server_runs(fresh_server: ServerProcess, connect: Connect) -> None:
    """CONFIG SET max-pending holds for what comes then."""
    a, b = connect(fresh_server), connect(fresh_server)
    b.ok("CONFIG", "SET", "max-pending", 7)
    subscribe(a, "t")
    publish(b, "t", numbered(2000, 10_000))
    found = numbers(waking(a, b))
    assert len(found) + all_drops(b) == 2000
    assert found[-6:] == list(range(1994, 2000))
    assert found[-7] < 1993, "only seven were waiting"


@both_protocols
def test_each_subscription_has_its_own_line(resp: int, connect: Connect) -> None:
    """A noisy topic pushes out none of the events of a quiet one, on the same connection."""
    with start_server("--max-pending", "20") as server:
        a, b = connect(server, resp=resp), connect(server)
        subscribe(a, "noisy", "quiet", "end")
        psubscribe(a, "quiet.#")
        publish(b, "noisy", numbered(1000, 20_000))
        publish(b, "quiet", numbered(10, 10))
        publish(b, "noisy", numbered(1000, 20_000))
        publish(b, "quiet", [b"10"])
        found = waking(a, b, "end")
        for pattern in (None, b"quiet.#"):
            quiet = [one for one in found if one.topic == b"quiet" and one.pattern == pattern]
            assert numbers(quiet) == list(range(11)), pattern
        noisy = numbers([one for one in found if one.topic == b"noisy"])
        assert noisy[-20:] == list(range(980, 1000))
        lost = all_drops(b)
        assert lost > 0
        assert len(found) + lost == 2022


@both_protocols
def test_memory_is_flat_and_others_are_served_at_full_speed(resp: int, connect: Connect) -> None:
    """While one sleeps through 60 MB of events another gets every one of them, and the server stays as it was."""
    count, size = 6000, 10_000
    with start_server("--max-pending", "100") as server:
        a, b, c = connect(server, resp=resp), connect(server), connect(server, resp=resp)
        number, fast = a.id(), c.id()
        subscribe(c, "t")

        def round_trip(rounds: int) -> None:
            for _ in range(rounds):
                bodies = numbered(50, size)
                replies = b.pipeline([("PUBLISH", "t", body) for body in bodies])
                assert set(map(as_int, replies)) <= {1, 2}
                assert [event(c.read()).body for _ in bodies] == bodies

        round_trip(20)
        subscribe(a, "t")
        round_trip(20)
        before = server.memory()
        round_trip(count // 50)
        after = server.memory()
        assert drops(b, number) > count - 2000
        assert drops(b, fast) == 0
        assert after < before + (4 << 20), f"{before >> 10} KiB became {after >> 10} KiB"
        found = waking(a, b)
        assert len(found) + drops(b, number) == count + 20 * 50


def test_a_publisher_is_not_slowed_by_sleepers(connect: Connect) -> None:
    """The work of a publish to 10 sleepers is about that of one to 10 readers: nobody waits for them."""
    with start_server("--max-pending", "10") as server:
        b = connect(server)
        asleep = [connect(server) for _ in range(10)]
        for one in asleep:
            subscribe(one, "t")
        publish(b, "t", numbered(150, 100_000), batch=5)
        awake = [connect(server) for _ in range(10)]
        for one in awake:
            subscribe(one, "u")

        def read(one: Conn) -> None:
            for _ in range(200):
                one.read()

        readers = [threading.Thread(target=read, args=(one,)) for one in awake]
        for reader in readers:
            reader.start()
        start = server.cpu_seconds()
        publish(b, "u", numbered(200, 5000))
        for reader in readers:
            reader.join()
        cost_of_readers = server.cpu_seconds() - start
        publish(b, "t", numbered(200, 5000))
        cost_of_sleepers = server.cpu_seconds() - start - cost_of_readers
        assert cost_of_sleepers < 3 * cost_of_readers + 0.2
        assert all_drops(b) > 0


def test_replies_are_not_dropped(connect: Connect) -> None:
    """A RESP3 sleeper that also asks gets every reply, in order, whatever happens to its events."""
    with start_server("--max-pending", "10") as server:
        a, b = connect(server, resp=3), connect(server)
        number = a.id()
        subscribe(a, "t")
        for n in range(40):
            a.start("ECHO", f"reply {n}")
            publish(b, "t", numbered(50, 10_000))
        assert drops(b, number) > 0
        replies = [value for value in arrived(a) if isinstance(value, bytes)]
        assert replies == [b"reply %d" % n for n in range(40)]


def test_requests_that_are_held_back_go_on(connect: Connect) -> None:
    """One who asks for more than it reads is served again when it has read, also with events waiting for it."""
    with start_server("--max-pending", "30", "--client-output-buffer-limit", "1mb") as server:
        a, b = connect(server, resp=3), connect(server)
        size = len(a.raw("COMMAND", "DOCS"))
        subscribe(a, "t")
        publish(b, "t", numbered(800, 20_000))
        a.send(encode("COMMAND", "DOCS") * (5_000_000 // size) + encode("ECHO", "the end"))
        publish(b, "t", numbered(800, 20_000))
        replies = 0
        while (value := a.read()) != b"the end":
            replies += isinstance(value, Map)
        assert replies == 5_000_000 // size


@both_protocols
def test_an_unsubscribe_ends_what_waits(resp: int, connect: Connect) -> None:
    """Behind the confirmation nothing of that topic comes any more, though events were waiting."""
    with start_server("--max-pending", "20") as server:
        a, b = connect(server, resp=resp), connect(server)
        subscribe(a, "t", "u")
        publish(b, "t", numbered(2000, 10_000))
        publish(b, "u", [b"0"])
        a.start("UNSUBSCRIBE", "t")
        wait_until(lambda: b.cmd("PUBSUB", "NUMSUB", "t") == [b"t", 0], "it has unsubscribed")
        publish(b, "u", [b"1"])
        last, found = frame(resp, b"message", b"u", b"1"), [a.read()]
        while found[-1] != last:
            found.append(a.read())
        confirmation = found.index(frame(resp, b"unsubscribe", b"t", 1))
        assert found[confirmation + 1 :] == [last]
        assert numbers([event(value) for value in found if items(value)[1] == b"u"]) == [0, 1]


@both_protocols
def test_a_sleeper_that_only_unsubscribes_costs_no_memory(resp: int, connect: Connect) -> None:
    """The frames that it is owed wait behind the events, but it can't make ever more events wait with them."""
    with start_server("--max-pending", "20", "--client-output-buffer-limit", "1mb") as server:
        a, b = connect(server, resp=resp), connect(server)
        subscribe(a, "t")
        publish(b, "t", numbered(800, 20_000))
        before = server.memory()
        for _ in range(100):
            a.start("UNSUBSCRIBE", "u")
            publish(b, "t", numbered(40, 20_000), batch=10)
        after = server.memory()
        assert after < before + (6 << 20), f"{before >> 10} KiB became {after >> 10} KiB"
        a.start("UNSUBSCRIBE", "t")
        frames = 0
        while (value := a.read()) != frame(resp, b"unsubscribe", b"t", 0):
            frames += value == frame(resp, b"unsubscribe", b"u", 1)
        assert frames == 100


@both_protocols
def test_a_sleeper_is_neither_disconnected_nor_stuck(resp: int, connect: Connect) -> None:
    """It may sleep and read as often as it likes; each time order and the count hold, and it can be asked things."""
    with start_server("--max-pending", "30") as server:
        a, b = connect(server, resp=resp), connect(server)
        number = a.id()
        subscribe(a, "t")
        seen = 0
        for n in range(1, 6):
            publish(b, "t", numbered(1000, 20_000))
            found = numbers(waking(a, b))
            assert found == sorted(set(found))
            assert found[-29:] == list(range(971, 1000))
            seen += len(found)
            assert seen + drops(b, number) == 1000 * n


@both_protocols
def test_nothing_comes_behind_the_answer_to_quit(resp: int, connect: Connect, fresh_server: ServerProcess) -> None:
    """A sleeper that has quit takes no event and no message any more, though it has much to read before the end."""
    a, b = connect(fresh_server, resp=resp), connect(fresh_server)
    b.ok("QDECLARE", "q")
    subscribe(a, "t")
    consume(a, "q")
    publish(b, "t", numbered(500, 50_000), batch=10)
    a.start("QUIT")
    wait_until(lambda: b.integer("PUBLISH", "t", "late") == 0, "it has quit")
    put(b, "q", "m")
    found = lease_one(b, "q")
    assert (found.body, found.attempt) == (b"m", 1)
    assert a.read_to_end().endswith(b"\r\n+OK\r\n")


def test_another_protocol_while_events_wait(fresh_server: ServerProcess, connect: Connect) -> None:
    """Events that came before HELLO 2 are pushes and stand before its answer, those that came after are arrays."""
    a, b = connect(fresh_server, resp=3), connect(fresh_server)
    subscribe(a, "t")
    publish(b, "t", numbered(500, 50_000), batch=10)
    a.start("HELLO", 2)
    wait_until(lambda: " resp=2 " in b.text("CLIENT", "LIST", "TYPE", "pubsub"), "it speaks RESP2")
    publish(b, "t", numbered(10, 10))
    before: list[Value] = []
    while isinstance(value := a.read(), Push):
        before.append(value)
    assert numbers([event(one) for one in before]) == list(range(500))
    assert isinstance(value, list)
    assert value[0] == b"server"
    assert all(isinstance(one, list) for one in a.read_many(10))


def test_a_sleeper_that_goes_leaves_nothing(fresh_server: ServerProcess, connect: Connect) -> None:
    """Sleepers with full lines that hang up give their memory back."""
    b = connect(fresh_server)

    def cycle() -> None:
        asleep = [connect(fresh_server) for _ in range(5)]
        for one in asleep:
            subscribe(one, "t")
        publish(b, "t", numbered(300, 50_000), batch=10)
        for one in asleep:
            one.reset()
        wait_until(lambda: b.integer("PUBLISH", "t", "x") == 0, "the subscriptions are gone")

    for _ in range(3):
        cycle()
    before = fresh_server.memory()
    for _ in range(4):
        cycle()
    after = fresh_server.memory()
    assert after < before * 1.1 + (4 << 20), f"{before >> 10} KiB became {after >> 10} KiB"
    assert info(b, "clients")["connected_clients"] == "1"
