"""Fingerprint of measured times: machine, versions, and options that change the transport; one for each platform.

A table is used only where the fingerprint is equal. Kernel, load, memory, binding and the number of processes are in
the table, but not in the fingerprint: they change times, and seldom the order of two backends. docs/bench.md lists
them.
"""

from __future__ import annotations

import importlib.metadata
import os
from collections.abc import Mapping

from xla_shmem.gpu.jax_plugin import distribution_version
from xla_shmem.gpu.nvml import read_driver
from xla_shmem.machine import cpu_collectives, cpu_model
from xla_shmem.options.table import TABLE

_PACKAGES = ("xla-shmem", "jax", "jaxlib")

#: Wheels that carry collectives between GPUs, or compile for them. One that is not installed is left out.
_GPU_PACKAGES = tuple(
    name.format(cuda=cuda)
    for cuda in (12, 13)
    for name in ("jax-cuda{cuda}-plugin", "jax-cuda{cuda}-pjrt", "nvidia-nccl-cu{cuda}", "nvidia-nvshmem-cu{cuda}")
)

#: Options of the transport of each platform, by field of `Options`; the fingerprint names their variables.
SETTINGS = {
    "cpu": tuple(name for name, option in TABLE.items() if option.changes_times and option.on_cpu),
    "gpu": tuple(name for name, option in TABLE.items() if option.changes_times and option.on_gpu),
}


def fingerprint(settings: Mapping[str, object], platform: str) -> dict[str, str]:
    """Returns the fingerprint of this machine and process.

    Args:
      settings: the values of `SETTINGS` in force; None stands for ``auto``.
      platform: ``cpu`` or ``gpu``: where the times were measured.
    """
    return {
        **(_gpus() if platform == "gpu" else _processors()),
        **{name: importlib.metadata.version(name) for name in _PACKAGES},
        **{TABLE[name].env: _text(settings[name]) for name in SETTINGS[platform]},
    }


def _processors() -> dict[str, str]:
    # All processors, not those this process may run on: binding differs between jobs.
    return {"CPU": cpu_model(), "processors": str(os.cpu_count()), "JAX's CPU collectives": cpu_collectives()}


def _gpus() -> dict[str, str]:
    """All GPUs of the machine, not those that CUDA shows this process."""
    driver = read_driver()
    versions = {name: version for name in _GPU_PACKAGES if (version := distribution_version(name)) is not None}
    names = ", ".join(dict.fromkeys(gpu.name for gpu in driver.gpus))
    return {"GPU": names or "none", "driver": driver.version or "none", **versions}


def difference(measured: Mapping[str, str], here: Mapping[str, str]) -> str:
    """Returns how two fingerprints differ, in one clause; "" if they are equal."""
    names = [name for name in {**here, **measured} if measured.get(name) != here.get(name)]
    there = ", ".join(f"{name} {measured.get(name, 'unknown')}" for name in names)
    now = ", ".join(f"{name} {here.get(name, 'unknown')}" for name in names)
    return f"was measured with {there}; here is {now}" if names else ""


def _text(value: object) -> str:
    return "auto" if value is None else str(value)
