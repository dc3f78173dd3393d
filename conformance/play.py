"""Playing one vector against a server: its steps in order, on as many connections as it names."""

import itertools
import os
import re
import time
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from conformance.connection import Broken, Closed, Connection, Control, TimedOut
from conformance.expect import Context, check
from conformance.model import Step, Vector, walk
from conformance.resp import BadReply, encode_command, show, show_bytes
from conformance.text import Clock, VectorError, encode

PASSED, FAILED, SKIPPED = "passed", "failed", "needs --virtual-clock"
_RUN = f"v{os.urandom(4).hex()}"
_COUNTER = itertools.count(1)


@dataclass(frozen=True)
class Settings:
    """How vectors are run."""

    address: tuple[str, int]
    protocol: int
    cut: str = "whole"
    timeout: float = 5.0


@dataclass(frozen=True)
class Result:
    """What came of one vector (or of one stage with a stock client)."""

    file: str
    name: str
    protocol: int
    cut: str
    status: str
    step: str = ""
    sent: str = ""
    expected: str = ""
    got: str = ""


class Mismatch(Exception):
    """The server did something else than the vector says."""

    def __init__(self, expected: str, got: str) -> None:
        super().__init__(got)
        self.expected = expected
        self.got = got


class FreshNames(dict[str, bytes]):
    """Values of placeholders; ``q``, ``q1``, ... are made up on first use, 16 characters each, never the same."""

    def __missing__(self, name: str) -> bytes:
        if not re.fullmatch(r"q\d*", name):
            raise KeyError(name)
        self[name] = b"%s%07d" % (_RUN.encode(), next(_COUNTER))
        return self[name]

    def queues(self) -> list[bytes]:
        """The names made up so far."""
        return [value for name, value in self.items() if re.fullmatch(r"q\d*", name)]


def play(vector: Vector, settings: Settings, control: Control) -> Result:
    """Run a vector once and say how it went. Never raises for what a server or a vector does wrong."""
    if "virtual-clock" in vector.needs and not control.virtual:
        return Result(vector.file, vector.name, settings.protocol, settings.cut, SKIPPED)
    player = _Player(vector, settings, control)
    try:
        player.run(vector.steps, "")
    except Mismatch as mismatch:
        return player.result(FAILED, mismatch.expected, mismatch.got)
    except (TimedOut, Closed, BadReply) as error:
        return player.result(FAILED, player.expected, str(error))
    except Broken as error:
        return player.result(FAILED, player.expected or "a server that goes on", str(error))
    except VectorError as error:
        return player.result(FAILED, "a vector that follows the format", f"mistake in the vector: {error}")
    except OSError as error:
        return player.result(FAILED, "a connection", f"{error}")
    finally:
        player.finish()
    return player.result(PASSED)


def request(step: Step, names: FreshNames) -> bytes:
    """The bytes that a step sends."""
    if step.raw is not None:
        return b"".join(step.raw.expand(names))
    return b"".join(
        encode_command([data for argument in command for data in argument.expand(names)]) for command in step.commands
    )


def declared(step: Step, names: FreshNames) -> set[bytes]:
    """The names that a step declares queues by: besides the made-up ones, what is to be deleted afterwards."""
    found: set[bytes] = set()
    for command in step.commands:
        words = [data for argument in command[:2] for data in argument.expand(names)]
        if words[0].upper() == b"QDECLARE" and len(words) > 1:
            found.add(words[1])
    return found


def compare(expected: object, connection: Connection, context: Context) -> None:
    """Read one reply and compare it."""
    reply = connection.read_reply()
    wrong = check(expected, reply, context)
    if wrong:
        detail = "" if wrong.startswith("expected") and show(reply) in wrong else f" ({wrong})"
        raise Mismatch(expectation_text(expected), show(reply) + detail)


def compare_exact(expected: bytes, connection: Connection) -> None:
    """Read as many bytes as are expected and compare them."""
    got = connection.read_bytes(len(expected))
    if got != expected:
        raise Mismatch(show_bytes(expected), show_bytes(got) or connection.ended or "nothing")


def expect_end(connection: Connection, *, drain: bool) -> None:
    """Wait for the end of the stream; unless ``drain``, nothing may come before it."""
    rest = connection.read_end()
    if rest and not drain:
        raise Mismatch("the connection to be closed, with nothing more", show_bytes(rest))


def expectation_text(expected: object) -> str:
    """An expectation as the vector has it, short enough to print."""
    text = str(expected)
    return text if len(text) <= 600 else text[:600] + "..."


