"""Publishing: subscriptions, bindings, copies into queues, and the announcements of deaths."""

from __future__ import annotations

import json

import pytest

from respmq.core.broker import ANNOUNCE_AT_ONCE
from respmq.core.events import Event
from respmq.core.hub import TICK_BUDGET
from respmq.core.model import Extra
from respmq.errors import InvalidTopicError, QueueNotFoundError, TooBigError
from tests.unit.core.bench import START, Bench


class Ear:
    """A subscriber."""

    def __init__(self) -> None:
        self.heard: list[tuple[bytes | None, bytes, bytes]] = []

    def event(self, event: Event, pattern: bytes | None) -> None:
        self.heard.append((pattern, event.topic, event.body))


def test_one_copy_for_each_subscription() -> None:
    bench = Bench()
    topics = bench.broker.topics
    ear, other = Ear(), Ear()
    assert topics.subscribe(b"a.b", ear)
    assert not topics.subscribe(b"a.b", ear)
    assert topics.subscribe_pattern(b"a.*", ear)
    assert topics.subscribe_pattern(b"#", ear)
    assert topics.subscribe(b"a.b", other)
    assert topics.publish(b"a.b", b"x") == (4, 0)
    assert sorted(ear.heard, key=str) == sorted(
        [(None, b"a.b", b"x"), (b"a.*", b"a.b", b"x"), (b"#", b"a.b", b"x")], key=str
    )
    assert other.heard == [(None, b"a.b", b"x")]
    assert (topics.subscriptions, topics.pattern_count) == (4, 2)
    assert topics.unsubscribe(b"a.b", ear)
    assert not topics.unsubscribe(b"a.b", ear)
    assert topics.unsubscribe_pattern(b"#", ear)
    assert not topics.unsubscribe_pattern(b"#", ear)
    assert topics.publish(b"a.b", b"y") == (2, 0)
    assert topics.subscriptions == 2


def test_channels_and_shards_are_apart() -> None:
    topics = Bench().broker.topics
    ear, shard = Ear(), Ear()
    topics.subscribe(b"t", ear)
    topics.shards.subscribe(b"t", shard)
    assert topics.publish(b"t", b"1") == (1, 0)
    assert topics.publish_shard(b"t", b"2") == 1
    assert (ear.heard, shard.heard) == ([(None, b"t", b"1")], [(None, b"t", b"2")])
    assert topics.channels.names() == topics.shards.names() == [b"t"]
    assert topics.channels.names(b"x.#") == []
    assert (topics.channels.count(b"t"), topics.channels.count(b"u")) == (1, 0)


def test_a_bound_queue_gets_one_copy_with_the_topic_in_a_header() -> None:
    bench = Bench()
    bench.declare(b"r")
    topics = bench.broker.topics
    assert topics.bind(b"a.#", b"q")
    assert topics.bind(b"#", b"q")
    assert not topics.bind(b"#", b"q")
    assert topics.bind(b"x", b"r")
    assert topics.publish(b"a.b", b"body", {b"h": b"v", b"topic": b"forged"}, (b"att",)) == (0, 1)
    (copy,) = bench.broker.peek(b"q", 0, 10, 0)
    assert (copy["body"], copy["headers"], copy["attachments"]) == (b"body", {b"h": b"v", b"topic": b"a.b"}, [b"att"])
    assert bench.ready == [b"body"]
    assert bench.bodies(0, b"r") == []
    assert topics.bound() == [(b"a.#", b"q"), (b"#", b"q"), (b"x", b"r")]
    assert topics.bound(b"r") == [(b"x", b"r")]
    assert topics.unbind(b"a.#", b"q")
    assert not topics.unbind(b"a.#", b"q")
    assert topics.publish(b"a.b", b"again") == (0, 1)
    assert topics.bindings == 2


def test_a_full_queue_loses_its_copy_and_stops_nobody() -> None:
    bench = Bench(max_len=1)
    bench.declare(b"r")
    topics = bench.broker.topics
    for name in (b"q", b"r"):
        topics.bind(b"#", name)
    assert topics.publish(b"t", b"1") == (0, 2)
    assert topics.publish(b"t", b"2") == (0, 1)
    assert (bench.ready, bench.bodies(0, b"r"), topics.binding_drops) == ([b"1"], [b"1", b"2"], 1)


