"""Producers, workers and consumers, each a thread with its own connection, that use a broker until it is killed."""

from __future__ import annotations

import random
import threading
import time
import uuid
from collections.abc import Callable
from typing import TypeAlias

from tests.crash.ledger import Entry, Ledger, Op, Options, Phase, Queue, Request, seen
from tests.support import Arg, ClosedError, Conn, Error, Push, Value, as_bytes, as_dict, as_list, encode, is_null
from tests.support.broker import messages

CROWD = 400
"""Above so many messages in the broker producers pause."""

PREFETCH = 4

Command: TypeAlias = "list[Arg]"
"""One command's words."""


class Crew:
    """Clients of one life of a server. `faults` is what they met that must not be."""

    def __init__(self, ledger: Ledger, port: int, seed: int) -> None:
        self.ledger = ledger
        self.faults: list[BaseException] = []
        self._port = port
        self._seed = seed
        self._killing = threading.Event()
        self._threads: list[threading.Thread] = []

    def start(self, producers: int = 3, workers: int = 4, consumers: int = 1) -> None:
        """Set them to work."""
        kinds: list[Callable[[Ledger, Conn, random.Random], Callable[[], None]]] = [
            *[Producer] * producers,
            *[Worker] * workers,
            *[Consumer] * consumers,
        ]
        for number, kind in enumerate(kinds):
            dice = random.Random(self._seed * 1000 + number)
            thread = threading.Thread(target=self._work, args=(kind, dice), daemon=True)
            self._threads.append(thread)
            thread.start()

    def expect_the_end(self) -> None:
        """From now on a connection may break."""
        self._killing.set()

    def join(self) -> None:
        """Wait for all; raises the first fault that one met."""
        for thread in self._threads:
            thread.join(30)
            assert not thread.is_alive()
        if self.faults:
            raise self.faults[0]

    def _work(self, kind: Callable[[Ledger, Conn, random.Random], Callable[[], None]], dice: random.Random) -> None:
        try:
            with Conn(self._port) as conn:
                step = kind(self.ledger, conn, dice)
                while not self._killing.is_set():
                    step()
        except (ClosedError, ConnectionError) as error:
            if not self._killing.is_set():
                self.faults.append(error)
        except Exception as error:  # noqa: BLE001  # it is raised in the thread that joins
            self.faults.append(error)


class Client:
    """What all of them do."""

    def __init__(self, ledger: Ledger, conn: Conn, dice: random.Random) -> None:
        self.ledger = ledger
        self.conn = conn
        self.dice = dice

    def any_queue(self) -> Queue:
        """One of the queues."""
        return self.dice.choice(list(self.ledger.queues.values()))

    def read(self) -> Value:
        """The next reply."""
        return self.conn.read()

    def ask(self, *args: Arg) -> Value:
        """One command; its reply, which must be no error."""
        self.conn.start(*args)
        reply = self.read()
        assert not isinstance(reply, Error), f"{args}: {reply!r}"
        return reply

    def new(self, queue: Queue) -> Entry:
        """A message with options by chance."""
        dice = self.dice
        options = Options()
        if dice.random() < 0.4:
            options.id = b"chosen"
        if dice.random() < 0.3:
            options.priority = dice.choice([-1, 1, 2, 2**63 - 1, -(2**63)])
        if dice.random() < 0.2:
            options.delay = dice.choice([1, 20, 100, 400, 5000])
        if dice.random() < 0.2:
            options.headers = {b"h": dice.randbytes(8), b"\xff\r\n": b""}
        if dice.random() < 0.1:
            options.attachments = [dice.randbytes(100), b""]
        padding = dice.choice([0, 0, 0, 10, 100]) if dice.random() < 0.98 else dice.choice([5_000, 100_000])
        return self.ledger.new(queue.name, options, padding)


class Producer(Client):
    """Puts messages: one by one, many in a pipeline, many in one command, and some that are duplicates."""

    def __call__(self) -> None:
        """Do one thing."""
        if self.ledger.outstanding > CROWD:
            time.sleep(0.005)
            return
        choice = self.dice.random()
        if choice < 0.7:
            self._put_pipelined(self.dice.choice([1, 1, 2, 8, 16]))
        elif choice < 0.9:
            self._put_together()
        else:
            self._put_again()

    def _put_pipelined(self, count: int) -> None:
        entries = [self.new(self.any_queue()) for _ in range(count)]
        self.conn.send(b"".join(encode("QPUT", entry.queue, entry.body, *entry.options.args()) for entry in entries))
        for entry in entries:
            self.ledger.put_confirmed(entry, as_bytes(self.read()))

    def _put_together(self) -> None:
        queue = self.any_queue()
        entries = [self.ledger.new(queue.name, Options()) for _ in range(self.dice.randint(2, 10))]
        for entry in entries:
            entry.batch = tuple(entries)
        reply = as_list(self.ask("QMPUT", queue.name, *(entry.body for entry in entries)))
        for entry, id in zip(entries, reply, strict=True):
            self.ledger.put_confirmed(entry, as_bytes(id))

    def _put_again(self) -> None:
        """A put with an id that was confirmed before."""
        queue = self.any_queue()
        options = Options(id=b"again")
        entry = self.ledger.new(queue.name, options)
        id = as_bytes(self.ask("QPUT", queue.name, entry.body, *options.args()))
        self.ledger.put_confirmed(entry, id)
        with self.ledger.lock:
            self.ledger.pending_duplicates[queue.name] += 1
        reply = self.ask("QPUT", queue.name, b"a duplicate", "ID", id)
        assert is_null(reply), f"{id!r} was taken again: {reply!r}"
        with self.ledger.lock:
            self.ledger.pending_duplicates[queue.name] -= 1
            self.ledger.counters[queue.name]["duplicates"] += 1


