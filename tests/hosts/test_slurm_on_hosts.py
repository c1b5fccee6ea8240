"""A Slurm cluster whose nodes are hosts: srun starts the ranks of a job, or of `xla-shmem tune`, on two nodes."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from job_runs import FLAG
from run_on_hosts import HERE, hosts_command
from shmem_statistics import calls_on_shmem
from slurm_cluster import installed

from xla_shmem.launch.launcher_process import LAUNCHER
from xla_shmem.options import tuning_table as tables

pytestmark = [
    pytest.mark.timeout(150),
    pytest.mark.skipif(not installed(), reason="needs root, and slurmd, slurmctld, slurm-client and munge"),
]


def _as_user_of_slurm(folder: Path, command: list[str], **environ: str) -> str:
    """Returns the output of a command that has two nodes."""
    state = folder / "slurm"
    state.mkdir()
    between = [*hosts_command([2, 2], limit=120, between=True), sys.executable, str(HERE / "slurm_on_hosts.py")]
    run = subprocess.run(
        [*between, str(state), *command],
        env=os.environ | {"JAX_PLATFORMS": "cpu"} | environ,
        capture_output=True, text=True, timeout=140, check=False,
    )  # fmt: skip
    assert run.returncode == 0, run.stdout + run.stderr
    return run.stdout + run.stderr


def test_a_job_of_srun_spans_two_nodes(tmp_path: Path) -> None:
    program = shutil.copy(HERE.parents[1] / "examples" / "ring.py", tmp_path)
    command = ["srun", "--nodes=2", "--ntasks=4", sys.executable, str(program)]
    output = _as_user_of_slurm(tmp_path, command, XLA_FLAGS=FLAG, XLA_SHMEM_STATS="1")
    for rank in range(4):
        assert f"rank {rank} received [{(rank - 1) % 4}]" in output
    # The pairs within a node. Those between nodes are on gloo.
    assert calls_on_shmem("collective-permute", output) == [1] * 4, output


def test_tune_measures_the_nodes_of_srun(tmp_path: Path) -> None:
    table = tmp_path / "tuning.json"
    cells = ["--op=all-reduce", "--groups=2,4", "--min-bytes=8", "--max-bytes=8", "--iterations=4", "--rounds=2"]
    tune = [*LAUNCHER[:-1], "tune", "--launcher=srun --nodes=2 --ntasks=4", "-n4", "--platform=cpu", *cells]
    output = _as_user_of_slurm(tmp_path, [*tune, f"--output={table}"])
    found = tables.load(table)
    assert [(row.group, row.domains) for row in found.rows if row.default is not None] == [(2, 1), (4, 2)], output
    assert found.measured["hosts"] == {"host0": 2, "host1": 2}
