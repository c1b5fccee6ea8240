"""Who gets the library with shared buffers, and what it leaves to the C library."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from xla_shmem.launch.shared_buffers import LIBRARY, shared_buffer_variables

ON = {"LD_PRELOAD": str(LIBRARY)}

#: Memory that XLA did not ask for, of each function that the library has, and a forked child that frees it.
PROGRAM = """
import ctypes, os
c, size = ctypes.CDLL(None), ctypes.c_size_t
for name in ("malloc", "realloc"):
    getattr(c, name).restype = ctypes.c_void_p
c.malloc_usable_size.restype = size
block = ctypes.c_void_p()
assert c.posix_memalign(ctypes.byref(block), size(64), size(1 << 20)) == 0 and block.value % 64 == 0
assert c.posix_memalign(ctypes.byref(ctypes.c_void_p()), size(3), size(1 << 20)) == 22
ctypes.memset(block, 5, 1 << 20)
assert c.malloc_usable_size(block) >= 1 << 20
moved = c.realloc(block, size(2 << 20))
assert ctypes.string_at(moved, 1 << 20) == bytes([5]) * (1 << 20)
child = os.fork()
c.free(ctypes.c_void_p(moved))
if child == 0:
    os._exit(0)
print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), "xla_shmem_buffers" in open("/proc/self/maps").read())
"""


@pytest.mark.parametrize(
    ("environ", "expected"),
    [
        ({"JAX_PLATFORMS": "cpu"}, ON),
        ({"JAX_PLATFORMS": "cpu,cuda"}, ON),
        ({"JAX_PLATFORMS": "cuda"}, {}),
        ({"JAX_PLATFORMS": "cuda,cpu"}, {}),
        ({"JAX_PLATFORMS": "cpu", "LD_PRELOAD": "libjemalloc.so.2"}, {}),
        ({"JAX_PLATFORMS": "cpu", "LD_PRELOAD": ""}, {}),
        ({"JAX_PLATFORMS": "cpu", "XLA_SHMEM_SINGLE_COPY": "off"}, {}),
        ({"JAX_PLATFORMS": "cpu", "XLA_SHMEM_SINGLE_COPY": "user"}, ON),
    ],
)
def test_ranks_on_cpus_get_it_unless_the_user_chose(environ: dict[str, str], expected: dict[str, str]) -> None:
    assert shared_buffer_variables(environ) == expected


@pytest.mark.parametrize("gpus", [0, 2])
def test_without_jax_platforms_it_depends_on_gpus(monkeypatch: pytest.MonkeyPatch, gpus: int) -> None:
    monkeypatch.setattr("xla_shmem.launch.shared_buffers.local_gpu_count", lambda: gpus)
    assert shared_buffer_variables({}) == ({} if gpus else ON)


@pytest.mark.parametrize("folder", ["with space", "with:colon"])
def test_a_library_that_cannot_be_preloaded_is_left_out(tmp_path: Path, folder: str) -> None:
    library = tmp_path / folder / LIBRARY.name
    library.parent.mkdir()
    assert shared_buffer_variables({"JAX_PLATFORMS": "cpu"}, tmp_path / "gone.so") == {}
    library.touch()
    assert shared_buffer_variables({"JAX_PLATFORMS": "cpu"}, library) == {}


def test_memory_of_other_code_comes_from_the_c_library() -> None:
    environ = {**os.environ, **ON}
    run = subprocess.run([sys.executable, "-c", PROGRAM], env=environ, capture_output=True, text=True, check=False)
    assert (run.stdout, run.stderr) == ("0 False\n", "")
