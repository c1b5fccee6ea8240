"""This rank as a PE without XLA: starts the runtime of `xla_shmem._core` in the same way as a job."""

from __future__ import annotations

import os
from collections.abc import Sequence

from gpu_check import device_code, exchange, records
from gpu_check.cuda import Cuda
from xla_shmem import _core
from xla_shmem.gpu import libraries
from xla_shmem.gpu.kernels import compile_kernels
from xla_shmem.runtime import nvshmem_settings

_DEADLINE_S = 20.0


class World:
    """The PEs of this section and the GPU of this one.

    Attributes:
      pe, n: this PE and how many there are.
      shared: whether PEs share a GPU.
      stream: in the place of the stream on which XLA computes.
    """

    def __init__(self, puts: str = "driver", symmetric: int = 0) -> None:
        """Starts the runtime.

        Args:
          puts: "driver", the default of XLA_SHMEM_GPU_PUTS, or "nvshmem".
          symmetric: bytes that can be allocated besides the arena.
        """
        self.pe, self.n = exchange.rank(), exchange.ranks()
        self.shared = os.environ.get("GPU_CHECK_SHARED") == "1"
        ordinal = 0 if self.shared else self.pe
        self.cuda = Cuda(ordinal)
        arena = _core.gpu_arena_bytes(self.n)
        settings = nvshmem_settings.world_settings(arena + symmetric, hosts=1)
        nvshmem_settings.apply(settings, os.environ)
        search = libraries.nvshmem(device_code.cuda_release(), os.environ.get("XLA_SHMEM_NVSHMEM_LIBRARY"))
        found = _core.gpu_open(search.paths, ordinal, puts=puts)
        if found["nvshmem_error"]:
            raise RuntimeError(found["nvshmem_error"])
        _core.gpu_load_kernels(compile_kernels(self.cuda.compute_capability, device_code.nvrtc_candidates()))
        if self.pe == 0:
            records.fact("NVSHMEM", f"{found['nvshmem_version']}, {found['nvshmem_path']}")
            exchange.put("unique-id", _core.gpu_unique_id())
        _core.gpu_start(
            pe=self.pe,
            n_pes=self.n,
            unique_id=exchange.get("unique-id"),
            arena_bytes=arena,
            puts=puts,
            deadline_s=_DEADLINE_S,
            permute="auto" if found["can_copy_permutes"] else "kernel",
        )
        if self.pe == 0:
            records.row("World", PEs=self.n, puts=puts, **{"shared GPU": "yes" if self.shared else "no"})
        self.stream = self.cuda.stream()
        self._operations = 0
        # No PE may put before all have started.
        exchange.barrier()

    def operation(self) -> int:
        """Returns a new operation number: PEs that have called this equally often get equal numbers."""
        self._operations += 1
        return self._operations

    def ring(self, step: int = 1) -> tuple[int, int]:
        """Returns source and target of this PE in a ring."""
        return (self.pe - step) % self.n, (self.pe + step) % self.n

    def permute(
        self,
        neighbours: tuple[int, int],
        operands: Sequence[int],
        results: Sequence[int],
        sizes: Sequence[int],
        whole: bool = False,
        stream: int | None = None,
    ) -> int:
        """Enqueues a permute's start, or all of it; returns its operation."""
        operation = self.operation()
        stream = self.stream if stream is None else stream
        _core.gpu_permute(operation, *neighbours, operands, results, sizes, stream, whole)
        return operation

    def all_reduce(
        self,
        kind: str,
        dtype: str,
        group: Sequence[int],
        operand: int,
        result: int,
        size: int,
        whole: bool = False,
    ) -> int:
        """Enqueues an all-reduce's start, or all of it; returns its operation."""
        operation = self.operation()
        _core.gpu_all_reduce(operation, kind, dtype, list(group), [operand], [result], [size], self.stream, whole)
        return operation

    def done(self, operation: int) -> None:
        """Joins a transfer."""
        _core.gpu_done(operation, self.stream)

    def finish(self) -> None:
        """Waits until this PE's stream is idle and all PEs have called this."""
        self.cuda.synchronize(self.stream)
        exchange.barrier()
