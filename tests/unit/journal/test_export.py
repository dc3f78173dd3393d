"""A journal as JSON lines and back: nothing is lost, lines are always in the same order, wrong ones are told."""

from __future__ import annotations

import json
import random
from pathlib import Path
from typing import Any

import pytest

from respmq.core.model import Extra, Message, QueueSettings
from respmq.engine.journaled import JournaledEngine
from respmq.errors import JournalError
from respmq.journal.export import VERSION, export_lines
from respmq.journal.imports import import_lines
from tests.support.disk import InlineWorker
from tests.support.dump import dump
from tests.unit.journal.files.make import HERE, make_everything
from tests.unit.journal.rig import START, Rig, recovered

BROKER = {"type": "broker", "version": 2, "now": START, "queues_made": 1, "binding_drops": 0}


def standing_still(folder: Path, now: int = START) -> JournaledEngine:
    """An engine that goes on at the moment of the last batch, as `respmq import` writes it."""
    engine = JournaledEngine(
        now,
        random.Random(0).randbytes,
        random.Random(0).uniform,
        folder,
        policy="no",
        wall=lambda: START,
        stands_still=True,
        make_worker=InlineWorker,
    )
    for _ in engine.loading():
        pass
    return engine


def imported(folder: Path, lines: list[str]) -> None:
    """Write a journal of lines."""
    image = import_lines(lines)
    engine = standing_still(folder, image.now)
    engine.take_over(image)
    engine.close()


def exported(folder: Path) -> list[str]:
    return list(export_lines(recovered(folder).image))


def state(folder: Path) -> Any:
    engine = standing_still(folder)
    found = dump(engine)
    engine.close()
    return found


def lines_of(folder: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in exported(folder)]


def test_everything_comes_back(tmp_path: Path) -> None:
    old, new = tmp_path / "old", tmp_path / "new"
    make_everything(old)
    lines = exported(old)
    assert len(lines) > 40
    imported(new, lines)
    assert state(new) == state(old)
    assert exported(new) == lines


def test_lines_are_in_an_order_that_does_not_depend_on_what_happened_when() -> None:
    """So that two exports can be compared line by line."""
    image = recovered(HERE / "everything-v1").image
    lines = list(export_lines(image))
    image.queues = dict(reversed(image.queues.items()))
    image.exchanges = dict(reversed(image.exchanges.items()))
    for queue in image.queues.values():
        queue.messages = dict(reversed(queue.messages.items()))
        queue.letters = dict(reversed(queue.letters.items()))
        queue.window = dict(reversed(queue.window.items()))
        queue.requests = dict(reversed(queue.requests.items()))
    assert list(export_lines(image)) == lines


def test_a_line_is_readable(rig: Rig) -> None:
    engine = rig.open()
    engine.declare(b"jobs", QueueSettings(ack_timeout=60_000))
    engine.put(b"jobs", "zwölf".encode(), b"id", 5, 0, Extra({b"h": b"\xff"}, (b"", b"a"), 9_000))
    engine.commit()
    engine.close()
    broker, queue, message, end = lines_of(rig.folder)
    assert end == {"type": "end"}
    assert broker == {**BROKER, "now": START}
    assert (queue["type"], queue["number"], queue["name"], queue["remembered"]) == ("queue", 1, "jobs", [["id", START]])
    assert queue["settings"]["ack_timeout"] == 60_000
    assert message == {
        "type": "message",
        "queue": 1,
        "id": "id",
        "state": "ready",
        "body": "zwölf",
        "headers": [["h", {"base64": "/w=="}]],
        "attachments": ["", "a"],
        "priority": 5,
        "ttl": 9_000,
        "announcement": False,
        "attempt": 0,
        "lease": None,
        "enqueued_at": START,
        "since": START,
        "deadline": 0,
        "expires_at": START + 9_000,
        "order": 1,
    }
    assert "zwölf" in exported(rig.folder)[2]


@pytest.mark.parametrize(
    "body",
    [b"", b"\x00", b"\xff\xfe", bytes(range(256)), b'{"base64": "AA=="}', "\u2028\ud7ff\U0010ffff".encode(), b"\r\n"],
)
def test_any_bytes_come_back(rig: Rig, tmp_path: Path, body: bytes) -> None:
    engine = rig.open()
    engine.declare(b"q", QueueSettings())
    engine.put(b"q", body, body[:255] or None, extra=Extra({body[:255] or b"h": body}, (body, b""), None))
    engine.commit()
    engine.close()
    lines = exported(rig.folder)
    assert not any("\n" in line for line in lines)
    imported(tmp_path / "new", "\n".join(lines).split("\n"))
    assert state(tmp_path / "new") == state(rig.folder)


def test_blank_lines_are_nothing(tmp_path: Path) -> None:
    imported(tmp_path / "new", ["", json.dumps(BROKER), " \n", END, ""])
    assert exported(tmp_path / "new") == [json.dumps(BROKER, separators=(",", ":")), END]


