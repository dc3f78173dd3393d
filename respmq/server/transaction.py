"""MULTI and EXEC: commands that are kept and then run as one step, which nobody sees the middle of."""

from __future__ import annotations

from typing import TYPE_CHECKING

from respmq.errors import BrokerError, ExecAbortError, InvalidRequestError
from respmq.resp.writer import encode_error
from respmq.server.stateless import Stateless

if TYPE_CHECKING:
    from respmq.server.entries import Entry
    from respmq.server.session import Session

QUEUED = Stateless(b"+QUEUED\r\n")

#: Groups of commands whose whole grammar is checked when they are queued. Of the others, which Redis has too, only the
#: number of words is, as in Redis.
_CHECKED = frozenset({"queue", "message", "dead letter", "consumer", "topic", "exchange"})

#: About how many bytes of memory a word takes beside its own.
_WORD_COST = 64

#: What runs at once though a transaction is open.
_AT_ONCE = frozenset({"EXEC", "DISCARD", "MULTI", "WATCH", "QUIT", "RESET"})


class Transaction:
    """The commands between MULTI and EXEC, in all not above `most` bytes, as if they were one."""

    def __init__(self, most: int) -> None:
        self._commands: list[tuple[Entry, list[bytes]]] = []
        self._most = most
        self._size = 0
        #: Whether a command could not be queued: EXEC runs nothing then.
        self.failed = False

    def __len__(self) -> int:
        return len(self._commands)

    def takes(self, entry: Entry) -> bool:
        """Whether a command is kept and not run at once."""
        return entry.spec.name not in _AT_ONCE

    def queue(self, entry: Entry, args: list[bytes]) -> None:
        """Keep a command.

        Raises:
            BrokerError: it is wrong, can't be part of a transaction, or makes this one too large.
        """
        spec = entry.spec
        try:
            if "no_multi" in spec.flags:
                msg = f"Command not allowed inside a transaction: {spec.name}, send it before MULTI or after EXEC"
                raise InvalidRequestError(msg)
            if spec.group in _CHECKED:
                spec.grammar.parse(args)
            elif len(args) < abs(spec.grammar.arity) or (spec.grammar.arity > 0 and len(args) > spec.grammar.arity):
                raise spec.grammar.wrong_arity()
            self._size += sum(map(len, args)) + _WORD_COST * len(args)
            if self._size > self._most and not self.failed:
                self._commands.clear()
                msg = f"the transaction is above {self._most} bytes (client-query-buffer-limit), it can't be run"
                raise InvalidRequestError(msg)
        except BrokerError:
            self.failed = True
            raise
        if not self.failed:
            # As in Redis: nothing is kept of what won't run.
            self._commands.append((entry, args))

    def run(self, session: Session) -> bytes:
        """Run the commands, and return the array of their replies. A command that fails doesn't stop the others.

        Raises:
            ExecAbortError: a command could not be queued.
        """
        if self.failed:
            msg = "Transaction discarded because of previous errors."
            raise ExecAbortError(msg)
        replies = [b"*%d\r\n" % len(self._commands)]
        for entry, args in self._commands:
            entry.calls += 1
            try:
                if session.server.stuck is not None:
                    session.server.check_allowed(entry)
                result = entry.call(session, args)
                if entry.may_block and result:
                    session.handed.append(result)
                replies.append(entry.encode3(result) if session.resp3 else entry.encode2(result))
            except BrokerError as error:
                session.server.failed(entry, error)
                replies.append(encode_error(error))
            if session.server.monitors:
                session.server.show_to_monitors(session, entry, args)
        return b"".join(replies)