def test_a_broker_without_memory_loses_copies_too() -> None:
    bench = Bench()
    bench.broker.topics.bind(b"#", b"q")
    bench.put(b"m")
    bench.broker.max_memory = 1
    assert bench.broker.topics.publish(b"t", b"x") == (0, 0)
    assert bench.broker.topics.binding_drops == 1


def test_a_deleted_queue_takes_its_bindings_along() -> None:
    bench = Bench()
    bench.declare(b"r")
    topics = bench.broker.topics
    for pattern in (b"a", b"b.#", b"*"):
        topics.bind(pattern, b"r")
    topics.bind(b"a", b"q")
    bench.broker.delete(b"r")
    assert topics.bound() == [(b"a", b"q")]
    bench.declare(b"r")
    assert topics.bound(b"r") == []
    assert topics.publish(b"a", b"x") == (0, 1)
    assert topics.bindings == 1


def test_what_can_not_be_published_bound_or_subscribed_to() -> None:
    bench = Bench()
    bench.broker.max_message_size = 5
    topics = bench.broker.topics
    ear = Ear()
    for call in (
        lambda: topics.publish(b"a.*", b""),
        lambda: topics.publish(b"$sys.x", b""),
        lambda: topics.publish(b"a..b", b""),
        lambda: topics.publish_shard(b"$sys.x", b""),
        lambda: topics.subscribe(b"a.#", ear),
        lambda: topics.subscribe_pattern(b"a#", ear),
        lambda: topics.bind(b"a*", b"q"),
        lambda: topics.unbind(b"a*", b"q"),
        lambda: topics.shards.subscribe(b"*", ear),
    ):
        with pytest.raises(InvalidTopicError):
            call()
    with pytest.raises(QueueNotFoundError):
        topics.bind(b"#", b"none")
    with pytest.raises(QueueNotFoundError):
        topics.bound(b"none")
    with pytest.raises(TooBigError):
        topics.publish(b"t", b"1234", {b"h": b"v"})
    assert (topics.subscriptions, topics.bindings) == (0, 0)


def test_subscriptions_that_come_and_go_leave_nothing_behind() -> None:
    topics = Bench().broker.topics
    for i in range(2_000):
        ear = Ear()
        topics.subscribe(b"t.%d" % i, ear)
        topics.subscribe_pattern(b"a.%d.*.#" % i, ear)
        topics.unsubscribe(b"t.%d" % i, ear)
        topics.unsubscribe_pattern(b"a.%d.*.#" % i, ear)
    assert topics.channels.names() == []
    assert topics._patterns.empty
    assert (topics.subscriptions, topics.pattern_count) == (0, 0)


# -- Deaths


def hear(bench: Bench, pattern: bytes = b"$sys.dead.#") -> Ear:
    ear = Ear()
    bench.broker.topics.subscribe_pattern(pattern, ear)
    return ear


def bodies(ear: Ear) -> list[dict[str, object]]:
    return [json.loads(body) for _, _, body in ear.heard]


def test_each_way_to_die_is_announced() -> None:
    bench = Bench(max_len=1, overflow="DROPHEAD", max_attempts=1, ttl=100)
    ear = hear(bench)
    bench.put(b"dropped")
    bench.put(b"rejected")
    bench.broker.reject(b"q", bench.take(), b"bad")
    bench.put(b"failed")
    bench.broker.nack(b"q", bench.take(), error=b"worse")
    bench.put(b"lapsed")
    bench.after(100)
    assert [topic for _, topic, _ in ear.heard] == [b"$sys.dead.q"] * 4
    assert [(b["id"], b["reason"], b["error"], b["attempt"]) for b in bodies(ear)] == [
        ("dropped", "max_length", None, 0),
        ("rejected", "rejected", "bad", 1),
        ("failed", "max_attempts", "worse", 1),
        ("lapsed", "ttl_expired", None, 0),
    ]
    assert [b["dead_at"] for b in bodies(ear)] == ["2023-11-14T22:13:20.000Z"] * 3 + ["2023-11-14T22:13:20.100Z"]
    assert {b["queue"] for b in bodies(ear)} == {"q"}


