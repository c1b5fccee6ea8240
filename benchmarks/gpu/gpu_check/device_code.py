"""Compiles device code for this machine's GPU in the same way as the package."""

from __future__ import annotations

from xla_shmem.gpu import libraries
from xla_shmem.gpu.jax_plugin import installed_plugins
from xla_shmem.gpu.kernels import compile_kernels


def cuda_release() -> int:
    """Returns 12 or 13: the CUDA release of JAX's plugin, 13 without a plugin."""
    plugins = installed_plugins()
    return plugins[0].cuda if plugins else 13


def nvrtc_candidates() -> list[str]:
    """Returns the paths at which NVRTC may be."""
    return libraries.nvrtc(cuda_release()).paths


def reductions(compute_capability: tuple[int, int]) -> bytes:
    """Returns an image of nvshmem/gpu/kernels.cu."""
    return compile_kernels(compute_capability, nvrtc_candidates())
