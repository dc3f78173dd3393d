"""What `respmq` exports: each name once, typed where checkers look, and loaded only when it is asked for."""

from __future__ import annotations

import ast
import subprocess
import sys

import pytest

import respmq
from tests.support.server import ROOT


def typed_names() -> dict[str, str]:
    """The names that type checkers see, each with the module that it comes from."""
    tree = ast.parse((ROOT / "respmq" / "__init__.py").read_text("utf-8"))
    (branch,) = (node for node in tree.body if isinstance(node, ast.If))
    return {
        alias.name: node.module or ""
        for node in branch.body
        if isinstance(node, ast.ImportFrom)
        for alias in node.names
    }


def test_what_checkers_see_is_what_there_is() -> None:
    typed = typed_names()
    assert sorted([*typed, "__version__"]) == sorted(respmq.__all__)
    for name, module in typed.items():
        assert getattr(respmq, name) is getattr(sys.modules[module], name)
        assert name in dir(respmq)


def test_every_public_class_and_function_says_what_it_is() -> None:
    for name in respmq.__all__:
        value = getattr(respmq, name)
        if callable(value):
            assert value.__doc__, name
            for member in vars(value) if isinstance(value, type) else ():
                method = getattr(value, member)
                if not member.startswith("_") and callable(method):
                    assert method.__doc__, f"{name}.{member}"


def test_the_names_of_types_are_types_for_programs_that_evaluate_their_annotations() -> None:
    assert respmq.Body | None
    assert respmq.JsonValue | bytes


def test_an_unknown_name_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match="module 'respmq' has no attribute 'Brokr'"):
        getattr(respmq, "Brokr")  # noqa: B009 - a type checker would see that it isn't there


def test_queues_for_scripts_load_no_event_loop() -> None:
    program = "import sys; from respmq import MessageQueue, PubSub, load_queues; print('trio' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True, cwd=ROOT)
    assert done.stdout == "False\n"


@pytest.mark.parametrize("module", ["respmq.cli", "respmq.server.app"])
def test_a_server_loads_nothing_that_only_programs_need(module: str) -> None:
    program = f"import sys, {module}; print(*sorted(m for m in sys.modules if m.startswith('respmq.')))"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True, cwd=ROOT)
    loaded = {name.split(".")[1] for name in done.stdout.split()}
    assert "version" in loaded
    assert not loaded & {"api", "calls", "local", "worker", "client", "redis", "testing"}
