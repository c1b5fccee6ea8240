"""`xla-shmem bench` on GPUs, without one: which it takes, how its jobs start, what cannot be compared there."""

from __future__ import annotations

import contextlib
import dataclasses
import re
from collections.abc import Iterator, Sequence
from typing import Any, cast

import pytest
from click.testing import CliRunner

from xla_shmem.bench import jobs, measure, variants
from xla_shmem.bench.plan import Plan
from xla_shmem.bench.results import Times
from xla_shmem.cli.main import main
from xla_shmem.errors import BenchError
from xla_shmem.gpu import chosen_gpus as gpus
from xla_shmem.gpu import nvml
from xla_shmem.gpu.chosen_gpus import Gpus, chosen_gpus
from xla_shmem.gpu.cuda_driver import VisibleGpus
from xla_shmem.options.table import TABLE
from xla_shmem.options.values import OPS
from xla_shmem.tune import measuring

H100 = Gpus(("NVIDIA H100",) * 2, "580.65.06")
EMULATED = Gpus((nvml.EMULATED_GPU,) * 2, "0")


@pytest.fixture
def eight_gpus(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """NVML shows eight GPUs; the list holds the bus ids of those that CUDA shows."""
    bus_ids = [f"0000:{number:02X}:00.0" for number in range(8)]
    all_gpus = tuple(
        nvml.Gpu(number, f"GPU {number}", "", f"0000{bus_id}", (9, 0), 0, False, 18, (), {}, None)
        for number, bus_id in enumerate(bus_ids)
    )
    monkeypatch.setattr(gpus, "read_driver", lambda: nvml.Driver("", "580.65.06", (13, 0), all_gpus))
    monkeypatch.setattr(gpus, "visible_gpus", lambda: VisibleGpus(tuple(bus_ids), ""))
    monkeypatch.setattr(gpus, "local_gpu_count", lambda: 8)
    return bus_ids


@pytest.mark.parametrize(
    ("platform", "processes", "environ", "on_gpus"),
    [
        ("auto", 8, {}, True),
        ("auto", 9, {}, False),
        ("auto", 8, {"JAX_PLATFORMS": "cpu"}, False),
        ("auto", 8, {"JAX_PLATFORMS": "cuda,cpu"}, True),
        ("cpu", 8, {"JAX_PLATFORMS": "cuda"}, False),
        ("gpu", 2, {"JAX_PLATFORMS": "cpu"}, True),
    ],
)
def test_the_platform_is_that_of_jax_or_the_gpus_if_there_are_enough(
    eight_gpus: list[str], platform: str, processes: int, environ: dict[str, str], on_gpus: bool
) -> None:
    assert (chosen_gpus(platform, processes, environ) is not None) == on_gpus


def test_gpus_are_those_of_cuda_in_its_order(eight_gpus: list[str]) -> None:
    eight_gpus[:] = [eight_gpus[5], eight_gpus[2]]
    found = chosen_gpus("gpu", 2, {})
    assert found == Gpus(("GPU 5", "GPU 2"), "580.65.06")
    assert str(Gpus(("H100", "H100"), "580")) == "2 × H100, driver 580"
    with pytest.raises(BenchError, match=r"3 ranks need as many GPUs, and CUDA shows 2\. To let all"):
        chosen_gpus("gpu", 3, {})
    del eight_gpus[1]
    shared = Plan(processes=2, gpus=chosen_gpus("gpu", 2, {}))
    assert shared.shares_gpu
    assert str(shared).startswith("2 processes that share one GPU, groups of 2")
    eight_gpus.clear()
    with pytest.raises(BenchError, match="shows no GPU to CUDA; look at CUDA_VISIBLE_DEVICES"):
        chosen_gpus("gpu", 1, {})


def test_without_a_driver_the_reason_is_given(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gpus, "read_driver", lambda: nvml.Driver(nvml.NO_DRIVER))
    monkeypatch.setattr(gpus, "visible_gpus", lambda: VisibleGpus((), "cannot open libcuda.so.1"))
    result = CliRunner().invoke(main, ["bench", "--platform", "gpu"])
    assert result.exit_code == 2
    assert f"--platform gpu: {nvml.NO_DRIVER}." in " ".join(result.stderr.split())


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"devices_per_process": 2}, "--num-ranks 2 needs 4 GPUs, and CUDA shows 2"),
        ({"rivals": ("mpi",)}, "--vs mpi: there is no such variant on GPUs"),
        ({"gpus": None, "rivals": ("nccl-fast",)}, "--vs nccl-fast: there is no such variant on CPUs"),
    ],
)
def test_what_a_platform_does_not_have_is_refused(settings: dict[str, Any], words: str) -> None:
    with pytest.raises(BenchError, match=words):
        dataclasses.replace(Plan(gpus=H100), **settings).validate()


