"""`scripts/gpu_check.sh` whole on emulated GPUs: it passes, and each section fails by a fault that is planted in it.

In one run every other section has a fault, in a second run the remaining ones. So each section is seen to fail, with
its reason, in one run, and to pass beside failing sections in the other.
"""

from __future__ import annotations

import json
import os
import shlex
import subprocess
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from emulator import Emulator

ROOT = Path(__file__).resolve().parents[2]
FAULTY_DRIVER = Path(__file__).with_name("faulty_driver.cc")

#: Longer than on hardware: kernels are interpreted, and there are two cores.
SECONDS = 3600

#: And without the heap of the CUDA driver, which would carry instead.
NO_NVSHMEM = {"XLA_SHMEM_NVSHMEM_LIBRARY": "/no/such/libnvshmem_host.so.3", "XLA_SHMEM_GPU_HEAP": "nvshmem"}

#: A compute-sanitizer that runs the program and finds what FAULT says.
SANITIZER = """#!/bin/sh
while [ "${1#--}" != "$1" ]; do shift; done
"$@" || exit 1
echo "========= ERROR SUMMARY: ${FAULT:-0} errors"
[ -z "$FAULT" ] || exit 86
"""


@dataclass(frozen=True)
class Fault:
    """What is wrong in a section, and what the report must say.

    Attributes:
      environment: of the section.
      reason: words of why it failed.
      error: words of the first error.
    """

    environment: Mapping[str, str]
    reason: str
    error: str = ""

    @staticmethod
    def of_driver(fault: str, reason: str, error: str = "") -> Fault:
        """A fault that faulty_driver.cc has."""
        return Fault({"FAULTY_DRIVER": fault}, reason, error)


FAULTS = {
    "doctor": Fault(NO_NVSHMEM, "the flag works on the GPU path", "/no/such/libnvshmem_host.so.3"),
    "kernels": Fault.of_driver("no reduce", "failed: sum of s8", "elements differ"),
    "transfers-1": Fault.of_driver("short copies", "ring of 4112 bytes, pair", "1 of 4112 bytes wrong, first at 4111"),
    "transfers-2": Fault.of_driver("lost signals", "exit status", "xla_shmem"),
    "jax-2": Fault.of_driver("short copies", "ring_in_a_scan_beside_a_matmul", "elements wrong"),
    "jax-2-graphs": Fault.of_driver("refused cuGraphLaunch", "ring_in_a_scan_beside_a_matmul", "graph"),
    "jax-one-process": Fault.of_driver("short copies", "ring_in_a_scan_beside_a_matmul", "elements wrong"),
    "transfers-1-nvshmem": Fault(NO_NVSHMEM, "exit status 1", "/no/such/libnvshmem_host.so.3"),
    "jax-1": Fault.of_driver("short copies", "psum_of_4_KiB", "1 of 1024 elements wrong"),
    "transfers-4": Fault.of_driver(
        "refused cuStreamEndCapture", "exit status 1", "CudaError: cuStreamEndCapture failed"
    ),
    "jax-4": Fault(NO_NVSHMEM, "runs on SHMEM", "xla_shmem"),
    "transfer-speed": Fault.of_driver(
        "refused cuEventElapsedTime_v2", "exit status 1", "CudaError: cuEventElapsedTime"
    ),
    "overlap-1": Fault.of_driver("refused cuEventElapsedTime_v2", "exit status 1", "CudaError: cuEventElapsedTime"),
    "overlap": Fault.of_driver("refused cuMemcpyAsync", "exit status 1", "cuMemcpyAsync failed"),
    "collectives": Fault.of_driver("short copies", "all-reduce of 262144 bytes by shmem", "elements wrong"),
    "recording": Fault(NO_NVSHMEM, "runs on SHMEM", "/no/such/libnvshmem_host.so.3"),
    "jax-overlap": Fault.of_driver("refused cuMemcpyAsync", "exit status 1", "cuMemcpyAsync failed"),
    "jax-overlap-nccl": Fault.of_driver("refused cuLaunchKernel", "exit status 1", "CUDA_ERROR_NOT_SUPPORTED"),
    "train": Fault.of_driver("short copies", "losses on SHMEM equal those of one rank", "4 steps, largest"),
    "sanitizer": Fault({"FAULT": "3"}, "memcheck: gpu_check.kernels", "ERROR SUMMARY: 3 errors"),
    "transfers-2-nvshmem": Fault.of_driver("short copies", "ring of 4112 bytes, pair", "1 of 4112 bytes wrong"),
}

