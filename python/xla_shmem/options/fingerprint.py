"""Fingerprint of measured times: machine, versions, and options that change the transport.

A table is used only where the fingerprint is equal. Kernel, load, memory, binding and the number of processes are in
the table, but not in the fingerprint: they change times, and seldom the order of two backends. docs/tune.md has a list.
"""

from __future__ import annotations

import importlib.metadata
import os
from collections.abc import Mapping

from xla_shmem.machine import cpu_model

_PACKAGES = ("xla-shmem", "jax", "jaxlib")

#: Options of the CPU transport, by field of `Options`; the fingerprint names their variables.
SETTINGS = ("heap_size", "single_copy", "spin_us")


def fingerprint(settings: Mapping[str, object]) -> dict[str, str]:
    """Returns the fingerprint of this machine and process.

    Args:
      settings: the values of `SETTINGS` in force; None stands for ``auto``.
    """
    return {
        "CPU": cpu_model(),
        # All processors, not those this process may run on: binding differs between jobs.
        "processors": str(os.cpu_count()),
        **{name: importlib.metadata.version(name) for name in _PACKAGES},
        **{f"XLA_SHMEM_{name.upper()}": _text(settings[name]) for name in SETTINGS},
    }


def difference(measured: Mapping[str, str], here: Mapping[str, str]) -> str:
    """Returns how two fingerprints differ, in one clause; "" if they are equal."""
    names = [name for name in {**here, **measured} if measured.get(name) != here.get(name)]
    there = ", ".join(f"{name} {measured.get(name, 'unknown')}" for name in names)
    now = ", ".join(f"{name} {here.get(name, 'unknown')}" for name in names)
    return f"was measured with {there}; here is {now}" if names else ""


def _text(value: object) -> str:
    return "auto" if value is None else str(value)
