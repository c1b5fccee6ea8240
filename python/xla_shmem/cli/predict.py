"""``xla-shmem predict``."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import click

from xla_shmem.cli.job_options import json_option
from xla_shmem.errors import PredictError
from xla_shmem.hlo.files import HloInput, read_modules, why_unpartitioned
from xla_shmem.options import resolve
from xla_shmem.predict.cluster import preset_names, read_cluster
from xla_shmem.predict.constants import read_constants
from xla_shmem.predict.forecast import forecast
from xla_shmem.predict.module_program import program_of_module
from xla_shmem.predict.printed_forecasts import print_json, print_tables
from xla_shmem.predict.program import Backend
from xla_shmem.predict.walk import Machine
from xla_shmem.runtime.gpu_flags import chosen_flags, with_flags

if TYPE_CHECKING:
    from xla_shmem import _core

#: Several, of one device each.
_PROCESSES = 2


@click.command("predict")
@click.argument("paths", nargs=-1, metavar="PATH...")
@click.option(
    "--cluster",
    default="gb200-nvl72",
    show_default=True,
    metavar="NAME|FILE",
    shell_complete=lambda ctx, param, begun: [name for name in preset_names() if name.startswith(begun)],
    help="Cluster that the estimate is for.",
)
@click.option(
    "--fused-attention/--compiled-attention",
    default=True,
    show_default=True,
    help="Count loops without collectives as one kernel that keeps scores on the chip, or as XLA compiled them.",
)
@click.option(
    "--connected-components",
    is_flag=True,
    help="Assume --xla_gpu_collective_permute_connected_components for NCCL: small communicators for permutes.",
)
@click.option(
    "--tuning",
    type=click.Path(dir_okay=False, path_type=Path),
    metavar="FILE",
    help="Table of profile tuned, of any machine: it decides, and its times count.  "
    "[default: with XLA_SHMEM_PROFILE=tuned its table]",
)
@click.option("--fp8-peak", is_flag=True, help="Assume that the matmuls are in FP8.")
@json_option
def predict_command(
    paths: tuple[str, ...],
    cluster: str,
    fused_attention: bool,
    connected_components: bool,
    tuning: Path | None,
    fp8_peak: bool,
    as_json: bool,
) -> None:
    """Predict step time, exposed communication and TFLOP/s on NCCL and on NVSHMEM.

    PATH is a compiled GPU module in any form that `xla-shmem inspect` reads. NVSHMEM stands for the decisions of the
    pass with the options in force, DEFAULT for NCCL only.

    A cluster is a preset (gb200-nvl72, h100-sxm, h200-sxm) or a TOML file with the same keys. The results are estimates
    and not measurements; docs/predict.md gives their accuracy.

    \b
    Examples:
      XLA_FLAGS=--xla_dump_to=/tmp/dump python train.py
      xla-shmem predict /tmp/dump --cluster h100-sxm
      xla-shmem predict /tmp/dump --cluster my-cluster.toml --json
      xla-shmem predict /tmp/dump --cluster h100-sxm --tuning ~/.config/xla-shmem/tuning.json
    """
    if not paths:
        raise click.UsageError(
            "Missing PATH, a compiled GPU program: name a folder that a job wrote with XLA_FLAGS=--xla_dump_to=FOLDER."
        )
    place = read_cluster(cluster)
    options = resolve(overrides={"profile": "tuned", "tuning": tuning} if tuning else {}, any_machine=True)
    measured: dict[Backend, _core.TuningTable] = {}
    if table := options.tuning:
        if table.platform != "gpu":
            raise PredictError(f"{tuning or 'The tuning table'} has times of CPUs, and predict is for GPUs.")
        with_ways = with_flags(chosen_flags(options, _PROCESSES, {}), table)
        options = dataclasses.replace(options, tuning=with_ways)
        measured = {"DEFAULT": table.core("gpu"), "NVSHMEM": with_ways.core("gpu")}
    machine = Machine(place, read_constants(), fp8_peak, fused_attention, connected_components, measured)
    forecasts = [
        forecast(f"{module.name} ({module.source})", program_of_module(module, place, options), machine)
        for path in paths
        for module in _with_collectives(path)
    ]
    (print_json if as_json else print_tables)(forecasts, machine)


def _with_collectives(path: str) -> Iterator[HloInput]:
    from xla_shmem import _core

    modules = list(read_modules(path))
    found = []
    for module in modules:
        if module.header["awaits_partitioning"]:
            raise PredictError(why_unpartitioned(module))
        try:
            if _core.inspect_module(module.proto):
                found.append(module)
        except ValueError as error:
            raise PredictError(f"{module.source}: {error}") from None
    if not found:
        raise PredictError(f"{path}: none of {len(modules)} modules has a collective; predict needs at least one.")
    yield from found
