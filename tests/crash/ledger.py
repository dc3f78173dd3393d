"""What clients of a broker know for sure about each message: written down before a command is sent and when its reply
has come, so that after a crash each message's state can be judged.

Messages are known by their bodies, which are unique. An entry has at most one operation in flight, that of the client
which holds its lease; only the operation in flight may have happened or not.
"""

from __future__ import annotations

import enum
import itertools
import threading
from collections import Counter
from dataclasses import dataclass, field

from tests.support import Arg, Value, as_bytes, as_dict, as_int, as_list


class Phase(enum.Enum):
    """Where a message is."""

    PUTTING = "its put was sent"
    WAITING = "ready or delayed"
    LEASED = "leased"
    DEAD = "a dead letter"
    GONE = "acked or deleted"


class Op(enum.Enum):
    """What the holder of a lease, or of a dead letter's id, may have in flight."""

    ACK = "ack"
    DELETE = "delete"
    FAIL = "nack"
    RELEASE = "nack release"
    REJECT = "nack reject"
    TOUCH = "touch"
    REPLAY = "dead replay"


@dataclass(frozen=True, slots=True)
class Queue:
    """A queue of the test: its name, its ACKTIMEOUT in ms, and whether leases may end there by themselves."""

    name: str
    lease: int
    expires: bool


@dataclass(slots=True)
class Options:
    """What a message was put with; `delay` in ms."""

    id: bytes | None = None
    priority: int = 0
    delay: int = 0
    headers: dict[bytes, bytes] = field(default_factory=dict)
    attachments: list[bytes] = field(default_factory=list)

    def args(self) -> list[Arg]:
        """As QPUT takes them."""
        args: list[Arg] = []
        if self.id is not None:
            args += ["ID", self.id]
        if self.priority:
            args += ["PRIORITY", self.priority]
        if self.delay:
            args += ["DELAY", f"{self.delay}ms"]
        for name, value in self.headers.items():
            args += ["HEADER", name, value]
        for blob in self.attachments:
            args += ["ATTACH", blob]
        return args


@dataclass(slots=True)
class Entry:
    """One message. `attempt` counts its deliveries, `deadline` (ms) and `reqid` are those of its lease; once the lease
    was `touched`, it ends at `deadline` or later.
    """

    body: bytes
    queue: str
    options: Options
    phase: Phase = Phase.PUTTING
    id: bytes | None = None
    attempt: int = 0
    token: bytes | None = None
    deadline: int = 0
    touched: bool = False
    reqid: bytes | None = None
    pending: Op | None = None
    batch: tuple[Entry, ...] = field(default=(), repr=False)
    """Put by one QMPUT: all of them or none."""
    successor: Entry | None = field(default=None, repr=False)
    """What is put in the transaction that acks this one."""


@dataclass(slots=True)
class Request:
    """A QLEASE in flight: its queue, REQID, COUNT."""

    queue: str
    reqid: bytes
    count: int


@dataclass(slots=True)
class Seen:
    """A message as the broker shows it: in a FULL delivery or in a dump."""

    state: str
    queue: str
    id: bytes
    token: bytes | None
    attempt: int
    body: bytes
    priority: int
    enqueued_at: int
    deadline: int
    headers: dict[bytes, bytes]
    attachments: list[bytes]


def seen(state: str, message: dict[bytes, Value]) -> Seen:
    """A FULL map."""
    token, deadline = message[b"lease"], message[b"deadline"]
    return Seen(
        state,
        as_bytes(message[b"queue"]).decode(),
        as_bytes(message[b"id"]),
        token if isinstance(token, bytes) else None,
        as_int(message[b"attempt"]),
        as_bytes(message[b"body"]),
        as_int(message[b"priority"]),
        as_int(message[b"enqueued_at"]),
        deadline if isinstance(deadline, int) else 0,
        {name: as_bytes(value) for name, value in as_dict(message[b"headers"]).items()},
        [as_bytes(blob) for blob in as_list(message[b"attachments"])],
    )


