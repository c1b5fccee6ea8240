"""Kills the last process after the job has started; the others report the result of a transfer with it."""

from __future__ import annotations

import os
import signal
import sys

import numpy as np
from doubled_process import PROCESS, PROCESSES, Executable, Gpu, GpuError, job_topology, meet, report, start_job
from operations import Operation


def main() -> None:
    form, puts = sys.argv[3:]
    topology = job_topology(start_job(deadline=3.0, gpu_puts=puts)).topology.fingerprint
    meet("up")
    if PROCESS == PROCESSES - 1:
        os.kill(os.getpid(), signal.SIGKILL)
    gpu = Gpu(PROCESS)
    xla = Executable(gpu)
    operand, result = np.full(1000, 7, np.float32), np.full(1000, 3, np.float32)
    if form == "all_reduce":
        operation = Operation.all_reduce(1, topology, "sum", [list(range(PROCESSES))])
    else:
        operation = Operation.permute(1, topology, [(pe, (pe + 1) % PROCESSES) for pe in range(PROCESSES)])
    if form == "self_joined":
        xla.self_joined(operation, [operand], [result])
    else:
        xla.start(operation, [operand], [result])
        xla.done(operation, [operand], [result])
    told = {"synchronize": "", "next": ""}
    try:
        gpu.synchronize(20)
    except GpuError as error:
        told["synchronize"] = str(error)
        try:
            xla.start(operation, [operand], [result], 2)
        except RuntimeError as refusal:
            told["next"] = str(refusal)
    report(told | {"result": float(result[0])})


main()
