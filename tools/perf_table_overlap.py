"""Prints the rows of docs/data/perf-table-overlap.json: what XLA's scheduler overlaps without and with NVSHMEM's times.

    python tools/perf_table_overlap.py --wheels FOLDER [--modules FOLDER]

compiles each step three times for GPUs that are described, not present: XLA's own times of NCCL, `perf_table.py`,
and a table that is wrong on purpose, in which every collective takes a hundred times as long.
"""

from __future__ import annotations

import dataclasses
import re
import tempfile
from collections.abc import Sequence
from pathlib import Path

import click

from gpu_compile.compiled_step import compile_step
from gpu_compile.described_gpus import PRESET_TARGETS
from long_context.train.config import TrainConfig
from long_context_job import long_context_job
from perf_table import perf_table, target_of
from wheels_option import wheels_option
from xla_shmem.hlo.files import read_module
from xla_shmem.inspect.overlap import Overlap, find_overlaps
from xla_shmem.options import Options, resolve
from xla_shmem.predict.cluster import Cluster, read_cluster
from xla_shmem.predict.constants import read_constants
from xla_shmem.predict.module_program import program_of_module
from xla_shmem.predict.walk import Machine, run_times

#: Steps, and the cluster that each is compiled for.
STEPS = {
    "ring attention: 64K tokens, CP 8": (long_context_job(64 << 10, 8, 1), "h100-sxm"),
    "FSDP 8: 8 sequences of 8K tokens": (
        dataclasses.replace(long_context_job(8 << 10, 1, 1), fsdp=8, batch=8, shard_over_context=False),
        "h100-sxm",
    ),
}

#: All ops may go to NVSHMEM, and the cost model decides.
RULES = {"profile": "domain", "ops": "all"}

_SLOWER = 100


@dataclasses.dataclass(frozen=True)
class Scheduled:
    """What a schedule overlaps.

    Attributes:
      pairs: collectives.
      overlapped: those with compute, a loop or a call between start and done.
      order: names of all instructions of the module in the order of their schedule.
      exposed_s: time of a step in which only transfers run, as `xla-shmem predict` estimates it.
    """

    pairs: int
    overlapped: int
    order: tuple[str, ...]
    exposed_s: float


def slower(table: str, factor: int) -> str:
    """The table with every time multiplied."""
    return re.sub(r"(bytes_per_sec: )(\d+)", lambda found: found[1] + str(max(int(found[2]) // factor, 1)), table)


def schedule_of(module: Path, cluster: Cluster, options: Options) -> Scheduled:
    """Reads a compiled module."""
    from xla_shmem import _core

    read = read_module(str(module))
    schedules = _core.schedule(read.proto)
    found: Sequence[Overlap] = list(find_overlaps(schedules).values())
    program = program_of_module(read, cluster, options)
    times = run_times(program, "NVSHMEM", Machine(cluster, read_constants()))
    order = tuple(step["name"] for each in schedules for step in each["instructions"])
    return Scheduled(len(found), sum(bool(one.compute or one.controls) for one in found), order, times.exposed)


def compile_three(job: TrainConfig, preset: str, wheels: Path, folder: Path) -> dict[str, Scheduled]:
    """Schedules of a step on a preset of a cluster: with XLA's times, with ours, and with wrong ones."""
    cluster, described = read_cluster(preset), PRESET_TARGETS[preset]
    options = resolve(overrides=RULES)
    target = target_of(cluster, described, job.devices)
    table = perf_table(target, options)
    found = {}
    for name, text in {"XLA's": None, "ours": table, "wrong": slower(table, _SLOWER)}.items():
        path, module = folder / f"{name}.pbtxt", folder / f"{name}.pb"
        flags = []
        if text is not None:
            path.write_text(text)
            flags = [f"--xla_gpu_experimental_collective_perf_table_path={path}", *target.flags]
        compile_step(job, described, wheels, module=module, flags=flags)
        found[name] = schedule_of(module, cluster, options)
    return found


@click.command()
@wheels_option
@click.option("--modules", type=click.Path(file_okay=False, path_type=Path), help="Keep modules and tables here.")
def main(wheels: Path, modules: Path | None) -> None:
    """Compile every step and print the table."""
    click.echo("| step | times | collectives | overlapped with work | exposed, predicted | same order as XLA's |")
    click.echo("|---|---|---:|---:|---:|---|")
    for number, (title, (job, preset)) in enumerate(STEPS.items()):
        with tempfile.TemporaryDirectory() as temporary:
            folder = Path(temporary) if modules is None else modules.resolve() / str(number)
            folder.mkdir(parents=True, exist_ok=True)
            found = compile_three(job, preset, wheels.resolve(), folder)
        for name, one in found.items():
            same = "yes" if one.order == found["XLA's"].order else "no"
            cells = (title, name, str(one.pairs), str(one.overlapped), f"{one.exposed_s * 1e3:.1f} ms", same)
            click.echo(f"| {' | '.join(cells)} |")


if __name__ == "__main__":
    main()
