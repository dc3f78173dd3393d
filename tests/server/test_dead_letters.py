"""Dead letters and limits: a replay is a fresh start, limits hold, and nothing that was acknowledged is lost."""

from __future__ import annotations

import itertools

import pytest

from tests.support import (
    Arg,
    Conn,
    advance,
    as_bytes,
    as_dict,
    as_int,
    as_list,
    bodies,
    counts,
    dead,
    dead_bodies,
    is_null,
    lease,
    lease_one,
    messages,
    peek,
    peeked_bodies,
    put,
    put_all,
    stat,
)


def reject(conn: Conn, queue: str, count: int = 1) -> None:
    """Let so many messages die."""
    for found in lease(conn, queue, "COUNT", count):
        assert conn.integer("QNACK", queue, found.lease, "REJECT") == 1


# -- Replay


@pytest.mark.parametrize("death", ["max_attempts", "rejected", "ttl_expired", "max_length"])
def test_a_replay_is_a_fresh_start(death: str, virtual: Conn, queue: str) -> None:
    """Whatever it died of: attempt 1 again, with all its attempts before it."""
    declared: list[Arg] = ["MAXATTEMPTS", 3, "RETRYDELAY", 0]
    if death == "max_length":
        declared += ["MAXLEN", 1, "OVERFLOW", "DROPHEAD"]
    virtual.ok("QDECLARE", queue, *declared)
    put(virtual, queue, "m", *(["TTL", "1s"] if death == "ttl_expired" else []))
    if death == "max_attempts":
        for _ in range(3):
            virtual.integer("QNACK", queue, lease_one(virtual, queue).lease)
    elif death == "rejected":
        reject(virtual, queue)
    elif death == "ttl_expired":
        advance(virtual, "1s")
    else:
        put(virtual, queue, "pusher", "ID", "pusher")
        virtual.integer("QDEL", queue, "pusher")
    assert [letter[b"reason"] for letter in dead(virtual, queue)] == [death.encode()]
    assert virtual.integer("QDEAD", "REPLAY", queue) == 1
    for attempt in (1, 2, 3):
        assert counts(virtual, queue, "ready", "dead") == (1, 0)
        found = lease_one(virtual, queue)
        assert (found.body, found.attempt) == (b"m", attempt)
        assert virtual.integer("QNACK", queue, found.lease) == 1
    assert [letter[b"reason"] for letter in dead(virtual, queue)] == [b"max_attempts"]


def test_a_replayed_message_stands_at_the_back_of_its_priority(virtual: Conn, queue: str) -> None:
    """Oldest first among several, behind what waits, in front of what is less urgent."""
    virtual.ok("QDECLARE", queue)
    put_all(virtual, queue, "abc")
    reject(virtual, queue, 3)
    put(virtual, queue, "waits")
    put(virtual, queue, "less urgent", "PRIORITY", 1)
    assert virtual.integer("QDEAD", "REPLAY", queue) == 3
    assert peeked_bodies(virtual, queue) == [b"waits", b"a", b"b", b"c", b"less urgent"]


def test_a_replay_takes_the_ids_that_are_there(virtual: Conn, queue: str) -> None:
    """Unknown ids, repeated ones and those that live again are skipped, and not counted."""
    virtual.ok("QDECLARE", queue, "DEDUPE", 0)
    for name in "abc":
        put(virtual, queue, name, "ID", name)
    reject(virtual, queue, 3)
    put(virtual, queue, "new b", "ID", "b")
    assert virtual.integer("QDEAD", "REPLAY", queue, "nobody", "a", "a", "b") == 1
    assert peeked_bodies(virtual, queue) == [b"new b", b"a"]
    assert dead_bodies(virtual, queue) == [b"b", b"c"]


def test_a_replay_is_not_held_up_by_maxlen(virtual: Conn, queue: str) -> None:
    """MAXLEN is for puts: what was dead comes back into a full queue, and pushes nothing out."""
    virtual.ok("QDECLARE", queue, "MAXLEN", 2, "OVERFLOW", "DROPHEAD")
    put_all(virtual, queue, "abcd")
    assert dead_bodies(virtual, queue) == [b"a", b"b"]
    assert virtual.integer("QDEAD", "REPLAY", queue) == 2
    assert counts(virtual, queue, "ready", "dead") == (4, 0)


# -- The list of the dead


