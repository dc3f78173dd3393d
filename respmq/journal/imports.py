"""JSON lines, as `respmq export` prints them and people may have edited them, to a broker's state."""

from __future__ import annotations

import base64
import dataclasses
import json
from typing import TYPE_CHECKING, Any, cast

from respmq.core.image import BrokerImage, Counters, ExchangeImage, QueueImage
from respmq.core.model import LEASED, STATE_NAMES, DeadLetter, Extra, Message, QueueSettings
from respmq.core.names import check_name
from respmq.core.topics import check_pattern
from respmq.errors import BrokerError, JournalError, quote
from respmq.journal.export import VERSION
from respmq.journal.format import ID_SIZE

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from respmq.core.exchanges import ExchangeKind
    from respmq.core.model import Reason, State

_MOST = 1 << 63
_MOST_32 = (1 << 32) - 1
_MARK_SIZE = 6
#: Ids and tokens have their sizes in one byte.
_LONGEST = 255
_REASONS: tuple[Reason, ...] = ("max_attempts", "rejected", "ttl_expired", "max_length")
_KINDS: tuple[ExchangeKind, ...] = ("FANOUT", "DIRECT", "TOPIC")
#: The settings that QDECLARE takes a 0 for.
_MAY_BE_ZERO = frozenset({"retry_delay", "max_retry_delay", "max_dead", "dedupe"})


def import_lines(lines: Iterable[str]) -> BrokerImage:
    """The state that the lines tell.

    Raises:
        JournalError: a line is no such line, or one is missing; the text says which and why.
    """
    reader = _Reader()
    number = 0
    try:
        for line in lines:
            number += 1
            if line.strip():
                reader.read(line)
    except KeyError as error:
        msg = f"line {number}: there is no {error.args[0]!r}"
        raise JournalError(msg) from error
    except json.JSONDecodeError as error:
        msg = f"line {number}: {error}. Was it made by `respmq export`?"
        raise JournalError(msg) from error
    except (ValueError, TypeError, AttributeError, BrokerError) as error:
        # ValueError is also that of text that isn't UTF-8, in the next line.
        msg = f"line {max(number, 1)}: {error}"
        raise JournalError(msg) from error
    return reader.end()


