"""Vector files, read and checked: TOML in, dataclasses out. Unknown keys are errors, not ignored."""

import tomllib
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from conformance import expect
from conformance.text import ANY_NAME, Names, VectorError, encode

DIRECTORY = Path(__file__).parent / "vectors"

_VECTOR_KEYS = {"name", "promise", "steps", "finally", "protocols", "redis", "needs", "cut"}
_STEP_KEYS = {
    "on", "send", "pipeline", "raw", "advance", "open", "close", "protocol", "blocked", "quiet", "closed", "drain",
    "reply", "reply2", "reply3", "replies", "replies2", "replies3", "bytes", "bytes2", "bytes3", "repeat", "steps",
}  # fmt: skip
_OPENINGS = {"2", "3", "bare"}
_CLOSINGS = {"fin", "reset"}
NEEDS = {"virtual-clock"}


@dataclass(frozen=True)
class Argument:
    """One argument of a command: text, repeated ``times``; or (``spread``) that many equal arguments."""

    text: str
    times: int = 1
    spread: bool = False

    def expand(self, names: Names) -> list[bytes]:
        """The argument or arguments that this stands for."""
        data = encode(self.text, names)
        return [data] * self.times if self.spread else [data * self.times]


Command = list[Argument]


@dataclass(frozen=True)
class Step:
    """One step of a vector. Either a repeated group (``repeat`` > 0) or something done on one connection."""

    number: int
    on: str = "A"
    commands: tuple[tuple[Argument, ...], ...] = ()
    raw: Argument | None = None
    advance: str | None = None
    open: str | None = None
    close: str | None = None
    protocol: int | None = None
    blocked: bool = False
    quiet: bool = False
    closed: bool = False
    drain: bool = False
    replies: dict[int, list[Any]] = field(default_factory=dict)
    exact: dict[int, Argument] = field(default_factory=dict)
    repeat: int = 0
    steps: tuple["Step", ...] = ()

    @property
    def sends(self) -> bool:
        """Whether anything is written to the connection."""
        return bool(self.commands) or self.raw is not None

    @property
    def expects(self) -> bool:
        """Whether anything is looked at afterwards (else the runner makes a barrier)."""
        return bool(self.replies or self.exact or self.blocked or self.quiet or self.closed)


@dataclass(frozen=True)
class Vector:
    """One promise, and the steps that show whether a server keeps it."""

    file: str
    name: str
    promise: str
    steps: tuple[Step, ...]
    cleanup: tuple[Step, ...] = ()
    protocols: tuple[int, ...] = (2, 3)
    redis: bool = False
    needs: frozenset[str] = frozenset()
    cut: bool = True

    @property
    def title(self) -> str:
        """What ``--only`` matches and reports print."""
        return f"{self.file}/{self.name}"


def walk(steps: tuple[Step, ...]) -> Iterator[Step]:
    """All steps, those inside groups too (once each)."""
    for step in steps:
        yield step
        yield from walk(step.steps)


def load(directory: Path = DIRECTORY) -> list[Vector]:
    """Every vector of every ``*.toml`` in the directory, in order; VectorError names the file."""
    vectors: list[Vector] = []
    for path in sorted(directory.glob("*.toml")):
        vectors += load_file(path)
    if not vectors:
        raise VectorError(f"no vectors in {directory}")
    return vectors


def load_file(path: Path) -> list[Vector]:
    """The vectors of one file."""
    try:
        document = tomllib.loads(path.read_text("utf-8"))
        if set(document) - {"about", "vector"}:
            raise VectorError(f"unknown keys {sorted(set(document) - {'about', 'vector'})}")
        vectors = [_vector(path.stem, table) for table in document.get("vector", [])]
        names = [vector.name for vector in vectors]
        twice = {name for name in names if names.count(name) > 1}
        if twice:
            raise VectorError(f"names used twice: {sorted(twice)}")
    except (tomllib.TOMLDecodeError, VectorError) as error:
        raise VectorError(f"{path.name}: {error}") from None
    return vectors


