"""Writes respmq/calls/ from the command table: `python -m respmq.codegen.generate`, or with `--check` only compares.

For each command of the broker's own, a function that makes the `Call`, and a method of the same name for clients that
block (`Commands`) and for clients that are awaited (`AsyncCommands`). `--check` changes nothing and exits with status 1
if a file is not what would be written.
"""

from __future__ import annotations

import sys
from pathlib import Path

from respmq.codegen.module import NOTICE, methods_module, module
from respmq.codegen.table import MODULES

CALLS = Path(__file__).resolve().parent.parent / "calls"


def generated() -> dict[Path, str]:
    """Every generated file and what it must hold."""
    files = {CALLS / f"{name}.py": module(name, commands) for name, commands in MODULES.items()}
    files[CALLS / "methods.py"] = methods_module()
    return files


def stale() -> list[Path]:
    """Files that are not as they would be written, and generated ones that nothing writes any more."""
    wanted = generated()
    changed = [path for path, text in wanted.items() if not path.exists() or path.read_text(encoding="utf-8") != text]
    there = [path for path in sorted(CALLS.glob("*.py")) if NOTICE in path.read_text(encoding="utf-8")]
    return changed + [path for path in there if path not in wanted]


def main(arguments: list[str]) -> int:
    """Write the files, or compare them; returns the exit status."""
    if arguments not in ([], ["--check"]):
        print("usage: python -m respmq.codegen.generate [--check]", file=sys.stderr)
        return 2
    paths = stale()
    wanted = generated()
    for path in paths:
        shown = f"respmq/calls/{path.name}"
        if arguments:
            print(f"{shown} is out of date, run: python -m respmq.codegen.generate", file=sys.stderr)
        elif path in wanted:
            path.write_text(wanted[path], encoding="utf-8")
            print(f"wrote {shown}")
        else:
            path.unlink()
            print(f"removed {shown}")
    return int(bool(arguments and paths))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
