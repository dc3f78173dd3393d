"""The real broker and the reference model side by side: each operation runs on both, and everything is compared.

Leases are named by their place in `leases` and messages by their ids, so that an operation is plain data.
"""

from __future__ import annotations

import dataclasses
import random
from collections.abc import Callable
from typing import Any

import pytest

import respmq.core.broker
from respmq.core.consumers import Consumer
from respmq.core.hub import NO_LIMIT
from respmq.core.model import DELAYED, LEASED, READY, Extra, Message, QueueSettings
from respmq.core.waiting import Deliveries, LeaseWait
from respmq.engine.memory import MemoryEngine
from respmq.errors import BrokerError
from tests.property.reference import ModelConsumer, ReferenceBroker, Wait
from tests.property.reference_queue import Delivery, Description, Grant, Item, ModelQueue, Refused

START = 1_700_000_000_000
STATES = {"ready": READY, "delayed": DELAYED, "leased": LEASED}
EVERYTHING = 1 << 40

#: A lease as the broker answers with it, taken down at once, since a `Message` goes on changing.
Shown = list[Description]


def show(answer: Any) -> Shown | str:
    """An answer to QLEASE, as it would go over the wire at this moment."""
    if isinstance(answer, BrokerError):
        return answer.code
    return [
        {"queue": m.queue, "id": m.id, "lease": m.lease, "attempt": m.attempt, "body": m.body}
        if isinstance(m, Message)
        else m
        for m in answer
    ]


class Client:
    """A blocked QLEASE, on both sides."""

    def __init__(self, real: LeaseWait, model: Wait) -> None:
        self.real = real
        self.model = model
        self.answers: list[Shown | str] = []
        real.on_done = lambda answer: self.answers.append(show(answer))


class Pushes:
    """A push consumer, on both sides: the sink of the real one."""

    def __init__(self, tag: bytes, model: ModelConsumer) -> None:
        self.tag = tag
        self.model = model
        self.pushed: list[Description] = []
        self.cancellations = 0
        self.known = 0

    def deliver(self, consumer: Consumer, delivery: Message | Description) -> None:
        assert consumer.tag == self.tag or not self.tag
        shown = show([delivery])
        assert isinstance(shown, list)
        self.pushed += shown

    def cancelled(self, consumer: Consumer, reason: str) -> None:
        assert consumer.tag == self.tag
        assert "deleted" in reason
        self.cancellations += 1


