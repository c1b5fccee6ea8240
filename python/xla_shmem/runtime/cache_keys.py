"""What our decisions add to the keys of JAX's persistent compilation cache."""

from __future__ import annotations

import functools
import hashlib
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

#: The variables that decide what a patched XLA:GPU compiles. The table of options says the same, but it is in the
#: compiled module, which a process with a patched XLA:GPU does not need.
PATCHED_XLA_VARIABLES = (
    "XLA_SHMEM_PROFILE",
    "XLA_SHMEM_THRESHOLD",
    "XLA_SHMEM_OPS",
    "XLA_SHMEM_NVLINK_DOMAIN",
    "XLA_SHMEM_HIERARCHICAL",
    "XLA_SHMEM_BACKENDS",
)


def patched_xla_salt(device_platform: str) -> str:
    """Returns all that a patched XLA:GPU decides by, besides the module and its devices; "" for other platforms.

    Texts, not values: a wrong one gets a key of its own too, so XLA compiles and reports it.
    """
    from xla_shmem.version import __version__

    if device_platform != "gpu":
        return ""
    options = " ".join(f"{name}={os.environ.get(name, '')}" for name in PATCHED_XLA_VARIABLES)
    return f"xla_shmem {__version__} in XLA {options} {_hash_of_table()}"


def _hash_of_table() -> str:
    """Returns a hash of the tuning table; "" without one, which XLA reports."""
    from xla_shmem.options import tuning_table

    if os.environ.get("XLA_SHMEM_PROFILE", "").strip().lower() != "tuned":
        return ""
    path = Path(os.environ.get("XLA_SHMEM_TUNING") or tuning_table.default_path(os.environ))
    try:
        return hashlib.sha256(path.read_bytes()).hexdigest()
    except OSError:
        return ""


def salt_cache_keys(text: Callable[[str], str]) -> None:
    """Adds `text(platform)` and the ordered device ids to every key of JAX's persistent compilation cache.

    A rewritten executable depends on the transform and, through its PE numbers, on the device assignment. JAX's key has
    neither for GPU, and no transform for CPU. Without the additions, a run with another order of devices, other
    options, or without the flag would load the wrong executable.

    Args:
      text: called with the platform of the module's devices, "cpu" or "gpu" as JAX names it; "" leaves a key unchanged.
    """
    from jax._src import cache_key

    original = cache_key.get

    @functools.wraps(original)
    def get(module: Any, devices: Any, *args: Any, **kwargs: Any) -> str:
        key = original(module, devices, *args, **kwargs)
        extra = text(devices.flat[0].platform)
        if not extra:
            return key
        ids = ",".join(str(device.id) for device in devices.flat)
        return f"{key}-{hashlib.sha256(f'{extra};{ids}'.encode()).hexdigest()[:16]}"

    cache_key.get = get
