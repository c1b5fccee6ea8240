"""Cases of tests/e2e and cases_gpu.py on emulated GPUs, against NumPy; one job for each setting."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from _pytest.mark import ParameterSet

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "e2e"))

from all_cases import CASES
from case_jobs import CONTROL_FLOW, TIMING, CaseJob, Setting, left_by
from cases_gpu import GPU_CASES
from cases_not_on_gpus import NOT_RUN
from emulator import GRAPH_FLAGS, Emulator
from hardware import Hardware
from selected_cases import selected_cases

SETTINGS = {
    "2": Setting(2, quick=True),
    "2-graphs": Setting(2, CONTROL_FLOW, GRAPH_FLAGS, {"XLA_SHMEM_STATS": "1"}, quick=True),
    "2-graphs-copies": Setting(
        2, CONTROL_FLOW, GRAPH_FLAGS, {"XLA_SHMEM_STATS": "1", "XLA_SHMEM_GPU_PERMUTE": "copies"}, quick=True
    ),
    "1x2": Setting(1, devices=2, quick=True),
    "1x2-graphs": Setting(
        1, CONTROL_FLOW, GRAPH_FLAGS, {"XLA_SHMEM_STATS": "1", "GPU_EMULATOR_BLOCKING": "2"}, quick=True, devices=2
    ),
    "1x4-default": Setting(1, CONTROL_FLOW, (), {"GPU_EMULATOR_BLOCKING": "2"}, devices=4),
    "2x2-graphs": Setting(2, CONTROL_FLOW, GRAPH_FLAGS, {"GPU_EMULATOR_BLOCKING": "2"}, devices=2),
    "1x4": Setting(1, devices=4),
    "1x4-seed-1": Setting(1, TIMING, environ={"GPU_EMULATOR_SEED": "1"}, devices=4),
    "1x8": Setting(1, devices=8),
    "2x2": Setting(2, devices=2, quick=True),
    "2x2-seed-2": Setting(2, TIMING, environ={"GPU_EMULATOR_SEED": "2"}, devices=2),
    "2x4": Setting(2, devices=4),
    "2x2-hosts": Setting(2, TIMING, devices=2, hosts=2),
    "2-driver": Setting(2, TIMING, environ={"XLA_SHMEM_GPU_HEAP": "driver"}),
    "2-driver-hosts": Setting(2, TIMING, environ={"XLA_SHMEM_GPU_HEAP": "driver"}, hosts=2),
    "2-default": Setting(2, CONTROL_FLOW, (), {"XLA_SHMEM_STATS": "1"}),
    "4": Setting(4),
    "4-copies": Setting(4, TIMING, environ={"XLA_SHMEM_GPU_PERMUTE": "copies"}),
    "4-graphs": Setting(4, CONTROL_FLOW, GRAPH_FLAGS),
    "4-seed-1": Setting(4, TIMING, environ={"GPU_EMULATOR_SEED": "1"}, quick=True),
    **{f"2-seed-{seed}": Setting(2, TIMING, environ={"GPU_EMULATOR_SEED": str(seed)}) for seed in range(2, 7)},
    "2-copies-seed-8": Setting(2, TIMING, environ={"GPU_EMULATOR_SEED": "8", "XLA_SHMEM_GPU_PERMUTE": "copies"}),
    "2-graphs-seed-7": Setting(2, CONTROL_FLOW, GRAPH_FLAGS, {"GPU_EMULATOR_SEED": "7"}),
}


def _parameters() -> list[ParameterSet]:
    found = []
    for key, setting in SETTINGS.items():
        shape = f"{setting.gpus}x1"
        for name, case in (CASES | GPU_CASES).items():
            if name in NOT_RUN or not setting.runs(name, case):
                continue
            if setting.names and name not in setting.names:
                continue
            quick = setting.quick and (bool(setting.names) or shape in case.fast)
            found.append(pytest.param(key, name, id=f"{key}-{name}", marks=() if quick else pytest.mark.slow))
    return found


def _cannot_run(emulator: Emulator, name: str, setting: Setting) -> bool:
    """NCCL refuses two ranks on one GPU, and a process has no more GPUs than the machine."""
    if not isinstance(emulator, Hardware) or setting.gpus <= emulator.count:
        return False
    return setting.hosts > 1 or setting.devices > 1 or bool(left_by(name, setting.gpus))


@pytest.fixture(scope="module")
def job_of(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory, emulator: Emulator
) -> Callable[[str], CaseJob]:
    """Runs the job of a setting once, with the selected cases."""
    jobs: dict[str, CaseJob] = {}

    def job(key: str) -> CaseJob:
        if key not in jobs:
            setting = SETTINGS[key]
            selected = selected_cases(request, key=key)
            names = [name for name in selected if not _cannot_run(emulator, name, setting)]
            jobs[key] = CaseJob(emulator, setting, names, tmp_path_factory.mktemp(key))
        return jobs[key]

    return job


@pytest.mark.timeout(900)
@pytest.mark.parametrize(("key", "name"), _parameters())
def test_result(key: str, name: str, emulator: Emulator, job_of: Callable[[str], CaseJob]) -> None:
    if _cannot_run(emulator, name, SETTINGS[key]):
        pytest.skip("NCCL refuses two ranks on one GPU")
    job_of(key).check(name)


@pytest.mark.timeout(900)
@pytest.mark.parametrize(
    ("key", "name"),
    [
        pytest.param(key, name, id=f"{key}-{name}")
        for key in ("2-graphs", "1x2-graphs")
        for name in (
            "90_independent_collectives_in_one_program",
            "same_program_compiled_twice_is_two_programs",
        )
    ],
)
def test_collectives_run_inside_graphs(key: str, name: str, job_of: Callable[[str], CaseJob]) -> None:
    for rank, report in job_of(key).reports_of(name).items():
        assert int(str(report["in_graphs"])) > 0, f"rank {rank}: CUDA graphs ran no collective: {report}"


@pytest.mark.timeout(900)
@pytest.mark.parametrize(
    ("key", "name"),
    [
        pytest.param(key, name, id=f"{key}-{name}", marks=() if key == "1x2-graphs" else pytest.mark.slow)
        for key in ("1x2-graphs", "2x2-graphs")
        for name in (
            "sum_carried_by_scan_stays_right_for_hundreds_of_steps",
            "ring_in_fori_loop_comes_back_after_n_steps",
        )
    ],
)
def test_with_several_gpus_in_a_process_graphs_have_no_collective_of_a_loop(
    key: str, name: str, job_of: Callable[[str], CaseJob]
) -> None:
    job = job_of(key)
    job.check(name)
    assert [report["in_graphs"] for report in job.reports_of(name).values()] == [0] * job.setting.ranks
    assert job.operations("graph") > 0
