"""Runs the cases in a file, one a line, on stock JAX and CPUs; records their results in a directory (gpu_world.py)."""

from __future__ import annotations

import os
import sys
import traceback
from pathlib import Path

import jax
from all_cases import CASES
from gpu_world import RecordingWorld
from job_runs import report


def main() -> None:
    names = Path(sys.argv[1]).read_text().split()
    if int(os.environ["OMPI_COMM_WORLD_SIZE"]) > 1:
        jax.distributed.initialize()
    for name in names:
        error = ""
        try:
            CASES[name].run(RecordingWorld(name, Path(sys.argv[2])))
        except Exception:
            error = traceback.format_exc(limit=-3)
        report({"case": name, "error": error})


if __name__ == "__main__":
    main()
