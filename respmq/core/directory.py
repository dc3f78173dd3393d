"""The queues of a broker, by name."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING, TypeVar

from respmq.core.model import QueueSettings
from respmq.core.names import check_name
from respmq.core.plain import PlainQueue
from respmq.core.stats import QueueStats
from respmq.core.waiting import Waiter
from respmq.errors import BrokerError, QueueConfigConflictError, QueueNotFoundError, quote
from respmq.globs import glob_match

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from respmq.core.hub import Hub

#: The name under which a setting is declared, for error texts and QCONFIG.
SETTING_NAMES = {field.name: field.name.replace("_", "") for field in dataclasses.fields(QueueSettings)}
_DURATIONS = frozenset({"ack_timeout", "retry_delay", "max_retry_delay", "ttl", "dedupe"})

T = TypeVar("T")


class Directory:
    """Declares, finds and describes queues. What is done with more than one of them is the broker's."""

    def __init__(self, hub: Hub) -> None:
        self._hub = hub
        self._queues: dict[bytes, PlainQueue] = {}
        #: Whether a put, lease or consumer for a queue that isn't there declares it with the defaults.
        self.auto_declare = False

    def declare(self, name: bytes, settings: QueueSettings) -> None:
        """Create a queue, or confirm that it exists with equal settings.

        Raises:
            InvalidNameError: not a possible queue name.
            QueueConfigConflictError: it exists with other settings.
        """
        queue = self._queues.get(name)
        if queue is None:
            check_name(name)
            queue = self._queues[name] = PlainQueue(name, settings, self._hub)
            if self._hub.recorder is not None:
                self._hub.recorder.declared(queue)
            return
        differing = [
            f"{SETTING_NAMES[field.name].upper()} is {_shown(field.name, queue.settings)}, "
            f"not {_shown(field.name, settings)}"
            for field in dataclasses.fields(QueueSettings)
            if getattr(queue.settings, field.name) != getattr(settings, field.name)
        ]
        if differing:
            msg = (
                f"queue '{quote(name)}' exists with other settings: {'; '.join(differing)}. "
                "Declare it with those that it has, or QDELETE it first"
            )
            raise QueueConfigConflictError(msg)

    def purge(self, name: bytes) -> int:
        """Drop a queue's ready and delayed messages and return how many there were.

        Raises:
            QueueNotFoundError: no such queue.
        """
        return self.find(name).purge()

    def names(self, match: bytes | None = None) -> list[bytes]:
        """The names of all queues (that match a glob), sorted."""
        return sorted(name for name in self._queues if match is None or glob_match(match, name))

    def settings(self, name: bytes) -> QueueSettings:
        """The settings of a queue.

        Raises:
            QueueNotFoundError: no such queue.
        """
        return self.find(name).settings

    def stats(self, name: bytes) -> QueueStats:
        """The statistics of a queue.

        Raises:
            QueueNotFoundError: no such queue.
        """
        queue = self.find(name)
        return QueueStats(
            name=name,
            ready=queue.ready,
            delayed=queue.delayed,
            in_flight=len(queue.leases),
            dead=len(queue.dead),
            consumers=len(queue.consumers),
            waiters=sum(isinstance(taker, Waiter) for taker in queue.takers),
            oldest_ready_age=queue.oldest_ready_age(),
            enqueued=queue.enqueued,
            delivered=queue.delivered,
            acked=queue.acked,
            retried=queue.retried,
            dead_lettered=queue.dead.added,
            dead_dropped=queue.dead.dropped,
            duplicates=queue.duplicates,
            expired_leases=queue.expired_leases,
            bytes=queue.bytes,
        )

    def find(self, name: bytes) -> PlainQueue:
        """The queue with a name.

        Raises:
            QueueNotFoundError: no such queue.
            InvalidNameError: there can't be one.
        """
        queue = self._queues.get(name)
        if queue is None:
            check_name(name)
            raise QueueNotFoundError.named(name)
        return queue

    def declaring(self, names: Iterable[bytes], action: Callable[[], T]) -> T:
        """Do `action` once the queues among `names` that aren't there are declared, if that is the habit.

        Raises:
            BrokerError: they may not be declared, or `action` can't be done; then none of them stays.
        """
        missing = [name for name in dict.fromkeys(names) if name not in self._queues]
        for name in missing:
            if not self.auto_declare:
                self.find(name)
            check_name(name)
        for name in missing:
            self.declare(name, QueueSettings())
        try:
            return action()
        except BrokerError:
            for name in missing:
                self._queues.pop(name).close()
            raise


def setting_value(field: str, settings: QueueSettings) -> str | int | float | None:
    """A setting as QCONFIG shows it: durations in seconds."""
    value: str | int | float | None = getattr(settings, field)
    if field in _DURATIONS and isinstance(value, int):
        return value // 1000 if value % 1000 == 0 else value / 1000
    return value


def _shown(field: str, settings: QueueSettings) -> str:
    value = setting_value(field, settings)
    if value is None:
        return "none"
    return f"{value:g}s" if field in _DURATIONS and not isinstance(value, str) else str(value)
