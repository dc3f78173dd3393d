"""The reference model's broker: queues by name, and clients that wait for a message from one or several of them."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import Any

from respmq.core.model import QueueSettings
from tests.property.reference_queue import Delivery, Grant, Item, ModelQueue, Refused


@dataclass(eq=False)
class Wait:
    """What a blocked client waits for; `answer` is deliveries or an error word."""

    answer: list[Delivery] | str | None = None


@dataclass(eq=False)
class Waiter:
    """A place in the line of those who wait."""

    queues: list[ModelQueue]
    count: int
    length: int | None
    request: Request | None
    until: int | None
    wait: Wait = field(default_factory=Wait)


@dataclass(eq=False)
class Request:
    """A QLEASE with a REQID: who waits under it, and the leases that it took."""

    waiter: Waiter | None = None
    taken: list[tuple[ModelQueue, Grant]] = field(default_factory=list)


@dataclass(eq=False)
class ModelConsumer:
    """A push consumer, and what was pushed to it."""

    queue: ModelQueue
    prefetch: int
    pushed: list[Delivery] = field(default_factory=list)
    held: list[Grant] = field(default_factory=list)
    cancelled: bool = False

    def unsettled(self) -> list[Grant]:
        self.held = [grant for grant in self.held if self.queue.holder(grant) is not None]
        return self.held


class ReferenceBroker:
    """The whole; the operations are those of `respmq.core.broker.Broker`."""

    def __init__(self, now: int) -> None:
        self.now = now
        self.queues: dict[bytes, ModelQueue] = {}
        #: Those who wait and the consumers that have room, in the order in which they are served.
        self.line: list[Waiter | ModelConsumer] = []
        self.consumers: dict[bytes, ModelConsumer] = {}
        self.tags = 0
        #: By the first queue that was named, and user and key.
        self.requests: dict[tuple[ModelQueue, tuple[bytes, bytes]], Request] = {}
        self.auto_declare = False
        self.max_message_size = self.max_memory = 1 << 62

    @property
    def waiters(self) -> list[Waiter]:
        return [taker for taker in self.line if isinstance(taker, Waiter)]

    def used_memory(self) -> int:
        return sum(queue.used_memory(self.now) for queue in self.queues.values())

    # -- time

    def next_moment(self) -> int | None:
        moments = [moment for queue in self.queues.values() for moment in queue.moments()]
        return min([*moments, *(waiter.until for waiter in self.waiters if waiter.until is not None)], default=None)

    def advance(self, to: int, dying: dict[bytes, list[bytes]]) -> None:
        while (moment := self.next_moment()) is not None and moment <= to:
            self.now = max(self.now, moment)
            for queue in self.queues.values():
                queue.fall_due(self.now, dying.get(queue.name, []))
            self.serve()
            for waiter in self.waiters:
                if waiter.until is not None and waiter.until <= self.now:
                    self.end_wait(waiter, [])
        self.now = max(self.now, to)

    # -- queues

    def find(self, name: bytes, *, declare: bool = False) -> ModelQueue:
        if name in self.queues:
            return self.queues[name]
        words = re.fullmatch(rb"[A-Za-z0-9._:/@{}-]{1,200}", name) is not None and all(name.split(b"."))
        if not words or name.upper() in (b"COUNT", b"WAIT", b"LEASE", b"REQID", b"FULL"):
            raise Refused("INVALIDNAME")
        if not declare:
            raise Refused("NOQUEUE")
        return ModelQueue(name, QueueSettings())

    def declare(self, name: bytes, settings: QueueSettings) -> None:
        if name not in self.queues:
            self.find(name, declare=True)
            self.queues[name] = ModelQueue(name, settings)
        elif self.queues[name].settings != settings:
            raise Refused("CONFLICT")

    def delete(self, name: bytes) -> int:
        queue = self.find(name)
        del self.queues[name]
        queue.items = []
        for waiter in self.waiters:
            if queue in waiter.queues:
                self.end_wait(waiter, "NOQUEUE")
        for tag, consumer in [*self.consumers.items()]:
            if consumer.queue is queue:
                self.forget(tag)
                consumer.cancelled = True
        return 1

    def stats(self, name: bytes) -> dict[str, Any]:
        queue = self.find(name)
        ready = queue.inside("ready")
        return {
            "name": name,
            "ready": len(ready),
            "delayed": len(queue.inside("delayed")),
            "in_flight": len(queue.inside("leased")),
            "dead": len(queue.dead),
            "consumers": sum(consumer.queue is queue for consumer in self.consumers.values()),
            "waiters": sum(queue in waiter.queues for waiter in self.waiters),
            "oldest_ready_age": (self.now - min(item.since for item in ready)) / 1000 if ready else None,
            **queue.count,
            "bytes": sum(item.size for item in queue.items),
        }

    # -- messages

    def put(self, name: bytes, item: Item, delay: int, given: bytes | None) -> bytes | None:
        """`item` has the id that the broker made, or `given`."""
        queue = self.find(name, declare=self.auto_declare)
        if item.size > self.max_message_size:
            raise Refused("TOOBIG")
        if self.used_memory() > self.max_memory:
            raise Refused("OOM")
        if delay and any(ttl is not None and delay >= ttl for ttl in (item.ttl, queue.settings.ttl)):
            raise Refused("ERR")
        if given is not None:
            put_at = queue.put_at.get(given)
            if queue.live(given) or (put_at is not None and self.now - put_at < queue.settings.dedupe):
                queue.count["duplicates"] += 1
                return None
        self.store(queue, [item], delay)
        if given is not None:
            queue.chosen[given] = self.now
        return item.id

    def put_many(self, name: bytes, items: list[Item]) -> list[bytes]:
        queue = self.find(name, declare=self.auto_declare)
        if max(item.size for item in items) > self.max_message_size:
            raise Refused("TOOBIG")
        if self.used_memory() > self.max_memory:
            raise Refused("OOM")
        self.store(queue, items, 0)
        return [item.id for item in items]

    def store(self, queue: ModelQueue, items: list[Item], delay: int) -> None:
        excess = len(queue.waiting) + len(items) - queue.settings.max_len
        if excess > 0:
            if queue.settings.overflow == "REJECT" or len(items) > queue.settings.max_len:
                raise Refused("QUEUEFULL")
            for victim in sorted(queue.waiting, key=lambda item: (-item.priority, item.place))[:excess]:
                queue.bury(victim, self.now, "max_length")
        self.queues[queue.name] = queue
        for item in items:
            queue.items.append(item)
            queue.count["enqueued"] += 1
            queue.put_at[item.id] = self.now
            queue.enter(item, self.now, delay)

    def lease(
        self,
        names: list[bytes],
        count: int,
        wait: int | None,
        length: int | None,
        key: tuple[bytes, bytes] | None,
    ) -> list[Delivery] | Wait:
        queues = [self.find(name, declare=self.auto_declare) for name in dict.fromkeys(names)]
        self.queues.update((queue.name, queue) for queue in queues)
        request = None
        if key is not None:
            known = self.requests.get((queues[0], key))
            if known is not None and known.waiter is not None:
                return self.take_over(known.waiter, wait)
            if known is not None:
                held = [(queue, queue.holder(grant), grant) for queue, grant in known.taken]
                again = [(grant, item.describe(queue.name)) for queue, item, grant in held if item is not None]
                if again:
                    for grant, _ in again:
                        grant.copies += 1
                    return again
            request = self.requests[queues[0], key] = Request()
        taken = self.take(queues, count, length, request)
        if taken or wait is None:
            return taken
        waiter = Waiter(queues, count, length, request, self.now + wait if wait else None)
        if request is not None:
            request.waiter = waiter
        self.line.append(waiter)
        return waiter.wait

    def take(
        self,
        queues: list[ModelQueue],
        count: int,
        length: int | None,
        request: Request | None,
        consumer: ModelConsumer | None = None,
    ) -> list[Delivery]:
        taken: list[Delivery] = []
        for queue in queues:
            for item in queue.inside("ready")[: count - len(taken)]:
                queue.renewals += 1
                deadline = self.now + (queue.settings.ack_timeout if length is None else length)
                item.grant = Grant(deadline, length is not None, queue.renewals, lambda: self.stand_in_line(consumer))
                item.state = "leased"
                item.attempt += 1
                queue.count["delivered"] += 1
                taken.append((item.grant, item.describe(queue.name)))
                if request is not None:
                    request.taken.append((queue, item.grant))
        return taken

    def take_over(self, waiter: Waiter, wait: int | None) -> list[Delivery] | Wait:
        waiter.wait.answer = []
        waiter.wait = Wait()
        if wait is None:
            self.leave(waiter)
            return []
        waiter.until = self.now + wait if wait else None
        return waiter.wait

    def serve(self) -> None:
        """The first in the line for whom there is something is served, again and again."""
        while any(self.serve_one(taker) for taker in [*self.line]):
            pass

    def serve_one(self, taker: Waiter | ModelConsumer) -> bool:
        if isinstance(taker, Waiter):
            taken = self.take(taker.queues, taker.count, taker.length, taker.request)
            if taken:
                self.end_wait(taker, taken)
            return bool(taken)
        taken = self.take([taker.queue], 1, None, None, taker)
        if taken:
            taker.pushed += taken
            taker.held += [grant for grant, _ in taken]
            self.line.remove(taker)
            self.stand_in_line(taker)
        return bool(taken)

    # -- consumers

    def consume(self, name: bytes, prefetch: int) -> tuple[bytes, ModelConsumer]:
        queue = self.queues[name] = self.find(name, declare=self.auto_declare)
        self.tags += 1
        consumer = self.consumers[b"ctag-%d" % self.tags] = ModelConsumer(queue, prefetch)
        self.stand_in_line(consumer)
        return b"ctag-%d" % self.tags, consumer

    def stand_in_line(self, consumer: ModelConsumer | None) -> None:
        """At the back, unless it is gone, has no room, or stands there."""
        if consumer is None or consumer not in self.consumers.values() or consumer in self.line:
            return
        if len(consumer.unsettled()) < consumer.prefetch:
            self.line.append(consumer)

    def forget(self, tag: bytes) -> ModelConsumer:
        consumer = self.consumers.pop(tag)
        self.line = [taker for taker in self.line if taker is not consumer]
        return consumer

    def cancel_consumer(self, tag: bytes) -> int:
        if tag not in self.consumers:
            raise Refused("ERR")
        consumer = self.forget(tag)
        unsettled = consumer.unsettled()
        return sum(consumer.queue.nack(self.now, grant, None, b"consumer removed") for grant in unsettled)

    # -- the end of waits

    def end_wait(self, waiter: Waiter, answer: list[Delivery] | str) -> None:
        waiter.wait.answer = answer
        self.leave(waiter)

    def leave(self, waiter: Waiter) -> None:
        self.line.remove(waiter)
        if waiter.request is not None:
            waiter.request.waiter = None

    def cancel(self, wait: Wait) -> None:
        """The client is gone."""
        for waiter in self.waiters:
            if waiter.wait is wait:
                self.leave(waiter)

    def undeliver(self, leases: list[tuple[bytes, Grant]]) -> None:
        for name, grant in leases:
            queue = self.queues.get(name)
            if queue is not None and grant.copies and queue.holder(grant) is not None:
                grant.copies -= 1
            elif queue is not None:
                queue.count["delivered"] -= queue.release(self.now, grant, None)
        self.serve()
