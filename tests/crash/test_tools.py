"""`respmq check`, `export` and `import`: what a person has when a folder has to be looked at, mended or moved."""

from __future__ import annotations

import json
import random
import shutil
from pathlib import Path

import pytest

from tests.crash.history import FLAGS, History, record
from tests.crash.running import run, segments, serve
from tests.crash.test_damage import flipped
from tests.crash.wire_dump import Dump, differences, dump
from tests.support import Conn, put, stat


@pytest.fixture(scope="module")
def history(tmp_path_factory: pytest.TempPathFactory) -> History:
    return record(tmp_path_factory.mktemp("history") / "data")


def state_of(data: Path) -> Dump:
    with serve(data, *FLAGS) as server, Conn(server.port) as conn:
        state = dump(conn, ages=False)
        server.kill()
    return state


# -- check


def test_a_sound_folder(history: History, tmp_path: Path) -> None:
    """Exit status 0, and nothing is changed."""
    data = history.damaged(tmp_path / "data", history.journal)
    before = {path: path.read_bytes() for path in data.iterdir()}
    status, out, said = run("check", data)
    assert status == 0, said
    assert out.strip()
    assert {path: path.read_bytes() for path in segments(data)} == before


def test_damage_is_shown_and_repaired(history: History, tmp_path: Path) -> None:
    """Where it is; and with --repair what can't be used is cut out, a copy of it is kept, and the server starts."""
    for number, step in enumerate(random.sample(range(5, len(history.steps) - 2), 3)):
        at = random.randrange(history.steps[step].end, history.steps[step + 1].end)
        journal = flipped(history.journal, at)
        data = history.damaged(tmp_path / str(number), journal)
        status, out, said = run("check", data)
        told = out.decode() + said
        assert status == 1, told
        assert history.name in told
        assert str(history.steps[step].end) in told
        assert segments(data)[0].read_bytes() == journal
        status, out, said = run("check", data, "--repair")
        assert status == 0, out.decode() + said
        assert run("check", data)[0] == 0
        kept = [path for path in data.iterdir() if path.suffix != ".journal" and path.name != "lock"]
        assert kept, "no copy of what was cut"
        # From one of the steps on it may be that what follows makes no sense without the one that is missing.
        with serve(data, *FLAGS) as server, Conn(server.port) as conn:
            assert set(conn.array("QLIST")) <= {b"q", b"r.x"}
            conn.ok("QDECLARE", "new")
            put(conn, "new", "m")
            assert server.stop() == 0
            assert "Traceback" not in server.log
        assert run("check", data)[0] == 0


def test_a_torn_end_is_told_apart(history: History, tmp_path: Path) -> None:
    """It is what a crash leaves: a server starts over it, and check says so."""
    data = history.damaged(tmp_path / "data", history.journal[: history.end - 3])
    status, out, said = run("check", data)
    assert history.name in out.decode() + said
    assert not differences(state_of(data), history.steps[-2].state), status


def test_check_of_a_folder_in_use_and_of_none(tmp_path: Path) -> None:
    """An error that says why; --repair doesn't touch what a server has."""
    data = tmp_path / "data"
    with serve(data) as server, Conn(server.port) as conn:
        conn.ok("QDECLARE", "q")
        before = segments(data)[0].read_bytes()
        status, out, said = run("check", data, "--repair")
        assert status > 0
        assert str(server.pid) in out.decode() + said
        assert segments(data)[0].read_bytes() == before
        put(conn, "q", "m")
        assert server.stop() == 0
    nothing = tmp_path / "nothing"
    for command in ("check", "export"):
        status, out, said = run(command, nothing)
        assert status > 0, command
        assert str(nothing) in out.decode() + said
        assert not nothing.exists()


# -- export and import


def test_a_state_is_moved_to_another_folder(history: History, tmp_path: Path) -> None:
    """All of it, as JSON lines: the new server has the same state, whichever step it was."""
    for number in (len(history.steps) // 2, len(history.steps) - 1):
        step = history.steps[number]
        old = history.damaged(tmp_path / f"old{number}", history.journal[: step.end])
        status, out, said = run("export", old)
        assert status == 0, said
        lines = out.splitlines()
        assert lines
        assert all(isinstance(json.loads(line), dict) for line in lines)
        new = tmp_path / f"new{number}"
        status, _, said = run("import", new, stdin=out)
        assert status == 0, said
        assert not differences(state_of(new), step.state)
        assert not differences(state_of(old), step.state), "an export changes nothing"


def test_an_export_of_an_import_is_the_same(history: History, tmp_path: Path) -> None:
    old = history.damaged(tmp_path / "old", history.journal)
    _, first, _ = run("export", old)
    new = tmp_path / "new"
    assert run("import", new, stdin=first)[0] == 0
    status, second, said = run("export", new)
    assert status == 0, said
    assert [json.loads(line) for line in second.splitlines()] == [json.loads(line) for line in first.splitlines()]


@pytest.mark.parametrize(
    "text",
    [b"no json\n", b"{}\n", b"[1]\n", b'{"type": "nonsense"}\n', b"\xff\xfe\n", b'{"unfinished": '],
    ids=["text", "empty", "array", "type", "bytes", "half"],
)
def test_what_is_no_export_is_refused(text: bytes, tmp_path: Path) -> None:
    """With the line, and nothing is left behind that a server would take for a state."""
    data = tmp_path / "data"
    status, _, said = run("import", data, stdin=text)
    assert status > 0
    assert "line" in said or "1" in said
    assert not data.exists() or not segments(data)


def test_an_export_that_was_cut_is_refused(history: History, tmp_path: Path) -> None:
    """In a line or between two: half a state is none."""
    old = history.damaged(tmp_path / "old", history.journal)
    _, out, _ = run("export", old)
    data = tmp_path / "data"
    status, _, said = run("import", data, stdin=out[: len(out) - 10])
    assert status > 0, said
    assert not data.exists() or not segments(data)


def test_import_wants_an_empty_folder(history: History, tmp_path: Path) -> None:
    old = history.damaged(tmp_path / "old", history.journal)
    _, out, _ = run("export", old)
    full = Path(shutil.copytree(old, tmp_path / "full"))
    before = segments(full)[0].read_bytes()
    status, _, said = run("import", full, stdin=out)
    assert status > 0
    assert str(full) in said
    assert segments(full)[0].read_bytes() == before


def test_leases_and_windows_are_moved_too(tmp_path: Path) -> None:
    """Tokens, REQIDs, remembered ids."""
    with serve(tmp_path / "old") as server, Conn(server.port) as conn:
        conn.ok("QDECLARE", "q")
        put(conn, "q", "m", "ID", "k")
        put(conn, "q", "n", "ID", "gone")
        first, second = conn.array("QLEASE", "q", "COUNT", 2, "REQID", "r")
        assert isinstance(first, list)
        assert isinstance(second, list)
        token, other = first[2], second[2]
        assert isinstance(token, bytes)
        assert isinstance(other, bytes)
        assert conn.integer("QACK", "q", other) == 1
        assert server.stop() == 0
    _, out, _ = run("export", tmp_path / "old")
    assert run("import", tmp_path / "new", stdin=out)[0] == 0
    with serve(tmp_path / "new") as server, Conn(server.port) as conn:
        assert conn.array("QLEASE", "q", "COUNT", 2, "REQID", "r") == [first]
        assert conn.integer("QACK", "q", token) == 1
        conn.cmd("QPUT", "q", "n", "ID", "gone")
        assert stat(conn, "q", "duplicates") == 1
        assert stat(conn, "q", "acked") == 2
