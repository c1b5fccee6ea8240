"""Random programs on emulated GPUs of one and of two processes compute what NumPy computes."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest
from emulator import FLAG, NO_GRAPH_FLAGS, Emulator

TESTS = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(TESTS / "random_programs"), str(TESTS / "hosts")]

from program_search import Search  # noqa: E402
from random_job import Shape  # noqa: E402

#: Programs of each job. A program takes some seconds.
PROGRAMS = int(os.environ.get("RANDOM_GPU_PROGRAMS", "12"))
SEED = int(os.environ.get("RANDOM_SEED", "1"))


@pytest.mark.slow
@pytest.mark.timeout(900)
@pytest.mark.parametrize(
    ("processes", "devices", "flags"),
    [(1, 2, ()), (1, 4, NO_GRAPH_FLAGS), (2, 2, NO_GRAPH_FLAGS)],
)
def test_random_programs_compute_what_numpy_computes(
    emulator: Emulator, processes: int, devices: int, flags: tuple[str, ...]
) -> None:
    environ = emulator.variables(processes * devices, (FLAG, *flags))
    environ["PYTHONPATH"] = os.pathsep.join([environ["PYTHONPATH"], str(TESTS / "e2e")])
    environ["XLA_SHMEM_DEADLINE"] = "80"
    search = Search(Shape(processes, devices), threads=False, environ=environ)
    search.run(SEED, programs=PROGRAMS)
    print(search.ran)
    assert search.ran.programs >= PROGRAMS
    assert sum(search.ran.collectives.values()) > 0
