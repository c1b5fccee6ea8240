"""What a release of NVRTC makes of our device code. Users have any release from 12.1 on; each refuses other C++."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from xla_shmem import _core
from xla_shmem.gpu.kernels import compile_kernels, compile_source

sys.path.insert(0, str(Path(__file__).parents[2] / "benchmarks" / "gpu"))
from gpu_check import compute, kernels

KERNELS = (
    *("move", "move_packets", "reduce", "reduce_packets", "switch_reduction", "ragged_all_to_all"),
    *("send_message", "receive_message", "trap"),
)


@dataclass(frozen=True)
class Nvrtc:
    """One release.

    Attributes:
      paths: where it is, in the order to try.
      known: compute capabilities for which it makes machine code.
      newer: a capability for which it makes PTX of the newest that it knows.
      missing: kernels that it cannot compile.
    """

    paths: Sequence[str]
    known: tuple[tuple[int, int], ...] = ((7, 5), (8, 0), (9, 0), (10, 0))  # Turing to Blackwell
    newer: tuple[int, int] = (99, 0)
    missing: tuple[str, ...] = ()

    @cached_property
    def images(self) -> dict[tuple[int, int], bytes]:
        """The kernels for each capability."""
        capabilities = (*self.known, self.newer)
        with ThreadPoolExecutor() as pool:
            compiled = pool.map(lambda capability: compile_kernels(capability, self.paths), capabilities)
            return dict(zip(capabilities, compiled, strict=True))

    def check_machine_code(self) -> None:
        """Known GPUs get machine code of all kernels."""
        for major, minor in self.known:
            image = self.images[major, minor]
            assert image.startswith(b"\x7fELF")
            assert f"sm_{major}{minor}".encode() in image
            found = tuple(kernel for kernel in KERNELS if f"\0.text.{kernel}\0".encode() in image)
            assert found == tuple(kernel for kernel in KERNELS if kernel not in self.missing)

    def check_ptx(self) -> None:
        """A newer GPU gets PTX of all kernels."""
        image = self.images[self.newer]
        assert image.endswith(b"\0")  # the driver reads it as text
        found = tuple(kernel for kernel in KERNELS if f".visible .entry {kernel}(".encode() in image)
        assert found == tuple(kernel for kernel in KERNELS if kernel not in self.missing)

    def check_kernels_of_gpu_check(self) -> None:
        """Those that gpu_check puts behind ours, and its own."""
        image = compile_source(_core.kernel_source() + kernels.SOURCE + compute.SOURCE, self.newer, self.paths)
        assert b".visible .entry check_reduction(" in image
        assert b".visible .entry busy(" in image
