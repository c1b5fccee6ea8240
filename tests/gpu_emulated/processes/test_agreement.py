"""An obstacle in one process becomes the same error in all of them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import driver_doubles
import process_jobs
import pytest
from emulator import Emulator

pytestmark = pytest.mark.timeout(180, func_only=True)

# The environment of one process, the expected error in all of them, and GPUs by process.
_WRONG: dict[str, tuple[int, dict[str, str], str, list[int]]] = {
    "no such GPU": (1, {"ORDINALS": "[9]"}, "process 1: CUDA shows 4 GPUs, so there is no device 9", [1, 1]),
    "another threshold": (
        1,
        {"CHANGED": '{"threshold": 4096}'},
        "threshold=4096 ops=default backends=default nvlink_domain=auto hierarchical=auto heap_size=524288",
        [1, 1],
    ),
    "another heap": (
        1,
        {"CHANGED": '{"heap_size": 1048576}'},
        "heap_size=1048576 gpu_heap=auto gpu_permute=auto gpu_reduce=kernel NVSHMEM_CUMEM_GRANULARITY=2M and process",
        [1, 1],
    ),
    "another way of permutes": (
        1,
        {"CHANGED": '{"gpu_permute": "copies"}'},
        "gpu_permute=copies gpu_reduce=kernel NVSHMEM_CUMEM_GRANULARITY=2M and process 0 has",
        [1, 1],
    ),
    "no NVSHMEM": (
        1,
        {"XLA_SHMEM_NVSHMEM_LIBRARY": "/nowhere/libnvshmem_host.so.3", "CHANGED": '{"gpu_heap": "nvshmem"}'},
        "process 1: no NVSHMEM host library found",
        [1, 1],
    ),
    "old NVSHMEM": (
        0,
        {"GPU_EMULATOR_NVSHMEM": "old", "CHANGED": '{"gpu_heap": "nvshmem"}'},
        "is NVSHMEM 2.11, at least 3.0 is needed",
        [1, 1],
    ),
    "no unique id": (
        0,
        {"GPU_EMULATOR_NVSHMEM": "no-id"},
        "process 0: NVSHMEM could not make a unique id (status 7)",
        [1, 1],
    ),
    "no init": (
        0,
        {"GPU_EMULATOR_NVSHMEM": "no-init"},
        "process 0: NVSHMEM 3.8 could not start as PE 0 of 2 (status 7)",
        [1, 1],
    ),
    "half an init": (
        0,
        {"GPU_EMULATOR_NVSHMEM": "half-init"},
        "process 0: NVSHMEM 3.8 could not start as PE 0 of 2 (it got no further than its bootstrap)",
        [1, 1],
    ),
    "no peer access": (1, {"GPU_EMULATOR_NVSHMEM": "no-peer"}, "process 1: PE 0 is not reachable by NVLink", [1, 1]),
    "other settings of NVSHMEM": (
        1,
        {"NVSHMEM_MAX_TEAMS": "99"},
        "gpu_reduce=kernel NVSHMEM_CUMEM_GRANULARITY=2M NVSHMEM_MAX_TEAMS=99 and process 0 has",
        [1, 1],
    ),
    "another layout of NVSHMEM's heap": (
        1,
        {"GPU_EMULATOR_NVSHMEM": "other-layout"},
        "process 1: its arena lies ",
        [1, 1],
    ),
    "no memory operations": (
        1,
        {"GPU_EMULATOR_WIDE_MEMORY_OPERATIONS": "0", "CHANGED": '{"gpu_permute": "copies"}'},
        "process 1: the driver (CUDA 13.0) has no 64-bit stream memory operations on symmetric memory",
        [1, 1],
    ),
    "copies by an old driver": (
        1,
        {"GPU_EMULATOR_VERSION": "12020", "CHANGED": '{"gpu_permute": "copies"}'},
        "process 1: the driver (CUDA 12.2) has no 64-bit stream memory operations on symmetric memory",
        [1, 1],
    ),
    "NVSHMEM's signals by a driver without writes to other GPUs": (
        1,
        {"GPU_EMULATOR_VERSION": "13010", "CHANGED": '{"gpu_puts": "nvshmem"}'},
        "process 1: NVSHMEM's signals write to other GPUs by stream memory operations, which the driver (CUDA 13.1)",
        [1, 1],
    ),
    "a full GPU": (0, {"GPU_EMULATOR_MEMORY": "1048576"}, "process 0 has 1048576 bytes of free GPU memory", [1, 1]),
    "a full GPU among several": (
        1,
        {"GPU_EMULATOR_FULL_GPU": "2", "ORDINALS": "[1, 2]"},
        "bytes of symmetric memory on device 2 failed with CUDA_ERROR_OUT_OF_MEMORY: lower XLA_SHMEM_HEAP_SIZE",
        [1, 2],
    ),
    "a GPU whose memory others may not map": (
        1,
        {"GPU_EMULATOR_UNREACHED_GPU": "0", "ORDINALS": "[1, 2]"},
        "process 1: cuMemSetAccess to the memory of PE 0 for the GPUs of this process failed with",
        [1, 2],
    ),
    "no memory": (
        1,
        {"GPU_EMULATOR_NVSHMEM": "no-memory"},
        "bytes of symmetric memory: lower XLA_SHMEM_HEAP_SIZE",
        [1, 1],
    ),
}


def _topologies(
    emulator: Emulator, directory: Path, gpus: list[int], only: dict[int, dict[str, str]], timeout: str = "20"
) -> list[dict[str, Any]]:
    """Returns what the processes of a job report."""
    ended = process_jobs.run_processes(
        emulator,
        "worker_agreement.py",
        len(gpus),
        directory,
        json.dumps(gpus),
        only=only,
        STORE_TIMEOUT=timeout,
        GPU_EMULATOR_NVSHMEM_TIMEOUT="2",
    )
    return process_jobs.reports(ended)


def _reasons(
    emulator: Emulator, directory: Path, gpus: list[int], only: dict[int, dict[str, str]], silent: int | None = None
) -> list[str]:
    topologies = _topologies(emulator, directory, gpus, only, "20" if silent is None else "0.3")
    told = [report for process, report in enumerate(topologies) if process != silent]
    assert not any(report["available"] for report in told)
    return [report["reason"] for report in told]


def _same_reason(emulator: Emulator, directory: Path, gpus: list[int], only: dict[int, dict[str, str]]) -> str:
    reasons = _reasons(emulator, directory, gpus, only)
    assert len(set(reasons)) == 1, reasons
    return reasons[0]


@pytest.mark.parametrize("wrong", _WRONG)
def test_all_processes_have_the_same_reason_not_to_start(emulator: Emulator, tmp_path: Path, wrong: str) -> None:
    process, environ, sentence, gpus = _WRONG[wrong]
    assert sentence in _same_reason(emulator, tmp_path, gpus, {process: environ})


def test_a_driver_that_does_not_start_in_one_process_is_named_in_all(emulator: Emulator, tmp_path: Path) -> None:
    (tmp_path / "driver").mkdir()
    broken = driver_doubles.environment(driver_doubles.build(tmp_path / "driver"), "broken")
    only = {name: broken[name] for name in ("LD_LIBRARY_PATH", "DRIVER_DOUBLE")}
    assert "process 0: the NVIDIA driver's libnvidia-ml.so.1" in _same_reason(emulator, tmp_path, [1, 1], {0: only})


def test_a_gpu_without_multicast_memory_keeps_all_off_the_switch(emulator: Emulator, tmp_path: Path) -> None:
    ended = process_jobs.run_processes(
        emulator,
        "worker_agreement.py",
        3,
        tmp_path,
        "[1, 1, 1]",
        only={2: {"GPU_EMULATOR_NVLS": "0"}},
        STORE_TIMEOUT="20",
        CHANGED='{"gpu_reduce": "multimem"}',
        GPU_EMULATOR_COMPUTE_CAPABILITY="90",
    )
    assert all(report["available"] for report in process_jobs.reports(ended))
    told = [line for one in ended for line in one.output.splitlines() if "XLA_SHMEM_GPU_REDUCE=multimem" in line]
    assert len(told) == 1, told
    assert "process 2 has no multicast memory" in told[0]


@pytest.mark.parametrize("silent", [0, 2])
def test_a_process_without_the_flag_is_named_to_all_others(emulator: Emulator, tmp_path: Path, silent: int) -> None:
    reasons = _reasons(emulator, tmp_path, [1, 1, 1], {silent: {"WITHOUT_FLAG": "1"}}, silent)
    assert len(set(reasons)) == 1, reasons
    assert reasons[0].startswith(f"process {silent} runs without xla-shmem (it has announced nothing within 0.")


def test_a_start_that_never_ends_ends_the_process_with_a_reason(emulator: Emulator, tmp_path: Path) -> None:
    ended = process_jobs.run_processes(
        emulator, "worker_agreement.py", 2, tmp_path, "[1, 1]", STORE_TIMEOUT="1", GPU_EMULATOR_NVSHMEM="hang"
    )
    assert [process.exit_code for process in ended] == [70, 70]
    assert "NVSHMEM has not started within 1 s; processes 0, 1 have not finished" in ended[0].output


def test_a_missing_driver_is_named(emulator: Emulator, tmp_path: Path) -> None:
    reasons = _reasons(emulator, tmp_path, [1], {0: {"LD_LIBRARY_PATH": ""}})
    assert "no NVIDIA driver" in reasons[0]


@pytest.mark.parametrize(
    ("gpus", "environ"),
    [
        ([1, 2], {"ORDINALS": "[1, 2]"}),
        ([1, 1], {"XLA_SHMEM_NVSHMEM_LIBRARY": "/nowhere/libnvshmem_host.so.3"}),
        ([1, 1], {"GPU_EMULATOR_NVSHMEM": "old"}),
    ],
    ids=["two GPUs", "no NVSHMEM", "old NVSHMEM"],
)
def test_what_nvshmem_cannot_carry_takes_the_drivers_memory(
    emulator: Emulator, tmp_path: Path, gpus: list[int], environ: dict[str, str]
) -> None:
    assert [one["reason"] for one in _topologies(emulator, tmp_path, gpus, {1: environ})] == ["", ""]


_HEAP = '{"gpu_heap": "driver"}'


@pytest.mark.parametrize(
    ("wrong", "sentence"),
    [
        ({"GPU_EMULATOR_MEMORY": "1048576"}, "process 1: cuMemCreate of 2097152 bytes of symmetric memory on"),
        ({"CHANGED": '{"gpu_heap": "driver", "gpu_puts": "nvshmem"}'}, "XLA_SHMEM_GPU_PUTS=nvshmem needs NVSHMEM's"),
    ],
    ids=["a full GPU", "NVSHMEM's puts"],
)
def test_what_the_drivers_memory_cannot_carry_is_the_same_reason_everywhere(
    emulator: Emulator, tmp_path: Path, wrong: dict[str, str], sentence: str
) -> None:
    only = {0: {"CHANGED": _HEAP}, 1: {"CHANGED": _HEAP} | wrong}
    assert sentence in _same_reason(emulator, tmp_path, [1, 1], only)
