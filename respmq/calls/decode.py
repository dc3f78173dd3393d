"""Replies as Python values. Both protocols are read: a map is a dict or a flat list, a number may be text."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields
from typing import TYPE_CHECKING, Literal, TypeVar, cast

from respmq.api.bodies import text as decode_text
from respmq.api.messages import DeadLetter, Delivery, StoredMessage
from respmq.api.results import BrokerStats, PublishResult, PutResult, QueueStats
from respmq.api.settings import SETTINGS, QueueConfig
from respmq.errors import ProtocolError

if TYPE_CHECKING:
    from respmq.api.ports import Settler
    from respmq.core.exchanges import ExchangeKind
    from respmq.core.model import Overflow, Reason

T = TypeVar("T")

MessageState = Literal["ready", "delayed", "leased"]


@dataclass(frozen=True, slots=True, kw_only=True)
class QueuedMessage(StoredMessage):
    """A message as QPEEK and QSHOW see it, without leasing it.

    Args:
        state: `ready`, `delayed` or `leased`.
        lease: the token of its lease, if it is leased.
        deadline: when the lease ends, seconds since 1970.
    """

    state: MessageState
    lease: str | None
    deadline: float | None


def new_key() -> str:
    """A key that nobody else has: an id for a message, a REQID."""
    return uuid.uuid4().hex


# -- plain values ------------------------------------------------------------------------------------------------------


def _wrong(reply: object, wanted: str) -> ProtocolError:
    return ProtocolError(f"{wanted} is wanted as a reply, not {reply!r:.100}")


def nothing(reply: object, _settler: Settler | None) -> None:
    """OK."""
    if reply not in {b"OK", "OK"}:
        raise _wrong(reply, "OK")


def _integer(reply: object) -> int:
    # RESP2 has no other numbers than integers, so those with a fraction come as text.
    if isinstance(reply, int):
        return reply
    raise _wrong(reply, "an integer")


def _number(reply: object) -> float:
    if isinstance(reply, int | float):
        return reply
    if isinstance(reply, bytes):
        try:
            return float(reply)
        except ValueError:
            raise _wrong(reply, "a number") from None
    raise _wrong(reply, "a number")


def _bytes(reply: object) -> bytes:
    if isinstance(reply, bytes):
        return reply
    raise _wrong(reply, "a string")


def _text(reply: object) -> str:
    return decode_text(_bytes(reply))


def _list(reply: object) -> list[object]:
    if isinstance(reply, list):
        return cast("list[object]", reply)
    raise _wrong(reply, "an array")


class _Fields(dict[str, object]):
    """What a map holds."""

    def __missing__(self, name: str) -> object:
        msg = f"a reply has no '{name}', only {', '.join(self)}"
        raise ProtocolError(msg)


def _mapping(reply: object) -> _Fields:
    """A map, with names of settings, counts or headers as keys."""
    if isinstance(reply, Mapping):
        return _Fields((_text(key), value) for key, value in cast("Mapping[object, object]", reply).items())
    flat = _list(reply)
    if len(flat) % 2:
        raise _wrong(reply, "a map")
    return _Fields((_text(key), value) for key, value in zip(flat[::2], flat[1::2], strict=True))


def _pair(reply: object) -> tuple[object, object]:
    match _list(reply):
        case [first, second]:
            return first, second
        case _:
            raise _wrong(reply, "a pair")


def _optional(read: Callable[[object], T], reply: object) -> T | None:
    return None if reply is None else read(reply)


def integer(reply: object, _settler: Settler | None) -> int:
    """A number."""
    return _integer(reply)


def flag(reply: object, _settler: Settler | None) -> bool:
    """1 or 0."""
    return bool(_integer(reply))


def text(reply: object, _settler: Settler | None) -> str:
    """A name."""
    return _text(reply)


def texts(reply: object, _settler: Settler | None) -> list[str]:
    """Names or ids."""
    return [_text(item) for item in _list(reply)]


def pairs(reply: object, _settler: Settler | None) -> list[tuple[str, str]]:
    """Pairs of names."""
    found = [_pair(item) for item in _list(reply)]
    return [(_text(first), _text(second)) for first, second in found]


def exchanges(reply: object, settler: Settler | None) -> list[tuple[str, ExchangeKind]]:
    """Names of exchanges with their types."""
    return [(name, cast("ExchangeKind", kind)) for name, kind in pairs(reply, settler)]


# -- results -----------------------------------------------------------------------------------------------------------


def put_result(id: str, *, made: bool) -> Callable[[object, Settler | None], PutResult]:
    """What QPUT answers for a message with this id; `made`: the id was made for this call, so nobody else has it."""

    def decode(reply: object, _settler: Settler | None) -> PutResult:
        # With an id of its own, it can only be a copy of itself that was there: this call was sent twice.
        return PutResult(id, duplicate=reply is None and not made)

    return decode


def publish_result(reply: object, _settler: Settler | None) -> PublishResult:
    """What QPUBLISH answers."""
    subscribers, queues = _pair(reply)
    return PublishResult(_integer(subscribers), _integer(queues))


def queue_config(reply: object, _settler: Settler | None) -> QueueConfig:
    """What QCONFIG answers."""
    found = _mapping(reply)
    ttl = found["ttl"]
    values = {name: found[name.replace("_", "")] for name in SETTINGS}
    return QueueConfig(
        ack_timeout=_number(values["ack_timeout"]),
        max_attempts=_integer(values["max_attempts"]),
        retry_delay=_number(values["retry_delay"]),
        max_retry_delay=_number(values["max_retry_delay"]),
        retry_jitter=_number(values["retry_jitter"]),
        max_len=_integer(values["max_len"]),
        overflow=cast("Overflow", _text(values["overflow"]).upper()),
        ttl=_optional(_number, ttl),
        max_dead=_integer(values["max_dead"]),
        dedupe=_number(values["dedupe"]),
    )


def queue_stats(reply: object, _settler: Settler | None) -> QueueStats:
    """What QSTATS answers for a queue."""
    found = _mapping(reply)
    counts = {f.name: _integer(found[f.name]) for f in fields(QueueStats) if f.name not in {"name", "oldest_ready_age"}}
    age = _optional(_number, found["oldest_ready_age"])
    return QueueStats(name=_text(found["name"]), oldest_ready_age=age, **counts)


def broker_stats(reply: object, _settler: Settler | None) -> BrokerStats:
    """What QSTATS answers for the broker."""
    found = _mapping(reply)
    return BrokerStats(**{f.name: _integer(found[f.name]) for f in fields(BrokerStats)})


# -- messages ----------------------------------------------------------------------------------------------------------


def _seconds(reply: object) -> float:
    return _integer(reply) / 1000


def _headers(reply: object) -> dict[str, str]:
    return {name: _text(value) for name, value in _mapping(reply).items()}


def _attachments(reply: object) -> tuple[bytes, ...]:
    return tuple(_bytes(item) for item in _list(reply))


def delivery(reply: object, settler: Settler | None) -> Delivery:
    """A delivery, as QLEASE and QCONSUME send it with FULL."""
    found = _mapping(reply)
    return Delivery(
        queue=_text(found["queue"]),
        id=_text(found["id"]),
        attempt=_integer(found["attempt"]),
        raw=_bytes(found["body"]),
        headers=_headers(found["headers"]),
        attachments=_attachments(found["attachments"]),
        priority=_integer(found["priority"]),
        enqueued_at=_seconds(found["enqueued_at"]),
        lease=_text(found["lease"]),
        deadline=_seconds(found["deadline"]),
        settler=settler,
    )


def deliveries(reply: object, settler: Settler | None) -> list[Delivery]:
    """What QLEASE answers."""
    return [delivery(item, settler) for item in _list(reply)]


def _dead_letter(found: _Fields) -> DeadLetter:
    return DeadLetter(
        queue=_text(found["queue"]),
        id=_text(found["id"]),
        attempt=_integer(found["attempt"]),
        raw=_bytes(found["body"]),
        headers=_headers(found["headers"]),
        attachments=_attachments(found["attachments"]),
        priority=_integer(found["priority"]),
        enqueued_at=_seconds(found["enqueued_at"]),
        reason=cast("Reason", _text(found["reason"])),
        error=_optional(_text, found["error"]),
        dead_at=_seconds(found["dead_at"]),
    )


def dead_letters(reply: object, _settler: Settler | None) -> list[DeadLetter]:
    """What QDEAD LIST and QDEAD POP answer."""
    return [_dead_letter(_mapping(item)) for item in _list(reply)]


def _queued_message(found: _Fields) -> QueuedMessage:
    return QueuedMessage(
        queue=_text(found["queue"]),
        id=_text(found["id"]),
        attempt=_integer(found["attempt"]),
        raw=_bytes(found["body"]),
        headers=_headers(found["headers"]),
        attachments=_attachments(found["attachments"]),
        priority=_integer(found["priority"]),
        enqueued_at=_seconds(found["enqueued_at"]),
        state=cast("MessageState", _text(found["state"])),
        lease=_optional(_text, found["lease"]),
        deadline=_optional(_seconds, found["deadline"]),
    )


def queued_messages(reply: object, _settler: Settler | None) -> list[QueuedMessage]:
    """What QPEEK answers."""
    return [_queued_message(_mapping(item)) for item in _list(reply)]


def shown_message(reply: object, _settler: Settler | None) -> QueuedMessage | DeadLetter | None:
    """What QSHOW answers."""
    if reply is None:
        return None
    found = _mapping(reply)
    return _dead_letter(found) if "reason" in found else _queued_message(found)
