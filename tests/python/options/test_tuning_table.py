"""The tuning table of profile `tuned`: its content, and errors for files that are refused."""

from __future__ import annotations

import dataclasses
import json
import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import jax
import pytest
from tuning_tables import here, row, times, written

from xla_shmem import _core
from xla_shmem.gpu import nvml
from xla_shmem.options import OptionError, fingerprint, resolve
from xla_shmem.options import tuning_table as table
from xla_shmem.options.tuning_table import Measured, TunedRow, TuningError, load, save

ROWS = (row("all-reduce", 64, 1.5, 300.0), row("collective-broadcast", 64, 2.0, None))


def _resolve(path: Path, **settings: str) -> Any:
    return resolve({"XLA_SHMEM_PROFILE": "tuned", "XLA_SHMEM_TUNING": str(path), **settings}, {})


def test_a_table_is_loaded_as_it_was_saved(tmp_path: Path) -> None:
    path = tmp_path / "new" / "tuning.json"
    save(path, here(*ROWS), complete=True)
    assert load(path) == here(*ROWS)
    assert [file.name for file in path.parent.iterdir()] == ["tuning.json"]


def test_the_digest_depends_on_platform_and_rows_only() -> None:
    digest = here(*ROWS).digest()
    assert dataclasses.replace(here(*ROWS), measured={"date": "tomorrow"}).digest() == digest
    assert here(ROWS[0]).digest() != digest
    assert here(row("all-reduce", 64, 1.6, 300.0), ROWS[1]).digest() != digest
    assert dataclasses.replace(here(*ROWS), platform="gpu").digest() != digest


@pytest.mark.parametrize(
    ("count", "low", "high"),
    # At most 4 of 18 fair coins show heads with probability 0.0154, at most 5 with 0.0481.
    [(1, 1, 1), (5, 1, 5), (6, 1, 6), (8, 1, 8), (9, 2, 8), (18, 5, 14)],
)
def test_the_median_lies_between_two_of_the_times(count: int, low: int, high: int) -> None:
    found = Measured.of([float(us) for us in range(count, 0, -1)])
    assert (found.low_us, found.median_us, found.high_us) == (low, (count + 1) / 2, high)
    assert found.programs == count


def test_a_negative_time_counts_as_the_smallest_time() -> None:
    assert Measured.of([-3.0, 2.0, 4.0]) == Measured(2.0, 0.01, 4.0, 3)


def test_a_table_has_no_rows_for_another_platform() -> None:
    assert here(*ROWS).core("cpu").num_rows == 2
    assert here(*ROWS).core("gpu").num_rows == 0


def test_the_core_compares_medians_unless_they_may_be_equal() -> None:
    far = row("all-gather", 64, 10.0, 20.0)
    near = dataclasses.replace(row("all-gather", 4096, 10.0, 12.0), nvshmem=times(10.0, within=2.0))
    core = here(far, near, row("all-to-all", 64, 3.0, 1.0), *ROWS).core("cpu")
    assert core.faster("all-gather", "f32", 2, 64) == "NVSHMEM"
    assert core.faster("all-gather", "f32", 2, 4096) == "neither"
    assert core.faster("all-to-all", "f32", 2, 64) == "DEFAULT"
    assert core.faster("collective-broadcast", "u8", 4, 10**9) == "NVSHMEM"
    assert core.faster("reduce-scatter", "f32", 2, 64) is None
    with pytest.raises(ValueError, match='unknown op "all-gater"'):
        core.faster("all-gater", "f32", 2, 64)


def test_the_core_compares_divided_and_whole_collectives_apart_from_those_of_one_host() -> None:
    table = here(row("all-reduce", 64, 9.0, 2.0), row("all-reduce", 64, 3.0, 30.0, domains=2))
    core = table.core("cpu")
    assert core.num_rows == 2
    assert core.faster("all-reduce", "f32", 2, 64) == "DEFAULT"
    assert core.faster("all-reduce", "f32", 2, 64, 4) == "HIERARCHICAL"
    assert core.faster("all-gather", "f32", 2, 64, 2) is None
    assert here(row("all-reduce", 64, 9.0, 2.0)).core("cpu").faster("all-reduce", "f32", 2, 64, 2) is None
    with pytest.raises(TuningError, match=r"\(all-reduce of 64 B \(f32, groups of 2, 2 NVLink domains\) occurs twice"):
        here(*(row("all-reduce", 64, 9.0, 2.0, domains=2),) * 2).core("cpu")


