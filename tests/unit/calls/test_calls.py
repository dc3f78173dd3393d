"""Calls: the words that are sent, what is refused before anything is sent, and replies of both protocols."""

from __future__ import annotations

import math
from typing import Any

import pytest

from respmq.api.messages import DeadLetter, Delivery
from respmq.api.results import BrokerStats, PublishResult, PutResult
from respmq.api.settings import QueueConfig
from respmq.calls import consumers, dead, exchanges, messages, queues, server, topics
from respmq.calls.call import Call
from respmq.calls.decode import QueuedMessage
from respmq.commands.registry import load
from respmq.errors import InvalidRequestError, ProtocolError

FULL = {
    b"queue": b"jobs",
    b"id": b"a",
    b"lease": b"t-1",
    b"attempt": 2,
    b"body": b'{"n":1}',
    b"headers": {b"content-type": b"application/json", b"by": b"\xff"},
    b"attachments": [b"\x00"],
    b"priority": -3,
    b"enqueued_at": 1500,
    b"deadline": 31500,
}


#: What a type checker would have refused.
WRONG: dict[str, Any] = {"object": object(), "float": 1.5, "dict": {"a": 1}, "list": ["text"]}


def flat(value: object) -> Any:
    """A reply of RESP3 as RESP2 has it."""
    if isinstance(value, dict):
        return [part for key, item in value.items() for part in (key, flat(item))]
    if isinstance(value, list):
        return [flat(item) for item in value]
    return repr(value).encode() if isinstance(value, float) else value


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (queues.qdeclare("q"), ["QDECLARE", "q"]),
        (
            queues.qdeclare("q", acktimeout=0.25, retryjitter=0.1, overflow="DROPHEAD", maxdead=0),
            ["QDECLARE", "q", "ACKTIMEOUT", "250ms", "RETRYJITTER", "0.1", "OVERFLOW", "DROPHEAD", "MAXDEAD", "0"],
        ),
        (queues.qlist(match="a*"), ["QLIST", "MATCH", "a*"]),
        (queues.qstats(), ["QSTATS"]),
        (queues.qstats("q"), ["QSTATS", "q"]),
        (messages.qput("q", "b", id="k"), ["QPUT", "q", "b", "ID", "k"]),
        (
            messages.qput(
                "q", {"n": 1}, id="k", priority=-1, delay=0, ttl=2, headers={"h": "v"}, attachments=[b"\xff"]
            ),
            [
                *("QPUT", "q", '{"n":1}', "ID", "k", "PRIORITY", "-1", "DELAY", "0ms", "TTL", "2000ms", "HEADER", "h"),
                *("v", "HEADER", "content-type", "application/json", "ATTACH", "\udcff"),
            ],
        ),
        (messages.qmput("q", "a", b"b"), ["QMPUT", "q", "a", "b"]),
        (
            messages.qlease("q", "p", count=3, wait=1, reqid="k"),
            ["QLEASE", "q", "p", "COUNT", "3", "REQID", "k", "FULL"],
        ),
        (messages.qack("q", "t", "u"), ["QACK", "q", "t", "u"]),
        (messages.qnack("q", "t"), ["QNACK", "q", "t"]),
        (messages.qnack("q", "t", mode="RELEASE", delay=1.5), ["QNACK", "q", "t", "RELEASE", "DELAY", "1500ms"]),
        (messages.qtouch("q", "t", for_=60), ["QTOUCH", "q", "t", "FOR", "60000ms"]),
        (messages.qpeek("q", offset=1, state="LEASED"), ["QPEEK", "q", "OFFSET", "1", "STATE", "LEASED"]),
        (dead.qdead_replay("q", "a", "b"), ["QDEAD", "REPLAY", "q", "a", "b"]),
        (
            topics.qpublish("t", b"\x00"),
            ["QPUBLISH", "t", "\x00", "HEADER", "content-type", "application/octet-stream"],
        ),
        (topics.qbindings(), ["QBINDINGS"]),
        (exchanges.exchange_declare("e", "TOPIC"), ["EXCHANGE", "DECLARE", "e", "TOPIC"]),
        (exchanges.exchange_bind("e", "q"), ["EXCHANGE", "BIND", "e", "q"]),
        (exchanges.exchange_bind("e", "q", "k"), ["EXCHANGE", "BIND", "e", "q", "k"]),
        (consumers.qconsume("q", prefetch=4), ["QCONSUME", "q", "PREFETCH", "4", "FULL"]),
        (server.debug_advance(0.5), ["DEBUG", "ADVANCE", "500ms"]),
    ],
)
def test_the_words(call: Call[object], words: list[str]) -> None:
    assert [word.decode("utf-8", "surrogateescape") for word in call.words] == words
    spec = next(spec for spec in load().all_specs() if words[: spec.grammar.depth] == spec.name.split(" "))
    spec.grammar.parse(list(call.words))


def test_a_put_and_a_lease_make_their_keys() -> None:
    assert messages.qput("q", "b").words[-2] == b"ID"
    assert len({messages.qput("q", "b").words[-1] for _ in range(3)}) == 3
    assert len({messages.qlease("q").words for _ in range(3)}) == 3


def test_waiting() -> None:
    call = messages.qlease("q", reqid="k", wait=30)
    assert call.wait == 30
    assert call.waiting(1.5)[-2:] == (b"WAIT", b"1500ms")
    assert call.waiting(math.inf)[-2:] == (b"WAIT", b"0ms")
    assert call.waiting(None) == call.waiting(0) == call.words


