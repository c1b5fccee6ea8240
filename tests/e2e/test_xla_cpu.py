"""What stock XLA:CPU refuses runs on SHMEM with default options. docs/sharp-bits.md has the table."""

from __future__ import annotations

from pathlib import Path

import pytest
from job_runs import run_job

# Program -> words of stock XLA:CPU's error.
REFUSED = {
    "ragged_all_to_all": "HLO opcode `ragged-all-to-all` is not supported by XLA:CPU",
    "collective_broadcast": "HLO opcode `collective-broadcast` is not supported by XLA:CPU",
    "all_reduce_by_xor": "Unsupported reduction computation",
    "all_reduce_by_and_of_integers": "Unsupported reduction computation",
    "reduce_scatter_by_or_of_integers": "Unsupported reduction computation",
}


@pytest.mark.timeout(120)
@pytest.mark.parametrize(("ranks", "devices"), [(2, 1), (1, 4), pytest.param(2, 2, marks=pytest.mark.slow)])
def test_programs_that_stock_refuses_run_with_default_options(tmp_path: Path, ranks: int, devices: int) -> None:
    job = run_job("worker_xla_cpu.py", list(REFUSED), ranks=ranks, devices=devices, results=tmp_path)
    assert len(job.results) == ranks, job.output
    for reports in job.results.values():
        assert {report["case"]: report["error"] for report in reports} == dict.fromkeys(REFUSED, ""), job.output


@pytest.mark.timeout(120)
def test_stock_refuses_them(tmp_path: Path) -> None:
    job = run_job("worker_xla_cpu.py", list(REFUSED), ranks=2, results=tmp_path, flag=False)
    assert len(job.results) == 2, job.output
    for reports in job.results.values():
        errors = {report["case"]: str(report["error"]) for report in reports}
        assert {case: words for case, words in REFUSED.items() if words not in errors[case]} == {}, errors


# gloo returns before it has sent what the caller then overwrites (jax issue 40830).
def _wrong_scatters(results: Path, bytes_of_result: int, most: int, *, flag: bool) -> list[int]:
    job = run_job(
        "worker_large_scatters.py",
        [str(bytes_of_result), str(most)],
        ranks=1,
        devices=8,
        results=results,
        flag=flag,
        timeout=280,
        XLA_SHMEM_OPS="reduce-scatter",
    )
    wrong = job.result(0)["wrong"]
    assert isinstance(wrong, list)
    return wrong


@pytest.mark.timeout(300)
def test_large_scattered_sums_in_one_process_are_right(tmp_path: Path) -> None:
    assert _wrong_scatters(tmp_path, 8 << 20, 3, flag=True) == [0, 0, 0]


@pytest.mark.slow
@pytest.mark.timeout(300)
def test_on_stock_they_are_wrong_sooner_or_later(tmp_path: Path) -> None:
    assert _wrong_scatters(tmp_path, 32 << 20, 40, flag=False)[-1] > 0
