"""`respmq check`, `export` and `import`, and a server that finds something wrong, as a user runs them."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path
from zlib import crc32

import pytest
from click.testing import CliRunner, Result

from respmq.cli import main
from respmq.journal import format as fmt
from respmq.journal.segment import Segment, segment_path
from tests.support import OK, Conn, lease_one, run_to_end, start_server
from tests.support.server import ROOT

PATIENCE = 30.0
BODY = "zwölf \u20ac"


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What a server has left: a queue with a message, a dead letter and a leased message."""
    folder = tmp_path_factory.mktemp("made") / "data"
    with start_server("--data", str(folder)) as server:
        with Conn(server.port) as conn:
            assert conn.cmd("QDECLARE", "jobs") == OK
            conn.cmd("QPUT", "jobs", BODY, "ID", "one")
            conn.cmd("QPUT", "jobs", b"\xff\x00", "ID", "two")
            conn.cmd("QPUT", "jobs", "dies", "PRIORITY", -1)
            dying = lease_one(conn, "jobs")
            conn.cmd("QNACK", "jobs", dying.lease, "REJECT")
            lease_one(conn, "jobs", "LEASE", "1h")
        assert server.stop() == 0
    return folder


@pytest.fixture
def folder(made: Path, tmp_path: Path) -> Path:
    """A copy of it."""
    copy = tmp_path / "data"
    copy.mkdir()
    for path in made.iterdir():
        (copy / path.name).write_bytes(path.read_bytes())
    return copy


def run(*args: str | Path, stdin: str | bytes | None = None) -> Result:
    """Run a command within this process; it may only end as a command does."""
    result = CliRunner().invoke(main, [str(arg) for arg in args], input=stdin)
    assert result.exception is None or isinstance(result.exception, SystemExit), result.exception
    return result


def fail(*args: str | Path, stdin: str | bytes | None = None) -> str:
    """Run a command that must fail with one line; that line."""
    result = run(*args, stdin=stdin)
    assert (result.exit_code, result.stdout) == (1, "")
    (line,) = result.stderr.splitlines()
    assert line.startswith("Error: ")
    return line.removeprefix("Error: ")


def damage(folder: Path, batch: int = 1) -> None:
    path = segment_path(folder, 1)
    found = list(Segment(path, 1).batches())[batch]
    data = bytearray(path.read_bytes())
    data[found.end - 1] ^= 1
    path.write_bytes(data)


# -- check -------------------------------------------------------------------------------------------------------------


def test_check_of_a_sound_journal(folder: Path) -> None:
    result = run("check", folder)
    assert result.exit_code == 0
    first, *others = result.stdout.splitlines()
    size = segment_path(folder, 1).stat().st_size
    assert re.fullmatch(rf"{folder}: 1 segments, {size} bytes, \d+ batches, \d+ records", first)
    assert others == ["it holds 1 queues, 2 messages and 1 dead letters", "a server starts with it"]


def test_check_of_a_torn_tail(folder: Path) -> None:
    path = segment_path(folder, 1)
    end = path.stat().st_size
    path.write_bytes(path.read_bytes() + b"torn")
    result = run("check", folder)
    assert result.exit_code == 0
    assert f"the end was cut off in a write: {path}, offset {end}: " in result.stdout
    assert "4 bytes can't be read" in result.stdout
    assert result.stdout.endswith("a server starts with it\n")


def test_check_of_a_damage_and_its_repair(folder: Path) -> None:
    damage(folder)
    before = segment_path(folder, 1).read_bytes()
    result = run("check", folder)
    assert result.exit_code == 1
    assert re.search(
        r"^damaged: .*, offset \d+: the checksum of a batch is wrong; \d+ bytes can't", result.stdout, re.MULTILINE
    )
    assert "no server starts with it: the journal is damaged" in result.stdout
    assert result.stdout.endswith(
        f"`respmq check {folder} --repair` leaves out what can't be read and keeps all else\n"
    )
    assert segment_path(folder, 1).read_bytes() == before
    result = run("check", folder, "--repair")
    assert result.exit_code == 0
    assert "repaired: " in result.stdout
    assert result.stdout.endswith("a server starts with it\n")
    assert (folder / "00000000000000000001.journal.damaged").read_bytes() == before
    assert run("check", folder).exit_code == 0


