"""All cases of collective_cases.py; reports what went wrong in each, "" for nothing."""

from __future__ import annotations

import sys
import traceback

from collective_cases import CASES, Rank
from doubled_process import PROCESS, PROCESSES, STORE, Executable, Gpu, job_topology, report, start_job


def outcome(name: str, rank: Rank) -> str:
    try:
        CASES[name](rank)
    except Exception:
        return traceback.format_exc()
    return ""


def main() -> None:
    # So many GPUs on the machine: processes may have to share them.
    ordinal = PROCESS % int(sys.argv[3])
    job = start_job([ordinal], deadline=15)
    topology = job_topology(job)
    assert topology.transport.available, topology.transport.reason
    gpu = Gpu(ordinal)
    rank = Rank(PROCESS, PROCESSES, gpu, Executable(gpu), STORE, topology.topology.fingerprint)
    report({name: outcome(name, rank) for name in CASES})


main()
