"""A journal that is not as it was written: a torn end is cut off and served on, damage before it is refused."""

from __future__ import annotations

import random
import re
import shutil
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from tests.crash.effort import EVERY
from tests.crash.history import FLAGS, History, record
from tests.crash.running import segments, serve, serve_to_end
from tests.crash.wire_dump import Dump, differences, dump
from tests.support import Conn, put


@pytest.fixture(scope="module")
def history(tmp_path_factory: pytest.TempPathFactory) -> History:
    return record(tmp_path_factory.mktemp("history") / "data")


def sample(everything: Iterable[int], count: int) -> list[int]:
    """All of them if that was asked for, else some by chance."""
    found = list(everything)
    return found if EVERY else sorted(random.sample(found, count))


def for_each(check: Callable[[int], None], cases: list[int]) -> None:
    """A few at a time: most of the time goes into starting servers."""
    with ThreadPoolExecutor(3) as pool:
        try:
            for _ in pool.map(check, cases):
                pass
        finally:
            pool.shutdown(cancel_futures=True)


def state_of(data: Path) -> tuple[Dump, str]:
    """Start a server on a folder; the state that it has, and its log."""
    with serve(data, *FLAGS) as server:
        with Conn(server.port) as conn:
            state = dump(conn, ages=False)
            # It serves, and what it answers now is kept, too.
            conn.ok("QDECLARE", "afterwards")
            id = put(conn, "afterwards", "m")
        server.kill()
        log = server.log
    assert "Traceback" not in log
    status, said = 0, ""
    with serve(data, *FLAGS) as server, Conn(server.port) as conn:
        again = dump(conn, ages=False)
        assert again.queues.pop(b"afterwards").live["READY"][0][b"id"] == id, (status, said)
        assert again.queues == state.queues
        assert server.stop() == 0
    return state, log


# -- The end of the last segment


def test_a_history_cut_at_any_byte_is_a_shorter_history(history: History, tmp_path: Path) -> None:
    """All steps whose bytes are whole are there, and nothing of the next: nothing acked before comes back."""

    def check(size: int) -> None:
        data = history.damaged(tmp_path / str(size), history.journal[:size])
        expected = history.at(size)
        state, log = state_of(data)
        assert not differences(state, expected or history.steps[0].state), f"cut at {size}"
        if expected is not None and size not in {step.end for step in history.steps}:
            assert history.name in log, f"cut at {size}, and nobody was told:\n{log}"
        shutil.rmtree(data)

    for_each(check, [*sample(range(history.end), 8), *random.sample([step.end for step in history.steps], 2)])


def test_zeros_in_place_of_the_end_are_a_shorter_history(history: History, tmp_path: Path) -> None:
    """What a file system leaves that had given the space and not yet written it."""

    def check(size: int) -> None:
        data = history.damaged(tmp_path / str(size), history.journal[:size] + bytes(history.end - size + 1000))
        state, _ = state_of(data)
        found = history.at(size)
        # Bytes that were zeros anyway may make it one step more.
        assert state in (found, history.at(size + 8)), f"zeros from {size}"
        shutil.rmtree(data)

    for_each(check, sample(range(history.steps[0].end, history.end), 4))


@pytest.mark.parametrize("rest", [b"", b"\0" * 100_000, b"\xff" * 50, b"RMQB" * 1000], ids=["none", "0", "ff", "magic"])
def test_what_follows_the_last_step_does_no_harm(rest: bytes, history: History, tmp_path: Path) -> None:
    """Nothing, zeros, and garbage; of garbage the log tells."""
    data = history.damaged(tmp_path / "data", history.journal[: history.end] + rest)
    state, log = state_of(data)
    assert not differences(state, history.steps[-1].state)
    assert (history.name in log) == bool(rest.strip(b"\0")), log


def test_bits_flipped_in_the_last_step_cut_it_off(history: History, tmp_path: Path) -> None:
    """It may have been half written when the power went."""

    def check(at: int) -> None:
        data = history.damaged(tmp_path / str(at), flipped(history.journal, at))
        state, log = state_of(data)
        assert not differences(state, history.steps[-2].state)
        assert history.name in log

    for_each(check, sample(range(history.steps[-2].end, history.end), 3))


def flipped(journal: bytes, at: int) -> bytes:
    """The journal with a bit turned round."""
    return journal[:at] + bytes([journal[at] ^ (1 << random.randrange(8))]) + journal[at + 1 :]


# -- Damage in the middle


def test_bits_flipped_in_the_middle_are_refused(history: History, tmp_path: Path) -> None:
    """With the file, the place and a way on; and nothing is changed."""

    def check(at: int) -> None:
        journal = flipped(history.journal, at)
        data = history.damaged(tmp_path / str(at), journal)
        refused(data, history.name, at, history)
        assert segments(data)[0].read_bytes() == journal
        shutil.rmtree(data)

    for_each(check, sample(range(history.steps[-2].end), 6))


def refused(data: Path, name: str, at: int, history: History) -> None:
    """The server doesn't start, and says in which file, between which steps, how much is lost, and what to do."""
    status, said = serve_to_end(data, *FLAGS)
    assert status > 0, f"it started with damage at {at}:\n{said}"
    assert "Traceback" not in said
    assert name in said
    assert re.search(r"\d+ bytes", said), said
    assert "respmq check" in said
    begin = max((step.end for step in history.steps if step.end <= at), default=0)
    words = {word.strip(",.:;()") for word in said.split()}
    assert words & {str(offset) for offset in range(begin, at + 1)}, f"no offset from {begin} to {at}:\n{said}"


@pytest.fixture(scope="module")
def long_journal(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with several segments, all of them needed."""
    data = tmp_path_factory.mktemp("long") / "data"
    with serve(data, *FLAGS) as server, Conn(server.port) as conn:
        conn.ok("QDECLARE", "q")
        for number in range(12):
            put(conn, "q", b"%d" % number * 20_000)
        server.kill()
    assert len(segments(data)) > 2
    return data


@pytest.mark.parametrize("what", ["cut", "zeros", "missing", "empty", "another's"])
def test_an_older_segment_that_is_not_whole_is_refused(what: str, long_journal: Path, tmp_path: Path) -> None:
    """Its end is no torn end: it was on the disk before the next one was begun."""
    data = tmp_path / "data"
    shutil.copytree(long_journal, data)
    victim = segments(data)[1]
    journal = victim.read_bytes()
    match what:
        case "cut":
            victim.write_bytes(journal[: len(journal) // 2])
        case "zeros":
            victim.write_bytes(journal[: len(journal) // 2] + bytes(len(journal) // 2))
        case "missing":
            victim.unlink()
        case "empty":
            victim.write_bytes(b"")
        case _:
            victim.write_bytes(segments(data)[0].read_bytes())
    status, said = serve_to_end(data, *FLAGS)
    assert status > 0, said
    assert "Traceback" not in said
    assert victim.name in said


def test_a_folder_that_cannot_be_is_refused(tmp_path: Path) -> None:
    """A file in its place; the error names it."""
    path = tmp_path / "file"
    path.write_text("precious")
    status, said = serve_to_end(path, *FLAGS)
    assert status > 0
    assert str(path) in said
    assert "Traceback" not in said
    assert path.read_text() == "precious"
