"""Compiles the modules that run for every message to C, by mypyc, while a wheel is built.

pyproject.toml names them. Nothing about them is different but their speed: the same source runs uncompiled wherever
there is no C compiler, and in a checkout that is installed with `pip install -e`. The environment variable
RESPMQ_COMPILE decides if it is set: 1 compiles or fails, 0 doesn't compile. The source tree is left as it is.
"""

from __future__ import annotations

import os
import platform
import shutil
import subprocess
import sys
import sysconfig
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from hatchling.builders.config import BuilderConfig
from hatchling.builders.hooks.plugin.interface import BuildHookInterface

#: Of the shared library that all compiled modules are in; mypyc adds `__mypyc`.
_GROUP = "respmq"


class CompileHook(BuildHookInterface[BuilderConfig]):
    """Hatchling's custom hook."""

    PLUGIN_NAME = "custom"

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._asked = os.environ.get("RESPMQ_COMPILE", "")
        if self._asked not in {"", "0", "1"}:
            msg = f"RESPMQ_COMPILE is {self._asked!r}: it must be 1 (compile, or fail) or 0 (don't), or not be set"
            raise ValueError(msg)

    def dependencies(self) -> list[str]:
        """What is needed to compile: mypyc, and what the modules import, for its types."""
        if not self._compiles():
            return []
        compiler: list[str] = self.config["requires"]
        return [*compiler, *self.metadata.core.dependencies]

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Compile, and put the results into the wheel."""
        if version == "editable" or not self._compiles():
            return
        with TemporaryDirectory() as folder:
            log = self._compile(Path(folder))
            libraries = sorted(Path(folder, "lib").rglob("*.so"))
            if log is not None:
                if self._asked:
                    msg = f"The modules can't be compiled (RESPMQ_COMPILE=0 builds a wheel without that):\n{log}"
                    raise RuntimeError(msg)
                self.app.display_warning(f"Not compiled, everything works but slower:\n{log}")
                return
            kept = Path(self.directory, "compiled")
            shutil.rmtree(kept, ignore_errors=True)
            for library in libraries:
                name = library.relative_to(Path(folder, "lib"))
                target = kept / name
                target.parent.mkdir(parents=True, exist_ok=True)
                shutil.copy(library, target)
                build_data["force_include"][str(target)] = name.as_posix()
        build_data["pure_python"] = False
        build_data["infer_tag"] = True

    def finalize(self, version: str, build_data: dict[str, Any], artifact_path: str) -> None:
        """Remove what was only wanted for the wheel."""
        del version, build_data, artifact_path
        shutil.rmtree(Path(self.directory, "compiled"), ignore_errors=True)

    def _compiles(self) -> bool:
        if self._asked:
            return self._asked == "1"
        compiler = (sysconfig.get_config_var("CC") or "").split()
        return (
            platform.python_implementation() == "CPython"
            and bool(compiler)
            and shutil.which(compiler[0]) is not None
            and Path(sysconfig.get_path("include"), "Python.h").exists()
        )

    def _compile(self, folder: Path) -> str | None:
        """Compile below `folder`, to `lib` there; returns what the compiler says if it fails."""
        source = folder / "source"
        # A copy: neither mypy nor setuptools is to find, or to leave, anything in the tree.
        shutil.copytree(Path(self.root, "respmq"), source / "respmq", ignore=shutil.ignore_patterns("*.so", "*.pyc"))
        patterns: list[str] = self.config["modules"]
        modules = sorted({str(path.relative_to(source)) for pattern in patterns for path in source.glob(pattern)})
        command = [sys.executable, str(Path(__file__).with_name("setup.py")), _GROUP, str(folder), *modules]
        done = subprocess.run(
            command, cwd=source, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False
        )
        return done.stdout if done.returncode else None
