"""Facts that belong to every table of times: machine, versions, load and date."""

from __future__ import annotations

import datetime
import importlib.metadata
import os
import platform
from pathlib import Path
from typing import Any

#: Prefixes of variables that change measurements. Not the path of a library: reports are passed on.
_SETTINGS = ("XLA_", "JAX_", "OMPI_MCA_", "NPROC")


def describe_machine() -> dict[str, Any]:
    """Returns the facts, as JSON reports contain them."""
    return {
        "date": datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"),
        "cpu": cpu_model(),
        "cores": len(os.sched_getaffinity(0)),
        "memory_gib": round(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30),
        "kernel": platform.release(),
        "environment": {name: value for name, value in sorted(os.environ.items()) if name.startswith(_SETTINGS)},
        "load": list(os.getloadavg()),
        "versions": {
            "xla-shmem": importlib.metadata.version("xla-shmem"),
            "jax": importlib.metadata.version("jax"),
            "jaxlib": importlib.metadata.version("jaxlib"),
            "Python": platform.python_version(),
        },
    }


def cpu_collectives() -> str:
    """Returns the name of JAX's default backend between CPU processes: ``gloo`` or ``mpi``."""
    import jax

    return str(jax.config.values["jax_cpu_collectives_implementation"])


def cpu_model() -> str:
    """Returns the kernel's name of the processor, or the architecture if it has none."""
    for line in Path("/proc/cpuinfo").read_text().splitlines():
        name, _, value = line.partition(":")
        if name.strip() == "model name":
            return value.strip()
    return platform.machine()
