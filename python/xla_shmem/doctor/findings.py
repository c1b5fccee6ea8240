"""Derives whether the flag works on the CPU path and on the GPU path, and the first thing to fix. Pure functions."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

from xla_shmem.doctor.facts import Facts
from xla_shmem.gpu.jax_plugin import OLDEST_JAX, CudaPlugin, release, required_jax
from xla_shmem.gpu.nvml import MISSING_PACKAGE, NO_DRIVER
from xla_shmem.options.values import MIN_HEAP_SIZE
from xla_shmem.xla_flags import FLAG

#: Oldest kernel driver that JAX supports, by CUDA release.
OLDEST_DRIVER = {12: "525", 13: "580"}

_DRIVER_FIX = {
    MISSING_PACKAGE: "pip install nvidia-ml-py",
    NO_DRIVER: "install NVIDIA's driver (https://www.nvidia.com/drivers); in a container: docker run --gpus all",
}

#: Keeps the other flags. The last occurrence of a flag counts.
SET_FLAG = f'export XLA_FLAGS="$XLA_FLAGS {FLAG}=true"'

#: Switches off the part of XLA:CPU that is wrong in jax 0.10.2.
_WITHOUT_YNN = "--xla_cpu_experimental_ynn_fusion_type="

_MORE_MEMORY = "mount -o remount,size=1g /dev/shm    # in Docker: docker run --shm-size=1g"


@dataclass(frozen=True)
class Finding:
    """One thing to fix, or to know.

    Attributes:
      what: a sentence.
      fix: a command or an instruction; "" if there is no fix on this machine.
      is_fault: whether it is to be fixed.
    """

    what: str
    fix: str
    is_fault: bool = True


@dataclass(frozen=True)
class PathVerdict:
    """Whether the flag works on the CPU path or on the GPU path, once it is set.

    Attributes:
      blockers: reasons why the flag has no effect on this path, in the order to fix them. Empty: the flag works.
      notes: limits of a path that works.
    """

    blockers: tuple[Finding, ...]
    notes: tuple[Finding, ...] = ()

    @property
    def works(self) -> bool:
        """Whether there is no blocker."""
        return not self.blockers


@dataclass(frozen=True)
class Diagnosis:
    """The conclusions from the facts of one machine.

    Attributes:
      cpu: the CPU path.
      gpu: the GPU path.
      emulated: whether the GPUs are emulated: there is no hardware.
      wants_gpu: whether the user wants the GPU path: JAX_PLATFORMS names it, or is not set and there is a driver or a
        CUDA plugin.
      first: the first thing to fix; None if there is nothing to fix.
    """

    cpu: PathVerdict
    gpu: PathVerdict
    emulated: bool
    wants_gpu: bool
    first: Finding | None

    @property
    def works(self) -> bool:
        """Whether the flag works on the CPU path or on the GPU path."""
        return self.cpu.works or self.gpu.works


def diagnose(facts: Facts) -> Diagnosis:
    """Returns the diagnosis of the facts."""
    common = tuple(_common(facts))
    faults = tuple(_known_faults(facts))
    cpu = PathVerdict((*common, *_cpu_blockers(facts)), (*faults, *_cpu_notes(facts)))
    gpu = PathVerdict((*common, *_gpu_blockers(facts)), (*faults, *_gpu_notes(facts)))
    asked = re.split(r"[,\s]+", facts.environment.platforms.lower())
    has_gpu = facts.driver.error not in (NO_DRIVER, MISSING_PACKAGE) or bool(facts.installation.cuda_plugins)
    wants_gpu = bool({"cuda", "gpu"} & set(asked)) if asked != [""] else has_gpu
    paths = [gpu, cpu] if wants_gpu else [cpu]
    in_order = [finding for path in paths for finding in path.blockers]
    if not facts.environment.flag:
        state = "not set" if facts.environment.flag is None else "off"
        in_order.append(Finding(f"the flag is {state}, so this is stock JAX", SET_FLAG))
    in_order += [finding for path in paths for finding in path.notes]
    in_order = [finding for finding in in_order if finding.is_fault]
    # A finding without a fix must not hide one that has a fix.
    first = next((finding for finding in in_order if finding.fix), next(iter(in_order), None))
    return Diagnosis(cpu, gpu, any(gpu.emulated for gpu in facts.driver.gpus), wants_gpu, first)


def _common(facts: Facts) -> Iterator[Finding]:
    installation = facts.installation
    if facts.system != "Linux" or facts.machine not in ("x86_64", "aarch64"):
        yield Finding(f"{facts.system} on {facts.machine}: xla-shmem runs on Linux, x86-64 and AArch64", "")
    for package, version in (("jax", installation.jax), ("jaxlib", installation.jaxlib)):
        if release(version) < OLDEST_JAX:
            fault = f"{package} {version} has no transform hook" if version else f"{package} is missing"
            yield Finding(f"{fault}; 0.10.2 is the first release that works", f"pip install -U 'jax{required_jax()}'")
            break
    if installation.core_error:
        yield Finding(
            f"the compiled module does not load: {installation.core_error}",
            "pip install --force-reinstall --no-deps xla-shmem",
        )
    elif not installation.entry_point:
        yield Finding(
            "JAX cannot find the plugin: group jax_plugins has no entry point xla_shmem.plugin",
            "pip install --force-reinstall --no-deps xla-shmem",
        )
    environment, network = facts.environment, facts.network
    if environment.flag_error:
        yield Finding(environment.flag_error, f"correct it in XLA_FLAGS: {FLAG}=true")
    if environment.option_error:
        yield Finding(environment.option_error, "correct or unset that variable")
    if network.loopback_error:
        yield Finding(
            f"127.0.0.1 cannot be reached ({network.loopback_error}), so processes of this host cannot form a job",
            "ip link set lo up",
        )


def _known_faults(facts: Facts) -> Iterator[Finding]:
    """Yields faults of the installed jax that concern programs here, and what mends them.

    The program of jax issue 39103 gave wrong sums on 0.10.2, and right ones with the flag, on 0.11.2 and on 0.12.0.1.
    """
    installation = facts.installation
    if (0, 10, 2) not in (release(installation.jax), release(installation.jaxlib)):
        return
    upgrade = f"pip install -U 'jax{required_jax().replace('0.10.2', '0.11.2')}'"
    if release(facts.python) < (3, 12):
        upgrade = f"install Python 3.12 or newer, and there: {upgrade}"
    if _WITHOUT_YNN not in facts.environment.xla_flags.split():
        yield Finding(
            "jax 0.10.2 computes some sums of products wrongly on CPU (jax issue 39103); 0.11.2 and newer do not",
            f'{upgrade}    # or: export XLA_FLAGS="$XLA_FLAGS {_WITHOUT_YNN}"',
        )
    yield Finding("jax 0.10.2 drops donation, which costs memory; 0.11.2 and newer keep it", upgrade)


def _cpu_blockers(facts: Facts) -> Iterator[Finding]:
    memory, network = facts.shared_memory, facts.network
    if memory.error:
        yield Finding(
            f"no shared memory: {memory.error}",
            "mkdir -p /dev/shm && mount -t tmpfs -o size=1g,mode=1777 tmpfs /dev/shm",
        )
    elif (count := _processes_that_fit(facts)) < 2:
        needed = _least_heap(facts) >> 20
        what = f"a process needs {needed} MiB, so no job fits"
        if count == 1:
            what = f"two processes need {2 * needed} MiB, so no job of two fits"
        yield Finding(
            f"/dev/shm has {memory.free >> 20} MiB free, {what}: collectives stay on the default backend",
            _MORE_MEMORY,
        )
    if network.name_error and facts.environment.cpu_collectives == "gloo":
        yield Finding(
            f"the name of this host, {network.host_name}, {network.name_error}, so gloo does not start and every job"
            " on CPU ends with an error",
            "hostname NAME    # a name that is no number, because a number is taken for an address"
            if network.name_is_number
            else f'echo "127.0.1.1 {network.host_name}" >> /etc/hosts',
        )


def _least_heap(facts: Facts) -> int:
    """Returns the bytes of /dev/shm that a process needs at least (runtime/job.py)."""
    return facts.environment.heap_size or MIN_HEAP_SIZE


def _processes_that_fit(facts: Facts) -> int:
    return facts.shared_memory.free // _least_heap(facts)


def _cpu_notes(facts: Facts) -> Iterator[Finding]:
    count = _processes_that_fit(facts)
    if not facts.shared_memory.error and 2 <= count < 8:
        yield Finding(
            f"/dev/shm has {facts.shared_memory.free >> 20} MiB free, enough for {count} processes", _MORE_MEMORY
        )
    if facts.environment.array_memory:
        yield Finding(
            "peers do not map this process's arrays, or these lie in small pages, so collectives from 16 KiB on are"
            " slower; `xla-shmem launch` sets what its ranks need",
            "export " + " ".join(f"{name}={value}" for name, value in facts.environment.array_memory.items()),
            is_fault=False,
        )


def _gpu_blockers(facts: Facts) -> Iterator[Finding]:
    driver, plugins = facts.driver, facts.installation.cuda_plugins
    if driver.error:
        yield Finding(
            driver.error,
            _DRIVER_FIX.get(driver.error, "nvidia-smi    # must work first; reboot, or reinstall the driver"),
        )
    elif facts.visible.error:
        yield Finding(f"CUDA does not start: {facts.visible.error}", "nvidia-smi    # shows the state of the driver")
    elif not facts.visible.bus_ids:
        yield Finding(
            f"the driver has {len(driver.gpus)} GPUs, but CUDA sees none of them", "unset CUDA_VISIBLE_DEVICES"
        )
    elif facts.environment.gpu_error:
        yield Finding(facts.environment.gpu_error, _choice_fix(facts))
    if not plugins:
        cuda = 13 if driver.cuda is None or driver.cuda >= (13, 0) else 12
        yield Finding(
            "JAX has no CUDA plugin, so it cannot use a GPU", f"pip install -U 'jax[cuda{cuda}]{required_jax()}'"
        )
    else:
        yield from _plugin_blockers(facts, plugins[0])
    if len(facts.domains) > 1 and len({domain for domain, _ in facts.domains}) == len(facts.domains):
        yield Finding(
            f"no two of the {len(facts.domains)} GPUs are in one NVLink domain ({facts.domains[0][1]}), so all"
            " collectives stay on NCCL",
            "",
        )
    if not facts.installation.lowers_gpu:
        yield Finding("this build of xla-shmem does not lower GPU programs, so their collectives stay on NCCL", "")


def _choice_fix(facts: Facts) -> str:
    environment = facts.environment
    variable = environment.gpu_choice.partition("=")[0]
    if variable == "JAX_LOCAL_DEVICE_IDS":
        return "unset JAX_LOCAL_DEVICE_IDS"
    if environment.visible_devices is not None:
        return (
            "unset CUDA_VISIBLE_DEVICES    # or, if each process sees its own GPU only: export JAX_LOCAL_DEVICE_IDS=0"
        )
    return "start one process per GPU    # or, if each process sees its own GPU only: export JAX_LOCAL_DEVICE_IDS=0"


def _plugin_blockers(facts: Facts, plugin: CudaPlugin) -> Iterator[Finding]:
    name, jaxlib = f"jax-cuda{plugin.cuda}-plugin {plugin.version}", facts.installation.jaxlib
    if release(plugin.version) < OLDEST_JAX:
        yield Finding(
            f"{name} has no transform hook; 0.10.2 is the first release that works",
            f"pip install -U 'jax[cuda{plugin.cuda}]{required_jax()}'",
        )
    elif {release(plugin.version), release(jaxlib)} != {release(plugin.pjrt)}:
        yield Finding(
            f"{name}, its pjrt {plugin.pjrt or 'missing'} and jaxlib {jaxlib} have different versions, so JAX cannot"
            " use the GPU",
            f"pip install -U 'jax[cuda{plugin.cuda}]=={facts.installation.jax}'",
        )
    if facts.driver.cuda is not None and facts.driver.cuda < (plugin.cuda, 0):
        supported = f"{facts.driver.cuda[0]}.{facts.driver.cuda[1]}"
        oldest = OLDEST_DRIVER.get(plugin.cuda)
        older_plugin = plugin.cuda > 12 and facts.driver.cuda >= (12, 0)
        yield Finding(
            f"driver {facts.driver.version} supports CUDA up to {supported}, but the plugin needs {plugin.cuda}"
            f" (driver {oldest} or newer)",
            f"pip uninstall -y jax-cuda{plugin.cuda}-plugin jax-cuda{plugin.cuda}-pjrt && pip install 'jax[cuda12]'"
            if older_plugin
            else f"update NVIDIA's driver to {oldest} or newer",
        )
    if facts.environment.needs_nvshmem:
        yield from _nvshmem_finding(facts, plugin.cuda, "")


def _nvshmem_finding(facts: Facts, cuda: int, instead: str) -> Iterator[Finding]:
    if facts.nvshmem.error and facts.nvshmem.cause != "wrong options":  # those are a finding of their own
        yield Finding(f"NVSHMEM: {facts.nvshmem.error}{instead}", _nvshmem_fix(facts, cuda))


def _nvshmem_fix(facts: Facts, cuda: int) -> str:
    if facts.nvshmem.cause == "option":
        return "unset XLA_SHMEM_NVSHMEM_LIBRARY"
    if facts.nvshmem.cause == "missing":
        return f"pip install nvidia-nvshmem-cu{cuda}"
    # The wheels of both releases install to the same path, so the wrong one must be removed first.
    return f"pip uninstall -y nvidia-nvshmem-cu12 nvidia-nvshmem-cu13 && pip install nvidia-nvshmem-cu{cuda}"


def _gpu_notes(facts: Facts) -> Iterator[Finding]:
    count, per_process = len(facts.visible.bus_ids), facts.environment.gpus_per_process
    if per_process > 1:
        yield Finding(
            f"a process started here uses {per_process} GPUs; the CUDA driver makes their symmetric memory, because"
            " NVSHMEM has one PE per process",
            "",
            is_fault=False,
        )
        yield Finding("their collectives in loops stay outside of CUDA graphs", "", is_fault=False)
    elif facts.installation.cuda_plugins and not facts.environment.needs_nvshmem:
        plugin = facts.installation.cuda_plugins[0]
        yield from _nvshmem_finding(facts, plugin.cuda, "; the CUDA driver makes the symmetric memory instead")
    if count == 1:
        yield Finding("this machine has one GPU, so only jobs that use other machines too have collectives", "")
    domains = len({domain for domain, _ in facts.domains})
    if 1 < domains < count:
        yield Finding(f"{count} GPUs are in {domains} NVLink domains; collectives between domains stay on NCCL", "")
    if any(gpu.fabric is not None and gpu.fabric.state == "in progress" for gpu in facts.driver.gpus):
        yield Finding(
            "the NVLink fabric is still registering GPUs", "nvidia-smi -q | grep -A4 Fabric    # wait for Completed"
        )