class Twins:
    """Both brokers. Every method is one operation and raises an AssertionError where they differ."""

    def __init__(self, seed: int = 0, *, size: int = NO_LIMIT, memory: int = NO_LIMIT, short: bool = True) -> None:
        chance = random.Random(seed)
        self.real = MemoryEngine(START, chance.randbytes, chance.uniform)
        self.model = ReferenceBroker(START)
        self.real.max_message_size = self.model.max_message_size = size
        self.real.max_memory = self.model.max_memory = memory
        #: Whether the real broker is called by its shorter ways where there is one.
        self.short = short
        #: Every lease there has been: queue, token, the model's grant.
        self.leases: list[tuple[bytes, bytes, Grant]] = []
        self.ids: list[bytes] = []
        self.clients: list[Client] = []
        self.consumers: list[Pushes] = []

    # -- comparing

    def close(self) -> None:
        """Nothing more is done with them."""

    def both(self, real: Callable[[], Any], model: Callable[[], Any]) -> tuple[Any, Any]:
        """Call both; an error of one must be the same error of the other."""
        got, wanted = "", ""
        result = expected = None
        try:
            result = real()
        except BrokerError as error:
            got = error.code
        try:
            expected = model()
        except Refused as error:
            wanted = error.code
        assert got == wanted, f"error {got or None}, not {wanted or None}: {result!r}, {expected!r}"
        return result, expected

    def same(self, real: Callable[[], Any], model: Callable[[], Any]) -> Any:
        """Both give the same."""
        result, expected = self.both(real, model)
        assert result == expected, f"{result!r} is not {expected!r}"
        return result

    def granted(self, shown: Shown | str, wanted: list[Delivery] | str) -> None:
        """The same deliveries; the leases that are new get their tokens."""
        if isinstance(wanted, str) or isinstance(shown, str):
            assert shown == wanted
            return
        assert [m["id"] for m in shown] == [description["id"] for _, description in wanted], (shown, wanted)
        for got, (grant, description) in zip(shown, wanted, strict=True):
            if grant.token is None:
                assert all(got["lease"] != token for _, token, _ in self.leases), "a token is used again"
                grant.token = got["lease"]
                self.leases.append((got["queue"], got["lease"], grant))
            full = {**description, "lease": grant.token}
            del full["state"]
            assert got == {name: full[name] for name in got}
            assert len(got) in {5, len(full)}

    def compare(self) -> None:
        """Everything that can be seen from outside, and that nothing piles up inside."""
        real, model = self.real, self.model
        for client in [*self.clients]:
            self.compare_client(client)
        for consumer in self.consumers:
            wanted = consumer.model.pushed
            assert [m["id"] for m in consumer.pushed] == [description["id"] for _, description in wanted]
            self.granted(consumer.pushed[consumer.known :], wanted[consumer.known :])
            consumer.known = len(wanted)
            assert consumer.cancellations == consumer.model.cancelled
        assert real.now == model.now
        assert real.names() == sorted(model.queues)
        assert real.used_memory == model.used_memory()
        for name, queue in model.queues.items():
            assert dataclasses.asdict(real.stats(name)) == model.stats(name), (real.stats(name), model.stats(name))
            for state, code in STATES.items():
                self.compare_lists(
                    real.peek(name, code, EVERYTHING, 0), [i.describe(name) for i in queue.inside(state)]
                )
            letters = [letter.describe(name) for letter in queue.dead]
            self.compare_lists([{**m, "state": "dead"} for m in real.dead_letters(name, EVERYTHING)], letters)
            assert real.dead_count(name) == len(letters)
        assert len(real._hub.deadlines) <= len(model.queues) + len(model.waiters)
        moment = model.next_moment()
        following = real._hub.deadlines.next()
        assert moment is None or (following is not None and following <= moment), (following, moment)

    def compare_lists(self, shown: list[Description], wanted: list[Description]) -> None:
        assert [m["id"] for m in shown] == [m["id"] for m in wanted], (shown, wanted)
        assert shown == [with_token(m) for m in wanted]

    def compare_client(self, client: Client) -> None:
        if client.model.answer is None:
            assert not client.answers, client.answers
            assert not client.real.done
            return
        self.clients.remove(client)
        assert len(client.answers) == 1, (client.answers, client.model.answer)
        self.granted(client.answers[0], client.model.answer)

    # -- operations

    def declare(self, name: bytes, settings: QueueSettings) -> None:
        self.both(lambda: self.real.declare(name, settings), lambda: self.model.declare(name, settings))

    def delete(self, name: bytes) -> None:
        self.same(lambda: self.real.delete(name), lambda: self.model.delete(name))

    def put(self, name: bytes, id: bytes | None, body: bytes, priority: int, delay: int, extra: Extra | None) -> None:
        real, model = self.real, self.model
        made: list[bytes | None] = []

        def put_real() -> bytes | None:
            plain = self.short and id is None and extra is None and not priority and not delay
            full = copy_extra(extra)
            stretch = real.put_stretch(name, [body]) if plain and len(body) % 2 else None
            if stretch is not None:
                made.extend(stretch)
            else:
                made.append(real.put_one(name, body) if plain else real.put(name, body, id, priority, delay, full))
            return made[0]

        def put_model() -> bytes | None:
            headers = {} if extra is None else extra.headers
            attachments = [] if extra is None else list(extra.attachments)
            known = id or (made[0] if made else None) or b"?"
            ttl = None if extra is None else extra.ttl
            return model.put(name, Item(known, body, priority, headers, attachments, ttl, model.now), delay, id)

        stored = self.same(put_real, put_model)
        if stored is not None and id is None:
            assert stored not in self.ids
        if stored is not None:
            self.ids.append(stored)

    def put_many(self, name: bytes, bodies: tuple[bytes, ...]) -> None:
        made: list[bytes] = []

        def put_real() -> list[bytes]:
            stretch = self.real.put_stretch(name, list(bodies)) if self.short and bodies else None
            made.extend(self.real.put_many(name, bodies) if stretch is None else stretch)
            return made

        def put_model() -> list[bytes]:
            ids = made or [b"?"] * len(bodies)
            items = [Item(id, body, 0, {}, [], None, self.model.now) for id, body in zip(ids, bodies, strict=True)]
            return self.model.put_many(name, items)

        self.ids += self.same(put_real, put_model) or []

    def lease(
        self,
        names: tuple[bytes, ...],
        count: int,
        wait: int | None,
        length: int | None,
        request: tuple[bytes, bytes] | None,
        *,
        full: bool,
    ) -> None:
        def lease_real() -> Deliveries | LeaseWait:
            plain = self.short and wait is None and length is None and request is None and not full
            if plain and len(names) == 1 and count == 1:
                return self.real.lease_one(names[0])
            stretch = self.real.lease_stretch(names[0], [b""] * count) if plain and len(names) == 1 else None
            if stretch is not None:
                taken = [message for message in stretch if message is not None]
                assert stretch == taken + [None] * (count - len(taken))
                return taken
            return self.real.lease(names, count, wait, length, request, full=full)

        result, expected = self.both(
            lease_real,
            lambda: self.model.lease(list(names), count, wait, length, request),
        )
        if expected is None:
            return
        if isinstance(expected, Wait) or isinstance(result, LeaseWait):
            assert isinstance(expected, Wait), "it waits, though it should not"
            assert isinstance(result, LeaseWait), "it doesn't wait, though it should"
            self.clients.append(Client(result, expected))
            return
        shown = show(result)
        assert all((len(m) > 5) == full for m in shown if isinstance(m, dict))
        self.granted(shown, expected)

    def consume(self, name: bytes, prefetch: int, *, full: bool) -> None:
        model: list[tuple[bytes, ModelConsumer]] = []
        pushes = Pushes(b"", ModelConsumer(ModelQueue(b"", QueueSettings()), 0))

        def consume_model() -> bytes:
            model.append(self.model.consume(name, prefetch))
            return model[0][0]

        tag = self.same(lambda: self.real.consume(name, prefetch, pushes, full).tag, consume_model)
        if tag is not None:
            pushes.tag, pushes.model = model[0]
            self.consumers.append(pushes)

    def cancel(self, number: int) -> None:
        """QCANCEL of the consumer that was added `number` before the last one."""
        tag = self.consumers[-1 - number].tag if number < len(self.consumers) else b"ctag-none"
        self.same(lambda: self.real.cancel(tag), lambda: self.model.cancel_consumer(tag))

    def leave(self, client: Client) -> None:
        """A blocked client is gone."""
        client.real.cancel()
        self.model.cancel(client.model)
        self.clients.remove(client)
        assert not client.answers

    def serve(self) -> None:
        self.real.serve()
        self.model.serve()
        assert not self.real.unserved

    def undeliver(self, places: list[int]) -> None:
        """The replies with these leases could not be written."""
        leases = [self.leases[place] for place in places]
        self.real.undeliver([(queue, token) for queue, token, _ in leases])
        self.model.undeliver([(queue, grant) for queue, _, grant in leases])

    def settle(self, name: bytes, places: list[int], real: Callable[..., int], model: Callable[..., int]) -> None:
        """`real(tokens)` and `model(queue, grants)` give the same; a place that doesn't exist is an unknown token."""
        known = [self.leases[place] if place < len(self.leases) else None for place in places]
        tokens = tuple(b"unknown" if lease is None else lease[1] for lease in known)
        grants = [None if lease is None else lease[2] for lease in known]
        self.same(lambda: real(tokens), lambda: model(self.model.find(name), grants))

    def ack(self, name: bytes, places: list[int]) -> None:
        def ack_real(tokens: tuple[bytes, ...]) -> int:
            if self.short and len(tokens) == 1:
                return self.real.ack_one(name, *tokens)
            stretch = self.real.ack_stretch(name, list(tokens)) if self.short else None
            return self.real.ack(name, tokens) if stretch is None else sum(stretch)

        self.settle(name, places, ack_real, ModelQueue.ack)

    def touch(self, name: bytes, places: list[int], length: int | None) -> None:
        self.settle(
            name,
            places,
            lambda tokens: self.real.touch(name, tokens, length),
            lambda queue, grants: queue.touch(self.model.now, grants, length),
        )

    def nack(self, name: bytes, place: int, delay: int | None, error: bytes | None) -> None:
        self.settle(
            name,
            [place],
            lambda tokens: self.real.nack(name, tokens[0], delay, error),
            lambda queue, grants: queue.nack(self.model.now, grants[0], delay, error),
        )

    def reject(self, name: bytes, place: int, error: bytes | None) -> None:
        self.settle(
            name,
            [place],
            lambda tokens: self.real.reject(name, tokens[0], error),
            lambda queue, grants: queue.reject(self.model.now, grants[0], error),
        )

    def release(self, name: bytes, place: int, delay: int | None) -> None:
        self.settle(
            name,
            [place],
            lambda tokens: self.real.release(name, tokens[0], delay),
            lambda queue, grants: queue.release(self.model.now, grants[0], delay),
        )

    def remove(self, name: bytes, ids: tuple[bytes, ...]) -> None:
        self.same(lambda: self.real.remove(name, ids), lambda: self.model.find(name).remove(list(ids)))

    def purge(self, name: bytes) -> None:
        self.same(lambda: self.real.purge(name), lambda: self.model.find(name).purge())

    def replay(self, name: bytes, ids: tuple[bytes, ...]) -> None:
        self.same(
            lambda: self.real.replay_dead(name, ids), lambda: self.model.find(name).replay(self.model.now, list(ids))
        )

    def pop_dead(self, name: bytes, count: int) -> None:
        self.same(
            lambda: [{**m, "state": "dead"} for m in self.real.pop_dead(name, count)],
            lambda: self.model.find(name).pop_dead(count),
        )

    def purge_dead(self, name: bytes, ids: tuple[bytes, ...]) -> None:
        self.same(lambda: self.real.purge_dead(name, ids), lambda: self.model.find(name).purge_dead(list(ids)))

    def look(self, name: bytes, id: bytes, state: str, count: int, offset: int) -> None:
        """QSHOW, and QPEEK and QDEAD LIST with an offset."""
        self.same(lambda: self.real.show(name, id), lambda: with_token(self.model.find(name).show(id)))
        place = slice(offset, offset + count)
        self.same(
            lambda: self.real.peek(name, STATES[state], count, offset),
            lambda: [with_token(item.describe(name)) for item in self.model.find(name).inside(state)[place]],
        )
        self.same(
            lambda: [m["id"] for m in self.real.dead_letters(name, count, offset)],
            lambda: [letter.item.id for letter in self.model.find(name).dead[place]],
        )

    # -- plain calls, several in a row

    def put_stretch(self, name: bytes, bodies: tuple[bytes, ...]) -> None:
        ids = self.real.put_stretch(name, list(bodies))
        if ids is None:
            for body in bodies:
                self.put(name, None, body, 0, 0, None)
            return
        items = [Item(id, body, 0, {}, [], None, self.model.now) for id, body in zip(ids, bodies, strict=True)]
        assert [self.model.put(name, item, 0, None) for item in items] == ids
        self.ids += ids

    def lease_stretch(self, name: bytes, count: int) -> None:
        taken = self.real.lease_stretch(name, [name] * count)
        if taken is None:
            self.lease((name,), 1, None, None, None, full=False)
            return
        assert 1 <= len(taken) <= count
        for message in taken:
            wanted = self.model.lease([name], 1, None, None, None)
            assert isinstance(wanted, list)
            self.granted(show([] if message is None else [message]), wanted)

    def ack_stretch(self, name: bytes, places: list[int]) -> None:
        known = [self.leases[place] if place < len(self.leases) else None for place in places]
        counts = self.real.ack_stretch(name, [b"unknown" if lease is None else lease[1] for lease in known])
        if counts is None:
            for place in places:
                self.ack(name, [place])
            return
        queue = self.model.find(name)
        assert counts == [queue.ack([None if lease is None else lease[2]]) for lease in known]

    # -- time

    def advance(self, to: int) -> None:
        """All that falls due until `to`."""
        self.serve()
        self.real.advance(to)
        self.follow(to)

    def tick(self, to: int) -> None:
        """The same, as the server does it."""
        self.serve()
        ticks = 0
        while (following := self.real.tick(to)) is not None and following <= to:
            ticks += 1
            assert ticks < 1000, f"tick never comes to an end: {following} is not after {to}"
        self.follow(to)

    def tick_in_slices(self, budget: int) -> None:
        """What is due at the next moment, a little at a time, if there is nobody who would notice."""
        moment = self.model.next_moment()
        if moment is None or self.model.line or self.model.consumers:
            return
        if any(queue.kinds_due(moment) > 1 for queue in self.model.queues.values()):
            # What comes first of leases, TTLs and delays is only certain within one slice.
            return
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(respmq.core.broker, "TICK_BUDGET", budget)
            self.tick(moment)

    def follow(self, to: int) -> None:
        letters: dict[bytes, list[Any]] = {}
        for name in self.model.queues:
            letters[name] = [m["id"] for m in self.real.dead_letters(name, EVERYTHING)]
        # Of an id that stands there several times the last one counts.
        dying = {name: [id for i, id in enumerate(ids) if id not in ids[i + 1 :]] for name, ids in letters.items()}
        self.model.advance(to, dying)
        assert not self.real.unserved


def with_token(description: Description | None) -> Description | None:
    """A model's description with the lease's token in it."""
    if description is None or description["lease"] is None:
        return description
    return {**description, "lease": description["lease"].token}


def copy_extra(extra: Extra | None) -> Extra | None:
    return None if extra is None else Extra(dict(extra.headers), extra.attachments, extra.ttl)
