"""Reads files of saved queues, see `respmq.local.saving`. All of a file is looked at before any of it is taken in."""

from __future__ import annotations

import base64
import binascii
import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar, cast

from respmq.api.settings import QueueConfig
from respmq.core.model import DeadLetter, Extra, Message
from respmq.core.names import check_name
from respmq.core.topics import check_pattern
from respmq.errors import BrokerError, InvalidRequestError
from respmq.local.saving import FORMAT, VERSION

if TYPE_CHECKING:
    import os

    from respmq.core.exchanges import ExchangeKind
    from respmq.core.model import QueueSettings, Reason
    from respmq.engine.memory import MemoryEngine

_KINDS: Mapping[str, ExchangeKind] = {"FANOUT": "FANOUT", "DIRECT": "DIRECT", "TOPIC": "TOPIC"}
_REASONS: Mapping[str, Reason] = {
    "max_attempts": "max_attempts",
    "rejected": "rejected",
    "ttl_expired": "ttl_expired",
    "max_length": "max_length",
}

T = TypeVar("T")


class _Line:
    """One line: its fields, of which each has to be what it should be."""

    def __init__(self, path: Path, number: int, text: str) -> None:
        self._where = f"{path}, line {number}"
        try:
            parsed: object = json.loads(text)
        except (ValueError, RecursionError) as error:
            raise self.wrong(f"it is no JSON: {error}") from error
        if not isinstance(parsed, dict):
            raise self.wrong("a JSON object is wanted")
        self._fields = cast("dict[str, object]", parsed)

    def wrong(self, what: str) -> InvalidRequestError:
        """The error for this line."""
        return InvalidRequestError(f"{self._where}: {what}")

    def __contains__(self, name: str) -> bool:
        return name in self._fields

    def value(self, name: str) -> object:
        """A field, None if it is missing."""
        return self._fields.get(name)

    def text(self, name: str) -> str:
        """A field that is a string."""
        value = self._fields.get(name)
        if not isinstance(value, str):
            raise self.wrong(f"'{name}' is {value!r}, a string is wanted")
        return value

    def integer(self, name: str, default: int | None = None) -> int:
        """A field that is an integer; `default` if it is missing."""
        value = self._fields.get(name, default)
        if isinstance(value, bool) or not isinstance(value, int):
            raise self.wrong(f"'{name}' is {value!r}, an integer is wanted")
        return value

    def one_of(self, name: str, choices: Mapping[str, T]) -> T:
        """A field that is one of several words."""
        value = self._fields.get(name)
        if not isinstance(value, str) or value not in choices:
            raise self.wrong(f"'{name}' is {value!r}, one of {', '.join(choices)} is wanted")
        return choices[value]

    def octets(self, name: str) -> bytes:
        """A field that is bytes."""
        return self._decoded(name, self._fields.get(name))

    def _decoded(self, name: str, value: object) -> bytes:
        try:
            if isinstance(value, str):
                return value.encode()
            if isinstance(value, dict):
                encoded = cast("dict[str, object]", value).get("base64")
                if isinstance(encoded, str):
                    return base64.b64decode(encoded, validate=True)
        except (UnicodeEncodeError, binascii.Error) as error:
            raise self.wrong(f"'{name}' can't be decoded: {error}") from error
        raise self.wrong(f"'{name}' is {value!r}, a string or {{\"base64\": ...}} is wanted")

    def items(self, name: str) -> list[object]:
        """A field that is a list; empty if it is missing."""
        value = self._fields.get(name, [])
        if not isinstance(value, list):
            raise self.wrong(f"'{name}' is {value!r}, a list is wanted")
        return cast("list[object]", value)

    def blobs(self, name: str) -> tuple[bytes, ...]:
        """A field that is a list of bytes."""
        return tuple(self._decoded(name, value) for value in self.items(name))

    def pairs(self, name: str) -> dict[bytes, bytes]:
        """A field that is a list of pairs of bytes."""
        pairs: dict[bytes, bytes] = {}
        for item in self.items(name):
            pair = cast("list[object]", item) if isinstance(item, list) else []
            if len(pair) != 2:
                raise self.wrong(f"'{name}' has {item!r}, a pair is wanted")
            key, value = pair
            pairs[self._decoded(name, key)] = self._decoded(name, value)
        return pairs


