"""Dumps of jobs that ran on SHMEM, as `xla-shmem inspect` reads them."""

from __future__ import annotations

from pathlib import Path

import pytest
from job_runs import run_job

from xla_shmem.inspect.modules import read_inspected

pytestmark = pytest.mark.timeout(60)


def test_collectives_come_from_the_line_that_wrote_them(tmp_path: Path) -> None:
    """XLA renumbers stack frames in a module that a transform has changed, and keeps the old table."""
    dump = tmp_path / "dump"
    run = run_job("worker_dumps.py", ranks=2, results=tmp_path / "results", XLA_FLAGS=f"--xla_dump_to={dump}")
    assert run.exit_code == 0, run.output
    records = [record for module in read_inspected(str(dump), lambda record: True) for record in module.records]
    lines = (Path(__file__).parent / "worker_dumps.py").read_text().splitlines()
    found = {record["op"]: record for record in records if record["backend"] == "NVSHMEM"}
    assert {"all-reduce": "lax.psum", "collective-permute": "lax.ppermute"}.keys() <= found.keys()
    for op, call in {"all-reduce": "lax.psum", "collective-permute": "lax.ppermute"}.items():
        assert found[op]["lowered"] == "NVSHMEM"
        assert Path(found[op]["source_file"]).name == "worker_dumps.py"
        assert call in lines[found[op]["source_line"] - 1]
