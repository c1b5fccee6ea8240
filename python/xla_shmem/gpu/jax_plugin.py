"""JAX's CUDA plugin as it is installed, and what this process will use it for."""

from __future__ import annotations

import importlib.metadata
from dataclasses import dataclass


@dataclass(frozen=True)
class CudaPlugin:
    """JAX's plugin for one CUDA release.

    Attributes:
      cuda: 12 or 13.
      version: of ``jax-cuda<N>-plugin``.
      pjrt: of ``jax-cuda<N>-pjrt``, which holds the compiler; None if missing.
    """

    cuda: int
    version: str
    pjrt: str | None


def distribution_version(distribution: str) -> str | None:
    """Returns the version of an installed package, None if it is missing."""
    try:
        return importlib.metadata.version(distribution)
    except importlib.metadata.PackageNotFoundError:
        return None


def installed_plugins() -> list[CudaPlugin]:
    """Returns the installed plugins in the order JAX tries them."""
    return [
        CudaPlugin(cuda, version, distribution_version(f"jax-cuda{cuda}-pjrt"))
        for cuda in (13, 12)
        if (version := distribution_version(f"jax-cuda{cuda}-plugin")) is not None
    ]


def wanted_cuda() -> int | None:
    """Returns the CUDA release of the plugin this process will run on, None if it will not use GPUs."""
    import jax

    platforms = jax.config.jax_platforms  # type: ignore[attr-defined]
    if platforms and not {"cuda", "gpu"} & set(platforms.split(",")):
        return None
    plugins = installed_plugins()
    return plugins[0].cuda if plugins else None


def local_ordinals() -> list[int] | None:
    """Returns the CUDA ordinals that JAX will use here (``local_device_ids``), None for all visible ones."""
    import jax

    chosen = jax.config.jax_cuda_visible_devices  # type: ignore[attr-defined]
    return None if chosen == "all" else [int(ordinal) for ordinal in str(chosen).split(",")]