@dataclass
class SavedQueue:
    """A queue of a file. `kind` is what `save_queues` has noted: which class it was."""

    name: bytes
    settings: QueueSettings
    kind: str
    #: In order, each with the moment at which it becomes ready; 0: it is.
    messages: list[tuple[Message, int]] = field(default_factory=list[tuple[Message, int]])
    dead: list[DeadLetter] = field(default_factory=list[DeadLetter])
    remembered: dict[bytes, int] = field(default_factory=dict[bytes, int])
    ids: set[bytes] = field(default_factory=set[bytes])

    def restore(self, core: MemoryEngine) -> None:
        """Make this queue in a core that has none of its name."""
        core.declare(self.name, self.settings)
        queue = core.find(self.name)
        for message, due in self.messages:
            queue.restore(message, max(due - core.now, 0))
        for letter in self.dead:
            queue.restore_dead(letter)
        for id, until in sorted(self.remembered.items(), key=lambda item: item[1]):
            if until > core.now:
                queue.remember(id, until)


@dataclass
class Saved:
    """What a file holds."""

    queues: dict[bytes, SavedQueue] = field(default_factory=dict[bytes, SavedQueue])
    bindings: list[tuple[bytes, bytes]] = field(default_factory=list[tuple[bytes, bytes]])
    exchanges: dict[bytes, ExchangeKind] = field(default_factory=dict[bytes, "ExchangeKind"])
    #: Exchange, queue and key.
    bound: list[tuple[bytes, bytes, bytes]] = field(default_factory=list[tuple[bytes, bytes, bytes]])

    def take(self, line: _Line) -> None:
        """Take in one line."""
        if "message" in line:
            self._message(line)
        elif "dead" in line:
            self._dead(line)
        elif "of" in line:
            self._queue(line, "of").remembered[line.octets("id")] = line.integer("until")
        elif "binding" in line:
            pattern = line.octets("binding")
            check_pattern(pattern)
            self.bindings.append((pattern, self._queue(line, "queue").name))
        elif "exchange" in line:
            name = line.octets("exchange")
            check_name(name, "exchange")
            self.exchanges[name] = line.one_of("kind", _KINDS)
        elif "bound" in line:
            self._bound(line)
        elif "config" in line:
            self._declare(line)
        else:
            raise line.wrong("it says nothing that version 1 of the format knows")

    def _queue(self, line: _Line, name: str) -> SavedQueue:
        queue = self.queues.get(line.octets(name))
        if queue is None:
            raise line.wrong(f"there is no line before it for the queue '{line.text(name)}'")
        return queue

    def _declare(self, line: _Line) -> None:
        name = line.octets("queue")
        check_name(name)
        given = line.value("config")
        if not isinstance(given, dict):
            raise line.wrong(f"'config' is {given!r}, an object is wanted")
        config = cast("dict[str, object]", given)
        if name in self.queues:
            raise line.wrong(f"the queue '{line.text('queue')}' is there for the second time")
        settings = QueueConfig.from_mapping(config).to_settings()
        self.queues[name] = SavedQueue(name, settings, line.text("kind") if "kind" in line else "")

    def _message(self, line: _Line) -> None:
        queue = self._queue(line, "message")
        message = _message_of(line, queue.name)
        if message.id in queue.ids:
            raise line.wrong(f"a message with the id {line.value('id')!r} is there for the second time")
        queue.ids.add(message.id)
        queue.messages.append((message, line.integer("due", 0)))

    def _dead(self, line: _Line) -> None:
        queue = self._queue(line, "dead")
        error = line.octets("error") if line.value("error") is not None else None
        reason = line.one_of("reason", _REASONS)
        queue.dead.append(DeadLetter(_message_of(line, queue.name), reason, error, line.integer("dead_at")))

    def _bound(self, line: _Line) -> None:
        exchange, key = line.octets("bound"), line.octets("key")
        kind = self.exchanges.get(exchange)
        if kind is None:
            raise line.wrong(f"there is no line before it for the exchange '{line.text('bound')}'")
        if kind == "TOPIC":
            check_pattern(key)
        self.bound.append((exchange, self._queue(line, "queue").name, key))

    def restore(self, core: MemoryEngine) -> None:
        """Make all of it in a core that is empty."""
        for queue in self.queues.values():
            queue.restore(core)
        for pattern, name in self.bindings:
            core.topics.bind(pattern, name)
        for exchange, kind in self.exchanges.items():
            core.exchanges.declare(exchange, kind)
        for exchange, name, key in self.bound:
            core.exchanges.bind(exchange, name, key)


