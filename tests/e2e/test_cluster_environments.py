"""Launchers of docs/running-jobs.md, on one host: `jax.distributed.initialize()` finds the job and the flag works.

(`xla-shmem launch`, which every other test here uses, sets the variables of an `mpirun`.)
"""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from job_runs import FLAG, HERE, environment

from xla_shmem.launch.rank_environment import reserve_port

pytestmark = pytest.mark.timeout(90)
WORKER = [sys.executable, str(HERE / "worker_cluster.py")]


def check(results: Path, output: str) -> None:
    """Checks that both ranks lowered the sum and the permute, with right results."""
    for rank in (0, 1):
        report = results / f"{rank}.jsonl"
        assert report.is_file(), output
        assert json.loads(report.read_text()) == {"ranks": 2, "lowered": 2}, output


def test_tasks_of_srun(tmp_path: Path) -> None:
    holder, port = reserve_port()
    with holder:
        ranks = []
        for rank in (0, 1):
            slurm = {
                "SLURM_JOB_ID": "4711",
                "SLURM_STEP_NODELIST": "localhost",
                "SLURM_STEP_NUM_NODES": "1",
                "SLURM_NTASKS": "2",
                "SLURM_PROCID": str(rank),
                "SLURM_LOCALID": str(rank),
                "JAX_COORDINATOR_PORT": str(port),  # JAX's default depends on the job id and may not be free here
            }
            environ = environment(tmp_path, {"XLA_FLAGS": FLAG, **slurm})
            output = (tmp_path / f"{rank}.txt").open("wb")
            ranks.append(subprocess.Popen(WORKER, env=environ, stdout=output, stderr=subprocess.STDOUT))
        try:
            codes = [process.wait(60) for process in ranks]
        finally:
            for process in ranks:
                process.kill()
                process.wait()
    text = "\n".join((tmp_path / f"{rank}.txt").read_text(errors="replace") for rank in (0, 1))
    assert codes == [0, 0], text
    check(tmp_path, text)


@pytest.mark.skipif(shutil.which("mpirun") is None, reason="Open MPI is not installed")
@pytest.mark.parametrize("method", ["ompi", "mpi4py"])
def test_ranks_of_mpirun(tmp_path: Path, method: str) -> None:
    if method == "mpi4py":
        pytest.importorskip("mpi4py")
    options = ["-n", "2", "--oversubscribe", "--allow-run-as-root"]
    environ = environment(tmp_path, {"XLA_FLAGS": FLAG})
    run = subprocess.run(
        ["mpirun", *options, *WORKER, method], env=environ, capture_output=True, text=True, timeout=80, check=False
    )
    assert run.returncode == 0, run.stdout + run.stderr
    check(tmp_path, run.stdout + run.stderr)
