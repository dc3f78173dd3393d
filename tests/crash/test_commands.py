"""Each command that changes state, before a crash and after: what it did is done, and the future is the same."""

from __future__ import annotations

import contextlib
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from respmq.commands import registry
from tests.crash.changes import CHANGES
from tests.crash.running import serve
from tests.crash.wire_dump import Dump, Message, differences, dump
from tests.support import Conn, ServerProcess, advance, as_bytes

FLAGS = ("--virtual-clock",)

#: Commands that store something, though the table doesn't call them writing.
STORING = {"PUBLISH", "QPUBLISH", "EXEC", "DEBUG ADVANCE"}


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("live") / "data"


@pytest.fixture(scope="module")
def live(data: Path) -> Iterator[ServerProcess]:
    """A server that lives on, while others start from copies of its journal."""
    with serve(data, *FLAGS) as server:
        yield server
        assert server.stop() == 0
        assert "Traceback" not in server.log


def test_every_command_that_changes_state_has_an_entry() -> None:
    writing = {spec.name for spec in registry.load().all_specs() if "write" in spec.flags}
    assert set(CHANGES) == writing | STORING, "say in tests/crash/changes.py what the command leaves behind"


@pytest.mark.parametrize("name", CHANGES)
def test_what_a_command_did_is_done_after_a_crash(name: str, data: Path, live: ServerProcess, tmp_path: Path) -> None:
    """A copy of the journal is what a crash leaves: a server that starts from it has the same state as the one that
    lives on, and the same happens in both while their time goes on.
    """
    copy = tmp_path / "data"
    with Conn(live.port) as mine:
        mine.hello(3)
        CHANGES[name](mine, "q." + name.replace(" ", "-").lower())
        with Conn(live.port) as before:
            shutil.copytree(data, copy)
            with serve(copy, *FLAGS) as restarted, Conn(restarted.port) as after:
                assert not differences(dump(after), dump(before))
                # The consumer of the one that lives on is no restarted one's.
                for step in () if name == "QCONSUME" else ("1s", "1m", "2h"):
                    advance(before, step)
                    advance(after, step)
                    assert not differences(without_new_ids(dump(after)), without_new_ids(dump(before))), step
                assert "Traceback" not in restarted.log
                assert restarted.stop() == 0
            for queue in before.array("QLIST"):
                before.integer("QDELETE", as_bytes(queue))


def without_new_ids(state: Dump) -> Dump:
    """The state, but for the ids that each of two servers gives to copies of announcements."""

    def known(message: Message) -> Message:
        headers = str(message[b"headers"])
        return {**message, b"id": b"new"} if "$sys.dead." in headers else message

    for queue in state.queues.values():
        queue.dead[:] = map(known, queue.dead)
        for listed in queue.live.values():
            listed[:] = map(known, listed)
    return state


@pytest.mark.parametrize("policy", ["always", "everysec", "no"])
def test_what_all_commands_did_is_done_after_kill_9(policy: str, tmp_path: Path) -> None:
    """All of them on one server; then it is killed, several times, and nothing is done twice when it is loaded."""
    data = tmp_path / "data"
    flags = (*FLAGS, "--fsync", policy)
    with serve(data, *flags) as server, contextlib.ExitStack() as stack:
        for name, change in CHANGES.items():
            conn = stack.enter_context(Conn(server.port))
            conn.hello(3)
            change(conn, "q." + name.replace(" ", "-").lower())
        with Conn(server.port) as observer:
            expected = dump(observer)
        server.kill()
    for _ in range(2):
        with serve(data, *flags) as server, Conn(server.port) as conn:
            assert not differences(dump(conn), expected)
            server.kill()
    with serve(data, *flags) as server:
        assert server.stop() == 0
    with serve(data, *flags) as server, Conn(server.port) as conn:
        assert not differences(dump(conn), expected)
        assert "Traceback" not in server.log
