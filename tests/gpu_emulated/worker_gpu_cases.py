"""Runs the cases in a file, one a line, on emulated GPUs. Stock results lie in a directory (gpu_world.py).

For each it reports the error, or why the case cannot run on GPUs; the digests that must be equal on all ranks; how many
collectives called a handler of xla-shmem, and how many the compiled modules announce; and how many CUDA graphs were
launched, if the emulator writes a trace.
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
from cases_ragged import RAGGED_CASES
from executed_collectives import NOTHING, Executions, LeftOnNccl
from gpu_world import GpuWorld, Ledger
from job_runs import report


def graph_launches() -> int:
    """Launches of this process in the emulator's trace, 0 without one."""
    log = os.environ.get("GPU_EMULATOR_LOG")
    if log is None:
        return 0
    own = f"[{os.getpid()}]: cuGraphLaunch"
    with open(log, errors="replace") as lines:
        return sum(own in line for line in lines)


def main() -> None:
    names = Path(sys.argv[1]).read_text().split()
    executions, ledger = Executions(), Ledger()
    if int(os.environ["OMPI_COMM_WORLD_SIZE"]) > 1:
        jax.distributed.initialize()
    jax.jit = ledger.jit
    for name in names:
        world = GpuWorld(name, Path(sys.argv[2]))
        assert {device.platform for device in world.devices} == {"gpu"}
        error = unsupported = ""
        ledger.expected, executions.count = NOTHING, 0
        begin, launched = time.monotonic(), graph_launches()
        try:
            (CASES | GPU_CASES | RAGGED_CASES)[name].run(world)
        except LeftOnNccl as left:
            unsupported = f"NCCL: {left}"
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
                "launches": graph_launches() - launched,
                "seconds": time.monotonic() - begin,
            }
        )


if __name__ == "__main__":
    main()
