"""A broker's queues in a file: all of it comes back, or nothing does."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import trio
from trio.testing import MockClock

from respmq import Broker, BrokerStats, InvalidRequestError, PublishResult, QueueConfig


def names(folder: Path) -> list[str]:
    """What is in a folder."""
    return [path.name for path in folder.iterdir()]


async def test_all_of_a_broker_comes_back(broker: Broker, autojump_clock: MockClock, tmp_path: Path) -> None:
    path = tmp_path / "broker.jsonl"
    config = QueueConfig(ack_timeout=60, max_attempts=7, overflow="DROPHEAD", max_len=50, ttl=3600, retry_delay=0)
    broker.declare_queue("jobs", config)
    broker.declare_queue("audit")
    broker.bind("orders.#", "audit")
    broker.declare_exchange("logs", "TOPIC")
    broker.declare_exchange("fan", "FANOUT")
    broker.bind_exchange("logs", "jobs", "*.error")
    broker.bind_exchange("fan", "audit")
    for name in ("one", "two", "three", "four"):
        broker.put("jobs", {"name": name}, id=name, headers={"h\udcff": "v"}, attachments=[b"\xff", b"a"], ttl=1000)
    broker.put("jobs", b"\x00\xff", id="urgent", priority=-5)
    broker.put("jobs", "later", id="later", delay=100)
    urgent, one, two = broker.lease("jobs", count=3)
    broker.nack("jobs", two.lease, requeue=False, error="bad \N{SNOWMAN}")
    broker.nack("jobs", one.lease)
    (three,) = broker.lease("jobs")
    assert [one.id, two.id, three.id] == ["one", "two", "three"]
    broker.save(str(path))
    assert names(tmp_path) == ["broker.jsonl"]
    # The lease of before goes on.
    assert broker.touch("jobs", urgent.lease)

    async with Broker() as other:
        seen: list[str] = []
        other.subscribe("$sys.#", lambda sub, event: seen.append(event.topic))
        other.load(path)
        assert other.list_queues() == ["audit", "jobs"]
        assert other.queue_config("jobs") == config
        assert other.broker_stats() == BrokerStats(queues=2, subscriptions=1, bindings=1, binding_drops=0)
        got = other.lease("jobs", count=9)
        # What was leased is ready, at the front of its priority, and its delivery doesn't count.
        assert [(job.id, job.attempt) for job in got] == [("urgent", 1), ("three", 1), ("four", 1), ("one", 2)]
        assert got[0].body == b"\x00\xff"
        assert got[1].body == {"name": "three"}
        assert got[1].headers == {"h\udcff": "v", "content-type": "application/json"}
        assert got[1].attachments == (b"\xff", b"a")
        assert got[1].enqueued_at == three.enqueued_at
        (letter,) = other.dead_letters("jobs")
        assert (letter.id, letter.error, letter.reason, letter.attempt) == ("two", "bad \N{SNOWMAN}", "rejected", 1)
        assert seen == []
        assert other.put("jobs", "x", id="two").duplicate
        assert other.publish("orders.eu", "x") == PublishResult(subscribers=0, queues=1)
        assert other.publish_exchange("logs", "web.error", "x") == 1
        assert other.publish_exchange("fan", "", "x") == 1
        assert other.stats("jobs").delayed == 1
        await trio.sleep(101)
        assert "later" in [job.id for job in other.lease("jobs", count=9)]
        other.delete_queue("jobs")


async def test_a_copy_of_an_announcement_is_still_one(broker: Broker, tmp_path: Path) -> None:
    broker.declare_queue("all")
    broker.bind("#", "all")
    broker.put("all", "x")
    broker.nack("all", broker.lease("all")[0].lease, requeue=False)
    broker.save(tmp_path / "broker")
    async with Broker() as other:
        other.load(tmp_path / "broker")
        (copy,) = other.lease("all")
        assert copy.body["reason"] == "rejected"
        other.nack("all", copy.lease, requeue=False)
        assert other.lease("all") == []


async def test_saving_again_after_loading_gives_the_same(broker: Broker, tmp_path: Path) -> None:
    broker.declare_queue("jobs")
    for number in range(5):
        broker.put("jobs", number, priority=number % 2)
    broker.lease("jobs")
    broker.save(tmp_path / "first")
    async with Broker() as other:
        other.load(tmp_path / "first")
        other.save(tmp_path / "second")
    first, second = ((tmp_path / name).read_text().splitlines()[1:] for name in ("first", "second"))
    assert first == second
    assert [json.loads(line)["body"] for line in first[1:-1]] == ["0", "2", "4", "1", "3"]


async def test_what_could_not_be_written_leaves_what_was_there(broker: Broker, tmp_path: Path) -> None:
    (tmp_path / "taken").mkdir()
    with pytest.raises(OSError, match="taken"):
        broker.save(tmp_path / "taken")
    assert names(tmp_path) == ["taken"]


async def test_a_broker_with_queues_does_not_load(broker: Broker, tmp_path: Path) -> None:
    broker.declare_queue("jobs")
    broker.save(tmp_path / "file")
    with pytest.raises(InvalidRequestError, match="one that has none is wanted"):
        broker.load(tmp_path / "file")
    broker.delete_queue("jobs")
    broker.declare_exchange("logs")
    with pytest.raises(InvalidRequestError, match="queues or exchanges already"):
        broker.load(tmp_path / "file")


HEAD = '{"format":"respmq queues","version":1,"saved_at":0}'
QUEUE = '{"queue":"q","config":{}}'
MESSAGE = '{"message":"q","id":"a","body":"x"}'

BROKEN: dict[str, tuple[list[str], str]] = {
    "nothing": ([], "the line that says where it ends is missing"),
    "no JSON": (["{"], "line 1: it is no JSON"),
    "no object": (["[]"], "line 1: a JSON object is wanted"),
    "another file": (['{"format":"x"}'], "line 1: 'format' is 'x', 'respmq queues' is wanted"),
    "a later version": (['{"format":"respmq queues","version":2}'], "'version' is 2, this respmq reads version 1"),
    "cut off": ([HEAD, QUEUE, MESSAGE], "the line that says where it ends is missing"),
    "a line is missing": ([HEAD, QUEUE, '{"end":3}'], "line 3: 3 lines should stand before it, there are 2"),
    "behind the end": ([HEAD, '{"end":1}', QUEUE], "line 3: it stands behind the end"),
    "unknown": ([HEAD, '{"what":1}'], "line 2: it says nothing that version 1 of the format knows"),
    "no queue": ([HEAD, MESSAGE], "line 2: there is no line before it for the queue 'q'"),
    "the name": ([HEAD, '{"queue":"a b","config":{}}'], "line 2: queue name 'a b' must be made of"),
    "the config": ([HEAD, '{"queue":"q","config":[]}'], "line 2: 'config' is [], an object is wanted"),
    "a setting": ([HEAD, '{"queue":"q","config":{"maxlen":1}}'], "line 2: unknown settings maxlen"),
    "a value": ([HEAD, '{"queue":"q","config":{"max_len":0}}'], "line 2: invalid max_len 0"),
    "twice": ([HEAD, QUEUE, QUEUE], "line 3: the queue 'q' is there for the second time"),
    "the same id": ([HEAD, QUEUE, MESSAGE, MESSAGE], "line 4: a message with the id 'a' is there for the second time"),
    "no body": ([HEAD, QUEUE, '{"message":"q","id":"a"}'], "line 3: 'body' is None, a string or"),
    "no id": ([HEAD, QUEUE, '{"message":"q","id":"","body":"x"}'], "line 3: 'id' is empty"),
    "base64": ([HEAD, QUEUE, '{"message":"q","id":"a","body":{"base64":"?"}}'], "line 3: 'body' can't be decoded"),
    "a number": ([HEAD, QUEUE, '{"message":"q","id":"a","body":"x","priority":"1"}'], "'priority' is '1', an integer"),
    "headers": ([HEAD, QUEUE, '{"message":"q","id":"a","body":"x","headers":{}}'], "'headers' is {}, a list is wanted"),
    "a header": ([HEAD, QUEUE, '{"message":"q","id":"a","body":"x","headers":[1]}'], "has 1, a pair is wanted"),
    "a reason": ([HEAD, QUEUE, '{"dead":"q","id":"a","body":"x","reason":"?"}'], "line 3: 'reason' is '?', one of max"),
    "a pattern": ([HEAD, QUEUE, '{"binding":"a*","queue":"q"}'], "line 3: invalid pattern 'a*'"),
    "a kind": ([HEAD, '{"exchange":"e","kind":"HEADERS"}'], "'kind' is 'HEADERS', one of FANOUT, DIRECT, TOPIC"),
    "no exchange": ([HEAD, QUEUE, '{"bound":"e","queue":"q","key":"#"}'], "no line before it for the exchange 'e'"),
    "a key": (
        [HEAD, QUEUE, '{"exchange":"e","kind":"TOPIC"}', '{"bound":"e","queue":"q","key":"a*"}'],
        "line 4: invalid pattern 'a*'",
    ),
    "a name that is no name": ([HEAD, '{"queue":1,"config":{}}'], "line 2: 'queue' is 1, a string or"),
    "a kind of queue": ([HEAD, '{"queue":"q","kind":1,"config":{}}'], "line 2: 'kind' is 1, a string is wanted"),
}


@pytest.mark.parametrize("what", BROKEN)
async def test_a_broken_file_is_refused_with_the_line_and_nothing_of_it_is_taken_in(
    what: str, broker: Broker, tmp_path: Path
) -> None:
    lines, text = BROKEN[what]
    path = tmp_path / "file"
    path.write_text("".join(line + "\n" for line in lines))
    with pytest.raises(InvalidRequestError) as error:
        broker.load(path)
    assert text in str(error.value)
    assert str(path) in str(error.value)
    assert broker.list_queues() == []


async def test_a_file_of_other_bytes_is_refused(broker: Broker, tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"\xff\xfe")
    with pytest.raises(InvalidRequestError, match="is no file of saved queues"):
        broker.load(tmp_path / "file")
    with pytest.raises(FileNotFoundError):
        broker.load(tmp_path / "none")


async def test_a_delay_that_is_over_is_over(broker: Broker, tmp_path: Path) -> None:
    (tmp_path / "file").write_text(
        f'{HEAD}\n{QUEUE}\n{{"message":"q","id":"a","body":"x","due":1}}\n{{"id":"old","of":"q","until":5}}\n{{"end":4}}\n'
    )
    broker.load(tmp_path / "file")
    assert [job.id for job in broker.lease("q")] == ["a"]
    assert not broker.put("q", "x", id="old").duplicate