def test_ways_that_the_pass_can_choose_are_compared_too() -> None:
    ways = {"one-sided": times(2.0), "nccl": times(3.0), "nccl-symmetric": times(1.0)}
    gather = row("all-gather", 4096, 4.0, 9.0, ways=ways)
    core = here(gather, dataclasses.replace(gather, group=4), row("all-reduce", 64, 4.0, 9.0, ways=ways)).core("cpu")

    def faster(op: str, group: int = 4, **where: Any) -> str | None:
        return core.faster(op, "f32", group, 64, **where)

    assert faster("all-gather") == "NVSHMEM"
    assert faster("all-gather", settable=["one-sided"], in_one_process=True) == "one-sided"
    assert faster("all-gather", settable=["one-sided"]) == "NVSHMEM"  # windows between processes
    assert faster("all-gather", group=2, settable=["one-sided"], in_one_process=True) == "NVSHMEM"  # issue 2241
    assert faster("all-reduce", settable=["one-sided", "nccl"]) == "NCCL"
    with pytest.raises(ValueError, match='unknown backend "two-sided"'):
        faster("all-gather", settable=["two-sided"])


def test_times_are_by_backend_and_way() -> None:
    sizes = [row("all-gather", size, us, None, ways={"one-sided": times(us / 2)}) for size, us in ((64, 2), (4096, 8))]
    core = here(*sizes, row("all-reduce", 64, 4.0, 9.0)).core("cpu")
    assert core.times("all-gather", "f32", 2, 4096) == {"NVSHMEM": 8.0, "one-sided": 4.0}
    assert core.times("all-gather", "f32", 2, 512) == pytest.approx({"NVSHMEM": 4.0, "one-sided": 2.0})
    assert core.times("all-reduce", "bf16", 8, 1 << 20) == {"NVSHMEM": 4.0, "DEFAULT": 9.0}
    assert core.times("all-to-all", "f32", 2, 64) is None
    with pytest.raises(ValueError, match='unknown dtype "f33"'):
        core.times("all-gather", "f33", 2, 64)


def test_a_table_of_version_1_has_rows_of_one_host(tmp_path: Path) -> None:
    path = written(tmp_path / "tuning.json", *ROWS)
    document = json.loads(path.read_text())
    document["version"] = 1
    for each in document["rows"]:
        assert each.pop("domains") == 1
    path.write_text(json.dumps(document))
    assert load(path) == here(*ROWS)
    wide = here(*ROWS, row("all-reduce", 64, 9.0, 2.0, domains=2))
    save(path, wide, complete=True)
    assert load(path) == wide
    assert wide.digest() != here(*ROWS, row("all-reduce", 64, 9.0, 2.0)).digest()


def _damage(change: Callable[[dict[str, Any]], object]) -> Callable[[Path], None]:
    def damage(path: Path) -> None:
        document = json.loads(path.read_text())
        change(document)
        path.write_text(json.dumps(document))

    return damage


def _first(name: str, value: object) -> Callable[[Path], None]:
    return _damage(lambda document: document["rows"][0].update({name: value}))


def _first_times(name: str, value: object) -> Callable[[Path], None]:
    return _damage(lambda document: document["rows"][0]["nvshmem"].update({name: value}))


