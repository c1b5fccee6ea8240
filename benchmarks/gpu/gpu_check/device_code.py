"""Compiles device code for the GPU at hand, as the product does."""

from __future__ import annotations

from xla_shmem.gpu import libraries
from xla_shmem.gpu.jax_plugin import installed_plugins
from xla_shmem.gpu.kernels import compile_kernels


def cuda_release() -> int:
    """12 or 13: of JAX's plugin, or the newer one where there is none."""
    plugins = installed_plugins()
    return plugins[0].cuda if plugins else 13


def nvrtc_candidates() -> list[str]:
    """Where NVRTC may be."""
    return libraries.nvrtc(cuda_release()).paths


def reductions(compute_capability: tuple[int, int]) -> bytes:
    """An image of nvshmem/gpu/kernels.cu."""
    return compile_kernels(compute_capability, nvrtc_candidates())