def test_repair_of_a_sound_journal_does_nothing(folder: Path) -> None:
    before = segment_path(folder, 1).read_bytes()
    result = run("check", folder, "--repair")
    assert (result.exit_code, "repaired" in result.stdout) == (0, False)
    assert segment_path(folder, 1).read_bytes() == before


def test_repair_of_a_newer_version_is_refused(folder: Path) -> None:
    path = segment_path(folder, 1)
    head = bytearray(path.read_bytes()[: fmt.SEGMENT_HEAD.size])
    head[8] = fmt.VERSION + 1
    path.write_bytes(bytes(head) + crc32(head).to_bytes(4, "little") + path.read_bytes()[fmt.SEGMENT_SIZE :])
    before = path.read_bytes()
    result = run("check", folder, "--repair")
    assert result.exit_code == 1
    assert f"{path} has format version 3, and this program reads versions 1 to 2" in result.output
    assert "leaves out what can't be read" not in result.output
    assert path.read_bytes() == before


@pytest.mark.parametrize("command", ["check", "export"])
def test_a_folder_that_is_none(command: str, tmp_path: Path) -> None:
    missing = tmp_path / "missing"
    assert fail(command, missing) == f"{missing} is no folder: name the one that `respmq serve --data` was given"
    assert not missing.exists()


@pytest.mark.parametrize("command", ["check", "export"])
def test_a_folder_without_a_journal(command: str, tmp_path: Path) -> None:
    """An empty backup of a mistyped folder would be found out too late."""
    (tmp_path / "notes.txt").touch()
    expected = f"there is no journal in {tmp_path}: name the folder that `respmq serve --data` was given"
    assert fail(command, tmp_path) == expected
    assert [path.name for path in tmp_path.iterdir()] == ["notes.txt"]


# -- a server that uses it ---------------------------------------------------------------------------------------------


def test_while_a_server_uses_the_folder(folder: Path) -> None:
    with start_server("--data", str(folder)) as server:
        expected = f"the folder {folder} is in use by process {server.pid}: choose another folder, or stop that server"
        for args in (("check", folder), ("check", folder, "--repair"), ("export", folder)):
            assert fail(*args).startswith(expected)
        status, text = run_to_end("--port", "0", "--data", str(folder))
        assert status == 1
        assert text.startswith(f"Error: {expected}")
        assert "Traceback" not in text
        assert server.stop() == 0


def test_a_server_does_not_start_with_a_damaged_journal(folder: Path) -> None:
    damage(folder)
    status, text = run_to_end("--port", "0", "--data", str(folder))
    assert status == 1
    assert "Traceback" not in text
    assert re.search(
        rf"^Error: the journal is damaged: {folder}/.*\.journal, offset \d+: .* whole batches foll", text, re.MULTILINE
    )
    assert text.endswith(f"See `respmq check {folder}`\n")


def test_a_server_does_not_start_with_a_file_that_it_can_t_read(folder: Path) -> None:
    path = segment_path(folder, 1)
    path.unlink()
    path.mkdir()
    status, text = run_to_end("--port", "0", "--data", str(folder))
    assert status == 1
    assert "Traceback" not in text
    assert text.endswith(f"Error: can't read the journal, {path}: Is a directory\n")


def test_the_banner_tells_where_it_is(folder: Path) -> None:
    with start_server("--data", str(folder), "--fsync", "everysec") as server:
        server.wait_for_log(f"^Journal in {re.escape(str(folder))}, fsync everysec$")
        assert server.stop() == 0


def test_a_server_tells_what_it_has_cut_off(folder: Path) -> None:
    path = segment_path(folder, 1)
    end = path.stat().st_size
    path.write_bytes(path.read_bytes() + b"torn")
    with start_server("--data", str(folder), "--log-format", "json") as server:
        line = json.loads(server.wait_for_log("the end of the journal was cut off in a write"))
        assert (line["level"], line["file"], line["offset"], line["bytes"]) == ("warning", str(path), end, 4)
        loaded = json.loads(server.wait_for_log("the journal is loaded"))
        assert (loaded["folder"], loaded["queues"]) == (str(folder), 1)
        assert server.stop() == 0