@pytest.mark.parametrize(
    ("make", "text"),
    [
        (lambda: messages.qput("q", WRONG["object"]), "the body, a object, can't be encoded"),
        (lambda: messages.qput("q", "b", delay=-1), "invalid delay -1"),
        (lambda: messages.qput("q", "b", ttl=0), "invalid ttl 0"),
        (lambda: messages.qput("q", "b", priority=WRONG["float"]), "invalid priority 1.5"),
        (lambda: messages.qput("q", "b", priority=1 << 63), "invalid priority"),
        (lambda: messages.qput("q", "b", attachments=WRONG["list"]), "attachments are bytes, one is a str"),
        (lambda: messages.qput("q\ud800", "b"), "queue 'q\\ud800' can't be encoded"),
        (lambda: messages.qmput("q", WRONG["dict"]), "a body of QMPUT is a str or bytes, not a dict"),
        (lambda: queues.qdeclare("q", retryjitter=2), "invalid retryjitter 2"),
        (lambda: server.debug_advance(math.nan), "invalid duration nan"),
        (lambda: messages.qlease("q", wait=-1).waiting(-1), "invalid wait -1"),
    ],
)
def test_what_cannot_be_sent_is_refused(make: Any, text: str) -> None:
    with pytest.raises(InvalidRequestError) as caught:
        make()
    assert text in caught.value.text


# -- replies


def test_a_delivery_in_both_protocols() -> None:
    for reply in ([FULL], flat([FULL])):
        [found] = messages.qlease("jobs").decode(reply, None)
        assert found == Delivery(
            queue="jobs",
            id="a",
            attempt=2,
            raw=b'{"n":1}',
            headers={"content-type": "application/json", "by": "\udcff"},
            attachments=(b"\x00",),
            priority=-3,
            enqueued_at=1.5,
            lease="t-1",
            deadline=31.5,
        )
        assert found.body == {"n": 1}


def test_what_is_shown_of_a_message() -> None:
    ready = FULL | {b"state": b"ready", b"lease": None, b"deadline": None}
    letter = FULL | {b"reason": b"rejected", b"error": None, b"dead_at": 2000, b"lease": None, b"deadline": None}
    for change in (lambda value: value, flat):
        shown = messages.qshow("jobs", "a").decode(change(ready), None)
        assert isinstance(shown, QueuedMessage)
        assert (shown.state, shown.lease, shown.deadline, shown.body) == ("ready", None, None, {"n": 1})
        assert messages.qpeek("jobs").decode(change([ready]), None) == [shown]
        buried = messages.qshow("jobs", "a").decode(change(letter), None)
        assert isinstance(buried, DeadLetter)
        assert (buried.reason, buried.error, buried.dead_at) == ("rejected", None, 2.0)
        assert dead.qdead_list("jobs").decode(change([letter]), None) == [buried]
    assert messages.qshow("jobs", "a").decode(None, None) is None


def test_settings_and_statistics() -> None:
    settings = {
        b"acktimeout": 30,
        b"maxattempts": 5,
        b"retrydelay": 0.5,
        b"maxretrydelay": 60,
        b"retryjitter": 0.25,
        b"maxlen": 10,
        b"overflow": b"DROPHEAD",
        b"ttl": None,
        b"maxdead": 7,
        b"dedupe": 0,
    }
    wanted = QueueConfig(retry_delay=0.5, retry_jitter=0.25, max_len=10, overflow="DROPHEAD", max_dead=7, dedupe=0)
    counts = {b"queues": 1, b"subscriptions": 2, b"bindings": 3, b"binding_drops": 4, b"uptime": 5}
    for change in (lambda value: value, flat):
        assert queues.qconfig("q").decode(change(settings), None) == wanted
        assert queues.qstats().decode(change(counts), None) == BrokerStats(
            queues=1, subscriptions=2, bindings=3, binding_drops=4
        )


def test_a_duplicate_is_told_from_a_put_that_was_sent_twice() -> None:
    assert messages.qput("q", "b", id="k").decode(b"k", None) == PutResult("k", duplicate=False)
    assert messages.qput("q", "b", id="k").decode(None, None) == PutResult("k", duplicate=True)
    call = messages.qput("q", "b")
    assert call.decode(None, None) == PutResult(call.words[-1].decode(), duplicate=False)


def test_other_replies() -> None:
    assert topics.qpublish("t", "b").decode([2, 1], None) == PublishResult(2, 1)
    assert topics.qbindings().decode([[b"#", b"q"]], None) == [("#", "q")]
    assert exchanges.exchange_list().decode([[b"e", b"FANOUT"]], None) == [("e", "FANOUT")]
    assert messages.qnack("q", "t").decode(1, None) is True
    assert queues.qdeclare("q").decode(b"OK", None) is None


@pytest.mark.parametrize(
    ("call", "reply", "text"),
    [
        (messages.qlease("q"), [{b"queue": b"q", b"id": b"a"}], "a reply has no 'attempt', only queue, id"),
        (messages.qlease("q"), [[b"queue"]], "a map is wanted"),
        (topics.qbindings(), [[b"#"]], "a pair is wanted"),
        (topics.qpublish("t", "b"), [1, 2, 3], "a pair is wanted"),
        (queues.qlist(), b"q", "an array is wanted"),
        (queues.qlist(), [1], "a string is wanted"),
        (queues.qdeclare("q"), b"QUEUED", "OK is wanted"),
    ],
)
def test_a_reply_of_another_shape_is_an_error(call: Call[object], reply: object, text: str) -> None:
    with pytest.raises(ProtocolError, match=text):
        call.decode(reply, None)


@pytest.mark.parametrize("reply", [None, b"x", 1.5, [1], {b"a": 1}])
def test_a_reply_of_another_kind_is_an_error(reply: object) -> None:
    with pytest.raises(ProtocolError, match="an integer is wanted"):
        queues.qpurge("q").decode(reply, None)
