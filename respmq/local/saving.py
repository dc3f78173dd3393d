"""Files of saved queues: lines of JSON, so that a person can read them and a program write them.

    {"format": "respmq queues", "version": 1, "saved_at": ...}
    {"queue": "jobs", "config": {"ack_timeout": 30.0, ...}}
    {"message": "jobs", "id": ..., "body": ..., ...}          in the order in which they will be handed out
    {"dead": "jobs", "id": ..., "reason": ..., ...}           oldest first
    {"id": "invoice-1007", "of": "jobs", "until": ...}        a put of this id is a duplicate for a while
    {"binding": "orders.#", "queue": "jobs"}
    {"exchange": "logs", "kind": "TOPIC"}
    {"bound": "logs", "queue": "jobs", "key": "*.error"}
    {"end": 9}

The last line counts the lines before it: without it, a part is missing. Moments are milliseconds since 1970. Bytes that
are UTF-8 stand as they are, others as `{"base64": "..."}`. Fields that are missing have their defaults.
"""

from __future__ import annotations

import base64
import dataclasses
import json
import os
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

from respmq.api.settings import QueueConfig
from respmq.core.model import DELAYED, LEASED, READY

if TYPE_CHECKING:
    from respmq.core.model import Message
    from respmq.core.restoring import RestorableQueue
    from respmq.engine.memory import MemoryEngine

FORMAT = "respmq queues"
VERSION = 1

#: One line. Any, as for json.dumps.
Record = dict[str, Any]


def save_file(core: MemoryEngine, path: str | os.PathLike[str]) -> None:
    """Write all that a core holds, in one step.

    Raises:
        OSError: the file can't be written; what was there before is still there.
    """
    write_records(path, records_of(core), core.now)


def write_records(path: str | os.PathLike[str], records: Iterator[Record], now: int) -> None:
    """Write a file in one step: whoever reads it sees the whole of what was there before, or of what is there now.

    Raises:
        OSError: the file can't be written; what was there before is still there.
    """
    target = Path(path)
    descriptor, temporary = tempfile.mkstemp(dir=target.parent, prefix=f".{target.name}.")
    try:
        with os.fdopen(descriptor, "w", encoding="utf-8") as file:
            count = 1
            file.write(_line({"format": FORMAT, "version": VERSION, "saved_at": now}))
            for record in records:
                file.write(_line(record))
                count += 1
            file.write(_line({"end": count}))
            file.flush()
            os.fsync(file.fileno())
        Path(temporary).replace(target)
    except BaseException:
        Path(temporary).unlink()
        raise
    _sync_folder(target.parent)


def _sync_folder(folder: Path) -> None:
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _line(record: Record) -> str:
    return json.dumps(record, ensure_ascii=False, separators=(",", ":")) + "\n"


def records_of(core: MemoryEngine) -> Iterator[Record]:
    """All that a core holds, line by line."""
    for name in core.names():
        yield from queue_records(core.find(name))
    for pattern, queue in core.topics.bound():
        yield {"binding": _shown(pattern), "queue": _shown(queue)}
    for exchange, kind in core.exchanges.kinds():
        yield {"exchange": _shown(exchange), "kind": kind}
        for queue, key in core.exchanges.bindings(exchange):
            yield {"bound": _shown(exchange), "queue": _shown(queue), "key": _shown(key)}


def queue_records(queue: RestorableQueue, **more: str) -> Iterator[Record]:
    """One queue with all that is in it; `more` goes to its first line."""
    name = _shown(queue.name)
    config = dataclasses.asdict(QueueConfig.from_settings(queue.settings))
    yield {"queue": name, **more, "config": config}
    # What is leased stands where it stood, before all that has never been taken from the head of its priority.
    for message in sorted(queue.peek(LEASED), key=lambda message: message.order):
        yield {"message": name, **_message(message), "attempt": message.attempt - 1}
    for message in queue.peek(READY):
        yield {"message": name, **_message(message)}
    for message in queue.peek(DELAYED):
        yield {"message": name, **_message(message), "due": message.deadline}
    for letter in queue.dead:
        error = None if letter.error is None else _shown(letter.error)
        yield {
            "dead": name,
            **_message(letter.message),
            "reason": letter.reason,
            "error": error,
            "dead_at": letter.dead_at,
        }
    for id, until in queue.remembered():
        yield {"id": _shown(id), "of": name, "until": until}


def _message(message: Message) -> Record:
    record: Record = {
        "id": _shown(message.id),
        "body": _shown(message.body),
        "priority": message.priority,
        "attempt": message.attempt,
        "enqueued_at": message.enqueued_at,
    }
    extra = message.extra
    if extra is not None:
        record["headers"] = [[_shown(key), _shown(value)] for key, value in extra.headers.items()]
        record["attachments"] = [_shown(blob) for blob in extra.attachments]
        record["ttl"] = extra.ttl
        record["announcement"] = extra.announcement
    return record


def _shown(value: bytes) -> str | dict[str, str]:
    try:
        return value.decode()
    except UnicodeDecodeError:
        return {"base64": base64.b64encode(value).decode("ascii")}
