"""Prints facts and diagnosis as text or as JSON."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Iterator

import click
from rich import box
from rich.console import Console
from rich.table import Table
from rich.text import Text

from xla_shmem.console import report_console
from xla_shmem.doctor.facts import Facts, Library
from xla_shmem.doctor.findings import Diagnosis, Finding, PathVerdict
from xla_shmem.gpu.nvml import Gpu
from xla_shmem.quantities import format_bytes
from xla_shmem.xla_flags import FLAG

_EMULATED = (
    "EMULATED: these GPUs are no hardware. tests/gpu_emulator runs their programs on the processor; that says nothing"
    " about a real GPU's speed or driver."
)


def print_json(facts: Facts, diagnosis: Diagnosis) -> None:
    """Prints one object with the keys ``works``, ``first``, ``cpu``, ``gpu`` and ``facts``."""
    value = {
        "works": diagnosis.works,
        "first": None if diagnosis.first is None else dataclasses.asdict(diagnosis.first),
        "cpu": {"works": diagnosis.cpu.works, **dataclasses.asdict(diagnosis.cpu)},
        "gpu": {
            "works": diagnosis.gpu.works,
            "emulated": diagnosis.emulated,
            "wanted": diagnosis.wants_gpu,
            **dataclasses.asdict(diagnosis.gpu),
        },
        "facts": dataclasses.asdict(facts),
    }
    click.echo(json.dumps(value, indent=2))


def print_report(facts: Facts, diagnosis: Diagnosis) -> None:
    """Prints a table of facts, the verdict on each path, and the first thing to fix."""
    console = report_console()
    console.soft_wrap = True
    table = Table(box=box.SIMPLE, show_header=False, pad_edge=False)
    for name, value in _rows(facts):
        table.add_row(Text(name, style="bold"), Text(value))
    console.print(table)
    flag = facts.environment.flag
    _print_verdict(console, "CPU", diagnosis.cpu, flag)
    if diagnosis.wants_gpu:
        _print_verdict(console, "GPU", diagnosis.gpu, flag, _EMULATED if diagnosis.emulated else "")
    else:
        console.print(Text("GPU  not examined: no NVIDIA GPU and no CUDA plugin of JAX"))
    console.print()
    if diagnosis.first is None:
        console.print(Text("Nothing to fix.", style="green"))
    else:
        _print_finding(console, "First to fix: ", diagnosis.first)


def _rows(facts: Facts) -> Iterator[tuple[str, str]]:
    installation, driver, memory = facts.installation, facts.driver, facts.shared_memory
    yield "xla-shmem", f"{installation.xla_shmem}, Python {facts.python}, {facts.system} {facts.machine}"
    yield "jax", f"{installation.jax or 'missing'}, jaxlib {installation.jaxlib or 'missing'}"
    plugins = [f"jax-cuda{p.cuda}-plugin {p.version} (pjrt {p.pjrt or 'missing'})" for p in installation.cuda_plugins]
    yield "CUDA plugin", ", ".join(plugins) or "none"
    flag = {True: "on", False: "off", None: "not set"}[facts.environment.flag]
    yield "flag", facts.environment.flag_error or f"{FLAG}: {flag}"
    if facts.environment.option_error:
        yield "options", facts.environment.option_error
    yield "JAX_PLATFORMS", facts.environment.platforms or "not set"
    yield "cores", str(facts.cores)
    yield "host", f"{facts.network.host_name}{_name_remark(facts)}"
    limit = "" if memory.memory_limit is None else f"; memory limit {format_bytes(memory.memory_limit)}"
    yield "/dev/shm", memory.error or f"{format_bytes(memory.free)} free of {format_bytes(memory.total)}{limit}"
    cuda = "" if driver.cuda is None else f", CUDA up to {driver.cuda[0]}.{driver.cuda[1]}"
    yield "driver", driver.error or f"{driver.version}{cuda}"
    for gpu in driver.gpus:
        yield f"GPU {gpu.index}", _gpu_text(gpu)
    if not driver.error:
        yield "visible to CUDA", facts.visible.error or f"{len(facts.visible.bus_ids)} GPUs"
    if facts.environment.gpu_choice:
        yield "GPUs of a process", facts.environment.gpu_choice
    for ordinal, (domain, reason) in enumerate(facts.domains):
        yield f"device {ordinal}", f"NVLink domain {domain}: {reason}"
    for name, library in (("NVSHMEM", facts.nvshmem), ("NVRTC", facts.nvrtc), ("NCCL", facts.nccl)):
        yield name, _library_text(library)


def _name_remark(facts: Facts) -> str:
    error = facts.network.name_error
    return f" {error}" if error else ""


def _gpu_text(gpu: Gpu) -> str:
    major, minor = gpu.compute_capability
    links = f"{gpu.switch_links} NVLinks to switches" if gpu.switch_links else f"{len(gpu.peer_links)} NVLinks to GPUs"
    fabric = "unknown" if gpu.fabric is None else gpu.fabric.state
    if gpu.fabric is not None and gpu.fabric.joined:
        fabric += f", cluster {gpu.fabric.cluster}, clique {gpu.fabric.clique}"
    mig = ", split by MIG" if gpu.mig else ""
    size = format_bytes(gpu.memory)
    name = f"EMULATED, {gpu.name}" if gpu.emulated else gpu.name
    return f"{name}, {gpu.bus_id}, sm_{major}{minor}, {size}{mig}; {links}; fabric: {fabric}"


def _library_text(library: Library) -> str:
    return library.error or f"{library.version}, {library.path}"


def _print_verdict(console: Console, name: str, path: PathVerdict, flag: bool | None, remark: str = "") -> None:
    if flag:
        verdict = (
            Text("the flag works", style="green") if path.works else Text("the flag has no effect", style="yellow")
        )
    else:
        state = "not set" if flag is None else "off"
        verdict = Text(f"the flag is {state}; it would {'work' if path.works else 'have no effect'}", style="yellow")
    console.print(Text(f"{name}  ") + verdict)
    if remark:
        console.print(Text(f"     {remark}", style="yellow"))
    for finding in (*path.blockers, *path.notes):
        _print_finding(console, "     - ", finding)


def _print_finding(console: Console, lead: str, finding: Finding) -> None:
    console.print(Text(f"{lead}{finding.what}"))
    if finding.fix:
        console.print(Text(f"{' ' * len(lead)}{finding.fix}", style="cyan"))
