"""The settings in environment variables: the flag, the options, and which GPUs a process of JAX takes."""

from __future__ import annotations

from collections.abc import Mapping

from xla_shmem.doctor.facts import Environment
from xla_shmem.launch.huge_pages import huge_page_variables
from xla_shmem.launch.shared_buffers import shared_buffer_variables
from xla_shmem.options import OptionError, resolve
from xla_shmem.xla_flags import read_flag

_CHOICE = "JAX_LOCAL_DEVICE_IDS"
#: Variables of launchers under which JAX uses one device per process (jax/_src/clusters); the last is its number.
_LOCAL_RANKS = (("OMPI_MCA_orte_hnp_uri", "OMPI_COMM_WORLD_LOCAL_RANK"), ("SLURM_JOB_ID", "SLURM_LOCALID"))


def read_environment(environ: Mapping[str, str], visible: int) -> Environment:
    """Returns the settings.

    Args:
      visible: number of GPUs that CUDA shows.
    """
    flag, flag_error, option_error, heap_size, needs_nvshmem = None, "", "", None, False
    try:
        flag = read_flag(environ)
    except ValueError as error:
        flag_error = str(error)
    try:
        options = resolve(environ)
        heap_size, needs_nvshmem = options.heap_size, "nvshmem" in (options.gpu_heap, options.gpu_puts)
    except OptionError as error:
        option_error = str(error)
    except ImportError:  # without the compiled module no option can be read; `Installation` has the error
        pass
    variable = _variable_that_chooses(environ)
    chosen, gpu_error = _chosen(environ, variable, visible)
    return Environment(
        flag=flag,
        flag_error=flag_error,
        option_error=option_error,
        platforms=environ.get("JAX_PLATFORMS", ""),
        gpus_per_process=len(chosen),
        heap_size=heap_size,
        cpu_collectives=environ.get("JAX_CPU_COLLECTIVES_IMPLEMENTATION") or "gloo",
        gpu_choice=f"{variable}={environ[variable]}" if variable else "",
        gpu_error=gpu_error,
        xla_flags=environ.get("XLA_FLAGS", ""),
        visible_devices=environ.get("CUDA_VISIBLE_DEVICES"),
        array_memory={**shared_buffer_variables(environ), **huge_page_variables(environ)},
        needs_nvshmem=needs_nvshmem,
    )


def _variable_that_chooses(environ: Mapping[str, str]) -> str:
    """Returns the variable by which JAX chooses this process's GPUs; "" if it takes all that CUDA shows."""
    if environ.get(_CHOICE):
        return _CHOICE
    return next((names[-1] for names in _LOCAL_RANKS if all(name in environ for name in names)), "")


def _chosen(environ: Mapping[str, str], variable: str, visible: int) -> tuple[list[int], str]:
    """Returns the numbers of the GPUs that JAX uses, and why it cannot use them, or ""."""
    if not variable:
        return list(range(visible)), ""
    text = environ[variable]
    try:
        ordinals = [int(number) for number in text.split(",")]
    except ValueError:
        return [], f"{variable}={text!r}: must be a number, or several with commas between them"
    beyond = [ordinal for ordinal in ordinals if not 0 <= ordinal < visible]
    if not beyond or not visible:
        return ordinals if visible else [], ""
    limit = environ.get("CUDA_VISIBLE_DEVICES")
    shown = f"{visible} GPU{'' if visible == 1 else 's'}"
    by = f" (CUDA_VISIBLE_DEVICES={limit})" if limit is not None else ""
    return ordinals, f"JAX takes GPU {beyond[0]} here, by {variable}={text}, but CUDA shows {shown}{by}"
