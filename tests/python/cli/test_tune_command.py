"""`xla-shmem tune` without ranks: refused options, printed tables, judgement of times."""

from __future__ import annotations

import contextlib
import dataclasses
import io
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from terminals import Terminal
from tuning_tables import here, row, times, written

from xla_shmem import _core, gpu_ways
from xla_shmem.bench import jobs
from xla_shmem.bench.plan import Cell, Plan
from xla_shmem.bench.results import Row, Times
from xla_shmem.cli.main import main
from xla_shmem.errors import BenchError
from xla_shmem.gpu.chosen_gpus import Gpus
from xla_shmem.options.tuning_table import Measured
from xla_shmem.runtime import gpu_flags
from xla_shmem.tune import crossovers, measuring, printed_rows, verify


@pytest.fixture(autouse=True)
def _own_configuration(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    for name in [name for name in os.environ if name.startswith("XLA_SHMEM_")]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (["-n", "1"], "one PE has no other to send to"),
        (["-n", "4", "--groups", "3"], "--groups 3: '3' does not divide 4 PEs"),
        (["-n", "4", "--groups", "2,two"], "'two' does not divide 4 PEs"),
        (["--op", "reduce"], "'reduce' is not one of"),
        (["-d", "f8"], "'f8' is not one of"),
        (["-b", "1K", "-e", "8"], "--min-bytes 1024 is more than --max-bytes 8"),
        (["-n", "4", "--launcher", "no-such-command"], "--launcher no-such-command: there is no command"),
        (["-n", "4", "--launcher", "env", "--bind"], "--bind is for ranks of this host"),
        (["--show", "--verify"], "give one of them"),
        (["--show"], "there is no such file; `xla-shmem tune` writes one."),
        (["--verify"], "there is no such file; `xla-shmem tune` writes one."),
    ],
)
def test_bad_usage_is_one_sentence_and_exit_code_2(options: list[str], words: str) -> None:
    result = CliRunner().invoke(main, ["tune", *options])
    assert result.exit_code == 2
    assert words in " ".join(result.stderr.split())
    assert "Traceback" not in result.stderr


def test_groups_are_powers_of_two_and_all() -> None:
    assert measuring.group_sizes(None, 8) == (2, 4, 8)
    assert measuring.group_sizes(None, 6) == (2, 6)
    assert measuring.group_sizes(None, 3) == (3,)
    assert measuring.group_sizes(" 4, 2,4", 8) == (4, 2)


def test_every_group_and_type_has_its_plan() -> None:
    found = measuring.plans(Plan(processes=4, ops=("collective-permute",)), (2, 4), ("f32", "s8"))
    assert [(plan.group, plan.dtype) for plan in found] == [(2, "f32"), (2, "s8"), (4, "f32"), (4, "s8")]


def test_a_launcher_is_for_cpus() -> None:
    shared = Plan(processes=4, launcher="env", gpus=Gpus(("NVIDIA H100",), "580.65.06"))
    with pytest.raises(BenchError, match="--launcher is for ranks on CPUs: give --platform cpu"):
        measuring.plans(shared, (4,), ("f32",))


def test_groups_that_cross_hosts_are_measured_in_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    given: list[tuple[jobs.Start, bool]] = []

    @contextlib.contextmanager
    def connected(starts: dict[str, jobs.Start], *, other_hosts: bool) -> Iterator[Any]:
        given.append((starts["shmem"], other_hosts))
        yield starts

    monkeypatch.setattr(jobs, "connected_jobs", connected)
    monkeypatch.setenv("XLA_SHMEM_HIERARCHICAL", "auto")
    for plan in (Plan(processes=4, launcher="srun -N 2"), Plan(processes=4)):
        with measuring.measuring_jobs(plan):
            pass
    (wide, other_hosts), (narrow, others) = given
    assert list(wide.prefix[:3]) == ["srun", "-N", "2"]
    assert "XLA_SHMEM_HIERARCHICAL=on" in wide.prefix
    assert wide.environment["XLA_SHMEM_HIERARCHICAL"] == narrow.environment["XLA_SHMEM_HIERARCHICAL"] == "on"
    assert (other_hosts, others) == (True, False)


class _Ranks:
    """Stands for a job whose ranks have these fingerprints."""

    def __init__(self, *fingerprints: dict[str, str]) -> None:
        self._answers = [{"fingerprint": each} for each in fingerprints]

    def ask(self, do: str) -> list[dict[str, Any]]:
        assert do == "fingerprint"
        return self._answers


