"""No answer leaves before what it tells of is safe, and none that isn't is taken for one when the disk fails."""

from __future__ import annotations

import errno
import os
import socket
from pathlib import Path

import pytest
import trio.testing

from tests.unit.journal.rig import recovered
from tests.unit.rig import encode
from tests.unit.server.slowdisk import QUIET, Client, served


async def lines_to(client: Client, last: bytes) -> list[bytes]:
    """The next lines, up to one."""
    lines = [await client.line()]
    while lines[-1] != last:
        lines.append(await client.line())
    return lines


# -- answers wait ------------------------------------------------------------------------------------------------------


async def test_an_answer_waits_until_it_is_safe(tmp_path: Path) -> None:
    async with served(tmp_path) as server:
        client = await server.loaded()
        await client.send("QPUT", "q", "x", "ID", "one")
        await client.silent()
        assert recovered(tmp_path / "journal").image.queues[1].messages.keys() == {b"one"}
        await server.sync()
        await client.read(b"$3\r\none\r\n")


async def test_an_answer_without_a_change_does_not_wait(tmp_path: Path) -> None:
    async with served(tmp_path) as server:
        client = await server.loaded()
        assert await client.cmd("PING") == b"+PONG\r\n"
        await client.send("QLEASE", "q")
        await client.read(b"*0\r\n")
        assert not server.worker.jobs


async def test_what_others_could_tell_of_it_waits_too(tmp_path: Path) -> None:
    async with served(tmp_path) as server:
        client = await server.loaded()
        other = await server.connect()
        await client.send("QPUT", "q", "x")
        await client.silent()
        await other.send("QDEAD", "LEN", "q")
        await other.silent()
        await server.sync()
        await other.read(b":0\r\n")


async def test_a_connection_that_waits_goes_on_being_served_in_its_order(tmp_path: Path) -> None:
    async with served(tmp_path) as server:
        client = await server.loaded()
        for number in range(3):
            await client.send("QPUT", "q", "x", "ID", f"{number}")
            await client.silent()
            await client.send("PING", f"{number}")
            await client.silent()
        assert server.engine.stats(b"q").ready == 3
        # The first sync is for the first batch only, the second for all others.
        server.work(1)
        await client.read(b"$1\r\n0\r\n$1\r\n0\r\n")
        await client.silent()
        await server.sync()
        await client.read(b"$1\r\n1\r\n$1\r\n1\r\n$1\r\n2\r\n$1\r\n2\r\n")
        await client.silent()


async def test_each_answer_waits_for_its_own_batch_only(tmp_path: Path) -> None:
    async with served(tmp_path) as server:
        first = await server.loaded()
        second = await server.connect()
        await first.send("QPUT", "q", "x", "ID", "1")
        await first.silent()
        await second.send("QPUT", "q", "x", "ID", "2")
        await second.silent()
        server.work(1)
        await first.read(b"$1\r\n1\r\n")
        await second.silent()
        await server.sync()
        await second.read(b"$1\r\n2\r\n")


@pytest.mark.parametrize("policy", ["everysec", "no"])
async def test_under_another_policy_nothing_waits(tmp_path: Path, policy: str) -> None:
    async with served(tmp_path) as server:
        client = await server.loaded()
        assert await client.cmd("CONFIG", "SET", "fsync", policy) == b"+OK\r\n"
        await client.send("QPUT", "q", "x", "ID", "1")
        await client.read(b"$1\r\n1\r\n")
        assert recovered(tmp_path / "journal").image.queues[1].messages.keys() == {b"1"}


async def test_a_change_of_the_policy_lets_answers_go(tmp_path: Path) -> None:
    async with served(tmp_path) as server:
        client = await server.loaded()
        other = await server.connect()
        await client.send("QPUT", "q", "x", "ID", "1")
        await client.silent()
        await other.send("CONFIG", "SET", "fsync", "no")
        await other.read(b"+OK\r\n")
        await client.read(b"$1\r\n1\r\n")


async def test_what_is_pushed_waits_too(tmp_path: Path) -> None:
    async with served(tmp_path) as server:
        client = await server.loaded()
        await client.send("QBIND", "topic", "q")
        await server.sync()
        await client.read(b":1\r\n")
        listener = await server.connect()
        await listener.send("SUBSCRIBE", "topic")
        await listener.read(b"*3\r\n$9\r\nsubscribe\r\n$5\r\ntopic\r\n:1\r\n")
        waiter = await server.connect()
        await waiter.send("QLEASE", "q", "WAIT", "0")
        await waiter.silent()
        await client.send("PUBLISH", "topic", "event")
        for one in (client, listener, waiter):
            await one.silent()
        await server.sync()
        await client.read(b":2\r\n")
        await listener.read(b"*3\r\n$7\r\nmessage\r\n$5\r\ntopic\r\n$5\r\nevent\r\n")
        await waiter.read(b"*1\r\n*5\r\n$1\r\nq\r\n")