def test_bytes_that_are_no_utf_8_are_escaped() -> None:
    bench = Bench()
    ear = hear(bench)
    bench.broker.put(b"q", b"", id=b'\xff"\xc3\xa9\n')
    bench.broker.reject(b"q", bench.take(), b"\x80")
    bench.broker.serve()
    (_, _, body) = ear.heard[0]
    body.decode()
    assert bodies(ear)[0]["id"] == '\\xff"\N{LATIN SMALL LETTER E WITH ACUTE}\n'
    assert bodies(ear)[0]["error"] == "\\x80"


def test_a_copy_of_an_announcement_dies_in_silence() -> None:
    bench = Bench(max_attempts=1)
    bench.declare(b"graveyard", max_attempts=1)
    bench.broker.topics.bind(b"$sys.dead.#", b"graveyard")
    ear = hear(bench)
    bench.put(b"m")
    bench.broker.nack(b"q", bench.take())
    bench.broker.serve()
    assert len(ear.heard) == 1
    token = bench.take(1, b"graveyard")
    bench.broker.reject(b"graveyard", token)
    bench.broker.serve()
    bench.broker.replay_dead(b"graveyard")
    bench.broker.nack(b"graveyard", bench.take(1, b"graveyard"))
    bench.broker.serve()
    assert len(ear.heard) == 1
    assert bench.stat("dead_lettered", b"graveyard") == 2


def test_a_message_that_only_looks_like_an_announcement_is_announced() -> None:
    bench = Bench()
    ear = hear(bench)
    bench.broker.put(b"q", b"", extra=Extra({b"topic": b"$sys.dead.q"}, (), None))
    bench.broker.reject(b"q", bench.take())
    bench.broker.serve()
    assert len(ear.heard) == 1


def test_two_full_queues_that_announce_into_each_other_come_to_rest() -> None:
    bench = Bench(max_len=1_000, overflow="DROPHEAD", dedupe=0)
    bench.declare(b"r", max_len=1_000, overflow="DROPHEAD", dedupe=0)
    for name in (b"q", b"r"):
        bench.broker.put_many(name, (b"m",) * 1_000)
    bench.broker.topics.bind(b"$sys.dead.r", b"q")
    bench.broker.topics.bind(b"$sys.dead.q", b"r")
    ear = hear(bench)
    bench.put(b"one more")
    for _ in range(3_000):
        if not bench.broker.unserved:
            break
        bench.broker.serve()
    assert not bench.broker.unserved
    # Each of the 2,000 messages can push one out; copies of announcements then die unannounced.
    assert len(ear.heard) <= 2_001
    assert (bench.stat("ready"), bench.stat("ready", b"r")) == (1_000, 1_000)


@pytest.mark.parametrize("how", ["ttl", "max_len"])
def test_very_many_deaths_are_announced_in_order_and_in_slices(how: str) -> None:
    many = 5 * TICK_BUDGET
    bench = Bench(ttl=100 if how == "ttl" else None, max_len=many, overflow="DROPHEAD", max_dead=0)
    ear = hear(bench)
    ids = bench.broker.put_many(b"q", (b"",) * many)
    if how == "max_len":
        bench.broker.put_many(b"q", (b"",) * many)
        bench.broker.serve()
    steps: list[int] = []
    following: int | None = 0
    while following is not None and following <= START + 100:
        before = len(ear.heard)
        # A tick says itself whether there is more to do.
        following = bench.broker.tick(START + 100)
        steps.append(len(ear.heard) - before)
    assert [b["id"] for b in bodies(ear)] == [id.decode() for id in ids]
    assert max(steps) <= TICK_BUDGET + 2 * ANNOUNCE_AT_ONCE
    assert len(steps) >= 5


def test_without_an_audience_nothing_is_kept_for_it() -> None:
    bench = Bench(ttl=100)
    bench.broker.put_many(b"q", (b"",) * 1_000)
    bench.after(100)
    assert not bench.broker.unserved
    ear = hear(bench)
    bench.broker.serve()
    assert ear.heard == []
