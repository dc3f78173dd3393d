"""Calls a handler with one delivery and says what is to become of it."""

from __future__ import annotations

import base64
import contextlib
import inspect
import math
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import TypeAlias

import trio

from respmq.api.bodies import Body
from respmq.api.messages import Delivery, describe_error
from respmq.errors import BodyDecodeError
from respmq.worker.policy import HardFailure, SoftFailure

#: What is called with each message: an async function, or a plain one, which runs in a thread.
Handler: TypeAlias = Callable[[Delivery], Awaitable[Body] | Body]
#: Where results go: a `Publisher`, or any async function.
Publish: TypeAlias = Callable[[Body], Awaitable[object]]


@dataclass(frozen=True, slots=True)
class Done:
    """The handler has returned."""

    result: Body


@dataclass(frozen=True, slots=True)
class Failed:
    """The work can't be done now."""

    failure: SoftFailure


@dataclass(frozen=True, slots=True)
class Unpublished:
    """The work is done and its result can't be published: it is to be done again."""


@dataclass(frozen=True, slots=True)
class Dead:
    """The work can't be done at all. `error` is the text for the dead letter, `cause` what nobody has foreseen."""

    error: str
    cause: Exception | None = None


Verdict: TypeAlias = Done | Failed | Unpublished | Dead


class Threads:
    """Runs plain functions in threads.

    A thread can't be stopped. One whose handler has run out of time is left alone, until it ends by itself.

    Args:
        ended: called in the event loop when a thread has ended that was left alone.
    """

    def __init__(self, ended: Callable[[Delivery], None]) -> None:
        # The worker counts them: here none has to wait.
        self._limiter = trio.CapacityLimiter(math.inf)
        self._ended = ended
        self._running: set[str] = set()
        #: The leases whose threads still run though nobody waits for them.
        self.left_alone: set[str] = set()

    async def run(self, handler: Handler, delivery: Delivery) -> Awaitable[Body] | Body:
        """What the handler returns."""
        token = trio.lowlevel.current_trio_token()

        def work() -> tuple[Awaitable[Body] | Body]:
            try:
                # In a tuple: Trio takes a coroutine for a mistake.
                return (handler(delivery),)
            finally:
                # If the program has ended meanwhile, there is nobody to tell.
                with contextlib.suppress(trio.RunFinishedError):
                    token.run_sync_soon(self._end, delivery)

        await trio.lowlevel.checkpoint_if_cancelled()
        # From here on it is sure to begin.
        self._running.add(delivery.lease)
        try:
            (result,) = await trio.to_thread.run_sync(work, abandon_on_cancel=True, limiter=self._limiter)
        except trio.Cancelled:
            if delivery.lease in self._running:
                self.left_alone.add(delivery.lease)
            raise
        return result

    def _end(self, delivery: Delivery) -> None:
        self._running.discard(delivery.lease)
        if delivery.lease in self.left_alone:
            self.left_alone.discard(delivery.lease)
            self._ended(delivery)


def is_async(handler: Handler) -> bool:
    """Whether a handler is an async function, or an object with an async `__call__`."""
    return inspect.iscoroutinefunction(handler) or inspect.iscoroutinefunction(getattr(handler, "__call__", None))  # noqa: B004 - the method itself is looked at


async def judge(handler: Handler, delivery: Delivery, threads: Threads, patience: float) -> Verdict:
    """Call the handler, and say what comes of it.

    Args:
        handler: what is called.
        delivery: with what.
        threads: where plain functions run.
        patience: seconds after which the handler is cancelled, which is a soft failure.
    """
    try:
        # Decoded before, and kept: an undecodable body is no fault of the handler's.
        delivery.body  # noqa: B018 - asked for its effect
    except BodyDecodeError as error:
        return Dead(describe_error(error))
    try:
        with trio.move_on_after(patience):
            result = handler(delivery) if is_async(handler) else await threads.run(handler, delivery)
            return Done(await result if inspect.isawaitable(result) else result)
    except Exception as error:  # noqa: BLE001 - whatever a handler raises is its verdict
        return verdict_on(error)
    return Failed(SoftFailure(f"the handler has not returned within {patience:g} seconds"))


def verdict_on(error: Exception) -> Failed | Dead:
    """What an exception of a handler says. One that comes alone in a group, as out of a nursery, counts as itself."""
    error = _alone(error)
    if isinstance(error, SoftFailure):
        return Failed(error)
    return Dead(error.reason) if isinstance(error, HardFailure) else Dead(describe_error(error), error)


def _alone(error: Exception) -> Exception:
    if isinstance(error, ExceptionGroup):
        inside = error.exceptions
        if len(inside) == 1:
            return _alone(inside[0])
    return error


def hard_failure(delivery: Delivery, job_id: str, error: str) -> Body:
    """The envelope that tells of a message that has become a dead letter. Bytes stand as `{"base64": ...}`."""
    try:
        body = delivery.body
    except BodyDecodeError:
        body = delivery.raw
    data = {"base64": base64.b64encode(body).decode("ascii")} if isinstance(body, bytes) else body
    return {"type": "hard-failure", "data": data, "job_id": job_id, "origin": delivery.queue, "error": error}
