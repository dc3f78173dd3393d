"""The load: connections that repeat the cycle put, lease, ack for as long as a measurement lasts.

What happens here for every cycle is the client's share of the result, so it is little: requests are made beforehand,
replies are read by hiredis, and nothing else is done between them.
"""

from __future__ import annotations

import selectors
import socket
import time
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final, Self, cast

import hiredis

from respmq.bench.control import PATIENCE, BenchError

if TYPE_CHECKING:
    from types import TracebackType

    from respmq.bench.control import Address
    from respmq.bench.targets import Plan

#: How long the load runs before it is measured, as a part of the time that it is measured.
WARM_UP: Final = 0.25

_PUT, _LEASE, _ACK = range(3)
_NOT_ALL: Final = object()
_SCHEDSTAT: Final = Path("/proc/self/schedstat")

#: How much is read at once: more than fits the allocator's arenas is slower, by far.
_PIECE: Final = 1 << 15


@dataclass(frozen=True, slots=True)
class Measurement:
    """What one target did in one stretch of time.

    Args:
        cycles: how many cycles were completed.
        rate: jobs a second that were put, leased and acked.
        p50: the median time of a cycle, in seconds.
        p99: the time that one in a hundred cycles exceeded.
        busy: the part of the time for which this process used a processor.
        waited: the part of the time for which it was ready to, but others had them all; 0 if the system doesn't tell.
    """

    cycles: int
    rate: float
    p50: float
    p99: float
    busy: float
    waited: float


class _Connection:
    """A socket, and how far it is in its cycle."""

    __slots__ = ("reader", "replies", "sock", "started", "step", "unsent", "wanted")

    def __init__(self, sock: socket.socket, errors: list[str]) -> None:
        def note(text: str) -> Exception:
            errors.append(text)
            return hiredis.ReplyError(text)

        self.sock = sock
        self.reader = hiredis.Reader(replyError=note, notEnoughData=_NOT_ALL)
        self.step = _PUT
        self.wanted = 0
        self.replies: list[object] = []
        self.unsent = b""
        self.started = 0.0


def _waited() -> float:
    """For how many seconds this process was ready to run and didn't, which Linux counts."""
    try:
        return int(_SCHEDSTAT.read_bytes().split()[1]) / 1e9
    except (OSError, ValueError, IndexError):
        return 0.0


