"""JAX jobs on the emulator built with AddressSanitizer and UndefinedBehaviorSanitizer."""

from __future__ import annotations

from pathlib import Path

import pytest
from emulated_jobs import run_emulated
from emulator import NO_GRAPH_FLAGS, BuildError, Emulator
from job_runs import JobRun

# Kernels of several kinds, transfers of several sizes, runs in flight, and the loops of ring attention.
CASES = (
    "ring_passes_each_block_to_the_next",
    "sum_product_minimum_maximum_of_bfloat16",
    "sum_is_right_at_sizes_around_every_limit",
    "two_programs_in_flight_do_not_mix",
    "ring_attention_equals_attention_on_the_cpu_forward_and_backward",
)


def sanitized() -> Emulator:
    """The emulator with both sanitizers."""
    try:
        return Emulator.build("address,undefined")
    except BuildError as error:
        pytest.fail(str(error), pytrace=False)


def check(job: JobRun) -> None:
    """Checks that no sanitizer has found anything."""
    assert "Sanitizer" not in job.output, job.output[-6000:]
    assert "runtime error" not in job.output, job.output[-6000:]
    assert job.exit_code == 0, job.output[-6000:]


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_no_memory_error_and_no_undefined_behaviour(tmp_path: Path) -> None:
    (tmp_path / "cases.txt").write_text("\n".join(CASES))
    job = run_emulated(
        sanitized(),
        "worker_gpu_cases.py",
        [str(tmp_path / "cases.txt"), str(tmp_path)],
        ranks=2,
        results=tmp_path,
        timeout=500,
        XLA_SHMEM_DEADLINE="60",
    )
    check(job)
    for rank in (0, 1):
        assert [(one["case"], one["error"]) for one in job.results[rank]] == [(name, "") for name in CASES]


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_four_gpus_of_one_process_train_without_a_memory_error(tmp_path: Path) -> None:
    job = run_emulated(
        sanitized(),
        "worker_gpu_training.py",
        ranks=1,
        devices=4,
        results=tmp_path,
        flags=NO_GRAPH_FLAGS,
        timeout=800,
        JAX_DEFAULT_MATMUL_PRECISION="highest",
    )
    check(job)
    assert job.result(0)["ran"] > 0
