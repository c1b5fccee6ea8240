"""The start of NVSHMEM before XLA's GPU client exists."""

from __future__ import annotations

from pathlib import Path

import pytest
from emulated_jobs import run_emulated
from emulator import Emulator
from job_runs import JobRun

pytestmark = pytest.mark.timeout(240)

_ERROR = "The primary context is active and has a different flag set"


def _sum(emulator: Emulator, results: Path, **environ: str) -> JobRun:
    job = run_emulated(
        emulator,
        "worker_context_flags.py",
        ranks=2,
        results=results,
        timeout=200,
        cold=True,
        TF_CPP_MIN_LOG_LEVEL="0",
        **environ,
    )
    assert [job.result(rank) for rank in (0, 1)] == [{"total": 28.0}] * 2, job.output[-6000:]
    return job


def test_xla_finds_the_flags_of_the_context_as_it_left_them(emulator: Emulator, tmp_path: Path) -> None:
    # NVSHMEM, and the double of it, leaves CU_CTX_SYNC_MEMOPS on the context.
    assert _ERROR not in _sum(emulator, tmp_path).output


def test_xla_reports_flags_of_others(emulator: Emulator, tmp_path: Path) -> None:
    assert _ERROR in _sum(emulator, tmp_path, FOREIGN_FLAGS="1").output
