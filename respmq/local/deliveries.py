"""Deliveries to iterate over: the form of a consumer that is natural in Trio."""

from __future__ import annotations

from typing import TYPE_CHECKING, Self

import trio

if TYPE_CHECKING:
    from collections.abc import Callable
    from types import TracebackType

    from respmq.api.messages import Delivery
    from respmq.local.sinks import Feed


class Deliveries:
    """The deliveries of one consumer, from `Broker.deliveries`.

    `async for` gives one after the other, for as long as the consumer is there; it ends when the consumer is cancelled
    or the broker closed. Leaving `async with` ends the consumer: what was not asked for is given back as if it had not
    been handed out, and what was asked for and isn't settled goes back as failed. Without `async with`, that happens
    when the object is let go of, as after a `break`.
    """

    def __init__(self, tag: str, feed: Feed, end: Callable[[str], None]) -> None:
        #: The consumer's tag, for `Broker.cancel`.
        self.tag = tag
        self._feed = feed
        self._end = end
        self._token = trio.lowlevel.current_trio_token()
        self._closed = False

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> Delivery:
        delivery = await self._feed.next()
        if delivery is None:
            raise StopAsyncIteration
        return delivery

    def close(self) -> None:
        """End the consumer. Once it is ended, this does nothing."""
        if not self._closed:
            self._closed = True
            self._end(self.tag)

    def __del__(self) -> None:
        if self._closed:
            return
        end, tag = self._end, self.tag
        try:
            # Not here: the garbage collector comes in the middle of anything.
            self._token.run_sync_soon(end, tag)
        except trio.RunFinishedError:
            # The broker is gone, too.
            return
