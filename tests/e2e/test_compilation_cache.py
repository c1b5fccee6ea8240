"""JAX's persistent compilation cache: hits for matching executables, misses for all others; ranks may differ."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
from job_runs import run_job

ORDERS = ("01", "10")
OURS = 2  # a permute and an all-reduce


def _run(
    cache: str | Path, results: Path, *orders: str, flag: bool = True, **environ: str
) -> dict[int, dict[str, object]]:
    job = run_job(
        "worker_cache.py", [str(cache), *(orders or ORDERS)], ranks=2, results=results, flag=flag,
        XLA_SHMEM_DEADLINE="10", **environ,
    )  # fmt: skip
    assert job.exit_code == 0, job.output
    return {rank: job.result(rank) for rank in (0, 1)}


@pytest.fixture(scope="module")
def warm(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A cache filled by a job with the flag. Only process 0 writes."""
    cache = tmp_path_factory.mktemp("cache")
    filled = _run(cache, tmp_path_factory.mktemp("fill"))
    for order in ORDERS:
        assert filled[0][order] == {"from": "misses", "lowered": OURS}
    return cache


@pytest.mark.timeout(60)
def test_warm_cache_serves_each_mesh_order_its_own_executable(warm: Path, tmp_path: Path) -> None:
    served = _run(warm, tmp_path, *reversed(ORDERS))
    for order in ORDERS:
        assert served[0][order] == {"from": "hits", "lowered": OURS}
        # On CPU only rank 0 finds its executable, because JAX's key contains the rank's own devices. The executables of
        # a warm and a cold rank have different launch ids, and must still exchange messages.
        assert served[1][order] == {"from": "compiled", "lowered": OURS}


@pytest.mark.timeout(60)
def test_run_without_the_flag_loads_nothing_of_ours_and_leaves_nothing_for_us(warm: Path, tmp_path: Path) -> None:
    cache = shutil.copytree(warm, tmp_path / "cache")
    stock = _run(cache, tmp_path / "stock", flag=False)
    for order in ORDERS:
        assert stock[0][order] == {"from": "misses", "lowered": 0}
    ours = _run(cache, tmp_path / "ours")
    for order in ORDERS:
        assert ours[0][order] == {"from": "hits", "lowered": OURS}


@pytest.mark.slow
@pytest.mark.timeout(60)
def test_flag_does_not_load_executables_of_stock_runs(tmp_path: Path) -> None:
    cache = tmp_path / "cache"
    _run(cache, tmp_path / "stock", flag=False)
    ours = _run(cache, tmp_path / "ours")
    for order in ORDERS:
        assert ours[0][order] == {"from": "misses", "lowered": OURS}


@pytest.mark.timeout(60)
def test_another_threshold_is_another_key(warm: Path, tmp_path: Path) -> None:
    cache = shutil.copytree(warm, tmp_path / "cache")
    other = _run(cache, tmp_path, XLA_SHMEM_THRESHOLD="1")
    for order in ORDERS:
        assert other[0][order] == {"from": "misses", "lowered": 1}, "only the permute has no threshold"


@pytest.mark.timeout(60)
def test_other_ops_are_another_key(warm: Path, tmp_path: Path) -> None:
    cache = shutil.copytree(warm, tmp_path / "cache")
    other = _run(cache, tmp_path, XLA_SHMEM_OPS="collective-permute")
    for order in ORDERS:
        assert other[0][order] == {"from": "misses", "lowered": 1}, "the all-reduce is not listed"
