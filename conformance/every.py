"""``--cut every``: the request stream of a vector, cut in two at every offset.

Only *pure* vectors can be run so: one connection, no clock, nothing that blocks, and no request that depends on
an earlier reply. Their requests are one stream of bytes; it is sent as two pieces (the server gets the time to
look at the first one alone), once for each place where it can be cut, and each time the replies must be right.
"""

import contextlib
from dataclasses import replace
from typing import Any

from conformance.connection import Broken, Closed, Connection, Control, TimedOut
from conformance.expect import Context
from conformance.model import Step, Vector
from conformance.play import (
    FAILED,
    PASSED,
    FreshNames,
    Mismatch,
    Result,
    Settings,
    compare,
    compare_exact,
    declared,
    expect_end,
    flatten,
    request,
)
from conformance.resp import BadReply, encode_command, show_bytes
from conformance.text import Clock, VectorError

MAX_STREAM = 800
_PING = encode_command([b"PING"])


def is_pure(vector: Vector) -> bool:
    """Whether a vector can be sent as one stream and cut anywhere."""
    if vector.needs or not vector.cut or vector.cleanup:
        return False
    names = FreshNames()
    size = 0
    for number, (step, round_) in enumerate(flatten(vector.steps)):
        names["i"] = b"%d" % round_
        opening_later = step.open is not None and (step.open != "bare" or number > 0)
        if step.on != "A" or step.advance is not None or step.blocked or step.close or opening_later:
            return False
        try:
            size += len(request(step, names))
        except VectorError:
            return False
        if size > MAX_STREAM:
            return False
    return size > 1


def cut_everywhere(vector: Vector, settings: Settings, control: Control) -> Result:
    """Run a pure vector once for every offset; the first failure ends it."""
    run = _Run(vector, settings, control)
    passed = Result(vector.file, vector.name, settings.protocol, settings.cut, PASSED)
    offset, size = 1, 2
    try:
        while offset < size:
            size = run.once(offset)
            offset += 1
    except Mismatch as mismatch:
        return run.failed(passed, offset, mismatch.expected, mismatch.got)
    except (TimedOut, Closed, BadReply, Broken, OSError) as error:
        return run.failed(passed, offset, run.expected or "a server that goes on", str(error))
    except VectorError as error:
        return run.failed(passed, offset, "a vector that follows the format", f"mistake in the vector: {error}")
    finally:
        run.close()
    return passed


class _Run:
    def __init__(self, vector: Vector, settings: Settings, control: Control) -> None:
        self._steps = list(flatten(vector.steps))
        self._settings = settings
        self._control = control
        self._clock = Clock(control.now_ms, 2 if control.virtual else 5000)
        self._connection: Connection | None = None
        self._bare = any(step.open == "bare" for step, _ in self._steps)
        self._reuse = all(_leaves_no_trace(step) for step, _ in self._steps)
        self._stream = b""
        self._at = 0
        self.expected = ""

    def once(self, offset: int) -> int:
        """Send the stream in two pieces and compare the replies; its size."""
        names = FreshNames()
        self._stream, queues = self._whole(names)
        try:
            self._send_and_compare(offset, names)
        finally:
            with contextlib.suppress(Broken):
                self._control.commands([("QDELETE", name) for name in sorted(queues)])
        return len(self._stream)

    def _send_and_compare(self, offset: int, names: FreshNames) -> None:
        connection = self._open()
        self._at = 0
        connection.send(self._stream[:offset])
        self._control.barrier()
        connection.send(self._stream[offset:])
        protocol = connection.protocol
        for step, round_ in self._steps:
            names["i"] = b"%d" % round_
            self._at = step.number
            protocol = step.protocol or protocol
            self._compare(step, connection, Context(protocol, names, self._clock))

    def _whole(self, names: FreshNames) -> tuple[bytes, set[bytes]]:
        parts: list[bytes] = []
        queues: set[bytes] = set()
        for step, round_ in self._steps:
            names["i"] = b"%d" % round_
            parts.append(request(step, names) + (_PING if step.quiet else b""))
            queues |= declared(step, names)
        return b"".join(parts), queues | set(names.queues())

    def _compare(self, step: Step, connection: Connection, context: Context) -> None:
        if self._settings.protocol in step.exact:
            self.expected = step.exact[self._settings.protocol].text
            compare_exact(b"".join(step.exact[self._settings.protocol].expand(context.names)), connection)
        expectations: list[Any] = step.replies.get(self._settings.protocol, [])
        for expected in [*expectations, *(["+PONG"] if step.quiet else [])]:
            self.expected = str(expected)
            compare(expected, connection, context)
        if step.closed:
            self.expected = "the connection to be closed"
            expect_end(connection, drain=step.drain)

    def _open(self) -> Connection:
        if self._connection and self._reuse:
            return self._connection
        self.close()
        self._connection = Connection(self._settings.address, self._settings.timeout)
        if self._settings.protocol == 3 and not self._bare:
            self._connection.send(encode_command([b"HELLO", b"3"]))
            self._connection.protocol = 3
            self._connection.read_reply()
        return self._connection

    def failed(self, passed: Result, offset: int, expected: str, got: str) -> Result:
        sent = f"{show_bytes(self._stream[:offset])} <cut at {offset}> {show_bytes(self._stream[offset:])}"
        return replace(passed, status=FAILED, step=str(self._at), sent=sent, expected=expected, got=got)

    def close(self) -> None:
        if self._connection:
            self._connection.close()
            self._connection = None


def _leaves_no_trace(step: Step) -> bool:
    """Whether the connection is, after this step, as it was: only queue commands, in whole."""
    queue_commands = all(
        command[0].text.upper().startswith("Q") and command[0].text.upper() != "QUIT" for command in step.commands
    )
    return queue_commands and step.raw is None and not step.closed and step.protocol is None and step.open is None