#: NCCL's fast paths do not run on emulated GPUs.
NOT_RUN = {"build", "jax-overlap-nccl-fast"}

Sections = dict[str, dict[str, Any]]
RunCheck = Callable[[Mapping[str, Fault], Path], tuple[dict[str, Any], str]]


def _build_faulty_driver(emulator: Emulator, folder: Path) -> Path:
    """Builds the driver with faults; returns its folder, for LD_LIBRARY_PATH."""
    driver, built = emulator.libraries / "libcuda.so.1", folder / "libcuda.so.1"
    # The name of what a library needs is the soname of what it was linked with: here the path of the emulator.
    behind, empty = folder / "libbehind.so", folder / "empty.cc"
    empty.write_text("")
    shared = ["c++", "-std=c++17", "-shared", "-fPIC"]
    subprocess.run([*shared, "-nostdlib", f"-Wl,-soname,{driver}", "-o", behind, empty], check=True)
    headers = next(ROOT.glob(".venv-gpu-*/nvidia/cu13/include/cuda.h")).parent
    options = ["-Wall", "-Wextra", "-Werror", f"-I{headers}", f'-DEMULATED_DRIVER="{driver}"', "-Wl,--no-as-needed"]
    command = [*shared, *options, "-Wl,-soname,libcuda.so.1", "-o", built, FAULTY_DRIVER, behind, "-ldl"]
    subprocess.run(command, check=True)
    return folder


@pytest.fixture(scope="module")
def run_check(emulator: Emulator, tmp_path_factory: pytest.TempPathFactory) -> RunCheck:
    """Runs the whole check with faults in some sections; returns report.json and report.md."""
    faulty = _build_faulty_driver(emulator, tmp_path_factory.mktemp("driver"))

    def run(faults: Mapping[str, Fault], folder: Path) -> tuple[dict[str, Any], str]:
        tools = folder / "tools"
        tools.mkdir()
        lines = ["#!/bin/sh", 'case "$GPU_CHECK_SECTION" in']
        for name, fault in faults.items():
            changes = " ".join(f"{variable}={shlex.quote(value)}" for variable, value in fault.environment.items())
            lines.append(f'{name}) export LD_LIBRARY_PATH={faulty}:"$LD_LIBRARY_PATH" {changes} ;;')
        lines += ["esac", f'exec {sys.executable} "$@"', ""]
        for name, text in (("python", "\n".join(lines)), ("compute-sanitizer", SANITIZER)):
            (tools / name).write_text(text)
            (tools / name).chmod(0o755)
        environ = emulator.environment(
            2,
            (),
            PATH=f"{tools}{os.pathsep}{os.environ['PATH']}",
            GPU_CHECK_BASE_PYTHON=sys.executable,
            GPU_CHECK_PYTHON=str(tools / "python"),
            GPU_CHECK_SECONDS=str(SECONDS),
            GPU_CHECK_WORK=str(folder / "work"),
        )
        command = ["bash", str(ROOT / "scripts/gpu_check.sh"), str(folder / "out")]
        done = subprocess.run(command, env=environ, capture_output=True, text=True, timeout=SECONDS, check=False)
        assert done.returncode == (1 if faults else 0), done.stdout + done.stderr
        report = json.loads((folder / "out/report.json").read_text())
        return report, (folder / "out/report.md").read_text()

    return run


@pytest.fixture(scope="module")
def reports(run_check: RunCheck, tmp_path_factory: pytest.TempPathFactory) -> list[tuple[Sections, list[str]]]:
    """Sections and summary of the two runs with faults."""
    found = []
    for remainder in (0, 1):
        faults = {name: fault for number, (name, fault) in enumerate(FAULTS.items()) if number % 2 == remainder}
        report, _ = run_check(faults, tmp_path_factory.mktemp("run"))
        found.append(({section["name"]: section for section in report["sections"]}, report["summary"]))
    return found


