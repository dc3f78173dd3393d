"""The event loop: one Trio task that waits for one poller, then serves all sockets that are ready in one pass.

A pass: time is moved on; sockets are read and their requests run (connections that were closed while they waited go
first, so that no message is handed to them); sessions that were answered meanwhile go on; then all answers are sent.
"""

from __future__ import annotations

import math
import socket
from typing import TYPE_CHECKING

import trio

from respmq.server.acceptor import Acceptor, SocketAddress, shown_address
from respmq.server.connection import FLOOD_SIZE, READ_SIZE, Connection
from respmq.server.heartbeat import Pulse, set_heartbeat
from respmq.server.poller import HANG_UP, READ, WRITE, make_poller
from respmq.server.safekeeping import Safekeeping
from respmq.server.session import Session

if TYPE_CHECKING:
    from collections.abc import Callable

    from respmq.server.client import Client
    from respmq.server.poller import Poller
    from respmq.server.state import State

#: How many passes are made in a row, while there is something to do, before Trio's other tasks get their turn.
_PASSES = 16

#: How long a connection that the server has closed waits for the client to read the end and close, in seconds.
_LINGER = 2.0

#: How long nothing falls due after a fault of ours in what did, in milliseconds.
_FAULT_PAUSE = 100

#: How many connections are looked after in one go before the loop gets its turn.
_TIDY_BATCH = 256


