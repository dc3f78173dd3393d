"""`setup.py GROUP FOLDER MODULE...`: compiles modules of the current directory to FOLDER/lib, on all processors.

A program of its own since mypyc and setuptools end the process when something is wrong.
"""

from __future__ import annotations

import os
import sys
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any

from mypyc.build import mypycify
from setuptools import setup
from setuptools.command.build_ext import build_ext

if TYPE_CHECKING:
    from collections.abc import Sequence


class ParallelBuild(build_ext):
    """Compiles the files of an extension at the same time; setuptools does so with extensions only."""

    def build_extensions(self) -> None:
        """Build all of them."""
        one_by_one = self.compiler.compile

        def at_once(sources: Sequence[str], **options: Any) -> list[str]:
            with ThreadPoolExecutor(os.cpu_count()) as pool:
                jobs = [pool.submit(one_by_one, [source], **options) for source in sources]
                return [name for job in jobs for name in job.result()]

        self.compiler.compile = at_once
        super().build_extensions()


def main(group: str, folder: str, *modules: str) -> None:
    """Compile `modules`, files whose paths are relative to the current directory."""
    extensions: list[Any] = mypycify(
        list(modules), group_name=group, opt_level="1", debug_level="0", multi_file=True, target_dir=f"{folder}/c"
    )
    arguments = ["-q", "build_ext", f"--build-lib={folder}/lib", f"--build-temp={folder}/objects"]
    setup(name=group, ext_modules=[*extensions], cmdclass={"build_ext": ParallelBuild}, script_args=arguments)


if __name__ == "__main__":
    main(*sys.argv[1:])
