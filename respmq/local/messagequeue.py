"""Queues for scripts without an event loop: put, get, acknowledge or reject."""

from __future__ import annotations

import os
import random
import time
import uuid
from collections.abc import Iterable
from dataclasses import dataclass, field
from datetime import UTC, datetime
from itertools import chain
from typing import TYPE_CHECKING, Any, ClassVar, Self

from respmq.api.bodies import decode_body, encode_body, header_texts, octets, text
from respmq.core.model import QueueSettings
from respmq.durations import MAX_DURATION
from respmq.engine.memory import MemoryEngine
from respmq.errors import InvalidRequestError
from respmq.local import arguments as given
from respmq.local.loading import read_file
from respmq.local.saving import queue_records, write_records

if TYPE_CHECKING:
    from respmq.api.bodies import Body
    from respmq.core import model
    from respmq.local.loading import SavedQueue

_NO_LIMIT = (1 << 62) - 1


@dataclass(frozen=True, slots=True)
class Message:
    """One message of a queue.

    Args:
        id: unique.
        body: what was put: `str`, `bytes` or a JSON value. Each `get` gives a copy of its own.
        timestamp: when it was put, in UTC: ISO 8601 with milliseconds.
        priority: the lower number comes first.
        retries: how often it has been rejected.
    """

    id: uuid.UUID
    # Any, as for json.loads: the program knows what its bodies are like, and no checker does.
    body: Any = field(hash=False)
    timestamp: str
    priority: int = 0
    retries: int = 0


def create_message(body: Body, priority: int = 0) -> Message:
    """A new message with an id of its own and the present time, as `put` makes it."""
    return Message(uuid.uuid4(), body, _shown(_now()), priority)


def _now() -> int:
    return int(time.time() * 1000)


def _shown(millis: int) -> str:
    return datetime.fromtimestamp(millis / 1000, UTC).isoformat(timespec="milliseconds")


class _ScriptQueue:
    """A broker with one queue, driven by nothing but the calls: what is taken stays taken until it is settled."""

    kind: ClassVar[str]

    def __init__(self, name: str, max_retries: int = 3) -> None:
        given.count(max_retries, "max_retries", least=0)
        self._name = given.name(name)
        self._core = MemoryEngine(_now(), os.urandom, random.uniform)
        self._core.declare(self._name, _settings(max_retries))
        #: The leases of what is taken.
        self._taken: dict[uuid.UUID, bytes] = {}

    @property
    def name(self) -> str:
        """The queue's name."""
        return text(self._name)

    @property
    def max_retries(self) -> int:
        """How often a message may be rejected and come back."""
        return self._core.settings(self._name).max_attempts - 1

    @property
    def size(self) -> int:
        """How many messages wait; those that are taken don't count."""
        return self._core.stats(self._name).ready

    @property
    def dead_letter_count(self) -> int:
        """How many messages were rejected too often, or could not be kept."""
        return self._core.dead_count(self._name)

    def _put(self, body: Body, priority: int) -> Message:
        made = create_message(body, given.priority(priority))
        raw, marked = encode_body(body)
        headers = {octets(key, "header name"): octets(value, "header") for key, value in marked.items()}
        self._core.advance(_now())
        id = made.id.hex.encode()
        self._core.put(self._name, raw, id, priority, 0, given.rare(headers, (), None))
        stored = self._core.find(self._name).live[id]
        return _message(stored, retries=0)

    def get(self) -> Message | None:
        """Take the next message, None if there is none. It is to be acknowledged or rejected."""
        self._core.advance(_now())
        taken: list[model.Message] = []
        self._core.find(self._name).take(1, None, taken)
        if not taken:
            return None
        message = _message(taken[0], retries=taken[0].attempt - 1)
        self._taken[message.id] = taken[0].lease or b""
        return message

    def acknowledge(self, message: Message) -> bool:
        """Be done with a message that was taken. False: it isn't taken."""
        return bool(self._core.ack(self._name, (self._taken.pop(message.id, b""),)))

    def reject(self, message: Message) -> bool:
        """Give back a message that was taken: it goes to the end of its line, or dies. False: it isn't taken."""
        return bool(self._core.nack(self._name, self._taken.pop(message.id, b"")))

    def get_dead_letter(self) -> Message | None:
        """Take the oldest dead letter for good, None if there is none."""
        letters = self._core.find(self._name).dead.pop(1)
        return _message(letters[0].message, retries=letters[0].message.attempt) if letters else None

    def records(self) -> Iterable[dict[str, Any]]:
        """The lines of a file that say what is in it."""
        return queue_records(self._core.find(self._name), kind=self.kind)

    @classmethod
    def restored(cls, saved: SavedQueue) -> Self:
        """The queue that a file holds.

        Raises:
            InvalidRequestError: an id in it is no UUID.
        """
        for stored in (*(message for message, _ in saved.messages), *(letter.message for letter in saved.dead)):
            try:
                _id(stored.id)
            except ValueError as error:
                msg = f"the id '{text(stored.id)}' of a message of queue '{text(saved.name)}' is no UUID"
                raise InvalidRequestError(msg) from error
        queue = cls(text(saved.name))
        queue._core.delete(saved.name)
        saved.restore(queue._core)
        return queue


