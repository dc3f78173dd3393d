"""Imports run one way, and what must not touch the world outside imports nothing that does.

    errors <- resp <- commands <- server's sessions <- server's loop <- server.app <- cli
    errors <- core <- engine

Each part of the package may import itself and what `MAY_IMPORT` names; a new part has to be entered there. Imports for
type checkers count like any others: what a module speaks of belongs to its layer, too.
"""

from __future__ import annotations

import ast
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent / "respmq"

#: The modules of `respmq.server` that do I/O; the others are the sessions and what they share, and do none.
LOOP = {
    "server.acceptor",
    "server.poller",
    "server.heartbeat",
    "server.connection",
    "server.reactor",
    "server.safekeeping",
}

BASICS = {"errors", "durations", "globs", "pending"}
MAY_IMPORT: dict[str, set[str]] = {
    "version": set(),
    "errors": set(),
    "durations": {"errors"},
    "globs": {"errors"},
    "pending": {"errors"},
    "config": {"durations", "errors"},
    "configfile": {"config", "errors"},
    "resp": {"errors"},
    "core": BASICS,
    "journal": {"core", "errors"},
    "engine": {"core", "journal", *BASICS},
    "commands": {"version", "resp", "core", "engine", "config", "configfile", *BASICS},
    "sessions": {"version", "commands", "resp", "core", "engine", "config", *BASICS},
    "loop": {"sessions", "engine", "resp", "config", "errors"},
    "nursery": set(),
    "app": {"version", "nursery", "loop", "sessions", "commands", "core", "engine", "journal", "config", *BASICS},
    "metrics": {"version", "sessions", "engine", "core", "errors"},
    "api": {"core", *BASICS},
    "local": {"nursery", "api", "core", "engine", *BASICS},
    "worker": {"nursery", "api", "local", *BASICS},
    "calls": {"api", "core", "errors"},
    "codegen": {"commands", "calls", "errors"},
    "client": {"version", "nursery", "api", "calls", "core", "resp", "errors"},
    "redis": {"api", "calls", "errors"},
    "testing": {"api", "local", "errors"},
    "bench": {"resp"},
    "cli": {
        "version",
        "app",
        "sessions",
        "client",
        "worker",
        "core",
        "engine",
        "journal",
        "metrics",
        "config",
        "configfile",
        "commands",
        "bench",
        *BASICS,
    },
    "main": {"cli"},
    "package": {"version", "api", "calls", "local", "worker", "client", "app", "errors"},
}

#: Of core, commands know the words in which they speak to the engine, and not what it is made of.
WORDS_OF_CORE = {"core.model", "core.stats", "core.waiting", "core.directory", "core.exchanges", "core.events"}

#: Who may use what doesn't come with Python.
THIRD_PARTY = {
    "trio": {
        *(
            "nursery",
            "server.acceptor",
            "server.reactor",
            "server.app",
            "server.embedded",
            "cli",
            "journal.writer",
            "client",
            "metrics",
        ),
        *("testing", "api", "local", "worker"),
    },
    "hiredis": {"resp.reader", "client.wire", "bench"},
    "click": {"cli"},
    "structlog": {"cli"},
    "redis": {"cli.demo", "redis"},
    "pytest": {"testing"},
}

#: What core may use of the standard library: nothing that knows the time, rolls dice, or talks to anybody.
HARMLESS = {
    *(
        "__future__",
        "collections",
        "abc",
        "dataclasses",
        "datetime",
        "enum",
        "functools",
        "heapq",
        "itertools",
        "json",
        "math",
    ),
    *("re", "struct", "types", "typing"),
}

#: What a session must not use either.
WORLDLY = {
    *("time", "random", "asyncio", "threading", "socket", "select", "selectors", "ssl", "signal", "subprocess"),
    *("multiprocessing", "concurrent", "tempfile", "trio"),
}