# -- the end of a connection -------------------------------------------------------------------------------------------


async def test_who_has_closed_its_side_gets_its_answer_first(tmp_path: Path) -> None:
    async with served(tmp_path) as server:
        client = await server.loaded()
        await client.send("QPUT", "q", "x", "ID", "1")
        await client.stream.send_eof()
        await client.silent()
        await server.sync()
        await client.read(b"$1\r\n1\r\n")
        await client.end()


async def test_quit_is_the_last_answer(tmp_path: Path) -> None:
    async with served(tmp_path) as server:
        client = await server.loaded()
        await client.send("QPUT", "q", "x", "ID", "1")
        await client.send("QUIT")
        await client.silent()
        await server.sync()
        await client.read(b"$1\r\n1\r\n+OK\r\n")
        await client.end()


async def test_what_was_leased_by_an_answer_that_never_left_goes_back(tmp_path: Path) -> None:
    async with served(tmp_path) as server:
        client = await server.loaded()
        await client.send("QPUT", "q", "x", "ID", "1")
        await server.sync()
        await client.read(b"$1\r\n1\r\n")
        leaver = await server.connect()
        await leaver.send("QLEASE", "q")
        await leaver.silent()
        assert server.engine.stats(b"q").in_flight == 1
        # Not in order, as when it crashes: there is no more that could be sent to it.
        leaver.stream.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\x01\x00\x00\x00\x00\x00\x00\x00")
        await leaver.stream.aclose()
        await server.sync()
        stats = server.engine.stats(b"q")
        assert (stats.ready, stats.in_flight, stats.delivered) == (1, 0, 0)


async def test_who_gets_what_a_broken_connection_gives_back_is_told_when_that_is_written(tmp_path: Path) -> None:
    """Also if that shows when its answer is sent, and the next one to be sent is his."""
    async with served(tmp_path) as server:
        client = await server.loaded()
        await client.cmd("CONFIG", "SET", "fsync", "no")
        consumer, leaver = await server.connect(), await server.connect()
        await consumer.send("HELLO", "3")
        await lines_to(consumer, b"*0\r\n")
        await consumer.send("QCONSUME", "q", "PREFETCH", "1")
        await lines_to(consumer, b"ctag-1\r\n")
        await client.send("QMPUT", "q", "first", "second")
        token = (await lines_to(consumer, b"first\r\n"))[-4].strip()
        write = server.files.write
        batches: list[bytes] = []

        def fail_later(fd: int, data: bytes, offset: int) -> None:
            batches.append(data)
            if len(batches) > 1:
                raise OSError(errno.EIO, "broken")
            write(fd, data, offset)

        server.files.write = fail_later  # type: ignore[method-assign]
        # All of it at once, so that one pass of the server sees it.
        os.write(leaver.stream.socket.fileno(), encode("QLEASE", "q"))
        leaver.stream.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\x01\x00\x00\x00\x00\x00\x00\x00")
        leaver.stream.socket.close()
        os.write(consumer.stream.socket.fileno(), encode("QACK", "q", token))
        await consumer.read(b":1\r\n")
        await consumer.silent()
        assert len(batches) == 2


async def test_a_stop_writes_everything_and_lets_the_answers_go(tmp_path: Path) -> None:
    async with served(tmp_path) as server:
        client = await server.loaded()
        await client.send("QPUT", "q", "x", "ID", "1")
        await client.silent()
        server.reactor.stop()
        await client.read(b"$1\r\n1\r\n")
        await client.end()
    assert recovered(tmp_path / "journal").image.queues[1].messages.keys() == {b"1"}


# -- a disk that fails -------------------------------------------------------------------------------------------------


async def test_a_failure_turns_the_answers_that_are_not_safe_into_errors(tmp_path: Path) -> None:
    async with served(tmp_path) as server:
        safe = await server.loaded()
        unsafe, reader, fine = await server.connect(), await server.connect(), await server.connect()
        await safe.send("QPUT", "q", "x", "ID", "1")
        await safe.silent()
        several = (encode("QPUT", "q", "x", "ID", "2"), encode("QMPUT", "q", "a", "b"), encode("PING"))
        await unsafe.stream.send_all(b"".join(several))
        await unsafe.silent()
        await reader.send("QDEAD", "LEN", "q")
        await reader.silent()
        server.worker.work_one()
        server.files.fail_once("sync", errno.EIO)
        await fine.send("PING")
        server.work(1)
        await safe.read(b"$1\r\n1\r\n")
        await fine.read(b"+PONG\r\n")
        for _ in range(3):
            line = await unsafe.line()
            assert line.startswith(b"-MISCONF an fsync of the journal in ")
            assert b"Input/output error" in line
        assert (await reader.line()).startswith(b"-MISCONF ")
        for one in (safe, unsafe, reader):
            await one.silent()
        assert ("the journal has failed", "error") in server.log