class Settler(Client):
    """What workers and consumers do with a message that they hold."""

    def handle(self, entries: list[Entry]) -> None:
        """Settle most of them, keep a few."""
        acks: list[Entry] = []
        for entry in entries:
            choice = self.dice.random()
            if choice < 0.5:
                acks.append(entry)
            elif choice < 0.65:
                self.pass_on(entry)
            elif choice < 0.93:
                self._settle(entry, self.dice.choice(list(_COMMANDS)))
        by_queue: dict[str, list[Entry]] = {}
        for entry in acks:
            by_queue.setdefault(entry.queue, []).append(entry)
        for queue, some in by_queue.items():
            if self.ledger.queues[queue].expires:
                for entry in some:
                    self._settle(entry, Op.ACK)
            else:
                self._ack_together(queue, some)

    def _ack_together(self, queue: str, entries: list[Entry]) -> None:
        tokens = [entry.token or b"" for entry in entries]
        for entry in entries:
            self.ledger.begin(entry, Op.ACK)
        reply = self.ask("QACK", queue, *tokens)
        assert reply == len(tokens), f"of {tokens} in {queue} only {reply!r} could be acked"
        for entry, token in zip(entries, tokens, strict=True):
            self.ledger.finished(entry, Op.ACK, token)

    def _settle(self, entry: Entry, op: Op) -> None:
        token = entry.token
        if token is None:  # it expired and is another's
            return
        if op is Op.DELETE and self.ledger.queues[entry.queue].expires:  # as that would be
            return
        self.ledger.begin(entry, op)
        if self.ask(*_command(entry, op, token)):
            self.ledger.finished(entry, op, token)
        else:
            self.ledger.stale(entry, op, token)
        if op is Op.REJECT and entry.phase is Phase.DEAD and self.dice.random() < 0.7:
            self.ledger.begin(entry, Op.REPLAY)
            assert self.ask("QDEAD", "REPLAY", entry.queue, entry.id or b"") == 1, f"not replayed: {entry}"
            self.ledger.finished(entry, Op.REPLAY, None)

    def pass_on(self, entry: Entry) -> None:
        """Ack it and put another in one transaction."""
        token = entry.token
        queue = self.any_queue()
        if token is None or self.ledger.queues[entry.queue].expires:
            return
        following = self.ledger.new(queue.name, Options())
        entry.successor = following
        self.ledger.begin(entry, Op.ACK)
        self.conn.send(
            encode("MULTI")
            + encode("QACK", entry.queue, token)
            + encode("QPUT", queue.name, following.body)
            + encode("EXEC")
        )
        for _ in range(3):
            self.read()
        acked, id = as_list(self.read())
        assert acked == 1, f"{entry}: {acked!r}"
        self.ledger.finished(entry, Op.ACK, token)
        entry.successor = None
        self.ledger.put_confirmed(following, as_bytes(id))


_COMMANDS = {
    Op.FAIL: ("QNACK",),
    Op.RELEASE: ("QNACK", "RELEASE"),
    Op.REJECT: ("QNACK", "REJECT", "ERROR", "no"),
    Op.TOUCH: ("QTOUCH",),
    Op.DELETE: ("QDEL",),
}


def _command(entry: Entry, op: Op, token: bytes) -> Command:
    if op is Op.ACK:
        return ["QACK", entry.queue, token]
    name, *options = _COMMANDS[op]
    return [name, entry.queue, (entry.id or b"") if op is Op.DELETE else token, *options]


class Worker(Settler):
    """Leases with QLEASE, with a REQID, some waiting for messages."""

    def __call__(self) -> None:
        """Lease some and settle them."""
        queue = self.any_queue()
        request = Request(queue.name, uuid.uuid4().hex.encode(), self.dice.choice([1, 1, 3, 10]))
        with self.ledger.lock:
            self.ledger.requests[request.reqid] = request
        wait = ("WAIT", "0.1") if self.dice.random() < 0.5 else ()
        reply = self.ask("QLEASE", queue.name, "COUNT", request.count, "REQID", request.reqid, *wait, "FULL")
        with self.ledger.lock:
            del self.ledger.requests[request.reqid]
            entries = [self.ledger.leased(seen("leased", one), request.reqid) for one in messages(reply)]
        self.handle(entries)


class Consumer(Settler):
    """Takes pushes from all queues."""

    def __init__(self, ledger: Ledger, conn: Conn, dice: random.Random) -> None:
        super().__init__(ledger, conn, dice)
        self._came: list[Entry] = []
        conn.hello(3)
        for name in ledger.queues:
            self.ask("QCONSUME", name, "PREFETCH", PREFETCH, "FULL")

    def read(self) -> Value:
        """The next reply; pushes before it are put aside."""
        while isinstance(reply := self.conn.read(), Push):
            self._take(reply)
        return reply

    def __call__(self) -> None:
        """Settle what has come, or wait for a push."""
        if not self._came:
            # The answer comes behind all pushes that are on their way.
            self.ask("PING")
            if not self._came:
                time.sleep(0.002)
        entries, self._came = self._came, []
        self.handle(entries)

    def _take(self, push: Push) -> None:
        kind, _, message = push.items
        assert kind == b"deliver", f"{push}"
        self._came.append(self.ledger.leased(seen("leased", as_dict(message)), None))
