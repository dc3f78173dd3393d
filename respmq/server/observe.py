"""What others may see of commands: MONITOR lines and the slow log. Passwords are never among it."""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING

from respmq.commands.context import SlowCall

if TYPE_CHECKING:
    from collections.abc import Iterator

    from respmq.commands.spec import Spec
    from respmq.config import Config
    from respmq.server.session import Session

_REDACTED = b"(redacted)"
#: In which commands how many words behind which word are secret.
_HIDDEN = {"HELLO": (b"auth", 2), "CONFIG SET": (b"requirepass", 1)}
_SLOW_ARGS = 32
#: As in Redis, MONITOR leaves out what administrators do.
_NOT_SHOWN = frozenset({"admin", "skip_monitor"})
_SLOW_ARG_LENGTH = 128
#: How much of a call MONITOR shows; each word counts as some bytes more than it has.
_MONITOR_LENGTH = 65536
_WORD_COST = 16
#: How many samples a rate is taken from.
_SAMPLES = 5
_ESCAPES = {7: rb"\a", 8: rb"\b", 9: rb"\t", 10: rb"\n", 13: rb"\r", 34: rb"\"", 92: rb"\\"}
_PRINTED = [_ESCAPES.get(c, bytes([c]) if 32 <= c < 127 else rb"\x%02x" % c) for c in range(256)]


def redacted(spec: Spec, args: list[bytes]) -> list[bytes]:
    """The words of a call with everything secret taken out, wherever it stands in a call that is wrong otherwise."""
    if spec.name == "AUTH":
        return [args[0], *[_REDACTED] * (len(args) - 1)]
    hidden = _HIDDEN.get(spec.name)
    if hidden is None:
        return args
    word, count = hidden
    shown = list(args)
    for place, arg in enumerate(args):
        if arg.lower() == word:
            shown[place + 1 : place + 1 + count] = [_REDACTED] * len(args[place + 1 : place + 1 + count])
    return shown


def monitor_line(now: int, address: str, spec: Spec, args: list[bytes]) -> bytes:
    """A command as MONITOR shows it, the same in RESP2 and RESP3; nothing for commands that it leaves out."""
    if not spec.flags.isdisjoint(_NOT_SHOWN):
        return b""
    if address.endswith(":0"):
        address = "unix:" + address.removesuffix(":0")
    words = b" ".join(_monitor_words(redacted(spec, args)))
    return b"+%d.%06d [0 %b] %b\r\n" % (now // 1000, now % 1000 * 1000, address.encode(), words)


def _monitor_words(args: list[bytes]) -> Iterator[bytes]:
    """The words of a call in quotes, up to a length that takes no time worth mentioning."""
    left = _MONITOR_LENGTH
    for place, arg in enumerate(args):
        if left <= 0:
            yield b'"... (%d more arguments)"' % (len(args) - place)
            return
        rest = b"... (%d more bytes)" % (len(arg) - left) if len(arg) > left else b""
        yield b'"%b%b"' % (b"".join(map(_PRINTED.__getitem__, arg[:left])), rest)
        left -= len(arg) + _WORD_COST


class SlowLog:
    """The latest slow commands, newest first."""

    def __init__(self, config: Config) -> None:
        self._config = config
        self._calls: deque[SlowCall] = deque()
        self._count = 0

    def __len__(self) -> int:
        return len(self._calls)

    def add(self, session: Session, spec: Spec, args: list[bytes], at: int, micros: int) -> None:
        """Add a call; long arguments and long lists of them are cut as in Redis."""
        shown = [_cut(arg) for arg in redacted(spec, args)[:_SLOW_ARGS]]
        if len(args) > _SLOW_ARGS:
            shown[-1] = b"... (%d more arguments)" % (len(args) - _SLOW_ARGS + 1)
        self._calls.appendleft(SlowCall(self._count, at, micros, shown, session.address, session.name))
        self._count += 1
        self.trim()

    def trim(self) -> None:
        """Keep no more than `slowlog-max-len`."""
        while len(self._calls) > self._config.slowlog_max_len:
            self._calls.pop()

    def latest(self, count: int) -> list[SlowCall]:
        """The latest `count` calls; all of them for -1."""
        calls = list(self._calls)
        return calls if count < 0 else calls[:count]

    def clear(self) -> None:
        """Forget all calls."""
        self._calls.clear()


def _cut(arg: bytes) -> bytes:
    if len(arg) <= _SLOW_ARG_LENGTH:
        return arg
    return arg[:_SLOW_ARG_LENGTH] + b"... (%d more bytes)" % (len(arg) - _SLOW_ARG_LENGTH)


class Rate:
    """How fast a count grew within the last seconds."""

    def __init__(self) -> None:
        self._samples: deque[tuple[int, int]] = deque(maxlen=_SAMPLES)

    def add(self, nanos: int, count: int) -> None:
        """Add what the count is at a moment."""
        self._samples.append((nanos, count))

    def per_second(self) -> int:
        """By how much it grew in a second; 0 as long as nothing is known."""
        if len(self._samples) < 2:
            return 0
        (began, before), (ended, after) = self._samples[0], self._samples[-1]
        return round((after - before) * 1_000_000_000 / max(ended - began, 1))
