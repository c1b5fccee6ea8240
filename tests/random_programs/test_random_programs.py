"""Random multi-process programs compute what NumPy computes.

RANDOM_PROGRAMS is the number of programs, RANDOM_SECONDS a limit, RANDOM_SEED the first seed. A failure prints the
smallest set of programs that fails, as a Python program.
"""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest
from program_search import Search
from random_job import Shape

PROGRAMS = int(os.environ.get("RANDOM_PROGRAMS", "600"))
SECONDS = float(os.environ.get("RANDOM_SECONDS", "inf"))
SEED = int(os.environ.get("RANDOM_SEED") or int.from_bytes(os.urandom(4)))
LOG = Path(__file__).resolve().parents[2] / "out" / "random-programs.jsonl"

#: Shape of the job, whether several Python threads run programs at once, share of the programs.
CONFIGURATIONS = (
    (Shape(2, 1), False, 0.4),
    (Shape(2, 2), False, 0.25),
    (Shape(4, 1), False, 0.15),
    (Shape(2, 1), True, 0.15),
    (Shape(4, 1), True, 0.05),
)
OPS = {"all-reduce", "all-gather", "reduce-scatter", "all-to-all", "collective-permute", "collective-broadcast"}


@pytest.mark.timeout(0)
@pytest.mark.parametrize(
    ("shape", "threads", "share"),
    CONFIGURATIONS,
    ids=[f"{shape}{'-threads' if threads else ''}" for shape, threads, _ in CONFIGURATIONS],
)
def test_random_programs_compute_what_numpy_computes(shape: Shape, threads: bool, share: float) -> None:
    search = Search(shape, threads=threads)
    try:
        search.run(SEED, programs=max(1, round(PROGRAMS * share)), seconds=SECONDS * share)
    finally:
        ran = {"job": str(shape), "threads": threads, "seed": SEED, **vars(search.ran)}
        LOG.parent.mkdir(exist_ok=True)
        with LOG.open("a") as file:
            file.write(json.dumps(ran) + "\n")
        print(f"\n{ran}")
    missing = OPS - set(search.ran.collectives)
    # Each op ran on SHMEM; a few programs may lack one.
    assert not missing or search.ran.programs < 200, f"never ran on SHMEM: {missing}"
    assert sum(search.ran.collectives.values()) > 0
