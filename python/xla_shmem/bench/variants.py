"""The variants of a benchmark: SHMEM, and what it is compared with.

A variant that needs other settings of a process than another one runs in a job of its own. All jobs run side by side
and take turns.
"""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from xla_shmem.bench import xla_flag_names
from xla_shmem.options.table import TABLE

if TYPE_CHECKING:
    from xla_shmem.bench.plan import Plan

#: In the variables of a variant: a folder that is removed when the jobs have ended.
_FOLDER = "{folder}"


@dataclasses.dataclass(frozen=True)
class Variant:
    """One way to run a collective.

    Attributes:
      name: as in `--vs`.
      what: what runs the collective, in words.
      platforms: where it exists, of ``cpu`` and ``gpu``.
      job: name of the job that runs it.
      carried: whether the pass must move the collective to SHMEM; None if the rules decide.
      flag: whether xla-shmem is on in its job.
      environ: variables of its job.
      xla: settings of XLA, ``name=value``; those that the installed release does not know are left out.
      one_process: whether one process has all devices of the job.
      ops: collectives in which it differs from another variant; empty for all.
      own_gpus: why it needs a GPU for each PE, "" if it does not.
      several_hosts: whether it differs from SHMEM only where groups cross hosts.
    """

    name: str
    what: str
    platforms: tuple[str, ...]
    job: str
    carried: bool | None
    flag: bool = True
    environ: tuple[tuple[str, str], ...] = ()
    xla: tuple[str, ...] = ()
    one_process: bool = False
    ops: tuple[str, ...] = ()
    own_gpus: str = ""
    several_hosts: bool = False

    def variables(self, folder: str) -> dict[str, str]:
        """Returns the variables of its job; `folder` is for files that nobody reads."""
        return {name: value.replace(_FOLDER, folder) for name, value in self.environ}

    def xla_flags(self) -> tuple[list[str], list[str]]:
        """Returns its settings of XLA as flags: those that the installed XLA knows, and the others."""
        known = _known(tuple(setting.partition("=")[0] for setting in self.xla))
        flags: tuple[list[str], list[str]] = [], []
        for setting in self.xla:
            flags[setting.partition("=")[0] not in known].append(f"--{setting}")
        return flags


@functools.cache
def _known(names: tuple[str, ...]) -> set[str]:
    return xla_flag_names.known(names)


_NCCL = "NCCL refuses two ranks on one GPU"

#: NCCL's fast paths. Registered buffers come from a pool of their own, which is empty by default.
_NCCL_FAST = (
    "xla_gpu_enable_nccl_user_buffers=true",
    "xla_gpu_experimental_enable_nccl_symmetric_buffers=true",
    "xla_gpu_collective_permute_connected_components=true",
    "xla_gpu_collective_permute_mode=symmetric",
    # On by default, and then XLA's own kernel may take NCCL's place.
    "xla_gpu_unsupported_use_ragged_all_to_all_one_shot_kernel=false",
)
_NCCL_POOL = (("XLA_PYTHON_CLIENT_COLLECTIVE_MEM_SIZE_MB", "4096"),)

_XLA_KERNELS = (
    "xla_gpu_unsupported_use_all_reduce_one_shot_kernel=true",
    "xla_gpu_unsupported_use_ragged_all_to_all_one_shot_kernel=true",
)


def _values(name: str, ops: tuple[str, ...], prefix: str = "", own_gpus: str = "") -> list[Variant]:
    """SHMEM with each value of an option but the default. `own_gpus` follows the setting, as in `Variant`."""
    option = TABLE[name]
    values = [value for value in option.words if value != option.default]
    return [
        Variant(
            name=prefix + value,
            what=f"SHMEM with {option.env}={value}",
            platforms=("gpu",),
            job=prefix + value,
            carried=True,
            environ=((option.env, value),),
            ops=ops,
            own_gpus=own_gpus and f"{option.env}={value} {own_gpus}",
        )
        for value in values
    ]


