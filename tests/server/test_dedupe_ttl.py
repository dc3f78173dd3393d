"""Message ids within their window, and messages that don't outlive their time."""

from __future__ import annotations

import pytest

from tests.support import (
    Arg,
    Conn,
    advance,
    as_int,
    bodies,
    counts,
    dead,
    dead_bodies,
    is_null,
    lease,
    lease_one,
    peek,
    peeked_bodies,
    put,
    put_all,
    stat,
)


def is_duplicate(conn: Conn, queue: str, message_id: Arg, *options: Arg) -> bool:
    """Put with this id: whether it was turned away."""
    return is_null(conn.cmd("QPUT", queue, "again", "ID", message_id, *options))


# -- Ids


def test_a_message_is_no_duplicate_of_itself(virtual: Conn, queue: str) -> None:
    """A delay, a nack with one, an expiry and a release bring it back each time; only a new put is turned away."""
    virtual.ok("QDECLARE", queue, "ACKTIMEOUT", "1s", "RETRYDELAY", "1s", "MAXATTEMPTS", 10)
    put(virtual, queue, "m", "ID", "k", "DELAY", "50ms")
    advance(virtual, "50ms")
    virtual.integer("QNACK", queue, lease_one(virtual, queue).lease, "DELAY", "1s")
    advance(virtual, "1s")
    found = lease_one(virtual, queue)
    assert (found.id, found.attempt) == (b"k", 2)
    advance(virtual, "2s")
    assert stat(virtual, queue, "delayed") == 1
    advance(virtual, "1s")
    found = lease_one(virtual, queue)
    assert (found.id, found.attempt) == (b"k", 3)
    virtual.integer("QNACK", queue, found.lease, "RELEASE")
    assert lease_one(virtual, queue).id == b"k"
    assert is_duplicate(virtual, queue, "k")
    assert counts(virtual, queue, "enqueued", "duplicates", "in_flight") == (1, 1, 1)


def test_a_message_is_no_duplicate_of_itself_after_its_death(virtual: Conn, queue: str) -> None:
    """A replay within the window brings it back under its id."""
    virtual.ok("QDECLARE", queue)
    put(virtual, queue, "m", "ID", "k")
    virtual.integer("QNACK", queue, lease_one(virtual, queue).lease, "REJECT")
    assert virtual.integer("QDEAD", "REPLAY", queue, "k") == 1
    assert lease_one(virtual, queue).id == b"k"


def test_the_window_runs_from_the_put_and_outlives_the_message(virtual: Conn, queue: str) -> None:
    """Acked at once, the id is remembered for DEDUPE after its put, and no longer."""
    virtual.ok("QDECLARE", queue, "DEDUPE", "10s")
    put(virtual, queue, "m", "ID", "k")
    advance(virtual, "5s")
    virtual.integer("QACK", queue, lease_one(virtual, queue).lease)
    advance(virtual, "4999ms")
    assert is_duplicate(virtual, queue, "k")
    advance(virtual, "1ms")
    assert not is_duplicate(virtual, queue, "k")
    assert counts(virtual, queue, "enqueued", "duplicates") == (2, 1)


def test_an_id_in_the_queue_is_a_duplicate_however_old(virtual: Conn, queue: str) -> None:
    """Ready, delayed or leased: as long as it is there, its id is taken, window or no window."""
    virtual.ok("QDECLARE", queue, "DEDUPE", 0, "ACKTIMEOUT", "3650d")
    put(virtual, queue, "ready", "ID", "r", "PRIORITY", 1)
    put(virtual, queue, "delayed", "ID", "d", "DELAY", "3650d")
    put(virtual, queue, "leased", "ID", "l")
    token = lease_one(virtual, queue).lease
    advance(virtual, "300d")
    assert [is_duplicate(virtual, queue, one) for one in ("r", "d", "l")] == [True] * 3
    virtual.integer("QACK", queue, token)
    assert not is_duplicate(virtual, queue, "l")


def test_without_a_window_an_id_is_free_as_soon_as_it_is_gone(virtual: Conn, queue: str) -> None:
    """DEDUPE 0: acked, deleted or purged."""
    virtual.ok("QDECLARE", queue, "DEDUPE", 0)
    put(virtual, queue, "m", "ID", "k")
    virtual.integer("QACK", queue, lease_one(virtual, queue).lease)
    assert not is_duplicate(virtual, queue, "k")
    assert virtual.integer("QDEL", queue, "k") == 1
    assert not is_duplicate(virtual, queue, "k")
    assert virtual.integer("QPURGE", queue) == 1
    assert not is_duplicate(virtual, queue, "k")