def test_the_list_tells_what_happened(virtual: Conn, queue: str) -> None:
    """Oldest first; each a whole message with reason, error, attempt and the moment of its death."""
    virtual.ok("QDECLARE", queue)
    for n in range(5):
        put(virtual, queue, n, "HEADER", "n", n, "ATTACH", f"blob {n}", "PRIORITY", n)
        virtual.integer("QNACK", queue, lease_one(virtual, queue).lease, "REJECT", "ERROR", f"error {n}")
        advance(virtual, "1s")
    letters = dead(virtual, queue)
    assert [letter[b"body"] for letter in letters] == [b"%d" % n for n in range(5)]
    assert [letter[b"error"] for letter in letters] == [b"error %d" % n for n in range(5)]
    assert [as_dict(letter[b"headers"]) for letter in letters] == [{b"n": b"%d" % n} for n in range(5)]
    assert [letter[b"attachments"] for letter in letters] == [[b"blob %d" % n] for n in range(5)]
    assert [letter[b"priority"] for letter in letters] == list(range(5))
    assert {as_bytes(letter[b"reason"]) for letter in letters} == {b"rejected"}
    times = [as_int(letter[b"dead_at"]) for letter in letters]
    assert [later - earlier for earlier, later in itertools.pairwise(times)] == [1000] * 4
    assert all(is_null(letter[b"lease"]) and is_null(letter[b"deadline"]) for letter in letters)


def test_the_list_can_be_paged_counted_popped_and_purged(virtual: Conn, queue: str) -> None:
    """LIST with COUNT and OFFSET, LEN, POP one or many from the oldest on, PURGE of some or all."""
    virtual.ok("QDECLARE", queue)
    for n in range(150):
        put(virtual, queue, n, "ID", n)
    reject(virtual, queue, 150)
    assert len(dead(virtual, queue)) == 100
    assert [letter[b"id"] for letter in dead(virtual, queue, "COUNT", 3, "OFFSET", 148)] == [b"148", b"149"]
    assert dead(virtual, queue, "OFFSET", 150) == []
    assert virtual.integer("QDEAD", "LEN", queue) == 150
    assert [letter[b"id"] for letter in messages(virtual.cmd("QDEAD", "POP", queue))] == [b"0"]
    popped = messages(virtual.cmd("QDEAD", "POP", queue, "COUNT", 3))
    assert [letter[b"id"] for letter in popped] == [b"1", b"2", b"3"]
    assert virtual.integer("QDEAD", "PURGE", queue, "4", "4", "nobody", "0") == 1
    assert virtual.integer("QDEAD", "LEN", queue) == 145
    assert virtual.integer("QDEAD", "PURGE", queue) == 145
    assert as_list(virtual.cmd("QDEAD", "POP", queue, "COUNT", 10)) == []
    assert stat(virtual, queue, "dead") == 0


def test_a_history_of_deaths_does_not_grow(virtual: Conn, queue: str) -> None:
    """Dead and replayed 2,000 times, a message is as large as after the first time."""
    virtual.ok("QDECLARE", queue)
    put(virtual, queue, "m" * 100, "HEADER", "h", "v", "ID", "k")

    def round_trip() -> tuple[int, int, int, int]:
        alive = stat(virtual, queue, "bytes")
        shown = len(virtual.raw("QSHOW", queue, "k"))
        virtual.integer("QNACK", queue, lease_one(virtual, queue).lease, "REJECT", "ERROR", "again")
        letter = len(virtual.raw("QDEAD", "LIST", queue))
        left = stat(virtual, queue, "bytes")
        assert virtual.integer("QDEAD", "REPLAY", queue) == 1
        return alive, shown, letter, left

    first = round_trip()
    assert first[0] > 100
    assert first[3] == 0
    for _ in range(2000):
        assert round_trip() == first


# -- MAXDEAD


@pytest.mark.parametrize("death", ["rejected", "max_attempts", "ttl_expired", "max_length", "ack timeout"])
def test_maxdead_holds_whatever_they_die_of(death: str, virtual: Conn, queue: str) -> None:
    """The oldest is dropped first, and counted."""
    overflow: list[Arg] = ["MAXLEN", 1, "OVERFLOW", "DROPHEAD"] if death == "max_length" else []
    virtual.ok("QDECLARE", queue, "MAXDEAD", 3, "MAXATTEMPTS", 1, "ACKTIMEOUT", "1s", *overflow)
    put_all(virtual, queue, range(10))
    if death == "ttl_expired":
        virtual.integer("QPURGE", queue)
        virtual.pipeline([("QPUT", queue, n, "TTL", "1s") for n in range(10)])
        advance(virtual, "1s")
    elif death == "max_length":
        put(virtual, queue, "last")
    else:
        found = lease(virtual, queue, "COUNT", 10)
        if death == "ack timeout":
            advance(virtual, "1s")
        else:
            for one in found:
                virtual.integer("QNACK", queue, one.lease, *(["REJECT"] if death == "rejected" else []))
    assert dead_bodies(virtual, queue) == [b"7", b"8", b"9"]
    assert counts(virtual, queue, "dead", "dead_dropped", "dead_lettered") == (3, 7, 10)


