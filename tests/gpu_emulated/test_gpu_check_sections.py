"""Sections of the GPU check on emulated GPUs, so that the check does not fail on a GPU for its own faults.

test_gpu_check.py runs all of them as a user does, with faults too; these are those that `make test` has time for.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest
from emulator import Emulator

BENCHMARKS = Path(__file__).parents[2] / "benchmarks" / "gpu"
sys.path.insert(0, str(BENCHMARKS))

from gpu_check import records  # noqa: E402
from gpu_check.runner import differing  # noqa: E402

from xla_shmem.bench import variants  # noqa: E402

pytestmark = pytest.mark.timeout(240)


def checks(emulator: Emulator, directory: Path, gpus: int, *module: str) -> Counter[str]:
    """Runs a section; returns how often each check was made. All must have passed."""
    found = directory / "records.jsonl"
    environ = emulator.environment(gpus, (), **{records.VARIABLE: str(found), records.EMULATED: "1"})
    environ["PYTHONPATH"] = os.pathsep.join([str(BENCHMARKS), environ["PYTHONPATH"]])
    command = [sys.executable, "-m", *module]
    done = subprocess.run(command, env=environ, capture_output=True, text=True, timeout=200, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    lines = records.read(found)
    made = [record for record in lines if record["kind"] == "check"]
    assert [record for record in made if not record["ok"]] == []
    assert differing(lines) == []
    return Counter(record["name"] for record in made)


def test_all_kernels_are_checked(emulator: Emulator, tmp_path: Path) -> None:
    assert len(checks(emulator, tmp_path, 1, "gpu_check.kernels")) == 104


def test_transfers_of_two_pes_that_share_a_gpu(emulator: Emulator, tmp_path: Path) -> None:
    made = checks(emulator, tmp_path, 1, "gpu_check.ranks", "--ranks=2", "--gpus=1", "--", "gpu_check.transfers")
    assert set(made.values()) == {2}
    assert made["a captured graph, launched ten times"]
    assert made["a start sends what was written before, a done waits for what is read after"]


@pytest.mark.slow
def test_jax_programs_of_two_ranks_run_on_shmem_with_the_right_results(emulator: Emulator, tmp_path: Path) -> None:
    ranks = ["gpu_check.ranks", "--ranks=2", "--gpus=2", "--nvshmem-flag", "--", "gpu_check.jax_programs"]
    made = checks(emulator, tmp_path, 2, *ranks)
    assert made["ring_in_a_scan_beside_a_matmul: runs on SHMEM"] == 2
    assert made["donated_state_in_a_training_loop"] == 2


def test_xla_only_gets_flags_that_it_knows() -> None:
    names = {"xla_cpu_enable_fast_math", "xla_dump_to", "xla_gpu_no_such_flag_ever"}
    assert variants.known_flags(names) == names - {"xla_gpu_no_such_flag_ever"}