class _Reader:
    """Takes lines, one after the other."""

    def __init__(self) -> None:
        self._image = BrokerImage()
        self._version = 0
        self._ended = False
        self._names: set[bytes] = set()
        #: The tokens that each queue has seen.
        self._tokens: set[tuple[int, bytes]] = set()

    def read(self, line: str) -> None:
        """Take a line.

        Raises:
            ValueError, TypeError, AttributeError, KeyError, BrokerError: it isn't as it should be.
        """
        parsed: object = json.loads(line)
        if not isinstance(parsed, dict):
            msg = "a line is a JSON object, as `respmq export` prints them"
            raise TypeError(msg)
        value = cast("dict[str, Any]", parsed)
        kind: object = value["type"]
        if not self._version:
            self._begin(kind, value)
            return
        if self._ended:
            msg = "it stands behind the end: import one export at a time"
            raise ValueError(msg)
        if kind == "queue":
            self._queue(value)
        elif kind == "message":
            self._message(value)
        elif kind == "dead_letter":
            self._dead_letter(value)
        elif kind == "exchange":
            self._exchange(value)
        elif kind == "end":
            self._ended = True
        elif kind == "broker":
            msg = "a second broker begins here: import one export at a time"
            raise ValueError(msg)
        else:
            msg = f"unknown type {kind!r}: one of queue, message, dead_letter, exchange, end is wanted"
            raise ValueError(msg)

    def end(self) -> BrokerImage:
        """The state, once all lines were taken.

        Raises:
            JournalError: lines are missing.
        """
        if not self._version:
            msg = "there is nothing to import: the output of `respmq export` is expected on the standard input"
            raise JournalError(msg)
        if not self._ended and self._version > 1:
            msg = 'the last line, {"type":"end"}, is missing: the export was cut off, and what stood there is lost'
            raise JournalError(msg)
        for name, exchange in self._image.exchanges.items():
            for number, _ in exchange.bindings:
                if number not in self._image.queues:
                    msg = f"exchange '{quote(name)}' is bound to queue number {number}, which isn't there"
                    raise JournalError(msg)
        for queue in self._image.queues.values():
            _set_apart(queue)
        return self._image

    def _begin(self, kind: object, value: dict[str, Any]) -> None:
        if kind != "broker":
            msg = f'the first line of an export is {{"type":"broker","version":{VERSION},...}}'
            raise ValueError(msg)
        version = value["version"]
        if version not in range(1, VERSION + 1):
            msg = f"the export has version {version!r}, and this program reads versions 1 to {VERSION}"
            raise ValueError(msg)
        self._version = version
        self._image.now = _number(value["now"])
        self._image.queues_made = _number(value["queues_made"], 0)
        self._image.binding_drops = _number(value["binding_drops"], 0)

    def _queue(self, value: dict[str, Any]) -> None:
        queue = _read_queue(value)
        if queue.number in self._image.queues or queue.name in self._names:
            msg = f"there is a queue '{quote(queue.name)}' or one with the number {queue.number} already"
            raise ValueError(msg)
        self._names.add(queue.name)
        self._image.queues[queue.number] = queue

    def _message(self, value: dict[str, Any]) -> None:
        queue = self._queue_of(value)
        message = _read_message(value)
        if message.state > LEASED:
            msg = "a message that is gone can't be imported"
            raise ValueError(msg)
        if message.id in queue.messages:
            msg = f"queue '{quote(queue.name)}' has a message '{quote(message.id)}' already, and ids have to differ"
            raise ValueError(msg)
        if message.lease is not None:
            if (queue.number, message.lease) in self._tokens:
                msg = f"another message of queue '{quote(queue.name)}' has the lease '{quote(message.lease)}', too"
                raise ValueError(msg)
            self._tokens.add((queue.number, message.lease))
        queue.messages[message.id] = message

    def _dead_letter(self, value: dict[str, Any]) -> None:
        queue = self._queue_of(value)
        reason = _REASONS[_place_in(_REASONS, value["reason"], "reason")]
        error = None if value["error"] is None else _bytes(value["error"])
        letter = DeadLetter(_read_message(value), reason, error, _number(value["dead_at"]))
        letter.number = _number(value["number"], 1)
        if letter.number in queue.letters:
            msg = f"queue '{quote(queue.name)}' has a dead letter with the number {letter.number} already"
            raise ValueError(msg)
        queue.letters[letter.number] = letter

    def _exchange(self, value: dict[str, Any]) -> None:
        name = _bytes(value["name"])
        check_name(name, "exchange")
        if name in self._image.exchanges:
            msg = f"there is an exchange '{quote(name)}' already"
            raise ValueError(msg)
        kind = _KINDS[_place_in(_KINDS, value["kind"], "kind")]
        bindings = {(_number(number), _bytes(key)): None for number, key in _pairs(value["bindings"])}
        if kind == "TOPIC":
            for _, key in bindings:
                check_pattern(key)
        self._image.exchanges[name] = ExchangeImage(kind, bindings)

    def _queue_of(self, value: dict[str, Any]) -> QueueImage:
        queue = self._image.queues.get(value["queue"])
        if queue is None:
            msg = f"there is no queue with the number {value['queue']!r} before it"
            raise ValueError(msg)
        return queue


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


def _place_in(words: Sequence[str], value: object, what: str) -> int:
    """Where a word stands among those that there are.

    Raises:
        ValueError: it is none of them.
    """
    if not isinstance(value, str) or value not in words:
        msg = f"{value!r} is no possible {what}: one of {', '.join(words)} is wanted"
        raise ValueError(msg)
    return words.index(value)


def _read_queue(value: dict[str, Any]) -> QueueImage:
    name, mark, last_id = _bytes(value["name"]), _bytes(value["mark"]), _bytes(value["last_id"])
    check_name(name)
    if len(bytes.fromhex(mark.decode())) != _MARK_SIZE or len(last_id) not in {0, ID_SIZE}:
        msg = f"'{quote(mark)}' and '{quote(last_id)}' are no mark and no id made with it"
        raise ValueError(msg)
    patterns = {_bytes(pattern): None for pattern in _array(value["bindings"])}
    for pattern in patterns:
        check_pattern(pattern)
    return QueueImage(
        _number(value["number"], 1, _MOST_32),
        name,
        _read_settings(value["settings"]),
        mark,
        last_id,
        _read_counters(value["counters"]),
        window={_short(id): _number(put) for id, put in _pairs(value["remembered"])},
        patterns=patterns,
        requests=_read_requests(value["requests"]),
    )


