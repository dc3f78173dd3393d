"""A server without sockets: sessions that take bytes and give bytes, a clock and a timer that tests move."""

import os
import random
from dataclasses import dataclass
from typing import Any

from respmq.commands.context import Context, ServerView
from respmq.commands.registry import load
from respmq.config import Config, read_setting
from respmq.engine.memory import MemoryEngine
from respmq.server.client import Client
from respmq.server.notice import Level
from respmq.server.session import Session
from respmq.server.state import State

START = 1_700_000_000_000  # the broker's time at the start, milliseconds

Word = bytes | str | int


def encode(*words: Word) -> bytes:
    """A command as clients send it."""
    encoded = [word if isinstance(word, bytes) else str(word).encode() for word in words]
    return b"*%d\r\n" % len(words) + b"".join(b"$%d\r\n%b\r\n" % (len(word), word) for word in encoded)


def verbatim(reply: bytes) -> str:
    """The text of a reply that is a bulk string in RESP2 or a verbatim string in RESP3, and nothing else."""
    head, _, rest = reply.partition(b"\r\n")
    assert len(rest) == int(head[1:]) + 2, reply
    text = rest[:-2].decode()
    if head[:1] == b"$":
        return text
    assert head[:1] == b"=", reply
    assert text.startswith("txt:"), reply
    return text.removeprefix("txt:")


@dataclass(frozen=True)
class Line:
    """A line of the log."""

    event: str
    level: Level
    details: dict[str, object]


class Rig:
    """One server; `settings` by their names, `max_message_size="1kb"`."""

    def __init__(self, **settings: str) -> None:
        values: dict[str, Any] = dict(
            read_setting(name.replace("_", "-"), value, "the test") for name, value in settings.items()
        )
        self.log: list[Line] = []
        #: Nanoseconds that each look at the timer takes.
        self.step = 1_000
        self._nanos = 0
        self.stops: list[tuple[str, bool]] = []
        self.state = State(
            Config(**values), MemoryEngine(START, os.urandom, random.uniform), load(), self._timer, self._notice
        )
        self.state.request_stop = lambda reason, now: self.stops.append((reason, now))
        self.state.disconnect = self._disconnect
        self._sessions: dict[int, Session] = {}
        self._ports = iter(range(50_001, 60_000))

    @property
    def view(self) -> ServerView:
        """The server as commands see it."""
        return self.state

    def connect(self, *, resp: int = 2, address: str | None = None) -> "Talker":
        """A new client."""
        session = Session(self.state, address or f"127.0.0.1:{next(self._ports)}", "127.0.0.1:6390")
        self.state.add(session)
        self._sessions[session.id] = session
        talker = Talker(self, session)
        if resp == 3:
            talker.cmd("HELLO", 3)
        return talker

    def forget(self, talker: "Talker") -> None:
        """Close a client's connection and keep nothing of it."""
        session = self._sessions.pop(talker.session.id)
        session.close()

    def pass_nanos(self, nanos: int) -> None:
        """Let the timer go on."""
        self._nanos += nanos

    def advance(self, millis: int) -> None:
        """Let time pass."""
        self.state.tick(self.state.engine.now + millis)
        self.settle()

    def settle(self) -> None:
        """Let sessions go on that have been answered meanwhile."""
        while self.state.woken:
            session = self._sessions[self.state.woken.popleft().id]
            if not session.closed:
                session.resume()

    def _timer(self) -> int:
        self._nanos += self.step
        return self._nanos

    def _notice(self, event: str, *, level: Level = "info", **details: object) -> None:
        self.log.append(Line(event, level, details))

    def _disconnect(self, client: Client) -> None:
        self._sessions[client.id].close()


class Talker:
    """A client of a `Rig`."""

    def __init__(self, rig: Rig, session: Session) -> None:
        self._rig = rig
        self.session = session

    @property
    def context(self) -> Context:
        """The connection as commands see it."""
        return self.session

    @property
    def address(self) -> str:
        """Where it is connected from."""
        return self.session.address

    @property
    def closed(self) -> bool:
        """Whether the server has closed the connection or is about to."""
        return self.session.closing

    def send(self, data: bytes) -> bytes:
        """Send bytes; everything that comes back at once."""
        self.session.receive(data)
        self._rig.settle()
        return self.read()

    def read(self) -> bytes:
        """What has come since the last call."""
        data = self.session.take_out()
        self.session.written()
        return data

    def cmd(self, *words: Word) -> bytes:
        """Send a command; the bytes of its reply."""
        return self.send(encode(*words))

    def all(self, *commands: tuple[Word, ...]) -> bytes:
        """Send several commands at once; the bytes of all replies."""
        return self.send(b"".join(encode(*command) for command in commands))

    def error(self, *words: Word) -> str:
        """Send a command that must be answered with an error; its text."""
        reply = self.cmd(*words)
        assert reply.startswith(b"-"), reply
        assert reply.count(b"\r\n") == 1, reply
        return reply[1:-2].decode()

    def integer(self, *words: Word) -> int:
        """Send a command that must be answered with an integer."""
        reply = self.cmd(*words)
        assert reply.startswith(b":"), reply
        return int(reply[1:-2])

    def text(self, *words: Word) -> str:
        """Send a command that must be answered with a text."""
        return verbatim(self.cmd(*words))

    def fields(self) -> dict[str, str]:
        """CLIENT INFO."""
        return dict(field.split("=", 1) for field in self.text("CLIENT", "INFO").split())
