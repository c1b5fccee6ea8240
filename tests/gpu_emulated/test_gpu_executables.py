"""Executables of GPUs from the compilation cache and from files; processes with the platform cuda alone."""

from __future__ import annotations

from pathlib import Path

import pytest
from emulated_jobs import run_emulated
from emulator import Emulator
from job_runs import JobRun

pytestmark = pytest.mark.timeout(240)

WARM, COLD = "hits", "misses"
OURS = 3  # calls of the program: start and done of its permute, and the all-reduce


def _cached(emulator: Emulator, cache: Path, results: Path, **job: object) -> list[dict[str, object]]:
    run = run_emulated(emulator, "../e2e/worker_cache.py", [str(cache), "01", "10"], ranks=2, results=results, **job)  # type: ignore[arg-type]
    assert run.exit_code == 0, run.output[-6000:]
    return [run.result(rank) for rank in (0, 1)]


@pytest.fixture(scope="module")
def cache(emulator: Emulator, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A compilation cache that a job with the flag has filled."""
    folder = tmp_path_factory.mktemp("cache")
    filled = _cached(emulator, folder, tmp_path_factory.mktemp("fill"))
    assert filled[0]["01"] == {"from": COLD, "lowered": OURS}
    return folder


def test_warm_cache_serves_executables_with_our_calls_that_run(emulator: Emulator, cache: Path, tmp_path: Path) -> None:
    served = _cached(emulator, cache, tmp_path)
    for order in ("01", "10"):
        assert served[0][order] == {"from": WARM, "lowered": OURS}
        assert served[1][order]["lowered"] == OURS


def test_another_set_of_ops_is_another_key(emulator: Emulator, cache: Path, tmp_path: Path) -> None:
    # A collective that is not listed would stay on NCCL, so the other set here has one op more and the same module.
    served = _cached(emulator, cache, tmp_path, XLA_SHMEM_OPS="all-reduce,collective-permute,all-gather")
    assert served[0]["01"] == {"from": COLD, "lowered": OURS}


def _serialized(emulator: Emulator, results: Path, *words: str, **job: object) -> JobRun:
    options: dict[str, object] = {"ranks": 2, "XLA_SHMEM_DEADLINE": "20"} | job
    return run_emulated(emulator, "../e2e/worker_serialized.py", words, results=results, **options)  # type: ignore[arg-type]


@pytest.fixture(scope="module")
def written(emulator: Emulator, tmp_path_factory: pytest.TempPathFactory) -> str:
    """The file of each rank's serialised executable."""
    folder = tmp_path_factory.mktemp("executables")
    file = f"{folder}/{{rank}}"
    job = _serialized(emulator, folder / "results", "write", file)
    assert job.exit_code == 0, job.output[-6000:]
    return file


@pytest.mark.parametrize("loads", ["one", pytest.param("all", marks=pytest.mark.slow)])
def test_serialised_executable_runs_in_a_process_that_compiles_nothing(
    emulator: Emulator, written: str, tmp_path: Path, loads: str
) -> None:
    job = _serialized(emulator, tmp_path, "load", written, loads)
    assert job.exit_code == 0, job.output[-6000:]
    assert [job.result(rank) for rank in (0, 1)] == [{"loaded": True}] * 2


# There is no test of a job with another number of processes, as on CPU: stock XLA itself ends such a process while it
# reads the executable (a check in xla::ifrt::HloSharding, jax 0.10.2).


def test_platform_cuda_alone_runs_collectives_on_nvshmem(emulator: Emulator, tmp_path: Path) -> None:
    names = ("ring_passes_each_block_to_the_next", "fifty_calls_of_one_jitted_function_compile_once")
    (tmp_path / "cases.txt").write_text("\n".join(names))
    job = run_emulated(
        emulator,
        "worker_gpu_cases.py",
        [str(tmp_path / "cases.txt"), str(tmp_path)],
        ranks=2,
        results=tmp_path,
        JAX_PLATFORMS="cuda",
    )
    assert job.exit_code == 0, job.output[-6000:]
    for rank in (0, 1):
        assert [(one["case"], one["error"]) for one in job.results[rank]] == [(name, "") for name in names]
        assert all(int(str(one["ran"])) > 0 for one in job.results[rank])