def test_hosts_of_one_table_must_be_alike() -> None:
    here, there = {"CPU": "a", "processors": "8"}, {"CPU": "a", "processors": "16"}
    assert measuring.fingerprint_of_ranks(_Ranks(here, dict(here))) == here  # type: ignore[arg-type]
    with pytest.raises(BenchError, match="ranks 0 and 2 have processors 8 and 16: a table holds for hosts that are"):
        measuring.fingerprint_of_ranks(_Ranks(here, here, there))  # type: ignore[arg-type]


def test_a_row_has_the_op_type_group_and_bytes_of_the_pass() -> None:
    record = {"op": "reduce-scatter", "dtype": "f32", "group_size": 2, "bytes": 2048, "num_domains": 0}
    measured = {"shmem": Times([1.0, 2.0]), "stock": Times([30.0, 10.0, 20.0])}
    found = measuring.tuned_row(measured, {"shmem": record})
    assert found is not None
    assert (found.op, found.dtype, found.group, found.bytes) == ("reduce-scatter", "f32", 2, 2048)
    assert found.domains == 1
    assert found.nvshmem == Measured.of(measured["shmem"].us)
    assert found.default == Measured.of(measured["stock"].us)
    unrun = measuring.tuned_row({"shmem": Times([1.0]), "stock": Times(reason="cannot")}, {"shmem": record})
    assert unrun is not None
    assert unrun.default is None
    assert measuring.tuned_row({"shmem": Times([1.0])}, {"shmem": record}) == unrun
    assert measuring.tuned_row({"shmem": Times(reason="veto"), "stock": Times([1.0])}, {}) is None


def test_a_row_of_a_divided_collective_describes_the_whole() -> None:
    part = {"op": "all-gather", "dtype": "f32", "group_size": 2, "bytes": 64, "num_domains": 3, "part_of": "all-gather"}
    whole = {"op": "all-gather", "dtype": "f32", "group_size": 6, "bytes": 192, "num_domains": 0}
    measured = {"shmem": Times([1.0]), "stock": Times([30.0])}
    found = measuring.tuned_row(measured, {"shmem": part, "stock": whole})
    assert found is not None
    assert (found.group, found.bytes, found.domains) == (6, 192, 3)
    assert found.default == Measured.of([30.0])
    assert measuring.tuned_row({**measured, "stock": Times(reason="cannot")}, {"shmem": part}) is None


def test_crossovers_are_the_sizes_where_the_decision_changes() -> None:
    table = here(
        row("all-to-all", 64, 1.0, 100.0),
        row("all-to-all", 4096, 10.0, 100.0),
        row("all-to-all", 65536, 1000.0, 100.0),
        row("all-to-all", 1 << 20, 1000.0, 8000.0),
        row("all-reduce", 64, 5.0, 5.0),
    )
    to_all, reduce = crossovers.curves(table)
    assert (to_all.domains, reduce.domains) == (1, 1)
    assert [backend for _, backend in to_all.choices] == ["NVSHMEM", "DEFAULT", "NVSHMEM"]
    assert to_all.choices[0][0] == 64
    # Both curves meet half the way in the logarithms: 4 KiB and 64 KiB, at 10 µs and 1000.
    assert to_all.choices[1][0] == pytest.approx(16384, abs=1)
    core = table.core("cpu")
    for first, backend in to_all.choices[1:]:
        assert (core.faster("all-to-all", "f32", 2, first) == "NVSHMEM") == (backend == "NVSHMEM")
        assert (core.faster("all-to-all", "f32", 2, first - 1) == "NVSHMEM") != (backend == "NVSHMEM")
    assert reduce.choices == ((64, "DEFAULT"),)


def test_show_prints_what_the_table_decides_also_of_another_machine(tmp_path: Path) -> None:
    path = written(tmp_path / "t.json", row("all-gather", 64, 1.0, 9.0), row("all-gather", 1 << 20, 9.0, 1.0))
    path.write_text(path.read_text().replace('"processors": "', '"processors": "9'))
    result = CliRunner().invoke(main, ["tune", "--show", "--tuning", str(path)])
    assert result.exit_code == 0, result.output
    (line,) = [line for line in result.stdout.splitlines() if not line.startswith("#")]
    assert " ".join(line.split()) == (
        "all-gather f32, groups of 2: NVSHMEM from 64 B; DEFAULT from 8.0 KiB; measured up to 1.0 MiB"
    )
    assert "measured 2026-11-21" in result.stdout


