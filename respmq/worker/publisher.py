"""Publishes messages to an exchange, by a routing key that is fixed or looked up in the message."""

from __future__ import annotations

from typing import TYPE_CHECKING

from respmq.errors import ExchangeNotFoundError
from respmq.local.broker import Broker

if TYPE_CHECKING:
    from collections.abc import Callable

    from respmq.api.bodies import Body
    from respmq.api.ports import AsyncBroker


def asynchronous(client: AsyncBroker | Broker) -> AsyncBroker:
    """A client or a broker in the same process, as workers and publishers use it."""
    return client.asynchronous() if isinstance(client, Broker) else client


class Publisher:
    """Publishes to an exchange: `await publisher({"photo": 1007})`.

    An exchange that isn't there is declared, as one of the kind `TOPIC`.

    Args:
        client: a `Client`, or a `Broker` in the same process.
        exchange: the exchange.
        route: the routing key of all messages.
        route_func: gives the routing key of a message; it is used even if there is a `route`. Without either of them
            the key is empty.
    """

    def __init__(
        self,
        client: AsyncBroker | Broker,
        exchange: str,
        route: str | None = None,
        route_func: Callable[[Body], str] | None = None,
    ) -> None:
        self._broker = asynchronous(client)
        self._exchange = exchange
        self._route = route
        self._route_func = route_func

    def route(self, message: Body) -> str:
        """The routing key of a message."""
        return (self._route or "") if self._route_func is None else self._route_func(message)

    async def __call__(self, message: Body) -> int:
        """Publish a message; returns into how many queues it was copied.

        Raises:
            InvalidRequestError: the message can't be encoded: neither `str`, `bytes` nor a JSON value.
            InvalidTopicError: the routing key is neither a topic nor empty.
            BrokerError: the broker can't be reached or refuses it.
        """
        key = self.route(message)
        try:
            return await self._broker.publish_exchange(self._exchange, key, message)
        except ExchangeNotFoundError:
            await self._broker.declare_exchange(self._exchange, "TOPIC")
            return await self._broker.publish_exchange(self._exchange, key, message)