class Ledger:
    """Everything that is known. All methods may be called from any thread."""

    def __init__(self, queues: list[Queue]) -> None:
        self.queues = {queue.name: queue for queue in queues}
        self.entries: dict[bytes, Entry] = {}
        self.lock = threading.RLock()
        self.requests: dict[bytes, Request] = {}
        #: By queue: what the counters of QSTATS have to say.
        self.counters: dict[str, Counter[str]] = {queue.name: Counter() for queue in queues}
        #: By queue: puts of duplicates whose replies are due.
        self.pending_duplicates: Counter[str] = Counter()
        self.tokens: set[bytes] = set()
        self.confirmed: Counter[str] = Counter()
        #: How many messages are in the broker, at most.
        self.outstanding = 0
        self._numbers = itertools.count(1)

    # -- What producers do

    def new(self, queue: str, options: Options, padding: int = 0) -> Entry:
        """A message that is about to be put."""
        with self.lock:
            number = next(self._numbers)
            body = b"%d:" % number + b"x" * padding
            if options.id is not None:
                options.id = b"%b-%d" % (options.id, number)
            entry = self.entries[body] = Entry(body, queue, options)
            self.outstanding += 1
        return entry

    def forget(self, entry: Entry) -> None:
        """Its put never happened."""
        with self.lock:
            del self.entries[entry.body]
            self.outstanding -= 1

    def put_confirmed(self, entry: Entry, id: bytes) -> None:
        """The reply to its put came; it may have been leased already."""
        with self.lock:
            self.confirmed["put"] += 1
            if entry.phase is Phase.PUTTING:
                self._stored(entry, id)
            assert entry.id == id, f"{entry} was delivered with another id than its put answered: {id!r}"

    def _stored(self, entry: Entry, id: bytes) -> None:
        assert entry.options.id is None or entry.options.id == id, f"{entry}: {id!r}"
        entry.id, entry.phase, entry.attempt = id, Phase.WAITING, 0
        self.counters[entry.queue]["enqueued"] += 1

    # -- What workers do

    def leased(self, message: Seen, reqid: bytes | None) -> Entry:
        """A delivery came; nobody else may have a lease of it."""
        with self.lock:
            self.confirmed["lease"] += 1
            entry = self.known(message)
            assert message.token is not None
            queue = self.queues[entry.queue]
            began = message.deadline - queue.lease
            if entry.phase is Phase.PUTTING:
                self._stored(entry, message.id)
            assert began >= message.enqueued_at + (entry.options.delay if message.attempt == 1 else 0), (
                f"delivered at {began}, before it was due: {entry}"
            )
            if entry.phase is Phase.LEASED and entry.pending is None:
                assert queue.expires, f"leased to two at a time: {entry}, {message}"
                assert began >= entry.deadline, f"handed out at {began}, before its lease ended: {entry}, {message}"
                self.expired(entry)
            self._settled_by_other(entry, message)
            assert entry.phase is Phase.WAITING, f"delivered: {entry}, {message}"
            assert message.attempt == entry.attempt + 1, f"{entry}, {message}"
            self._take(entry, message, reqid)
        return entry

    def expired(self, entry: Entry) -> None:
        """Its lease has ended by itself."""
        entry.phase, entry.token, entry.pending, entry.reqid = Phase.WAITING, None, None, None
        self.counters[entry.queue].update(retried=1, expired_leases=1)

    def _settled_by_other(self, entry: Entry, message: Seen) -> None:
        """Its delivery tells that what its former holder has in flight was done, or came too late."""
        expired = entry.phase is Phase.LEASED and self.queues[entry.queue].expires
        if expired and entry.pending is Op.RELEASE:
            expired = message.attempt > entry.attempt
        if entry.pending in {Op.FAIL, Op.RELEASE, Op.REPLAY} and not expired:
            self.done(entry)
        elif expired:
            self.expired(entry)

    def _take(self, entry: Entry, message: Seen, reqid: bytes | None) -> None:
        assert message.token is not None
        assert message.token not in self.tokens, f"a token was used again: {message}"
        self.tokens.add(message.token)
        entry.phase, entry.token, entry.reqid = Phase.LEASED, message.token, reqid
        entry.attempt, entry.deadline, entry.touched = message.attempt, message.deadline, False
        self.counters[entry.queue]["delivered"] += 1

    def known(self, message: Seen) -> Entry:
        """The entry of a message that the broker shows, which must be as it was put."""
        entry = self.entries.get(message.body)
        assert entry is not None, f"nobody has put this: {message}"
        options = entry.options
        assert (entry.queue, options.priority, options.headers, options.attachments) == (
            message.queue,
            message.priority,
            message.headers,
            message.attachments,
        ), f"{entry}, {message}"
        assert (entry.id or options.id or message.id) == message.id, f"{entry}, {message}"
        return entry

    def found_leased(self, entry: Entry, message: Seen) -> None:
        """After a crash: a lease that nobody had been told of; it may have expired meanwhile."""
        assert message.attempt == entry.attempt + 1, f"{entry}, {message}"
        if message.state == "leased":
            self._take(entry, message, None)
        else:
            entry.attempt += 1
            self.counters[entry.queue]["delivered"] += 1
            self.expired(entry)

    def found_stored(self, entry: Entry, message: Seen) -> None:
        """After a crash: a message whose put had not been answered."""
        self._stored(entry, message.id)

    def begin(self, entry: Entry, op: Op) -> None:
        """The holder sends an operation."""
        with self.lock:
            entry.pending = op

    def finished(self, entry: Entry, op: Op, token: bytes | None) -> None:
        """The reply to the operation says that it was done. Others may have gone on with the message since."""
        with self.lock:
            self.confirmed[op.value] += 1
            if entry.pending is op and entry.token == token:
                self.done(entry)

    def done(self, entry: Entry) -> None:
        """The operation in flight was done."""
        counters = self.counters[entry.queue]
        match entry.pending:
            case Op.ACK:
                entry.phase = Phase.GONE
                self.outstanding -= 1
                counters["acked"] += 1
            case Op.DELETE:
                entry.phase = Phase.GONE
                self.outstanding -= 1
            case Op.FAIL:
                entry.phase = Phase.WAITING
                counters["retried"] += 1
            case Op.RELEASE:
                entry.phase = Phase.WAITING
                entry.attempt -= 1
            case Op.REJECT:
                entry.phase = Phase.DEAD
                counters["dead_lettered"] += 1
            case Op.REPLAY:
                entry.phase, entry.attempt = Phase.WAITING, 0
            case Op.TOUCH:
                entry.pending, entry.touched = None, True
                return
            case None:
                raise AssertionError(f"nothing is in flight: {entry}")
        entry.pending, entry.token, entry.reqid = None, None, None

    def stale(self, entry: Entry, op: Op, token: bytes) -> None:
        """The reply says that the lease was stale, which only one that may expire can be."""
        with self.lock:
            assert self.queues[entry.queue].expires, f"{op.value} found the lease {token!r} stale: {entry}"
            if entry.pending is op and entry.token == token:
                entry.pending = None

    # -- Counting

    def of(self, *phases: Phase) -> list[Entry]:
        """The entries in these phases."""
        with self.lock:
            return [entry for entry in self.entries.values() if entry.phase in phases]
