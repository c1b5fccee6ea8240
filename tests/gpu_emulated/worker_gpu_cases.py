"""Runs the cases in a file, one a line, on emulated GPUs. Stock results lie in a directory (gpu_world.py).

For each it reports the error; the ops that stayed on NCCL; the digests that must be equal on all ranks; how many
collectives ran, how many of them in CUDA graphs, and how many the compiled modules announce.
"""

from __future__ import annotations

import os
import sys
import time
import traceback
from pathlib import Path

import jax
from all_cases import CASES
from cases_gpu import GPU_CASES
from executed_collectives import NOTHING, Executions
from gpu_world import GpuWorld, Ledger
from job_runs import report


def main() -> None:
    names = Path(sys.argv[1]).read_text().split()
    executions, ledger = Executions(), Ledger()
    if int(os.environ["OMPI_COMM_WORLD_SIZE"]) > 1:
        jax.distributed.initialize()
    jax.jit = ledger.jit
    for name in names:
        world = GpuWorld(name, Path(sys.argv[2]))
        assert {device.platform for device in world.devices} == {"gpu"}
        error = ""
        ledger.expected, ledger.left, before = NOTHING, set(), executions.count
        begin, (captured, in_graphs) = time.monotonic(), executions.in_graphs()
        try:
            (CASES | GPU_CASES)[name].run(world)
        except Exception:
            error = traceback.format_exc(limit=-3)
        now_captured, now_in_graphs = executions.in_graphs()
        report(
            {
                "case": name,
                "error": error,
                "left": sorted(ledger.left),
                "digests": world.digests,
                # A captured call does not run.
                "ran": executions.count - before - (now_captured - captured) + now_in_graphs - in_graphs,
                "expected": ledger.expected.least,
                "exact": ledger.expected.exact,
                "in_graphs": now_in_graphs - in_graphs,
                "seconds": time.monotonic() - begin,
            }
        )


if __name__ == "__main__":
    main()