class _Player:
    """The state of one run of one vector."""

    def __init__(self, vector: Vector, settings: Settings, control: Control) -> None:
        self._vector = vector
        self._settings = settings
        self._control = control
        self._names = FreshNames()
        self._connections: dict[str, Connection] = {}
        self._queues: set[bytes] = set()
        self._clock = Clock(control.now_ms, 2 if control.virtual else 5000)
        self._watched = any(step.blocked or step.close for step in walk(vector.steps))
        self._step = ""
        self._sent = ""
        self.expected = ""

    def result(self, status: str, expected: str = "", got: str = "") -> Result:
        failed = status == FAILED
        return Result(
            self._vector.file,
            self._vector.name,
            self._settings.protocol,
            self._settings.cut,
            status,
            self._step if failed else "",
            self._sent if failed else "",
            expected,
            got,
        )

    def run(self, steps: tuple[Step, ...], prefix: str) -> None:
        for step in steps:
            if step.repeat:
                for round_ in range(1, step.repeat + 1):
                    self._names["i"] = b"%d" % round_
                    self.run(step.steps, f"{prefix}{step.number}[{round_}].")
            else:
                self._step = f"{prefix}{step.number}"
                self._do(step)

    def finish(self) -> None:
        """Close everything, undo what the vector says to undo, delete its queues."""
        for connection in self._connections.values():
            connection.close()
        try:
            undo = [self._words(command) for step in self._vector.cleanup for command in step.commands]
            names = self._queues | set(self._names.queues())
            self._control.commands([*undo, *(("QDELETE", name) for name in sorted(names))])
        except (Broken, VectorError):
            pass

    def _words(self, command: tuple[Any, ...]) -> tuple[bytes, ...]:
        return tuple(data for argument in command for data in argument.expand(self._names))

    def _do(self, step: Step) -> None:
        self._sent, self.expected = "", ""
        if step.advance is not None:
            self._sent = f"DEBUG ADVANCE {step.advance} (control connection)"
            self._control.advance(step.advance)
            return
        connection = self._connection(encode(step.on, self._names).decode(), step.open)
        self._step += f" on {encode(step.on, self._names).decode()}"
        if step.sends:
            self._send(step, connection)
        if step.close:
            self._close(connection, step.close)
        if step.protocol:
            connection.protocol = step.protocol
        if step.sends and not step.expects:
            self._control.barrier()
        self._check(step, connection)

    def _connection(self, name: str, opening: str | None) -> Connection:
        known = self._connections.get(name)
        if known and not opening:
            return known
        if known:
            known.close()
        connection = Connection(self._settings.address, self._settings.timeout)
        self._connections[name] = connection
        opening = opening or str(self._settings.protocol)
        if opening == "3":
            connection.send(encode_command([b"HELLO", b"3"]))
            reply = connection.read_reply()
            if reply.kind != "%":
                raise Mismatch("a map in reply to HELLO 3", show(reply))
            connection.protocol = 3
        if self._watched and opening != "bare":
            connection.send(encode_command([b"CLIENT", b"ID"]))
            reply = connection.read_reply()
            if reply.kind != ":":
                raise Mismatch("an integer in reply to CLIENT ID", show(reply))
            connection.client_id = reply.value
        return connection

    def _send(self, step: Step, connection: Connection) -> None:
        data = request(step, self._names)
        self._queues |= declared(step, self._names)
        shown = [" ".join(show_bytes(word, 80) for word in self._words(command[:40])) for command in step.commands]
        self._sent = show_bytes(data) if step.raw is not None else " | ".join(shown)[:600]
        connection.send(data, bytewise=self._settings.cut == "bytes" and self._vector.cut)

    def _close(self, connection: Connection, how: str) -> None:
        """Close our end and wait until the server has noticed."""
        connection.close(how)
        if connection.client_id is None:
            self._control.barrier()
            return
        deadline = time.monotonic() + self._settings.timeout
        while self._control.client(connection.client_id) is not None:
            if time.monotonic() > deadline:
                raise Mismatch("CLIENT LIST to forget a client that has left", "it is still listed")
            time.sleep(0.002)

    def _check(self, step: Step, connection: Connection) -> None:
        protocol = self._settings.protocol
        context = Context(connection.protocol, self._names, self._clock)
        if protocol in step.exact:
            self.expected = step.exact[protocol].text
            compare_exact(b"".join(step.exact[protocol].expand(self._names)), connection)
        for expected in step.replies.get(protocol, []):
            self.expected = expectation_text(expected)
            compare(expected, connection, context)
        if step.blocked:
            self.expected = "no reply yet, and the flag b in CLIENT LIST"
            self._check_blocked(connection)
        if step.quiet:
            self.expected = "nothing before the reply to a PING"
            connection.send(encode_command([b"PING"]))
            compare("+PONG", connection, context)
        if step.closed:
            self.expected = "the connection to be closed"
            expect_end(connection, drain=step.drain)

    def _check_blocked(self, connection: Connection) -> None:
        if connection.client_id is None:
            raise VectorError("'blocked' on a connection that was opened bare")
        deadline = time.monotonic() + self._settings.timeout
        while True:
            fields = self._control.client(connection.client_id)
            arrived = connection.poll()
            if arrived or fields is None:
                raise Mismatch("to be blocked, with no reply", show_bytes(arrived) or "disconnected")
            if "b" in fields.get("flags", ""):
                return
            if time.monotonic() > deadline:
                raise Mismatch(self.expected, f"no reply, but CLIENT LIST says flags={fields.get('flags')}")
            time.sleep(0.002)


def flatten(steps: tuple[Step, ...], round_: int = 0) -> Iterator[tuple[Step, int]]:
    """All steps as they are done, groups unrolled, each with the number of its round."""
    for step in steps:
        if step.repeat:
            for at in range(1, step.repeat + 1):
                yield from flatten(step.steps, at)
        else:
            yield step, round_