def _message_of(line: _Line, queue: bytes) -> Message:
    headers, attachments = line.pairs("headers"), line.blobs("attachments")
    ttl = line.integer("ttl") if line.value("ttl") is not None else None
    extra = Extra(headers, attachments, ttl) if headers or attachments or ttl is not None else None
    if extra is not None:
        extra.announcement = line.value("announcement") is True
    id = line.octets("id")
    if not id:
        raise line.wrong("'id' is empty")
    message = Message(
        queue, id, line.octets("body"), line.integer("priority", 0), line.integer("enqueued_at", 0), extra
    )
    message.attempt = line.integer("attempt", 0)
    return message


def read_file(path: str | os.PathLike[str]) -> Saved:
    """What a file of saved queues holds.

    Raises:
        OSError: it can't be read.
        InvalidRequestError: it isn't what `save` writes; the text says which line is wrong, and how.
    """
    saved = Saved()
    ended = False
    for number, line in _lines(Path(path)):
        if ended:
            raise line.wrong("it stands behind the end")
        if number == 1:
            _check_head(line)
        elif "end" in line:
            ended = True
            if line.integer("end") != number - 1:
                raise line.wrong(f"{line.integer('end')} lines should stand before it, there are {number - 1}")
        else:
            try:
                saved.take(line)
            except BrokerError as error:
                # What the core says of a name or a setting, with the place.
                raise (error if str(path) in error.text else line.wrong(error.text)) from error
    if not ended:
        msg = f"{path}: the line that says where it ends is missing, so a part of it is"
        raise InvalidRequestError(msg)
    return saved


def _lines(path: Path) -> Iterator[tuple[int, _Line]]:
    with path.open(encoding="utf-8") as file:
        try:
            for number, text in enumerate(file, 1):
                yield number, _Line(path, number, text)
        except UnicodeDecodeError as error:
            msg = f"{path} is no file of saved queues: {error}"
            raise InvalidRequestError(msg) from error


def _check_head(line: _Line) -> None:
    if line.value("format") != FORMAT:
        raise line.wrong(f"'format' is {line.value('format')!r}, {FORMAT!r} is wanted: no file of saved queues")
    if line.value("version") != VERSION:
        raise line.wrong(f"'version' is {line.value('version')!r}, this respmq reads version {VERSION}")


def load_file(core: MemoryEngine, path: str | os.PathLike[str]) -> None:
    """Take in all of a file, or nothing.

    Raises:
        OSError: it can't be read.
        InvalidRequestError: the core has queues or exchanges, or the file isn't what `save` writes.
    """
    saved = read_file(path)
    if core.names() or core.exchanges.kinds():
        msg = f"can't load {path}: the broker has queues or exchanges already, one that has none is wanted"
        raise InvalidRequestError(msg)
    saved.restore(core)