class Load:
    """So many connections to one server, each in its own cycle. Closing it waits until the server is done with them."""

    def __init__(self, address: Address, plan: Plan, connections: int) -> None:
        self._plan = plan
        #: What error replies say: hiredis puts it here, so that not every reply has to be looked at.
        self._errors: list[str] = []
        #: How long each cycle took that was completed since `measure` began.
        self._times: list[float] = []
        self._selector = selectors.DefaultSelector()
        self._connections: list[_Connection] = []
        try:
            for _ in range(connections):
                connection = _Connection(address.connect(), self._errors)
                self._connections.append(connection)
                connection.sock.setblocking(False)
                self._selector.register(connection.sock, selectors.EVENT_READ, connection)
        except BaseException:
            self.close()
            raise

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, tb: TracebackType | None) -> None:
        self.close()

    def measure(self, seconds: float) -> Measurement:
        """Run the load for a while, then for so many seconds in which it is measured.

        Raises:
            BenchError: the server answered with an error or nothing, closed a connection, or lost jobs.
        """
        for connection in self._connections:
            self._begin(connection)
        self._run(seconds * WARM_UP)
        self._times.clear()
        began, used, waited = time.perf_counter(), time.process_time(), _waited()
        self._run(seconds)
        lasted, used, waited = time.perf_counter() - began, time.process_time() - used, _waited() - waited
        times = sorted(self._times)
        return Measurement(
            cycles=len(times),
            rate=len(times) * self._plan.jobs / lasted,
            p50=times[len(times) // 2],
            p99=times[len(times) * 99 // 100],
            busy=used / lasted,
            waited=waited / lasted,
        )

    def close(self) -> None:
        """Send nothing more, and wait until the server has done all that was sent.

        Else it might come to what stands in its buffers when the queue has been removed, and make it anew.
        """
        self._selector.close()
        deadline = time.monotonic() + PATIENCE
        for connection in self._connections:
            with suppress(OSError):
                connection.sock.shutdown(socket.SHUT_WR)
        for connection in self._connections:
            with suppress(OSError):
                while (left := deadline - time.monotonic()) > 0:
                    connection.sock.settimeout(left)
                    if not connection.sock.recv(_PIECE):
                        break
            connection.sock.close()
        self._connections.clear()

    # -- The loop ------------------------------------------------------------------------------------------------------

    def _run(self, seconds: float) -> None:
        """Go on for so many seconds, and until there was one cycle."""
        clock = time.perf_counter
        end = clock() + seconds
        times = self._times
        while (left := end - clock()) > 0 or not times:
            if left < -PATIENCE:
                raise BenchError(f"there was no cycle within {seconds + PATIENCE:g} seconds")
            for key, events in self._selector.select(max(left, 0.01)):
                connection = cast("_Connection", key.data)
                if events & selectors.EVENT_WRITE:
                    self._send(connection, connection.unsent)
                if events & selectors.EVENT_READ:
                    self._receive(connection)

    def _receive(self, connection: _Connection) -> None:
        """Read what has come; go on to the next step, if that was all of this one."""
        try:
            data = connection.sock.recv(_PIECE)
        except BlockingIOError:
            return
        except OSError as error:
            raise BenchError(f"the connection broke: {error.strerror or error}") from None
        if not data:
            raise BenchError("the server closed a connection" + "".join(f": {text}" for text in self._errors[:1]))
        reader = connection.reader
        replies = connection.replies
        wanted = connection.wanted
        reader.feed(data)
        try:
            while len(replies) < wanted and (reply := cast("object", reader.gets())) is not _NOT_ALL:
                replies.append(reply)
        except hiredis.ProtocolError as error:
            raise BenchError(f"it does not speak the Redis protocol: {error}") from None
        if self._errors:
            raise BenchError(self._errors[0])
        if len(replies) == wanted:
            self._go_on(connection)

    def _go_on(self, connection: _Connection) -> None:
        plan = self._plan
        if connection.step == _PUT:
            connection.step = _LEASE
            connection.wanted = plan.lease_replies
            request = plan.lease
        elif connection.step == _LEASE:
            try:
                tokens = plan.tokens(connection.replies)
            except (TypeError, ValueError, IndexError, KeyError):
                raise BenchError(f"a lease was answered with {connection.replies!r:.100}") from None
            # Each connection leases as many as it has put, after it has put them: there are always enough.
            if len(tokens) != plan.jobs:
                raise BenchError(f"a lease brought {len(tokens)} jobs, {plan.jobs} were there")
            connection.step = _ACK
            connection.wanted = plan.ack_replies
            request = plan.ack(tokens)
        else:
            try:
                acked = plan.acked(connection.replies)
            except TypeError:
                raise BenchError(f"an ack was answered with {connection.replies!r:.100}") from None
            if acked != plan.jobs:
                raise BenchError(f"{acked} of {plan.jobs} jobs were acked")
            self._times.append(time.perf_counter() - connection.started)
            self._begin(connection)
            return
        connection.replies.clear()
        self._send(connection, request)

    def _begin(self, connection: _Connection) -> None:
        """Put the next jobs."""
        connection.step = _PUT
        connection.wanted = self._plan.put_replies
        connection.replies.clear()
        connection.started = time.perf_counter()
        self._send(connection, self._plan.put)

    def _send(self, connection: _Connection, data: bytes) -> None:
        """Send what the socket takes, and the rest when it takes more."""
        try:
            sent = connection.sock.send(data)
        except BlockingIOError:
            sent = 0
        except OSError as error:
            raise BenchError(f"the connection broke: {error.strerror or error}") from None
        # Mostly all of it is sent and nothing was left over.
        if sent == len(data) and not connection.unsent:
            return
        connection.unsent = data[sent:]
        events = selectors.EVENT_READ | (selectors.EVENT_WRITE if connection.unsent else 0)
        self._selector.modify(connection.sock, events, connection)
