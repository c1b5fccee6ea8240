"""The environment of a process that has JAX's CUDA plugin, but no GPU and no driver."""

from __future__ import annotations

import os
from collections.abc import Iterable
from pathlib import Path

_TOOLS = Path(__file__).parents[1]


def compile_environment(wheels: Path, flags: Iterable[str]) -> dict[str, str]:
    """This process's environment, changed for a process that compiles for GPUs.

    Args:
      wheels: folder in which `scripts/setup_gpu_aot.sh` installed the plugin, ptxas and libdevice.
      flags: XLA_FLAGS of the new process.
    """
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("JAX_", "XLA_"))}
    return kept | {
        "CUDA_ROOT": str(wheels / "nvidia/cu13"),  # ptxas and libdevice
        "JAX_PLATFORMS": "cpu",
        "JAX_SKIP_CUDA_CONSTRAINTS_CHECK": "1",
        "PYTHONPATH": os.pathsep.join([str(wheels), str(_TOOLS), *filter(None, [os.environ.get("PYTHONPATH")])]),
        "TF_CPP_MIN_LOG_LEVEL": "1",
        "XLA_FLAGS": " ".join(flags),
    }
