"""Two NVSHMEM worlds in one job: processes 0 and 2 share an NVLink domain, and so do 1 and 3."""

from __future__ import annotations

import sys

import numpy as np
from collective_cases import Rank, run_all_reduce, run_permute
from doubled_process import PROCESS, PROCESSES, STORE, Executable, Gpu, job_topology, report, start_job

from xla_shmem.gpu.process_facts import GpuFacts, ProcessFacts


def main() -> None:
    bus_ids = [f"0000:{process + 1:02X}:00.0" for process in range(PROCESSES)]
    link = {
        bus_ids[other]: "nvlink" if other % 2 == PROCESS % 2 else None for other in range(PROCESSES) if other != PROCESS
    }
    facts = ProcessFacts("one host", (GpuFacts(bus_ids[PROCESS], peers=link),))
    topology = job_topology(start_job(facts=facts, deadline=15, gpu_puts=sys.argv[3]))
    gpu = Gpu(PROCESS)
    rank = Rank(PROCESS, PROCESSES, gpu, Executable(gpu), STORE, topology.topology.fingerprint)
    run_permute(rank, [(0, 2), (2, 0), (3, 1), (1, 3)], [("float32", 100_000)])
    run_permute(rank, [(2, 0), (1, 3)], [("float32", 10)])
    run_all_reduce(rank, [[2, 0], [1, 3]], [("bfloat16", 20_000)])
    run_all_reduce(rank, [[0, 2], [3, 1]], [("float32", 500)], self_joined=True)
    # The pass does not write these.
    buffer = np.zeros(4, np.float32)
    refused = []
    for operation in (rank.permute([(0, 1), (2, 3)]), rank.all_reduce("sum", [[0, 1, 2, 3]])):
        try:
            rank.xla.start(operation, [buffer], [buffer])
            refused.append("")
        except RuntimeError as error:
            refused.append(str(error))
    report({"domains": [device[3] for device in topology.topology.devices], "refused": refused})


main()