def test_a_dead_letter_s_id_is_taken_only_within_the_window(virtual: Conn, queue: str) -> None:
    """Dead letters apart: after the window its id can be put again, and the replay then skips it."""
    virtual.ok("QDECLARE", queue, "DEDUPE", "10s")
    put(virtual, queue, "m", "ID", "k")
    virtual.integer("QNACK", queue, lease_one(virtual, queue).lease, "REJECT")
    assert is_duplicate(virtual, queue, "k")
    advance(virtual, "10s")
    assert not is_duplicate(virtual, queue, "k")
    assert virtual.integer("QDEAD", "REPLAY", queue, "k") == 0
    assert virtual.integer("QDEAD", "REPLAY", queue) == 0
    assert counts(virtual, queue, "ready", "dead") == (1, 1)
    assert virtual.mapping("QSHOW", queue, "k")[b"body"] == b"again"


def test_a_duplicate_is_one_even_when_the_queue_is_full(virtual: Conn, queue: str) -> None:
    """Null rather than QUEUEFULL: the producer that asks again learns that its message is there."""
    virtual.ok("QDECLARE", queue, "MAXLEN", 1)
    put(virtual, queue, "m", "ID", "k")
    assert is_duplicate(virtual, queue, "k")
    assert virtual.error("QPUT", queue, "m", "ID", "other").code == b"QUEUEFULL"
    assert counts(virtual, queue, "ready", "duplicates") == (1, 1)


def test_a_refused_put_is_not_remembered(virtual: Conn, queue: str) -> None:
    """An error changes no state: the id of a put that was refused is free."""
    virtual.ok("QDECLARE", queue, "MAXLEN", 1)
    put(virtual, queue, "m")
    virtual.error("QPUT", queue, "m", "ID", "k")
    virtual.error("QPUT", queue, "m", "ID", "k", "PRIORITY", "nan")
    virtual.integer("QPURGE", queue)
    assert put(virtual, queue, "m", "ID", "k") == b"k"


def test_ids_of_one_queue_are_nothing_to_another(virtual: Conn, queue: str) -> None:
    """Nor to a queue of the same name that was deleted and declared anew."""
    for name in (queue, queue + ".other"):
        virtual.ok("QDECLARE", name)
        assert put(virtual, name, "m", "ID", "k") == b"k"
    virtual.integer("QDELETE", queue)
    virtual.ok("QDECLARE", queue)
    assert put(virtual, queue, "m", "ID", "k") == b"k"


# -- Time to live


@pytest.mark.parametrize("where", ["put", "queue", "both"])
def test_a_message_dies_at_its_time_with_nobody_looking(where: str, virtual: Conn, queue: str) -> None:
    """TTL 100ms: the death is dated at that moment, though nobody asked for a long time."""
    virtual.ok("QDECLARE", queue, *({"queue": ["TTL", "100ms"], "both": ["TTL", "1h"]}.get(where, [])))
    put(virtual, queue, "m", *([] if where == "queue" else ["TTL", "100ms"]))
    put_time = as_int(peek(virtual, queue)[0][b"enqueued_at"])
    advance(virtual, "10s")
    (letter,) = dead(virtual, queue)
    assert letter[b"reason"] == b"ttl_expired"
    assert as_int(letter[b"dead_at"]) - put_time == 100
    assert counts(virtual, queue, "ready", "dead", "dead_lettered") == (0, 1, 1)


def test_on_the_real_clock_it_dies_by_itself(conn: Conn, queue: str) -> None:
    """Only another queue is asked meanwhile; the death lies at its moment, not at the moment of the question."""
    other = queue + ".other"
    conn.ok("QDECLARE", queue)
    conn.ok("QDECLARE", other)
    put(conn, queue, "m", "TTL", "100ms")
    put(conn, other, "later", "DELAY", "1s")
    assert lease(conn, other, "WAIT", 30) != []
    (letter,) = dead(conn, queue)
    assert 100 <= as_int(letter[b"dead_at"]) - as_int(letter[b"enqueued_at"]) < 900


