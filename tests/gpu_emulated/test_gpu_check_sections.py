"""Sections of the GPU check on emulated GPUs, so that the check does not fail on a GPU for its own faults.

test_gpu_check.py runs all of them as a user does, with faults too; these are those that `make check` has time for.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest
from emulator import Emulator

#: The job of two ranks on SHMEM, of gpu_check.training.
TRAIN = """
import sys
from pathlib import Path
from gpu_check.training import train

train(2, 1, Path(sys.argv[1]), ["--nvshmem-flag"])
"""
CARRIES = "SHMEM carries the collectives of the training"

BENCHMARKS = Path(__file__).parents[2] / "benchmarks" / "gpu"
sys.path.insert(0, str(BENCHMARKS))

from gpu_check import collectives, records, training  # noqa: E402
from gpu_check.runner import differing  # noqa: E402

from xla_shmem.options import tuning_table  # noqa: E402
from xla_shmem.options.values import OPS  # noqa: E402
from xla_shmem.xla_libraries import known_flags  # noqa: E402

pytestmark = pytest.mark.timeout(240)


def run_section(
    emulator: Emulator, directory: Path, gpus: int, *arguments: str, seconds: float = 200, **variables: str
) -> list[records.Record]:
    """Runs a section by Python's arguments; returns its records."""
    found = directory / "records.jsonl"
    environ = emulator.environment(gpus, (), **{records.VARIABLE: str(found), records.EMULATED: "1"}, **variables)
    environ["PYTHONPATH"] = os.pathsep.join([str(BENCHMARKS), environ["PYTHONPATH"]])
    command = [sys.executable, *arguments]
    done = subprocess.run(command, env=environ, capture_output=True, text=True, timeout=seconds, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return records.read(found)


def checks(emulator: Emulator, directory: Path, gpus: int, *arguments: str) -> Counter[str]:
    """Runs a section; returns how often each check was made. All must have passed."""
    lines = run_section(emulator, directory, gpus, *arguments)
    made = [record for record in lines if record["kind"] == "check"]
    assert [record for record in made if not record["ok"]] == []
    assert differing(lines) == []
    return Counter(record["name"] for record in made)


def test_all_kernels_are_checked(emulator: Emulator, tmp_path: Path) -> None:
    assert len(checks(emulator, tmp_path, 1, "-m", "gpu_check.kernels")) == 104


def test_transfers_of_two_pes_that_share_a_gpu(emulator: Emulator, tmp_path: Path) -> None:
    made = checks(emulator, tmp_path, 1, "-m", "gpu_check.ranks", "--ranks=2", "--gpus=1", "--", "gpu_check.transfers")
    assert set(made.values()) == {2}
    assert made["a captured graph, launched ten times"]
    assert made["a start sends what was written before, a done waits for what is read after"]


@pytest.mark.slow
def test_jax_programs_of_two_ranks_run_on_shmem_with_the_right_results(emulator: Emulator, tmp_path: Path) -> None:
    ranks = ["-m", "gpu_check.ranks", "--ranks=2", "--gpus=2", "--nvshmem-flag", "--", "gpu_check.jax_programs"]
    made = checks(emulator, tmp_path, 2, *ranks)
    assert made["ring_in_a_scan_beside_a_matmul: runs on SHMEM"] == 2
    assert made["donated_state_in_a_training_loop"] == 2


@pytest.mark.slow
def test_jax_programs_of_two_gpus_in_one_process_run_on_shmem_with_the_right_results(
    emulator: Emulator, tmp_path: Path
) -> None:
    ranks = ["--ranks=1", "--gpus=2", "--devices=2", "--nvshmem-flag", "--", "gpu_check.jax_programs"]
    made = checks(emulator, tmp_path, 2, "-m", "gpu_check.ranks", *ranks)
    assert made["ring_in_a_scan_beside_a_matmul: runs on SHMEM"] == 1
    assert made["donated_state_in_a_training_loop"] == 1


def test_a_training_shows_that_it_runs_on_shmem(emulator: Emulator, tmp_path: Path) -> None:
    assert checks(emulator, tmp_path, 1, "-c", TRAIN, str(tmp_path))[CARRIES] == 1


@pytest.mark.slow
def test_a_training_on_nccl_fails_the_check(emulator: Emulator, tmp_path: Path) -> None:
    absent = {"XLA_SHMEM_NVSHMEM_LIBRARY": "/no/such/libnvshmem_host.so.3", "XLA_SHMEM_GPU_HEAP": "nvshmem"}
    lines = run_section(emulator, tmp_path, 1, "-c", TRAIN, str(tmp_path), **absent)
    (check,) = [record for record in lines if record["name"] == CARRIES]
    assert not check["ok"]
    assert "NVSHMEM → DEFAULT" in check["detail"]


#: What runs a collective in a job of its own on emulated GPUs.
WAYS = {"shmem", "stock", "nccl", "one-sided", "nccl-symmetric", "peer-copies", *collectives._SETTINGS}


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_all_ways_are_compared_and_only_kernels_that_are_not_emulated_end_one(
    emulator: Emulator, tmp_path: Path
) -> None:
    comparing = ["-m", "gpu_check.collectives", "--gpus=2", "--compare=transports"]
    lines = run_section(emulator, tmp_path, 2, *comparing, seconds=800, **{records.OUT: str(tmp_path)})
    assert [record for record in lines if record["kind"] == "check" and not record["ok"]] == []
    ran = {record["columns"]["by"] for record in lines if record["kind"] == "row" and "op" in record["columns"]}
    assert ran == WAYS
    ended = [record for record in lines if record["kind"] == "left out" and record["name"].endswith(" on")]
    assert {record["name"].partition(" from ")[0] for record in ended} <= {"stock", "nccl-symmetric"}
    assert all("multi_gpu_barrier_nccl_kernel" in record["reason"] for record in ended)
    # Stock XLA runs ragged all-to-alls by such a kernel, so they have no row.
    ops = {row.op for row in tuning_table.load(tmp_path / "tuning.json").rows}
    assert ops == {*OPS} - {"ragged-all-to-all"}


@pytest.mark.parametrize(
    ("log", "problem"),
    [
        ("[0] 2 collectives in 1 module: 2 NVSHMEM.", ""),
        ("[0] NVSHMEM 3.4.5 from /opt\n[0] No collectives in 1 module.", "no module with collectives in the log"),
        ("[0] 2 collectives in 1 module: 1 NVSHMEM, 1 DEFAULT.", "2 collectives in 1 module: 1 NVSHMEM, 1 DEFAULT."),
        ("[0] 1 collective in 1 module: 1 DEFAULT.", "1 collective in 1 module: 1 DEFAULT."),
        (
            "[0] 1 collective in 1 module: 1 NVSHMEM → DEFAULT.",
            "1 collective in 1 module: 1 NVSHMEM → DEFAULT.",
        ),
    ],
)
def test_the_log_of_a_training_says_where_its_collectives_are(log: str, problem: str) -> None:
    assert training.not_on_shmem(log) == problem


def test_xla_only_gets_flags_that_it_knows() -> None:
    names = {"xla_cpu_enable_fast_math", "xla_dump_to", "xla_gpu_no_such_flag_ever"}
    assert known_flags(names) == names - {"xla_gpu_no_such_flag_ever"}
