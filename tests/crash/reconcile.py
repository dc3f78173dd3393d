"""The judgement after a restart: does the broker hold what the ledger says, and nothing else?

Each operation that was in flight has happened or not; the dump tells which, and the ledger then says so too.
"""

from __future__ import annotations

from dataclasses import dataclass

from tests.crash.ledger import Entry, Ledger, Op, Phase, Request, Seen, seen
from tests.crash.wire_dump import STATES, Dump, dump
from tests.support import Conn, as_bytes, as_int
from tests.support.broker import messages

#: Counters of QSTATS that the ledger knows exactly.
COUNTERS = ("enqueued", "delivered", "acked", "retried", "dead_lettered", "expired_leases", "duplicates")

#: Those that it knows where leases expire: of one that may have, it can't be told from outside how it ended.
FIRM_COUNTERS = ("enqueued", "acked", "dead_lettered")


@dataclass(slots=True)
class Findings:
    """What a crash left undecided: leases that nobody had been told of."""

    orphans: dict[bytes, Entry]


def reconcile(ledger: Ledger, conn: Conn) -> Findings:
    """Judge the state of a broker that has just restarted. Raises AssertionError on whatever was promised otherwise."""
    with ledger.lock:
        found = dump(conn, ages=False)
        now = _time(conn)
        shown = _shown(ledger, found)
        findings = Findings({})
        for entry in list(ledger.entries.values()):
            _judge_transaction(entry, shown)
        for entry in list(ledger.entries.values()):
            message = shown.get(entry.body)
            if entry.phase is Phase.PUTTING:
                _judge_put(ledger, entry, message, shown)
            if message is None:
                _judge_absent(ledger, entry)
            else:
                _judge_present(ledger, entry, message, now, findings)
        _judge_counters(ledger, found)
        ledger.pending_duplicates.clear()
    return findings


def resend_requests(ledger: Ledger, conn: Conn, findings: Findings) -> None:
    """Send each QLEASE again that a crash had left without its reply: it answers what it had taken, or is a new one."""
    requests = list(ledger.requests.values())
    ledger.requests.clear()
    for request in requests:
        reply = _lease(conn, request)
        mine = [message for message in reply if message.token in findings.orphans]
        assert mine in ([], reply), f"old and new leases in one reply: {mine}, {reply}"
        for message in reply:
            entry = findings.orphans.pop(message.token or b"", None)
            if entry is None:
                entry = ledger.leased(message, request.reqid)
            else:
                assert (entry.token, entry.attempt, entry.deadline) == (
                    message.token,
                    message.attempt,
                    message.deadline,
                )
            entry.reqid = request.reqid


def repeat_answered(ledger: Ledger, conn: Conn, reqid: bytes) -> None:
    """Send a QLEASE again whose reply had come: it answers those of its leases that are still live, and no other."""
    with ledger.lock:
        live = {entry.token: entry for entry in ledger.of(Phase.LEASED) if entry.reqid == reqid}
    queue = next(iter(live.values())).queue
    for message in _lease(conn, Request(queue, reqid, 1)):
        entry = live.pop(message.token)
        assert (entry.attempt, entry.deadline) == (message.attempt, message.deadline), f"{entry}, {message}"
    assert not live, f"not answered again: {live}"


def _lease(conn: Conn, request: Request) -> list[Seen]:
    reply = conn.cmd("QLEASE", request.queue, "COUNT", request.count, "REQID", request.reqid, "FULL")
    return [seen("leased", message) for message in messages(reply)]


def _time(conn: Conn) -> int:
    seconds, micros = (int(as_bytes(part)) for part in conn.array("TIME"))
    return seconds * 1000 + micros // 1000


def _shown(ledger: Ledger, found: Dump) -> dict[bytes, Seen]:
    """What the dump shows, by body: each once, known, and as it was put."""
    shown: dict[bytes, Seen] = {}
    for queue in found.queues.values():
        lists = [(state.lower(), queue.live[state]) for state in STATES]
        for state, listed in [*lists, ("dead", queue.dead)]:
            for message in listed:
                one = seen(state, message)
                assert one.body not in shown, f"twice: {one}, {shown[one.body]}"
                shown[one.body] = one
                ledger.known(one)
    return shown


