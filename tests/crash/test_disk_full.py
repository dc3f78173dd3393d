"""A disk that is full: puts are refused, leases and acks go on, and when there is room again so do puts."""

from __future__ import annotations

import contextlib
import os
import resource
import shutil
import subprocess
import sys
from collections.abc import Callable, Generator
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.crash.faults import LAUNCHER, Disk, used
from tests.crash.running import SMALLEST, run, serve, serve_with
from tests.support import Conn, Error, ServerProcess, Value, as_bytes, bodies, lease, put, stat, wait_until
from tests.support.server import PROGRAM

BODY = b"x" * 30000


@dataclass(frozen=True)
class Small:
    """A small disk: a server on it, a way to make room on it, and a copy of what it holds."""

    server: ServerProcess
    make_room: Callable[[], None]
    copy: Callable[[], Path]


@contextlib.contextmanager
def with_quota(folder: Path) -> Generator[Small]:
    """The launcher counts what is written, and refuses what is too much as a file system does."""
    disk = Disk(folder / "orders")
    data = folder / "data"
    disk.order(quota=8_000_000)
    with serve_with(LAUNCHER, disk.environment, data, *SMALLEST) as server:
        yield Small(server, lambda: disk.order(quota=12_000_000), lambda: data)


@contextlib.contextmanager
def on_tmpfs(folder: Path) -> Generator[Small]:
    """A file system of 10 MB that only the server sees, a part of it taken by a file that can be removed."""
    mount = folder / "mount"
    mount.mkdir()
    script = f'mount -t tmpfs -o size=10m none {mount} && head -c 2000000 /dev/zero >{mount}/ballast && exec "$@"'
    program = (*_NAMESPACE, "sh", "-c", script, "-", *PROGRAM)
    with serve_with(program, {}, mount / "data", *SMALLEST) as server:
        inside = Path(f"/proc/{server.pid}/root{mount}")

        def copy() -> Path:
            return Path(shutil.copytree(inside / "data", folder / "copy"))

        yield Small(server, (inside / "ballast").unlink, copy)


_NAMESPACE = ("unshare", "--user", "--map-root-user", "--mount")


def _can_mount() -> bool:
    if sys.platform != "linux" or shutil.which("unshare") is None:
        return False
    command = [*_NAMESPACE, "mount", "-t", "tmpfs", "none", "/mnt"]
    return subprocess.run(command, capture_output=True, check=False).returncode == 0


#: A quota works everywhere; a real file system where users may have namespaces of their own.
DISKS = [with_quota, *([on_tmpfs] if _can_mount() else [])]


def fill(conn: Conn) -> list[bytes]:
    """Put until that is refused; the ids of what was confirmed."""
    ids: list[bytes] = []
    reply: Value
    while not isinstance(reply := conn.cmd("QPUT", "q", BODY), Error):
        ids.append(as_bytes(reply))
        assert len(ids) < 5000, "the disk is never full"
    assert reply.code == b"MISCONF", f"{reply}"
    assert b"space" in reply.text.lower() or b"room" in reply.text.lower(), f"{reply}"
    return ids


@pytest.mark.parametrize("disk", DISKS)
def test_a_full_disk_refuses_puts_and_nothing_else(
    disk: Callable[[Path], contextlib.AbstractContextManager[Small]], tmp_path: Path
) -> None:
    """Leases, acks, nacks and deletes go on, hundreds of them; what was confirmed is there after a crash."""
    with disk(tmp_path) as small:
        server = small.server
        with Conn(server.port) as conn:
            conn.ok("QDECLARE", "q", "RETRYDELAY", 0)
            ids = fill(conn)
            assert len(ids) > 100
            for command in (("QMPUT", "q", BODY, BODY), ("QDECLARE", "other", "MAXLEN", 5)):
                reply = conn.cmd(*command)
                assert not isinstance(reply, Error) or reply.code == b"MISCONF", f"{command[0]}: {reply}"
            assert stat(conn, "q", "ready") == len(ids)
            gone: list[bytes] = []
            for _ in range(3):
                for found in lease(conn, "q", "COUNT", 30):
                    assert conn.integer("QNACK", "q", found.lease, "RELEASE") == 1
            for found in lease(conn, "q", "COUNT", 20):
                assert conn.integer("QACK", "q", found.lease) == 1
                gone.append(found.id)
            held = lease(conn, "q", "COUNT", 5)
            server.wait_for_log("(?i)space|full|room")
        copy = small.copy()
        server.kill()
        assert "Traceback" not in server.log
    status, _, said = run("check", copy)
    assert status == 0, said
    with serve(copy, *SMALLEST) as server, Conn(server.port) as conn:
        assert conn.integer("QACK", "q", *(found.lease for found in held)) == 5
        left = [found.id for found in lease(conn, "q", "COUNT", 5000)]
        assert sorted(left + gone + [found.id for found in held]) == sorted(ids)


@pytest.mark.parametrize("disk", DISKS)
def test_puts_go_on_when_there_is_room_again(
    disk: Callable[[Path], contextlib.AbstractContextManager[Small]], tmp_path: Path
) -> None:
    """Made by others; without a restart."""
    with disk(tmp_path) as small, Conn(small.server.port) as conn:
        conn.ok("QDECLARE", "q")
        before = fill(conn)
        small.make_room()
        wait_until(lambda: not isinstance(conn.cmd("QPUT", "q", "again"), Error), "a put succeeds")
        found = bodies(lease(conn, "q", "COUNT", 5000))
        assert found[: len(before)] == [BODY] * len(before)
        assert set(found[len(before) :]) == {b"again"}
        assert "Traceback" not in small.server.log


@pytest.mark.parametrize("disk", DISKS)
def test_acks_make_room(disk: Callable[[Path], contextlib.AbstractContextManager[Small]], tmp_path: Path) -> None:
    """When all is done, the journal is compacted on the full disk, and puts go on."""
    with disk(tmp_path) as small, Conn(small.server.port) as conn:
        conn.ok("QDECLARE", "q", "DEDUPE", 0)
        for _ in range(2):
            fill(conn)
            while found := lease(conn, "q", "COUNT", 50):
                assert conn.integer("QACK", "q", *(one.lease for one in found)) == len(found)
            for _ in range(100):
                wait_until(lambda: not isinstance(conn.cmd("QPUT", "q", BODY), Error), "a put succeeds")
        assert "Traceback" not in small.server.log


def test_a_limit_of_the_size_of_files_is_an_error(tmp_path: Path) -> None:
    """RLIMIT_FSIZE, below what a segment wants: an error for the put, and no lie; without the limit all is well."""
    data = tmp_path / "data"
    with serve(data, *SMALLEST) as server, Conn(server.port) as conn:
        conn.ok("QDECLARE", "q")
        put(conn, "q", "before")
        limit = used(data)
        resource.prlimit(server.pid, resource.RLIMIT_FSIZE, (limit, limit))
        replies = [conn.cmd("QPUT", "q", os.urandom(50_000)) for _ in range(100)]
        refused = [reply for reply in replies if isinstance(reply, Error)]
        assert {reply.code for reply in refused} <= {b"MISCONF"}
        confirmed = {as_bytes(reply) for reply in replies if not isinstance(reply, Error)}
        assert refused
        server.kill()
        assert "Traceback" not in server.log
    with serve(data, *SMALLEST) as server, Conn(server.port) as conn:
        assert {found.id for found in lease(conn, "q", "COUNT", 1000)} >= confirmed
        put(conn, "q", "after")
