"""The log: both forms, levels that change while it is in use, repeated events, a stream that fails."""

from __future__ import annotations

import datetime as dt
import io
import json
import re
from typing import Any

import pytest

from respmq.cli.log import Log
from respmq.config import Config


class Time:
    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


class Broken(io.StringIO):
    def write(self, text: str) -> int:
        raise BrokenPipeError(text)


def json_lines(stream: io.StringIO) -> list[dict[str, Any]]:
    return [json.loads(line) for line in stream.getvalue().splitlines()]


def error_with_traceback() -> ZeroDivisionError:
    try:
        _ = 1 / 0
    except ZeroDivisionError as error:
        return error
    raise AssertionError


def test_json_is_one_object_a_line() -> None:
    stream = io.StringIO()
    log = Log(Config(log_format="json"), stream)
    log("protocol error", level="warning", client="127.0.0.1:1", error='a "quoted"\nline', size=3)
    (line,) = json_lines(stream)
    assert list(line) == ["timestamp", "level", "event", "client", "error", "size"]
    assert line["level"] == "warning"
    assert line["event"] == "protocol error"
    assert line["error"] == 'a "quoted"\nline'
    assert line["size"] == 3
    stamp = dt.datetime.fromisoformat(line["timestamp"])
    assert stamp.utcoffset() == dt.timedelta(0)
    assert abs(dt.datetime.now(dt.UTC) - stamp) < dt.timedelta(minutes=1)


def test_json_has_tracebacks_in_its_line() -> None:
    stream = io.StringIO()
    Log(Config(log_format="json"), stream)("internal error", level="error", exc_info=error_with_traceback())
    (line,) = json_lines(stream)
    assert line["exception"].startswith("Traceback")
    assert line["exception"].endswith("ZeroDivisionError: division by zero")
    assert "exc_info" not in line


def test_text_is_one_line_of_key_value() -> None:
    stream = io.StringIO()
    log = Log(Config(), stream)
    log("protocol error", level="warning", client="127.0.0.1:1", error="two\nlines of it", size=3)
    assert re.fullmatch(
        r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d+Z \[warning *\] protocol error +"
        r"client=127\.0\.0\.1:1 error='two\\nlines of it' size=3\n",
        stream.getvalue(),
    )


def test_text_has_tracebacks_below_their_line() -> None:
    stream = io.StringIO()
    Log(Config(), stream)("internal error", level="error", client="x", exc_info=error_with_traceback())
    first, second, *_, last = stream.getvalue().splitlines()
    assert first.endswith("client=x")
    assert second == "Traceback (most recent call last):"
    assert last == "ZeroDivisionError: division by zero"


def test_colours_are_for_terminals_that_want_them(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("NO_COLOR", raising=False)
    terminal, file, plain, formatted = Terminal(), io.StringIO(), Terminal(), Terminal()
    Log(Config(), terminal)("stopping")
    Log(Config(), file)("stopping")
    Log(Config(log_format="json"), formatted)("stopping")
    monkeypatch.setenv("NO_COLOR", "1")
    Log(Config(), plain)("stopping")
    assert "\x1b[" in terminal.getvalue()
    assert "\x1b[" not in file.getvalue() + plain.getvalue() + formatted.getvalue()


@pytest.mark.parametrize(
    ("loglevel", "shown"),
    [
        ("debug", ["debug", "info", "warning", "error"]),
        ("info", ["info", "warning", "error"]),
        ("warning", ["warning", "error"]),
        ("error", ["error"]),
    ],
)
def test_what_is_less_serious_than_the_level_is_not_shown(loglevel: str, shown: list[str]) -> None:
    stream = io.StringIO()
    config = Config(log_format="json")
    log = Log(config, stream)
    config.loglevel = loglevel  # as CONFIG SET does, after the log was made
    log("a", level="debug")
    log("b")
    log("c", level="warning")
    log("d", level="error")
    assert [line["level"] for line in json_lines(stream)] == shown


def test_a_repeated_event_is_cut_short_and_summed_up() -> None:
    stream, time = io.StringIO(), Time()
    log = Log(Config(log_format="json"), stream, time)
    for number in range(100):
        log("protocol error", level="warning", number=number)
    log("stopping")
    assert [line.get("number") for line in json_lines(stream)] == [*range(10), None]
    time.now += 10
    log.summarize()
    summary = json_lines(stream)[-1]
    assert summary["level"] == "warning"
    assert {key: summary[key] for key in ("event", "about", "count")} == {
        "event": "lines left out",
        "about": "protocol error",
        "count": 90,
    }
    log.summarize()
    log("protocol error", level="warning", number=100)
    assert [line.get("number") for line in json_lines(stream)[-2:]] == [None, 100]


def test_the_summary_comes_before_the_next_line_too() -> None:
    stream, time = io.StringIO(), Time()
    log = Log(Config(log_format="json"), stream, time)
    for _ in range(11):
        log("protocol error", level="warning")
    time.now += 3600
    log("stopping")
    assert [line["event"] for line in json_lines(stream)[-2:]] == ["lines left out", "stopping"]


def test_what_is_not_shown_does_not_count() -> None:
    stream = io.StringIO()
    config = Config(loglevel="error", log_format="json")
    log = Log(config, stream)
    for _ in range(50):
        log("protocol error", level="warning")
    config.loglevel = "info"
    log("protocol error", level="warning")
    log.summarize(all=True)
    assert len(json_lines(stream)) == 1


def test_a_stream_that_fails_stops_nobody() -> None:
    closed = io.StringIO()
    logs = [Log(Config(), stream) for stream in (Broken(), closed, None)]
    closed.close()
    for log in logs:
        log("stopping")
