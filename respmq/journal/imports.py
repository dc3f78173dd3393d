"""JSON lines, as `respmq export` prints them and people may have edited them, to a broker's state."""

from __future__ import annotations

import base64
import dataclasses
import json
from typing import TYPE_CHECKING, Any

from respmq.core.image import BrokerImage, Counters, ExchangeImage, QueueImage
from respmq.core.model import LEASED, STATE_NAMES, DeadLetter, Extra, Message, QueueSettings
from respmq.core.names import check_name
from respmq.errors import BrokerError, JournalError, quote
from respmq.journal.export import VERSION
from respmq.journal.format import ID_SIZE

if TYPE_CHECKING:
    from collections.abc import Iterable

    from respmq.core.model import Reason, State

_MOST = 1 << 63
_MOST_32 = (1 << 32) - 1
_MARK_SIZE = 6
#: Ids and tokens have their sizes in one byte.
_LONGEST = 255
_REASONS: tuple[Reason, ...] = ("max_attempts", "rejected", "ttl_expired", "max_length")


def import_lines(lines: Iterable[str]) -> BrokerImage:
    """The state that the lines tell.

    Raises:
        JournalError: a line is no such line; the text says which and why.
    """
    image = BrokerImage()
    number = 0
    begun = False
    try:
        for line in lines:
            number += 1
            if not line.strip():
                continue
            value: dict[str, Any] = json.loads(line)
            if not begun and (value["type"] != "broker" or value["version"] != VERSION):
                msg = f'the first line has to be {{"type": "broker", "version": {VERSION}, ...}}'
                raise JournalError(msg)
            begun = True
            _take(image, value)
    except KeyError as error:
        msg = f"line {number}: there is no {error.args[0]!r}. Was it made by `respmq export`?"
        raise JournalError(msg) from error
    except (ValueError, TypeError, IndexError, AttributeError, BrokerError) as error:
        msg = f"line {max(number, 1)}: {error}. Was it made by `respmq export`?"
        raise JournalError(msg) from error
    if not begun:
        msg = "there is nothing to import: the output of `respmq export` is expected on the standard input"
        raise JournalError(msg)
    for queue in image.queues.values():
        _set_apart(queue)
    return image


def _set_apart(queue: QueueImage) -> None:
    """Let no two messages have one order, which they may if lines of several brokers were put together.

    Nor may those to come have one, or a letter to come a number, that is there.
    """
    last = 0
    for message in sorted(queue.messages.values(), key=lambda message: message.order):
        message.order = last = max(message.order, last + 1)
    queue.counters.entered = max(queue.counters.entered, last)
    queue.counters.dead = max(queue.counters.dead, *queue.letters, 0)


def _number(value: object, least: int = -_MOST, most: int = _MOST - 1) -> int:
    """A whole number that the journal has room for.

    Raises:
        ValueError: it is none.
    """
    if not isinstance(value, int) or isinstance(value, bool) or not least <= value <= most:
        msg = f"{value!r} is no whole number from {least} to {most}"
        raise ValueError(msg)
    return value


def _take(image: BrokerImage, value: dict[str, Any]) -> None:
    kind = value["type"]
    if kind == "broker":
        image.now = _number(value["now"])
        image.queues_made = _number(value["queues_made"])
        image.binding_drops = _number(value["binding_drops"])
    elif kind == "queue":
        image.queues[value["number"]] = _read_queue(value)
    elif kind == "message":
        message = _read_message(value)
        queue = _queue_of(image, value)
        if message.id in queue.messages:
            msg = f"queue '{quote(queue.name)}' has a message '{quote(message.id)}' already, and ids have to differ"
            raise ValueError(msg)
        queue.messages[message.id] = message
    elif kind == "dead_letter":
        reason = _REASONS[_REASONS.index(value["reason"])]
        error = None if value["error"] is None else _bytes(value["error"])
        letter = DeadLetter(_read_message(value), reason, error, _number(value["dead_at"]))
        letter.number = _number(value["number"], 1)
        _queue_of(image, value).letters[letter.number] = letter
    elif kind == "exchange":
        bindings = {(_number(number), _bytes(key)): None for number, key in value["bindings"]}
        image.exchanges[_bytes(value["name"])] = ExchangeImage(value["kind"], bindings)
    else:
        msg = f"unknown type '{kind}'"
        raise ValueError(msg)


