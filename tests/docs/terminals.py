"""Terminals in which redis-cli runs: the real one, and one that shows replies as redis-cli does at a terminal."""

from __future__ import annotations

import re
import subprocess
import threading
from typing import IO, Protocol

from tests.support import (
    Bool,
    Conn,
    Double,
    Error,
    Map,
    Null,
    Push,
    SetReply,
    Simple,
    Value,
    Verbatim,
)
from tests.support.values import BigNumber

PATIENCE = 30.0

_ESCAPES = {ord("\\"): "\\\\", ord('"'): '\\"', 7: "\\a", 8: "\\b", 9: "\\t", 10: "\\n", 13: "\\r"}
_WORD = re.compile(r"""\s*(?:"((?:\\.|[^"\\])*)"|'((?:\\'|[^'])*)'|(\S+))""")
_UNESCAPE = re.compile(r"\\x([0-9a-f]{2})|\\(.)")
_LETTERS = {"n": "\n", "r": "\r", "t": "\t", "a": "\a", "b": "\b"}

#: Replies that redis-cli shows as they are.
_AS_IS = ("info", "lolwut", "client list", "client info")


#: Pushes that are no replies to anything.
_CONSUMER_PUSHES = (b"deliver", b"cancelled")

#: How many items an event has, if not 3, by the line of the first one.
_EVENT_ITEMS = {'1) "pmessage"\n': 4}

_NO_LOGIN = "(error) NOAUTH Authentication required.\n"


class Terminal(Protocol):
    """One redis-cli."""

    def send(self, line: str) -> None:
        """Type a command."""

    def read(self) -> str:
        """What is shown as its reply."""
        ...

    def close(self) -> None:
        """End it."""


class OpenTerminal(Protocol):
    """Starts a redis-cli that speaks RESP2 or RESP3."""

    def __call__(self, port: int, resp: int) -> Terminal: ...


def words(line: str) -> list[bytes]:
    """The words of a command as redis-cli splits them."""
    found: list[bytes] = []
    place = 0
    line = line.rstrip()
    while place < len(line):
        match = _WORD.match(line, place)
        assert match is not None, f"can't be typed: {line!r}"
        place = match.end()
        double, single, plain = match.groups()
        if double is not None:
            text = _UNESCAPE.sub(lambda m: chr(int(m[1], 16)) if m[1] else _LETTERS.get(m[2], m[2]), double)
            found.append(text.encode("latin-1" if "\\x" in double else "utf-8"))
        else:
            found.append((plain if single is None else single.replace("\\'", "'")).encode())
    return found


def listens(line: str) -> bool:
    """Whether redis-cli goes on to show what comes after this command, and takes no other."""
    return line.lower().startswith(("subscribe ", "psubscribe ", "ssubscribe "))


def quoted(text: bytes) -> str:
    """A string as redis-cli shows it."""
    return '"' + "".join(_ESCAPES.get(c) or (chr(c) if 32 <= c < 127 else f"\\x{c:02x}") for c in text) + '"'


def show(value: Value, indent: str = "") -> str:
    """A reply as redis-cli shows it at a terminal, without the last line end."""
    match value:
        case bytes():
            return quoted(value)
        case int():
            return f"(integer) {value}"
        case Null():
            return "(nil)"
        case Simple(text=text) | BigNumber(text=text):
            return text.decode()
        case Error(text=text):
            return f"(error) {text.decode()}"
        case Double(text=text):
            return f"(double) {text.decode()}"
        case Bool(value=holds):
            return "(true)" if holds else "(false)"
        case Verbatim(data=data):
            return data.decode()
        case Map(pairs=pairs):
            return _numbered([list(pair) for pair in pairs], "#", indent, "(empty hash)")
        case SetReply(items=items):
            return _numbered([[item] for item in items], "~", indent, "(empty set)")
        case Push(items=items):
            return _numbered([[item] for item in items], ")", indent, "(empty push)")
        case list():
            return _numbered([[item] for item in value], ")", indent, "(empty array)")


