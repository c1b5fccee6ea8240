"""XLA's kernels and ours on the emulator's interpreter: right results, our device math and our compiler, refusals."""

from __future__ import annotations

import importlib.metadata
import json
import subprocess
import sys
from collections import Counter
from pathlib import Path

import emulator as harness
import pytest
from emulator import ROOT, BuildError, Emulator
from worker_math import FUNCTIONS
from worker_programs import PROGRAMS

from xla_shmem.gpu.kernels import KernelError, compile_source

HERE = Path(__file__).resolve().parent

# XLA composes some functions of several of the library's.
MOST_ULPS = 6


def _run(emulator: Emulator, *command: str, **variables: str) -> list[dict[str, object]]:
    """The lines of JSON that a program on one emulated GPU prints."""
    done = subprocess.run(
        [sys.executable, *command],
        env=emulator.environment(1, flags=(), **variables),
        capture_output=True,
        text=True,
        timeout=400,
        check=False,
    )
    assert done.returncode == 0, f"{done.stdout[-2000:]}\n{done.stderr[-4000:]}"
    return [json.loads(line) for line in done.stdout.splitlines() if line.startswith("{")]


@pytest.mark.timeout(450)
def test_programs_agree_with_the_cpu(emulator: Emulator) -> None:
    results = {str(result["name"]): result for result in _run(emulator, str(HERE / "worker_programs.py"))}
    assert list(results) == list(PROGRAMS)
    wrong = {name: result for name, result in results.items() if not result["error"] <= 1}
    assert not wrong


@pytest.mark.timeout(450)
def test_device_math_is_ours_and_accurate(emulator: Emulator, tmp_path: Path) -> None:
    errors = {
        str(result["name"]): result["ulps"]
        for result in _run(emulator, str(HERE / "worker_math.py"), GPU_EMULATOR_DUMP=str(tmp_path))
    }
    assert len(errors) == 2 * len(FUNCTIONS)
    assert {name: ulps for name, ulps in errors.items() if not ulps <= MOST_ULPS} == {}
    kernels = "\n".join(path.read_text(errors="replace") for path in tmp_path.glob("*.ptx"))
    for name in ("expf", "exp", "powf", "pow", "sinf", "log1p"):
        assert f"emulator_{name}," in kernels, f"no kernel calls our {name}"


def test_a_function_without_a_definition_fails_with_its_name(emulator: Emulator, tmp_path: Path) -> None:
    ptxas = emulator.wheels / "nvidia/cu13/bin/ptxas"
    kernel = ".version 8.0\n.target sm_80\n.address_size 64\n"
    for name, exit_code in (("emulator_expf", 0), ("__nv_j0f", 255)):
        text = kernel + f".extern .func  (.param .b32 func_retval0) {name}\n(\n\t.param .b32 {name}_param_0\n)\n;\n"
        (tmp_path / "in").write_text(text)
        done = subprocess.run(
            [ptxas, tmp_path / "in", "-o", tmp_path / "out"], capture_output=True, text=True, check=False
        )
        assert done.returncode == exit_code
        assert (f"'{name}'" in done.stderr) == (exit_code != 0)


def test_nothing_of_nvidias_toolkit_is_in_the_view(emulator: Emulator, tmp_path: Path) -> None:
    fetched = ROOT / f".venv-gpu-{importlib.metadata.version('jax')}"
    view = harness._view(fetched, tmp_path / "view", emulator.libraries.parent)
    (view / "nvidia/cu13/nvvm/bin").mkdir()
    (view / "nvidia/cu13/nvvm/bin/libdevice.10.bc").symlink_to(
        fetched.resolve() / "nvidia/cu13/nvvm/libdevice/libdevice.10.bc"
    )
    with pytest.raises(BuildError, match=r"libdevice\.10\.bc is NVIDIA's"):
        harness._view(fetched, view, emulator.libraries.parent)


@pytest.mark.timeout(300)
def test_our_kernels_are_right_bit_for_bit(emulator: Emulator) -> None:
    command = ("-m", "gpu_check.kernels", "--small")
    folders = f"{emulator.variables(1)['PYTHONPATH']}:{ROOT / 'benchmarks/gpu'}"
    checks = [line for line in _run(emulator, *command, PYTHONPATH=folders) if line["kind"] == "check"]
    assert Counter(bool(check["ok"]) for check in checks) == {True: 104}


def test_what_our_nvrtc_does_not_know_is_in_its_log(emulator: Emulator) -> None:
    nvrtc = [str(emulator.libraries / "libnvrtc.so.13")]
    kernel = 'extern "C" __global__ void k(int* p) {{ p[threadIdx.x] = {}; }}'
    image = compile_source(kernel.format("7"), (9, 0), nvrtc)
    assert b".entry k(" in image
    with pytest.raises(KernelError, match=r"kernels\.cu:1:\d+: error: use of undeclared identifier 'clock64'"):
        compile_source(kernel.format("clock64()"), (9, 0), nvrtc)
    with pytest.raises(KernelError, match=r"'cuda_fp16\.h' file not found"):
        compile_source("#include <cuda_fp16.h>", (9, 0), nvrtc)
