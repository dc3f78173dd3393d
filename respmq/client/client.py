"""The client: what it is made of, and how long each part lives."""

from __future__ import annotations

import contextlib
import logging
import ssl
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from typing import TYPE_CHECKING, Self, TypeVar

import trio

from respmq.api.bodies import text
from respmq.calls import decode, messages
from respmq.client.address import DEFAULT_HOST, DEFAULT_PORT, Address, parse_url
from respmq.client.connection import Connection, Pending
from respmq.client.consumer import Consumer, Handler
from respmq.client.greeting import greet
from respmq.client.line import ConnectionEvent, Line
from respmq.client.setup import Setup
from respmq.client.subscription import EventHandler, Subscription
from respmq.client.vocabulary import Vocabulary
from respmq.client.waits import Waits
from respmq.errors import BrokerError, BrokerUnavailableError, InvalidRequestError
from respmq.nursery import open_background

if TYPE_CHECKING:
    from types import TracebackType

    from respmq.calls.call import Call
    from respmq.client.wire import Push

T = TypeVar("T")

_LOG = logging.getLogger("respmq.client")

#: Seconds that a client that is closed takes to give back what nobody waits for any more.
_LAST_WORD = 2.0


class Client(Vocabulary):
    """A broker over the network, for `async with`.

    All calls go over one connection, each without waiting for those before it. When the connection breaks, it is made
    anew, and queues, bindings, exchanges, subscriptions and consumers of this client are set up again before it counts
    as ready. Meanwhile calls wait. What was on its way is sent again if that does no harm: reads, puts (they have ids),
    leases (they have REQIDs), acks and the like, declarations; other calls raise BrokerUnavailableError, and may have
    been run or not. Any call may be cancelled at any time.

    Beside the methods described here, it has every command under its own name: `qpeek`, `qshow`, `exchange_list`, ...

    Args:
        host: name or address of the broker, or a URL: `respmq://user:password@host:port`, `respmqs://...` for TLS,
            `respmq+unix:///path`.
        port: TCP port; not with a URL.
        username: who logs in; None for the default user.
        password: None to log in as nobody.
        tls: the context for a URL that begins with `respmqs://`.
        name: the name of the connection, shown by CLIENT LIST.
        timeout: seconds after which a call that has no answer raises BrokerUnavailableError.

    Raises:
        InvalidRequestError: not a possible URL.
    """

    def __init__(
        self,
        host: str = DEFAULT_HOST,
        port: int = DEFAULT_PORT,
        *,
        username: str | None = None,
        password: str | None = None,
        tls: ssl.SSLContext | None = None,
        name: str = "",
        timeout: float = 10.0,
    ) -> None:
        if "://" in host:
            self._address = parse_url(host, tls)
        elif tls is not None:
            msg = f"a TLS context is for URLs: respmqs://{host}:{port}"
            raise InvalidRequestError(msg)
        else:
            self._address = Address(host=host, port=port, username=username, password=password)
        self._name = name
        self._timeout = timeout
        self._setup = Setup()
        self._consumers: dict[Consumer, None] = {}
        #: In the order in which they were made; several may have the same pattern, which the server knows once.
        self._subscriptions: dict[bytes, list[Subscription]] = {}
        self._listeners: list[Callable[[ConnectionEvent], object]] = []
        self._stack = AsyncExitStack()
        self._line: Line | None = None
        self._waits: Waits | None = None
        self._closed = False

    # -- its life --------------------------------------------------------------------------------------------------

    async def __aenter__(self) -> Self:
        """Connect.

        Raises:
            BrokerUnavailableError: the broker can't be reached within `timeout`.
            WrongPasswordError, NoAuthError: the server doesn't let us in.
        """
        if self._line is not None:
            msg = "this client is or was open already: make another one"
            raise InvalidRequestError(msg)
        line = self._line = Line(
            self._address, self._timeout, greet=self._greet, on_push=self._take_push, on_event=self._tell
        )
        async with AsyncExitStack() as stack:
            nursery = await stack.enter_async_context(open_background())
            self._waits = Waits(line, self._name, nursery, self._give_back)
            nursery.start_soon(line.run)
            stack.callback(self._waits.close)
            stack.callback(line.close)
            stack.push_async_callback(self._settle)
            await line.wait_ready()
            self._stack = stack.pop_all()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> bool | None:
        self._closed = True
        return await self._stack.__aexit__(kind, error, traceback)

    async def _settle(self) -> None:
        """See that what was cancelled has been given back, as far as that takes no long time."""
        with trio.move_on_after(_LAST_WORD, shield=True):
            if self._waits is not None:
                await self._waits.settled()
            line = self._line
            if line is not None and line.connection is not None:
                # Its answer comes behind all others. Those may make us send more.
                for _ in range(2):
                    await _whatever(line.connection.start(b"PING").wait())

    @property
    def connected(self) -> bool:
        """Whether the broker can be reached now."""
        return self._line is not None and self._line.connection is not None

    def on_event(self, callback: Callable[[ConnectionEvent], object]) -> None:
        """Have a function called when the connection is there, is lost, and is there again.

        Args:
            callback: is given `connected`, `disconnected` or `reconnected`, and must not block.
        """
        self._listeners.append(callback)

    def _tell(self, event: ConnectionEvent) -> None:
        if event is ConnectionEvent.DISCONNECTED:
            for consumer in self._consumers:
                for delivery in consumer.detach():
                    # With a journal, the lease may have outlived the server.
                    self._release(delivery.queue, delivery.lease)
        for listener in self._listeners:
            try:
                listener(event)
            except Exception:  # noqa: BLE001 - the program's own, and no reason to give up the connection
                _LOG.exception("a callback of on_event failed on '%s'", event)

    # -- calls -----------------------------------------------------------------------------------------------------

    def _open(self) -> tuple[Line, Waits]:
        if self._line is None or self._waits is None or self._closed:
            msg = "the client is not open: use it within 'async with client:'"
            raise InvalidRequestError(msg)
        return self._line, self._waits

    async def _run_call(self, call: Call[T]) -> T:
        line, waits = self._open()
        if call.wait:
            return call.decode(await waits.lease(call), self)
        undo = self._give_back if call.words[0] == b"QLEASE" else None
        reply = await line.ask(Pending(call.words, resend=call.resend, undo=undo))
        self._setup.record(call.words)
        return call.decode(reply, self)

    def _give_back(self, reply: object) -> None:
        """Deliveries have come for somebody who is gone."""
        if not isinstance(reply, BrokerError):
            for delivery in decode.deliveries(reply, None):
                self._release(delivery.queue, delivery.lease)

    def _release(self, queue: str, lease: str) -> None:
        if self._line is not None:
            self._line.submit(Pending(messages.qnack(queue, lease, mode="RELEASE").words, resend=True))

    # -- consumers and subscriptions -------------------------------------------------------------------------------

    @asynccontextmanager
    async def consume(
        self, queue: str, *, prefetch: int = 10, handler: Handler | None = None
    ) -> AsyncGenerator[Consumer]:
        """Have the messages of a queue pushed, at most `prefetch` unsettled at a time.

        Without a handler, iterate: `async for delivery in consumer`. With one, up to `prefetch` of them run while the
        body does; when the handler returns, the delivery is acked, if it raises, it is nacked and the error logged.

        When the body is left, running handlers are cancelled. What nobody has begun is given back as if it had not
        been handed out, and what was taken from the iterator and not settled goes back as failed. So does all that was
        unsettled when a connection broke, and settling it later is stale.

        Args:
            queue: the queue.
            prefetch: the most unsettled deliveries.
            handler: async, or a plain function that doesn't block.

        Raises:
            QueueNotFoundError: no such queue, at the beginning or (from iterating, or in place of what the body does)
                when it is deleted.
        """
        line, _ = self._open()
        consumer = Consumer(queue, prefetch, self)
        self._consumers[consumer] = None
        try:
            if line.connection is not None:
                consumer.attach(line.connection)
            await self._wait_attached(consumer, "QCONSUME")
            if handler is None:
                yield consumer
            else:
                async with open_background() as nursery:
                    nursery.start_soon(consumer.watch)
                    for _ in range(prefetch):
                        nursery.start_soon(consumer.work, handler)
                    yield consumer
        finally:
            with trio.move_on_after(_LAST_WORD, shield=True):
                await _whatever(consumer.leave())
            del self._consumers[consumer]

    @asynccontextmanager
    async def subscribe(self, pattern: str, *, handler: EventHandler | None = None) -> AsyncGenerator[Subscription]:
        """Get the events whose topics match a pattern.

        Without a handler, iterate: `async for event in subscription`. With one, it is called for one event after the
        other while the body runs; if it raises, that is logged. Events that are published while the connection is down
        are missed: to miss none, bind a queue.

        Args:
            pattern: a topic in which a word may be `*` (any one word) or `#` (any number of words).
            handler: async, or a plain function that doesn't block.

        Raises:
            InvalidTopicError: not a possible pattern.
        """
        line, _ = self._open()
        subscription = Subscription(pattern)
        others = self._subscriptions.setdefault(subscription.key, [])
        others.append(subscription)
        try:
            if line.connection is not None:
                subscription.attach(line.connection)
            await self._wait_attached(subscription, "PSUBSCRIBE")
            if handler is None:
                yield subscription
            else:
                async with open_background() as nursery:
                    nursery.start_soon(subscription.work, handler)
                    yield subscription
        finally:
            subscription.close()
            others.remove(subscription)
            if not others:
                del self._subscriptions[subscription.key]
                if line.connection is not None:
                    line.connection.start(b"PUNSUBSCRIBE", subscription.key)

    async def _wait_attached(self, what: Consumer | Subscription, command: str) -> None:
        with trio.move_on_after(self._timeout):
            await what.wait_attached()
            return
        msg = f"no answer to {command} from the broker at {self._address} within {self._timeout:g} seconds"
        raise BrokerUnavailableError(msg)

    def _take_push(self, push: Push) -> None:
        match push.kind, push.items:
            case b"pmessage", [bytes() as pattern, bytes() as topic, bytes() as body]:
                for subscription in self._subscriptions.get(pattern, ()):
                    subscription.take(topic, body)
            case b"deliver", [tag, delivery]:
                for consumer in self._consumers:
                    if consumer.tag == tag:
                        consumer.deliver(delivery)
            case b"cancelled", [tag, bytes() as reason]:
                for consumer in self._consumers:
                    if consumer.tag == tag:
                        consumer.cancelled(text(reason))
            case _:
                _LOG.debug("an unknown push: %r", push.kind)

    # -- a new connection ------------------------------------------------------------------------------------------

    async def _greet(self, connection: Connection) -> None:
        """Make a new connection as the one before was."""
        await greet(connection, self._address, self._name)
        steps = [connection.start(*words) for words in self._setup.steps()]
        for step in steps:
            await self._set_up_again(step)
        while missing := [each for each in self._attached() if each.connection is not connection]:
            for pending in [each.attach(connection) for each in missing]:
                # An error is kept by the consumer itself, and ends it.
                await _whatever(pending.wait())

    def _attached(self) -> list[Consumer | Subscription]:
        """What lives on the connection."""
        subscriptions = [each for several in self._subscriptions.values() for each in several]
        return [*subscriptions, *(consumer for consumer in self._consumers if not consumer.ended)]

    async def _set_up_again(self, step: Pending) -> None:
        try:
            await step.wait()
        except BrokerUnavailableError:
            raise
        except BrokerError as error:
            # Somebody has declared it in another way meanwhile; who uses it will notice if that matters.
            shown = " ".join(text(word) for word in step.words)
            _LOG.warning("can't set up again what there was before the connection broke: %s: %s", shown, error)


async def _whatever(answer: Awaitable[object]) -> None:
    """Wait for an answer where it makes no difference whether it is an error."""
    with contextlib.suppress(BrokerError):
        await answer