def _queue_of(image: BrokerImage, value: dict[str, Any]) -> QueueImage:
    queue = image.queues.get(value["queue"])
    if queue is None:
        msg = f"there is no queue with the number {value['queue']!r} before it"
        raise ValueError(msg)
    return queue


def _read_queue(value: dict[str, Any]) -> QueueImage:
    name, mark, last_id = _bytes(value["name"]), _bytes(value["mark"]), _bytes(value["last_id"])
    check_name(name)
    if len(bytes.fromhex(mark.decode())) != _MARK_SIZE or len(last_id) not in {0, ID_SIZE}:
        msg = f"'{quote(mark)}' and '{quote(last_id)}' are no mark and no id made with it"
        raise ValueError(msg)
    return QueueImage(
        _number(value["number"], 1, _MOST_32),
        name,
        _read_settings(value["settings"]),
        mark,
        last_id,
        Counters(**{field: _number(count, 0) for field, count in value["counters"].items()}),
        window={_bytes(id): _number(put) for id, put in value["remembered"]},
        patterns={_bytes(pattern): None for pattern in value["bindings"]},
        requests={
            (_bytes(user), _bytes(key)): [(number, _bytes(token)) for number, token in leased]
            for user, key, leased in value["requests"]
        },
    )


def _read_settings(value: dict[str, Any]) -> QueueSettings:
    for field in dataclasses.fields(QueueSettings):
        given = value.get(field.name, field.default)
        if field.name == "overflow":
            right = given in {"REJECT", "DROPHEAD"}
        elif field.name == "retry_jitter":
            right = isinstance(given, int | float) and 0 <= given <= 1
        else:
            right = (given is None and field.name == "ttl") or (type(given) is int and 0 <= given < _MOST)
        if not right:
            msg = f"{given!r} is no possible value of {field.name}"
            raise ValueError(msg)
    return QueueSettings(**value)


def _read_message(value: dict[str, Any]) -> Message:
    headers = {_bytes(name): _bytes(text) for name, text in value["headers"]}
    attachments = tuple(_bytes(attachment) for attachment in value["attachments"])
    extra = None
    if headers or attachments or value["ttl"] is not None or value["announcement"]:
        extra = Extra(headers, attachments, None if value["ttl"] is None else _number(value["ttl"], 1))
        extra.announcement = value["announcement"]
    priority, enqueued_at = _number(value["priority"]), _number(value["enqueued_at"])
    message = Message(b"", _short(value["id"]), _bytes(value["body"]), priority, enqueued_at, extra)
    states: tuple[State, ...] = (0, 1, 2, 3)
    message.state = states[STATE_NAMES.index(value["state"])]
    if value["type"] == "message" and message.state > LEASED:
        msg = "a message that is gone can't be imported"
        raise ValueError(msg)
    message.attempt = _number(value["attempt"], 0, _MOST_32)
    message.lease = None if value["lease"] is None else _short(value["lease"])
    if message.state == LEASED and (message.lease is None or not message.attempt):
        msg = "a message that is leased has the token of its lease, and at least one attempt"
        raise ValueError(msg)
    message.since = _number(value["since"])
    message.deadline = _number(value["deadline"])
    message.expires_at = _number(value["expires_at"])
    message.order = _number(value["order"], 0)
    return message


def _short(value: str | dict[str, str]) -> bytes:
    """An id or a token."""
    text = _bytes(value)
    if not 1 <= len(text) <= _LONGEST:
        msg = f"an id or a token has 1 to {_LONGEST} bytes, not {len(text)}"
        raise ValueError(msg)
    return text


def _bytes(value: str | dict[str, str]) -> bytes:
    return value.encode() if isinstance(value, str) else base64.b64decode(value["base64"], validate=True)