def test_it_lives_until_the_last_millisecond(virtual: Conn, queue: str) -> None:
    """At 99 ms it can be leased; at 100 ms it cannot."""
    virtual.ok("QDECLARE", queue)
    put(virtual, queue, "a", "TTL", "100ms")
    put(virtual, queue, "b", "TTL", "100ms")
    advance(virtual, "99ms")
    assert bodies(lease(virtual, queue)) == [b"a"]
    advance(virtual, "1ms")
    assert lease(virtual, queue) == []
    assert dead_bodies(virtual, queue) == [b"b"]


def test_a_put_can_only_shorten_the_queue_s_ttl(virtual: Conn, queue: str) -> None:
    """The shorter of the two counts."""
    virtual.ok("QDECLARE", queue, "TTL", "1s")
    put(virtual, queue, "long", "TTL", "1h")
    put(virtual, queue, "short", "TTL", "500ms")
    advance(virtual, "500ms")
    assert dead_bodies(virtual, queue) == [b"short"]
    advance(virtual, "500ms")
    assert dead_bodies(virtual, queue) == [b"short", b"long"]


def test_the_clock_stands_while_it_is_leased_and_starts_anew_on_return(virtual: Conn, queue: str) -> None:
    """A lease far longer than the TTL does no harm; back in the queue the whole TTL is there again."""
    virtual.ok("QDECLARE", queue, "TTL", "1s", "ACKTIMEOUT", "1h", "RETRYDELAY", 0)
    for back in ([], ["RELEASE"]):
        put(virtual, queue, "m")
        advance(virtual, "900ms")
        token = lease_one(virtual, queue).lease
        advance(virtual, "10s")
        assert virtual.integer("QNACK", queue, token, *back) == 1
        advance(virtual, "999ms")
        assert counts(virtual, queue, "ready", "dead") == (1, 0)
        advance(virtual, "1ms")
        assert counts(virtual, queue, "ready", "dead") == (0, 1)
        assert virtual.integer("QDEAD", "PURGE", queue) == 1


def test_waiting_for_its_delay_counts(virtual: Conn, queue: str) -> None:
    """A message dies while delayed too, so a DELAY that is not below the TTL is refused."""
    virtual.ok("QDECLARE", queue)
    for delay in ("1s", "2s"):
        assert virtual.error("QPUT", queue, "m", "DELAY", delay, "TTL", "1s").code == b"ERR"
    assert stat(virtual, queue, "enqueued") == 0
    put(virtual, queue, "m", "DELAY", "999ms", "TTL", "1s")
    advance(virtual, "999ms")
    assert counts(virtual, queue, "ready", "dead") == (1, 0)
    advance(virtual, "1ms")
    assert counts(virtual, queue, "ready", "dead") == (0, 1)


def test_what_killed_it_does_not_come_back_with_it(virtual: Conn, queue: str) -> None:
    """Dead by its TTL it stays listed as long as nobody takes it; replayed it lives for a whole TTL again."""
    virtual.ok("QDECLARE", queue)
    put(virtual, queue, "m", "TTL", "100ms")
    advance(virtual, "1100ms")
    assert dead_bodies(virtual, queue) == [b"m"]
    assert virtual.integer("QDEAD", "REPLAY", queue) == 1
    assert counts(virtual, queue, "ready", "dead") == (1, 0)
    advance(virtual, "99ms")
    assert counts(virtual, queue, "ready", "dead") == (1, 0)
    found = lease_one(virtual, queue)
    assert found.attempt == 1
    assert virtual.integer("QACK", queue, found.lease) == 1


def test_dead_letters_have_no_ttl(virtual: Conn, queue: str) -> None:
    """They stay until somebody takes them."""
    virtual.ok("QDECLARE", queue, "TTL", "100ms")
    put_all(virtual, queue, range(10))
    advance(virtual, "100ms")
    advance(virtual, "365d")
    assert stat(virtual, queue, "dead") == 10


def test_many_that_die_at_once_all_die(virtual: Conn, queue: str) -> None:
    """However many TTLs end in one millisecond: all, in the order in which they stood."""
    virtual.ok("QDECLARE", queue, "MAXDEAD", 100_000)
    virtual.pipeline([("QPUT", queue, n, "TTL", "1s") for n in range(5000)])
    advance(virtual, "1s")
    assert counts(virtual, queue, "ready", "dead") == (0, 5000)
    assert dead_bodies(virtual, queue) == [b"%d" % n for n in range(5000)]
    assert peeked_bodies(virtual, queue) == []