REFUSED: dict[str, tuple[Callable[[Path], None], str]] = {
    "gone": (Path.unlink, "there is no such file; `xla-shmem tune` writes one."),
    "a folder": (lambda path: (path.unlink(), path.mkdir())[1], "cannot be read: Is a directory."),
    "half written": (lambda path: path.write_text(path.read_text()[:200]) and None, "is not a tuning table ("),
    "not text": (lambda path: path.write_bytes(b"\xff\xfe") and None, "is not a tuning table ('utf-8' codec"),
    "a benchmark": (lambda path: path.write_text('{"rows": []}') and None, 'no "format": "xla-shmem tuning table"'),
    "a list": (lambda path: path.write_text("[]") and None, "is not a tuning table"),
    "another version": (_damage(lambda d: d.update(version=4)), "has version 4 and not 3; run `xla-shmem tune` again."),
    "stopped": (_damage(lambda d: d.update(complete=False)), "is incomplete, because"),
    "no rows": (_damage(lambda d: d.update(rows=[])), "is damaged (no rows)"),
    "rows of text": (_damage(lambda d: d.update(rows=["x"])), "is damaged (a row is 'x')"),
    "no fingerprint": (_damage(lambda d: d.pop("fingerprint")), "is damaged ('fingerprint' is missing)"),
    "op": (_first("op", "all-gater"), 'is damaged (unknown op "all-gater")'),
    "dtype": (_first("dtype", "float32"), 'is damaged (unknown dtype "float32")'),
    "bytes": (_first("bytes", "64"), "is damaged (bytes is '64')"),
    "true": (_first("bytes", True), "is damaged (bytes is True)"),
    "huge": (_first("bytes", 2**63), "is damaged (bytes is 9223372036854775808)"),
    "no bytes": (_first("bytes", 0), "is damaged (bytes is 0)"),
    "no domains": (_first("domains", 0), "is damaged (domains is 0)"),
    "no default": (_damage(lambda d: d["rows"][0].pop("default")), "is damaged ('default' is missing)"),
    "negative": (_first_times("low_us", -1.0), "is damaged (a median of 1.5 µs between -1.0 and 1.5)"),
    "nan": (_first_times("median_us", math.nan), "a median of nan µs between"),
    "infinite": (_first_times("high_us", math.inf), "between 1.5 and inf"),
    "in disorder": (_first_times("low_us", 7.0), "a median of 1.5 µs between 7.0 and 1.5"),
    "words": (_first_times("low_us", "fast"), "is damaged (could not convert"),
    "no programs": (_first_times("programs", 0), "is damaged (programs is 0)"),
    "platform": (_damage(lambda d: d.update(platform="tpu")), "is damaged (platform is 'tpu')"),
    "twice": (_damage(lambda d: d["rows"].append(d["rows"][0])), "all-reduce of 64 B (f32, groups of 2) occurs twice"),
}


@pytest.mark.parametrize("fault", REFUSED)
def test_an_unusable_table_is_refused_in_one_sentence(tmp_path: Path, fault: str) -> None:
    damage, words = REFUSED[fault]
    path = written(tmp_path / "tuning.json", *ROWS)
    damage(path)
    with pytest.raises(TuningError) as refused:
        load(path)
    assert words in str(refused.value)
    assert "\n" not in str(refused.value)
    with pytest.raises(OptionError) as error:
        _resolve(path)
    assert str(error.value) == f"XLA_SHMEM_TUNING='{path}': {refused.value}"


def test_only_profile_tuned_reads_the_table(tmp_path: Path) -> None:
    path = written(tmp_path / "tuning.json", *ROWS)
    options = _resolve(path)
    assert options.tuning == here(*ROWS)
    assert options.decision_key().endswith(f" tuning={here(*ROWS).digest()}")
    assert options.rules("cpu")["tuning"].num_rows == 2
    path.unlink()
    upstream = resolve({"XLA_SHMEM_TUNING": str(path)}, {})
    assert upstream.tuning is None
    assert upstream.rules("cpu")["tuning"] is None
    assert "tuning" not in upstream.decision_key()


def test_the_rules_are_keywords_of_the_gpu_pass_too(tmp_path: Path) -> None:
    rules = _resolve(written(tmp_path / "tuning.json", *ROWS)).rules("gpu")
    assert rules["tuning"].num_rows == 0
    try:
        _core.gpu_pass().set_options(_core.Topology([]), _core.Transport(False, "no GPUs"), **rules)
    finally:
        _core.gpu_pass().reset()


def test_the_default_path_is_in_the_users_configuration_folder(tmp_path: Path) -> None:
    written(tmp_path / "xla-shmem" / "tuning.json", *ROWS)
    written(tmp_path / ".config" / "xla-shmem" / "tuning.json", ROWS[0])
    environ = {"XLA_SHMEM_PROFILE": "tuned", "HOME": str(tmp_path)}
    assert resolve(environ, {}).tuning == here(ROWS[0])
    assert resolve({**environ, "XDG_CONFIG_HOME": str(tmp_path)}, {}).tuning == here(*ROWS)
    assert resolve({**environ, "XDG_CONFIG_HOME": "relative"}, {}).tuning == here(ROWS[0])


@pytest.mark.parametrize(
    "name", ["CPU", "processors", "JAX's CPU collectives", "jaxlib", "xla-shmem", "XLA_SHMEM_SPIN_US"]
)
def test_a_table_of_another_machine_is_refused_with_the_difference(tmp_path: Path, name: str) -> None:
    path = tmp_path / "tuning.json"
    foreign = dataclasses.replace(here(*ROWS), fingerprint={**here().fingerprint, name: "elsewhere"})
    save(path, foreign, complete=True)
    with pytest.raises(OptionError) as error:
        _resolve(path)
    assert f"was measured with {name} elsewhere; here is {name} {here().fingerprint[name]};" in str(error.value)
    assert "run `xla-shmem tune` again" in str(error.value)
    assert (
        resolve({"XLA_SHMEM_PROFILE": "tuned", "XLA_SHMEM_TUNING": str(path)}, {}, any_machine=True).tuning == foreign
    )