async def test_after_a_failure_nothing_is_changed_or_told(tmp_path: Path) -> None:
    """What was refused is in memory still: who saw it there would take it for stored."""
    async with served(tmp_path) as server:
        client = await server.loaded()
        server.files.fail_once("sync", errno.EIO)
        await client.send("QPUT", "q", "x")
        await server.sync()
        await client.line()
        reads = (("QSTATS", "q"), ("QPEEK", "q"), ("QLIST",), ("QDEAD", "LEN", "q"), ("EXCHANGE", "LIST"), ("DBSIZE",))
        for words in (("QPUT", "q", "y"), ("QLEASE", "q"), ("QPURGE", "q"), ("QDECLARE", "r"), ("SAVE",), *reads):
            assert (await client.cmd(*words)).startswith(b"-MISCONF an fsync of the journal in "), words
        assert await client.cmd("MULTI") == b"+OK\r\n"
        assert (await client.cmd("QSTATS", "q")).startswith(b"-MISCONF ")
        assert (await client.cmd("EXEC")).startswith(b"-EXECABORT ")
        assert await client.cmd("PING") == b"+PONG\r\n"
        assert await client.cmd("PUBLISH", "topic", "event") == b":0\r\n"
        await client.send("INFO", "persistence")
        while await client.line() != b"aof_last_write_status:err\r\n":
            pass
        assert not server.worker.jobs


async def test_a_transaction_that_was_begun_before_a_failure_tells_nothing(tmp_path: Path) -> None:
    async with served(tmp_path) as server:
        client = await server.loaded()
        other = await server.connect()
        for words in (("MULTI",), ("QDEAD", "LEN", "q"), ("PING",)):
            await other.cmd(*words)
        server.files.fail_once("sync", errno.EIO)
        await client.send("QPUT", "q", "x")
        await server.sync()
        await client.line()
        assert await other.cmd("EXEC") == b"*2\r\n"
        assert (await other.line()).startswith(b"-MISCONF ")
        assert await other.line() == b"+PONG\r\n"


async def test_after_a_failure_nothing_is_copied_into_a_bound_queue(tmp_path: Path) -> None:
    async with served(tmp_path) as server:
        client = await server.loaded()
        await client.send("QBIND", "topic", "q")
        await server.sync()
        await client.read(b":1\r\n")
        server.files.fail_once("sync", errno.EIO)
        await client.send("QPUT", "q", "x")
        await server.sync()
        await client.line()
        assert await client.cmd("PUBLISH", "topic", "event") == b":0\r\n"


async def test_a_failure_ends_all_waits(tmp_path: Path) -> None:
    async with served(tmp_path) as server:
        client = await server.loaded()
        waiter = await server.connect()
        await waiter.send("QLEASE", "q", "WAIT", "0")
        await waiter.silent()
        server.files.fail_once("sync", errno.EIO)
        await client.send("QDECLARE", "other")
        await server.sync()
        assert (await waiter.line()).startswith(b"-MISCONF ")
        assert (await client.line()).startswith(b"-MISCONF ")


async def test_a_full_disk_holds_answers_until_there_is_space(tmp_path: Path) -> None:
    async with served(tmp_path) as server:
        client = await server.loaded()
        await server.fill(client)
        await client.send("QPUT", "q", "x", "ID", "1")
        await client.silent()
        other = await server.connect()
        assert (await other.cmd("QPUT", "q", "y")).startswith(b"-MISCONF the disk that ")
        await server.empty()
        await server.sync()
        await client.read(b"$1\r\n1\r\n")
        await other.send("QPUT", "q", "y", "ID", "2")
        await server.sync()
        await other.read(b"$1\r\n2\r\n")
        assert ("the journal can be written again", "info") in server.log


async def test_on_a_full_disk_waits_still_end_in_their_time(tmp_path: Path) -> None:
    async with served(tmp_path) as server:
        client = await server.loaded()
        await client.send("QDECLARE", "empty")
        await server.sync()
        await client.read(b"+OK\r\n")
        await client.send("QPUT", "empty", "later", "DELAY", "1s")
        await server.sync()
        await client.line()
        await client.line()
        short, long = await server.connect(), await server.connect()
        await short.send("QLEASE", "empty", "WAIT", "2s")
        await long.send("QLEASE", "empty", "WAIT", "1m")
        await short.silent()
        await server.fill(client)
        await client.send("QPUT", "q", "x", "ID", "1")
        await client.silent()
        before = server.engine.now
        server.reactor._clock = lambda: before + 2_000
        other = await server.connect()
        assert await other.cmd("PING") == b"+PONG\r\n"
        await short.read(b"*0\r\n")
        # Nothing else has happened: the message is not ready, and the time of the other one isn't over.
        assert server.engine.now == before
        assert server.engine.stats(b"empty").delayed == 1
        await long.silent()
        await server.empty()
        await server.sync()
        await long.read(b"*1\r\n*5\r\n$5\r\nempty\r\n")
        assert server.engine.now == before + 2_000


