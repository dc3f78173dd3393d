"""Commands on topics: QPUBLISH to QBINDINGS.

Written by respmq/codegen/generate.py from the command table: change that, then run it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from respmq.api.bodies import Body
from respmq.api.results import PublishResult
from respmq.calls import decode
from respmq.calls.call import Call, Words
from respmq.calls.runner import AsyncRunner, Runner


def qpublish(
    topic: str,
    body: Body,
    *,
    headers: Mapping[str, str] | None = None,
    attachments: Sequence[bytes] = (),
) -> Call[PublishResult]:
    """Publishes like PUBLISH, with headers and attachments for the copies in queues."""
    words = Words(b"QPUBLISH")
    words.text("topic", topic)
    marked = words.body(body, headers)
    words.option_pairs(b"HEADER", "header", marked)
    words.option_blobs(b"ATTACH", "attachments", attachments)
    return Call(words.done(), decode.publish_result, resend=False)


def qbind(pattern: str, queue: str) -> Call[bool]:
    """Copies each event that matches a pattern into a queue."""
    words = Words(b"QBIND")
    words.text("pattern", pattern)
    words.text("queue", queue)
    return Call(words.done(), decode.flag, resend=True)


def qunbind(pattern: str, queue: str) -> Call[bool]:
    """Ends a binding."""
    words = Words(b"QUNBIND")
    words.text("pattern", pattern)
    words.text("queue", queue)
    return Call(words.done(), decode.flag, resend=True)


def qbindings(queue: str | None = None) -> Call[list[tuple[str, str]]]:
    """Returns the bindings."""
    words = Words(b"QBINDINGS")
    if queue is not None:
        words.text("queue", queue)
    return Call(words.done(), decode.pairs, resend=True)


class TopicCommands(Runner):
    """Commands on topics, blocking."""

    def qpublish(
        self,
        topic: str,
        body: Body,
        *,
        headers: Mapping[str, str] | None = None,
        attachments: Sequence[bytes] = (),
    ) -> PublishResult:
        """Publishes like PUBLISH, with headers and attachments for the copies in queues.

        Args:
            topic: Words, separated by dots.
            body: What is sent: `bytes`, a `str` or any other JSON value.
            headers: Names and values.
            attachments: Blobs beside the body.

        Raises:
            InvalidTopicError, TooBigError, InvalidRequestError, BrokerUnavailableError: see there.
        """
        return self._run_call(qpublish(topic, body, headers=headers, attachments=attachments))

    def qbind(self, pattern: str, queue: str) -> bool:
        """Copies each event that matches a pattern into a queue.

        Args:
            pattern: A topic in which a word may be `*` (any one word) or `#` (any number of words).
            queue: The name of the queue.

        Raises:
            QueueNotFoundError, InvalidNameError, InvalidTopicError, InvalidRequestError, BrokerUnavailableError: see
                there.
        """
        return self._run_call(qbind(pattern, queue))

    def qunbind(self, pattern: str, queue: str) -> bool:
        """Ends a binding.

        Args:
            pattern: A topic in which a word may be `*` (any one word) or `#` (any number of words).
            queue: The name of the queue.

        Raises:
            QueueNotFoundError, InvalidNameError, InvalidTopicError, InvalidRequestError, BrokerUnavailableError: see
                there.
        """
        return self._run_call(qunbind(pattern, queue))

    def qbindings(self, queue: str | None = None) -> list[tuple[str, str]]:
        """Returns the bindings.

        Args:
            queue: Only bindings of this queue.

        Raises:
            QueueNotFoundError, InvalidNameError, InvalidRequestError, BrokerUnavailableError: see there.
        """
        return self._run_call(qbindings(queue))


class AsyncTopicCommands(AsyncRunner):
    """Commands on topics, awaited."""

    async def qpublish(
        self,
        topic: str,
        body: Body,
        *,
        headers: Mapping[str, str] | None = None,
        attachments: Sequence[bytes] = (),
    ) -> PublishResult:
        """Publishes like PUBLISH, with headers and attachments for the copies in queues.

        Args:
            topic: Words, separated by dots.
            body: What is sent: `bytes`, a `str` or any other JSON value.
            headers: Names and values.
            attachments: Blobs beside the body.

        Raises:
            InvalidTopicError, TooBigError, InvalidRequestError, BrokerUnavailableError: see there.
        """
        return await self._run_call(qpublish(topic, body, headers=headers, attachments=attachments))

    async def qbind(self, pattern: str, queue: str) -> bool:
        """Copies each event that matches a pattern into a queue.

        Args:
            pattern: A topic in which a word may be `*` (any one word) or `#` (any number of words).
            queue: The name of the queue.

        Raises:
            QueueNotFoundError, InvalidNameError, InvalidTopicError, InvalidRequestError, BrokerUnavailableError: see
                there.
        """
        return await self._run_call(qbind(pattern, queue))

    async def qunbind(self, pattern: str, queue: str) -> bool:
        """Ends a binding.

        Args:
            pattern: A topic in which a word may be `*` (any one word) or `#` (any number of words).
            queue: The name of the queue.

        Raises:
            QueueNotFoundError, InvalidNameError, InvalidTopicError, InvalidRequestError, BrokerUnavailableError: see
                there.
        """
        return await self._run_call(qunbind(pattern, queue))

    async def qbindings(self, queue: str | None = None) -> list[tuple[str, str]]:
        """Returns the bindings.

        Args:
            queue: Only bindings of this queue.

        Raises:
            QueueNotFoundError, InvalidNameError, InvalidRequestError, BrokerUnavailableError: see there.
        """
        return await self._run_call(qbindings(queue))