@pytest.mark.parametrize("version", [1, VERSION])
def test_a_stored_export_is_read(tmp_path: Path, version: int) -> None:
    """What was exported by any version can be imported by all that come."""
    lines = (HERE / f"export-v{version}.jsonl").read_text(encoding="utf-8").splitlines()
    imported(tmp_path / "new", lines)
    first, *others = exported(tmp_path / "new")
    assert json.loads(first) == {**json.loads(lines[0]), "version": VERSION}
    assert others == (lines[1:] if version > 1 else [*lines[1:], '{"type":"end"}'])


STORED: list[dict[str, Any]] = [
    json.loads(line) for line in (HERE / f"export-v{VERSION}.jsonl").read_text(encoding="utf-8").splitlines()
]


def described(**changes: Any) -> str:
    """A line of a queue."""
    made = next(line for line in STORED if line["type"] == "queue")
    return json.dumps({**made, **changes})


def message_line(**changes: Any) -> str:
    """A line of a message in queue 1."""
    made = next(line for line in STORED if line["type"] == "message")
    return json.dumps({**made, "queue": 1, **changes})


def leased(**changes: Any) -> str:
    """A line of a message that is leased from queue 1."""
    return message_line(**{"state": "leased", "lease": "token", "attempt": 1, **changes})


def dead_line(**changes: Any) -> str:
    """A line of the first dead letter of queue 1."""
    made = next(line for line in STORED if line["type"] == "dead_letter")
    return json.dumps({**made, "queue": 1, "number": 1, **changes})


def exchange_line(**changes: Any) -> str:
    """A line of an exchange."""
    return json.dumps({"type": "exchange", "name": "x", "kind": "TOPIC", "bindings": [], **changes})


FIRST = json.dumps(BROKER)
END = '{"type":"end"}'


@pytest.mark.parametrize(
    ("lines", "text"),
    [
        ([], "there is nothing to import"),
        (["", "\n"], "there is nothing to import"),
        (["no JSON"], "line 1: Expecting value"),
        (["[]"], "line 1: a line is a JSON object, as `respmq export` prints them"),
        (["{}"], "line 1: there is no 'type'"),
        (
            [json.dumps({**BROKER, "version": 3})],
            "line 1: the export has version 3, and this program reads versions 1 to 2",
        ),
        ([described()], 'line 1: the first line of an export is {"type":"broker","version":2,...}'),
        (
            [FIRST, described(number=1), message_line()],
            'the last line, {"type":"end"}, is missing: the export was cut off',
        ),
        ([FIRST, END, described(number=1)], "line 3: it stands behind the end: import one export at a time"),
        ([FIRST, FIRST], "line 2: a second broker begins here: import one export at a time"),
        (
            [FIRST, described(number=1), described(number=1, name="other")],
            "line 3: there is a queue 'other' or one with the",
        ),
        ([FIRST, described(number=1), described(number=2)], "number 2 already"),
        (
            [FIRST, described(number=1), leased(), leased(id="other")],
            "line 4: another message of queue 'keep' has the lease ",
        ),
        ([FIRST, described(number=1), dead_line(), dead_line()], "has a dead letter with the number 1 already"),
        ([FIRST, exchange_line(), exchange_line()], "line 3: there is an exchange 'x' already"),
        (
            [FIRST, exchange_line(kind="FOO")],
            "line 2: 'FOO' is no possible kind: one of FANOUT, DIRECT, TOPIC is wanted",
        ),
        (
            [FIRST, exchange_line(bindings=[[9, "a"]]), END],
            "exchange 'x' is bound to queue number 9, which isn't there",
        ),
        ([FIRST, described(number=1), exchange_line(bindings=[[1, "a*b"]])], "line 3: invalid pattern 'a*b'"),
        ([FIRST, exchange_line(bindings={"1": "a"})], 'line 2: {"1": "a"} is no array'),
        ([FIRST, exchange_line(bindings=[[1]])], "line 2: [1] is no pair"),
        ([FIRST, described(bindings="a.b")], 'line 2: "a.b" is no array'),
        ([FIRST, described(requests=[["user", "key"]])], "is no request: user, key and an array of pairs"),
        ([FIRST, described(requests=[["user", "key", [["1", "token"]]]])], "line 2: '1' is no whole number from 1 to "),
        (
            [FIRST, described(requests=[["user", "key", [[1, "x" * 256]]]])],
            "line 2: an id or a token has 1 to 255 bytes",
        ),
        ([FIRST, described(remembered=[["x" * 256, 1]])], "line 2: an id or a token has 1 to 255 bytes, not 256"),
        ([FIRST, described(number=1), message_line(announcement=1)], "line 3: announcement is true or false, not 1"),
        ([FIRST, described(bindings=["a*"])], "line 2: invalid pattern 'a*'"),
        ([FIRST, described(number=1), message_line(body=5)], 'line 3: 5 is neither text nor {"base64": "..."}'),
        ([FIRST, described(number=1), message_line(body={"to": "ann"})], 'line 3: {"to": "ann"} is neither text nor'),
        ([FIRST, described(number=1), message_line(headers={"a": "b"})], 'line 3: {"a": "b"} is no array'),
        (
            [FIRST, described(number=1), dead_line(reason="foo")],
            "line 3: 'foo' is no possible reason: one of max_attempts,",
        ),
        (
            [json.dumps({**BROKER, "now": "x"})],
            "line 1: 'x' is no whole number from -9223372036854775808 to 9223372036854775807",
        ),
        (
            [json.dumps({**BROKER, "now": 1 << 70})],
            "is no whole number from -9223372036854775808 to 9223372036854775807",
        ),
        ([FIRST, '{"type": "letter"}'], "line 2: unknown type 'letter'"),
        ([FIRST, "", "{"], "line 3: Expecting property name"),
        ([FIRST, message_line()], "line 2: there is no queue with the number 1 before it"),
        (
            [FIRST, described(number=1), message_line(state="asleep")],
            "line 3: 'asleep' is no possible state: one of ready, delayed, leased, gone",
        ),
        ([FIRST, described(number=1), message_line(id={"base64": "?"})], "line 3: "),
        ([FIRST, described(number=1), message_line(deadline=None)], "line 3: None is no whole number"),
        (
            [FIRST, described(settings={"acktimeout": 1})],
            "line 2: there is no setting 'acktimeout', only ack_timeout, ",
        ),
        ([FIRST, described(settings={"retry_delay": 9_000, "max_retry_delay": 1_000})], "MAXRETRYDELAY 1s is below"),
        ([FIRST, described(name=None)], "line 2: "),
        ([FIRST, described(counters={"unheard": 1})], "line 2: there is no counter 'unheard', only entered, "),
    ],
)
def test_wrong_lines_are_told_with_their_number(lines: list[str], text: str) -> None:
    with pytest.raises(JournalError) as raised:
        import_lines(lines)
    assert text in str(raised.value)


