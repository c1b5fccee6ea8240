"""`xla-shmem doctor` as a user runs it: on this machine, and on machines that the driver's double describes."""

from __future__ import annotations

import importlib.metadata
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import driver_doubles
import pytest
import wheels

FLAG = "--xla_gpu_experimental_enable_nvshmem"
# HIDDEN: distributions that it is to find missing though they may be installed where the tests run.
PROGRAM = """
import importlib.metadata as metadata, os, sys

version = metadata.version

def version_unless_hidden(name):
    if name in os.environ.get("HIDDEN", "").split():
        raise metadata.PackageNotFoundError(name)
    return version(name)

metadata.version = version_unless_hidden
from xla_shmem.cli.main import main

try: main(sys.argv[1:])
finally: assert not {"jax", "jaxlib"} & set(sys.modules), "doctor started JAX"
"""


@pytest.fixture(scope="module")
def double(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return driver_doubles.build(tmp_path_factory.mktemp("driver"))


def doctor(*arguments: str, **environ: str) -> subprocess.CompletedProcess[str]:
    """Runs it with `environ`, without the variables that choose platforms, devices or options."""
    chosen = ("XLA_", "JAX_", "OMPI_", "SLURM_", "CUDA_")
    clean = {name: value for name, value in os.environ.items() if not name.startswith(chosen)}
    command = [sys.executable, "-c", PROGRAM, "doctor", *arguments]
    return subprocess.run(command, env=clean | environ, capture_output=True, text=True, timeout=60, check=False)


def answer(double: Path, machine: str, **environ: str) -> dict[str, Any]:
    result = doctor("--json", **({"LD_LIBRARY_PATH": str(double), "DRIVER_DOUBLE": machine} | environ))
    assert result.stderr == ""
    value: dict[str, Any] = json.loads(result.stdout)
    assert result.returncode == (0 if value["works"] else 1)
    return value


def test_cpu_road_works_on_this_very_machine() -> None:
    result = doctor("--json", XLA_FLAGS=f"{FLAG}=true", JAX_PLATFORMS="cpu")
    assert result.returncode == 0, result.stderr
    value = json.loads(result.stdout)
    assert value["cpu"]["works"] is True
    facts = value["facts"]
    assert facts["installation"]["jax"] == importlib.metadata.version("jax")
    assert facts["cores"] == len(os.sched_getaffinity(0))
    assert facts["environment"] == {"flag": True, "error": "", "platforms": "cpu", "gpus_per_process": 0} | {
        "gpus_per_process": len(facts["visible"]["bus_ids"])
    }
    free = os.statvfs("/dev/shm")
    assert facts["shared_memory"]["total"] == free.f_blocks * free.f_frsize


def test_report_has_the_verdict_and_the_command_that_sets_the_flag() -> None:
    result = doctor(JAX_PLATFORMS="cpu")
    assert result.returncode == 0
    assert "CPU  the flag works" in result.stdout
    assert "First to fix: the flag is not set" in result.stdout
    assert f"export XLA_FLAGS={FLAG}=true" in result.stdout


def test_report_has_nothing_to_fix_when_the_flag_is_set() -> None:
    assert "Nothing to fix." in doctor(XLA_FLAGS=f"{FLAG}=true", JAX_PLATFORMS="cpu").stdout


@pytest.mark.parametrize(
    ("variable", "value", "word"),
    [("XLA_FLAGS", f"{FLAG}=maybe", "maybe"), ("XLA_SHMEM_THRESHOLD", "much", "XLA_SHMEM_THRESHOLD='much'")],
)
def test_bad_flag_or_option_exits_with_1_and_names_it(variable: str, value: str, word: str) -> None:
    result = doctor(JAX_PLATFORMS="cpu", **{variable: value})
    assert result.returncode == 1
    assert word in result.stdout.split("First to fix:")[1]


def test_gpus_without_a_cuda_plugin_are_shown_with_the_pip_line(double: Path) -> None:
    value = answer(double, "hgx", HIDDEN="jax-cuda12-plugin jax-cuda13-plugin")
    assert value["facts"]["installation"]["cuda_plugins"] == []
    assert value["facts"]["domains"] == [[0, "NVLink within its host"]] * 2
    assert value["first"]["fix"] == "pip install -U 'jax[cuda13]>=0.10.2,<=0.12.0.1'"
    assert value["works"] is True
    report = doctor(LD_LIBRARY_PATH=str(double), DRIVER_DOUBLE="nvl72").stdout
    assert (
        "NVIDIA Double, 00000000:1B:00.0, sm_90, 80.0 GiB; 18 NVLinks to switches; fabric: completed, cluster" in report
    )
    assert "580.65.06, CUDA up to 13.1" in report


def test_gpus_of_a_process_follow_the_launcher(double: Path) -> None:
    def per_process(**environ: str) -> int:
        return int(answer(double, "hgx", **environ)["facts"]["environment"]["gpus_per_process"])

    assert per_process() == 2
    assert per_process(JAX_LOCAL_DEVICE_IDS="1") == 1
    assert per_process(SLURM_JOB_ID="7", SLURM_LOCALID="1") == 1
    assert per_process(OMPI_MCA_orte_hnp_uri="x", OMPI_COMM_WORLD_LOCAL_RANK="0") == 1
    assert per_process(CUDA_DOUBLE_VISIBLE="1") == 1


def test_an_emulated_gpu_is_told_from_a_real_one(double: Path) -> None:
    assert answer(double, "emulated")["gpu"]["emulated"] is True
    assert answer(double, "pcie")["gpu"]["emulated"] is False
    words = "EMULATED: these GPUs are no hardware. tests/gpu_emulator runs their programs on the processor"
    report = doctor(LD_LIBRARY_PATH=str(double), DRIVER_DOUBLE="emulated").stdout
    assert words in report
    assert "EMULATED, Emulated GPU (no hardware), 00000000:1B:00.0" in report
    assert "EMULATED" not in doctor(LD_LIBRARY_PATH=str(double), DRIVER_DOUBLE="pcie").stdout


def test_lone_gpus_are_a_blocker(double: Path) -> None:
    blockers = [finding["what"] for finding in answer(double, "lone")["gpu"]["blockers"]]
    assert any("no two of the 2 GPUs are in one NVLink domain" in what for what in blockers)


def test_broken_driver_is_said_in_its_own_words(double: Path) -> None:
    value = answer(double, "broken")
    assert "mismatch" in value["first"]["what"]
    assert value["gpu"]["wanted"] is True


@pytest.mark.parametrize(("cuda", "cause"), [(12, "other CUDA"), (13, "missing")])
def test_nvshmem_of_a_wheel_is_judged_by_the_plugins_cuda(double: Path, tmp_path: Path, cuda: int, cause: str) -> None:
    jaxlib = importlib.metadata.version("jaxlib")
    wheels.install(tmp_path, "jax-cuda13-plugin", jaxlib, "jax_cuda13_plugin/plugin.so", b"")
    wheels.install(tmp_path, "jax-cuda13-pjrt", jaxlib, "jax_plugins/xla_cuda13/plugin.so", b"")
    path = wheels.install_nvshmem(tmp_path, cuda, b"not a library")
    value = answer(double, "hgx", PYTHONPATH=str(tmp_path))
    nvshmem = value["facts"]["nvshmem"]
    assert str(path) in nvshmem["error"]
    assert nvshmem["cause"] == cause
    fix = value["first"]["fix"]
    assert fix.endswith("pip install nvidia-nvshmem-cu13")
    assert fix.startswith("pip uninstall") == (cause == "other CUDA")


def test_library_chosen_by_option_is_the_one_that_is_judged(double: Path) -> None:
    value = answer(double, "hgx", XLA_SHMEM_NVSHMEM_LIBRARY="/nowhere/libnvshmem_host.so.3")
    assert "/nowhere/libnvshmem_host.so.3" in value["facts"]["nvshmem"]["error"]
    assert value["facts"]["nvshmem"]["cause"] == "option"
