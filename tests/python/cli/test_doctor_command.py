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
    environment = facts["environment"]
    assert (environment["flag"], environment["platforms"], environment["cpu_collectives"]) == (True, "cpu", "gloo")
    assert (environment["flag_error"], environment["option_error"], environment["gpu_error"]) == ("", "", "")
    assert environment["gpus_per_process"] == len(facts["visible"]["bus_ids"])
    free = os.statvfs("/dev/shm")
    assert facts["shared_memory"]["total"] == free.f_blocks * free.f_frsize


def test_report_has_the_verdict_and_the_command_that_sets_the_flag() -> None:
    result = doctor(JAX_PLATFORMS="cpu")
    assert result.returncode == 0
    assert "CPU  the flag is not set; it would work" in result.stdout
    assert "the flag works" not in result.stdout
    assert "First to fix: the flag is not set" in result.stdout
    assert f'export XLA_FLAGS="$XLA_FLAGS {FLAG}=true"' in result.stdout


def test_report_has_nothing_to_fix_when_the_flag_is_set() -> None:
    output = doctor(XLA_FLAGS=f"{FLAG}=true", JAX_PLATFORMS="cpu").stdout
    is_faulty = importlib.metadata.version("jax") == "0.10.2"
    assert ("First to fix: jax 0.10.2" if is_faulty else "Nothing to fix.") in output


#: Environment, and the first thing to fix on the CPU path.
WRONG = {
    "flag: a word": ({"XLA_FLAGS": f"{FLAG}=maybe"}, f"XLA_FLAGS: {FLAG}=maybe: must be true, false, 1 or 0"),
    "flag: empty": ({"XLA_FLAGS": f"{FLAG}="}, f"XLA_FLAGS: {FLAG}=: must be true"),
    "flag: off": ({"XLA_FLAGS": f"{FLAG}=false"}, "the flag is off, so this is stock JAX"),
    "flag: other flags only": ({"XLA_FLAGS": "--xla_dump_to=/d"}, "the flag is not set"),
    "threshold": ({"XLA_SHMEM_THRESHOLD": "much"}, "XLA_SHMEM_THRESHOLD='much': must be"),
    "ops": ({"XLA_SHMEM_OPS": "foo"}, "XLA_SHMEM_OPS='foo': "),
    "ops: a limit": ({"XLA_SHMEM_OPS": "all-reduce<many"}, "XLA_SHMEM_OPS='all-reduce<many': "),
    "profile": ({"XLA_SHMEM_PROFILE": "fast"}, "XLA_SHMEM_PROFILE='fast': must be"),
    "tuning: no file": (
        {"XLA_SHMEM_PROFILE": "tuned", "XLA_SHMEM_TUNING": "/none"},
        "XLA_SHMEM_TUNING='/none': there is no such file",
    ),
    "heap: a word": ({"XLA_SHMEM_HEAP_SIZE": "big"}, "XLA_SHMEM_HEAP_SIZE='big': must be"),
    "heap: too small": ({"XLA_SHMEM_HEAP_SIZE": "1M"}, "XLA_SHMEM_HEAP_SIZE='1M': must be"),
    "heap: larger than memory": ({"XLA_SHMEM_HEAP_SIZE": "1024G"}, "a process needs 1048576 MiB"),
    "deadline": ({"XLA_SHMEM_DEADLINE": "never"}, "XLA_SHMEM_DEADLINE='never': must be"),
    "domain": ({"XLA_SHMEM_NVLINK_DOMAIN": "0"}, "XLA_SHMEM_NVLINK_DOMAIN='0': must be"),
    "hierarchical": ({"XLA_SHMEM_HIERARCHICAL": "maybe"}, "XLA_SHMEM_HIERARCHICAL='maybe': must be"),
}


