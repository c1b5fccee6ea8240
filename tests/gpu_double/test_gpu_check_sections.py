"""The sections of the GPU check without a GPU: on doubles of NVIDIA's libraries, and JAX's on CPU processes.

They say that calls, arguments and expected values are right, so that the check does not fail on a GPU for its own
faults.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections import Counter
from pathlib import Path

ROOT = Path(__file__).parents[2]
sys.path.insert(0, str(ROOT / "benchmarks" / "gpu"))

from gpu_check import records, xla_flag_names  # noqa: E402
from gpu_check.runner import differing  # noqa: E402


def run(tmp_path: Path, *module: str, **environment: str) -> list[records.Record]:
    """Runs a section and returns its records."""
    found = tmp_path / "records.jsonl"
    variables = {
        **os.environ,
        "PYTHONPATH": os.pathsep.join([str(ROOT / "benchmarks" / "gpu"), os.environ.get("PYTHONPATH", "")]),
        records.VARIABLE: str(found),
    }
    done = subprocess.run(
        [sys.executable, "-m", *module], env={**variables, **environment}, capture_output=True, text=True, timeout=100
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return records.read(found)


def checks(lines: list[records.Record]) -> Counter[str]:
    """Returns how often each check was made. All must have passed."""
    made = [record for record in lines if record["kind"] == "check"]
    assert [record for record in made if not record["ok"]] == []
    assert differing(lines) == []
    return Counter(record["name"] for record in made)


def test_all_kernels_are_checked(tmp_path: Path, double: Path) -> None:
    made = checks(run(tmp_path, "gpu_check.kernels", LD_LIBRARY_PATH=str(double)))
    assert len(made) == 48


def test_transfers_of_two_pes(tmp_path: Path, double: Path) -> None:
    ranks = ["gpu_check.ranks", "--ranks=2", "--gpus=1", "--", "gpu_check.transfers"]
    made = checks(run(tmp_path, *ranks, LD_LIBRARY_PATH=str(double), NVSHMEM_DOUBLE_HEAP=str(128 << 20)))
    assert set(made.values()) == {2}
    assert made["a captured graph, launched ten times"]
    assert made["a start sends what was written before, a done waits for what is read after"]


def test_jax_programs_of_two_ranks_run_on_shmem_with_the_right_results(tmp_path: Path) -> None:
    ranks = ["gpu_check.ranks", "--ranks=2", "--gpus=1", "--nvshmem-flag", "--", "gpu_check.jax_programs"]
    made = checks(run(tmp_path, *ranks, GPU_CHECK_PLATFORM="cpu"))
    assert made["ring_in_a_scan_beside_a_matmul: runs on SHMEM"] == 2
    assert made["donated_state_in_a_training_loop"] == 2


def test_xla_only_gets_flags_that_it_knows() -> None:
    names = {"xla_cpu_enable_fast_math", "xla_dump_to", "xla_gpu_no_such_flag_ever"}
    assert xla_flag_names.known(names) == names - {"xla_gpu_no_such_flag_ever"}