def modules() -> dict[str, Path]:
    """Every module by its name without `respmq.` (`package` is the package's own)."""
    found: dict[str, Path] = {}
    for path in sorted(ROOT.rglob("*.py")):
        parts = path.relative_to(ROOT).with_suffix("").parts
        name = ".".join(parts[:-1] if parts[-1] == "__init__" else parts)
        found[name or "package"] = path
    return found


MODULES = modules()


def part(module: str) -> str:
    """The part of the package to which a module belongs."""
    if module == "__main__":
        return "main"
    if module in {"server.app", "server.embedded"}:
        return "app"
    if module in LOOP:
        return "loop"
    first = module.partition(".")[0]
    return "sessions" if first == "server" else first


def imports(module: str) -> Iterator[str]:
    """What a module imports, in full: `respmq.core.model`, `trio.lowlevel`."""
    for node in ast.walk(ast.parse(MODULES[module].read_text("utf-8"))):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{module}: imports are absolute here"
            assert node.module is not None
            # `from respmq.server import app` imports a module, too.
            submodules = [f"{node.module}.{alias.name}" for alias in node.names]
            own = [name for name in submodules if name.removeprefix("respmq.") in MODULES]
            yield from own or [node.module]


def own_imports(module: str) -> set[str]:
    """The modules of this package that a module imports."""
    found = {name for name in imports(module) if name.partition(".")[0] == "respmq"}
    return {name.removeprefix("respmq").removeprefix(".") or "package" for name in found}


def outside_imports(module: str) -> set[str]:
    """The top-level packages of others that a module imports."""
    return {name.partition(".")[0] for name in imports(module)} - {"respmq"}


@pytest.mark.parametrize("module", MODULES)
def test_a_module_imports_only_what_lies_below_it(module: str) -> None:
    here = part(module)
    assert here in MAY_IMPORT, f"{module} belongs to no layer: say in MAY_IMPORT what it may import"
    above = {name for name in own_imports(module) if part(name) not in MAY_IMPORT[here] | {here}}
    assert not above, f"{module} ({here}) imports {', '.join(sorted(above))}"


@pytest.mark.parametrize("module", [name for name in MODULES if part(name) == "commands"])
def test_commands_do_not_look_into_the_broker(module: str) -> None:
    inner = {name for name in own_imports(module) if part(name) == "core"} - WORDS_OF_CORE
    assert not inner, f"{module} imports {', '.join(sorted(inner))}"
    engine = {name for name in own_imports(module) if part(name) == "engine"}
    assert engine <= {"engine.base"}


@pytest.mark.parametrize("module", MODULES)
def test_third_parties_are_used_where_they_belong(module: str) -> None:
    for name in outside_imports(module) - sys.stdlib_module_names:
        users = THIRD_PARTY.get(name, set())
        assert any(module == user or module.startswith(f"{user}.") for user in users), f"{module} imports {name}"


@pytest.mark.parametrize(
    "module", [name for name in MODULES if part(name) in {"core", "pending", "durations", "globs", "errors"}]
)
def test_core_reads_no_clock_and_rolls_no_dice(module: str) -> None:
    assert outside_imports(module) <= HARMLESS
    for node in ast.walk(ast.parse(MODULES[module].read_text("utf-8"))):
        if isinstance(node, ast.Attribute):
            assert node.attr not in {"utcnow", "today"}, f"{module}: line {node.lineno}"
            assert not (node.attr == "now" and getattr(node.value, "id", "") in {"datetime", "date"})


@pytest.mark.parametrize(
    "module", [name for name in MODULES if part(name) in {"sessions", "resp", "commands", "engine"}]
)
def test_sessions_and_what_they_stand_on_do_no_io(module: str) -> None:
    assert not outside_imports(module) & WORLDLY


def test_the_layers_themselves_run_one_way() -> None:
    """What may be imported may not import back, by whatever way."""

    def below(name: str, *seen: str) -> set[str]:
        assert name not in seen, f"{name} is below itself"
        found = set(MAY_IMPORT[name])
        for other in MAY_IMPORT[name]:
            found |= below(other, name, *seen)
        return found

    for name in MAY_IMPORT:
        assert name not in below(name)
