"""Jobs that run cases of tests/e2e and cases_gpu.py on emulated GPUs, and what their reports must say."""

from __future__ import annotations

import json
from collections.abc import Collection, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from case_world import OPS, Case
from cases_gpu import GPU_CASES
from cases_not_on_gpus import LEFT_ON_NCCL, LEFT_ON_NCCL_BY_FOUR, NO_COLLECTIVE_RUNS
from emulated_jobs import run_emulated
from emulator import NO_GRAPH_FLAGS, Emulator
from gpu_world import COMPARED_WITH_STOCK
from job_runs import QUICK_COMPILATION, JobRun, Reports, run_job

HERE = Path(__file__).resolve().parent

#: Loops, branches, several programs and threads, donation, all of which XLA captures.
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

#: What a double that delays and reorders work can bring to light: many transfers in flight, ranks at different speeds.
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


def left_by(name: str, gpus: int) -> list[str]:
    """The ops that a case leaves on NCCL."""
    return LEFT_ON_NCCL.get(name, LEFT_ON_NCCL_BY_FOUR.get(name, []) if gpus >= 4 else [])


def _run_stock(names: Sequence[str], setting: Setting, results: Path, records: Path) -> JobRun:
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


class CaseJob:
    """A job that has run cases."""

    def __init__(self, emulator: Emulator, setting: Setting, names: Sequence[str], results: Path) -> None:
        """Runs it, and a job of stock JAX for what the cases compare with."""
        self.setting = setting
        self._counts = results / "operations.txt"
        (results / "cases.txt").write_text("\n".join(names))
        records = results / "records"
        compared = [name for name in names if name in COMPARED_WITH_STOCK]
        self._stock = _run_stock(compared, setting, results / "stock", records)
        environ = {
            "JAX_ENABLE_X64": "1",
            "XLA_SHMEM_THRESHOLD": "2MiB",
            "XLA_SHMEM_OPS": OPS,
            "XLA_SHMEM_DEADLINE": "60",
            "GPU_EMULATOR_COUNTS": str(self._counts),
        }
        self._job = run_emulated(
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

    def reports_of(self, name: str) -> Reports:
        """The report of each rank that got to a case, once stock JAX has run it without an error."""
        if name in COMPARED_WITH_STOCK:
            for rank, report in self._stock.reports_of(name).items():
                assert report, f"stock, rank {rank} did not get to this case:\n{self._stock.output[-6000:]}"
                assert not report["error"], f"stock, rank {rank}: {report['error']}"
        refused = [line for line in self._job.output.splitlines() if " refused: " in line]
        assert not refused, "XLA asked the emulator for what it does not know:\n" + "\n".join(refused[:20])
        return self._job.reports_of(name)

    def operations(self, kind: str) -> int:
        """How many operations of a kind the emulated GPUs have run in all cases."""
        counts = [json.loads(line) for line in self._counts.read_text().splitlines()]
        return sum(count["operations"] for count in counts if count["kind"] == kind)

    def check(self, name: str) -> None:
        """Checks a case's results, and that as many collectives ran on NVSHMEM as its modules announce."""
        of_rank = self.reports_of(name)
        for rank in range(self.setting.ranks):
            assert of_rank.get(rank), f"rank {rank} did not get to this case:\n{self._job.output[-6000:]}"
            self._check_report(name, rank, of_rank[rank])
            assert of_rank[rank]["digests"] == of_rank[0]["digests"], f"ranks 0 and {rank} have other bits"

    def _check_report(self, name: str, rank: int, result: dict[str, object]) -> None:
        setting = self.setting
        assert not result["error"], f"rank {rank}: {result['error']}"
        if setting.gpus > 1:
            assert result["left"] == left_by(name, setting.gpus), f"rank {rank} left on NCCL: {result['left']}"
        ran, announced = int(str(result["ran"])), int(str(result["expected"]))
        assert (ran > 0) == (name not in NO_COLLECTIVE_RUNS), f"rank {rank}: {ran} collectives ran on NVSHMEM"
        if setting.counts_all:
            counted = ran == announced if result["exact"] else ran >= announced
            assert counted, f"rank {rank}: {ran} collectives ran on NVSHMEM, the modules announce {announced}"
        if setting.flags == NO_GRAPH_FLAGS:
            assert not result["in_graphs"], f"rank {rank}: CUDA graphs ran {result['in_graphs']} collectives"
