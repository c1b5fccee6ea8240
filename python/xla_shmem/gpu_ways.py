"""Which ways of running a collective the pass can choose for each one, by the release of XLA:GPU.

Only what the compiler of a release was seen to honour (tests/gpu_aot/test_chosen_ways.py). Earlier releases make no
fusions of collectives, from which `nccl` takes them; their all-gathers have the mode of `one-sided`, untested.
"""

from __future__ import annotations

import importlib.metadata

_FIRST_RELEASE = (0, 12)


def settable(platform: str) -> tuple[str, ...]:
    """Returns the words of ``XLA_SHMEM_BACKENDS`` that the pass can choose, besides ``nvshmem``.

    Args:
      platform: ``"cpu"`` or ``"gpu"``.
    """
    major, minor = importlib.metadata.version("jax").split(".")[:2]
    return ("nccl", "one-sided") if platform == "gpu" and (int(major), int(minor)) >= _FIRST_RELEASE else ()