class Reactor:
    """Serves the connections of `listeners` until `stop` is called.

    Args:
        state: what the sessions share.
        listeners: sockets that listen already.
        clock: the broker's time in milliseconds.
        poller: which sockets are ready; None for the best that the platform has.
    """

    def __init__(
        self, state: State, listeners: list[socket.socket], clock: Callable[[], int], poller: Poller | None = None
    ) -> None:
        self.state = state
        self._clock = clock
        self._poller = make_poller() if poller is None else poller
        self._connections: dict[int, Connection] = {}
        self._acceptor = Acceptor(state, listeners, self._poller, self._connections, self._connect, self._report)
        self._by_session: dict[int, Connection] = {}
        self._touched: list[Connection] = []
        self._broken: list[Connection] = []
        self._stopping = self._hurry = False
        #: Whether what fell due last has met a fault of ours.
        self._faulty = False
        self._sleep = trio.CancelScope()
        self._safe = None if state.durable is None else Safekeeping(state, state.durable, self._write, self._send_held)
        state.disconnect = self.disconnect
        state.backlog = self.backlog
        self._acceptor.resume()

    # -- the loop --------------------------------------------------------------------------------------------------

    async def run(self) -> None:
        """Serve until the stop; then answer what has arrived, end all waits, and close everything."""
        try:
            passes = 0
            while not self._stopping:
                following = self._pass()
                if following <= 0:
                    # Trio's other tasks are few and can wait for some passes.
                    passes += 1
                    if passes >= _PASSES:
                        passes = 0
                        await trio.lowlevel.checkpoint()
                else:
                    passes = 0
                    self._sleep = trio.CancelScope(deadline=trio.current_time() + following)
                    with self._sleep:
                        await trio.lowlevel.wait_readable(self._poller)
            self._acceptor.close()
            await self._finish()
        finally:
            if self._safe is not None:
                # Before connections are closed: that is no end of what consumers have leased.
                self._safe.close()
            for connection in list(self._connections.values()):
                self._close(connection)
            self._poller.close()

    def stop(self, *, now: bool = False) -> None:
        """Let `run` end; `now` without waiting for clients to read their answers."""
        self._stopping = True
        self._hurry = now
        self._sleep.cancel()

    def _pass(self) -> float:
        """One pass; returns after how many seconds the next one is due, if no socket is ready before."""
        if self._safe is not None and self._safe.await_sync():
            # Before anything is done that others are told of: what is sent now is all that its clients are owed.
            self._safe.release()
            self._close_broken()
        following = self._tick()
        events = self._poller.ready()
        self._serve(events)
        self._flush()
        if events or (self.state.engine.unserved and not self._faulty):
            # The latter: consumers that have taken what they were sent stand in line again.
            return 0
        if self._acceptor.paused and not self._stopping:
            pause = self._acceptor.again - trio.current_time()
            if pause > 0:
                return pause if following is None else min(pause, (following - self._clock()) / 1000)
            self._acceptor.resume()
            return 0
        return math.inf if following is None else (following - self._clock()) / 1000

    def _tick(self) -> int | None:
        """Let time go on, or first read the journal for a while; returns when there is something to do next."""
        now = self._clock()
        if self._safe is not None and self._safe.loading:
            if self._safe.load() and self.state.durable is not None:
                self._poller.set(self.state.durable.fileno(), READ)
            return now
        self._faulty = False
        try:
            return self.state.tick(now)
        except Exception as error:  # noqa: BLE001 - a fault of ours must not end the server
            self._faulty = True
            self._report(error)
            # Not at once: it may be the same again.
            return now + _FAULT_PAUSE

    def _serve(self, events: list[tuple[int, int]]) -> None:
        """Read from the sockets that are ready, and see which of them can be written to."""
        connections = self._connections
        for fd, event in events:
            if event & HANG_UP:
                connection = connections.get(fd)
                if connection is not None and connection.session.blocked is not None:
                    self._close(connection)
        for fd, event in events:
            connection = connections.get(fd)
            if connection is None:
                if not self._acceptor.accept(fd) and self.state.durable is not None:
                    self.state.durable.finish()
                continue
            if event == READ:
                self._read(connection)
                continue
            if event & WRITE:
                self._touch(connection)
            if event != WRITE:
                self._read(connection)

    def _flush(self) -> None:
        """Let woken sessions go on and send all answers, until there is nothing left to do."""
        self._answer()
        while self._safe is not None:
            self._safe.commit(())
            self._safe.release()
            self._close_broken()
            if not (self._touched or self.state.woken):
                return
            self._answer()

    def _answer(self) -> None:
        woken = self.state.woken
        while woken or self._touched:
            while woken:
                connection = self._by_session.get(woken.popleft().id)
                if connection is not None:
                    self._resume(connection)
            touched, self._touched = self._touched, []
            if self._safe is not None:
                self._safe.commit(touched)
            for connection in touched:
                connection.touched = False
                session = connection.session
                # While events wait, the socket may take more: `interest` alone doesn't tell who is behind.
                behind = session.congested or session.stalled or connection.interest != READ
                if behind or connection.ended or session.closing:
                    self._write(connection)
                    continue
                data = session.take_out()
                if data:
                    self._send(connection, data)
                else:
                    # CLIENT REPLY may have taken answers away: they are as good as written.
                    session.handed.clear()
            self._close_broken()

    def _send(self, connection: Connection, data: bytes) -> None:
        """Send answers as `_write` does, to a client about which nothing is out of the ordinary: nearly always so."""
        session = connection.session
        try:
            try:
                sent = connection.send(data)
            except (BlockingIOError, InterruptedError):
                sent = 0
            self.state.output_bytes += sent
            if sent < len(data):
                connection.hold(data, sent)
            elif session.out_size:
                session.written()
            elif session.handed:
                session.handed.clear()
        except OSError:
            self._broken.append(connection)
        except Exception as error:  # noqa: BLE001 - as in _write
            self._fail(connection, error)

    def _send_held(self, connection: Connection, data: bytes) -> None:
        """Send answers that had to wait until what they tell of was safe."""
        session = connection.session
        behind = session.congested or session.stalled or connection.interest != READ or connection.backlog
        if behind or connection.ended or session.closing or session.out:
            connection.release(data)
            self._write(connection)
        else:
            self._send(connection, data)

    def _close_broken(self) -> None:
        """Close connections that couldn't be written to.

        Not before all others have been: what was delivered to them goes to others at once, whose answers of this pass
        are not to tell of that before it is safe.
        """
        while self._broken:
            self._close(self._broken.pop())

    def _touch(self, connection: Connection) -> None:
        if not connection.touched:
            connection.touched = True
            self._touched.append(connection)

    # -- reading and writing ---------------------------------------------------------------------------------------

    def _read(self, connection: Connection) -> None:
        try:
            data = connection.recv(connection.read_size)
        except (BlockingIOError, InterruptedError):
            return
        except OSError:
            self._close(connection)
            return
        session = connection.session
        if not data:
            if connection.linger_until is not None or session.blocked is not None:
                self._close(connection)
            else:
                connection.ended = True
                self._touch(connection)
            return
        if connection.linger_until is not None:
            # Only the end is waited for.
            return
        size = len(data)
        self.state.input_bytes += size
        if size >= READ_SIZE:
            connection.read_size = FLOOD_SIZE
        elif connection.read_size != READ_SIZE:
            connection.read_size = READ_SIZE
        try:
            session.receive(data)
        except Exception as error:  # noqa: BLE001 - a fault of ours must end this connection only
            self._fault(connection, error)
            return
        if session.out or session.closing:
            if not connection.touched:
                connection.touched = True
                self._touched.append(connection)
        elif session.blocked is not None:
            connection.set_interest()

    def _resume(self, connection: Connection) -> None:
        try:
            connection.session.resume()
        except Exception as error:  # noqa: BLE001 - as in _read
            self._fault(connection, error)
            return
        self._touch(connection)

    def _write(self, connection: Connection) -> None:
        try:
            self._write_out(connection)
        except OSError:
            self._broken.append(connection)
        except Exception as error:  # noqa: BLE001 - a fault of ours must end this connection only
            self._fail(connection, error)

    def _write_out(self, connection: Connection) -> None:
        session = connection.session
        if session.closed:
            return
        stalled = session.stalled
        self.state.output_bytes += connection.write()
        if connection.interest == READ and not (
            session.congested or session.stalled or session.closing or connection.ended or stalled
        ):
            return
        if not connection.backlog:
            if stalled and not session.stalled:
                # Requests that waited for the client to read.
                session.wake()
            if session.out:
                # Events that waited for it.
                self._touch(connection)
            elif not (stalled or connection.held) and (
                session.closing or (connection.ended and session.blocked is None)
            ):
                self._half_close(connection)
                return
        connection.set_interest()

    def _fault(self, connection: Connection, error: Exception) -> None:
        """Tell the client of a fault of ours, and close its connection."""
        session = connection.session
        self._report(error, client=session.address)
        session.out.append(b"-ERR internal error, the connection is closed; the server's log has the details\r\n")
        session.closing = True
        self._touch(connection)

    def _fail(self, connection: Connection, error: Exception) -> None:
        """Close a connection whose client can't be told of a fault of ours."""
        self._report(error, client=connection.session.address)
        self._broken.append(connection)

    def _report(self, error: Exception, **details: object) -> None:
        self.state.notice("internal error", level="error", **details, error=repr(error), exc_info=error)

    # -- the beginning and the end of connections ------------------------------------------------------------------

    def _connect(self, sock: socket.socket, address: SocketAddress) -> None:
        heartbeat = self.state.config.heartbeat
        if sock.family != socket.AF_UNIX:
            sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            set_heartbeat(sock, heartbeat)
        session = Session(self.state, shown_address(sock, address), shown_address(sock, sock.getsockname()))
        connection = Connection(sock, session, self._poller, Pulse(sock, heartbeat))
        self._connections[connection.fd] = connection
        self._by_session[session.id] = connection
        self.state.add(session)

    def disconnect(self, session: Client) -> None:
        """End a session's connection at once."""
        connection = self._by_session.get(session.id)
        if connection is not None:
            self._close(connection)

    def backlog(self, session: Client) -> int:
        """Bytes that wait for a session's client to read."""
        connection = self._by_session.get(session.id)
        return 0 if connection is None else connection.backlog

    def _half_close(self, connection: Connection) -> None:
        """Close our side only: closing a socket with unread bytes in it would take the last reply from the client."""
        connection.session.close()
        if connection.ended:
            self._close(connection)
            return
        connection.linger_until = trio.current_time() + _LINGER
        connection.sock.shutdown(socket.SHUT_WR)

    def _close(self, connection: Connection) -> None:
        if self._connections.get(connection.fd) is not connection:
            # It is closed; its descriptor may be another one's by now.
            return
        del self._connections[connection.fd]
        self._by_session.pop(connection.session.id, None)
        try:
            self._poller.forget(connection.fd)
            if self._safe is not None:
                self._safe.take_back(connection)
            connection.session.close()
        except Exception as error:  # noqa: BLE001 - as in _write
            self._report(error, client=connection.session.address)
        finally:
            connection.sock.close()

    # -- beside the loop -------------------------------------------------------------------------------------------

    async def tidy(self) -> None:
        """Every half second: close what is idle for too long, lingers, or whose peer has vanished."""
        while True:
            await trio.sleep(0.5)
            self.state.sample_calls()
            if self.state.durable is not None and not (self._safe and self._safe.loading):
                self.state.durable.every_second()
                for text in self.state.durable.take_warnings():
                    self.state.notice(text, level="warning")
                self._sleep.cancel()
            now = trio.current_time()
            timeout = self.state.config.timeout
            # The broker's own moment stands still while nothing happens.
            idle_since = self._clock() - timeout
            for count, connection in enumerate(list(self._connections.values()), 1):
                if count % _TIDY_BATCH == 0:
                    await trio.lowlevel.checkpoint()
                session = connection.session
                try:
                    if session.closed:
                        if connection.linger_until is not None and connection.linger_until <= now:
                            self._close(connection)
                    elif (timeout and session.last_active < idle_since and not session.listens) or connection.lost(now):
                        self._close(connection)
                        # What it had leased may be for another one now.
                        self._sleep.cancel()
                except Exception as error:  # noqa: BLE001 - as in _write
                    self._fail(connection, error)
                    self._close_broken()

    async def _finish(self) -> None:
        """After the stop: answer what has arrived, end all waits, and give clients time to read their answers."""
        self._pass()
        self.state.end_pause()
        while waits := [
            wait
            for connection in self._connections.values()
            if (wait := connection.session.blocked) is not None and wait.ends_at_stop
        ]:
            for wait in waits:
                wait.resolve([])
            # What was sent behind the waits runs now, and may wait in turn.
            self._flush()
        if self._safe is not None:
            # Before connections are closed: a stop is no end of what consumers have leased.
            self._safe.close()
        for connection in list(self._connections.values()):
            connection.session.request_close()
            self._touch(connection)
        self._flush()
        with trio.move_on_after(0 if self._hurry else self.state.config.shutdown_timeout / 1000):
            while any(connection.backlog for connection in self._connections.values()):
                await trio.lowlevel.wait_readable(self._poller)
                for fd, event in self._poller.ready():
                    ready = self._connections.get(fd)
                    if ready is not None and event & WRITE:
                        self._write(ready)
                    elif ready is not None:
                        self._read(ready)
                self._flush()
