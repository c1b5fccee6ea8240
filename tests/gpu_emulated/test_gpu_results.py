"""Cases of tests/e2e and cases_gpu.py on emulated GPUs, against NumPy; one job for each setting."""

from __future__ import annotations

import sys
from collections.abc import Callable, Collection
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from _pytest.mark import ParameterSet

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "e2e"))

from all_cases import CASES
from case_world import OPS, Case
from cases_gpu import GPU_CASES
from cases_not_on_gpus import LEFT_ON_NCCL, LEFT_ON_NCCL_BY_FOUR, NO_COLLECTIVE_RUNS, NOT_RUN
from emulated_jobs import run_emulated
from emulator import GRAPH_FLAGS, NO_GRAPH_FLAGS, Emulator
from gpu_world import COMPARED_WITH_STOCK
from hardware import Hardware
from job_runs import QUICK_COMPILATION, JobRun, Reports, run_job
from selected_cases import selected_cases

HERE = Path(__file__).resolve().parent

# Loops, branches, several programs and threads, donation, all of which XLA captures.
CONTROL_FLOW = (
    "90_independent_collectives_in_one_program",
    "branch_not_taken_leaves_no_gap",
    "branches_inside_a_loop_take_turns_between_collectives_and_none",
    "donated_operand_may_hold_the_result",
    "every_op_in_a_loop_between_permutes",
    "matmuls_between_start_and_done_do_not_disturb_the_transfer",
    "one_program_in_flight_many_times_does_not_mix",
    "ragged_rows_beside_a_matmul",
    "ragged_rows_in_a_loop_between_other_collectives",
    "tokens_go_to_their_experts_and_come_back",
    "operand_used_again_is_not_overwritten",
    "ring_in_fori_loop_comes_back_after_n_steps",
    "same_program_compiled_twice_is_two_programs",
    "slices_of_a_stack_are_moved_into_other_stacks",
    "sum_carried_by_scan_stays_right_for_hundreds_of_steps",
    "switch_picks_one_of_three_collectives",
    "two_programs_in_flight_do_not_mix",
    "two_threads_run_two_programs",
    "while_loop_runs_as_often_as_the_data_says",
)

# What a double that delays and reorders work can bring to light: many transfers in flight, ranks at different speeds.
TIMING = (
    "90_independent_collectives_in_one_program",
    "donated_operand_may_hold_the_result",
    "every_op_in_a_loop_between_permutes",
    "gathers_scatters_and_exchanges_of_every_width",
    "matmuls_between_start_and_done_do_not_disturb_the_transfer",
    "ragged_rows_beside_a_matmul",
    "ranks_at_different_speeds_still_meet",
    "ring_attention_equals_attention_on_the_cpu_forward_and_backward",
    "rows_of_every_width_come_to_where_the_sender_says",
    "scattered_and_whole_sums_of_every_size",
    "steps_of_an_unrolled_ring_do_not_mix",
    "sum_is_right_at_sizes_around_every_limit",
    "two_programs_in_flight_do_not_mix",
)


@dataclass(frozen=True)
class Setting:
    """A job.

    Attributes:
      ranks: processes.
      names: the only cases it runs; all of its shape if empty.
      flags: XLA_FLAGS.
      environ: more variables.
      quick: whether `make test` runs its fast cases.
      devices: GPUs of each process.
      hosts: of an NVLink domain, among which the processes are divided.
    """

    ranks: int
    names: Collection[str] = ()
    flags: tuple[str, ...] = NO_GRAPH_FLAGS
    environ: dict[str, str] = field(default_factory=dict)
    quick: bool = False
    devices: int = 1
    hosts: int = 1

    @property
    def gpus(self) -> int:
        """GPUs of the job."""
        return self.ranks * self.devices

    def runs(self, name: str, case: Case) -> bool:
        """Whether the case knows this shape. With several GPUs a process it is one for any number of processes."""
        shapes = case.fast + case.slow
        any_processes = name in GPU_CASES or any(shape in shapes for shape in ("1x4", "2x4"))
        return f"{self.gpus}x1" in shapes and (self.devices == 1 or any_processes)

    @property
    def counts_all(self) -> bool:
        """Whether every collective is counted. Permutes by copies in CUDA graphs are if statistics are on."""
        return self.flags == NO_GRAPH_FLAGS or "XLA_SHMEM_STATS" in self.environ