def _run_with_module(emulator: Emulator, folder: Path, module: str, text: str) -> Sections:
    """Runs the check where importing a module does something else; returns its sections by name."""
    (folder / "site").mkdir()
    (folder / "site" / f"{module}.py").write_text(text)
    environ = emulator.environment(1, (), GPU_CHECK_BASE_PYTHON=sys.executable, GPU_CHECK_WORK=str(folder / "work"))
    environ["PYTHONPATH"] = f"{folder / 'site'}{os.pathsep}{environ['PYTHONPATH']}"
    command = ["bash", str(ROOT / "scripts/gpu_check.sh"), str(folder / "out")]
    done = subprocess.run(command, env=environ, capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 1, done.stdout + done.stderr
    report = json.loads((folder / "out/report.json").read_text())
    return {section["name"]: section for section in report["sections"]}


def test_nothing_runs_on_a_machine_that_cannot_be_read(emulator: Emulator, tmp_path: Path) -> None:
    sections = _run_with_module(emulator, tmp_path, "pynvml", "raise RuntimeError('planted')")
    machine = sections.pop("machine")
    assert (machine["status"], machine["reason"]) == ("failed", "exit status 1")
    assert machine["error"] == "RuntimeError: planted"
    assert {section["status"] for section in sections.values()} == {"not run"}
    assert sections["kernels"]["reason"] == "no GPU: the section machine failed"


@pytest.mark.slow
@pytest.mark.timeout(400)
def test_without_a_build_nothing_runs_and_the_missing_package_is_named(emulator: Emulator, tmp_path: Path) -> None:
    sections = _run_with_module(emulator, tmp_path, "scikit_build_core", "import nothing_of_that_name")
    assert sections.pop("machine")["status"] == "passed"
    build = sections.pop("build")
    assert build["status"] == "failed"
    assert "the packages that the build needs are here" in build["reason"]
    left = {record["name"]: record["reason"] for record in build["records"] if record["kind"] == "left out"}
    assert left["scikit-build-core"] == "ModuleNotFoundError: No module named 'nothing_of_that_name'"
    assert left["wheels to carry"].split(" ; ")[0].endswith("-d wheels nothing_of_that_name")
    assert {section["reason"] for section in sections.values()} >= {"the build failed"}
    assert {section["status"] for section in sections.values()} == {"not run"}


@pytest.mark.slow
@pytest.mark.timeout(SECONDS)
def test_the_whole_check_passes_on_emulated_gpus_and_says_so(run_check: RunCheck, tmp_path: Path) -> None:
    report, text = run_check({}, tmp_path)
    assert report["passed"]
    assert report["emulated"]
    assert report["seconds"] is None
    assert {section["name"] for section in report["sections"]} == {"machine", *FAULTS, *NOT_RUN}
    for section in report["sections"]:
        assert section["status"] == ("not run" if section["name"] in NOT_RUN else "passed"), section
    assert text.startswith("# GPU check: passed (emulated GPU)\n\n**Emulated: this ran on tests/gpu_emulator")
    assert "GB/s" in text
    assert "hidden %" in text
    for section in report["sections"]:
        for row in (record["columns"] for record in section["records"] if record["kind"] == "row"):
            measured = {name: value for name, value in row.items() if "µs" in name or "GB/s" in name or "%" in name}
            assert set(measured.values()) <= {"emulated: not measured"}, (section["name"], row)


@pytest.mark.slow
@pytest.mark.timeout(2 * SECONDS)
@pytest.mark.parametrize("name", FAULTS)
def test_a_fault_fails_its_section_alone(name: str, reports: list[tuple[Sections, list[str]]]) -> None:
    number = list(FAULTS).index(name)
    (faulty, summary), (sound, _) = reports[number % 2], reports[1 - number % 2]
    section, fault = faulty[name], FAULTS[name]
    assert section["status"] == "failed"
    assert fault.reason in section["reason"]
    assert fault.error in section["error"]
    assert any(line.startswith(f"FAILED {name}: ") and fault.error in line for line in summary)
    assert sound[name]["status"] == "passed", sound[name]
