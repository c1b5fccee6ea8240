"""The installed CUDA plugin of JAX, and whether and on which GPUs this process will use it."""

from __future__ import annotations

import importlib.metadata
import re
from dataclasses import dataclass

#: First release with the transform hook, in jaxlib and in the CUDA plugins.
OLDEST_JAX = (0, 10, 2)

#: In the local version of wheels whose XLA has NVSHMEM collectives built in: "0.10.2+xlashmem", set by
#: scripts/build_jaxlib.sh.
PATCHED_LABEL = "xlashmem"


@dataclass(frozen=True)
class CudaPlugin:
    """JAX's plugin for one CUDA release.

    Attributes:
      cuda: 12 or 13.
      version: version of ``jax-cuda<N>-plugin``.
      pjrt: version of ``jax-cuda<N>-pjrt``, which contains the compiler; None if missing.
    """

    cuda: int
    version: str
    pjrt: str | None


def required_jax() -> str:
    """Returns the releases of JAX that this package requires, as pip takes them: ``>=0.10.2,<=0.12.0.1``."""
    (required,) = [text for text in importlib.metadata.requires("xla-shmem") or () if re.match(r"jax[<=>]", text)]
    return ",".join(sorted(required.removeprefix("jax").split(","), reverse=True))


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


def why_too_old(plugin: CudaPlugin) -> str:
    """Returns why a plugin has no hook for the pass, "" if it has one."""
    if plugin.pjrt is None:
        return f"jax-cuda{plugin.cuda}-pjrt is missing beside jax-cuda{plugin.cuda}-plugin {plugin.version}"
    if release(plugin.pjrt) < OLDEST_JAX:
        oldest = ".".join(map(str, OLDEST_JAX))
        return f"jax-cuda{plugin.cuda}-pjrt {plugin.pjrt} has no hook for compiler passes: install {oldest} or newer"
    return ""


def has_native_pass(plugin: CudaPlugin) -> bool:
    """Returns whether the compiler of this plugin has the pass and the transfers built in (docs/patched-jaxlib.md)."""
    return PATCHED_LABEL in (plugin.pjrt or "").partition("+")[2].split(".")


def release(version: str | None) -> tuple[int, ...]:
    """Returns the leading numbers of a version, as JAX compares them."""
    match = re.match(r"\d+(?:\.\d+)*", version or "")
    return tuple(int(part) for part in match.group().split(".")) if match else ()


def wanted_plugin() -> CudaPlugin | None:
    """Returns the plugin that this process will use, None if it will not use GPUs."""
    import jax

    platforms = jax.config.jax_platforms
    if platforms and not {"cuda", "gpu"} & set(platforms.split(",")):
        return None
    plugins = installed_plugins()
    return plugins[0] if plugins else None


def wants_cpu() -> bool:
    """Returns whether this process will have devices on the CPU."""
    import jax

    platforms = jax.config.jax_platforms
    return not platforms or "cpu" in platforms.split(",")


def local_ordinals() -> list[int] | None:
    """Returns the CUDA ordinals that JAX will use in this process (``local_device_ids``), None for all visible ones."""
    from jax._src import xla_bridge

    chosen = xla_bridge.CUDA_VISIBLE_DEVICES.value
    return None if chosen == "all" else [int(ordinal) for ordinal in chosen.split(",")]
