"""Compute that keeps all multiprocessors busy for a chosen time without memory traffic, to overlap with transfers."""

from __future__ import annotations

import ctypes

from gpu_check import device_code, records
from gpu_check.cuda import Cuda
from xla_shmem.gpu import kernels as product_kernels

# Chains of dependent multiply-adds: bound by arithmetic, like a large matmul. The condition of the store is never true,
# but the compiler cannot tell.
SOURCE = """
extern "C" __global__ void busy(float* out, long long turns) {
  float a = threadIdx.x, b = a + 1, c = a + 2, d = a + 3;
  for (long long i = 0; i < turns; ++i) {
    a = a * 1.0001f + 0.5f;
    b = b * 1.0001f + 0.5f;
    c = c * 1.0001f + 0.5f;
    d = d * 1.0001f + 0.5f;
  }
  if (a + b + c + d == -1.0f) *out = a;
}
"""
_BLOCK = 256
_BLOCKS_A_MULTIPROCESSOR = 4


class Compute:
    """A kernel of a chosen duration."""

    def __init__(self, cuda: Cuda) -> None:
        self._cuda = cuda
        # An emulated GPU has no multiprocessors to keep busy: one thread takes time.
        self._grid, self._block = (
            (1, 1) if records.emulated() else (cuda.multiprocessors * _BLOCKS_A_MULTIPROCESSOR, _BLOCK)
        )
        image = product_kernels.compile_source(SOURCE, cuda.compute_capability, device_code.nvrtc_candidates())
        self._function = cuda.function(cuda.load(image), "busy")
        self._out = cuda.allocate(16)
        self._turns_a_second = self._calibrate()

    def enqueue(self, stream: int, turns: int) -> None:
        """Enqueues one run."""
        self._cuda.launch(
            self._function, self._grid, self._block, stream, ctypes.c_uint64(self._out), ctypes.c_longlong(turns)
        )

    def turns_of(self, seconds: float) -> int:
        """Returns the turns of the loop that take this long."""
        return max(1, int(seconds * self._turns_a_second))

    def _calibrate(self) -> float:
        stream, turns = self._cuda.stream(), 1_000 if records.emulated() else 200_000
        for _ in range(2):  # the first run raises the GPU's clocks
            begin = self._cuda.event(stream)
            self.enqueue(stream, turns)
            end = self._cuda.event(stream)
            self._cuda.synchronize(stream)
        return turns / self._cuda.seconds(begin, end)
