"""Push consumers: PREFETCH, the line that they share with waiting clients, and what becomes of their leases."""

from __future__ import annotations

import pytest

from respmq.core.consumers import Consumer
from respmq.core.model import Description, Message
from respmq.errors import InvalidRequestError, QueueNotFoundError
from tests.unit.core.bench import Bench


class Sink:
    """Takes what is pushed to one consumer."""

    def __init__(self, bench: Bench, *, prefetch: int = 10, name: bytes = b"q", full: bool = False) -> None:
        self.got: list[object] = []
        self.tokens: list[bytes] = []
        self.reasons: list[str] = []
        self.consumer = bench.broker.consume(name, prefetch, self, full)
        bench.broker.serve()

    def deliver(self, consumer: Consumer, delivery: Message | Description) -> None:
        if isinstance(delivery, Message):
            self.got.append(delivery.body)
            self.tokens.append(delivery.lease or b"")
        else:
            self.got.append(delivery)

    def cancelled(self, consumer: Consumer, reason: str) -> None:
        assert consumer is self.consumer
        self.reasons.append(reason)


def settle(bench: Bench, token: bytes) -> None:
    assert bench.broker.ack(b"q", (token,)) == 1
    bench.broker.serve()


def test_no_more_than_prefetch_are_unsettled() -> None:
    bench = Bench()
    bench.put(b"1", b"2", b"3", b"4")
    sink = Sink(bench, prefetch=2)
    assert sink.got == [b"1", b"2"]
    settle(bench, sink.tokens[1])
    assert sink.got == [b"1", b"2", b"3"]
    bench.broker.nack(b"q", sink.tokens[0], delay=1_000)
    bench.broker.serve()
    assert sink.got == [b"1", b"2", b"3", b"4"]
    assert bench.stat("in_flight") == 2


@pytest.mark.parametrize("end", ["ack", "nack", "reject", "release", "remove", "expire"])
def test_each_way_in_which_a_lease_can_end_makes_room(end: str) -> None:
    bench = Bench(retry_delay=50_000, ack_timeout=100)
    bench.put(b"1", b"2")
    sink = Sink(bench, prefetch=1)
    token = sink.tokens[0]
    broker = bench.broker
    match end:
        case "ack":
            broker.ack_one(b"q", token)
        case "nack":
            broker.nack(b"q", token)
        case "reject":
            broker.reject(b"q", token)
        case "release":
            broker.release(b"q", token, 100_000)
        case "remove":
            broker.remove(b"q", (b"1",))
        case _:
            bench.after(100)
    broker.serve()
    assert sink.got == [b"1", b"2"]
    assert bench.stat("in_flight") == 1


def test_a_consumer_goes_to_the_back_once_it_was_served() -> None:
    bench = Bench()
    a, b = Sink(bench), Sink(bench)
    waiting = bench.wait()
    bench.put(b"1", b"2", b"3", b"4", b"5")
    assert (a.got, b.got, waiting.answer) == ([b"1", b"4"], [b"2", b"5"], [b"3"])


def test_messages_are_spread_over_consumers_that_have_room() -> None:
    bench = Bench()
    sinks = [Sink(bench, prefetch=n) for n in (1, 2, 3)]
    bench.put(*(b"%d" % i for i in range(10)))
    assert [len(sink.got) for sink in sinks] == [1, 2, 3]
    assert bench.stat("ready") == 4


def test_a_cancelled_consumer_s_leases_fail() -> None:
    bench = Bench(max_attempts=1)
    sink = Sink(bench, prefetch=3)
    bench.put(b"1", b"2", b"3", b"4")
    settle(bench, sink.tokens[1])
    assert bench.broker.cancel(sink.consumer.tag) == 3
    bench.broker.serve()
    assert bench.dead == [(body, "max_attempts", b"consumer removed", 0) for body in (b"1", b"3", b"4")]
    assert (bench.stat("in_flight"), bench.stat("consumers")) == (0, 0)
    assert sink.reasons == []
    with pytest.raises(InvalidRequestError, match="no such consumer 'ctag-1'"):
        bench.broker.cancel(sink.consumer.tag)


