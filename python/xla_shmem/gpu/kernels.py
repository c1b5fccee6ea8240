"""Compiles the device code for this machine's GPU with NVIDIA's run-time compiler (xla_patch/nvshmem/gpu/nvrtc.h)."""

from __future__ import annotations

import os
from collections.abc import Sequence

from xla_shmem import _core
from xla_shmem.gpu.kernel_cache import cache_folder, cached_image, image_name


class KernelError(RuntimeError):
    """The device code was not compiled; the message says why and what to install."""


def load_kernels(compute_capability: tuple[int, int], nvrtc_candidates: Sequence[str]) -> bytes:
    """Returns what :func:`compile_kernels` does, compiled now or for an earlier job."""
    name = image_name(_core.kernel_source(), compute_capability, nvrtc_candidates)
    return cached_image(cache_folder(os.environ), name, lambda: compile_kernels(compute_capability, nvrtc_candidates))


def compile_kernels(compute_capability: tuple[int, int], nvrtc_candidates: Sequence[str]) -> bytes:
    """Returns an image of xla-shmem's own kernels; arguments and errors as of :func:`compile_source`."""
    return compile_source(_core.kernel_source(), compute_capability, nvrtc_candidates)


def compile_source(source: str, compute_capability: tuple[int, int], nvrtc_candidates: Sequence[str]) -> bytes:
    """Returns an image that the CUDA driver loads.

    Args:
      source: CUDA C++ without includes.
      compute_capability: the GPU's, such as ``(9, 0)``.
      nvrtc_candidates: paths or sonames of libnvrtc, in the order to try.

    Raises:
      KernelError: none of the libraries opens, or the compiler refuses.
    """
    try:
        return _core.gpu_compile(source, compute_capability, list(nvrtc_candidates))
    except RuntimeError as failure:
        raise KernelError(str(failure)) from None
