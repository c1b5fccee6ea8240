"""Keep JAX's persistent compilation cache honest.

A transform is not part of JAX's cache key, and for GPU neither is the device assignment, although both are
baked into a rewritten executable (PE numbers). Without a salt another mesh order, other options, or a run
without the flag would load it.
"""

from __future__ import annotations

import functools
import hashlib
from collections.abc import Callable
from typing import Any


def salt(text: Callable[[], str]) -> None:
    """Mix `text()` and the ordered device ids into every cache key from now on; "" leaves keys as they are."""
    from jax._src import cache_key

    original = cache_key.get

    @functools.wraps(original)
    def get(module: Any, devices: Any, *args: Any, **kwargs: Any) -> str:
        key = original(module, devices, *args, **kwargs)
        extra = text()
        if not extra:
            return key
        ids = ",".join(str(device.id) for device in devices.flat)
        return f"{key}-{hashlib.sha256(f'{extra};{ids}'.encode()).hexdigest()[:16]}"

    cache_key.get = get
