"""All vectors against the server itself, in both protocols and however their requests are cut."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from conformance import clients, every, report
from conformance.connection import Control
from conformance.model import Vector, load, walk
from conformance.play import FAILED, PASSED, Result, Settings, play
from tests.support import ServerProcess

VECTORS = load()
FILES = sorted({vector.file for vector in VECTORS})


@pytest.fixture(scope="module")
def control(virtual_server: ServerProcess) -> Iterator[Control]:
    one = Control(("127.0.0.1", virtual_server.port), 5.0)
    assert one.virtual, "the server's clock can't be advanced"
    yield one
    one.close()


def explain(results: list[Result]) -> str:
    """The failures, as the command line reports them."""
    promises = {(vector.file, vector.name): vector.promise for vector in VECTORS}
    lines: list[str] = []
    for result in results:
        if result.status == FAILED:
            lines += report.failure_lines(result, promises.get((result.file, result.name), ""))
    return "\n".join(lines)


@pytest.mark.parametrize("cut", ["whole", "bytes"])
@pytest.mark.parametrize("protocol", [2, 3])
@pytest.mark.parametrize("file", FILES)
def test_vectors(virtual_server: ServerProcess, control: Control, file: str, protocol: int, cut: str) -> None:
    settings = Settings(("127.0.0.1", virtual_server.port), protocol, cut)
    chosen = [vector for vector in VECTORS if vector.file == file and protocol in vector.protocols]
    results = [play(vector, settings, control) for vector in chosen]
    assert {result.status for result in results} == {PASSED}, explain(results)


@pytest.mark.parametrize(
    ("title", "protocol"),
    [(vector.title, protocol) for vector in VECTORS if every.is_pure(vector) for protocol in vector.protocols],
)
def test_vectors_cut_at_every_offset(
    virtual_server: ServerProcess, control: Control, title: str, protocol: int
) -> None:
    settings = Settings(("127.0.0.1", virtual_server.port), protocol, "every")
    [vector] = [vector for vector in VECTORS if vector.title == title]
    result = every.cut_everywhere(vector, settings, control)
    assert result.status == PASSED, explain([result])


@pytest.mark.parametrize("protocol", [2, 3])
def test_stock_clients(virtual_server: ServerProcess, protocol: int) -> None:
    results = clients.run(("127.0.0.1", virtual_server.port), (protocol,))
    assert FAILED not in {result.status for result in results}, explain(results)


def sent(vectors: list[Vector]) -> set[str]:
    """The commands that the vectors send, subcommands as COMMAND LIST names them."""
    found = set()
    for vector in vectors:
        for step in walk(vector.steps):
            for command in step.commands:
                words = [argument.text.lower() for argument in command[:2]]
                found |= {words[0], "|".join(words)}
            if step.advance is not None:
                found |= {"debug", "debug|advance"}
    return found


def test_every_command_has_a_vector(control: Control) -> None:
    reply = control.command("COMMAND", "LIST")
    assert reply.kind == "*", reply
    listed = {item.value.decode() for item in reply.value}
    assert len(listed) > 20
    assert not listed - sent(VECTORS)
