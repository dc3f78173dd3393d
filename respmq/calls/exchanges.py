"""Commands on exchanges: EXCHANGE DECLARE to EXCHANGE BINDINGS.

Written by respmq/codegen/generate.py from the command table: change that, then run it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Literal

from respmq.api.bodies import Body
from respmq.calls import decode
from respmq.calls.call import Call, Words
from respmq.calls.runner import AsyncRunner, Runner
from respmq.core.exchanges import ExchangeKind


def exchange_declare(exchange: str, type: Literal["FANOUT", "DIRECT", "TOPIC"]) -> Call[None]:
    """Creates an exchange, or confirms that it exists with the same type."""
    words = Words(b"EXCHANGE", b"DECLARE")
    words.text("exchange", exchange)
    words.text("type", type)
    return Call(words.done(), decode.nothing, resend=True)


def exchange_delete(exchange: str) -> Call[int]:
    """Deletes an exchange with its bindings."""
    words = Words(b"EXCHANGE", b"DELETE")
    words.text("exchange", exchange)
    return Call(words.done(), decode.integer, resend=False)


def exchange_bind(exchange: str, queue: str, key: str | None = None) -> Call[bool]:
    """Binds a queue to an exchange."""
    words = Words(b"EXCHANGE", b"BIND")
    words.text("exchange", exchange)
    words.text("queue", queue)
    if key is not None:
        words.text("key", key)
    return Call(words.done(), decode.flag, resend=True)


def exchange_unbind(exchange: str, queue: str, key: str | None = None) -> Call[bool]:
    """Ends a binding of a queue to an exchange."""
    words = Words(b"EXCHANGE", b"UNBIND")
    words.text("exchange", exchange)
    words.text("queue", queue)
    if key is not None:
        words.text("key", key)
    return Call(words.done(), decode.flag, resend=True)


def exchange_publish(
    exchange: str,
    key: str,
    body: Body,
    *,
    headers: Mapping[str, str] | None = None,
    attachments: Sequence[bytes] = (),
) -> Call[int]:
    """Copies a message into the queues that are bound for its routing key."""
    words = Words(b"EXCHANGE", b"PUBLISH")
    words.text("exchange", exchange)
    words.text("key", key)
    marked = words.body(body, headers)
    words.option_pairs(b"HEADER", "header", marked)
    words.option_blobs(b"ATTACH", "attachments", attachments)
    return Call(words.done(), decode.integer, resend=False)


def exchange_list() -> Call[list[tuple[str, ExchangeKind]]]:
    """Returns the exchanges, sorted by name."""
    words = Words(b"EXCHANGE", b"LIST")
    return Call(words.done(), decode.exchanges, resend=True)


def exchange_bindings(exchange: str) -> Call[list[tuple[str, str]]]:
    """Returns the bindings of an exchange."""
    words = Words(b"EXCHANGE", b"BINDINGS")
    words.text("exchange", exchange)
    return Call(words.done(), decode.pairs, resend=True)


class ExchangeCommands(Runner):
    """Commands on exchanges, blocking."""

    def exchange_declare(self, exchange: str, type: Literal["FANOUT", "DIRECT", "TOPIC"]) -> None:
        """Creates an exchange, or confirms that it exists with the same type.

        Args:
            exchange: The name of the exchange.
            type: How it routes.

        Raises:
            QueueConfigConflictError, InvalidNameError, InvalidRequestError, BrokerUnavailableError: see there.
        """
        return self._run_call(exchange_declare(exchange, type))

    def exchange_delete(self, exchange: str) -> int:
        """Deletes an exchange with its bindings.

        Args:
            exchange: The name of the exchange.

        Raises:
            ExchangeNotFoundError, InvalidNameError, InvalidRequestError, BrokerUnavailableError: see there.
        """
        return self._run_call(exchange_delete(exchange))

    def exchange_bind(self, exchange: str, queue: str, key: str | None = None) -> bool:
        """Binds a queue to an exchange.

        Args:
            exchange: The name of the exchange.
            queue: The name of the queue.
            key: DIRECT: the equal key; TOPIC: a pattern; FANOUT ignores it.

        Raises:
            ExchangeNotFoundError, QueueNotFoundError, InvalidNameError, InvalidTopicError, InvalidRequestError,
                BrokerUnavailableError: see there.
        """
        return self._run_call(exchange_bind(exchange, queue, key))

    def exchange_unbind(self, exchange: str, queue: str, key: str | None = None) -> bool:
        """Ends a binding of a queue to an exchange.

        Args:
            exchange: The name of the exchange.
            queue: The name of the queue.
            key: DIRECT: the equal key; TOPIC: a pattern; FANOUT ignores it.

        Raises:
            ExchangeNotFoundError, QueueNotFoundError, InvalidNameError, InvalidTopicError, InvalidRequestError,
                BrokerUnavailableError: see there.
        """
        return self._run_call(exchange_unbind(exchange, queue, key))

    def exchange_publish(
        self,
        exchange: str,
        key: str,
        body: Body,
        *,
        headers: Mapping[str, str] | None = None,
        attachments: Sequence[bytes] = (),
    ) -> int:
        """Copies a message into the queues that are bound for its routing key.

        Args:
            exchange: The name of the exchange.
            key: The routing key; a topic or empty for a TOPIC exchange.
            body: What is sent: `bytes`, a `str` or any other JSON value.
            headers: Names and values.
            attachments: Blobs beside the body.

        Raises:
            ExchangeNotFoundError, InvalidNameError, InvalidTopicError, TooBigError, InvalidRequestError,
                BrokerUnavailableError: see there.
        """
        return self._run_call(exchange_publish(exchange, key, body, headers=headers, attachments=attachments))

    def exchange_list(self) -> list[tuple[str, ExchangeKind]]:
        """Returns the exchanges, sorted by name.

        Raises:
            InvalidRequestError, BrokerUnavailableError: see there.
        """
        return self._run_call(exchange_list())

    def exchange_bindings(self, exchange: str) -> list[tuple[str, str]]:
        """Returns the bindings of an exchange.

        Args:
            exchange: The name of the exchange.

        Raises:
            ExchangeNotFoundError, InvalidNameError, InvalidRequestError, BrokerUnavailableError: see there.
        """
        return self._run_call(exchange_bindings(exchange))


class AsyncExchangeCommands(AsyncRunner):
    """Commands on exchanges, awaited."""

    async def exchange_declare(self, exchange: str, type: Literal["FANOUT", "DIRECT", "TOPIC"]) -> None:
        """Creates an exchange, or confirms that it exists with the same type.

        Args:
            exchange: The name of the exchange.
            type: How it routes.

        Raises:
            QueueConfigConflictError, InvalidNameError, InvalidRequestError, BrokerUnavailableError: see there.
        """
        return await self._run_call(exchange_declare(exchange, type))

    async def exchange_delete(self, exchange: str) -> int:
        """Deletes an exchange with its bindings.

        Args:
            exchange: The name of the exchange.

        Raises:
            ExchangeNotFoundError, InvalidNameError, InvalidRequestError, BrokerUnavailableError: see there.
        """
        return await self._run_call(exchange_delete(exchange))

    async def exchange_bind(self, exchange: str, queue: str, key: str | None = None) -> bool:
        """Binds a queue to an exchange.

        Args:
            exchange: The name of the exchange.
            queue: The name of the queue.
            key: DIRECT: the equal key; TOPIC: a pattern; FANOUT ignores it.

        Raises:
            ExchangeNotFoundError, QueueNotFoundError, InvalidNameError, InvalidTopicError, InvalidRequestError,
                BrokerUnavailableError: see there.
        """
        return await self._run_call(exchange_bind(exchange, queue, key))

    async def exchange_unbind(self, exchange: str, queue: str, key: str | None = None) -> bool:
        """Ends a binding of a queue to an exchange.

        Args:
            exchange: The name of the exchange.
            queue: The name of the queue.
            key: DIRECT: the equal key; TOPIC: a pattern; FANOUT ignores it.

        Raises:
            ExchangeNotFoundError, QueueNotFoundError, InvalidNameError, InvalidTopicError, InvalidRequestError,
                BrokerUnavailableError: see there.
        """
        return await self._run_call(exchange_unbind(exchange, queue, key))

    async def exchange_publish(
        self,
        exchange: str,
        key: str,
        body: Body,
        *,
        headers: Mapping[str, str] | None = None,
        attachments: Sequence[bytes] = (),
    ) -> int:
        """Copies a message into the queues that are bound for its routing key.

        Args:
            exchange: The name of the exchange.
            key: The routing key; a topic or empty for a TOPIC exchange.
            body: What is sent: `bytes`, a `str` or any other JSON value.
            headers: Names and values.
            attachments: Blobs beside the body.

        Raises:
            ExchangeNotFoundError, InvalidNameError, InvalidTopicError, TooBigError, InvalidRequestError,
                BrokerUnavailableError: see there.
        """
        return await self._run_call(exchange_publish(exchange, key, body, headers=headers, attachments=attachments))

    async def exchange_list(self) -> list[tuple[str, ExchangeKind]]:
        """Returns the exchanges, sorted by name.

        Raises:
            InvalidRequestError, BrokerUnavailableError: see there.
        """
        return await self._run_call(exchange_list())

    async def exchange_bindings(self, exchange: str) -> list[tuple[str, str]]:
        """Returns the bindings of an exchange.

        Args:
            exchange: The name of the exchange.

        Raises:
            ExchangeNotFoundError, InvalidNameError, InvalidRequestError, BrokerUnavailableError: see there.
        """
        return await self._run_call(exchange_bindings(exchange))
