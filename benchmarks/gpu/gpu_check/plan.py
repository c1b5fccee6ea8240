"""The sections in the order they run: first what tells most in the first hour on a machine, speed last.

Each has two times in seconds: a limit, and what the earlier sections leave for it, about twice what it should take.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path

from gpu_check.records import NOT_MEASURED, Record
from gpu_check.runner import Section

_SOURCES = Path(__file__).resolve().parents[1]


def machine(root: Path) -> Section:
    """Records the machine with the Python that runs the check, before anything is built."""
    return Section(
        "machine",
        "Machine",
        [sys.executable, "-m", "gpu_check.machine"],
        60,
        _paths(_SOURCES, root / "python"),
        kept_s=5,
    )


def build(root: Path, work: Path, why_not: str) -> Section:
    """Builds and installs the checkout into an environment of its own."""
    command = [sys.executable, "-m", "gpu_check.build", str(root), str(work)]
    return Section("build", "Build and install", command, 240, _paths(_SOURCES), why_not, kept_s=60)


def stretched(section: Section, factor: float) -> Section:
    """Returns the section with longer times, for a machine that is slower than one with a GPU."""
    return replace(section, limit_s=section.limit_s * factor, kept_s=section.kept_s * factor)


def gpu_count(records: Sequence[Record]) -> int:
    """Returns the number of GPUs that CUDA shows."""
    return next((record["value"] for record in records if record["kind"] == "fact" and record["name"] == "GPUs"), 0)


def is_emulated(records: Sequence[Record]) -> bool:
    """Returns whether the GPUs are those of tests/gpu_emulator."""
    return any(record["kind"] == "fact" and record["name"] == "emulated" for record in records)


def no_gpu(records: Sequence[Record]) -> str:
    """Returns why there is no GPU."""
    reasons = [record["reason"] for record in records if record["kind"] == "left out" and record["name"] == "GPU"]
    return f"no GPU: {reasons[0] if reasons else 'the section machine failed'}"


def on_gpu(python: str, gpus: int, why_not: str, emulated: bool = False) -> Iterator[Section]:
    """Returns the sections that need the installed package and a GPU, in order.

    Args:
      python: the Python of the environment with the package.
      gpus: number of GPUs that CUDA shows.
      why_not: why the sections cannot run, "" if they can.
      emulated: whether the GPUs are emulated.
    """
    shared = " sharing one GPU" if gpus == 1 else f" sharing {gpus} GPUs" if gpus else ""
    paths = _paths(_SOURCES)

    def one(name: str, title: str, limit: float, kept: float, module: str, *arguments: str) -> Section:
        return Section(name, title, [python, "-m", module, *arguments], limit, paths, why_not, kept_s=kept)

    def ranks(
        name: str,
        title: str,
        limit: float,
        kept: float,
        count: int,
        module: str,
        *arguments: str,
        flags: Sequence[str] = (),
        flag: bool = False,
        counts: bool = True,
        why_not: str = why_not,
        variant: str = "",
        devices: int = 1,
    ) -> Section:
        command = [python, "-m", "gpu_check.ranks", f"--ranks={count}", f"--gpus={gpus}"]
        command += [f"--devices={devices}"] if devices > 1 else []
        command += ["--nvshmem-flag"] if flag else []
        command += [f"--xla={setting}" for setting in flags]
        command += [f"--variant={variant}"] if variant else []
        pes = count * devices
        title = f"{title}, {pes} PE{'' if pes == 1 else 's'}{shared if pes > gpus else ''}"
        return Section(name, title, [*command, "--", module, *arguments], limit, paths, why_not, counts, kept)

    def transfers(count: int, limit: float, kept: float) -> Section:
        return ranks(f"transfers-{count}", "Transfers without XLA", limit, kept, count, "gpu_check.transfers")

    def jax(count: int, limit: float, kept: float) -> Section:
        return ranks(f"jax-{count}", "JAX programs", limit, kept, count, "gpu_check.jax_programs", flag=True)

    graphs = ["xla_gpu_graph_min_graph_size=1", "xla_gpu_enable_command_buffer=FUSION,CUBLAS,CUBLASLT,CUSTOM_CALL"]
    no_nccl = "" if gpus >= 2 else "NCCL refuses two ranks on one GPU, so there is no baseline on a machine with one"
    no_fast_nccl = no_nccl or (f"{NOT_MEASURED}; NCCL's fast paths do not run on emulated GPUs" if emulated else "")
    yield one("doctor", "xla-shmem doctor", 40, 6, "gpu_check.doctor")
    yield one("kernels", "Reduction kernels", 60, 15, "gpu_check.kernels")
    yield transfers(1, 45, 12)
    yield transfers(2, 60, 20)
    yield jax(2, 90, 40)
    yield ranks(
        "jax-2-graphs",
        "JAX programs in CUDA graphs",
        75,
        30,
        2,
        "gpu_check.jax_programs",
        "--graphs",
        flags=graphs,
        flag=True,
    )
    # Eight are a node of most machines.
    several = min(gpus, 8)
    yield ranks(
        "jax-one-process",
        "JAX programs in one process",
        90,
        40,
        1,
        "gpu_check.jax_programs",
        flag=True,
        devices=max(several, 1),
        why_not=why_not or ("" if gpus >= 2 else "this machine has one GPU"),
    )
    by_nvshmem = ("Transfers by NVSHMEM's calls", 45, 10)
    yield ranks("transfers-1-nvshmem", *by_nvshmem, 1, "gpu_check.transfers", "--puts=nvshmem")
    yield jax(1, 60, 25)
    yield transfers(4, 60, 20)
    yield jax(4, 90, 40)
    yield ranks("transfer-speed", "Speed without XLA", 60, 20, 2, "gpu_check.transfer_speed")
    for count in (1, 2):
        name = "overlap" if count == 2 else "overlap-1"
        yield ranks(name, "Overlap of a transfer with compute", 45, 12, count, "gpu_check.overlap")
    collectives = ("gpu_check.collectives", f"--gpus={gpus}")
    pes = f"{gpus} PEs" if gpus >= 2 else f"2 PEs{shared}"
    yield one("collectives", f"Collectives in JAX, {pes}", 180, 70, *collectives, "--compare=transports")
    yield one("recording", f"Cost of recording, {pes}", 60, 20, *collectives, "--compare=recording")
    beside = ("Permute beside a matmul in JAX", 45, 12, 2, "gpu_check.jax_overlap")
    yield ranks("jax-overlap", *beside, flag=True)
    yield one("train", "Training job", 120, 50, "gpu_check.training", f"--gpus={gpus}")
    by_nccl = (f"{beside[0]}, NCCL", *beside[1:])
    yield ranks("jax-overlap-nccl", *by_nccl, why_not=why_not or no_nccl)
    yield ranks("jax-overlap-nccl-fast", *by_nccl, variant="nccl-fast", why_not=why_not or no_fast_nccl)
    yield one("sanitizer", "compute-sanitizer", 75, 30, "gpu_check.sanitizer")
    # Counts only if each PE has a GPU: NVSHMEM is known to refuse some of its calls on a shared one.
    yield ranks("transfers-2-nvshmem", *by_nvshmem, 2, "gpu_check.transfers", "--puts=nvshmem", counts=gpus >= 2)


def _paths(*folders: Path) -> dict[str, str]:
    inherited = os.environ.get("PYTHONPATH")
    return {"PYTHONPATH": os.pathsep.join([*map(str, folders), *([inherited] if inherited else [])])}


#: The sections that a caller can choose.
NAMES = tuple(section.name for section in on_gpu("", 1, ""))