def test_programs_on_gpus_have_a_fixed_number_of_turns() -> None:
    assert Plan(iterations=50).turns_per_call is None
    assert [Plan(gpus=H100, iterations=count).turns_per_call for count in (None, 1, 7, 50)] == [20, 2, 7, 20]


@pytest.mark.parametrize(
    ("setting", "carried", "ops"),
    [
        ("XLA_SHMEM_SPIN_US=0", True, ()),
        ("XLA_SHMEM_HIERARCHICAL=off", None, ()),
        ("XLA_SHMEM_GPU_PERMUTE=copies", True, ("collective-permute",)),
        ("XLA_SHMEM_GPU_REDUCE=multimem", True, ("all-reduce", "all-gather", "reduce-scatter")),
    ],
)
def test_a_setting_is_shmem_with_that_variable(setting: str, carried: bool | None, ops: tuple[str, ...]) -> None:
    variants.check_setting(setting, "cpu" if setting.startswith("XLA_SHMEM_SPIN") else "gpu")
    one = variants.named(setting)
    assert (one.name, one.environ) == (setting, (tuple(setting.split("=")),))
    assert variants.carried(setting) is carried
    assert [op for op in OPS if variants.differs_in(setting, op)] == list(ops or OPS)


def test_variables_whose_meaning_depends_on_their_name_are_options() -> None:
    known = {option.env for option in TABLE.values()}
    assert {*variants._RULES, *variants._OPS_OF} <= known


@pytest.mark.parametrize(
    ("setting", "words"),
    [
        ("XLA_SHMEM_SPIN=0", "XLA_SHMEM_SPIN is no option of xla-shmem; did you mean XLA_SHMEM_SPIN_US?"),
        ("OMP_NUM_THREADS=1", "OMP_NUM_THREADS is no option of xla-shmem"),
        ("XLA_SHMEM_GPU_PERMUTE=fast", "XLA_SHMEM_GPU_PERMUTE='fast': must be"),
        ("XLA_SHMEM_SPIN_US=0", "XLA_SHMEM_SPIN_US='0': has no effect, because JAX_PLATFORMS leaves the CPU out"),
    ],
)
def test_a_setting_that_is_none_is_refused(setting: str, words: str) -> None:
    with pytest.raises(BenchError, match=re.escape(words)):
        variants.check_setting(setting, "gpu")


def test_what_nccl_and_xla_cannot_do_is_said() -> None:
    settings = ("XLA_SHMEM_GPU_REDUCE=multimem", "XLA_SHMEM_STATS=1")
    plan = Plan(processes=2, gpus=H100, rivals=(*variants.rivals("gpu"), *settings))
    assert plan.obstacles() == {}
    shared = dataclasses.replace(plan, processes=4).obstacles()
    assert shared["stock"] == shared["nccl-fast"] == "NCCL refuses two ranks on one GPU"
    assert set(plan.rivals) - set(shared) == {"XLA_SHMEM_STATS=1"}
    ways = {"nccl", "one-sided", "nccl-symmetric", "peer-copies", "xla-kernels"}
    assert set(dataclasses.replace(plan, gpus=EMULATED).obstacles()) == {"nccl-fast", "xla-kernels"}
    assert set(measuring.ways(plan)) == ways
    assert measuring.ways(Plan(processes=2)) == ()
    assert Plan(processes=4, rivals=("stock",)).obstacles() == {}


