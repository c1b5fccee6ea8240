"""The device code, compiled by the oldest NVRTC of jax[cuda12] and of jax[cuda13]."""

from __future__ import annotations

import os
import platform
import subprocess
import sys
from pathlib import Path

import pytest
from compiler_runs import WHEELS
from nvrtc_releases import Nvrtc

OF_CUDA_12 = WHEELS / "oldest/nvidia/cuda_nvrtc/lib/libnvrtc.so.12"
OF_CUDA_13 = WHEELS / "oldest/nvidia/cu13/lib/libnvrtc.so.13"

pytestmark = pytest.mark.usefixtures("compiler")


def _builtins(library: Path) -> list[str]:
    return [path.name for path in library.parent.glob("libnvrtc-builtins.so.*")]


@pytest.mark.skipif(platform.machine() != "x86_64", reason="AArch64 has no NVRTC 12.1")
def test_nvrtc_12_1_compiles_all_but_reductions_in_the_switch() -> None:
    assert _builtins(OF_CUDA_12) == ["libnvrtc-builtins.so.12.1"]
    # Its PTX 8.1 has no reductions in the switch that add in f32.
    known = ((7, 5), (8, 0), (9, 0))
    nvrtc = Nvrtc([str(OF_CUDA_12)], known, newer=(10, 0), missing=("switch_reduction",))
    nvrtc.check_machine_code()
    nvrtc.check_ptx()
    nvrtc.check_kernels_of_gpu_check()


def test_nvrtc_13_0_compiles_all() -> None:
    assert _builtins(OF_CUDA_13) == ["libnvrtc-builtins.so.13.0"]
    nvrtc = Nvrtc([str(OF_CUDA_13)])
    nvrtc.check_machine_code()
    nvrtc.check_ptx()
    nvrtc.check_kernels_of_gpu_check()


def test_nvrtc_13_0_needs_no_library_path_for_its_built_in_functions() -> None:
    program = "import sys; from xla_shmem.gpu.kernels import compile_kernels; compile_kernels((99, 0), sys.argv[1:])"
    environ = {name: value for name, value in os.environ.items() if name != "LD_LIBRARY_PATH"}
    command = [sys.executable, "-c", program, str(OF_CUDA_13)]
    done = subprocess.run(command, env=environ, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, done.stderr
