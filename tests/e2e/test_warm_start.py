"""A rank that starts warm is given what a rank is given that starts cold, and ends like it."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
import warm_start
from job_runs import JobRun, processes_of, run_job

pytestmark = pytest.mark.timeout(90)

# What differs between two jobs, whichever way they start.
_OF_THE_JOB = re.compile(rf"JAX_COORDINATOR|OMPI_MCA|XLA_SHMEM_(JOB|ENDS_PIPE)|E2E_RESULTS|{warm_start.SWITCH}")


def _run(
    monkeypatch: pytest.MonkeyPatch, results: Path, start: str, way: str, ranks: int = 1, **environ: str
) -> JobRun:
    monkeypatch.setenv(warm_start.SWITCH, "1" if start == "warm" else "0")
    variables = {"XLA_FLAGS": "--xla_force_host_platform_device_count=3", "JAX_ENABLE_X64": "1"} | environ
    job = run_job("worker_warm_start.py", [way, "-x"], ranks=ranks, devices=2, results=results / start, **variables)  # type: ignore[arg-type]
    assert job.segments == []
    assert not processes_of(results / start)
    return job


def _compared(job: JobRun, rank: int) -> dict[str, Any]:
    facts: dict[str, Any] = {name: value for name, value in job.result(rank).items() if name != "is a fork"}
    facts["environ"] = {name: value for name, value in facts["environ"].items() if not _OF_THE_JOB.match(name)}
    return facts


@pytest.mark.parametrize("way", ["no fault", "an error", "a signal", "Ctrl-C", "a sentence", "a code"])
def test_a_warm_rank_is_like_a_cold_one(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, way: str) -> None:
    ranks = 2 if way == "no fault" else 1
    early = {"JAX_DEFAULT_MATMUL_PRECISION": "highest"} if ranks == 2 else {}  # JAX reads it at its import
    cold, warm = (_run(monkeypatch, tmp_path, start, way, ranks, **early) for start in ("cold", "warm"))
    assert warm.exit_code == cold.exit_code
    assert sorted(warm.output.splitlines()) == sorted(cold.output.splitlines())
    for rank in range(ranks):
        assert (cold.result(rank)["is a fork"], warm.result(rank)["is a fork"]) == (False, True)
        assert warm.result(rank)["names its job"]
        assert _compared(warm, rank) == _compared(cold, rank)


def test_a_library_that_is_loaded_first_makes_a_cold_start(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    job = _run(monkeypatch, tmp_path, "warm", "no fault", LD_PRELOAD="libm.so.6")
    assert not job.result(0)["is a fork"]
