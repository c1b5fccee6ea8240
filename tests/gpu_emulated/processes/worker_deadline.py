"""Kills the last process after the job has started; the others report how a transfer with it ends.

Usage: worker_deadline.py PROCESS PROCESSES FORM PUTS. FORM: all_reduce, switch_all_reduce (by multimem),
permute or kernel_permute; whole_permute, in the form for CUDA graphs, is always a kernel.
"""

from __future__ import annotations

import ctypes
import os
import signal
import sys

import numpy as np
from gpu_check.cuda import Cuda, CudaError
from job_process import PROCESS, PROCESSES, job_topology, meet, report, start_job

from xla_shmem import _core

_ELEMENTS = 1000


def main() -> None:
    form, puts = sys.argv[3:]
    reduce = "multimem" if form == "switch_all_reduce" else "kernel"
    permute = "kernel" if "kernel" in form else "copies"
    whole = form.startswith("whole")
    topology = job_topology(start_job(deadline=3.0, gpu_puts=puts, gpu_permute=permute, gpu_reduce=reduce))
    assert topology.transport.available, topology.transport.reason
    meet("up")
    if PROCESS == PROCESSES - 1:
        os.kill(os.getpid(), signal.SIGKILL)
    cuda = Cuda(PROCESS)
    stream, size = cuda.stream(), 4 * _ELEMENTS
    operand, result = cuda.upload(np.full(_ELEMENTS, 7, np.float32)), cuda.allocate(size)
    seen = _pinned(cuda, size)
    seen[:] = 3

    def start(operation: int) -> None:
        if form.endswith("all_reduce"):
            everybody = list(range(PROCESSES))
            _core.gpu_all_reduce(operation, "sum", "f32", everybody, [operand], [result], [size], stream, False)
        else:
            source, target = (PROCESS - 1) % PROCESSES, (PROCESS + 1) % PROCESSES
            _core.gpu_permute(operation, source, target, [operand], [result], [size], stream, whole)

    start(1)
    if not whole:
        _core.gpu_done(1, stream)
    cuda.copy(seen.ctypes.data, result, size, stream)
    told = {"synchronize": "", "next": ""}
    try:
        cuda.synchronize(stream)
    except CudaError as error:
        told["synchronize"] = str(error)
    try:
        start(2)
    except RuntimeError as refusal:
        told["next"] = str(refusal)
    report(told | {"seen": sorted({float(value) for value in seen})})


def _pinned(cuda: Cuda, size: int) -> np.ndarray:
    """Returns floats in host memory that the GPU copies to without the host."""
    memory = ctypes.c_void_p()
    cuda("cuMemHostAlloc", ctypes.byref(memory), ctypes.c_size_t(size), 0)
    return np.ctypeslib.as_array(ctypes.cast(memory, ctypes.POINTER(ctypes.c_float)), (size // 4,))


main()