def _read_requests(value: object) -> dict[tuple[bytes, bytes], list[tuple[int, bytes]]]:
    requests: dict[tuple[bytes, bytes], list[tuple[int, bytes]]] = {}
    for item in _array(value):
        parts = _array(item)
        if len(parts) != len(("user", "key", "leases")):
            msg = f"{json.dumps(item)} is no request: user, key and an array of pairs of queue and lease"
            raise ValueError(msg)
        user, key, leases = parts
        leased = [(_number(number, 1, _MOST_32), _short(token)) for number, token in _pairs(leases)]
        requests[_bytes(user), _bytes(key)] = leased
    return requests


def _read_counters(value: dict[str, Any]) -> Counters:
    _check_keys(value, Counters, "counter")
    return Counters(**{name: _number(count, 0) for name, count in value.items()})


def _check_keys(value: dict[str, Any], kind: type, what: str) -> None:
    """See that there is no key but the fields of a dataclass.

    Raises:
        ValueError: there is one.
    """
    known = [field.name for field in dataclasses.fields(kind)]
    for name in value:
        if name not in known:
            msg = f"there is no {what} {name!r}, only {', '.join(known)}"
            raise ValueError(msg)


def _read_settings(value: dict[str, Any]) -> QueueSettings:
    _check_keys(value, QueueSettings, "setting")
    for field in dataclasses.fields(QueueSettings):
        given = value.get(field.name, field.default)
        if field.name == "overflow":
            right = given in ("REJECT", "DROPHEAD")
        elif field.name == "retry_jitter":
            right = type(given) in {int, float} and 0 <= given <= 1
        else:
            least = 0 if field.name in _MAY_BE_ZERO else 1
            right = (given is None and field.name == "ttl") or (type(given) is int and least <= given < _MOST)
        if not right:
            msg = f"{given!r} is no possible value of {field.name}"
            raise ValueError(msg)
    return QueueSettings(**value)


def _read_message(value: dict[str, Any]) -> Message:
    headers = {_bytes(name): _bytes(text) for name, text in _pairs(value["headers"])}
    attachments = tuple(_bytes(attachment) for attachment in _array(value["attachments"]))
    if not isinstance(value["announcement"], bool):
        msg = f"announcement is true or false, not {json.dumps(value['announcement'])}"
        raise TypeError(msg)
    extra = None
    if headers or attachments or value["ttl"] is not None or value["announcement"]:
        extra = Extra(headers, attachments, None if value["ttl"] is None else _number(value["ttl"], 1))
        extra.announcement = value["announcement"]
    priority, enqueued_at = _number(value["priority"]), _number(value["enqueued_at"])
    message = Message(b"", _short(value["id"]), _bytes(value["body"]), priority, enqueued_at, extra)
    states: tuple[State, ...] = (0, 1, 2, 3)
    message.state = states[_place_in(STATE_NAMES, value["state"], "state")]
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


def _short(value: object) -> bytes:
    """An id or a token."""
    text = _bytes(value)
    if not 1 <= len(text) <= _LONGEST:
        msg = f"an id or a token has 1 to {_LONGEST} bytes, not {len(text)}"
        raise ValueError(msg)
    return text


def _bytes(value: object) -> bytes:
    if isinstance(value, str):
        return value.encode()
    coded = cast("dict[str, object]", value).get("base64") if isinstance(value, dict) else None
    if isinstance(coded, str):
        return base64.b64decode(coded, validate=True)
    msg = f'{json.dumps(value)} is neither text nor {{"base64": "..."}}'
    raise ValueError(msg)


def _array(value: object) -> list[object]:
    if not isinstance(value, list):
        msg = f"{json.dumps(value)} is no array"
        raise TypeError(msg)
    return cast("list[object]", value)


def _pairs(value: object) -> list[tuple[object, object]]:
    pairs = [_array(item) for item in _array(value)]
    for pair in pairs:
        if len(pair) != len(("name", "value")):
            msg = f'{json.dumps(pair)} is no pair, such as ["name","value"]'
            raise ValueError(msg)
    return [(name, text) for name, text in pairs]
