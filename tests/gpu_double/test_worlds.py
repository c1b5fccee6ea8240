"""A job of several NVLink domains: each is an NVSHMEM world, whose PE numbers differ from the job's."""

from __future__ import annotations

from pathlib import Path

import doubled_jobs
import pytest


@pytest.mark.timeout(180, func_only=True)
@pytest.mark.parametrize("puts", ["nvshmem", "driver"])
def test_each_domain_is_a_world_of_its_own(double: Path, tmp_path: Path, puts: str) -> None:
    said = doubled_jobs.reports(doubled_jobs.run_job(double, "worker_worlds.py", 4, tmp_path, puts))
    # Device ids run against the order of processes.
    assert [report["domains"] for report in said] == [[1, 0, 1, 0]] * 4
    for process, report in enumerate(said):
        permute, all_reduce = report["refused"]
        peer = process ^ 1
        assert f"jit_step/collective-permute.4: PE {peer} is in another NVSHMEM world" in permute
        assert "jit_step/all-reduce.5: PE " in all_reduce
        assert "is in another NVSHMEM world" in all_reduce
