"""The variants of a benchmark: SHMEM, what it is compared with, and SHMEM with another setting, `NAME=VALUE`.

A variant that needs other settings of a process than another one runs in a job of its own. All jobs run side by side
and take turns.
"""

from __future__ import annotations

import dataclasses
import functools
import os
from collections.abc import Mapping, Sequence

from xla_shmem import _core
from xla_shmem.errors import BenchError
from xla_shmem.gpu.chosen_gpus import Gpus
from xla_shmem.options.given import check_effects
from xla_shmem.options.table import TABLE, read
from xla_shmem.options.values import OPS, OptionError
from xla_shmem.xla_libraries import known_flags

_PROFILE = "XLA_SHMEM_PROFILE"

#: Options that decide what runs on SHMEM at all. A variant with another one is measured wherever it runs.
_RULES = (_PROFILE, "XLA_SHMEM_OPS", "XLA_SHMEM_THRESHOLD", "XLA_SHMEM_HIERARCHICAL", "XLA_SHMEM_TUNING")

#: Options that concern some collectives only.
_OPS_OF = {
    "XLA_SHMEM_GPU_PERMUTE": ("collective-permute",),
    "XLA_SHMEM_GPU_REDUCE": ("all-reduce", "all-gather", "reduce-scatter"),
}


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
      way: word of ``XLA_SHMEM_BACKENDS``, under which a tuning table has its times; "" for none.
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
    way: str = ""

    def xla_flags(self) -> tuple[list[str], list[str]]:
        """Returns its settings of XLA as flags: those that the installed XLA knows, and the others."""
        known = _known(tuple(setting.partition("=")[0] for setting in self.xla))
        flags: tuple[list[str], list[str]] = [], []
        for setting in self.xla:
            flags[setting.partition("=")[0] not in known].append(f"--{setting}")
        return flags


@functools.cache
def _known(names: tuple[str, ...]) -> set[str]:
    return known_flags(names)


_NCCL = "NCCL refuses two ranks on one GPU"

#: NCCL's fast paths. Registered buffers come from a pool of their own, which is empty by default.
_NCCL_FAST = (
    "xla_gpu_enable_nccl_user_buffers=true",
    "xla_gpu_experimental_enable_nccl_symmetric_buffers=true",
    "xla_gpu_collective_permute_connected_components=true",
    "xla_gpu_collective_permute_mode=symmetric",
    # On by default, and then XLA's own kernel may take NCCL's place.
    *(flag.removeprefix("--") for flag in _core.way_flags("nccl", "ragged-all-to-all")),
)
_NCCL_POOL = (("XLA_PYTHON_CLIENT_COLLECTIVE_MEM_SIZE_MB", "4096"),)

#: Variants that the doubles of tests/gpu_emulator do not run.
_NOT_EMULATED = ("nccl-fast", "xla-kernels")

_XLA_KERNELS = (
    "xla_gpu_unsupported_use_all_reduce_one_shot_kernel=true",
    "xla_gpu_unsupported_use_ragged_all_to_all_one_shot_kernel=true",
)


def _by_flags(way: str, what: str, *, one_process: bool = False, windows: bool = False) -> Variant:
    """All collectives that have a flag for a way, run in it.

    Args:
      way: word of ``XLA_SHMEM_BACKENDS``.
      what: as of the variant.
      one_process: whether XLA takes the way among the GPUs of one process only.
      windows: whether its flag is one for all ops, a list of those whose buffers are NCCL's windows.
    """
    flags = {op: found for op in OPS if (found := _core.way_flags(way, op))}
    settings = dict.fromkeys(flag.removeprefix("--") for found in flags.values() for flag in found)
    if windows:
        settings = {f"{next(iter(settings)).partition('=')[0]}=all": None}
    return Variant(
        way,
        what,
        ("gpu",),
        way,
        carried=False,
        flag=False,
        environ=_NCCL_POOL,
        xla=tuple(settings),
        one_process=one_process,
        ops=tuple(flags),
        own_gpus=f"{what} needs a GPU for each PE",
        way=way,
    )


