"""A `Broker` with the methods of a `Client`: what `Worker`, `Publisher` and deliveries work with."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING

import trio

from respmq.api.bodies import octets
from respmq.api.settings import milliseconds
from respmq.core.model import Message
from respmq.errors import BrokerError
from respmq.local import arguments as given
from respmq.local.conversion import to_delivery

if TYPE_CHECKING:
    from respmq.api.bodies import Body
    from respmq.api.messages import Delivery
    from respmq.api.settings import QueueConfig
    from respmq.core.exchanges import ExchangeKind
    from respmq.core.waiting import Deliveries, LeaseWait
    from respmq.engine.memory import MemoryEngine
    from respmq.local.broker import Broker


class AsynchronousBroker:
    """The asynchronous side of a `Broker`, see there. Each method is a checkpoint, and a cancelled one does nothing."""

    def __init__(
        self, broker: Broker, acting: Callable[[], AbstractContextManager[MemoryEngine]], waits: set[LeaseWait]
    ) -> None:
        self._broker = broker
        self._acting = acting
        #: Those that the broker ends when it is closed.
        self._waits = waits

    @property
    def connected(self) -> bool:
        """Whether the broker is open."""
        return self._broker.connected

    async def ack(self, queue: str, lease: str) -> bool:
        """As `Broker.ack`."""
        await trio.lowlevel.checkpoint_if_cancelled()
        done = self._broker.ack(queue, lease)
        await trio.lowlevel.cancel_shielded_checkpoint()
        return done

    async def nack(
        self,
        queue: str,
        lease: str,
        *,
        requeue: bool = True,
        error: str | None = None,
        delay: float | None = None,
        release: bool = False,
    ) -> bool:
        """As `Broker.nack`."""
        await trio.lowlevel.checkpoint_if_cancelled()
        done = self._broker.nack(queue, lease, requeue=requeue, error=error, delay=delay, release=release)
        await trio.lowlevel.cancel_shielded_checkpoint()
        return done

    async def touch(self, queue: str, lease: str, duration: float | None = None) -> bool:
        """As `Broker.touch`."""
        await trio.lowlevel.checkpoint_if_cancelled()
        done = self._broker.touch(queue, lease, duration)
        await trio.lowlevel.cancel_shielded_checkpoint()
        return done

    async def declare_queue(self, name: str, config: QueueConfig | None = None) -> None:
        """As `Broker.declare_queue`."""
        await trio.lowlevel.checkpoint_if_cancelled()
        self._broker.declare_queue(name, config)
        await trio.lowlevel.cancel_shielded_checkpoint()

    async def queue_config(self, name: str) -> QueueConfig:
        """As `Broker.queue_config`."""
        await trio.lowlevel.checkpoint_if_cancelled()
        config = self._broker.queue_config(name)
        await trio.lowlevel.cancel_shielded_checkpoint()
        return config

    async def bind(self, pattern: str, queue: str) -> bool:
        """As `Broker.bind`."""
        await trio.lowlevel.checkpoint_if_cancelled()
        added = self._broker.bind(pattern, queue)
        await trio.lowlevel.cancel_shielded_checkpoint()
        return added

    async def declare_exchange(self, name: str, kind: ExchangeKind = "TOPIC") -> None:
        """As `Broker.declare_exchange`."""
        await trio.lowlevel.checkpoint_if_cancelled()
        self._broker.declare_exchange(name, kind)
        await trio.lowlevel.cancel_shielded_checkpoint()

    async def bind_exchange(self, exchange: str, queue: str, key: str | None = None) -> bool:
        """As `Broker.bind_exchange`."""
        await trio.lowlevel.checkpoint_if_cancelled()
        added = self._broker.bind_exchange(exchange, queue, key)
        await trio.lowlevel.cancel_shielded_checkpoint()
        return added

    async def publish_exchange(
        self,
        exchange: str,
        key: str,
        body: Body,
        *,
        headers: Mapping[str, str] | None = None,
        attachments: Sequence[bytes] = (),
    ) -> int:
        """As `Broker.publish_exchange`."""
        await trio.lowlevel.checkpoint_if_cancelled()
        count = self._broker.publish_exchange(exchange, key, body, headers=headers, attachments=attachments)
        await trio.lowlevel.cancel_shielded_checkpoint()
        return count

    async def lease(self, queue: str, *, count: int = 1, wait: float | None = None) -> list[Delivery]:
        """As `Broker.lease`; if nothing is ready, `wait` seconds for something to be.

        Raises:
            QueueNotFoundError: no such queue, or it is deleted meanwhile.
            BrokerUnavailableError: the broker is closed meanwhile.
            InvalidRequestError: `count` is below 1, or `wait` not above 0.
        """
        await trio.lowlevel.checkpoint_if_cancelled()
        limit = None if wait is None else milliseconds(wait, "wait", zero=False)
        with self._acting() as core:
            answer = core.lease((given.name(queue),), given.count(count, "count"), limit)
        if isinstance(answer, list):
            await trio.lowlevel.cancel_shielded_checkpoint()
            return self._deliveries(answer)
        return await self._wait(answer)

    async def _wait(self, wait: LeaseWait) -> list[Delivery]:
        answered = trio.Event()
        answers: list[list[Delivery] | BrokerError] = []

        def take(answer: Deliveries | BrokerError) -> None:
            # Looked at now: the core's messages change.
            answers.append(answer if isinstance(answer, BrokerError) else self._deliveries(answer))
            answered.set()

        wait.on_done = take
        self._waits.add(wait)
        try:
            await answered.wait()
        except trio.Cancelled:
            wait.cancel()
            self._give_back(answers)
            raise
        finally:
            self._waits.discard(wait)
        (answer,) = answers
        if isinstance(answer, BrokerError):
            raise answer
        return answer

    def _deliveries(self, taken: Deliveries) -> list[Delivery]:
        return [to_delivery(message, self) for message in taken if isinstance(message, Message)]

    def _give_back(self, answers: list[list[Delivery] | BrokerError]) -> None:
        """What came in the moment in which the wait was cancelled has never been handed out."""
        for answer in answers:
            if isinstance(answer, list) and self._broker.connected:
                with self._acting() as core:
                    core.undeliver((given.name(one.queue), octets(one.lease, "lease")) for one in answer)
