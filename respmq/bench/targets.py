"""What is measured: three ways to have a job queue, each with the commands that its users would take.

A target says how its queue is made and removed, and what goes over the wire in each step of a cycle.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from enum import Enum
from typing import TYPE_CHECKING, ClassVar, cast

import hiredis

from respmq.bench.control import BenchError
from respmq.resp.reader import encode_request

if TYPE_CHECKING:
    from collections.abc import Callable

    from respmq.bench.control import Control

Replies = list[object]


class Mode(Enum):
    """How many jobs a connection works on at a time, and by what commands. The value is the name in JSON."""

    SINGLE = "single"
    PIPELINED = "pipelined"
    BATCH = "batch"


@dataclass(frozen=True, slots=True)
class Plan:
    """What a connection sends in each step, ready to be sent, and what the replies mean.

    Args:
        jobs: how many jobs go through one cycle.
        put: the request or requests that put them.
        put_replies: how many replies that has.
        lease: what leases them.
        lease_replies: how many replies that has.
        ack: what acks the jobs with these tokens.
        ack_replies: how many replies that has.
        tokens: what has to be acked, from the replies to `lease`.
        acked: how many jobs are done, from the replies to `ack`.
    """

    jobs: int
    put: bytes
    put_replies: int
    lease: bytes
    lease_replies: int
    ack: Callable[[list[bytes]], bytes]
    ack_replies: int
    tokens: Callable[[Replies], list[bytes]]
    acked: Callable[[Replies], int]


class Target(ABC):
    """One way to have a job queue."""

    #: Its name in JSON, its name in the table, and the kind of server that it needs.
    key: ClassVar[str]
    title: ClassVar[str]
    server: ClassVar[str]

    @abstractmethod
    def check(self, control: Control, name: str) -> None:
        """See that the name is free.

        Raises:
            BenchError: there is something of that name.
        """

    @abstractmethod
    def make(self, control: Control, name: str) -> None:
        """Make the queue.

        Raises:
            BenchError: it can't be made.
        """

    @abstractmethod
    def remove(self, control: Control, name: str) -> None:
        """Remove the queue and what is left in it, if it is there.

        Raises:
            BenchError: it can't be removed.
        """

    @abstractmethod
    def plan(self, mode: Mode, name: str, jobs: int, body: bytes) -> Plan:
        """The requests for `jobs` jobs at a time."""


class RespmqTarget(Target):
    """A queue of respmq."""

    key = "respmq"
    title = "respmq"
    server = "respmq"

    def check(self, control: Control, name: str) -> None:
        """See that there is no such queue."""
        reply = control.ask("QCONFIG", name)
        if not isinstance(reply, hiredis.ReplyError):
            raise BenchError(f"there is a queue '{name}' already")
        if not str(reply).startswith("NOQUEUE"):
            raise BenchError(f"it answers QCONFIG with '{reply}'")

    def make(self, control: Control, name: str) -> None:
        """Declare it, with room for all jobs, and without deduplication, which the others don't have."""
        control.call("QDECLARE", name, "MAXLEN", "1000000", "DEDUPE", "0")

    def remove(self, control: Control, name: str) -> None:
        """Delete it."""
        reply = control.ask("QDELETE", name)
        if isinstance(reply, hiredis.ReplyError) and not str(reply).startswith("NOQUEUE"):
            raise BenchError(f"it answers QDELETE with '{reply}'")

    def plan(self, mode: Mode, name: str, jobs: int, body: bytes) -> Plan:
        """QPUT, QLEASE, QACK; or QMPUT, QLEASE COUNT and one QACK of all."""
        queue = name.encode()
        if mode is Mode.BATCH:
            return Plan(
                jobs=jobs,
                put=encode_request([b"QMPUT", queue, *[body] * jobs]),
                put_replies=1,
                lease=encode_request([b"QLEASE", queue, b"COUNT", b"%d" % jobs]),
                lease_replies=1,
                ack=_many([b"QACK", queue], jobs),
                ack_replies=1,
                tokens=_respmq_tokens,
                acked=_total,
            )
        return Plan(
            jobs=jobs,
            put=encode_request([b"QPUT", queue, body]) * jobs,
            put_replies=jobs,
            lease=encode_request([b"QLEASE", queue]) * jobs,
            lease_replies=jobs,
            ack=_each([b"QACK", queue]),
            ack_replies=jobs,
            tokens=_respmq_tokens,
            acked=_total,
        )


class _RedisTarget(Target, ABC):
    server = "redis"

    def check(self, control: Control, name: str) -> None:
        if control.call("EXISTS", *self._keys(name)) != 0:
            raise BenchError(f"there is a key '{name}' already")

    def remove(self, control: Control, name: str) -> None:
        control.call("DEL", *self._keys(name))

    @staticmethod
    def _keys(name: str) -> list[str]:
        return [name, _processing(name)]