def test_show_of_gpus_names_flags_and_ways(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(gpu_ways, "settable", lambda platform: ("nccl", "one-sided"))
    monkeypatch.setattr(gpu_flags, "known_flags", set)
    rows = [
        row("all-reduce", 64, 9.0, 5.0, group=4, ways={"nccl": times(2.0)}),
        row("all-reduce", 4096, 5.0, 9.0, group=4, ways={"nccl": times(6.0)}),
        row("all-to-all", 64, 9.0, 8.0, group=4, ways={"peer-copies": times(1.0)}),
        row("ragged-all-to-all", 64, 9.0, 8.0, group=4, ways={"kernels": times(2.0)}),
    ]
    path = written(tmp_path / "t.json", *rows, platform="gpu")
    result = CliRunner().invoke(main, ["tune", "--show", "--tuning", str(path)])
    assert result.exit_code == 0, result.output
    lines = [" ".join(line.split()) for line in result.stdout.splitlines()]
    way = "takes 0.25 of the time of XLA's choice, so"
    assert f"# ragged-all-to-all: kernels {way} {_core.way_flags('kernels', 'ragged-all-to-all')[0]} is set" in lines
    (refused,) = [line for line in lines if line.startswith("# all-to-all")]
    assert refused.endswith("=true is not set: XLA copies within a process only")
    assert [line for line in lines if not line.startswith("#")] == [
        "all-reduce f32, groups of 4: NCCL from 64 B; NVSHMEM from 2.6 KiB; measured up to 4.0 KiB",
        "all-to-all f32, groups of 4: DEFAULT from 64 B; measured up to 64 B",
        "ragged-all-to-all f32, groups of 4: DEFAULT from 64 B; measured up to 64 B",
    ]


def test_show_prints_groups_over_several_hosts_apart(tmp_path: Path) -> None:
    wide = [row("all-reduce", size, 10.0, us, domains=2) for size, us in ((64, 100.0), (4096, 1.0))]
    path = written(tmp_path / "t.json", row("all-reduce", 64, 9.0, 1.0), *wide)
    result = CliRunner().invoke(main, ["tune", "--show", "--tuning", str(path)])
    assert result.exit_code == 0, result.output
    assert [" ".join(line.split()) for line in result.stdout.splitlines() if not line.startswith("#")] == [
        "all-reduce f32, groups of 2: DEFAULT from 64 B; measured up to 64 B",
        "all-reduce f32, groups of 2 over 2 hosts: HIERARCHICAL from 64 B; DEFAULT from 512 B; measured up to 4.0 KiB",
    ]


def test_a_line_has_a_value_under_every_heading(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "200")
    form = printed_rows.columns(Terminal())
    line = printed_rows.row_line(row("all-reduce", 64, 2.0, 9.0, domains=4), form)
    values = "all-reduce f32 2 4 64 2.00 (2.00 to 2.00) 9.00 (9.00 to 9.00) 4.50x"
    assert " ".join(line.split()) == values
    assert len(line) == len(form.heading())
    assert "not run" in printed_rows.row_line(row("collective-broadcast", 64, 2.0, None), form)


def test_a_narrow_terminal_gets_medians_in_80_columns(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    form = printed_rows.columns(Terminal())
    line = printed_rows.row_line(row("collective-permute", 1 << 30, 123456.0, 999999.0, domains=4), form)
    assert line.split() == ["permute", "f32", "2", "4", "1073741824", "123456.00", "999999.00", "8.10x"]
    assert len(line) <= 80
    found = dataclasses.replace(_same(), op="ragged-all-to-all", bytes=1 << 30)
    lines = [verify.columns(Terminal()).heading(), found.line(verify.columns(Terminal()))]
    assert max(map(len, lines)) <= 80
    assert lines[1].split()[0] == "ragged-all-to-all"


def _same() -> verify.Comparison:
    return verify.Comparison("all-reduce", "f32", 2, 64, 1.0, 2.0, 1.0, "DEFAULT", 1.0, "same")


def _compared(backends: tuple[str, str, str], **us: list[float]) -> verify.Comparison:
    lowered = dict(zip(("stock", "upstream", "tuned"), backends, strict=True))
    variants = {name: Times(us[name]) if us[name] else Times(reason="XLA cannot") for name in lowered}
    records = {
        name: {
            "op": "collective-permute",
            # The first part of a permute is that between domains.
            "lowered": "DEFAULT" if backend == "HIERARCHICAL" else backend,
            "num_domains": 2 if backend == "HIERARCHICAL" else 0,
        }
        for name, backend in lowered.items()
    }
    return verify.judge(Row(Cell("collective-permute", 16, "f32", "", 2, False), variants, records=records))


def test_the_same_backend_as_the_better_one_counts_as_the_same() -> None:
    found = _compared(("DEFAULT", "NVSHMEM", "NVSHMEM"), stock=[30.0] * 8, upstream=[10.0] * 8, tuned=[15.0] * 8)
    assert (found.verdict, found.backend, found.ratio) == ("same", "NVSHMEM", 1.5)


@pytest.mark.parametrize(("tuned", "verdict"), [(5.0, "faster"), (10.5, "even"), (20.0, "slower")])
def test_another_choice_is_judged_as_the_pass_judges(tuned: float, verdict: str) -> None:
    def around(us: float) -> list[float]:
        return [us - 2, us - 1, us, us + 1, us + 2] * 4  # the median may be 1 less or more

    found = _compared(("DEFAULT", "DEFAULT", "NVSHMEM"), stock=around(10.0), upstream=around(30.0), tuned=around(tuned))
    assert found.verdict == verdict


@pytest.mark.parametrize(("tuned", "verdict"), [(5.0, "faster"), (20.0, "slower")])
def test_a_divided_collective_is_a_choice_of_its_own(tuned: float, verdict: str) -> None:
    found = _compared(
        ("DEFAULT", "HIERARCHICAL", "HIERARCHICAL"), stock=[10.0] * 8, upstream=[30.0] * 8, tuned=[tuned] * 8
    )
    assert (found.backend, found.verdict) == ("HIERARCHICAL", verdict)
    whole = _compared(("DEFAULT", "HIERARCHICAL", "DEFAULT"), stock=[30.0] * 8, upstream=[10.0] * 8, tuned=[30.0] * 8)
    assert (whole.backend, whole.verdict) == ("DEFAULT", "slower")


def test_a_way_is_a_choice_of_its_own() -> None:
    """The pass made XLA take it, or a flag did for results up to a size."""
    times = {"shmem": Times([9.0] * 8), "stock": Times([10.0] * 8), "upstream": Times([30.0] * 8)}
    cell = Cell("all-gather", 16, "f32", "", 2, False)
    stock = {"op": "all-gather", "lowered": "DEFAULT", "num_domains": 0, "bytes": 64, "chosen_way": None}
    tuned = {**stock, "chosen_way": "one-sided"}

    def judged(us: float, tuned: dict[str, Any], most: int | None = None) -> tuple[str, str]:
        measured = {**times, "tuned": Times([us] * 8)}
        del measured["shmem"]
        records = {"stock": stock, "upstream": stock, "tuned": tuned}
        flag = gpu_flags.Choice("all-gather", "nccl-symmetric", "--flag", 0.5, most=most)
        found = verify.judge(Row(cell, measured, records=records), {"all-gather": flag} if most else {})
        return found.backend, found.verdict

    assert judged(20.0, tuned) == ("one-sided", "slower")
    assert judged(5.0, tuned) == ("one-sided", "faster")
    assert judged(20.0, stock) == ("DEFAULT", "same")
    assert judged(20.0, stock, most=64) == ("nccl-symmetric", "slower")
    assert judged(20.0, stock, most=63) == ("DEFAULT", "same")


def test_an_op_that_only_tuned_can_run_is_no_slower() -> None:
    found = _compared(("DEFAULT", "DEFAULT", "NVSHMEM"), stock=[], upstream=[], tuned=[5.0, 6.0])
    assert (found.verdict, found.stock_us, found.upstream_us) == ("same", None, None)
    assert found.line(verify.columns(io.StringIO())).split()[-3:] == ["NVSHMEM", "1.00", "same"]
    with pytest.raises(BenchError, match="permute of 64 B did not run: XLA cannot"):
        _compared(("DEFAULT", "DEFAULT", "NVSHMEM"), stock=[1.0], upstream=[1.0], tuned=[])


def test_the_summary_counts_lines_and_reports_the_noise() -> None:
    same = _compared(("DEFAULT", "NVSHMEM", "NVSHMEM"), stock=[30.0] * 8, upstream=[10.0] * 8, tuned=[11.0] * 8)
    worse = _compared(("DEFAULT", "DEFAULT", "NVSHMEM"), stock=[5.0] * 8, upstream=[5.0] * 8, tuned=[9.0] * 8)
    counts, noise = verify.summary([same, same, worse])
    assert "Of 3 rows, tuned chose the backend of the faster of stock and upstream in 2." in counts
    assert counts.endswith("and slower in 1.")
    assert "median ratio 1.10; 90 % of the ratios are from 1.10 to 1.10" in noise
    assert verify.slower([same, worse]) == [worse]


class _Measured:
    """Stands for the job: measures one line, and then ends with a given exception."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, wrong: int = 0, end: type[BaseException] | None = None) -> None:
        self._wrong, self._end = wrong, end
        monkeypatch.setattr(measuring, "measuring_jobs", contextlib.nullcontext)
        monkeypatch.setattr(measuring, "measure_rows", self._rows)

    def _rows(self, every: Any, job: Any) -> Iterator[Any]:
        cell = Cell("collective-permute", 16, "f32", "", 2, False)
        yield Row(cell, {"shmem": Times([1.0], wrong=self._wrong)}), row("collective-permute", 64, 1.0, 100.0)
        if self._end is not None:
            raise self._end("the end")


def _tune(path: Path) -> Any:
    return CliRunner().invoke(main, ["tune", "--output", str(path)])


def test_a_whole_run_is_a_table(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    path = tmp_path / "tuning.json"
    path.with_name("tuning.json.partial").write_text("of a run before")
    _Measured(monkeypatch)
    result = _tune(path)
    assert result.exit_code == 0, result.output
    assert "NVSHMEM from 64 B; measured up to 64 B" in result.stdout
    assert f"# written; to use it: XLA_SHMEM_PROFILE=tuned XLA_SHMEM_TUNING={path}" in result.stdout
    assert [file.name for file in tmp_path.glob("tuning*")] == ["tuning.json"]
    assert CliRunner().invoke(main, ["tune", "--show", "--tuning", str(path)]).exit_code == 0


@pytest.mark.parametrize(("end", "code"), [(KeyboardInterrupt, 130), (jobs.JobFailed, 1)])
def test_a_run_that_ends_early_keeps_its_lines_beside_the_old_table(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, end: type[BaseException], code: int
) -> None:
    path = written(tmp_path / "tuning.json", row("all-gather", 64, 1.0, 9.0))
    old = path.read_text()
    _Measured(monkeypatch, end=end)
    assert _tune(path).exit_code == code
    assert path.read_text() == old
    partial = CliRunner().invoke(main, ["tune", "--show", "--tuning", f"{path}.partial"])
    assert partial.exit_code == 2
    assert "is incomplete, because `xla-shmem tune` was stopped" in partial.stderr
    assert '"collective-permute"' in Path(f"{path}.partial").read_text()


def test_collectives_missing_from_the_table_are_printed_with_the_reason(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    def rows(every: Any, job: Any) -> Iterator[Any]:
        cell = Cell("all-gather", 16, "bf16", "", 2, False)
        yield Row(cell, {"shmem": Times(reason="process 1 runs without xla-shmem")}), None
        yield Row(cell, {"shmem": Times([1.0])}), None
        broadcast = dataclasses.replace(cell, op="collective-broadcast")
        yield Row(broadcast, {"shmem": Times([1.0])}, records={"shmem": {"part_of": "broadcast"}}), None

    monkeypatch.setattr(measuring, "measuring_jobs", contextlib.nullcontext)
    monkeypatch.setattr(measuring, "measure_rows", rows)
    result = _tune(tmp_path / "tuning.json")
    assert result.exit_code == 1
    assert "# all-gather of 64 B (bf16): process 1 runs without xla-shmem" in result.stdout
    assert "# all-gather of 64 B (bf16): XLA runs it as a type that was measured before" in result.stdout
    assert "B (bf16): it is always divided, because XLA cannot run it whole" in result.stdout
    assert "SHMEM ran none of these collectives" in result.stderr
    assert not list(tmp_path.glob("tuning*"))


def test_a_stale_table_does_not_prevent_a_new_measurement(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    path = tmp_path / "tuning.json"
    path.write_text("stale")
    monkeypatch.setenv("XLA_SHMEM_PROFILE", "tuned")
    monkeypatch.setenv("XLA_SHMEM_TUNING", str(path))
    _Measured(monkeypatch)
    assert CliRunner().invoke(main, ["tune"]).exit_code == 0
    assert "xla-shmem tuning table" in path.read_text()


def test_wrong_results_make_no_table(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    _Measured(monkeypatch, wrong=3)
    result = _tune(tmp_path / "tuning.json")
    assert result.exit_code == 1
    assert "SHMEM: 3 elements of" in result.stderr
    assert not (tmp_path / "tuning.json").exists()