@pytest.mark.parametrize(
    "line",
    [
        message_line(attempt=-1),
        message_line(priority=1 << 63),
        message_line(id="x" * 256),
        message_line(ttl="1h"),
        message_line(state="gone"),
        message_line(state="leased", lease=None, attempt=1),
        message_line(state="leased", lease="token", attempt=0),
        described(number=0),
        described(number=1 << 32),
        described(name=""),
        described(settings={"max_len": "many"}),
        described(settings={"max_len": 0}),
        described(settings={"max_attempts": 0}),
        described(settings={"ack_timeout": 0}),
        described(mark="no mark"),
    ],
)
def test_values_that_no_journal_can_have_are_refused(line: str) -> None:
    lines = [FIRST, line] if json.loads(line)["type"] == "queue" else [FIRST, described(number=1), line]
    with pytest.raises(JournalError, match=f"line {len(lines)}: "):
        import_lines(lines)


def test_lines_of_several_brokers_put_together_are_set_apart(tmp_path: Path) -> None:
    """Messages of one order would be taken for each other by what the journal tells of them later."""
    rig = Rig(tmp_path)
    for name in ("one", "other"):
        engine = rig.open(tmp_path / name)
        engine.declare(b"q", QueueSettings())
        engine.put_many(b"q", tuple(b"%s %d" % (name.encode(), number) for number in range(3)))
        engine.close()
    *lines, end = exported(tmp_path / "one")
    lines += [line for line in exported(tmp_path / "other") if json.loads(line)["type"] == "message"]
    lines.append(end)
    imported(tmp_path / "both", lines)
    assert [line["order"] for line in lines_of(tmp_path / "both") if line["type"] == "message"] == [1, 2, 3, 4, 5, 6]
    engine = rig.open(tmp_path / "both")
    leased = engine.lease((b"q",), 6)
    assert isinstance(leased, list)
    tokens = [message.lease for message in leased if isinstance(message, Message) and message.body.endswith(b"0")]
    assert engine.ack(b"q", tuple(token for token in tokens if token)) == 2
    engine.close()
    left = {line["body"] for line in lines_of(tmp_path / "both") if line["type"] == "message"}
    assert left == {"one 1", "one 2", "other 1", "other 2"}
    rig.close()


def test_a_message_twice_is_told(rig: Rig) -> None:
    engine = rig.open()
    engine.declare(b"q", QueueSettings())
    engine.put(b"q", b"body", b"m")
    engine.close()
    lines = exported(rig.folder)
    with pytest.raises(JournalError, match="line 4: queue 'q' has a message 'm' already, and ids have to differ"):
        import_lines([*lines[:-1], *lines[-2:]])
