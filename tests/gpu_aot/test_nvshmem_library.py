"""NVIDIA's own library, which opens without a GPU."""

from __future__ import annotations

import subprocess
import sys

from compiler_runs import WHEELS, Compiler

from xla_shmem.gpu_compile.environment import compile_environment

PROGRAM = """
from xla_shmem import _core
from xla_shmem.gpu import libraries

library = _core.nvshmem_library(libraries.nvshmem(13, None).paths)
print(library["path"], *library["version"])
"""


def test_library_of_the_wheel_is_found_with_its_release(compiler: Compiler) -> None:
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM], env=compile_environment(WHEELS, []), capture_output=True, text=True, timeout=60
    )
    assert done.returncode == 0, done.stderr
    path, *version = done.stdout.split()
    assert path.startswith(f"{WHEELS}/")
    assert tuple(map(int, version)) >= (3, 0, 0)
