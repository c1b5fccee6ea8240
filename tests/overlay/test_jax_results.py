"""JAX on the patched XLA:GPU: the cases of tests/e2e and of tests/gpu_emulated, counted, and a training."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from all_cases import CASES
from case_jobs import CONTROL_FLOW, TIMING, CaseJob, Setting
from cases_gpu import GPU_CASES
from cases_not_on_gpus import NOT_RUN
from emulator import GRAPH_FLAGS
from patched_xla import PatchedXla
from selected_cases import selected_cases

SETTINGS = {
    "2": Setting(2),
    "2-graphs": Setting(2, CONTROL_FLOW, GRAPH_FLAGS, {"XLA_SHMEM_STATS": "1"}),
    "4": Setting(4, {*TIMING, *CONTROL_FLOW}),
}

#: XLA ends the process in its emission, before a thunk can be replaced: it has no bitwise reduction of integers. Stock
#: XLA does too; the plugin takes the reduction out before.
ENDED_BY_XLA = ("partitioner_inserts_logical_reductions",)

#: The text of a module has to have the plugin's custom calls, start before the matmuls and done behind them.
OF_THE_PLUGIN = ("matmuls_between_start_and_done_do_not_disturb_the_transfer", "ragged_rows_beside_a_matmul")


def _parameters() -> list[tuple[str, str]]:
    return [
        (key, name)
        for key, setting in SETTINGS.items()
        for name, case in (CASES | GPU_CASES).items()
        if name not in (*NOT_RUN, *ENDED_BY_XLA, *OF_THE_PLUGIN)
        and setting.runs(name, case)
        and name in (setting.names or [name])
    ]


@pytest.fixture(scope="module")
def job_of(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory, emulator: PatchedXla
) -> Callable[[str], CaseJob]:
    """Runs the job of a setting once, with the selected cases."""
    jobs: dict[str, CaseJob] = {}

    def job(key: str) -> CaseJob:
        if key not in jobs:
            names = selected_cases(request, key=key)
            jobs[key] = CaseJob(emulator, SETTINGS[key], names, tmp_path_factory.mktemp(key))
        return jobs[key]

    return job


@pytest.mark.timeout(1200)
@pytest.mark.parametrize(("key", "name"), _parameters())
def test_result(key: str, name: str, job_of: Callable[[str], CaseJob]) -> None:
    job_of(key).check(name)
