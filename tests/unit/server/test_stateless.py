"""What has nothing to do with queues and messages is answered while the disk is busy, and nothing else is."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.unit.rig import encode
from tests.unit.server.slowdisk import served


@pytest.mark.parametrize(
    ("command", "answer"),
    [
        ("PING", b"+PONG\r\n"),
        ("ECHO x", b"$1\r\nx\r\n"),
        ("ECHO", b"-ERR wrong number of arguments "),
        ("TIME", b"*2\r\n"),
        ("HELLO 3", b"%7\r\n"),
        ("SELECT 0", b"+OK\r\n"),
        ("CLIENT ID", b":"),
        ("CLIENT LIST", b"$"),
        ("CLIENT SETNAME me", b"+OK\r\n"),
        ("CLIENT HELP", b"*"),
        ("COMMAND COUNT", b":"),
        ("COMMAND", b"*"),
        ("CONFIG GET fsync", b"*2\r\n$5\r\nfsync\r\n$6\r\nalways\r\n"),
        ("LASTSAVE", b":"),
        ("MULTI", b"+OK\r\n"),
    ],
)
async def test_what_can_tell_nothing_of_it_does_not_wait(tmp_path: Path, command: str, answer: bytes) -> None:
    async with served(tmp_path) as server:
        client = await server.loaded()
        other = await server.connect()
        await client.send("QPUT", "q", "x", "ID", "1")
        await client.silent()
        await other.send(*command.split())
        await other.read(answer)
        await client.silent()


@pytest.mark.parametrize(
    "command",
    ["QSTATS q", "QPEEK q", "QLIST", "INFO", "DBSIZE", "QLEASE q", "CLIENT UNBLOCK 1", "CLIENT KILL ID 99", "RESET"],
)
async def test_what_can_tell_of_it_or_changes_something_waits(tmp_path: Path, command: str) -> None:
    async with served(tmp_path) as server:
        client = await server.loaded()
        other = await server.connect()
        await client.send("QPUT", "q", "x", "ID", "1")
        await client.silent()
        await other.send(*command.split())
        await other.silent()
        await server.sync()
        assert (await other.line())[:1] in b"+:*$"


async def test_nothing_leaves_before_an_answer_that_waits(tmp_path: Path) -> None:
    """Of one connection, whether they were sent together or one after the other."""
    async with served(tmp_path) as server:
        client = await server.loaded()
        other = await server.connect()
        await client.send("QPUT", "q", "x", "ID", "1")
        await client.silent()
        both = encode("PING", "a"), encode("CLIENT", "GETNAME"), encode("QDEAD", "LEN", "q"), encode("PING", "b")
        await other.stream.send_all(b"".join(both))
        await other.read(b"$1\r\na\r\n$-1\r\n")
        await other.send("PING", "c")
        await other.silent()
        await server.sync()
        await other.read(b":0\r\n$1\r\nb\r\n$1\r\nc\r\n")


async def test_of_a_transaction_only_its_end_waits(tmp_path: Path) -> None:
    async with served(tmp_path) as server:
        client = await server.loaded()
        other = await server.connect()
        await client.send("QPUT", "q", "x", "ID", "1")
        await client.silent()
        assert await other.cmd("MULTI") == b"+OK\r\n"
        assert await other.cmd("PING") == b"+QUEUED\r\n"
        assert await other.cmd("QDEAD", "LEN", "q") == b"+QUEUED\r\n"
        await other.send("EXEC")
        await other.silent()
        await server.sync()
        await other.read(b"*2\r\n+PONG\r\n:0\r\n")


async def test_what_comes_behind_a_suppressed_answer_waits_like_it(tmp_path: Path) -> None:
    """It says that the answer would have come."""
    async with served(tmp_path) as server:
        client = await server.loaded()
        await client.stream.send_all(encode("CLIENT", "REPLY", "SKIP") + encode("QPUT", "q", "x"))
        await client.silent()
        await client.send("PING")
        await client.silent()
        await client.send("CLIENT", "REPLY", "OFF")
        await client.send("QPUT", "q", "y")
        await client.send("QUIT")
        await server.sync()
        await client.read(b"+PONG\r\n")
        await client.end()
        assert server.engine.stats(b"q").ready == 2


async def test_what_leaves_at_once_leaves_a_push_waiting(tmp_path: Path) -> None:
    async with served(tmp_path) as server:
        client = await server.loaded()
        consumer = await server.connect()
        await consumer.send("QCONSUME", "q")
        assert (await consumer.line()).startswith(b"$")
        await consumer.line()
        await client.send("QPUT", "q", "x", "ID", "1")
        await client.silent()
        await consumer.send("PING")
        await consumer.silent()
        await server.sync()
        assert await consumer.line() == b"*7\r\n"
