"""Random programs on emulated GPUs compute what NumPy computes: several processes, several GPUs, CUDA graphs."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest
from emulator import FLAG, GRAPH_FLAGS, Emulator

TESTS = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(TESTS / "random_programs"), str(TESTS / "hosts")]

from program_form import TYPES  # noqa: E402
from program_search import Search  # noqa: E402
from random_job import Shape  # noqa: E402

#: Programs of each shape. 34 take 6 s with two GPUs.
PROGRAMS = int(os.environ.get("RANDOM_GPU_PROGRAMS", "12"))
#: Stock XLA:GPU of jax 0.12.0.1 crashes on permutes of 4-bit integers, and refuses to make them of predicates.
ON_GPUS = tuple(name for name in TYPES if name not in ("int4", "uint4"))
SEED = int(os.environ.get("RANDOM_SEED", "1"))


@pytest.mark.slow
@pytest.mark.timeout(900 + 5 * PROGRAMS)
@pytest.mark.parametrize(
    ("processes", "devices", "flags"),
    [(2, 1, GRAPH_FLAGS), (4, 1, GRAPH_FLAGS), (8, 1, ()), (1, 2, GRAPH_FLAGS), (1, 4, ()), (2, 2, ())],
)
def test_random_programs_compute_what_numpy_computes(
    emulator: Emulator, processes: int, devices: int, flags: tuple[str, ...]
) -> None:
    environ = emulator.variables(processes * devices, (FLAG, *flags))
    environ["PYTHONPATH"] = os.pathsep.join([environ["PYTHONPATH"], str(TESTS / "e2e")])
    environ["XLA_SHMEM_DEADLINE"] = "80"
    search = Search(Shape(processes, devices), threads=False, types=ON_GPUS, environ=environ)
    search.run(SEED, programs=PROGRAMS)
    print(search.ran)
    assert search.ran.programs >= PROGRAMS
    assert sum(search.ran.collectives.values()) > 0