# -- MAXLEN


def test_a_full_queue_refuses(virtual: Conn, queue: str) -> None:
    """-QUEUEFULL at MAXLEN, delayed ones counted in, leased ones not; nothing of the refused put stays."""
    virtual.ok("QDECLARE", queue, "MAXLEN", 3)
    put_all(virtual, queue, "ab")
    put(virtual, queue, "c", "DELAY", "1h")
    reply = virtual.error("QPUT", queue, "d")
    assert reply.code == b"QUEUEFULL"
    assert virtual.error("QPUT", queue, "d", "DELAY", "1h").code == b"QUEUEFULL"
    lease_one(virtual, queue)
    put(virtual, queue, "e")
    assert virtual.error("QPUT", queue, "f").code == b"QUEUEFULL"
    assert counts(virtual, queue, "ready", "delayed", "in_flight", "enqueued") == (2, 1, 1, 4)


@pytest.mark.parametrize("overflow", ["REJECT", "DROPHEAD"])
def test_a_batch_is_stored_whole_or_not_at_all(overflow: str, virtual: Conn, queue: str) -> None:
    """More than MAXLEN is -QUEUEFULL whatever OVERFLOW says, and no message of it is there."""
    virtual.ok("QDECLARE", queue, "MAXLEN", 3, "OVERFLOW", overflow)
    assert virtual.error("QMPUT", queue, *"abcd").code == b"QUEUEFULL"
    assert counts(virtual, queue, "ready", "dead", "enqueued") == (0, 0, 0)
    assert len(virtual.array("QMPUT", queue, *"abc")) == 3
    if overflow == "REJECT":
        assert virtual.error("QMPUT", queue, "d").code == b"QUEUEFULL"
        assert peeked_bodies(virtual, queue) == [b"a", b"b", b"c"]
    else:
        assert len(virtual.array("QMPUT", queue, "d", "e")) == 2
        assert peeked_bodies(virtual, queue) == [b"c", b"d", b"e"]
        assert dead_bodies(virtual, queue) == [b"a", b"b"]


def test_a_batch_that_almost_fits_is_refused_whole(virtual: Conn, queue: str) -> None:
    """Two free places and three messages: none is stored."""
    virtual.ok("QDECLARE", queue, "MAXLEN", 3)
    put(virtual, queue, "a")
    assert virtual.error("QMPUT", queue, *"bcd").code == b"QUEUEFULL"
    assert peeked_bodies(virtual, queue) == [b"a"]


@pytest.mark.parametrize("overflow", ["REJECT", "DROPHEAD"])
@pytest.mark.parametrize("back", ["nack", "delay", "release", "expiry"])
def test_what_comes_back_into_a_full_queue_is_not_lost(back: str, overflow: str, virtual: Conn, queue: str) -> None:
    """MAXLEN 3: three leased, three more put, the first three return: six are there and none is dead."""
    virtual.ok("QDECLARE", queue, "MAXLEN", 3, "OVERFLOW", overflow, "ACKTIMEOUT", "1s", "RETRYDELAY", 0)
    put_all(virtual, queue, "abc")
    found = lease(virtual, queue, "COUNT", 3)
    put_all(virtual, queue, "def")
    options = {"nack": "", "delay": "DELAY 1s", "release": "RELEASE"}
    if back != "expiry":
        for one in found:
            assert virtual.integer("QNACK", queue, one.lease, *options[back].split()) == 1
    advance(virtual, "1s")
    assert counts(virtual, queue, "ready", "delayed", "in_flight", "dead") == (6, 0, 0, 0)
    assert sorted(peeked_bodies(virtual, queue)) == [b"a", b"b", b"c", b"d", b"e", b"f"]


