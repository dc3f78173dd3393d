from __future__ import annotations

from pathlib import Path

import pytest

from conformance.every import is_pure
from conformance.model import Vector, load, load_file
from conformance.text import VectorError

VECTORS = load()


def one(tmp_path: Path, text: str) -> Vector:
    """The only vector of a file with this text."""
    path = tmp_path / "some.toml"
    path.write_text(text, encoding="utf-8")
    [vector] = load_file(path)
    return vector


def test_the_files_can_be_read_and_have_promises() -> None:
    assert len(VECTORS) > 300
    for vector in VECTORS:
        assert vector.promise.endswith("."), vector.title
        assert not vector.promise.count("\n"), vector.title


def test_many_vectors_are_pure_and_none_that_waits() -> None:
    pure = [vector for vector in VECTORS if is_pure(vector)]
    assert len(pure) > 100
    assert not any(vector.needs for vector in pure)


HEAD = '[[vector]]\nname = "a"\npromise = "It holds."\n'


def test_a_vector(tmp_path: Path) -> None:
    text = f"""{HEAD}protocols = [3]
redis = true
steps = [
  {{ on = "B", send = "ECHO a  b", reply2 = "$x", reply3 = "$y" }},
  {{ repeat = 2, steps = [
    {{ send = ["ECHO", {{ bytes = "ab", times = 3 }}, {{ args = "c", times = 2 }}], reply = "?" }},
  ] }},
]
"""
    vector = one(tmp_path, text)
    assert vector.title == "some/a"
    assert (vector.protocols, vector.redis, vector.needs) == ((3,), True, frozenset())
    first, group = vector.steps
    assert first.replies == {2: ["$x"], 3: ["$y"]}
    assert [argument.text for argument in first.commands[0]] == ["ECHO", "a", "", "b"]
    assert [data for argument in group.steps[0].commands[0] for data in argument.expand({})] == [
        b"ECHO",
        b"ababab",
        b"c",
        b"c",
    ]


def test_advancing_needs_a_virtual_clock(tmp_path: Path) -> None:
    assert one(tmp_path, HEAD + 'steps = [{ advance = "1s" }]').needs == {"virtual-clock"}
    assert one(tmp_path, HEAD + 'steps = [{ repeat = 2, steps = [{ advance = "1s" }] }]').needs == {"virtual-clock"}


@pytest.mark.parametrize(
    "text",
    [
        "[[vector]]\n",
        '[[vector]]\nname = "a"\npromise = "b"\n',
        HEAD + "steps = []",
        HEAD + 'steps = [{ sent = "PING" }]',
        HEAD + 'steps = [{ send = "PING", raw = "PING" }]',
        HEAD + 'steps = [{ send = "PING", reply = "PONG" }]',
        HEAD + 'steps = [{ send = "PING", reply = "$<what>" }]',
        HEAD + "steps = [{ send = 'PING \\q', reply = '+PONG' }]",
        HEAD + 'steps = [{ send = ["ECHO", 5], reply = "$5" }]',
        HEAD + 'steps = [{ repeat = 2, send = "PING" }]',
        HEAD + 'steps = [{ open = "4" }]',
        HEAD + 'steps = [{ close = "slowly" }]',
        HEAD + 'needs = ["luck"]\nsteps = [{ send = "PING" }]',
        HEAD + 'extra = 1\nsteps = [{ send = "PING" }]',
        f'{HEAD}steps = [{{ send = "PING" }}]\n{HEAD}steps = [{{ send = "PING" }}]',
        'abuot = "x"',
        "not toml",
    ],
)
def test_mistakes_in_a_file_are_named(tmp_path: Path, text: str) -> None:
    with pytest.raises(VectorError, match=r"some\.toml"):
        one(tmp_path, text)


def test_a_directory_without_vectors_is_a_mistake(tmp_path: Path) -> None:
    with pytest.raises(VectorError):
        load(tmp_path)


@pytest.mark.parametrize(
    ("steps", "pure"),
    [
        ('[{ send = "PING", reply = "+PONG" }]', True),
        ('[{ send = "QPUT {q} m", reply = "$<hex32 as id>" }, { send = "QSTATS {q}", reply = "?" }]', True),
        ('[{ send = "PING", reply = "+PONG", quiet = true }]', True),
        ('[{ open = "bare", send = "QUIT", reply = "+OK", closed = true }]', True),
        ('[{ send = "QPUT {q} m", reply = "$<hex32 as id>" }, { send = "QSHOW {q} {id}", reply = "?" }]', False),
        ('[{ on = "B", send = "PING", reply = "+PONG" }]', False),
        ('[{ send = "QLEASE {q} WAIT 0", blocked = true }]', False),
        ('[{ advance = "1s" }]', False),
        ('[{ send = "PING", reply = "+PONG" }, { close = "fin" }]', False),
        ('[{ send = ["ECHO", { bytes = "x", times = 5000 }], reply = "$<any>" }]', False),
    ],
)
def test_which_vectors_are_pure(tmp_path: Path, steps: str, *, pure: bool) -> None:
    assert is_pure(one(tmp_path, f"{HEAD}steps = {steps}")) is pure
