"""Whether JAX has begun in this process. Importing this module does not import JAX."""

from __future__ import annotations

import sys


def has_begun() -> bool:
    """Returns whether JAX has looked for its plugins or has made a backend.

    It does both at the first computation, or when a program asks for devices. No plugin can join later, and its options
    are read then.
    """
    bridge = sys.modules.get("jax._src.xla_bridge")
    if bridge is None:
        return False
    return bool(getattr(bridge, "_plugins_registered", False) or bridge.backends_are_initialized())
