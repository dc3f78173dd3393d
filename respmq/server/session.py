"""A client's session: bytes in, bytes out, no I/O and no clock.

`receive` takes what arrived, runs the requests in it and leaves the answers in `out`. A command that has to wait leaves
a `Pending` in `blocked`; until that is answered nothing more is run, but bytes are still taken in. All decisions
whether a request may run now are in `_admit`, so that the usual request costs one look at `guarded`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from respmq.core.model import Message
from respmq.core.waiting import LeaseWait
from respmq.errors import BrokerError, InvalidRequestError, NoAuthError, ProtocolError
from respmq.pending import Pending
from respmq.resp.writer import encode_error
from respmq.server.client import Client
from respmq.server.stateless import Stateless
from respmq.server.transaction import QUEUED

if TYPE_CHECKING:
    from respmq.commands.spec import Spec
    from respmq.server.entries import Entry
    from respmq.server.state import State

#: Replies above this many bytes are counted one by one against the limit of unread replies.
_LARGE = 4096

#: What a RESP2 connection may do that has subscriptions or consumers.
_WHILE_SUBSCRIBED = frozenset(
    ("SUBSCRIBE", "PSUBSCRIBE", "SSUBSCRIBE", "UNSUBSCRIBE", "PUNSUBSCRIBE", "SUNSUBSCRIBE", "QCONSUME", "QCANCEL")
) | {"PING", "QUIT", "RESET"}


class Session(Client):
    """Runs the requests of one client."""

    __slots__ = ("_requests", "_watched")

    def __init__(self, server: State, address: str, local_address: str) -> None:
        super().__init__(server, address, local_address)
        #: What is left of the requests that were read last, the next one at the end.
        self._requests: list[list[bytes]] | None = None
        #: Whether the request that runs is to be shown to those who watch.
        self._watched = False

    # -- bytes in --------------------------------------------------------------------------------------------------

    def receive(self, data: bytes) -> None:
        """Take in what arrived and run what can be run."""
        self.last_active = self.server.now
        if self.blocked is None and self._requests is None and not self.stalled:
            self._take_up(data)
        else:
            self.reader.feed(data)

    def resume(self) -> None:
        """Go on with the requests that have arrived."""
        self._woken = False
        self._take_up(b"")

    def _take_up(self, data: bytes) -> None:
        """Run the requests that have arrived, `data` the latest, as far as they may run now."""
        reader = self.reader
        while self.blocked is None and not self.closing and not self.stalled:
            requests = self._requests
            if requests is None:
                try:
                    arrived = reader.read(data)
                except ProtocolError as error:
                    self.server.protocol_error(self, error)
                    self.leave()
                    self.out.append(encode_error(error))
                    return
                if not arrived:
                    return
                data = b""
                if len(arrived) == 1:
                    if self.congested:
                        self._requests = arrived
                        continue
                    if not self._run_alone(arrived[0]) and self._requests is None:
                        self._requests = []
                    elif not reader.more:
                        return
                    continue
                arrived.reverse()
                self._requests = requests = arrived
            answered = len(self.out)
            finished = self._run(requests)
            if self.congested:
                self._count_small_unread(answered)
            if finished:
                self._requests = None
                if not reader.more:
                    return

    def _run(self, requests: list[list[bytes]]) -> bool:
        """Run requests, the first one last in the list, and remove them.

        Returns True when all have been run, False when something has to happen before the next one.

        Plain calls of one command on one queue in a row, as pipelines have them, are gathered and run as one stretch.
        """
        find = self.server.entries.by_name.get
        running: Entry | None = None
        queue = b""
        stretch: list[list[bytes]] = []
        while requests:
            args = requests.pop()
            entry = find(args[0])
            if entry is not None and entry.plain_words == len(args) and not self.guarded:
                if entry is running and args[1] == queue:
                    stretch.append(args)
                    continue
                if running is not None and not self._run_stretch(running, queue, stretch):
                    requests.append(args)
                    requests.extend(reversed(stretch))
                    return False
                running = entry
                queue = args[1]
                stretch = [args]
                continue
            if running is not None:
                if not self._run_stretch(running, queue, stretch):
                    requests.append(args)
                    requests.extend(reversed(stretch))
                    return False
                running = None
            if not self._run_one(entry, args, requests):
                return False
        if running is not None and not self._run_stretch(running, queue, stretch):
            requests.extend(reversed(stretch))
            return False
        return True

    def _run_alone(self, args: list[bytes]) -> bool:
        """Run a request that came without others; False when something has to happen before the next one."""
        entry = self.server.entries.by_name.get(args[0])
        if entry is None or entry.plain_words != len(args) or self.guarded:
            return self._run_one(entry, args, [])
        began = self.server.timer()
        try:
            result = entry.plain_one(args[1]) if entry.plain_words == 2 else entry.plain_one(args[1], args[2])
            if entry.may_block and result:
                self.handed.append(result)
            reply = entry.encode2(result)
        except BrokerError as error:
            self.server.failed(entry, error)
            reply = encode_error(error)
        self.out.append(reply)
        entry.calls += 1
        entry.nanos += self.server.timer() - began
        self.last_entry = entry
        if self.engine.unserved:
            self.engine.serve()
        if len(reply) > _LARGE:
            self._count_unread(reply)
        return not self.stalled

    def _run_stretch(self, entry: Entry, queue: bytes, stretch: list[list[bytes]]) -> bool:
        """Run plain calls and remove them from `stretch`; False if the client has to read before the next one."""
        while stretch:
            began = self.server.timer()
            results = entry.plain_stretch(queue, [args[-1] for args in stretch])
            if results is None:
                return self._run_each(entry, stretch)
            if entry.may_block:
                self.handed.append(results)
            self._answer_plain(entry, entry.encode_stretch(results), len(results), began)
            del stretch[: len(results)]
            if self.stalled:
                return False
        return True

    def _answer_plain(self, entry: Entry, reply: bytes, count: int, began: int) -> None:
        """Answer `count` plain calls that began at `began`, and do what follows from them."""
        self.out.append(reply)
        entry.calls += count
        entry.nanos += self.server.timer() - began
        self.last_entry = entry
        if self.engine.unserved:
            self.engine.serve()
        if len(reply) > _LARGE:
            self._count_unread(reply)

    def _run_each(self, entry: Entry, stretch: list[list[bytes]]) -> bool:
        """Run plain calls one by one and remove them from `stretch`."""
        while stretch:
            args = stretch.pop(0)
            if not self._run_one(entry, args, []):
                return False
        return True

    def _run_one(self, entry: Entry | None, args: list[bytes], requests: list[list[bytes]]) -> bool:
        """Run a request that is not a plain call; False when something has to happen before the next one."""
        server = self.server
        out = self.out
        began = server.timer()
        try:
            if entry is None:
                entry = server.entries.find(args)
            if self.guarded:
                instead = self._admit(entry, args, requests)
                if instead is not None:
                    if instead:
                        out.append(self._mute(instead))
                    return bool(instead)
            result = entry.call(self, args)
            if isinstance(result, Pending):
                self._block(result, entry)  # pyright: ignore[reportUnknownArgumentType] - of what, its command knows
                server.count(entry, server.timer() - began)
                self._show(entry, args)
                return False
            if entry.may_block and result:
                self.handed.append(result)
            reply = entry.encode3(result) if self.resp3 else entry.encode2(result)
        except BrokerError as error:
            reply = encode_error(error)
            server.failed(entry, error)
            if entry is None:
                entry = server.unknown_entry
                if self.transaction is not None:
                    self.transaction.failed = True
        self.last_entry = entry
        took = server.timer() - began
        server.count(entry, took)
        if took >= server.slow_nanos:
            server.log_slow(self, entry, args, took)
        # Nothing may come between this and what CLIENT REPLY takes away: not a push, not the limit of unread replies.
        reply = self._mute(reply, keep=entry.pushes and not reply.startswith(b"-"))
        out.append(Stateless(reply) if entry.stateless else reply)
        self._show(entry, args)
        if self.engine.unserved:
            self.engine.serve()
        if len(reply) > _LARGE:
            self._count_unread(reply)
        return not (self.closing or self.stalled)

    def _count_unread(self, reply: bytes) -> None:
        """Count a large reply: with too many, the client has to read before it is served again."""
        self.out_size += len(reply)
        self.stalled = self.out_size > self.server.config.client_output_buffer_limit

    def _count_small_unread(self, answered: int) -> None:
        """Count the small replies behind the first `answered` ones, for a client that doesn't keep up with them."""
        replies = self.out[answered:]
        if not replies:
            return
        self.out_size += sum(size for size in map(len, replies) if size <= _LARGE)
        # Each by itself would take several times as much memory.
        self.out[answered:] = [b"".join(replies)]
        self.stalled = self.out_size > self.server.config.client_output_buffer_limit

    def _admit(self, entry: Entry, args: list[bytes], requests: list[list[bytes]]) -> bytes | None:
        """Whether a request of a guarded session may run now (None); empty if it has to wait, else the reply instead.

        Raises:
            BrokerError: it may not run.
        """
        if not self.authenticated and not entry.no_auth:
            entry.rejected += 1
            msg = "Authentication required."
            raise NoAuthError(msg)
        if self.subscribed and not self.resp3 and entry.spec.name not in _WHILE_SUBSCRIBED:
            entry.rejected += 1
            msg = (
                f"Can't execute '{entry.spec.name.lower().replace(' ', '|')}': only (P|S)SUBSCRIBE / "
                "(P|S)UNSUBSCRIBE / QCONSUME / QCANCEL / PING / QUIT / RESET are allowed in this context"
            )
            raise InvalidRequestError(msg)
        if self.server.loading is not None or self.server.stuck is not None:
            try:
                self.server.check_allowed(entry)
            except BrokerError:
                if self.transaction is not None:
                    self.transaction.failed = True
                raise
        transaction = self.transaction
        if transaction is not None and transaction.takes(entry):
            transaction.queue(entry, args)
            return QUEUED
        pause = self.server.pause
        if pause is not None and pause.holds(entry):
            requests.append(args)
            self._requests = requests
            self._block(pause.join(), None)
            return b""
        self._watched = bool(self.server.monitors)
        return None

    def _show(self, entry: Entry, args: list[bytes]) -> None:
        """Show a request that was run to those who watched when it began."""
        if self._watched:
            self._watched = False
            self.server.show_to_monitors(self, entry, args)

    def _mute(self, reply: bytes, *, keep: bool = False) -> bytes:
        """The reply, or nothing if CLIENT REPLY says so. `keep` is for one that is made of pushes."""
        if self.reply_mode == "on":
            return reply
        if self.reply_mode == "skip-next":
            # This was the reply to CLIENT REPLY SKIP itself.
            self.reply_mode = "skip"
        elif self.reply_mode == "skip":
            self.reply_mode = "on"
            self.refresh()
        return reply if keep else b""

    # -- waiting ---------------------------------------------------------------------------------------------------

    def _block(self, pending: Pending[Any], entry: Entry | None) -> None:
        """Wait; `entry` is the command that is owed a reply."""
        self.blocked = pending
        self.waiting_entry = entry
        pending.on_done = self._answered

    def _answered(self, answer: Any) -> None:
        """The wait is over."""
        self.blocked = None
        entry, self.waiting_entry = self.waiting_entry, None
        self.wake()
        if entry is None:
            # It waited for the end of a pause: the request runs now.
            return
        if isinstance(answer, BrokerError):
            reply = encode_error(answer)
        else:
            if answer:
                self.handed.append(answer)
            reply = entry.encode3(answer) if self.resp3 else entry.encode2(answer)
        self.out.append(self._mute(reply))

    def unblock(self, error: BrokerError | None) -> bool:
        """End the wait for a message, with nothing or with an error; False if there is none."""
        if not isinstance(self.blocked, LeaseWait):
            return False
        self.blocked.resolve([] if error is None else error)
        return True

    @property
    def listens(self) -> bool:
        """Whether it is for the server to say something next: such a client isn't idle, as in Redis."""
        return self.blocked is not None or self.monitoring or self.subscribed

    @property
    def waits(self) -> bool:
        """Whether a command waits for something."""
        return self.blocked is not None

    @property
    def command(self) -> Spec | None:
        """The command that waits, else the one that ran last."""
        entry = self.waiting_entry or self.last_entry
        return None if entry is None else entry.spec

    @property
    def unread(self) -> int:
        """Bytes that have arrived and were not run yet."""
        return self.reader.held

    def execute(self) -> bytes:
        """Run the transaction; returns the reply.

        Raises:
            ExecAbortError: one of its commands could not be queued, so none is run.
        """
        transaction = self.transaction
        self.discard()
        if transaction is None:
            msg = "EXEC without MULTI"
            raise InvalidRequestError(msg)
        self.may_wait = False
        try:
            return transaction.run(self)
        finally:
            self.may_wait = True
            if self.closed:
                # A command in it was shown to this client as a MONITOR that doesn't read.
                self._give_back()

    # -- the end ---------------------------------------------------------------------------------------------------

    def close(self) -> None:
        """The connection is gone: give up the wait, and give back what was delivered but not written."""
        if self.closed:
            return
        self.closed = self.closing = True
        if self.blocked is not None:
            self.blocked.cancel()
            self.blocked = None
        self.server.forget(self)
        if self._mailbox is not None:
            self._mailbox.end()
            self._mailbox = None
        self._give_back()

    def _give_back(self) -> None:
        """Let what was delivered but not written be as if it had not been."""
        leases = [_lease_of(delivery) for deliveries in self.handed for delivery in deliveries if delivery is not None]
        self.handed.clear()
        if leases:
            self.engine.undeliver(reversed(leases))


def _lease_of(delivery: Message | dict[str, Any]) -> tuple[bytes, bytes]:
    if isinstance(delivery, Message):
        return delivery.queue, delivery.lease or b""
    return delivery["queue"], delivery["lease"]