def test_a_table_measured_against_gloo_is_refused_in_a_job_on_mpi(tmp_path: Path) -> None:
    path = written(tmp_path / "tuning.json", *ROWS)
    before = jax.config.jax_cpu_collectives_implementation
    jax.config.update("jax_cpu_collectives_implementation", "mpi")
    try:
        with pytest.raises(OptionError, match="JAX's CPU collectives gloo; here is JAX's CPU collectives mpi"):
            _resolve(path)
    finally:
        jax.config.update("jax_cpu_collectives_implementation", before)


def test_a_table_of_other_transport_settings_is_refused(tmp_path: Path) -> None:
    path = written(tmp_path / "tuning.json", *ROWS)
    with pytest.raises(OptionError, match="XLA_SHMEM_SINGLE_COPY auto; here is XLA_SHMEM_SINGLE_COPY off"):
        _resolve(path, XLA_SHMEM_SINGLE_COPY="off")
    assert _resolve(path, XLA_SHMEM_DEADLINE="5").tuning is not None


def test_a_fingerprint_that_lacks_an_entry_differs() -> None:
    assert fingerprint.difference({"CPU": "a"}, {"CPU": "a"}) == ""
    assert (
        fingerprint.difference({"CPU": "a"}, {"CPU": "a", "jax": "1"}) == "was measured with jax unknown; here is jax 1"
    )
    assert fingerprint.difference({"old": "x"}, {}) == "was measured with old x; here is old unknown"


def test_the_file_has_the_fields_of_the_rows(tmp_path: Path) -> None:
    document = json.loads(written(tmp_path / "tuning.json", *ROWS).read_text())
    assert (document["format"], document["version"], document["complete"]) == (table.FORMAT, table.VERSION, True)
    assert [field.name for field in dataclasses.fields(TunedRow)] == list(document["rows"][0])
    assert document["rows"][1]["default"] is None


GPUS = (nvml.Gpu(0, "NVIDIA H100", "u", "0000:1B:00.0", (9, 0), 0, False, 18, (), {}, None),) * 8


def _machine(monkeypatch: pytest.MonkeyPatch, driver: str, nccl: str) -> None:
    monkeypatch.setattr(fingerprint, "read_driver", lambda: nvml.Driver("", driver, (13, 0), GPUS))
    wheels = {"nvidia-nccl-cu13": nccl, "jax-cuda13-plugin": "0.10.2"}
    monkeypatch.setattr(fingerprint, "distribution_version", wheels.get)


def test_a_table_of_gpus_names_gpus_driver_and_libraries(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    _machine(monkeypatch, "580.65.06", "2.30.3")
    path = written(tmp_path / "tuning.json", *ROWS, platform="gpu")
    found = load(path).fingerprint
    assert (found["GPU"], found["driver"], found["nvidia-nccl-cu13"]) == ("NVIDIA H100", "580.65.06", "2.30.3")
    assert found["XLA_SHMEM_GPU_PUTS"] == "auto"
    assert "CPU" not in found
    assert "nvidia-nccl-cu12" not in found
    options = _resolve(path, XLA_SHMEM_SPIN_US="7")  # of the CPU path
    assert options.rules("gpu")["tuning"].num_rows == 2
    assert options.rules("cpu")["tuning"].num_rows == 0
    with pytest.raises(
        OptionError, match="was measured with XLA_SHMEM_GPU_PUTS auto; here is XLA_SHMEM_GPU_PUTS nvshm"
    ):
        _resolve(path, XLA_SHMEM_GPU_PUTS="nvshmem")
    _machine(monkeypatch, "590.1", "2.31.0")
    words = "was measured with driver 580.65.06, nvidia-nccl-cu13 2.30.3; here is driver 590.1, nvidia-nccl-cu13 2.31.0"
    with pytest.raises(OptionError, match=words):
        _resolve(path)


def test_a_table_of_gpus_is_refused_where_there_is_none(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    _machine(monkeypatch, "580.65.06", "2.30.3")
    path = written(tmp_path / "tuning.json", *ROWS, platform="gpu")
    monkeypatch.setattr(fingerprint, "read_driver", lambda: nvml.Driver(nvml.NO_DRIVER))
    with pytest.raises(OptionError, match=r"GPU NVIDIA H100, driver 580\.65\.06; here is GPU none, driver none"):
        _resolve(path)
