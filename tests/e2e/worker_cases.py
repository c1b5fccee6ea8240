"""Runs the cases in a file, one a line; reports the error of each and the digests that must be equal on all ranks."""

from __future__ import annotations

import os
import sys
import time
import traceback
from pathlib import Path

import jax
from all_cases import CASES
from case_world import World
from job_runs import report

from xla_shmem.runtime import job


def main() -> None:
    names = Path(sys.argv[1]).read_text().split()
    if os.environ.get("E2E_AS_ON_MPI"):
        job.cpu_collectives = lambda: "mpi"  # collectives that are not ours stay on gloo
    if int(os.environ["OMPI_COMM_WORLD_SIZE"]) > 1:
        jax.distributed.initialize()
    for name in names:
        world = World()
        error, begin = "", time.monotonic()
        try:
            CASES[name].run(world)
        except Exception:
            error = traceback.format_exc(limit=-3)
        report({"case": name, "error": error, "digests": world.digests, "seconds": time.monotonic() - begin})


if __name__ == "__main__":
    main()