#: All variants, SHMEM first. The order is that of tables.
VARIANTS = (
    Variant("shmem", "SHMEM", ("cpu", "gpu"), "shmem", carried=True),
    Variant("stock", "JAX's default backend", ("cpu", "gpu"), "shmem", carried=False, own_gpus=_NCCL),
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
        way="kernels",
    ),
    _by_flags("nccl", "NCCL without XLA's own kernels"),
    _by_flags("one-sided", "NCCL's put and signal, all GPUs in one process", one_process=True),
    _by_flags("nccl-symmetric", "NCCL on symmetric memory, all GPUs in one process", one_process=True, windows=True),
    _by_flags("peer-copies", "copies between the GPUs of one process", one_process=True),
)

_BY_NAME = {variant.name: variant for variant in VARIANTS}


def named(name: str) -> Variant:
    """Returns the variant of that name, or SHMEM with the setting `name`."""
    return _BY_NAME[name] if "=" not in name else _with_setting(name)


def _with_setting(setting: str) -> Variant:
    variable, _, value = setting.partition("=")
    return Variant(
        name=setting,
        what=f"SHMEM with {setting}",
        platforms=("cpu", "gpu"),
        job=setting,
        carried=None if variable in _RULES else True,
        environ=((variable, value),),
        ops=_OPS_OF.get(variable, ()),
        own_gpus=f"{setting} needs a GPU for each PE" if variable == "XLA_SHMEM_GPU_REDUCE" else "",
    )


def check_setting(setting: str, platform: str) -> None:
    """Checks a setting `NAME=VALUE`.

    Raises:
      BenchError: the name is none of SHMEM's options, the value is not allowed, or it has no effect on the platform.
    """
    variable, _, value = setting.partition("=")
    options = {option.env: option for option in TABLE.values()}
    if variable not in options:
        raise BenchError(f"--vs {setting}: {_core.no_such_option(variable)}")
    option = options[variable]
    try:
        read(option, variable, value)
        check_effects({_PROFILE: os.environ.get(_PROFILE, ""), variable: value}, {}, **_runs_on(platform))
    except OptionError as error:
        raise BenchError(f"--vs {error}") from None


def _runs_on(platform: str) -> dict[str, bool]:
    return {"cpu": platform == "cpu", "gpu": platform == "gpu"}


def rivals(platform: str) -> tuple[str, ...]:
    """Returns the names of a platform's other transports."""
    return tuple(variant.name for variant in VARIANTS[1:] if platform in variant.platforms)


def exists(name: str, platform: str) -> bool:
    """Returns whether a platform has a variant."""
    return "=" in name or name in rivals(platform)


def carried(name: str) -> bool | None:
    """Returns whether the pass must move the collectives of a variant; None if the rules of its job decide."""
    return named(name).carried if "=" in name or name in _BY_NAME else None


def differs_in(name: str, op: str) -> bool:
    """Returns whether a variant is worth measuring for a collective."""
    ops = named(name).ops if "=" in name or name in _BY_NAME else ()
    return not ops or op in ops


def notes(names: Sequence[str], missing: Mapping[str, str]) -> list[str]:
    """Returns a line for each variant among `names` that sets flags of XLA: the flags, and those that XLA lacks."""
    lines = []
    for variant in (named(name) for name in names if name not in missing and named(name).xla):
        flags, unknown = variant.xla_flags()
        without = f"; this release of XLA has no {', '.join(unknown)}" if unknown else ""
        lines.append(f"{variant.name}: {' '.join(flags) or 'no flags'}{without}")
    return lines


def obstacles(names: Sequence[str], gpus: Gpus | None, *, shared: bool) -> dict[str, str]:
    """Returns the variants among `names` that cannot run here, each with the reason.

    Args:
      names: the variants.
      gpus: the GPUs to measure on; None for the CPU, where all can run.
      shared: whether all processes share one GPU.
    """
    if gpus is None:
        return {}
    found = {}
    for variant in map(named, names):
        if gpus.emulated and variant.name in _NOT_EMULATED:
            found[variant.name] = "NCCL's puts between processes and XLA's own kernels do not run on emulated GPUs"
        elif shared and variant.own_gpus:
            found[variant.name] = variant.own_gpus
    return found
