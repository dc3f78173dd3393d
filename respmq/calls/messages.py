"""Commands on messages: QPUT to QDEL.

Written by respmq/codegen/generate.py from the command table: change that, then run it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Literal

from respmq.api.bodies import Body
from respmq.api.messages import DeadLetter, Delivery
from respmq.api.results import PutResult
from respmq.calls import decode
from respmq.calls.call import Call, Words
from respmq.calls.decode import QueuedMessage
from respmq.calls.runner import AsyncRunner, Runner


def qput(
    queue: str,
    body: Body,
    *,
    id: str | None = None,
    priority: int | None = None,
    delay: float | None = None,
    ttl: float | None = None,
    headers: Mapping[str, str] | None = None,
    attachments: Sequence[bytes] = (),
) -> Call[PutResult]:
    """Puts a message into a queue."""
    key = decode.new_key() if id is None else id
    words = Words(b"QPUT")
    words.text("queue", queue)
    marked = words.body(body, headers)
    words.option_text(b"ID", "id", key)
    words.option_integer(b"PRIORITY", "priority", priority)
    words.option_duration(b"DELAY", "delay", delay, zero=True)
    words.option_duration(b"TTL", "ttl", ttl)
    words.option_pairs(b"HEADER", "header", marked)
    words.option_blobs(b"ATTACH", "attachments", attachments)
    return Call(words.done(), decode.put_result(key, made=id is None), resend=True)


def qmput(queue: str, *bodies: str | bytes) -> Call[list[str]]:
    """Puts several messages into a queue: all of them or, on an error, none."""
    words = Words(b"QMPUT")
    words.text("queue", queue)
    words.bodies(bodies)
    return Call(words.done(), decode.texts, resend=False)


def qlease(
    *queues: str,
    count: int | None = None,
    wait: float | None = None,
    lease: float | None = None,
    reqid: str | None = None,
) -> Call[list[Delivery]]:
    """Leases messages from the first of the queues that have any; waits for one if asked to."""
    words = Words(b"QLEASE")
    words.texts("queue", queues)
    words.option_integer(b"COUNT", "count", count)
    words.option_duration(b"LEASE", "lease", lease)
    words.option_text(b"REQID", "reqid", decode.new_key() if reqid is None else reqid)
    words.option_word("FULL")
    return Call(words.done(), decode.deliveries, resend=True, wait=wait)


def qack(queue: str, *leases: str) -> Call[int]:
    """Settles leases as done; their messages are gone."""
    words = Words(b"QACK")
    words.text("queue", queue)
    words.texts("lease", leases)
    return Call(words.done(), decode.integer, resend=True)


def qnack(
    queue: str,
    lease: str,
    *,
    mode: Literal["REJECT", "RELEASE"] | None = None,
    delay: float | None = None,
    error: str | None = None,
) -> Call[bool]:
    """Settles a lease as failed: the message is retried after the backoff, or dies after its last attempt."""
    words = Words(b"QNACK")
    words.text("queue", queue)
    words.text("lease", lease)
    words.option_word(mode)
    words.option_duration(b"DELAY", "delay", delay, zero=True)
    words.option_text(b"ERROR", "error", error)
    return Call(words.done(), decode.flag, resend=True)


def qtouch(queue: str, *leases: str, for_: float | None = None) -> Call[int]:
    """Renews leases."""
    words = Words(b"QTOUCH")
    words.text("queue", queue)
    words.texts("lease", leases)
    words.option_duration(b"FOR", "for", for_)
    return Call(words.done(), decode.integer, resend=True)


def qpeek(
    queue: str,
    *,
    count: int | None = None,
    offset: int | None = None,
    state: Literal["READY", "DELAYED", "LEASED"] | None = None,
) -> Call[list[QueuedMessage]]:
    """Shows messages in the order in which they will be handed out, fall due or expire; leases nothing."""
    words = Words(b"QPEEK")
    words.text("queue", queue)
    words.option_integer(b"COUNT", "count", count)
    words.option_integer(b"OFFSET", "offset", offset)
    words.option_text(b"STATE", "state", state)
    return Call(words.done(), decode.queued_messages, resend=True)


def qshow(queue: str, id: str) -> Call[QueuedMessage | DeadLetter | None]:
    """Shows a message by its id: the live one, else the latest dead one."""
    words = Words(b"QSHOW")
    words.text("queue", queue)
    words.text("id", id)
    return Call(words.done(), decode.shown_message, resend=True)


def qdel(queue: str, *ids: str) -> Call[int]:
    """Removes ready, delayed or leased messages by id; their leases are stale."""
    words = Words(b"QDEL")
    words.text("queue", queue)
    words.texts("id", ids)
    return Call(words.done(), decode.integer, resend=False)


class MessageCommands(Runner):
    """Commands on messages, blocking."""

    def qput(
        self,
        queue: str,
        body: Body,
        *,
        id: str | None = None,
        priority: int | None = None,
        delay: float | None = None,
        ttl: float | None = None,
        headers: Mapping[str, str] | None = None,
        attachments: Sequence[bytes] = (),
    ) -> PutResult:
        """Puts a message into a queue.

        Args:
            queue: The name of the queue.
            body: What is sent: `bytes`, a `str` or any other JSON value.
            id: The message's id; one is made if there is none, so that it can be sent again.
            priority: The lower number is delivered first.
            delay: How long until it is ready. Seconds.
            ttl: How long it may wait; can only shorten the queue's TTL. Seconds.
            headers: Names and values.
            attachments: Blobs beside the body.

        Raises:
            QueueNotFoundError, InvalidNameError, QueueFullError, TooBigError, OutOfMemoryError, InvalidRequestError,
                BrokerUnavailableError: see there.
        """
        return self._run_call(
            qput(queue, body, id=id, priority=priority, delay=delay, ttl=ttl, headers=headers, attachments=attachments)
        )

    def qmput(self, queue: str, *bodies: str | bytes) -> list[str]:
        """Puts several messages into a queue: all of them or, on an error, none.

        Args:
            queue: The name of the queue.
            bodies: What is sent: each a `str` or `bytes`; what is to be JSON goes by `qput`.

        Raises:
            QueueNotFoundError, InvalidNameError, QueueFullError, TooBigError, OutOfMemoryError, InvalidRequestError,
                BrokerUnavailableError: see there.
        """
        return self._run_call(qmput(queue, *bodies))

    def qlease(
        self,
        *queues: str,
        count: int | None = None,
        wait: float | None = None,
        lease: float | None = None,
        reqid: str | None = None,
    ) -> list[Delivery]:
        """Leases messages from the first of the queues that have any; waits for one if asked to.

        Args:
            queues: Names of queues, tried in this order.
            count: The most messages to lease.
            wait: Seconds to wait if nothing is ready; `math.inf` for ever, None not at all.
            lease: How long the leases last instead of ACKTIMEOUT. Seconds.
            reqid: A key under which it may be sent again without taking more; one is made if there is none.

        Raises:
            QueueNotFoundError, InvalidNameError, UnblockedError, InvalidRequestError, BrokerUnavailableError: see
                there.
        """
        return self._run_call(qlease(*queues, count=count, wait=wait, lease=lease, reqid=reqid))

    def qack(self, queue: str, *leases: str) -> int:
        """Settles leases as done; their messages are gone.

        Args:
            queue: The name of the queue.
            leases: The token from the delivery.

        Raises:
            QueueNotFoundError, InvalidNameError, InvalidRequestError, BrokerUnavailableError: see there.
        """
        return self._run_call(qack(queue, *leases))

    def qnack(
        self,
        queue: str,
        lease: str,
        *,
        mode: Literal["REJECT", "RELEASE"] | None = None,
        delay: float | None = None,
        error: str | None = None,
    ) -> bool:
        """Settles a lease as failed: the message is retried after the backoff, or dies after its last attempt.

        Args:
            queue: The name of the queue.
            lease: The token from the delivery.
            mode: REJECT: the message dies now. RELEASE: no failure, it returns to where it stood.
            delay: Wait this long instead of the backoff. Seconds.
            error: What went wrong; kept with a dead letter.

        Raises:
            QueueNotFoundError, InvalidNameError, TooBigError, InvalidRequestError, BrokerUnavailableError: see there.
        """
        return self._run_call(qnack(queue, lease, mode=mode, delay=delay, error=error))

    def qtouch(self, queue: str, *leases: str, for_: float | None = None) -> int:
        """Renews leases.

        Args:
            queue: The name of the queue.
            leases: The token from the delivery.
            for_: For how long from now, instead of ACKTIMEOUT. Seconds.

        Raises:
            QueueNotFoundError, InvalidNameError, InvalidRequestError, BrokerUnavailableError: see there.
        """
        return self._run_call(qtouch(queue, *leases, for_=for_))

    def qpeek(
        self,
        queue: str,
        *,
        count: int | None = None,
        offset: int | None = None,
        state: Literal["READY", "DELAYED", "LEASED"] | None = None,
    ) -> list[QueuedMessage]:
        """Shows messages in the order in which they will be handed out, fall due or expire; leases nothing.

        Args:
            queue: The name of the queue.
            count: The most messages to show.
            offset: How many to pass over.
            state: Which messages to show.

        Raises:
            QueueNotFoundError, InvalidNameError, InvalidRequestError, BrokerUnavailableError: see there.
        """
        return self._run_call(qpeek(queue, count=count, offset=offset, state=state))

    def qshow(self, queue: str, id: str) -> QueuedMessage | DeadLetter | None:
        """Shows a message by its id: the live one, else the latest dead one.

        Args:
            queue: The name of the queue.
            id: The id of a message.

        Raises:
            QueueNotFoundError, InvalidNameError, InvalidRequestError, BrokerUnavailableError: see there.
        """
        return self._run_call(qshow(queue, id))

    def qdel(self, queue: str, *ids: str) -> int:
        """Removes ready, delayed or leased messages by id; their leases are stale.

        Args:
            queue: The name of the queue.
            ids: The id of a message.

        Raises:
            QueueNotFoundError, InvalidNameError, InvalidRequestError, BrokerUnavailableError: see there.
        """
        return self._run_call(qdel(queue, *ids))


class AsyncMessageCommands(AsyncRunner):
    """Commands on messages, awaited."""

    async def qput(
        self,
        queue: str,
        body: Body,
        *,
        id: str | None = None,
        priority: int | None = None,
        delay: float | None = None,
        ttl: float | None = None,
        headers: Mapping[str, str] | None = None,
        attachments: Sequence[bytes] = (),
    ) -> PutResult:
        """Puts a message into a queue.

        Args:
            queue: The name of the queue.
            body: What is sent: `bytes`, a `str` or any other JSON value.
            id: The message's id; one is made if there is none, so that it can be sent again.
            priority: The lower number is delivered first.
            delay: How long until it is ready. Seconds.
            ttl: How long it may wait; can only shorten the queue's TTL. Seconds.
            headers: Names and values.
            attachments: Blobs beside the body.

        Raises:
            QueueNotFoundError, InvalidNameError, QueueFullError, TooBigError, OutOfMemoryError, InvalidRequestError,
                BrokerUnavailableError: see there.
        """
        return await self._run_call(
            qput(queue, body, id=id, priority=priority, delay=delay, ttl=ttl, headers=headers, attachments=attachments)
        )

    async def qmput(self, queue: str, *bodies: str | bytes) -> list[str]:
        """Puts several messages into a queue: all of them or, on an error, none.

        Args:
            queue: The name of the queue.
            bodies: What is sent: each a `str` or `bytes`; what is to be JSON goes by `qput`.

        Raises:
            QueueNotFoundError, InvalidNameError, QueueFullError, TooBigError, OutOfMemoryError, InvalidRequestError,
                BrokerUnavailableError: see there.
        """
        return await self._run_call(qmput(queue, *bodies))

    async def qlease(
        self,
        *queues: str,
        count: int | None = None,
        wait: float | None = None,
        lease: float | None = None,
        reqid: str | None = None,
    ) -> list[Delivery]:
        """Leases messages from the first of the queues that have any; waits for one if asked to.

        Args:
            queues: Names of queues, tried in this order.
            count: The most messages to lease.
            wait: Seconds to wait if nothing is ready; `math.inf` for ever, None not at all.
            lease: How long the leases last instead of ACKTIMEOUT. Seconds.
            reqid: A key under which it may be sent again without taking more; one is made if there is none.

        Raises:
            QueueNotFoundError, InvalidNameError, UnblockedError, InvalidRequestError, BrokerUnavailableError: see
                there.
        """
        return await self._run_call(qlease(*queues, count=count, wait=wait, lease=lease, reqid=reqid))

    async def qack(self, queue: str, *leases: str) -> int:
        """Settles leases as done; their messages are gone.

        Args:
            queue: The name of the queue.
            leases: The token from the delivery.

        Raises:
            QueueNotFoundError, InvalidNameError, InvalidRequestError, BrokerUnavailableError: see there.
        """
        return await self._run_call(qack(queue, *leases))

    async def qnack(
        self,
        queue: str,
        lease: str,
        *,
        mode: Literal["REJECT", "RELEASE"] | None = None,
        delay: float | None = None,
        error: str | None = None,
    ) -> bool:
        """Settles a lease as failed: the message is retried after the backoff, or dies after its last attempt.

        Args:
            queue: The name of the queue.
            lease: The token from the delivery.
            mode: REJECT: the message dies now. RELEASE: no failure, it returns to where it stood.
            delay: Wait this long instead of the backoff. Seconds.
            error: What went wrong; kept with a dead letter.

        Raises:
            QueueNotFoundError, InvalidNameError, TooBigError, InvalidRequestError, BrokerUnavailableError: see there.
        """
        return await self._run_call(qnack(queue, lease, mode=mode, delay=delay, error=error))

    async def qtouch(self, queue: str, *leases: str, for_: float | None = None) -> int:
        """Renews leases.

        Args:
            queue: The name of the queue.
            leases: The token from the delivery.
            for_: For how long from now, instead of ACKTIMEOUT. Seconds.

        Raises:
            QueueNotFoundError, InvalidNameError, InvalidRequestError, BrokerUnavailableError: see there.
        """
        return await self._run_call(qtouch(queue, *leases, for_=for_))

    async def qpeek(
        self,
        queue: str,
        *,
        count: int | None = None,
        offset: int | None = None,
        state: Literal["READY", "DELAYED", "LEASED"] | None = None,
    ) -> list[QueuedMessage]:
        """Shows messages in the order in which they will be handed out, fall due or expire; leases nothing.

        Args:
            queue: The name of the queue.
            count: The most messages to show.
            offset: How many to pass over.
            state: Which messages to show.

        Raises:
            QueueNotFoundError, InvalidNameError, InvalidRequestError, BrokerUnavailableError: see there.
        """
        return await self._run_call(qpeek(queue, count=count, offset=offset, state=state))

    async def qshow(self, queue: str, id: str) -> QueuedMessage | DeadLetter | None:
        """Shows a message by its id: the live one, else the latest dead one.

        Args:
            queue: The name of the queue.
            id: The id of a message.

        Raises:
            QueueNotFoundError, InvalidNameError, InvalidRequestError, BrokerUnavailableError: see there.
        """
        return await self._run_call(qshow(queue, id))

    async def qdel(self, queue: str, *ids: str) -> int:
        """Removes ready, delayed or leased messages by id; their leases are stale.

        Args:
            queue: The name of the queue.
            ids: The id of a message.

        Raises:
            QueueNotFoundError, InvalidNameError, InvalidRequestError, BrokerUnavailableError: see there.
        """
        return await self._run_call(qdel(queue, *ids))