@pytest.mark.parametrize("case", WRONG)
def test_a_wrong_setting_is_named_once_with_a_sentence(case: str) -> None:
    environ, sentence = WRONG[case]
    result = doctor("--json", **({"JAX_PLATFORMS": "cpu", "XLA_FLAGS": f"{FLAG}=true"} | environ))
    assert result.stderr == ""
    value = json.loads(result.stdout)
    assert sentence in value["first"]["what"]
    assert value["first"]["fix"]
    blockers = [finding["what"] for finding in value["cpu"]["blockers"]]
    assert len(blockers) == (0 if "the flag is" in sentence else 1)
    assert result.returncode == (1 if blockers else 0)


def test_an_error_of_an_option_is_in_its_own_row() -> None:
    output = doctor(JAX_PLATFORMS="cpu", XLA_FLAGS=f"{FLAG}=true", XLA_SHMEM_OPS="foo").stdout
    rows = {line.partition("\t")[0]: line for line in output.splitlines() if "\t" in line}
    assert f"{FLAG}: on" in rows["flag"]
    assert "XLA_SHMEM_OPS='foo'" in rows["options"]
    assert "not searched: XLA_SHMEM_OPS='foo'" in rows["NVSHMEM"]


#: Environment of a process on two GPUs, and the first thing to fix on the GPU path.
WRONG_GPUS = {
    "Slurm": (
        {"SLURM_JOB_ID": "7", "SLURM_LOCALID": "1", "CUDA_DOUBLE_VISIBLE": "1", "CUDA_VISIBLE_DEVICES": "1"},
        "JAX takes GPU 1 here, by SLURM_LOCALID=1, but CUDA shows 1 GPU (CUDA_VISIBLE_DEVICES=1)",
        "unset CUDA_VISIBLE_DEVICES",
    ),
    "Slurm: more ranks than GPUs": (
        {"SLURM_JOB_ID": "7", "SLURM_LOCALID": "2"},
        "JAX takes GPU 2 here, by SLURM_LOCALID=2, but CUDA shows 2 GPUs",
        "start one process per GPU",
    ),
    "Open MPI": (
        {"OMPI_MCA_orte_hnp_uri": "x", "OMPI_COMM_WORLD_LOCAL_RANK": "3"},
        "JAX takes GPU 3 here, by OMPI_COMM_WORLD_LOCAL_RANK=3, but CUDA shows 2 GPUs",
        "start one process per GPU",
    ),
    "chosen, beyond": (
        {"JAX_LOCAL_DEVICE_IDS": "0,5"},
        "JAX takes GPU 5 here, by JAX_LOCAL_DEVICE_IDS=0,5, but CUDA shows 2 GPUs",
        "unset JAX_LOCAL_DEVICE_IDS",
    ),
    "chosen, no number": (
        {"JAX_LOCAL_DEVICE_IDS": "all"},
        "JAX_LOCAL_DEVICE_IDS='all': must be a number",
        "unset JAX_LOCAL_DEVICE_IDS",
    ),
}


@pytest.mark.parametrize("case", WRONG_GPUS)
def test_a_gpu_that_a_launchers_rank_does_not_reach_is_named_with_the_variable(double: Path, case: str) -> None:
    environ, what, fix = WRONG_GPUS[case]
    blockers = answer(double, "hgx", XLA_FLAGS=f"{FLAG}=true", **environ)["gpu"]["blockers"]
    assert blockers[0]["what"].startswith(what)
    assert blockers[0]["fix"].startswith(fix)


@pytest.mark.parametrize(("argument", "word"), [("--jsn", "--jsn"), ("extra", "extra"), ("--json=yes", "--json")])
def test_wrong_use_ends_with_2_and_names_the_argument(argument: str, word: str) -> None:
    result = doctor(argument)
    assert result.returncode == 2
    assert word in result.stderr.splitlines()[-1]


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
    value = answer(double, "hgx", PYTHONPATH=str(tmp_path), XLA_SHMEM_GPU_HEAP="nvshmem")
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
