"""An obstacle in one process becomes the same error in all of them."""

from __future__ import annotations

import json
from pathlib import Path

import doubled_jobs
import pytest

pytestmark = pytest.mark.timeout(180, func_only=True)

# The environment of one process, the expected error in all of them, and GPUs by process.
_WRONG: dict[str, tuple[int, dict[str, str], str, list[int]]] = {
    "two GPUs": (1, {"ORDINALS": "[1, 2]"}, "process 1: it has 2 GPUs, but NVSHMEM has one PE a process", [1, 2]),
    "no such GPU": (1, {"ORDINALS": "[9]"}, "process 1: CUDA shows 4 GPUs, so there is no device 9", [1, 1]),
    "broken driver": (0, {"DRIVER_DOUBLE": "broken"}, "process 0: the NVIDIA driver's libnvidia-ml.so.1", [1, 1]),
    "another threshold": (
        1,
        {"CHANGED": '{"threshold": 4096}'},
        "threshold=4096 ops=default nvlink_domain=auto heap_size=524288 gpu_reduce=rings and process 0 has",
        [1, 1],
    ),
    "another heap": (
        1,
        {"CHANGED": '{"heap_size": 1048576}'},
        "heap_size=1048576 gpu_reduce=rings and process 0 has",
        [1, 1],
    ),
    "no NVSHMEM": (
        1,
        {"XLA_SHMEM_NVSHMEM_LIBRARY": "/nowhere/libnvshmem_host.so.3"},
        "process 1: no NVSHMEM host library found",
        [1, 1],
    ),
    "old NVSHMEM": (0, {"NVSHMEM_DOUBLE": "old"}, "is NVSHMEM 2.11, at least 3.0 is needed", [1, 1]),
    "no unique id": (
        0,
        {"NVSHMEM_DOUBLE": "no-id"},
        "process 0: NVSHMEM could not make a unique id (status 7)",
        [1, 1],
    ),
    "no init": (
        0,
        {"NVSHMEM_DOUBLE": "no-init"},
        "process 0: NVSHMEM 3.8 could not start as PE 0 of 2 (status 7)",
        [1, 1],
    ),
    "half an init": (
        0,
        {"NVSHMEM_DOUBLE": "half-init"},
        "process 0: NVSHMEM 3.8 could not start as PE 0 of 2 (it got no further than its bootstrap)",
        [1, 1],
    ),
    "no peer access": (1, {"NVSHMEM_DOUBLE": "no-peer"}, "process 1: PE 0 is not reachable by NVLink", [1, 1]),
    "other settings of NVSHMEM": (
        1,
        {"NVSHMEM_MAX_TEAMS": "99"},
        "gpu_reduce=rings NVSHMEM_MAX_TEAMS=99 and process 0 has",
        [1, 1],
    ),
    "another layout of NVSHMEM's heap": (
        1,
        {"NVSHMEM_DOUBLE": "other-layout"},
        "process 1: its arena lies ",
        [1, 1],
    ),
    "a full GPU": (0, {"CUDA_DOUBLE_FREE": "1048576"}, "process 0 has 1048576 bytes of free GPU memory", [1, 1]),
    "no reductions": (
        0,
        {"CHANGED": '{"gpu_reduce": "teams"}'},
        "and 47 other reductions, which XLA_SHMEM_GPU_REDUCE=teams calls: set it to rings",
        [1, 1],
    ),
    "no memory": (1, {"NVSHMEM_DOUBLE_HEAP": "300000"}, "bytes of symmetric memory: lower XLA_SHMEM_HEAP_SIZE", [1, 1]),
}


def _reasons(
    double: Path, directory: Path, gpus: list[int], only: dict[int, dict[str, str]], silent: int | None = None
) -> list[str]:
    ended = doubled_jobs.run_job(
        double,
        "worker_agreement.py",
        len(gpus),
        directory,
        json.dumps(gpus),
        only=only,
        STORE_TIMEOUT="20" if silent is None else "0.3",
        NVSHMEM_DOUBLE_TIMEOUT="2",
    )
    told = [report for process, report in enumerate(doubled_jobs.reports(ended)) if process != silent]
    assert not any(report["available"] for report in told)
    return [report["reason"] for report in told]


@pytest.mark.parametrize("wrong", _WRONG)
def test_all_processes_have_the_same_reason_not_to_start(double: Path, tmp_path: Path, wrong: str) -> None:
    process, environ, sentence, gpus = _WRONG[wrong]
    reasons = _reasons(double, tmp_path, gpus, {process: environ})
    assert len(set(reasons)) == 1, reasons
    assert sentence in reasons[0]


@pytest.mark.parametrize("silent", [0, 2])
def test_a_process_without_the_flag_is_named_to_all_others(double: Path, tmp_path: Path, silent: int) -> None:
    reasons = _reasons(double, tmp_path, [1, 1, 1], {silent: {"WITHOUT_FLAG": "1"}}, silent)
    assert len(set(reasons)) == 1, reasons
    assert reasons[0].startswith(f"process {silent} runs without xla-shmem (it has announced nothing within 0.")


def test_a_start_that_never_ends_ends_the_process_with_a_reason(double: Path, tmp_path: Path) -> None:
    ended = doubled_jobs.run_job(
        double, "worker_agreement.py", 2, tmp_path, "[1, 1]", STORE_TIMEOUT="1", NVSHMEM_DOUBLE="hang"
    )
    assert [process.exit_code for process in ended] == [70, 70]
    assert "NVSHMEM has not started within 1 s; processes 0, 1 have not finished" in ended[0].output


def test_a_missing_driver_is_named(double: Path, tmp_path: Path) -> None:
    reasons = _reasons(double, tmp_path, [1], {0: {"LD_LIBRARY_PATH": ""}})
    assert "no NVIDIA driver" in reasons[0]
