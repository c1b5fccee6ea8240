"""Processes of one job that have different numbers of GPUs: XLA compiles nothing for them.

The start of such a job, whose memory is the driver's, is tested in processes/test_agreement.py.
"""

from __future__ import annotations

from pathlib import Path

import pytest
from emulated_jobs import run_emulated
from emulator import NO_GRAPH_FLAGS, Emulator


# With another outcome XLA has learnt it: then the worker's results are to be checked as in test_gpu_nccl.py, and the
# ops that stay on NCCL.
@pytest.mark.slow
@pytest.mark.timeout(300)
@pytest.mark.parametrize("flag", [False, True], ids=["stock", "flag"])
def test_xla_refuses_one_gpu_beside_three_with_and_without_the_flag(
    emulator: Emulator, tmp_path: Path, flag: bool
) -> None:
    job = run_emulated(
        emulator,
        "worker_uneven.py",
        ["2"],
        ranks=2,
        devices=2,  # for the number of the machine's GPUs, which the worker divides otherwise
        results=tmp_path,
        flags=NO_GRAPH_FLAGS,
        flag=flag,
        timeout=280,
        cold=True,
        XLA_SHMEM_OPS="all",
    )
    assert job.exit_code == 1, job.output[-6000:]
    assert "INVALID_ARGUMENT: Device id 0 is out of range [0, -1)" in job.output, job.output[-6000:]
    assert job.results == {}
