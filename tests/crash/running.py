"""Servers with a journal: starting them on a folder, killing them, and waiting until they have read it."""

from __future__ import annotations

import socket
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path

from tests.crash.preloaded import Nest, Preloaded
from tests.support import ClosedError, Conn, Error, ServerProcess, StartError, start_server, wait_until
from tests.support.server import PROGRAM, ROOT, START_DEADLINE

SMALLEST = ("--journal-segment-size", "64kb")


class _Nests:
    """The process that forks servers, once it is needed."""

    nest: Nest | None = None


def _nest() -> Nest:
    if _Nests.nest is None:
        _Nests.nest = Nest()
    return _Nests.nest


def close_nest() -> None:
    """End the process that forks servers."""
    if _Nests.nest is not None:
        _Nests.nest.close()
        _Nests.nest = None


def serve(data: Path, *flags: str) -> ServerProcess:
    """Start a server on a folder and return once it has read its journal."""
    return loaded(Preloaded(_nest(), ["--data", str(data), *flags]))


def serve_with(program: Sequence[str], env: Mapping[str, str], data: Path, *flags: str) -> ServerProcess:
    """The same, with another program than respmq."""
    return loaded(start_server("--data", str(data), *flags, env=env, program=program))


def serve_to_end(data: Path, *flags: str) -> tuple[int, str]:
    """Start a server that is expected to refuse the folder; its exit status and everything that it printed."""
    with Preloaded(_nest(), ["--data", str(data), *flags], listens=False) as server:
        return server.wait(), server.log


def loaded(server: ServerProcess) -> ServerProcess:
    """The server, once it has read its journal."""
    try:
        with Conn(server.port) as conn:
            wait_until(lambda: not is_loading(conn), "it has read its journal")
    except BaseException as error:
        server.kill()
        if isinstance(error, (ClosedError, ConnectionError)):
            raise StartError(f"it ended while it read its journal:\n{server.log}") from error
        raise
    return server


def is_loading(conn: Conn) -> bool:
    """Whether the server still reads its journal."""
    reply = conn.cmd("QLIST")
    return isinstance(reply, Error) and reply.code == b"LOADING"


def run(command: str, data: Path, *options: str, stdin: bytes = b"") -> tuple[int, bytes, str]:
    """Run `respmq COMMAND DIR ...` to its end; its exit status, what it printed on stdout and what on stderr."""
    done = subprocess.run(
        [*PROGRAM, command, str(data), *options],
        cwd=ROOT,
        input=stdin,
        capture_output=True,
        timeout=START_DEADLINE,
        check=False,
    )
    said = done.stderr.decode(errors="backslashreplace")
    assert "Traceback" not in said, said
    return done.returncode, done.stdout, said


def segments(data: Path) -> list[Path]:
    """The segment files of a folder, oldest first."""
    return sorted(data.glob("*.journal"))


def free_port() -> int:
    """A port that nobody listens on."""
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
    assert isinstance(port, int)
    return port
