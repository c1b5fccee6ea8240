"""Profile `tuned` and `xla-shmem tune` in real jobs."""

from __future__ import annotations

import dataclasses
import json
import os
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from job_runs import JobRun, abandoned_segments, environment, left_behind, run_job
from tuning_tables import here, row, written

from xla_shmem.cli.main import main
from xla_shmem.options import tuning_table as table

pytestmark = pytest.mark.timeout(150)

ROWS = (
    row("all-reduce", 64, 2.0, 300.0),
    row("all-reduce", 1 << 20, 9000.0, 400.0),
    row("collective-permute", 64, 50.0, 20.0),
    row("all-gather", 64, 2.0, 300.0),
)


def _started(tmp_path: Path, rank_1: dict[str, str] | None = None, **environ: str) -> JobRun:
    rules = {"XLA_SHMEM_PROFILE": "tuned"}
    changes = json.dumps({"1": rank_1 or {}})
    return run_job("worker_tuned.py", [changes], ranks=2, results=tmp_path / "run", **(rules | environ))


def _run(tmp_path: Path, rank_1: dict[str, str] | None = None, **environ: str) -> JobRun:
    run = _started(tmp_path, rank_1, **environ)
    assert run.exit_code == 0, run.output
    return run


def _found(run: JobRun, rank: int) -> dict[str, dict[str, Any]]:
    return {str(result.pop("name")): result for result in (dict(result) for result in run.results[rank])}


def test_the_table_decides_and_results_are_right(tmp_path: Path) -> None:
    run = _run(tmp_path, XLA_SHMEM_TUNING=str(written(tmp_path / "tuning.json", *ROWS)))
    for rank in (0, 1):
        found = _found(run, rank)
        assert {name: (one["lowered"], one["rule"]) for name, one in found.items()} == {
            "small sum": ("NVSHMEM", "tuned"),
            "large sum": ("DEFAULT", "tuned"),
            "permute": ("DEFAULT", "tuned"),
            "gather": ("NVSHMEM", "tuned"),
        }
        assert "NVSHMEM 2.0 µs, DEFAULT 300 µs measured (f32, groups of 2)" in found["small sum"]["reason"]
        assert "between 64 B and 1.0 MiB" in found["large sum"]["reason"]


def test_ranks_with_different_tables_all_stay_on_the_default_backend(tmp_path: Path) -> None:
    other = written(tmp_path / "other.json", *ROWS[1:])
    run = _run(
        tmp_path,
        {"XLA_SHMEM_TUNING": str(other)},
        XLA_SHMEM_TUNING=str(written(tmp_path / "tuning.json", *ROWS)),
    )
    for rank in (0, 1):
        found = _found(run, rank)
        assert {one["lowered"] for one in found.values()} == {"DEFAULT"}
        veto = found["gather"]["veto"]
        assert f"process 1 has xla-shmem {here().fingerprint['xla-shmem']}" in veto
        assert f"tuning={here(*ROWS).digest()}: they must be equal" in veto
        assert f"tuning={here(*ROWS[1:]).digest()} and process 0" in veto


def test_a_foreign_table_ends_the_job_and_says_why(tmp_path: Path) -> None:
    path = tmp_path / "tuning.json"
    foreign = dataclasses.replace(here(*ROWS), fingerprint={**here().fingerprint, "jaxlib": "0.1"})
    table.save(path, foreign, complete=True)
    run = _started(tmp_path, XLA_SHMEM_TUNING=str(path))
    assert run.exit_code == 2
    assert run.results == {}
    told = run.line_with("was measured with jaxlib 0.1; here is jaxlib")
    assert f"] xla_shmem: XLA_SHMEM_TUNING='{path}': was measured" in told
    assert "run `xla-shmem tune` again, or choose another profile." in told


def test_what_tune_measures_is_a_table_that_jobs_take_and_verify_holds_against(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    kept = environment(tmp_path, {})
    for name in set(os.environ) - set(kept):
        monkeypatch.delenv(name)
    path, found = tmp_path / "tuning.json", tmp_path / "verify.json"
    before = abandoned_segments()
    cells = ("--op", "all-reduce", "--op", "all-gather", "--op", "broadcast", "-e", "512", "-f", "64")
    brief = ("-b", "8", "--rounds", "2", "--iterations", "20")
    measured = CliRunner().invoke(main, ["tune", "--output", str(path), *cells, *brief])
    assert measured.exit_code == 0, measured.output
    assert not path.with_name("tuning.json.partial").exists()
    rows = {(one.op, one.bytes): one for one in table.load(path).rows}
    assert set(rows) == {(op, size) for op in ("all-reduce", "all-gather", "collective-broadcast") for size in (8, 512)}
    assert rows["collective-broadcast", 8].default is None
    assert rows["all-reduce", 512].default is not None
    assert {(one.dtype, one.group, one.nvshmem.programs) for one in rows.values()} == {("f32", 2, 4)}

    verified = CliRunner().invoke(
        main, ["tune", "--verify", "--tuning", str(path), "--output", str(found), *cells, *brief]
    )
    assert verified.exit_code in (0, 1), verified.output
    lines = json.loads(found.read_text())["rows"]
    assert [(line["op"], line["bytes"]) for line in lines] == [
        (op, size) for op in ("all-reduce", "all-gather", "collective-broadcast") for size in (8, 512)
    ]
    core = table.load(path).core("cpu")
    for line in lines:
        faster = core.faster(line["op"], "f32", 2, line["bytes"])
        assert line["backend"] == ("NVSHMEM" if faster == "NVSHMEM" else "DEFAULT"), line
    slower = [line for line in lines if line["verdict"] == "slower"]
    assert verified.exit_code == (1 if slower else 0)
    assert left_behind(before) == set()
