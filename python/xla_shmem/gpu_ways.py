"""Which ways of running a collective the pass can choose for each one, by the release of XLA:GPU.

Source: tests/gpu_aot/test_chosen_ways.py, which asks the compiler of each release.
"""

from __future__ import annotations

from jax import __version_info__

#: By the first release that honours them: a mode of an all-gather; and taking a collective out of a fusion, which
#: earlier releases do not make.
_SETTABLE = {(0, 10, 2): "one-sided", (0, 12): "nccl"}


def settable(platform: str) -> tuple[str, ...]:
    """Returns the words of ``XLA_SHMEM_BACKENDS`` that the pass can choose, besides ``nvshmem``.

    Args:
      platform: ``"cpu"`` or ``"gpu"``.
    """
    return tuple(way for release, way in _SETTABLE.items() if platform == "gpu" and __version_info__ >= release)