def test_each_message_that_is_pushed_out_is_dead_and_counted(virtual: Conn, queue: str) -> None:
    """DROPHEAD: of all that was acknowledged to a producer, everything is ready, leased or a dead letter."""
    virtual.ok("QDECLARE", queue, "MAXLEN", 3, "OVERFLOW", "DROPHEAD", "RETRYDELAY", 0)
    put_all(virtual, queue, "abc")
    found = lease(virtual, queue, "COUNT", 3)
    put_all(virtual, queue, "defgh")
    for one in found:
        virtual.integer("QNACK", queue, one.lease)
    put_all(virtual, queue, "ij")
    letters = dead(virtual, queue)
    assert {as_bytes(letter[b"reason"]) for letter in letters} == {b"max_length"}
    everything = [*peeked_bodies(virtual, queue), *dead_bodies(virtual, queue)]
    assert sorted(everything) == [name.encode() for name in "abcdefghij"]
    assert stat(virtual, queue, "dead_lettered") == len(letters)


def test_dropping_takes_the_oldest_of_the_least_urgent(virtual: Conn, queue: str) -> None:
    """Never a leased one, never the new one, however unimportant the new one is; a delayed one waits as well."""
    virtual.ok("QDECLARE", queue, "MAXLEN", 4, "OVERFLOW", "DROPHEAD", "DEDUPE", 0)
    put(virtual, queue, "leased", "PRIORITY", 99)
    lease_one(virtual, queue)
    for name, priority in [("urgent", -5), ("old", 5), ("middle", 0), ("young", 5)]:
        put(virtual, queue, name, "PRIORITY", priority)
    put(virtual, queue, "new", "PRIORITY", 1000)
    assert dead_bodies(virtual, queue) == [b"old"]
    put(virtual, queue, "newer", "PRIORITY", -1000)
    assert dead_bodies(virtual, queue) == [b"old", b"new"]
    put(virtual, queue, "delayed", "PRIORITY", 7, "DELAY", "1h")
    assert dead_bodies(virtual, queue) == [b"old", b"new", b"young"]
    put(virtual, queue, "newest", "PRIORITY", 0)
    assert dead_bodies(virtual, queue) == [b"old", b"new", b"young", b"delayed"]
    assert counts(virtual, queue, "ready", "delayed", "in_flight") == (4, 0, 1)


def test_a_full_queue_of_one_keeps_the_new_message(virtual: Conn, queue: str) -> None:
    """MAXLEN 1, DROPHEAD: a thousand puts, one alive, the last."""
    virtual.ok("QDECLARE", queue, "MAXLEN", 1, "OVERFLOW", "DROPHEAD", "MAXDEAD", 10)
    put_all(virtual, queue, range(1000))
    assert peeked_bodies(virtual, queue) == [b"999"]
    assert counts(virtual, queue, "dead", "dead_dropped", "dead_lettered") == (10, 989, 999)


# -- Deleting


def test_a_deleted_message_is_gone_wherever_it_was(virtual: Conn, queue: str) -> None:
    """Ready, delayed or leased: QDEL removes it and counts it; a dead letter is QDEAD's."""
    virtual.ok("QDECLARE", queue)
    for name in ("dead", "leased", "ready"):
        put(virtual, queue, name, "ID", name)
    put(virtual, queue, "delayed", "ID", "delayed", "DELAY", "1s")
    reject(virtual, queue)
    token = lease_one(virtual, queue).lease
    assert virtual.integer("QDEL", queue, "dead", "leased", "ready", "delayed", "delayed", "nobody") == 3
    assert virtual.integer("QACK", queue, token) == 0
    assert virtual.integer("QTOUCH", queue, token) == 0
    advance(virtual, "1h")
    assert counts(virtual, queue, "ready", "delayed", "in_flight", "dead", "bytes") == (0, 0, 0, 1, 0)


def test_everything_of_a_deleted_queue_is_gone(virtual: Conn, queue: str) -> None:
    """Declared anew it is empty, with its counters at 0; old tokens are stale and no old deadline reaches it."""
    virtual.ok("QDECLARE", queue, "ACKTIMEOUT", "1s", "RETRYDELAY", 0)
    put_all(virtual, queue, "abc")
    put(virtual, queue, "later", "DELAY", "1s")
    reject(virtual, queue)
    token = lease_one(virtual, queue).lease
    assert virtual.integer("QDELETE", queue) == 1
    assert virtual.error("QPUT", queue, "x").code == b"NOQUEUE"
    assert virtual.error("QDELETE", queue).code == b"NOQUEUE"
    virtual.ok("QDECLARE", queue)
    assert virtual.integer("QACK", queue, token) == 0
    advance(virtual, "1h")
    assert counts(virtual, queue, "ready", "delayed", "in_flight", "dead", "enqueued", "expired_leases") == (0,) * 6
    assert bodies(lease(virtual, queue)) == []
    assert peek(virtual, queue, "STATE", "DELAYED") == []