def _numbered(items: list[list[Value]], mark: str, indent: str, empty: str) -> str:
    if not items:
        return empty
    width = len(str(len(items)))
    inner = indent + " " * (width + 2)
    lines = [
        f"{number:{width}}{mark} " + " => ".join(_item(value, inner, within_map=mark == "#") for value in item)
        for number, item in enumerate(items, 1)
    ]
    return f"\n{indent}".join(lines)


def _item(value: Value, indent: str, *, within_map: bool) -> str:
    """An item of a container; within a map what takes several lines begins on a line of its own."""
    shown = show(value, indent)
    return f"\n{indent}{shown}" if within_map and "\n" in shown else shown


class ShownTerminal:
    """A connection whose replies are shown as redis-cli would: pushes of consumers with the next reply, before it."""

    def __init__(self, port: int, resp: int) -> None:
        self._conn = Conn(port)
        if resp != 2:
            self._conn.hello(resp)
        self._line = ""

    def send(self, line: str) -> None:
        """Type a command."""
        self._line = line
        self._conn.start(*words(line))

    def read(self) -> str:
        """What is shown as its reply."""
        pushes = ""
        while isinstance(reply := self._conn.read(), Push) and reply.items[0] in _CONSUMER_PUSHES:
            pushes += show(reply) + "\n"
        if isinstance(reply, bytes) and self._line.lower().startswith(_AS_IS):
            reply = Verbatim(b"txt", reply)
        text = pushes + show(reply)
        return text.replace("\r\n", "\n").rstrip("\n") + "\n"

    def close(self) -> None:
        """Close the connection."""
        self._conn.close()


class RedisCli:
    """The real redis-cli, fed through a pipe. A reply ends where that to an ECHO of ours begins.

    Once it has subscribed it takes no more commands, and shows what comes: arrays with one line for each item.
    """

    def __init__(self, port: int, resp: int) -> None:
        command = ["redis-cli", "--no-raw", "-p", str(port)]
        if resp != 2:
            # At a terminal it would show them without being told.
            command += [f"-{resp}", "--show-pushes", "yes"]
        self._process = subprocess.Popen(
            command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env={"PATH": "/usr/local/bin:/usr/bin:/bin", "REDISCLI_RCFILE": "/dev/null", "LC_ALL": "C.UTF-8"},
        )
        self._count = 0
        self._listens = False

    def send(self, line: str) -> None:
        """Type a command."""
        self._listens = listens(line)
        self._type(line)

    def read(self) -> str:
        """What is shown as its reply."""
        assert self._process.stdout is not None
        if self._listens:
            return self._event(self._process.stdout)
        self._count += 1
        mark = f"end-of-reply-{self._count}"
        self._type(f"ECHO {mark}")
        watchdog = threading.Timer(PATIENCE, self._process.kill)
        watchdog.start()
        shown = ""
        try:
            for line in self._process.stdout:
                # Without a login the ECHO has the same reply as what was typed.
                if line == f'"{mark}"\n' or line == shown == _NO_LOGIN:
                    return shown.replace("\r\n", "\n").rstrip("\n") + "\n"
                shown += line
        finally:
            watchdog.cancel()
        raise AssertionError(f"redis-cli ended, or said nothing more for {PATIENCE} s, after {shown!r}")

    def _event(self, stdout: IO[str]) -> str:
        """What is shown when something comes for one of the subscriptions."""
        watchdog = threading.Timer(PATIENCE, self._process.kill)
        watchdog.start()
        try:
            shown = stdout.readline()
            while shown.startswith("Reading messages"):
                shown = stdout.readline()
            for _ in range(_EVENT_ITEMS.get(shown, 3) - 1):
                shown += stdout.readline()
        finally:
            watchdog.cancel()
        return shown

    def close(self) -> None:
        """End it."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.close()
        self._process.stdout.close()
        self._process.kill()
        self._process.wait(PATIENCE)

    def _type(self, line: str) -> None:
        assert self._process.stdin is not None
        self._process.stdin.write(line + "\n")
        self._process.stdin.flush()
