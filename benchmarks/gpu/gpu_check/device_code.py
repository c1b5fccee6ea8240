"""Compiles device code for this machine's GPU in the same way as the package."""

from __future__ import annotations

from xla_shmem import _core
from xla_shmem.gpu import libraries
from xla_shmem.gpu.jax_plugin import installed_plugins
from xla_shmem.gpu.kernels import compile_source


def cuda_release() -> int:
    """Returns 12 or 13: the CUDA release of JAX's plugin, 13 without a plugin."""
    plugins = installed_plugins()
    return plugins[0].cuda if plugins else 13


def nvrtc_candidates() -> list[str]:
    """Returns the paths at which NVRTC may be."""
    return libraries.nvrtc(cuda_release()).paths


def with_source(compute_capability: tuple[int, int], source: str) -> bytes:
    """Returns an image of the package's device code with `source` behind it."""
    return compile_source(_core.kernel_source() + source, compute_capability, nvrtc_candidates())