def _judge_transaction(entry: Entry, shown: dict[bytes, Seen]) -> None:
    """Ack this and put the next: both or none."""
    following = entry.successor
    if following is None or entry.pending is not Op.ACK:
        return
    put = following.phase is not Phase.PUTTING or following.body in shown
    assert put == (entry.body not in shown), f"a transaction was torn: {entry}"
    entry.successor = None


def _judge_put(ledger: Ledger, entry: Entry, message: Seen | None, shown: dict[bytes, Seen]) -> None:
    for other in entry.batch:
        assert (other.phase is not Phase.PUTTING or other.body in shown) == (message is not None), (
            f"half a QMPUT: {entry}, {other}"
        )
    if message is not None:
        ledger.found_stored(entry, message)


def _judge_absent(ledger: Ledger, entry: Entry) -> None:
    if entry.phase is Phase.PUTTING:
        ledger.forget(entry)
    elif entry.pending in {Op.ACK, Op.DELETE}:
        ledger.done(entry)
    else:
        assert entry.phase is Phase.GONE, f"lost: {entry}"


def _judge_present(ledger: Ledger, entry: Entry, message: Seen, now: int, findings: Findings) -> None:
    assert entry.phase is not Phase.GONE, f"came back: {entry}, {message}"
    if message.state == "dead":
        if entry.phase is Phase.LEASED and entry.pending is Op.REJECT:
            ledger.done(entry)
        assert entry.phase is Phase.DEAD, f"died: {entry}, {message}"
        assert message.attempt == entry.attempt, f"{entry}, {message}"
        entry.pending = None
        return
    if entry.phase is Phase.LEASED and message.token == entry.token:
        assert message.attempt == entry.attempt, f"{entry}, {message}"
        if entry.pending is Op.TOUCH or entry.touched:
            assert message.deadline >= entry.deadline, f"{entry}, {message}"
            entry.deadline, entry.touched = message.deadline, False
        assert message.deadline == entry.deadline, f"{entry}, {message}"
        entry.pending = None
        return
    _leave_lease(ledger, entry, message, now)
    assert entry.phase is Phase.WAITING, f"{entry}, {message}"
    if message.state != "leased" and message.attempt == entry.attempt:
        return
    assert message.state == "leased" or ledger.queues[entry.queue].expires, f"{entry}, {message}"
    ledger.found_leased(entry, message)
    if message.token is not None:
        findings.orphans[message.token] = entry


def _leave_lease(ledger: Ledger, entry: Entry, message: Seen, now: int) -> None:
    """The lease, or the death, that the ledger knows is over: by what was in flight, or because its time is over."""
    if entry.pending in {Op.FAIL, Op.RELEASE, Op.REPLAY}:
        if entry.pending is Op.FAIL and message.state != "leased":
            assert message.attempt == entry.attempt, f"{entry}, {message}"
        ledger.done(entry)
    elif entry.phase is Phase.LEASED:
        assert ledger.queues[entry.queue].expires, f"its lease is lost: {entry}, {message}"
        assert now >= entry.deadline, f"its lease ended early: {entry}, {message}"
        ledger.expired(entry)


def _judge_counters(ledger: Ledger, found: Dump) -> None:
    for name, expected in ledger.counters.items():
        stats = found.queues[name.encode()].stats
        counted = {counter: as_int(stats[counter.encode()]) for counter in COUNTERS}
        surplus = counted["duplicates"] - expected["duplicates"]
        assert 0 <= surplus <= ledger.pending_duplicates[name], f"{name}: {counted}, {dict(expected)}"
        expected["duplicates"] = counted["duplicates"]
        known = FIRM_COUNTERS if ledger.queues[name].expires else COUNTERS
        assert all(counted[counter] == expected[counter] for counter in known), f"{name}: {counted}, {dict(expected)}"