def test_each_way_has_a_job_with_its_flags_and_a_place_in_the_table(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(variants, "_known", set)
    flags = {name: variants.named(name).xla_flags()[0] for name in ("one-sided", "nccl-symmetric", "peer-copies")}
    assert flags == {
        "one-sided": ["--xla_gpu_collective_permute_mode=symmetric", "--xla_gpu_all_gather_mode=symmetric"],
        "nccl-symmetric": ["--xla_enable_nccl_symmetric_buffers_for_collectives=all"],
        "peer-copies": ["--xla_gpu_collective_permute_mode=peer", "--xla_gpu_use_memcpy_local_p2p=true"],
    }
    assert variants.differs_in("one-sided", "all-gather")
    assert not variants.differs_in("one-sided", "all-reduce")
    record = {"op": "all-gather", "dtype": "f32", "group_size": 2, "bytes": 64, "num_domains": 0}
    times = {name: Times(us=[us]) for name, us in (("shmem", 3.0), ("stock", 4.0), ("one-sided", 1.0))}
    row = measuring.tuned_row(times | {"xla-kernels": Times(reason="it crashed")}, {"shmem": record})
    assert row is not None
    assert {way: measured.median_us for way, measured in row.ways.items()} == {"one-sided": 1.0}


def test_tune_says_that_nccl_is_missing() -> None:
    with pytest.raises(BenchError, match=r"and NCCL refuses two ranks on one GPU\. `xla-shmem bench"):
        measuring.plans(Plan(processes=4, gpus=H100), (2,), ("f32",))


def test_flags_that_xla_does_not_know_are_left_out_and_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(variants, "_known", lambda names: {name for name in names if "mode" not in name})
    (line,) = variants.notes(["nccl-fast", "xla-kernels", "XLA_SHMEM_STATS=1"], {"xla-kernels": "cannot"})
    flags, unknown = line.split("; this release of XLA has no ")
    assert flags.startswith("nccl-fast: --xla_gpu_enable_nccl_user_buffers=true ")
    assert unknown == "--xla_gpu_collective_permute_mode=symmetric"


class _Started:
    """Stands for running jobs: keeps how they were to be started."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.starts: dict[str, jobs.Start] = {}
        monkeypatch.setattr(jobs, "connected_jobs", self._connect)
        monkeypatch.setattr(variants, "_known", lambda names: set(names))

    def _connect(self, starts: dict[str, jobs.Start], *, other_hosts: bool) -> Any:
        assert not other_hosts
        self.starts = starts
        return contextlib.nullcontext(dict.fromkeys(starts, "a job"))


def test_each_variant_has_the_flags_and_variables_of_its_job(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XLA_FLAGS", "--xla_dump_to=here")
    monkeypatch.setenv("JAX_PLATFORMS", "cpu")
    monkeypatch.delenv("JAX_LOCAL_DEVICE_IDS", raising=False)
    started = _Started(monkeypatch)
    rivals = (*variants.rivals("gpu"), "XLA_SHMEM_STATS=1", "XLA_SHMEM_OPS=default")
    with jobs.running_jobs(Plan(processes=2, gpus=H100, rivals=rivals)) as running:
        assert set(running) == {"shmem", *rivals}
    starts = started.starts
    assert set(starts) == {*running} - {"stock"}
    on = "--xla_gpu_experimental_enable_nvshmem=true"
    assert starts["shmem"].environment["XLA_FLAGS"].split() == ["--xla_dump_to=here", on]
    assert starts["XLA_SHMEM_STATS=1"].environment["XLA_SHMEM_STATS"] == "1"
    assert "XLA_SHMEM_STATS" not in starts["shmem"].environment
    assert starts["shmem"].environment["XLA_SHMEM_OPS"] == "all"
    assert starts["XLA_SHMEM_OPS=default"].environment["XLA_SHMEM_OPS"] == "default"
    for name in ("nccl-fast", "xla-kernels"):
        flags = starts[name].environment["XLA_FLAGS"].split()
        assert flags == ["--xla_dump_to=here", *variants.named(name).xla_flags()[0]]
    assert starts["nccl-fast"].environment["XLA_PYTHON_CLIENT_COLLECTIVE_MEM_SIZE_MB"] == "4096"
    for name, start in starts.items():
        assert start.environment["JAX_PLATFORMS"] == "cuda,cpu"
        assert start.environment["XLA_PYTHON_CLIENT_PREALLOCATE"] == "false"
        assert "JAX_LOCAL_DEVICE_IDS" not in start.environment
        alone = name in ("xla-kernels", "one-sided", "nccl-symmetric", "peer-copies")
        assert start.ranks == (1 if alone else 2)
        assert list(start.prefix[-5:]) == ["-n", str(start.ranks), "--devices-per-process", "2" if alone else "1", "--"]


def test_ranks_that_share_a_gpu_all_use_the_first(monkeypatch: pytest.MonkeyPatch) -> None:
    started = _Started(monkeypatch)
    one = Gpus(("NVIDIA H100",), "580")
    with jobs.running_jobs(Plan(processes=2, gpus=one, rivals=("stock", "XLA_SHMEM_STATS=1"))) as running:
        assert set(running) == {"shmem", "XLA_SHMEM_STATS=1"}
    assert {start.environment["JAX_LOCAL_DEVICE_IDS"] for start in started.starts.values()} == {"0"}


class _Job:
    """Answers like a job of two ranks whose collectives take a tenth of a millisecond."""

    def __init__(self) -> None:
        self.asked: list[tuple[str, str]] = []
        self._variants: Sequence[str] = ()

    def tell(self, do: str, variants: Sequence[str], **arguments: Any) -> None:
        assert (do, arguments["turns_per_call"]) == ("prepare", 20)
        self._variants = variants

    def answers(self, do: str) -> list[dict[str, Any]]:
        return [{"reasons": {}, "records": {name: {} for name in self._variants}}] * 2

    def ask(self, do: str, variant: str = "", runs: int = 0, turns: int = 0, **arguments: Any) -> list[dict[str, Any]]:
        assert do in ("check", "time"), "memcpy and empty calls are the CPU's"
        self.asked.append((do, variant))
        if do == "check":
            return [{"wrong": 0}] * 2
        assert turns % 20 == 0 or turns == 200
        return [{"us": [100.0] * runs}, {"us": [90.0] * runs}]


def test_a_variant_is_measured_where_it_differs_and_a_missing_one_has_its_reason() -> None:
    job, multimem = _Job(), "XLA_SHMEM_GPU_REDUCE=multimem"
    running = cast("dict[str, jobs.Job]", {"shmem": job, "stock": job, "xla-kernels": job})
    plan = Plan(gpus=H100, ops=("all-reduce", "all-to-all"), min_bytes=1024, max_bytes=1024, rounds=1, program_ms=20)
    rows: Iterator[Any] = measure.measure(plan, running, {"nccl-fast": "no luck", multimem: "no switch"})
    reduce, exchange = rows
    assert list(reduce.times) == ["shmem", "stock", "xla-kernels", "nccl-fast", multimem]
    assert list(exchange.times) == ["shmem", "stock", "nccl-fast"]
    assert reduce.times[multimem].reason == "no switch"
    assert reduce.times["xla-kernels"].us == [100.0, 100.0]
    assert reduce.times["shmem"].turns == 200
    assert reduce.memcpy_gb_per_s == reduce.empty_call_us == []


@pytest.mark.parametrize(("profile", "allowed"), [("tuned", True), ("domain", False)])
def test_a_table_needs_the_profile_that_reads_it(monkeypatch: pytest.MonkeyPatch, profile: str, allowed: bool) -> None:
    monkeypatch.setenv("XLA_SHMEM_PROFILE", profile)
    with contextlib.nullcontext() if allowed else pytest.raises(BenchError, match="only profile tuned reads it"):
        variants.check_setting("XLA_SHMEM_TUNING=table.json", "cpu")