class StreamsTarget(_RedisTarget):
    """A Redis stream with one consumer group. An entry that is done is deleted, else the stream would grow for ever."""

    key = "streams"
    title = "Redis Streams"

    def make(self, control: Control, name: str) -> None:
        """Create the stream with its group."""
        control.call("XGROUP", "CREATE", name, "g", "$", "MKSTREAM")

    def plan(self, mode: Mode, name: str, jobs: int, body: bytes) -> Plan:
        """XADD, XREADGROUP, XACK and XDEL; or XADD pipelined, XREADGROUP COUNT, one XACK and one XDEL of all."""
        stream = name.encode()
        count, leases = (jobs, 1) if mode is Mode.BATCH else (1, jobs)
        lease = encode_request([b"XREADGROUP", b"GROUP", b"g", b"w", b"COUNT", b"%d" % count, b"STREAMS", stream, b">"])
        acks, deletes = (
            _many(words, jobs) if mode is Mode.BATCH else _each(words)
            for words in ([b"XACK", stream, b"g"], [b"XDEL", stream])
        )
        return Plan(
            jobs=jobs,
            # There is no command that adds many.
            put=encode_request([b"XADD", stream, b"*", b"b", body]) * jobs,
            put_replies=jobs,
            lease=lease * leases,
            lease_replies=leases,
            ack=lambda tokens: acks(tokens) + deletes(tokens),
            ack_replies=2 * leases,
            tokens=_stream_tokens,
            acked=_less_of_halves,
        )


class ListsTarget(_RedisTarget):
    """A Redis list, and a second one for what is being worked on: a reliable queue as Redis' manual describes it."""

    key = "lists"
    title = "Redis lists"

    def make(self, control: Control, name: str) -> None:
        """A list is there as soon as something is put into it."""

    def plan(self, mode: Mode, name: str, jobs: int, body: bytes) -> Plan:
        """LPUSH, LMOVE, LREM; or LPUSH of many, the others pipelined."""
        waiting, processing = name.encode(), _processing(name).encode()
        bodies, puts = (jobs, 1) if mode is Mode.BATCH else (1, jobs)
        done = encode_request([b"LREM", processing, b"1", body])
        return Plan(
            jobs=jobs,
            put=encode_request([b"LPUSH", waiting, *[body] * bodies]) * puts,
            put_replies=puts,
            lease=encode_request([b"LMOVE", waiting, processing, b"RIGHT", b"LEFT"]) * jobs,
            lease_replies=jobs,
            # What a list is to remove is named by its content, and that is the same for all.
            ack=lambda tokens: done * len(tokens),
            ack_replies=jobs,
            tokens=lambda replies: [cast("bytes", reply) for reply in replies if reply is not None],
            acked=_total,
        )


#: All of them, in the order of the table; the others are compared with the first.
TARGETS: tuple[Target, ...] = (RespmqTarget(), StreamsTarget(), ListsTarget())


def _processing(name: str) -> str:
    return f"{name}:processing"


# -- Requests ----------------------------------------------------------------------------------------------------------


def _head(words: list[bytes], more: int) -> bytes:
    """The beginning of a request that has `more` arguments behind these words."""
    return b"*%d\r\n" % (len(words) + more) + b"".join(b"$%d\r\n%b\r\n" % (len(word), word) for word in words)


def _many(words: list[bytes], jobs: int) -> Callable[[list[bytes]], bytes]:
    """One command for all tokens, of which there are as many as jobs."""
    head = _head(words, jobs)
    return lambda tokens: head + b"".join([b"$%d\r\n%b\r\n" % (len(token), token) for token in tokens])


def _each(words: list[bytes]) -> Callable[[list[bytes]], bytes]:
    """A command for each token."""
    head = _head(words, 1)
    return lambda tokens: b"".join([b"%b$%d\r\n%b\r\n" % (head, len(token), token) for token in tokens])


# -- Replies -----------------------------------------------------------------------------------------------------------
# What is no such reply makes them raise a TypeError, an IndexError or a ValueError: the load looks after that.


def _respmq_tokens(replies: Replies) -> list[bytes]:
    found = cast("list[list[list[bytes]]]", replies)
    return [message[2] for messages in found for message in messages]


def _stream_tokens(replies: Replies) -> list[bytes]:
    found = cast("list[list[tuple[bytes, list[list[bytes]]]] | None]", replies)
    return [entry[0] for streams in found if streams for entry in streams[0][1]]


def _total(replies: Replies) -> int:
    return sum(cast("list[int]", replies))


def _less_of_halves(replies: Replies) -> int:
    """The acks came first, the deletions behind them; a job is done when it is both."""
    numbers = cast("list[int]", replies)
    half = len(numbers) // 2
    return min(sum(numbers[:half]), sum(numbers[half:]))