async def test_a_transaction_of_which_a_command_was_refused_is_not_run(tmp_path: Path) -> None:
    async with served(tmp_path) as server:
        client = await server.loaded()
        assert await client.cmd("MULTI") == b"+OK\r\n"
        other = await server.connect()
        await server.fill(other)
        before = server.engine.stats(b"q").enqueued
        await other.send("QPUT", "q", "x", "ID", "1")
        await other.silent()
        assert (await client.cmd("QPUT", "q", "one")).startswith(b"-MISCONF the disk that ")
        await server.empty()
        await server.sync()
        await other.read(b"$1\r\n1\r\n")
        await client.cmd("QPUT", "q", "two")
        assert (await client.cmd("EXEC")).startswith(b"-EXECABORT ")
        assert server.engine.stats(b"q").enqueued == before + 1


# -- SAVE --------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("policy", ["always", "everysec", "no"])
async def test_save_waits_for_the_disk(tmp_path: Path, policy: str) -> None:
    async with served(tmp_path) as server:
        client = await server.loaded()
        assert await client.cmd("CONFIG", "SET", "fsync", policy) == b"+OK\r\n"
        await client.stream.send_all(encode("QPUT", "q", "x", "ID", "1") + encode("SAVE"))
        await trio.testing.wait_all_tasks_blocked(QUIET)
        other = await server.connect()
        if policy != "always":
            await client.read(b"$1\r\n1\r\n")
            assert await other.cmd("PING") == b"+PONG\r\n"
        await client.silent()
        await server.sync()
        await client.read(b"$1\r\n1\r\n+OK\r\n" if policy == "always" else b"+OK\r\n")


@pytest.mark.parametrize("policy", ["always", "no"])
async def test_save_answers_if_everything_is_on_the_disk_already(tmp_path: Path, policy: str) -> None:
    async with served(tmp_path) as server:
        client = await server.loaded()
        assert await client.cmd("CONFIG", "SET", "fsync", policy) == b"+OK\r\n"
        await client.send("SAVE")
        await server.sync()
        await client.read(b"+OK\r\n")
        assert await client.cmd("SAVE") == b"+OK\r\n"
        assert await client.cmd("PING") == b"+PONG\r\n"


async def test_save_tells_that_the_disk_has_failed(tmp_path: Path) -> None:
    async with served(tmp_path) as server:
        client = await server.loaded()
        assert await client.cmd("CONFIG", "SET", "fsync", "no") == b"+OK\r\n"
        await client.send("QPUT", "q", "x", "ID", "1")
        await client.read(b"$1\r\n1\r\n")
        server.files.fail_once("sync", errno.EIO)
        await client.send("SAVE")
        await server.sync()
        assert (await client.line()).startswith(b"-MISCONF an fsync of the journal in ")


# -- loading -----------------------------------------------------------------------------------------------------------


async def test_while_it_loads(tmp_path: Path) -> None:
    async with served(tmp_path, slow=True) as server:
        client = await server.connect()
        for words in (("PING",), ("QPUT", "q", "x"), ("SAVE",)):
            assert await client.cmd(*words) == b"-LOADING respmq is loading the journal, 0 % of 0 bytes are read\r\n"
        assert await client.cmd("ECHO", "x") == b"$1\r\n"
        await client.read(b"x\r\n")
        assert await client.cmd("MULTI") == b"+OK\r\n"
        assert (await client.cmd("QDECLARE", "q")).startswith(b"-LOADING ")
        assert (await client.cmd("EXEC")).startswith(b"-EXECABORT ")
        server.engine.slow = False
        await server.sync()
        assert await client.cmd("PING") == b"+PONG\r\n"
        await client.send("QDECLARE", "q")
        await server.sync()
        await client.read(b"+OK\r\n")


async def test_a_stop_while_it_loads(tmp_path: Path) -> None:
    async with served(tmp_path, slow=True) as server:
        client = await server.connect()
        assert (await client.cmd("PING")).startswith(b"-LOADING ")
        server.reactor.stop()
        await client.end()
    assert list((tmp_path / "journal").glob("*.journal")) == []
