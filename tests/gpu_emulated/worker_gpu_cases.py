"""Runs the cases in a file, one a line, on emulated GPUs.

For each it reports the error, or why the case cannot run on GPUs; the digests that must be equal on all ranks; how many
collectives ran on NVSHMEM and how many the compiled modules announce.
"""

from __future__ import annotations

import os
import sys
import time
import traceback
from pathlib import Path

import jax
from all_cases import CASES
from executed_collectives import NOTHING, Executions, LeftOnNccl
from gpu_world import GpuWorld, Ledger, NeedsStock
from job_runs import report


def main() -> None:
    names = Path(sys.argv[1]).read_text().split()
    executions, ledger = Executions(), Ledger()
    if int(os.environ["OMPI_COMM_WORLD_SIZE"]) > 1:
        jax.distributed.initialize()
    jax.jit = ledger.jit
    for name in names:
        world = GpuWorld(name)
        assert {device.platform for device in world.devices} == {"gpu"}
        error = unsupported = ""
        ledger.expected, executions.count = NOTHING, 0
        begin = time.monotonic()
        try:
            CASES[name].run(world)
        except LeftOnNccl as left:
            unsupported = f"NCCL: {left}"
        except NeedsStock:
            unsupported = "stock"
        except Exception:
            error = traceback.format_exc(limit=-3)
        report(
            {
                "case": name,
                "error": error,
                "unsupported": unsupported,
                "digests": world.digests,
                "ran": executions.count,
                "expected": ledger.expected.least,
                "exact": ledger.expected.exact,
                "seconds": time.monotonic() - begin,
            }
        )


if __name__ == "__main__":
    main()
