"""Additions to the keys of JAX's persistent compilation cache.

A rewritten executable depends on the transform and, through its PE numbers, on the device assignment. JAX's key has
neither for GPU, and no transform for CPU. Without the additions, a run with another order of devices, other options, or
without the flag would load the wrong executable.
"""

from __future__ import annotations

import functools
import hashlib
from collections.abc import Callable
from typing import Any


def salt(text: Callable[[str], str]) -> None:
    """Adds `text(platform)` and the ordered device ids to every cache key from now on; "" leaves keys unchanged.

    Args:
      text: called with the platform of the module's devices, "cpu" or "gpu" as JAX names it.
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