def test_what_a_cancelled_consumer_held_goes_to_others_in_order() -> None:
    bench = Bench(retry_delay=0)
    sink = Sink(bench)
    bench.put(b"1", b"2", b"3")
    other = Sink(bench)
    bench.broker.cancel(sink.consumer.tag)
    bench.broker.serve()
    assert other.got == [b"1", b"2", b"3"]


def test_a_lease_that_has_expired_is_not_the_consumer_s_any_more() -> None:
    bench = Bench(ack_timeout=100, retry_delay=0)
    sink = Sink(bench, prefetch=1)
    bench.put(b"m")
    late = sink.tokens[0]
    bench.after(100)
    assert sink.got == [b"m", b"m"]
    assert bench.broker.ack(b"q", (late,)) == 0
    bench.broker.cancel(sink.consumer.tag)
    assert (bench.stat("in_flight"), bench.stat("ready")) == (0, 1)


def test_a_deleted_queue_tells_its_consumers() -> None:
    bench = Bench()
    bench.declare(b"r")
    sinks = [Sink(bench, prefetch=1), Sink(bench)]
    other = Sink(bench, name=b"r")
    bench.put(b"1", b"2")
    bench.broker.delete(b"q")
    assert [sink.reasons for sink in (*sinks, other)] == [["queue 'q' was deleted"]] * 2 + [[]]
    bench.put(b"m", name=b"r")
    assert other.got == [b"m"]
    with pytest.raises(InvalidRequestError):
        bench.broker.cancel(sinks[0].consumer.tag)


def test_tags_are_unique_across_queues_and_never_used_again() -> None:
    bench = Bench()
    bench.declare(b"r")
    first, second = Sink(bench), Sink(bench, name=b"r")
    bench.broker.cancel(first.consumer.tag)
    third = Sink(bench)
    assert [sink.consumer.tag for sink in (first, second, third)] == [b"ctag-1", b"ctag-2", b"ctag-3"]
    with pytest.raises(QueueNotFoundError):
        Sink(bench, name=b"none")
    assert Sink(bench).consumer.tag == b"ctag-4"


def test_full_deliveries_are_descriptions() -> None:
    bench = Bench()
    sink = Sink(bench, full=True)
    bench.put(b"m")
    (got,) = sink.got
    assert isinstance(got, dict)
    assert (got["body"], got["attempt"], got["deadline"]) == (b"m", 1, bench.broker.now + 30_000)


def test_a_delivery_that_never_reached_the_socket_is_not_counted() -> None:
    bench = Bench()
    bench.put(b"m")
    sink = Sink(bench, prefetch=1)
    bench.broker.cancel(sink.consumer.tag)
    again = Sink(bench, prefetch=1)
    bench.after(1_000)
    assert again.got == [b"m"]
    bench.broker.undeliver([(b"q", again.tokens[0])])
    assert again.got == [b"m", b"m"]
    assert bench.stat("delivered") == 2


def test_a_consumer_that_is_held_gets_nothing_and_keeps_what_it_has() -> None:
    bench = Bench()
    bench.put(b"1")
    a, b = Sink(bench), Sink(bench, prefetch=1)
    a.consumer.hold()
    bench.put(b"2", b"3", b"4")
    assert (a.got, b.got) == ([b"1"], [b"2"])
    settle(bench, a.tokens[0])
    assert (a.got, b.got) == ([b"1"], [b"2"])
    a.consumer.go_on()
    bench.broker.serve()
    assert (a.got, b.got) == ([b"1", b"3", b"4"], [b"2"])


def test_a_consumer_without_room_goes_on_when_there_is_room() -> None:
    bench = Bench()
    a = Sink(bench, prefetch=1)
    bench.put(b"1", b"2")
    a.consumer.hold()
    a.consumer.go_on()
    bench.broker.serve()
    assert a.got == [b"1"]
    settle(bench, a.tokens[0])
    assert a.got == [b"1", b"2"]


def test_a_queue_can_be_deleted_while_its_consumer_is_held() -> None:
    bench = Bench()
    a = Sink(bench)
    a.consumer.hold()
    bench.broker.delete(b"q")
    assert a.reasons == ["queue 'q' was deleted"]
