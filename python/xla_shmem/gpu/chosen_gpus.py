"""The GPUs that CUDA shows, and whether a measurement runs on them."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from pathlib import Path

from xla_shmem.errors import BenchError
from xla_shmem.gpu.cuda_driver import same_bus_id_form, visible_gpus
from xla_shmem.gpu.nvml import EMULATED_GPU, read_driver

#: Values of `--platform`.
PLATFORMS = ("auto", "cpu", "gpu")

_NVIDIA_GPUS = Path("/proc/driver/nvidia/gpus")


@dataclasses.dataclass(frozen=True)
class Gpus:
    """The GPUs that CUDA shows.

    Attributes:
      names: in CUDA's order.
      driver: version of the kernel driver.
    """

    names: tuple[str, ...]
    driver: str

    @property
    def emulated(self) -> bool:
        """Whether there is no hardware behind them; then times mean nothing."""
        return EMULATED_GPU in self.names

    def __str__(self) -> str:
        counts = (f"{self.names.count(name)} × {name}" for name in dict.fromkeys(self.names))
        return f"{', '.join(counts)}, driver {self.driver}"


def local_gpu_count() -> int:
    """Returns the number of NVIDIA GPUs that the driver shows, 0 without a driver."""
    return len(list(_NVIDIA_GPUS.iterdir())) if _NVIDIA_GPUS.is_dir() else 0


def read_gpus() -> Gpus:
    """Returns the GPUs that CUDA shows this process.

    Raises:
      BenchError: there is none.
    """
    driver, visible = read_driver(), visible_gpus()
    if error := driver.error or visible.error:
        raise BenchError(f"--platform gpu: {error}.")
    names = {same_bus_id_form(gpu.bus_id): gpu.name for gpu in driver.gpus}
    found = tuple(names.get(same_bus_id_form(bus_id), "unknown GPU") for bus_id in visible.bus_ids)
    if not found:
        raise BenchError("--platform gpu: the driver shows no GPU to CUDA; look at CUDA_VISIBLE_DEVICES.")
    return Gpus(found, driver.version)


def chosen_gpus(platform: str, processes: int, environ: Mapping[str, str]) -> Gpus | None:
    """Returns the GPUs to measure on; None for the CPU.

    Args:
      platform: one of `PLATFORMS`. ``auto`` follows the first name in `JAX_PLATFORMS`; without that it means the GPUs
        if there is one for each process.

    Raises:
      BenchError: there are not enough GPUs.
    """
    if platform == "auto":
        first = environ.get("JAX_PLATFORMS", "").split(",")[0]
        enough = 0 < processes <= local_gpu_count()
        platform = "gpu" if first in ("cuda", "gpu") or (not first and enough) else "cpu"
    if platform == "cpu":
        return None
    gpus = read_gpus()
    if 1 < len(gpus.names) < processes:
        raise BenchError(
            f"{processes} ranks need as many GPUs, and CUDA shows {len(gpus.names)}. To let all ranks share "
            "one, set CUDA_VISIBLE_DEVICES to it."
        )
    return gpus
