"""Outcomes are read as the runners write them, and every difference is found."""

from __future__ import annotations

from pathlib import Path

import pytest
from client_modes import DEFAULT_OPS, Mode
from suite_outcomes import Outcomes, differences, read_absl, read_junit
from suite_runs import assert_same_outcomes, pytest_suite

SUITE = """
import os, pytest

def test_passes(): pass

@pytest.mark.skipif(True, reason="always")
def test_skipped(): pass

def test_needs_stock(): assert os.environ["XLA_SHMEM_OPS"] != os.environ.get("FAILS_WITH")

@pytest.fixture
def broken(): raise RuntimeError

def test_with_broken_fixture(broken): pass
"""


def test_differences_name_rank_test_and_outcomes() -> None:
    stock: dict[int, Outcomes] = {0: {"a": "passed", "b": "failed"}, 1: {"a": "passed"}}
    assert differences(stock, stock) == []
    assert differences(stock, {0: {"a": "failed", "b": "failed"}}) == [
        "rank 0: a: passed on stock JAX, failed with the flag",
        "rank 1: a: passed on stock JAX, not run with the flag",
    ]


def test_absl_results_are_read_from_a_log() -> None:
    log = "[ RUN      ] T.test_a\n[       OK ] T.test_a (<class 'int'>)\n[ RUN      ] T.test_b\n[  FAILED  ] T.test_b\n"
    assert read_absl(log + "[  SKIPPED ] T.test_c\n") == {
        "T.test_a": "passed",
        "T.test_b": "failed",
        "T.test_c": "skipped",
    }


def test_a_run_without_a_file_of_outcomes_has_none(tmp_path: Path) -> None:
    assert read_junit(tmp_path / "0.xml") == {}


def test_pytest_outcomes_are_compared_in_all_modes(tmp_path: Path) -> None:
    (tmp_path / "test_suite.py").write_text(SUITE)
    suite = pytest_suite(tmp_path, ["-q", "test_suite.py"], ranks=1, timeout=120)
    assert suite(DEFAULT_OPS, tmp_path / "one") == {
        0: {
            "test_suite::test_passes": "passed",
            "test_suite::test_skipped": "skipped",
            "test_suite::test_needs_stock": "passed",
            "test_suite::test_with_broken_fixture": "failed",
        }
    }
    assert_same_outcomes(suite, tmp_path / "equal", moves=False)
    fails = pytest_suite(tmp_path, ["-q", "test_suite.py"], ranks=1, timeout=120, environ={"FAILS_WITH": "all"})
    with pytest.raises(
        AssertionError, match="all-ops: rank 0: test_suite::test_needs_stock: passed on stock JAX, failed"
    ):
        assert_same_outcomes(fails, tmp_path / "unequal", moves=False)
    assert_same_outcomes(fails, tmp_path / "known", moves=False, may_fail=["test_needs_stock"])


def test_a_suite_that_does_not_start_is_no_success(tmp_path: Path) -> None:
    def crashes(mode: Mode, folder: Path) -> dict[int, Outcomes]:
        folder.mkdir(parents=True)
        (folder / "output.txt").touch()
        return {0: {}}

    with pytest.raises(AssertionError, match="no test passed"):
        assert_same_outcomes(crashes, tmp_path, moves=False)


def test_a_suite_that_moves_nothing_is_no_success(tmp_path: Path) -> None:
    (tmp_path / "test_suite.py").write_text("def test_passes(): pass")
    suite = pytest_suite(tmp_path, ["-q", "test_suite.py"], ranks=1, timeout=120)
    with pytest.raises(AssertionError, match="all-ops: collectives of 0 processes ran on SHMEM"):
        assert_same_outcomes(suite, tmp_path)