def _vector(file: str, table: dict[str, Any]) -> Vector:
    name = table.get("name", "(a vector without a name)")
    try:
        _known(table, _VECTOR_KEYS)
        for key in ("name", "promise", "steps"):
            if not table.get(key):
                raise VectorError(f"{key!r} is missing")
        steps = tuple(parse_step(number, step) for number, step in enumerate(table["steps"], 1))
        needs = set(table.get("needs", []))
        if needs - NEEDS:
            raise VectorError(f"unknown needs {sorted(needs - NEEDS)}")
        if any(step.advance is not None for step in walk(steps)):
            needs.add("virtual-clock")
        return Vector(
            file=file,
            name=table["name"],
            promise=table["promise"],
            steps=steps,
            cleanup=tuple(parse_step(number, step) for number, step in enumerate(table.get("finally", []), 1)),
            protocols=tuple(table.get("protocols", (2, 3))),
            redis=table.get("redis", False),
            needs=frozenset(needs),
            cut=table.get("cut", True),
        )
    except VectorError as error:
        raise VectorError(f"{name}: {error}") from None


def parse_step(number: int, table: dict[str, Any]) -> Step:
    """One step, from its table."""
    try:
        _known(table, _STEP_KEYS)
        if "repeat" in table or "steps" in table:
            if set(table) != {"repeat", "steps"}:
                raise VectorError("a group has 'repeat' and 'steps' and nothing else")
            inner = tuple(parse_step(at, step) for at, step in enumerate(table["steps"], 1))
            return Step(number, repeat=table["repeat"], steps=inner)
        commands = [table["send"]] if "send" in table else table.get("pipeline", [])
        if sum(key in table for key in ("send", "pipeline", "raw", "advance")) > 1:
            raise VectorError("'send', 'pipeline', 'raw' and 'advance' exclude one another")
        if table.get("open", "2") not in _OPENINGS or table.get("close", "fin") not in _CLOSINGS:
            raise VectorError(f"'open' is one of {sorted(_OPENINGS)}, 'close' one of {sorted(_CLOSINGS)}")
        return Step(
            number,
            on=table.get("on", "A"),
            commands=tuple(tuple(_command(command)) for command in commands),
            raw=_argument(table["raw"]) if "raw" in table else None,
            advance=table.get("advance"),
            open=table.get("open"),
            close=table.get("close"),
            protocol=table.get("protocol"),
            blocked=table.get("blocked", False),
            quiet=table.get("quiet", False),
            closed=table.get("closed", False),
            drain=table.get("drain", False),
            replies=_replies(table),
            exact=_exact(table),
        )
    except VectorError as error:
        raise VectorError(f"step {number}: {error}") from None


def _known(table: dict[str, Any], keys: set[str]) -> None:
    if set(table) - keys:
        raise VectorError(f"unknown keys {sorted(set(table) - keys)}")


def _command(value: object) -> Command:
    if isinstance(value, str):
        return [_argument(word) for word in value.split(" ")]
    if not expect.is_list(value) or not value:
        raise VectorError(f"a command is a string or a list: {value!r}")
    return [_argument(word) for word in value]


def _argument(value: object) -> Argument:
    table = value if expect.is_table(value) else {}
    if isinstance(value, str):
        found = Argument(value)
    elif set(table) == {"bytes", "times"}:
        found = Argument(table["bytes"], table["times"])
    elif set(table) == {"args", "times"}:
        found = Argument(table["args"], table["times"], spread=True)
    else:
        raise VectorError(f"an argument is a string, {{bytes, times}} or {{args, times}}: {value!r}")
    encode(found.text, ANY_NAME)
    return found


def _replies(table: dict[str, Any]) -> dict[int, list[Any]]:
    found: dict[int, list[Any]] = {}
    for suffix, protocols in (("", (2, 3)), ("2", (2,)), ("3", (3,))):
        one, many = "reply" + suffix, "replies" + suffix
        if one in table or many in table:
            expected = [table[one]] if one in table else table[many]
            expect.validate(expected)
            found.update(dict.fromkeys(protocols, expected))
    return found


def _exact(table: dict[str, Any]) -> dict[int, Argument]:
    found: dict[int, Argument] = {}
    for suffix, protocols in (("", (2, 3)), ("2", (2,)), ("3", (3,))):
        if "bytes" + suffix in table:
            found.update(dict.fromkeys(protocols, _argument(table["bytes" + suffix])))
    return found
