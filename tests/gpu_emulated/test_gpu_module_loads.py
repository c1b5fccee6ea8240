"""Code that a GPU loads while kernels of its peers wait for one another: every call that may wait does so here."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from emulated_jobs import run_emulated
from emulator import GRAPH_FLAGS, NO_GRAPH_FLAGS, Emulator

FLAGS = [
    pytest.param(NO_GRAPH_FLAGS, id="no-graphs"),
    pytest.param(GRAPH_FLAGS, id="graphs", marks=pytest.mark.form),
]


@pytest.mark.timeout(300)
@pytest.mark.parametrize("flags", FLAGS)
@pytest.mark.parametrize(
    ("when", "values"),
    [("first", [[[1.5, 2.5, 3.5]]]), ("next", [[[1.5, 2.5, 3.5]], [[10.0, 12.0, 14.0]]])],
)
def test_a_gpu_that_loads_code_holds_no_launch_for_which_its_peers_wait(
    emulator: Emulator, tmp_path: Path, when: str, values: list[list[list[float]]], flags: Sequence[str]
) -> None:
    assert _values(emulator, tmp_path, when, flags, ranks=1, devices=4) == values


@pytest.mark.timeout(300)
@pytest.mark.parametrize("flags", FLAGS)
def test_a_library_that_loads_code_holds_no_launch_for_which_another_process_waits(
    emulator: Emulator, tmp_path: Path, flags: Sequence[str]
) -> None:
    assert _values(emulator, tmp_path, "library", flags, ranks=2, devices=2) == [8.0]


def _values(emulator: Emulator, results: Path, when: str, flags: Sequence[str], ranks: int, devices: int) -> Any:
    """Returns the values of rank 0."""
    job = run_emulated(
        emulator,
        "worker_module_loads.py",
        [when],
        ranks=ranks,
        devices=devices,
        results=results,
        flags=flags,
        timeout=240,
        GPU_EMULATOR_BLOCKING="2",
        GPU_EMULATOR_BLOCKED_TIMEOUT="20",
        XLA_SHMEM_DEADLINE="60",
        XLA_SHMEM_OPS="all",
    )
    assert job.exit_code == 0, job.output[-6000:]
    return job.result(0)["values"]
