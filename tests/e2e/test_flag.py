"""The flag: off is stock JAX, on also works for children, and ranks that differ all stay on the default backend."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest
from job_runs import FLAG, JobRun, run_job

pytestmark = pytest.mark.timeout(60)


def _run(results: Path, *words: str, of_rank: dict[int, dict[str, str]] | None = None, **job: Any) -> JobRun:
    job = {"ranks": 2, "cold": True} | job
    run = run_job("worker_flag.py", [json.dumps(of_rank or {}), *words], results=results, **job)
    assert run.exit_code == 0, run.output
    assert run.segments == []
    return run


def test_off_loads_nothing_and_compiles_what_stock_jax_compiles(tmp_path: Path) -> None:
    off = _run(tmp_path / "off", flag=False).result(0)
    stock = _run(tmp_path / "stock", "uninstalled", flag=False).result(0)
    assert not off["core"]
    assert "xla_shmem" not in str(off["text"])
    assert off["text"] == stock["text"]


def test_on_lowers_both_and_takes_only_its_own_flag_away(tmp_path: Path) -> None:
    other = "--xla_cpu_enable_fast_math=false"
    run = _run(tmp_path, XLA_FLAGS=other)
    for rank in (0, 1):
        facts = run.result(rank)
        assert facts["lowered"] == 2
        assert facts["vetoes"] == []
        assert str(facts["xla_flags"] or "").strip() == other
        assert facts["marker"] == "1"


@pytest.mark.parametrize("deadline", ["1e12", "inf"])
def test_a_deadline_beyond_nanoseconds_is_no_limit(tmp_path: Path, deadline: str) -> None:
    assert _run(tmp_path, XLA_SHMEM_DEADLINE=deadline).result(0)["lowered"] == 2


@pytest.mark.slow
def test_set_to_false_is_off(tmp_path: Path) -> None:
    facts = _run(tmp_path, flag=False, XLA_FLAGS=FLAG.replace("true", "false")).result(0)
    assert facts["lowered"] == 0
    assert not facts["core"]


def test_children_inherit_the_choice_and_configure_comes_too_late_after_the_start(tmp_path: Path) -> None:
    facts = _run(tmp_path, "children", "configure", ranks=1, devices=2).result(0)
    assert facts["children"] == [True, True]
    assert "configure(threshold): JAX has already taken its devices" in str(facts["configure"])


def _install_patched_plugin(site: Path) -> None:
    """The metadata of the wheels of scripts/build_jaxlib.sh after an installation, without their libraries."""
    for name in ("jax_cuda12_plugin", "jax_cuda12_pjrt"):
        metadata = site / f"{name}-0.10.2+xlashmem.dist-info" / "METADATA"
        metadata.parent.mkdir(parents=True)
        metadata.write_text(f"Metadata-Version: 2.1\nName: {name.replace('_', '-')}\nVersion: 0.10.2+xlashmem\n")


@pytest.mark.parametrize("enabled_by", ["flag", "marker"])
def test_beside_a_patched_plugin_the_flag_stays_and_nothing_is_registered(tmp_path: Path, enabled_by: str) -> None:
    # The XLA of this test is not patched, so nothing lowers. The test checks that nothing else changes. A release that
    # does not know the flag ends the process; a patched one would not.
    site = tmp_path / "site"
    _install_patched_plugin(site)
    by_flag = enabled_by == "flag"
    environ = {"JAX_PLATFORMS": "cuda,cpu", "PYTHONPATH": str(site)} | ({} if by_flag else {"XLA_SHMEM_ENABLED": "1"})
    run = run_job("worker_flag.py", ["{}"], ranks=2, results=tmp_path / "run", flag=by_flag, **environ)
    if run.exit_code != 0:
        assert "xla_gpu_experimental_enable_nvshmem" in run.line_with("Unknown flag")
        return
    facts = run.result(0)
    assert facts["xla_flags"] == FLAG
    assert facts["marker"] == (None if by_flag else "1")
    assert not facts["core"]
    assert facts["lowered"] == 0


def test_on_the_cpu_a_patched_gpu_plugin_makes_no_difference(tmp_path: Path) -> None:
    _install_patched_plugin(tmp_path / "site")
    facts = _run(tmp_path / "run", PYTHONPATH=str(tmp_path / "site")).result(0)
    assert facts["lowered"] == 2
    assert facts["xla_flags"] is None


CANNOT_TAKE_PART = {
    "flag": ({"XLA_FLAGS": ""}, "", ["process 1 runs without xla-shmem", "install the package in every process"]),
    "threshold": ({"XLA_SHMEM_THRESHOLD": "1MiB"}, "", ["process 1 has", "threshold=1048576", "must be equal"]),
    "ops": ({"XLA_SHMEM_OPS": "all-gather,all-reduce<4K"}, "", ["process 1 has", "ops=all-reduce<4096,all-gather "]),
    "heap": (
        {"XLA_SHMEM_HEAP_SIZE": "900G"},
        "",
        ["process 1: cannot allocate", "lower XLA_SHMEM_HEAP_SIZE"],
    ),
    "release": ({}, "another release", ["process 1 has", "jaxlib 0.0.1", "must be equal"]),
    "name": ({}, "taken", ["process 1: cannot create shared memory", "File exists", "start the job again"]),
}


@pytest.mark.parametrize("what", CANNOT_TAKE_PART)
def test_one_rank_that_cannot_take_part_leaves_all_on_the_default_backend(tmp_path: Path, what: str) -> None:
    of_rank_1, word, reasons = CANNOT_TAKE_PART[what]
    run = _run(tmp_path, word, of_rank={1: of_rank_1})
    for rank in (0, 1):
        assert run.result(rank)["lowered"] == 0
    (veto,) = (text.replace("\\'", "'") for text in run.result(0)["vetoes"])  # type: ignore[attr-defined]
    for reason in reasons:
        assert reason in veto, veto
    assert ".; " not in run.output
    if "XLA_FLAGS" not in of_rank_1:
        assert run.result(1)["vetoes"] == run.result(0)["vetoes"]


WRONG = {
    "value of one rank": (
        {1: {"XLA_SHMEM_OPS": "foo"}},
        "process 1: XLA_SHMEM_OPS='foo': must be 'default', 'all', 'none' or a list such as all-reduce<16MiB",
    ),
    "value of all ranks": (
        {0: {"XLA_SHMEM_HEAP_SIZE": "1"}, 1: {"XLA_SHMEM_HEAP_SIZE": "1"}},
        "XLA_SHMEM_HEAP_SIZE='1': ",
    ),
    "two values": ({0: {"XLA_SHMEM_STATS": "yes"}, 1: {"XLA_SHMEM_OPS": "foo"}}, "process 0: XLA_SHMEM_STATS='yes': "),
    "name": (
        {0: {"XLA_SHMEM_TRESHOLD": "4K"}},
        "process 0: XLA_SHMEM_TRESHOLD is no option of xla-shmem; did you mean XLA_SHMEM_THRESHOLD?",
    ),
    "no effect": (
        {1: {"XLA_SHMEM_GPU_PERMUTE": "copies"}},
        "process 1: XLA_SHMEM_GPU_PERMUTE='copies': has no effect, because this process uses no GPU; unset it.",
    ),
    "flag": (
        {1: {"XLA_FLAGS": FLAG.replace("true", "maybe")}},
        "process 1: XLA_FLAGS: --xla_gpu_experimental_enable_nvshmem=maybe: must be true, false, 1 or 0.",
    ),
}


@pytest.mark.parametrize("what", WRONG)
def test_a_wrong_option_ends_all_ranks_with_one_sentence_before_they_compute(tmp_path: Path, what: str) -> None:
    of_rank, sentence = WRONG[what]
    run = run_job("worker_flag.py", [json.dumps(of_rank)], ranks=2, results=tmp_path, grace=20.0)
    assert run.exit_code == 2, run.output
    assert run.results == {}
    assert run.segments == []
    told = [line for line in run.output.splitlines() if "launch: " not in line]
    assert sorted(line[:4] for line in told) == ["[0] ", "[1] "], run.output
    assert len({line[4:] for line in told}) == 1
    assert told[0][4:].startswith(f"xla_shmem: {sentence}")


def test_a_wrong_option_ends_a_process_without_a_job_too(tmp_path: Path) -> None:
    run = run_job("worker_flag.py", ["{}"], ranks=1, devices=2, results=tmp_path, XLA_SHMEM_TUNING="/a/table")
    assert run.exit_code == 2
    assert "xla_shmem: XLA_SHMEM_TUNING='/a/table': has no effect, because only profile tuned reads it" in run.output
    assert run.results == {}


def test_nothing_of_ours_is_on_a_programs_stdout(tmp_path: Path) -> None:
    run = _run(tmp_path, "stdout", XLA_SHMEM_VERBOSE="2", XLA_SHMEM_STATS="1")
    assert "segment of" in run.output
    assert "compiled now" in run.output
    assert re.search(r"^\[0\] psum\S* +all-reduce .* threshold 16\.0 MiB$", run.output, re.MULTILINE), run.output
    for rank in (0, 1):
        printed = (tmp_path / f"stdout-{rank}.txt").read_text()
        assert "xla" not in printed.lower()
        assert "NVSHMEM" not in printed
