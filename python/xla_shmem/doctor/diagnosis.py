"""From facts to words: on which road the flag works, what stands in the way, what to fix first. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

from xla_shmem.doctor.facts import Facts
from xla_shmem.gpu.jax_plugin import OLDEST_JAX, CudaPlugin, release
from xla_shmem.gpu.nvml import MISSING_PACKAGE, NO_DRIVER
from xla_shmem.options.values import MIN_HEAP_SIZE
from xla_shmem.xla_flags import FLAG

#: Kernel drivers that JAX asks for, by CUDA release.
OLDEST_DRIVER = {12: "525", 13: "580"}

_DRIVER_FIX = {
    MISSING_PACKAGE: "pip install nvidia-ml-py",
    NO_DRIVER: "install NVIDIA's driver (https://www.nvidia.com/drivers); in a container: docker run --gpus all",
}

SET_FLAG = f"export XLA_FLAGS={FLAG}=true"


@dataclass(frozen=True)
class Finding:
    """One thing to fix.

    Attributes:
      what: a sentence.
      fix: the command, or what to do where that is not one; "" if nothing can be done here.
    """

    what: str
    fix: str


@dataclass(frozen=True)
class Road:
    """CPU or GPU.

    Attributes:
      blockers: why the flag changes nothing on this road, the first to fix first; none means that it works.
      notes: what works, but not for everything.
    """

    blockers: tuple[Finding, ...]
    notes: tuple[Finding, ...] = ()

    @property
    def works(self) -> bool:
        """Whether nothing stands in the way."""
        return not self.blockers


@dataclass(frozen=True)
class Diagnosis:
    """What to say.

    Attributes:
      wants_gpu: whether the GPU road is meant: JAX_PLATFORMS asks for it, or does not choose and there is a driver or a
        CUDA plugin.
      first: the first thing to fix, None if there is nothing.
    """

    cpu: Road
    gpu: Road
    wants_gpu: bool
    first: Finding | None

    @property
    def works(self) -> bool:
        """Whether the flag works on some road."""
        return self.cpu.works or self.gpu.works


def diagnose(facts: Facts) -> Diagnosis:
    """Returns what follows from the facts."""
    common = tuple(_common(facts))
    cpu = Road((*common, *_cpu_blockers(facts)), tuple(_cpu_notes(facts)))
    gpu = Road((*common, *_gpu_blockers(facts)), tuple(_gpu_notes(facts)))
    asked = re.split(r"[,\s]+", facts.environment.platforms.lower())
    has_gpu = facts.driver.error not in (NO_DRIVER, MISSING_PACKAGE) or bool(facts.installation.cuda_plugins)
    wants_gpu = bool({"cuda", "gpu"} & set(asked)) if asked != [""] else has_gpu
    roads = [gpu, cpu] if wants_gpu else [cpu]
    in_order = [finding for road in roads for finding in road.blockers]
    if not facts.environment.flag:
        in_order.append(Finding("the flag is not set, so this is stock JAX", SET_FLAG))
    in_order += [finding for road in roads for finding in road.notes]
    # What nobody here can fix must not hide what can be.
    first = next((finding for finding in in_order if finding.fix), next(iter(in_order), None))
    return Diagnosis(cpu, gpu, wants_gpu, first)


def _common(facts: Facts) -> Iterator[Finding]:
    installation = facts.installation
    if facts.system != "Linux" or facts.machine not in ("x86_64", "aarch64"):
        yield Finding(f"{facts.system} on {facts.machine}: xla-shmem runs on Linux, x86-64 and AArch64", "")
    for package, version in (("jax", installation.jax), ("jaxlib", installation.jaxlib)):
        if release(version) < OLDEST_JAX:
            is_missing = f"{package} {version} has no transform hook" if version else f"{package} is missing"
            yield Finding(f"{is_missing}; 0.10.2 is the first release that works", "pip install -U 'jax>=0.10.2'")
            break
    if installation.core_error:
        yield Finding(
            f"the compiled module does not load: {installation.core_error}",
            "pip install --force-reinstall --no-deps xla-shmem",
        )
    elif not installation.entry_point:
        yield Finding(
            "JAX will not find the plugin: no entry point xla_shmem.plugin in group jax_plugins",
            "pip install --force-reinstall --no-deps xla-shmem",
        )
    if facts.environment.error:
        yield Finding(facts.environment.error, "correct or unset that variable")


def _cpu_blockers(facts: Facts) -> Iterator[Finding]:
    memory = facts.shared_memory
    if memory.error:
        yield Finding(f"no shared memory: {memory.error}", "mount -t tmpfs -o size=1g,mode=1777 tmpfs /dev/shm")
    elif memory.free < MIN_HEAP_SIZE:
        yield Finding(
            f"/dev/shm has {memory.free >> 20} MiB free, a process needs {MIN_HEAP_SIZE >> 20} MiB",
            "mount -o remount,size=1g /dev/shm    # in Docker: docker run --shm-size=1g",
        )


def _cpu_notes(facts: Facts) -> Iterator[Finding]:
    memory = facts.shared_memory
    # As many processes as that still have room when all take their share at once (job.py).
    room = memory.free // (2 * MIN_HEAP_SIZE)
    if 1 <= room < 4:
        yield Finding(
            f"/dev/shm has {memory.free >> 20} MiB free, enough for {room} process{'' if room == 1 else 'es'}",
            "mount -o remount,size=1g /dev/shm    # in Docker: docker run --shm-size=1g",
        )


def _gpu_blockers(facts: Facts) -> Iterator[Finding]:
    driver, plugins = facts.driver, facts.installation.cuda_plugins
    if driver.error:
        yield Finding(
            driver.error, _DRIVER_FIX.get(driver.error, "nvidia-smi    # must work first; reboot or reinstall")
        )
    elif facts.visible.error:
        yield Finding(f"CUDA does not start: {facts.visible.error}", "nvidia-smi    # shows what the driver says")
    elif not facts.visible.bus_ids:
        yield Finding(
            f"the driver has {len(driver.gpus)} GPUs and shows none of them to CUDA", "unset CUDA_VISIBLE_DEVICES"
        )
    if not plugins:
        cuda = 13 if driver.cuda is None or driver.cuda >= (13, 0) else 12
        yield Finding("JAX has no CUDA plugin, so it will not use a GPU", f"pip install -U 'jax[cuda{cuda}]'")
    else:
        yield from _plugin_blockers(facts, plugins[0])
    if len(facts.domains) > 1 and len({domain for domain, _ in facts.domains}) == len(facts.domains):
        yield Finding(
            f"no two of the {len(facts.domains)} GPUs are in one NVLink domain ({facts.domains[0][1]}): all collectives"
            " between them stay on NCCL",
            "",
        )
    if not facts.installation.lowers_gpu:
        yield Finding("this release of xla-shmem does not lower GPU programs yet: they keep NCCL", "")


def _plugin_blockers(facts: Facts, plugin: CudaPlugin) -> Iterator[Finding]:
    name, jaxlib = f"jax-cuda{plugin.cuda}-plugin {plugin.version}", facts.installation.jaxlib
    if release(plugin.version) < OLDEST_JAX:
        yield Finding(
            f"{name} has no transform hook; 0.10.2 is the first release that works",
            f"pip install -U 'jax[cuda{plugin.cuda}]>=0.10.2'",
        )
    elif {release(plugin.version), release(jaxlib)} != {release(plugin.pjrt)}:
        yield Finding(
            f"{name}, its pjrt {plugin.pjrt or 'missing'} and jaxlib {jaxlib} differ, so JAX will not use the GPU",
            f"pip install -U 'jax[cuda{plugin.cuda}]=={facts.installation.jax}'",
        )
    if facts.driver.cuda is not None and facts.driver.cuda < (plugin.cuda, 0):
        supported = f"{facts.driver.cuda[0]}.{facts.driver.cuda[1]}"
        oldest = OLDEST_DRIVER.get(plugin.cuda)
        older_plugin = plugin.cuda > 12 and facts.driver.cuda >= (12, 0)
        yield Finding(
            f"driver {facts.driver.version} runs CUDA up to {supported}, the plugin needs {plugin.cuda}"
            f" (driver {oldest} or newer)",
            f"pip uninstall -y jax-cuda{plugin.cuda}-plugin jax-cuda{plugin.cuda}-pjrt && pip install 'jax[cuda12]'"
            if older_plugin
            else f"update NVIDIA's driver to {oldest} or newer",
        )
    if facts.nvshmem.error:
        yield Finding(f"NVSHMEM: {facts.nvshmem.error}", _nvshmem_fix(facts, plugin.cuda))


def _nvshmem_fix(facts: Facts, cuda: int) -> str:
    if facts.nvshmem.cause == "option":
        return "unset XLA_SHMEM_NVSHMEM_LIBRARY"
    if facts.nvshmem.cause == "missing":
        return f"pip install nvidia-nvshmem-cu{cuda}"
    # The wheels of both releases share one path; the wrong one has to go first.
    return f"pip uninstall -y nvidia-nvshmem-cu12 nvidia-nvshmem-cu13 && pip install nvidia-nvshmem-cu{cuda}"


def _gpu_notes(facts: Facts) -> Iterator[Finding]:
    count, per_process = len(facts.visible.bus_ids), facts.environment.gpus_per_process
    if per_process > 1:
        yield Finding(
            f"a process started here takes {per_process} GPUs; NVSHMEM has one PE a process, so its collectives stay on"
            " NCCL",
            f"xla-shmem launch -n {per_process} -- python train.py    # one process per GPU",
        )
    if count == 1:
        yield Finding("one GPU: only a job with processes on other machines has collectives to move", "")
    domains = len({domain for domain, _ in facts.domains})
    if 1 < domains < count:
        yield Finding(f"{count} GPUs in {domains} NVLink domains: collectives across them stay on NCCL", "")
    if any(gpu.fabric is not None and gpu.fabric.state == "in progress" for gpu in facts.driver.gpus):
        yield Finding(
            "the NVLink fabric is still registering GPUs", "nvidia-smi -q | grep -A4 Fabric    # until Completed"
        )
