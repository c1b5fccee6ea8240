"""The settings with which NVSHMEM starts.

NVSHMEM reads its environment once: PE 0 in ``nvshmemx_get_uniqueid``, the other PEs in their init. PEs with different
settings lay out their heaps differently, and no error tells. So every process sets the same values before the unique id
is made. A value that the user has set stays; one that differs between processes is refused before any start. The values
are in xla_patch/nvshmem/gpu/bootstrap.cc, where a patched jaxlib finds them too.
"""

from __future__ import annotations

from collections.abc import Mapping, MutableMapping

from xla_shmem import _core


def world_settings(symmetric_bytes: int, hosts: int, multimem: bool = False) -> dict[str, str]:
    """Returns the settings of an NVSHMEM world. Equal arguments give equal settings.

    Args:
      symmetric_bytes: bytes that xla-shmem allocates on each PE.
      hosts: hosts of the world.
      multimem: whether NVSHMEM is to make multicast memory.
    """
    return _core.nvshmem_world_settings(symmetric_bytes, hosts, multimem)


def apply(settings: Mapping[str, str], environ: MutableMapping[str, str]) -> None:
    """Sets the variables that the user has not set."""
    for name, value in settings.items():
        environ.setdefault(name, value)


def heap_bytes(settings: Mapping[str, str], environ: Mapping[str, str]) -> int:
    """Returns how much memory NVSHMEM's heap will take on each PE.

    Args:
      settings: of :func:`world_settings`.
      environ: in which the user may have chosen other steps. Their size is then unknown, and not counted.
    """
    return _core.nvshmem_heap_bytes(dict(settings), "NVSHMEM_CUMEM_GRANULARITY" in environ)


def chosen_by_user(environ: Mapping[str, str]) -> str:
    """Returns the variables that the user has set and that must be equal in all processes, "" for none."""
    return _core.nvshmem_chosen_by_user(dict(environ))
