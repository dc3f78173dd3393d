"""A broker's state as JSON lines: readable, comparable line by line, and good for another broker.

Each line is an object with a `type`: `broker` first, then `queue`, `message`, `dead_letter` and `exchange`, at last
`end`, so that what was cut off is found out. Bytes are text where they are UTF-8, else `{"base64": "..."}`; moments
are milliseconds since the epoch.
"""

from __future__ import annotations

import base64
import dataclasses
import json
from typing import TYPE_CHECKING, Any, Final

from respmq.core.model import LEASED, STATE_NAMES

if TYPE_CHECKING:
    from collections.abc import Iterator

    from respmq.core.image import BrokerImage, QueueImage
    from respmq.core.model import Message

#: Version 1 had no `end`.
VERSION: Final = 2


def export_lines(image: BrokerImage) -> Iterator[str]:
    """The lines, without line ends, in an order that is always the same."""
    head = {"type": "broker", "version": VERSION, "now": image.now}
    yield _line({**head, "queues_made": image.queues_made, "binding_drops": image.binding_drops})
    leased = {
        (queue.number, message.lease)
        for queue in image.queues.values()
        for message in queue.messages.values()
        if message.state == LEASED
    }
    for queue in sorted(image.queues.values(), key=lambda queue: queue.number):
        yield _line(_describe_queue(queue, leased))
        for message in sorted(queue.messages.values(), key=lambda message: (message.order, message.id)):
            yield _line({"type": "message", "queue": queue.number, **_describe_message(message)})
        for letter in sorted(queue.letters.values(), key=lambda letter: letter.number):
            value = {"number": letter.number, "reason": letter.reason, "dead_at": letter.dead_at}
            error = None if letter.error is None else _text(letter.error)
            described = {**value, "error": error, **_describe_message(letter.message)}
            yield _line({"type": "dead_letter", "queue": queue.number, **described})
    for name, exchange in sorted(image.exchanges.items()):
        bindings = sorted([number, _text(key)] for number, key in exchange.bindings if number in image.queues)
        yield _line({"type": "exchange", "name": _text(name), "kind": exchange.kind, "bindings": bindings})
    yield _line({"type": "end"})


def _describe_queue(queue: QueueImage, leased: set[tuple[int, bytes | None]]) -> dict[str, Any]:
    requests: list[list[Any]] = []
    for (user, key), took in sorted(queue.requests.items()):
        # Those whose leases are over are forgotten.
        live = [[number, _text(token)] for number, token in took if (number, token) in leased]
        if live:
            requests.append([_text(user), _text(key), live])
    return {
        "type": "queue",
        "number": queue.number,
        "name": _text(queue.name),
        "settings": {} if queue.settings is None else dataclasses.asdict(queue.settings),
        "counters": dataclasses.asdict(queue.counters),
        "bindings": [_text(pattern) for pattern in queue.patterns],
        "mark": _text(queue.mark),
        "last_id": _text(queue.last_id),
        "remembered": [[_text(id), put] for id, put in sorted(queue.window.items())],
        "requests": requests,
    }


def _describe_message(message: Message) -> dict[str, Any]:
    extra = message.extra
    return {
        "id": _text(message.id),
        "state": STATE_NAMES[message.state],
        "body": _text(message.body),
        "headers": [[_text(name), _text(value)] for name, value in message.headers.items()],
        "attachments": [_text(attachment) for attachment in message.attachments],
        "priority": message.priority,
        "ttl": None if extra is None else extra.ttl,
        "announcement": extra is not None and extra.announcement,
        "attempt": message.attempt,
        "lease": None if message.lease is None else _text(message.lease),
        "enqueued_at": message.enqueued_at,
        "since": message.since,
        "deadline": message.deadline,
        "expires_at": message.expires_at,
        "order": message.order,
    }


def _line(value: dict[str, Any]) -> str:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))


def _text(value: bytes) -> str | dict[str, str]:
    try:
        return value.decode()
    except UnicodeDecodeError:
        return {"base64": base64.b64encode(value).decode()}
