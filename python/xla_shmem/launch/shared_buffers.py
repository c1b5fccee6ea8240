"""Large buffers of ranks in memory that their peers map, by a library that is loaded before all others.

XLA:CPU takes arrays from ``posix_memalign``. The library serves these calls from a file in memory
(xla_patch/preload/posix_memalign.cc). Other ranks read it by plain loads, without a system call, and runs find the
pages of the runs before.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from xla_shmem.gpu.chosen_gpus import local_gpu_count

#: The library.
LIBRARY = Path(__file__).parents[1] / "libxla_shmem_preload.so"

_VARIABLE = "LD_PRELOAD"


def shared_buffer_variables(environ: Mapping[str, str], library: Path = LIBRARY) -> dict[str, str]:
    """Returns the variables that give a process shared buffers; none if its arrays lie on GPUs, or the user chose.

    Args:
      environ: the process's environment. A given ``LD_PRELOAD``, also an empty one, stays as it is, and
        ``XLA_SHMEM_SINGLE_COPY=off`` leaves nothing to read.
      library: the library. A path with a space or a colon cannot be preloaded.
    """
    platforms = environ.get("JAX_PLATFORMS", "")
    on_cpu = platforms.split(",")[0] == "cpu" if platforms else local_gpu_count() == 0
    is_chosen = _VARIABLE in environ or environ.get("XLA_SHMEM_SINGLE_COPY") == "off"
    if is_chosen or not on_cpu or not library.exists() or set(str(library)) & set(" :"):
        return {}
    return {_VARIABLE: str(library)}
