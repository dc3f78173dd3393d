"""What the broker promises about queues, as simply as it can be written: lists, sorts and scans.

`test_model.py` runs the same operations on this and on the real broker. Nothing here is clever, and nothing is shared
with the code under test: what is written here was written from the protocol's text. Where that is silent:

- a place in the line is the number of the entry into it (put, retry, replay, end of a delay); a message that is given
  back keeps its place, and DROPHEAD goes by it, too;
- what falls due at one moment: first leases end, then TTLs, then delays; then waiting clients are served, the one who
  has waited longest first, and only then waits end;
- leases that end at one moment end in the order in which they were granted or renewed, those of a length of their own
  (LEASE, FOR) after the others;
- messages whose TTL ends at one moment die in any order (`advance` is told which).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

from respmq.core.model import QueueSettings

Description = dict[str, Any]

#: What QSTATS counts from the declaration on.
COUNTS: tuple[str, ...] = (
    *("enqueued", "delivered", "acked", "retried", "dead_lettered", "dead_dropped", "duplicates", "expired_leases"),
)

#: What counts for `maxmemory` beside the bytes: a message, one with more than a body, the first header, each header,
#: each attachment, a moment at which it dies or a place in the order of those that are dropped, a dead letter, its
#: error, an id that is remembered. A message has an id of 32 bytes, if that is not remembered.
OVERHEAD, EXTRA, HEADERS, HEADER, ATTACHMENT, ENTRY, LETTER, ERROR, REMEMBERED = (
    350,
    150,
    130,
    105,
    67,
    160,
    370,
    33,
    180,
)


class Refused(Exception):
    """The operation does nothing and answers with this error word."""

    def __init__(self, code: str) -> None:
        super().__init__(code)
        self.code = code


@dataclass(eq=False)
class Grant:
    """One lease; `token` is what the real broker called it, once that is known. `ended` is called when it is over.

    `copies` is how many more answers have it, since a QLEASE with a REQID was sent again.
    """

    deadline: int
    own_length: bool
    renewed: int
    ended: Callable[[], None]
    token: bytes | None = None
    copies: int = 0


@dataclass(eq=False)
class Item:
    """One message. `grant` is the lease it is under or, until it is handed out again, the one that has expired."""

    id: bytes
    body: bytes
    priority: int
    headers: dict[bytes, bytes]
    attachments: list[bytes]
    ttl: int | None
    enqueued_at: int
    attempt: int = 0
    state: str = "ready"
    place: int = 0
    since: int = 0
    due: int = 0
    dies_at: int | None = None
    grant: Grant | None = None

    @property
    def size(self) -> int:
        headers = sum(len(name) + len(value) for name, value in self.headers.items())
        return len(self.body) + headers + sum(map(len, self.attachments))

    @property
    def overhead(self) -> int:
        if not (self.headers or self.attachments or self.ttl is not None):
            return OVERHEAD
        of_headers = HEADERS * bool(self.headers) + HEADER * len(self.headers)
        return OVERHEAD + EXTRA + of_headers + ATTACHMENT * len(self.attachments) + ENTRY * (self.ttl is not None)

    def describe(self, queue: bytes) -> Description:
        leased = self.state == "leased"
        return {
            "queue": queue,
            "id": self.id,
            "lease": self.grant if leased else None,
            "attempt": self.attempt,
            "body": self.body,
            "headers": self.headers,
            "attachments": self.attachments,
            "priority": self.priority,
            "enqueued_at": self.enqueued_at,
            "deadline": self.grant.deadline if leased and self.grant else None,
            "state": self.state,
        }


@dataclass(eq=False)
class Letter:
    """A dead letter."""

    item: Item
    reason: str
    error: bytes | None
    dead_at: int

    def describe(self, queue: bytes) -> Description:
        shown = {**self.item.describe(queue), "reason": self.reason, "error": self.error, "dead_at": self.dead_at}
        return {**shown, "state": "dead"}


Delivery = tuple[Grant, Description]


class ModelQueue:
    """One queue."""

    def __init__(self, name: bytes, settings: QueueSettings) -> None:
        self.name = name
        self.settings = settings
        self.items: list[Item] = []
        self.dead: list[Letter] = []
        self.put_at: dict[bytes, int] = {}
        #: The same for ids that clients have chosen: those are remembered one by one.
        self.chosen: dict[bytes, int] = {}
        self.entries = 0
        self.renewals = 0
        self.count = dict.fromkeys(COUNTS, 0)

    # -- looking

    def used_memory(self, now: int) -> int:
        """What counts for `maxmemory`."""
        remembered = {id for id, put_at in self.chosen.items() if now - put_at < self.settings.dedupe}
        each = ENTRY * (self.settings.ttl is not None) + ENTRY * (self.settings.overflow == "DROPHEAD")
        live = sum(
            item.size + item.overhead + each + (0 if item.id in remembered else len(item.id) - 32)
            for item in self.items
        )
        dead = sum(
            letter.item.size
            + letter.item.overhead
            + each
            + LETTER
            + (0 if letter.error is None else ERROR + len(letter.error))
            for letter in self.dead
        )
        return live + dead + sum(REMEMBERED + len(id) for id in remembered)

    def inside(self, state: str) -> list[Item]:
        """The messages in a state, in the order in which they are handed out, fall due or expire."""
        orders: dict[str, Callable[[Item], Any]] = {
            "ready": lambda item: (item.priority, item.place),
            "delayed": lambda item: (item.due, item.place),
            "leased": lambda item: item.grant and (item.grant.deadline, item.grant.own_length, item.grant.renewed),
        }
        return sorted((item for item in self.items if item.state == state), key=orders[state])

    @property
    def waiting(self) -> list[Item]:
        return [item for item in self.items if item.state != "leased"]

    def live(self, id: bytes) -> Item | None:
        return next((item for item in self.items if item.id == id), None)

    def holder(self, grant: Grant | None) -> Item | None:
        """The message that is under a lease now."""
        return next((item for item in self.items if item.grant is grant and item.state == "leased"), None)

    # -- changing

    def enter(self, item: Item, now: int, delay: int) -> None:
        """The message begins to wait, at the back."""
        self.entries += 1
        item.place = self.entries
        self.start_ttl(item, now)
        item.state = "delayed" if delay else "ready"
        item.since, item.due = now, now + delay

    def start_ttl(self, item: Item, now: int) -> None:
        ttls = [ttl for ttl in (item.ttl, self.settings.ttl) if ttl is not None]
        item.dies_at = now + min(ttls) if ttls else None

    def bury(self, item: Item, now: int, reason: str, error: bytes | None = None) -> None:
        self.items.remove(item)
        item.state = "dead"
        self.dead.append(Letter(item, reason, error, now))
        self.count["dead_lettered"] += 1
        while len(self.dead) > self.settings.max_dead:
            self.dead.pop(0)
            self.count["dead_dropped"] += 1

    def end_lease(self, grant: Grant | None) -> Item | None:
        """The message that was under a live lease; it is the caller's to put somewhere else."""
        item = self.holder(grant)
        if item is not None and grant is not None:
            item.state = "between"
            item.grant = None
            grant.ended()
        return item

    def fail(self, item: Item, now: int, delay: int | None, error: bytes | None) -> None:
        if item.attempt >= self.settings.max_attempts:
            self.bury(item, now, "max_attempts", error)
            return
        self.count["retried"] += 1
        backoff: int = min(self.settings.retry_delay * 2 ** (item.attempt - 1), self.settings.max_retry_delay)
        self.enter(item, now, backoff if delay is None else delay)

    def give_back(self, item: Item, now: int, delay: int | None) -> None:
        item.attempt -= 1
        if delay:
            self.enter(item, now, delay)
            return
        item.state = "ready"
        item.since = now
        self.start_ttl(item, now)

    def fall_due(self, now: int, dying: list[bytes]) -> None:
        """What is due in this queue at this moment. `dying`: ids in the order in which they die, as far as known."""
        for item in self.inside("leased"):
            grant = item.grant
            if grant is not None and grant.deadline <= now:
                self.count["expired_leases"] += 1
                self.end_lease(grant)
                item.grant = grant
                self.fail(item, now, None, b"ack timeout")
        lapsing = [item for item in self.waiting if item.dies_at is not None and item.dies_at <= now]
        for item in sorted(lapsing, key=lambda item: dying.index(item.id) if item.id in dying else -1):
            self.bury(item, now, "ttl_expired")
        for item in self.inside("delayed"):
            if item.due <= now:
                item.state = "ready"
                item.since = now
                self.entries += 1
                item.place = self.entries

    # -- what clients ask for

    def ack(self, grants: list[Grant | None]) -> int:
        before = len(self.items)
        for grant in grants:
            item = self.end_lease(grant) or next((i for i in self.items if grant and i.grant is grant), None)
            if item is not None:
                self.items.remove(item)
        self.count["acked"] += before - len(self.items)
        return before - len(self.items)

    def nack(self, now: int, grant: Grant | None, delay: int | None, error: bytes | None) -> int:
        item = self.end_lease(grant)
        if item is not None:
            self.fail(item, now, delay, error)
        return int(item is not None)

    def reject(self, now: int, grant: Grant | None, error: bytes | None) -> int:
        item = self.end_lease(grant)
        if item is not None:
            self.bury(item, now, "rejected", error)
        return int(item is not None)

    def release(self, now: int, grant: Grant | None, delay: int | None) -> int:
        item = self.end_lease(grant)
        if item is not None:
            self.give_back(item, now, delay)
        return int(item is not None)

    def touch(self, now: int, grants: list[Grant | None], length: int | None) -> int:
        renewed = 0
        for grant in grants:
            if grant is None or self.holder(grant) is None:
                continue
            renewed += 1
            ends = (now + (self.settings.ack_timeout if length is None else length), length is not None)
            if (grant.deadline, grant.own_length) != ends:
                self.renewals += 1
                grant.deadline, grant.own_length = ends
                grant.renewed = self.renewals
        return renewed

    def remove(self, ids: list[bytes]) -> int:
        before = len(self.items)
        for id in ids:
            for item in [item for item in self.items if item.id == id]:
                self.end_lease(item.grant)
                self.items.remove(item)
        return before - len(self.items)

    def purge(self) -> int:
        gone = self.waiting
        self.items = [item for item in self.items if item not in gone]
        return len(gone)

    def replay(self, now: int, ids: list[bytes]) -> int:
        replayed = 0
        for id in ids or [letter.item.id for letter in self.dead]:
            letters = [letter for letter in self.dead if letter.item.id == id]
            if letters and self.live(id) is None:
                letter = letters[-1] if ids else letters[0]
                self.dead.remove(letter)
                self.items.append(replace(letter.item, attempt=0, grant=None))
                self.enter(self.items[-1], now, 0)
                replayed += 1
        return replayed

    def pop_dead(self, count: int) -> list[Description]:
        popped, self.dead = self.dead[:count], self.dead[count:]
        return [letter.describe(self.name) for letter in popped]

    def purge_dead(self, ids: list[bytes]) -> int:
        before = len(self.dead)
        self.dead = [letter for letter in self.dead if ids and letter.item.id not in ids]
        return before - len(self.dead)

    def show(self, id: bytes) -> Description | None:
        found = [item.describe(self.name) for item in self.items if item.id == id]
        return next(iter(found + [x.describe(self.name) for x in reversed(self.dead) if x.item.id == id]), None)

    def kinds_due(self, moment: int) -> int:
        """Of how many kinds is what falls due at a moment: leases, TTLs, delays."""
        leases = any(item.grant is not None and item.grant.deadline <= moment for item in self.inside("leased"))
        ttls = any(item.dies_at is not None and item.dies_at <= moment for item in self.waiting)
        return leases + ttls + any(item.due <= moment for item in self.inside("delayed"))

    def moments(self) -> list[int]:
        """When something falls due here."""
        leased = [item.grant.deadline for item in self.items if item.state == "leased" and item.grant]
        lapsing = [item.dies_at for item in self.waiting if item.dies_at is not None]
        return leased + lapsing + [item.due for item in self.items if item.state == "delayed"]
