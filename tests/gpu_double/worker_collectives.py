"""Runs all cases of collective_cases.py; reports the error of each, "" for none."""

from __future__ import annotations

import sys
import traceback

from collective_cases import CASES, Rank
from doubled_process import PROCESS, PROCESSES, STORE, Executable, Gpu, job_topology, report, start_job


def outcomes(rank: Rank) -> dict[str, str]:
    """Runs the cases up to the first that fails: its peers still wait in it."""
    found: dict[str, str] = {}
    for name, case in CASES.items():
        try:
            case(rank)
            found[name] = ""
        except Exception:
            found[name] = traceback.format_exc()
            break
    return {name: "not run" for name in CASES} | found


def main() -> None:
    # The number of GPUs of the machine. Processes may have to share them.
    ordinal = PROCESS % int(sys.argv[3])
    job = start_job([ordinal], deadline=10)
    topology = job_topology(job)
    assert topology.transport.available, topology.transport.reason
    gpu = Gpu(ordinal)
    # XLA reports flags of the context that it has not set.
    assert gpu.context_flags() == 0
    rank = Rank(PROCESS, PROCESSES, gpu, Executable(gpu), STORE, topology.topology.fingerprint)
    report(outcomes(rank))


main()
