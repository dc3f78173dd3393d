"""Commands on dead letters: QDEAD LIST to QDEAD PURGE.

Written by respmq/codegen/generate.py from the command table: change that, then run it.
"""

from __future__ import annotations

from respmq.api.messages import DeadLetter
from respmq.calls import decode
from respmq.calls.call import Call, Words
from respmq.calls.runner import AsyncRunner, Runner


def qdead_list(queue: str, *, count: int | None = None, offset: int | None = None) -> Call[list[DeadLetter]]:
    """Shows dead letters, oldest first."""
    words = Words(b"QDEAD", b"LIST")
    words.text("queue", queue)
    words.option_integer(b"COUNT", "count", count)
    words.option_integer(b"OFFSET", "offset", offset)
    return Call(words.done(), decode.dead_letters, resend=True)


def qdead_len(queue: str) -> Call[int]:
    """Returns how many dead letters a queue has."""
    words = Words(b"QDEAD", b"LEN")
    words.text("queue", queue)
    return Call(words.done(), decode.integer, resend=True)


def qdead_pop(queue: str, *, count: int | None = None) -> Call[list[DeadLetter]]:
    """Removes the oldest dead letters and returns them."""
    words = Words(b"QDEAD", b"POP")
    words.text("queue", queue)
    words.option_integer(b"COUNT", "count", count)
    return Call(words.done(), decode.dead_letters, resend=False)


def qdead_replay(queue: str, *ids: str) -> Call[int]:
    """Puts dead letters back at the end of their priority with a fresh attempt count."""
    words = Words(b"QDEAD", b"REPLAY")
    words.text("queue", queue)
    words.texts("id", ids)
    return Call(words.done(), decode.integer, resend=False)


def qdead_purge(queue: str, *ids: str) -> Call[int]:
    """Removes dead letters for good."""
    words = Words(b"QDEAD", b"PURGE")
    words.text("queue", queue)
    words.texts("id", ids)
    return Call(words.done(), decode.integer, resend=False)


class DeadCommands(Runner):
    """Commands on dead letters, blocking."""

    def qdead_list(self, queue: str, *, count: int | None = None, offset: int | None = None) -> list[DeadLetter]:
        """Shows dead letters, oldest first.

        Args:
            queue: The name of the queue.
            count: The most letters to show.
            offset: How many to pass over.

        Raises:
            QueueNotFoundError, InvalidNameError, InvalidRequestError, BrokerUnavailableError: see there.
        """
        return self._run_call(qdead_list(queue, count=count, offset=offset))

    def qdead_len(self, queue: str) -> int:
        """Returns how many dead letters a queue has.

        Args:
            queue: The name of the queue.

        Raises:
            QueueNotFoundError, InvalidNameError, InvalidRequestError, BrokerUnavailableError: see there.
        """
        return self._run_call(qdead_len(queue))

    def qdead_pop(self, queue: str, *, count: int | None = None) -> list[DeadLetter]:
        """Removes the oldest dead letters and returns them.

        Args:
            queue: The name of the queue.
            count: The most letters to take.

        Raises:
            QueueNotFoundError, InvalidNameError, InvalidRequestError, BrokerUnavailableError: see there.
        """
        return self._run_call(qdead_pop(queue, count=count))

    def qdead_replay(self, queue: str, *ids: str) -> int:
        """Puts dead letters back at the end of their priority with a fresh attempt count.

        Args:
            queue: The name of the queue.
            ids: All if there is none.

        Raises:
            QueueNotFoundError, InvalidNameError, InvalidRequestError, BrokerUnavailableError: see there.
        """
        return self._run_call(qdead_replay(queue, *ids))

    def qdead_purge(self, queue: str, *ids: str) -> int:
        """Removes dead letters for good.

        Args:
            queue: The name of the queue.
            ids: All if there is none.

        Raises:
            QueueNotFoundError, InvalidNameError, InvalidRequestError, BrokerUnavailableError: see there.
        """
        return self._run_call(qdead_purge(queue, *ids))


class AsyncDeadCommands(AsyncRunner):
    """Commands on dead letters, awaited."""

    async def qdead_list(
        self,
        queue: str,
        *,
        count: int | None = None,
        offset: int | None = None,
    ) -> list[DeadLetter]:
        """Shows dead letters, oldest first.

        Args:
            queue: The name of the queue.
            count: The most letters to show.
            offset: How many to pass over.

        Raises:
            QueueNotFoundError, InvalidNameError, InvalidRequestError, BrokerUnavailableError: see there.
        """
        return await self._run_call(qdead_list(queue, count=count, offset=offset))

    async def qdead_len(self, queue: str) -> int:
        """Returns how many dead letters a queue has.

        Args:
            queue: The name of the queue.

        Raises:
            QueueNotFoundError, InvalidNameError, InvalidRequestError, BrokerUnavailableError: see there.
        """
        return await self._run_call(qdead_len(queue))

    async def qdead_pop(self, queue: str, *, count: int | None = None) -> list[DeadLetter]:
        """Removes the oldest dead letters and returns them.

        Args:
            queue: The name of the queue.
            count: The most letters to take.

        Raises:
            QueueNotFoundError, InvalidNameError, InvalidRequestError, BrokerUnavailableError: see there.
        """
        return await self._run_call(qdead_pop(queue, count=count))

    async def qdead_replay(self, queue: str, *ids: str) -> int:
        """Puts dead letters back at the end of their priority with a fresh attempt count.

        Args:
            queue: The name of the queue.
            ids: All if there is none.

        Raises:
            QueueNotFoundError, InvalidNameError, InvalidRequestError, BrokerUnavailableError: see there.
        """
        return await self._run_call(qdead_replay(queue, *ids))

    async def qdead_purge(self, queue: str, *ids: str) -> int:
        """Removes dead letters for good.

        Args:
            queue: The name of the queue.
            ids: All if there is none.

        Raises:
            QueueNotFoundError, InvalidNameError, InvalidRequestError, BrokerUnavailableError: see there.
        """
        return await self._run_call(qdead_purge(queue, *ids))