@pytest.mark.parametrize(
    ("flags", "message"),
    [
        (("--fsync", "sometimes"), "invalid value 'sometimes' of 'fsync' in --fsync: one of always, everysec, no is"),
        (("--journal-segment-size", "1kb"), "invalid value '1kb' of 'journal-segment-size' in --journal-segment-size"),
    ],
)
def test_wrong_settings(flags: tuple[str, ...], message: str, tmp_path: Path) -> None:
    result = run("serve", "--data", tmp_path, *flags)
    assert (result.exit_code, result.stdout) == (2, "")
    assert result.stderr.startswith(f"Error: {message}")
    assert list(tmp_path.iterdir()) == []


# -- export and import -------------------------------------------------------------------------------------------------


def test_export_prints_json_lines(folder: Path) -> None:
    result = run("export", folder)
    assert (result.exit_code, result.stderr) == (0, "")
    lines = [json.loads(line) for line in result.stdout.splitlines()]
    assert [line["type"] for line in lines] == ["broker", "queue", "message", "message", "dead_letter", "end"]
    assert [line["body"] for line in lines[2:5]] == [BODY, {"base64": "/wA="}, "dies"]
    assert [line["state"] for line in lines[2:4]] == ["leased", "ready"]


def test_import_makes_a_journal_of_them(folder: Path, tmp_path: Path) -> None:
    text = run("export", folder).stdout
    new = tmp_path / "deep" / "new"
    result = run("import", new, stdin=text)
    assert (result.exit_code, result.stdout) == (0, "")
    assert result.stderr == f"{new}: 1 queues, 3 messages and dead letters\n"
    assert run("export", new).stdout == text
    with start_server("--data", str(new)) as server:
        with Conn(server.port) as conn:
            assert lease_one(conn, "jobs").body == b"\xff\x00"
            assert conn.cmd("QDEAD", "LEN", "jobs") == 1
            token = json.loads(text.splitlines()[2])["lease"]
            assert conn.cmd("QACK", "jobs", token) == 1
        assert server.stop() == 0


def test_a_pipe_in_any_locale(folder: Path, tmp_path: Path) -> None:
    """Lines are UTF-8 whatever the terminal speaks."""
    new = tmp_path / "new"
    environment = {**os.environ, "LC_ALL": "C", "PYTHONCOERCECLOCALE": "0", "PYTHONUTF8": "0"}
    respmq = f"{sys.executable} -m respmq"
    done = subprocess.run(
        ["sh", "-c", f"{respmq} export {folder} | {respmq} import {new} && {respmq} export {new}"],
        cwd=ROOT,
        env=environment,
        capture_output=True,
        timeout=PATIENCE,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.decode() == run("export", folder).stdout
    assert BODY in done.stdout.decode()


def test_import_needs_a_new_folder(folder: Path) -> None:
    text = run("export", folder).stdout
    assert fail("import", folder, stdin=text) == f"{folder} is not empty: name a new folder"


@pytest.mark.parametrize(
    ("stdin", "message"),
    [
        ("", "there is nothing to import: the output of `respmq export` is expected on the standard input"),
        ("hello\n", "line 1: Expecting value: line 1 column 1 (char 0). Was it made by `respmq export`?"),
        (b"\xff\n", "line 1: "),
        ('{"type": "queue"}\n', 'line 1: the first line of an export is {"type":"broker","version":2,...}'),
    ],
)
def test_import_of_something_else(stdin: str | bytes, message: str, tmp_path: Path) -> None:
    new = tmp_path / "new"
    assert fail("import", new, stdin=stdin).startswith(message)
    assert not new.exists()


def test_export_of_a_damaged_journal(folder: Path) -> None:
    damage(folder)
    assert fail("export", folder).startswith(f"the journal is damaged: {segment_path(folder, 1)}, offset ")


@pytest.mark.parametrize("command", ["check", "export", "import"])
def test_help_says_what_it_does(command: str) -> None:
    result = run(command, "--help")
    assert result.exit_code == 0
    assert "FOLDER" in result.stdout
    assert f"  {command} " in run("--help").stdout
