"""JAX on the patched XLA:GPU: what runs on which backend, executables from files and caches, the plugin's decisions."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from pathlib import Path

import pytest
from emulated_jobs import run_emulated
from emulator import GRAPH_FLAGS, NO_GRAPH_FLAGS, Emulator
from job_runs import JobRun
from patched_xla import PatchedXla

from xla_shmem.inspect.modules import read_inspected

pytestmark = pytest.mark.timeout(400)

HERE = Path(__file__).resolve().parent

OPS = ("psum", "ppermute", "all_gather", "psum_scatter", "all_to_all")
NATIVE = ["all-gather", "all-reduce", "all-to-all", "collective-permute", "reduce-scatter"]
ALL = {"XLA_SHMEM_OPS": "all"}


def _run(
    emulator: Emulator, results: Path, origin: str = "compiled", dtype: str = "float32", ops: tuple[str, ...] = OPS,
    ranks: int = 2, flag: bool = True, flags: tuple[str, ...] = NO_GRAPH_FLAGS, **environ: str,
) -> JobRun:  # fmt: skip
    job = run_emulated(
        emulator,
        str(HERE / "worker_door.py"),
        [origin, dtype, *ops],
        ranks=ranks,
        results=results,
        flag=flag,
        flags=flags,
        **environ,
    )
    assert job.exit_code == 0, job.output[-6000:]
    return job


def _ran(count: int, left: Sequence[str] = (), in_graphs: int = 0) -> dict[str, object]:
    """What a worker reports of three runs that began `count` collectives on NVSHMEM."""
    return {"left": list(left), "announced": count, "ran": count, "in_graphs": in_graphs, "events": []}


@pytest.mark.parametrize("ranks", [2, 4])
def test_every_op_runs_on_nvshmem(emulator: PatchedXla, tmp_path: Path, ranks: int) -> None:
    job = _run(emulator, tmp_path, ranks=ranks, **ALL)
    for rank in range(ranks):
        assert job.result(rank) == _ran(15)


def test_others_than_the_default_ops_stay_on_nccl(emulator: PatchedXla, tmp_path: Path) -> None:
    job = _run(emulator, tmp_path)
    for rank in (0, 1):
        assert job.result(rank) == _ran(6, left=["all-gather", "all-to-all", "reduce-scatter"])


@pytest.mark.parametrize(
    ("flag", "failure"), [(False, ""), (True, "no-init")], ids=["flag_off", "nvshmem_does_not_start"]
)
def test_everything_stays_on_nccl(emulator: PatchedXla, tmp_path: Path, flag: bool, failure: str) -> None:
    environ = {"GPU_EMULATOR_NVSHMEM": failure, "TF_CPP_MIN_LOG_LEVEL": "1"} if failure else {}
    job = _run(emulator, tmp_path, flag=flag, **ALL, **environ)
    assert ("collectives stay on the default backend: process 0" in job.output) == bool(failure)
    for rank in (0, 1):
        assert job.result(rank) == _ran(0, left=NATIVE)


def test_a_reloaded_executable_runs_on_nvshmem(emulator: PatchedXla, tmp_path: Path) -> None:
    # XLA 0.10.2 loads no all-reduce without a kernel of its own, stock or not.
    job = _run(emulator, tmp_path, "reloaded", ops=OPS[1:], **ALL)
    for rank in (0, 1):
        assert job.result(rank) == _ran(12)


def test_a_compilation_cache_serves_executables_that_run_on_nvshmem(emulator: PatchedXla, tmp_path: Path) -> None:
    cache = str(tmp_path / "cache")
    for run, event in enumerate(("misses", "hits")):
        job = _run(emulator, tmp_path / f"{run}", cache, ops=OPS[1:], **ALL)
        assert event in job.result(0)["events"]  # type: ignore[operator]
        assert all(job.result(rank)["ran"] == 12 for rank in (0, 1))
    # Other decisions, of the same program.
    other = _run(emulator, tmp_path / "other", cache, ops=OPS[1:])
    assert "misses" in other.result(0)["events"]  # type: ignore[operator]
    assert [other.result(rank)["ran"] for rank in (0, 1)] == [3, 3]


def _decisions(dump: Path) -> Counter[tuple[str, ...]]:
    """How often each decision was made. A patched XLA writes reasons only to what it moves."""
    counts: Counter[tuple[str, ...]] = Counter()
    for module in read_inspected(str(dump), lambda record: True):
        for record in module.records:
            moved = record["backend"] == "NVSHMEM"
            reasons = ("lowered", "rule", "reason", "groups", "pairs", "reduction", "source_line") if moved else ()
            counts[tuple(str(record.get(key)) for key in ("op", "backend", *reasons))] += 1
    return counts


@pytest.mark.parametrize("ranks", [2, 4])
@pytest.mark.parametrize(
    "environ",
    [{}, ALL, {"XLA_SHMEM_OPS": "all-gather,all-reduce<64B", "XLA_SHMEM_THRESHOLD": "1"}],
    ids=["default", "all", "limits"],
)
def test_the_plugin_decides_the_same(
    emulator: PatchedXla, stock: Emulator, tmp_path: Path, ranks: int, environ: dict[str, str]
) -> None:
    decided = []
    for name, door in (("patched", emulator), ("plugin", stock)):
        dump = tmp_path / name / "dump"
        _run(door, tmp_path / name, ranks=ranks, flags=(*NO_GRAPH_FLAGS, f"--xla_dump_to={dump}"), **environ)
        decided.append(_decisions(dump))
    assert decided[0] == decided[1]
    assert sum(decided[0].values()) >= len(OPS)


def _train(emulator: Emulator, results: Path, ranks: int) -> tuple[JobRun, Counter[tuple[str, ...]]]:
    """A training on all GPUs, on one and on a CPU; and the decisions of its modules."""
    dump = results / "dump"
    job = run_emulated(
        emulator,
        "worker_gpu_training.py",
        ranks=ranks,
        results=results,
        flags=(*NO_GRAPH_FLAGS, f"--xla_dump_to={dump}"),
        timeout=350,
        JAX_DEFAULT_MATMUL_PRECISION="highest",
    )
    assert job.exit_code == 0, job.output[-6000:]
    return job, _decisions(dump)


@pytest.mark.timeout(800)
@pytest.mark.parametrize("ranks", [2, 4])
def test_a_training_equals_that_of_one_gpu_and_of_the_plugin(
    emulator: PatchedXla, stock: Emulator, tmp_path: Path, ranks: int
) -> None:
    job, decided = _train(emulator, tmp_path / "patched", ranks)
    first = job.result(0)
    for rank in range(ranks):
        result = job.result(rank)
        assert result["together"] == first["together"], "the ranks disagree"
        assert result["ran"] == 10 * result["calls"] > 0  # type: ignore[operator]
    for name in ("alone", "cpu"):
        assert first["together"] == pytest.approx(first[name], rel=2e-6)
    by_plugin, decided_by_plugin = _train(stock, tmp_path / "plugin", ranks)
    assert decided == decided_by_plugin
    assert by_plugin.result(0)["together"] == first["together"]


@pytest.mark.parametrize("ranks", [2, 4])
def test_graphs_run_collectives(emulator: PatchedXla, tmp_path: Path, ranks: int) -> None:
    job = _run(emulator, tmp_path, ranks=ranks, flags=GRAPH_FLAGS, XLA_SHMEM_STATS="1", **ALL)
    for rank in range(ranks):
        # The first run makes none yet.
        assert job.result(rank) == _ran(15, in_graphs=10)
