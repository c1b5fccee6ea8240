"""One process of a job on the doubles: its GpuJob, its GPU, and calls of the handlers in the way of XLA."""

from __future__ import annotations

import ctypes
import dataclasses
import json
import os
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import handler_caller
import numpy as np
from file_store import FileStore
from operations import Operation

from xla_shmem import _core
from xla_shmem.gpu.process_facts import ProcessFacts
from xla_shmem.options import resolve
from xla_shmem.runtime.gpu_job import GpuJob, Runtime
from xla_shmem.runtime.job_topology import JobTopology

DIRECTORY = Path(os.environ["JOB_DIRECTORY"])
PROCESS, PROCESSES = int(sys.argv[1]), int(sys.argv[2])
STORE = FileStore(DIRECTORY / "notes")


def report(value: Any) -> None:
    """Writes this process's report for the test."""
    (DIRECTORY / f"report.{PROCESS}").write_text(json.dumps(value))


class DoubledRuntime(Runtime):
    """The real runtime on doubled libraries. The double has its own kernels and ignores the image."""

    def __init__(self, facts: ProcessFacts | None = None) -> None:
        if facts is not None:
            self.facts = lambda ordinals: facts  # type: ignore[method-assign,assignment]

    def compile(self, compute_capability: tuple[int, int], cuda: int) -> bytes:
        assert (compute_capability, cuda) == ((9, 0), 13)
        return b"kernels.cu\0"


def meet(where: str) -> None:
    """Waits until all processes have called this, so that short time limits do not include a slow start."""
    STORE.set(f"{where}.{PROCESS}", "")
    for process in range(PROCESSES):
        STORE.wait(f"{where}.{process}")


def start_job(
    ordinals: Sequence[int] | None = None, facts: ProcessFacts | None = None, timeout_s: float = 20, **changed: Any
) -> GpuJob:
    """Starts the GPU job of this process, by default on GPU number PROCESS.

    Args:
      facts: what it says of its GPUs; None asks the driver.
      changed: options by name, past their limits.
    """
    options = dataclasses.replace(resolve(), **{"heap_size": 512 << 10} | changed)
    job = GpuJob(options, STORE, PROCESS, PROCESSES, DoubledRuntime(facts), timeout_s)
    job.start([PROCESS] if ordinals is None else ordinals, cuda=13)
    return job


def job_topology(job: GpuJob, gpus_of: Sequence[int] | None = None) -> JobTopology:
    """Returns the topology of a job whose processes have so many GPUs, by default one each."""
    counts = gpus_of or [1] * PROCESSES
    processes = [process for process, count in enumerate(counts) for _ in range(count)]
    # As JAX may number them: ids are not in the order of processes.
    return job.topology(
        [SimpleNamespace(id=100 - index, process_index=process) for index, process in enumerate(processes)]
    )


_NOT_READY = 600  # CUDA_ERROR_NOT_READY


class GpuError(RuntimeError):
    """A driver call failed with a code."""

    def __init__(self, call: str, code: int) -> None:
        super().__init__(f"{call} failed with {code}")
        self.code = code