class MessageQueue(_ScriptQueue):
    """A queue for scripts: first in, first out.

    ```python
    queue = MessageQueue("orders")
    queue.put("rye")
    message = queue.get()
    ```

    It belongs to one thread at a time, and needs no event loop.

    Args:
        name: a possible name of a queue.
        max_retries: how often a rejected message comes back; with the next rejection it is a dead letter.

    Raises:
        InvalidNameError: not a possible queue name.
        InvalidRequestError: `max_retries` is no integer or negative.
    """

    kind = "fifo"

    def put(self, body: Body) -> Message:
        """Put a message at the end of the line.

        Raises:
            InvalidRequestError: the body can't be encoded.
        """
        return self._put(body, 0)


class PriorityMessageQueue(_ScriptQueue):
    """A queue for scripts: the lowest priority number first, then first in, first out. See `MessageQueue`."""

    kind = "priority"

    def put(self, body: Body, priority: int = 0) -> Message:
        """Put a message at the end of the line of its priority.

        Raises:
            InvalidRequestError: the body can't be encoded, or the priority is no signed integer of 64 bits.
        """
        return self._put(body, priority)


def _settings(max_retries: int) -> QueueSettings:
    return QueueSettings(
        ack_timeout=MAX_DURATION,
        max_attempts=max_retries + 1,
        retry_delay=0,
        max_len=_NO_LIMIT,
        max_dead=_NO_LIMIT,
        dedupe=0,
    )


def _message(stored: model.Message, *, retries: int) -> Message:
    body = decode_body(stored.body, header_texts(stored.headers))
    return Message(_id(stored.id), body, _shown(stored.enqueued_at), stored.priority, retries)


def _id(id: bytes) -> uuid.UUID:
    return uuid.UUID(text(id))


_KINDS: dict[str, type[MessageQueue | PriorityMessageQueue]] = {
    kind.kind: kind for kind in (MessageQueue, PriorityMessageQueue)
}


def save_queues(queues: Iterable[MessageQueue | PriorityMessageQueue], path: str | os.PathLike[str]) -> None:
    """Write queues with all that is in them to a file, in one step: all or nothing.

    What is taken and not acknowledged is saved as waiting, at the front of its line.

    Raises:
        InvalidRequestError: two of them have the same name.
        OSError: the file can't be written; what was there before is still there.
    """
    by_name: dict[str, MessageQueue | PriorityMessageQueue] = {}
    for queue in queues:
        if queue.name in by_name:
            msg = f"two queues have the name '{queue.name}': in a file each needs one of its own"
            raise InvalidRequestError(msg)
        by_name[queue.name] = queue
    write_records(path, chain.from_iterable(queue.records() for queue in by_name.values()), _now())


def load_queues(path: str | os.PathLike[str]) -> dict[str, MessageQueue | PriorityMessageQueue]:
    """The queues that `save_queues` has written, by name.

    Raises:
        OSError: the file can't be read.
        InvalidRequestError: it isn't what `save_queues` writes.
    """
    loaded: dict[str, MessageQueue | PriorityMessageQueue] = {}
    for saved in read_file(path).queues.values():
        kind = _KINDS.get(saved.kind)
        if kind is None:
            msg = f"{path}: queue '{text(saved.name)}' was not written by save_queues, but by Broker.save"
            raise InvalidRequestError(msg)
        loaded[text(saved.name)] = kind.restored(saved)
    return loaded
