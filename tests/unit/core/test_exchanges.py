"""Exchanges: FANOUT, DIRECT and TOPIC, their bindings and what is published to them."""

from __future__ import annotations

import pytest

from respmq.errors import (
    ExchangeNotFoundError,
    InvalidNameError,
    InvalidRequestError,
    InvalidTopicError,
    QueueConfigConflictError,
    QueueNotFoundError,
    TooBigError,
)
from tests.unit.core.bench import Bench


def with_queues() -> Bench:
    bench = Bench()
    for name in (b"a", b"b", b"c"):
        bench.declare(name)
    return bench


def got(bench: Bench) -> dict[str, int]:
    """How many messages each queue has got since the last call."""
    return {name.decode(): bench.broker.purge(name) for name in (b"a", b"b", b"c")}


def publish(bench: Bench, key: bytes) -> int:
    return bench.broker.exchanges.publish(b"x", key, b"body", {}, ())


def test_fanout_ignores_keys() -> None:
    bench = with_queues()
    exchanges = bench.broker.exchanges
    exchanges.declare(b"x", "FANOUT")
    assert exchanges.bind(b"x", b"a", b"key")
    assert not exchanges.bind(b"x", b"a", b"other")
    assert exchanges.bind(b"x", b"b", None)
    for key in (b"", b"key", b"a..b", b"\xff"):
        assert publish(bench, key) == 2
        assert got(bench) == {"a": 1, "b": 1, "c": 0}
    assert exchanges.bindings(b"x") == [(b"a", b""), (b"b", b"")]
    assert exchanges.unbind(b"x", b"a", b"whatever")
    assert not exchanges.unbind(b"x", b"a", None)
    assert publish(bench, b"") == 1


def test_direct_wants_the_equal_key() -> None:
    bench = with_queues()
    exchanges = bench.broker.exchanges
    exchanges.declare(b"x", "DIRECT")
    exchanges.bind(b"x", b"a", b"k")
    exchanges.bind(b"x", b"a", b"*")
    exchanges.bind(b"x", b"b", b"k")
    exchanges.bind(b"x", b"c", None)
    assert [publish(bench, key) for key in (b"k", b"*", b"", b"other", b"K")] == [2, 1, 1, 0, 0]
    assert got(bench) == {"a": 2, "b": 1, "c": 1}
    assert not exchanges.bind(b"x", b"c", b"")
    assert exchanges.unbind(b"x", b"a", b"k")
    assert not exchanges.unbind(b"x", b"a", b"k")
    assert publish(bench, b"k") == 1


def test_topic_matches_patterns_and_gives_one_copy() -> None:
    bench = with_queues()
    exchanges = bench.broker.exchanges
    exchanges.declare(b"x", "TOPIC")
    for queue, key in ((b"a", b"order.*"), (b"a", b"#"), (b"b", b"order.#.eu"), (b"c", b"*"), (b"c", b"#.#")):
        assert exchanges.bind(b"x", queue, key)
    assert publish(bench, b"order.new") == 2
    assert got(bench) == {"a": 1, "b": 0, "c": 1}
    assert publish(bench, b"order.new.eu") == 3
    assert publish(bench, b"$sys.x") == 2
    # No words at all: only what is made of # matches.
    assert publish(bench, b"") == 2
    got(bench)
    exchanges.unbind(b"x", b"c", b"#.#")
    assert publish(bench, b"") == 1
    for key in (b"a..b", b"order.*", b"a b"):
        with pytest.raises(InvalidTopicError):
            publish(bench, key)
    with pytest.raises(InvalidRequestError, match="a binding needs a key"):
        exchanges.bind(b"x", b"a", None)
    with pytest.raises(InvalidTopicError):
        exchanges.bind(b"x", b"a", b"a*")


def test_the_copy_says_where_it_comes_from() -> None:
    bench = with_queues()
    exchanges = bench.broker.exchanges
    exchanges.declare(b"x", "DIRECT")
    exchanges.bind(b"x", b"a", b"k")
    headers = {b"h": b"v", b"exchange": b"forged", b"routing-key": b"forged"}
    assert exchanges.publish(b"x", b"k", b"body", headers, (b"att",)) == 1
    (copy,) = bench.broker.peek(b"a", 0, 10, 0)
    assert copy["headers"] == {b"h": b"v", b"exchange": b"x", b"routing-key": b"k"}
    assert copy["attachments"] == [b"att"]


def test_full_queues_lose_their_copy() -> None:
    bench = with_queues()
    bench.declare(b"small", max_len=1)
    exchanges = bench.broker.exchanges
    exchanges.declare(b"x", "FANOUT")
    for name in (b"small", b"a"):
        exchanges.bind(b"x", name, None)
    assert [publish(bench, b"") for _ in range(3)] == [2, 1, 1]
    assert bench.broker.topics.binding_drops == 2


def test_declaring_deleting_and_listing() -> None:
    bench = with_queues()
    exchanges = bench.broker.exchanges
    exchanges.declare(b"x", "TOPIC")
    exchanges.declare(b"x", "TOPIC")
    exchanges.declare(b"another", "FANOUT")
    with pytest.raises(QueueConfigConflictError, match="it is TOPIC, not DIRECT"):
        exchanges.declare(b"x", "DIRECT")
    with pytest.raises(InvalidNameError):
        exchanges.declare(b"a..b", "DIRECT")
    assert exchanges.kinds() == [(b"another", "FANOUT"), (b"x", "TOPIC")]
    exchanges.bind(b"x", b"a", b"#")
    assert exchanges.delete(b"x") == 1
    exchanges.declare(b"x", "DIRECT")
    assert exchanges.bindings(b"x") == []


def test_a_deleted_queue_takes_its_bindings_along() -> None:
    bench = with_queues()
    exchanges = bench.broker.exchanges
    exchanges.declare(b"x", "TOPIC")
    exchanges.declare(b"y", "DIRECT")
    for queue in (b"a", b"b"):
        exchanges.bind(b"x", queue, b"k.#")
        exchanges.bind(b"y", queue, b"k")
    bench.broker.delete(b"a")
    assert exchanges.bindings(b"x") == [(b"b", b"k.#")]
    assert exchanges.bindings(b"y") == [(b"b", b"k")]
    bench.declare(b"a")
    assert publish(bench, b"k") == 1


def test_errors() -> None:
    bench = with_queues()
    bench.broker.max_message_size = 10
    exchanges = bench.broker.exchanges
    for call in (
        lambda: exchanges.delete(b"none"),
        lambda: exchanges.bind(b"none", b"a", b"k"),
        lambda: exchanges.unbind(b"none", b"a", b"k"),
        lambda: exchanges.bindings(b"none"),
        lambda: exchanges.publish(b"none", b"", b"", {}, ()),
    ):
        with pytest.raises(ExchangeNotFoundError):
            call()
    exchanges.declare(b"x", "DIRECT")
    for call in (lambda: exchanges.bind(b"x", b"none", b"k"), lambda: exchanges.unbind(b"x", b"none", b"k")):
        with pytest.raises(QueueNotFoundError):
            call()
    with pytest.raises(TooBigError):
        exchanges.publish(b"x", b"", b"123456", {b"name": b"v"}, ())