class Gpu:
    """XLA's side of this process's GPU: one stream, through the driver's C calls."""

    def __init__(self, ordinal: int) -> None:
        self._cuda = ctypes.CDLL("libcuda.so.1")
        context, stream = ctypes.c_void_p(), ctypes.c_void_p()
        self._call("cuDevicePrimaryCtxRetain", ctypes.byref(context), ordinal)
        self._call("cuCtxPushCurrent_v2", context)
        self._call("cuStreamCreateWithPriority", ctypes.byref(stream), 1, 0)
        # XLA has the context current only inside its own calls.
        self._context = context
        self._call("cuCtxPopCurrent_v2", ctypes.byref(ctypes.c_void_p()))
        self._stream = stream
        self.stream = int(stream.value or 0)

    def copy(self, target: np.ndarray, source: np.ndarray) -> None:
        """Enqueues a copy."""
        address = [ctypes.c_uint64(array.ctypes.data) for array in (target, source)]
        self._in_context("cuMemcpyAsync", *address, ctypes.c_size_t(source.nbytes), self._stream)

    def fill(self, target: np.ndarray, byte: int) -> None:
        """Enqueues a fill."""
        address = ctypes.c_uint64(target.ctypes.data)
        self._in_context("cuMemsetD8Async", address, ctypes.c_ubyte(byte), ctypes.c_size_t(target.nbytes), self._stream)

    def synchronize(self, seconds: float = 20) -> None:
        """Waits for all enqueued commands.

        Raises:
          GpuError: the GPU reports an error.
          TimeoutError: it takes longer.
        """
        event = ctypes.c_void_p()
        self._in_context("cuEventCreate", ctypes.byref(event), 2)
        self._in_context("cuEventRecord", event, self._stream)
        deadline = time.monotonic() + seconds
        while not self._reached(event):
            if time.monotonic() > deadline:
                raise TimeoutError("the GPU is still at work")
            time.sleep(0.0005)

    def context_flags(self) -> int:
        """Returns the flags of the context."""
        flags = ctypes.c_uint(0)
        self._in_context("cuCtxGetFlags", ctypes.byref(flags))
        return flags.value

    def _reached(self, event: ctypes.c_void_p) -> bool:
        try:
            self._in_context("cuEventQuery", event)
        except GpuError as error:
            if error.code == _NOT_READY:
                return False
            raise
        return True

    def _in_context(self, call: str, *arguments: Any) -> None:
        self._call("cuCtxPushCurrent_v2", self._context)
        try:
            self._call(call, *arguments)
        finally:
            self._call("cuCtxPopCurrent_v2", ctypes.byref(ctypes.c_void_p()))

    def _call(self, call: str, *arguments: Any) -> None:
        if (code := getattr(self._cuda, call)(*arguments)) != 0:
            raise GpuError(call, code)


def _described(array: np.ndarray) -> tuple[int, str, list[int]]:
    return array.ctypes.data, array.dtype.name, list(array.shape)


class Executable:
    """Calls operations of one loaded program in the way of XLA."""

    def __init__(self, gpu: Gpu) -> None:
        self._gpu = gpu
        self._handlers = _core.cuda_handlers()

    def instantiate(self, operation: Operation) -> None:
        """Instantiates every call of the operation, as XLA does when it loads the executable."""
        for target in self._targets(operation):
            handler_caller.instantiate(self._handlers[target]["instantiate"], operation.attributes)

    def start(
        self, operation: Operation, operands: Sequence[np.ndarray], results: Sequence[np.ndarray], run: int = 1
    ) -> None:
        self._execute(self._targets(operation)[0], operation, operands, results, run)

    def done(
        self, operation: Operation, operands: Sequence[np.ndarray], results: Sequence[np.ndarray], run: int = 1
    ) -> None:
        self._execute(self._targets(operation)[1], operation, [*results, *operands], results, run)

    def self_joined(
        self, operation: Operation, operands: Sequence[np.ndarray], results: Sequence[np.ndarray], run: int = 1
    ) -> None:
        self._execute(self._targets(operation)[2], operation, operands, results, run)

    def _targets(self, operation: Operation) -> list[str]:
        if operation.is_permute:
            return ["xla_shmem.permute_start", "xla_shmem.permute_done", "xla_shmem.collective_permute"]
        return ["xla_shmem.all_reduce_start", "xla_shmem.all_reduce_done", "xla_shmem.all_reduce"]

    def _execute(
        self,
        target: str,
        operation: Operation,
        operands: Sequence[np.ndarray],
        results: Sequence[np.ndarray],
        run: int,
    ) -> None:
        handler_caller.execute(
            self._handlers[target]["execute"],
            operation.attributes,
            [_described(array) for array in operands],
            [_described(array) for array in results],
            self._gpu.stream,
            run,
        )