SETTINGS = {
    "2": Setting(2, quick=True),
    "2-graphs": Setting(2, CONTROL_FLOW, GRAPH_FLAGS, {"XLA_SHMEM_STATS": "1"}, quick=True),
    "2-graphs-copies": Setting(
        2, CONTROL_FLOW, GRAPH_FLAGS, {"XLA_SHMEM_STATS": "1", "XLA_SHMEM_GPU_PERMUTE": "copies"}, quick=True
    ),
    "1x2": Setting(1, devices=2, quick=True),
    # XLA makes graphs by default, but not in a process with several GPUs.
    "1x2-default": Setting(1, CONTROL_FLOW, (), {"XLA_SHMEM_STATS": "1"}, quick=True, devices=2),
    "1x4": Setting(1, devices=4),
    "1x4-seed-1": Setting(1, TIMING, environ={"GPU_EMULATOR_SEED": "1"}, devices=4),
    "1x8": Setting(1, devices=8),
    "2x2": Setting(2, devices=2, quick=True),
    "2x2-seed-2": Setting(2, TIMING, environ={"GPU_EMULATOR_SEED": "2"}, devices=2),
    "2x4": Setting(
        2, (*TIMING, "every_op_over_each_axis_of_a_mesh", "every_op_over_groups_chosen_by_index"), devices=4
    ),
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


def _left_on_nccl(name: str, gpus: int) -> list[str]:
    return LEFT_ON_NCCL.get(name, LEFT_ON_NCCL_BY_FOUR.get(name, []) if gpus >= 4 else [])


def _cannot_run(emulator: Emulator, name: str, setting: Setting) -> bool:
    """NCCL refuses two ranks on one GPU, and a process has no more GPUs than the machine."""
    if not isinstance(emulator, Hardware) or setting.gpus <= emulator.count:
        return False
    if setting.hosts > 1:
        return True
    return setting.devices > 1 or bool(_left_on_nccl(name, setting.gpus))


def _run_stock(names: list[str], setting: Setting, results: Path, records: Path) -> JobRun:
    """Records what the cases compare with, by a job of stock JAX on CPUs."""
    records.mkdir(parents=True)
    cases = results / "cases.txt"
    cases.parent.mkdir()
    cases.write_text("\n".join(names))
    return run_job(
        str(HERE / "worker_stock_cases.py"),
        [str(cases), str(records)],
        ranks=setting.ranks,
        devices=setting.devices,
        results=results,
        flag=False,
        timeout=400,
        XLA_FLAGS=QUICK_COMPILATION,
        JAX_ENABLE_X64="1",
        PYTHONPATH=str(HERE.parent / "e2e"),
    )


@pytest.fixture(scope="module")
def reports(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory, emulator: Emulator
) -> Callable[[str, str], tuple[JobRun, Reports]]:
    """Runs the job of a setting once, with the selected cases."""
    jobs: dict[str, JobRun] = {}
    stock: dict[str, JobRun] = {}

    def reports_of(key: str, name: str) -> tuple[JobRun, Reports]:
        if key not in jobs:
            setting = SETTINGS[key]
            selected = selected_cases(request, key=key)
            names = [name for name in selected if not _cannot_run(emulator, name, setting)]
            results = tmp_path_factory.mktemp(key)
            (results / "cases.txt").write_text("\n".join(names))
            records = results / "records"
            compared = [name for name in names if name in COMPARED_WITH_STOCK]
            stock[key] = _run_stock(compared, setting, results / "stock", records)
            environ = {
                "JAX_ENABLE_X64": "1",
                "XLA_SHMEM_THRESHOLD": "2MiB",
                "XLA_SHMEM_OPS": OPS,
                "XLA_SHMEM_DEADLINE": "60",
            }
            jobs[key] = run_emulated(
                emulator,
                "worker_gpu_cases.py",
                [str(results / "cases.txt"), str(records)],
                ranks=setting.ranks,
                devices=setting.devices,
                results=results,
                flags=setting.flags,
                timeout=800,
                cold=True,
                **(environ | setting.environ | (emulator.hosts(setting.hosts) if setting.hosts > 1 else {})),
            )
        if name in COMPARED_WITH_STOCK:
            for rank, report in stock[key].reports_of(name).items():
                assert report, f"stock, rank {rank} did not get to this case:\n{stock[key].output[-6000:]}"
                assert not report["error"], f"stock, rank {rank}: {report['error']}"
        refused = [line for line in jobs[key].output.splitlines() if " refused: " in line]
        assert not refused, "XLA asked the emulator for what it does not know:\n" + "\n".join(refused[:20])
        return jobs[key], jobs[key].reports_of(name)

    return reports_of


@pytest.mark.timeout(900)
@pytest.mark.parametrize(("key", "name"), _parameters())
def test_result(key: str, name: str, emulator: Emulator, reports: Callable[[str, str], tuple[JobRun, Reports]]) -> None:
    setting = SETTINGS[key]
    if _cannot_run(emulator, name, setting):
        pytest.skip("NCCL refuses two ranks on one GPU")
    job, of_rank = reports(key, name)
    for rank in range(setting.ranks):
        assert of_rank.get(rank), f"rank {rank} did not get to this case:\n{job.output[-6000:]}"
        result = of_rank[rank]
        assert not result["error"], f"rank {rank}: {result['error']}"
        if setting.gpus > 1:
            assert result["left"] == _left_on_nccl(name, setting.gpus), f"rank {rank} left on NCCL: {result['left']}"
        assert result["digests"] == of_rank[0]["digests"], f"ranks 0 and {rank} have other bits"
        ran, announced = result["ran"], result["expected"]
        assert (ran > 0) == (name not in NO_COLLECTIVE_RUNS), f"rank {rank}: {ran} collectives ran on NVSHMEM"
        if setting.counts_all:
            counted = ran == announced if result["exact"] else ran >= announced
            assert counted, f"rank {rank}: {ran} collectives ran on NVSHMEM, the modules announce {announced}"
        if setting.flags == NO_GRAPH_FLAGS or setting.devices > 1:
            assert not result["in_graphs"], f"rank {rank}: CUDA graphs ran, which the flags turn off"


@pytest.mark.timeout(900)
@pytest.mark.parametrize(
    ("key", "name"),
    [
        pytest.param(key, name, id=f"{key}-{name}")
        for key in ("2-graphs",)
        for name in (
            # Not loops and branches, whose collectives xla-shmem keeps out of graphs.
            "90_independent_collectives_in_one_program",
            "same_program_compiled_twice_is_two_programs",
        )
    ],
)
def test_collectives_run_inside_graphs(
    key: str, name: str, reports: Callable[[str, str], tuple[JobRun, Reports]]
) -> None:
    _, of_rank = reports(key, name)
    for rank, report in of_rank.items():
        assert int(str(report["in_graphs"])) > 0, f"rank {rank}: CUDA graphs ran no collective: {report}"
