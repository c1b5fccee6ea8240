"""The settings with which NVSHMEM starts.

NVSHMEM reads its environment once: PE 0 in ``nvshmemx_get_uniqueid``, the other PEs in their init. PEs with different
settings lay out their heaps differently, and no error tells. So every process sets the same values before the unique id
is made. A value that the user has set stays; one that differs between processes is refused before any start.
"""

from __future__ import annotations

from collections.abc import Mapping, MutableMapping

_MIB = 1 << 20

#: For NVSHMEM's teams, workspaces and alignment.
_OWN_BYTES = 64 * _MIB
#: NVSHMEM allocates its memory for all teams first, some 0.6 MiB for each team that may exist.
_TEAM_BYTES = _MIB
#: NVSHMEM's own teams, and some to spare.
_OWN_TEAMS = 16
#: With NVLink SHARP, NVSHMEM 3.5 and later make 15 duplicates of each of our teams and of three of its own.
_COPIES_OF_TEAM = 16
_OWN_TEAMS_WITH_COPIES = 3

#: The heap grows by this much unless NVSHMEM_CUMEM_GRANULARITY says otherwise.
_HEAP_STEP_BYTES = 512 * _MIB

#: Variables besides those of `world_settings` that decide where NVSHMEM puts its memory or how PEs work together.
_MUST_AGREE = (
    "NVSHMEM_CUMEM_GRANULARITY",
    "NVSHMEM_CUMEM_HANDLE_TYPE",
    "NVSHMEM_DISABLE_CUDA_VMM",
    "NVSHMEM_DISABLE_P2P",
    "NVSHMEM_ENABLE_ALIGNED_MALLOC",
    "NVSHMEM_G_BUF_SIZE",
    "NVSHMEM_HEAP_KIND",
    "NVSHMEM_MAX_CTAS",
    "NVSHMEM_MAX_MEMORY_PER_GPU",
    "NVSHMEM_REDUCE_ALGO",
    "NVSHMEM_REDUCE_NVLS_THRESHOLD",
    "NVSHMEM_REDUCE_SCRATCH_SIZE",
)


def world_settings(symmetric_bytes: int, hosts: int, team_forms: int | None) -> dict[str, str]:
    """Returns the settings of an NVSHMEM world. Equal arguments give equal settings.

    Args:
      symmetric_bytes: bytes that xla-shmem allocates on each PE.
      hosts: hosts of the world.
      team_forms: forms of replica groups that get teams (``_core.gpu_team_forms``); None without team reductions.
    """
    teams = _OWN_TEAMS
    if team_forms is not None:
        teams += _COPIES_OF_TEAM * (_OWN_TEAMS_WITH_COPIES + team_forms)
    settings = {
        "NVSHMEM_SYMMETRIC_SIZE": str(symmetric_bytes + _OWN_BYTES + teams * _TEAM_BYTES),
        "NVSHMEM_MAX_TEAMS": str(teams),
        # NVSHMEM's host reductions would run NCCL, which may be present in one process and missing in another.
        "NVSHMEM_DISABLE_NCCL": "1",
        # A world is one NVLink domain. Only remote transports need the proxy thread, which polls all the time.
        "NVSHMEM_REMOTE_TRANSPORT": "none",
        "NVSHMEM_DISABLE_LOCAL_ONLY_PROXY": "1",
    }
    if team_forms is None:
        # Multicast groups need a working fabric manager, and cannot have two PEs on one GPU.
        settings["NVSHMEM_DISABLE_NVLS"] = "1"
    if hosts == 1:
        # On GB200 NVSHMEM would allocate memory that other hosts can map, which the driver refuses without IMEX.
        settings["NVSHMEM_DISABLE_MNNVL"] = "1"
    return settings


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
    needed = int(settings["NVSHMEM_SYMMETRIC_SIZE"])
    if "NVSHMEM_CUMEM_GRANULARITY" in environ:
        return needed
    return -(-needed // _HEAP_STEP_BYTES) * _HEAP_STEP_BYTES


def chosen_by_user(environ: Mapping[str, str]) -> str:
    """Returns the variables that the user has set and that must be equal in all processes, "" for none."""
    names = sorted({*world_settings(0, 1, None), *_MUST_AGREE} & set(environ))
    return " ".join(f"{name}={environ[name]}" for name in names)