#: All variants, SHMEM first. The order is that of tables.
VARIANTS = (
    Variant("shmem", "SHMEM", ("cpu", "gpu"), "shmem", carried=True),
    Variant("stock", "JAX's default backend", ("cpu", "gpu"), "shmem", carried=False, own_gpus=_NCCL),
    Variant(
        "whole",
        "SHMEM with XLA_SHMEM_HIERARCHICAL=off",
        ("cpu",),
        "whole",
        carried=None,
        environ=(("XLA_SHMEM_HIERARCHICAL", "off"),),
        several_hosts=True,
    ),
    Variant("mpi", "JAX's MPI collectives", ("cpu",), "mpi", carried=False, flag=False),
    Variant(
        "nccl-fast",
        "NCCL with its fast paths",
        ("gpu",),
        "nccl-fast",
        carried=False,
        flag=False,
        environ=_NCCL_POOL,
        xla=_NCCL_FAST,
        own_gpus=_NCCL,
    ),
    # XLA takes its kernels only among GPUs of one process (`is_local` in xla/backends/gpu/runtime/all_reduce.cc).
    Variant(
        "xla-kernels",
        "XLA's own kernels, all GPUs in one process",
        ("gpu",),
        "xla-kernels",
        carried=False,
        flag=False,
        xla=_XLA_KERNELS,
        one_process=True,
        ops=("all-reduce", "ragged-all-to-all"),
        own_gpus="XLA's own kernels need a GPU for each PE",
    ),
    *_values("gpu_reduce", ("all-reduce", "reduce-scatter"), own_gpus="needs a GPU for each PE"),
    *_values("gpu_permute", ("collective-permute",), prefix="permute-"),
    Variant(
        "stats",
        "SHMEM with XLA_SHMEM_STATS=1",
        ("cpu", "gpu"),
        "stats",
        carried=True,
        environ=(("XLA_SHMEM_STATS", "1"),),
    ),
    Variant(
        "trace",
        "SHMEM with XLA_SHMEM_TRACE",
        ("cpu", "gpu"),
        "trace",
        carried=True,
        environ=(("XLA_SHMEM_TRACE", f"{_FOLDER}/trace.json"),),
    ),
)

#: Those that show what recording costs.
RECORDING = ("stats", "trace")

_BY_NAME = {variant.name: variant for variant in VARIANTS}


def named(name: str) -> Variant:
    """Returns the variant of that name."""
    return _BY_NAME[name]


def rivals(platform: str) -> tuple[str, ...]:
    """Returns the names of all variants of a platform but SHMEM."""
    return tuple(variant.name for variant in VARIANTS[1:] if platform in variant.platforms)


def carried(name: str) -> bool | None:
    """Returns whether the pass must move the collectives of a variant; None if the rules of its job decide."""
    return _BY_NAME[name].carried if name in _BY_NAME else None


def differs_in(name: str, op: str) -> bool:
    """Returns whether a variant is worth measuring for a collective."""
    return name not in _BY_NAME or not _BY_NAME[name].ops or op in _BY_NAME[name].ops


def notes(names: Sequence[str], missing: Mapping[str, str]) -> list[str]:
    """Returns a line for each variant among `names` that sets flags of XLA: the flags, and those that XLA lacks."""
    lines = []
    for variant in (_BY_NAME[name] for name in names if name not in missing and _BY_NAME[name].xla):
        flags, unknown = variant.xla_flags()
        without = f"; this release of XLA has no {', '.join(unknown)}" if unknown else ""
        lines.append(f"{variant.name}: {' '.join(flags) or 'no flags'}{without}")
    return lines


def obstacles(plan: Plan, names: Sequence[str]) -> dict[str, str]:
    """Returns the variants among `names` that cannot run here, each with the reason."""
    found = {}
    for variant in (_BY_NAME[name] for name in names):
        if variant.several_hosts and not plan.launcher:
            found[variant.name] = "it is SHMEM again if all ranks are on one host; --launcher starts them on several"
        if plan.gpus is None:
            continue
        if plan.gpus.emulated and variant.xla:
            found[variant.name] = "NCCL's fast paths and XLA's own kernels do not run on emulated GPUs"
        elif plan.shares_gpu and variant.own_gpus:
            found[variant.name] = variant.own_gpus
    return found
