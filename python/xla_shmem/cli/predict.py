"""``xla-shmem predict``."""

from __future__ import annotations

import importlib.metadata
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import click

from long_context.cli.config_options import config_options, from_options
from long_context.train.config import TrainConfig
from long_context.train.throughput import step_flops
from xla_shmem.cli.errors import one_sentence_errors
from xla_shmem.cli.former_names import json_option
from xla_shmem.gpu_compile.compiled_step import CompileError, compile_step
from xla_shmem.hlo.files import HloInput, read_module, read_modules
from xla_shmem.options import resolve
from xla_shmem.predict.cluster import read_cluster
from xla_shmem.predict.constants import read_constants
from xla_shmem.predict.errors import PredictError
from xla_shmem.predict.forecast import Forecast, forecast
from xla_shmem.predict.long_context_job import long_context_job
from xla_shmem.predict.modules import program_of_module
from xla_shmem.predict.report import print_json, print_tables
from xla_shmem.predict.sketch import sketch
from xla_shmem.predict.walk import Machine

#: Fields of a job that the time of a step does not depend on.
_LEFT_OUT = (
    "steps", "learning_rate", "warmup_steps", "seed", "corpus", "token_dtype", "output", "checkpoint_every",
    "checkpoints_kept", "resume",
)  # fmt: skip

#: Defaults of a job: the first row of Table 2 (docs/predict.md).
_DEFAULTS = {name: value for name, value in vars(long_context_job()).items() if name not in _LEFT_OUT}


@click.command("predict")
@click.argument("paths", nargs=-1, metavar="[PATH...]")
@click.option(
    "--cluster",
    default="gb200-nvl72",
    show_default=True,
    metavar="NAME|FILE",
    help="Cluster that the estimate is for.",
)
@click.option(
    "--sketch", "sketched", is_flag=True, help="Estimate the job's program from its sizes instead of compiling it."
)
@click.option(
    "--wheels",
    type=click.Path(file_okay=False, path_type=Path),
    help="Folder of the CUDA plugin's wheels, for compiling a job.  [default: .venv-gpu-<release of jax>]",
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
@click.option("--fp8-peak", is_flag=True, help="Assume FP8 matmuls in PATH; for a job, give --fp8.")
@json_option()
@config_options(_LEFT_OUT, _DEFAULTS)
@one_sentence_errors
def predict_command(
    paths: tuple[str, ...],
    cluster: str,
    sketched: bool,
    wheels: Path | None,
    fused_attention: bool,
    connected_components: bool,
    fp8_peak: bool,
    as_json: bool,
    config: Path | None,
    **fields: Any,
) -> None:
    """Predict step time, exposed communication and TFLOP/s on NCCL and on NVSHMEM.

    PATH is a compiled GPU module in any form that `xla-shmem inspect` reads. Without PATH, a training job is compiled
    for the cluster's GPUs; no GPU is needed. By default the job is Llama 3 8B with parameters sharded over the context
    axis and full remat. NVSHMEM stands for the decisions of the pass with the options in force, DEFAULT for NCCL only.

    A cluster is a preset (gb200-nvl72, h100-sxm, h200-sxm) or a TOML file with the same keys. The results are estimates
    and not measurements; docs/predict.md gives their accuracy.

    \b
    Examples:
      xla-shmem predict /tmp/dump --cluster h100-sxm
      xla-shmem predict --sequence 262144 --context 32 --tensor 2
      xla-shmem predict --sequence 1048576 --context 128 --tensor 8 --sketch --cluster my-cluster.toml --json
    """
    place = read_cluster(cluster)
    if paths:
        _refuse_job(config, sketched, fields)
        machine = Machine(place, read_constants(), fp8_peak, fused_attention, connected_components)
        forecasts = [
            forecast(f"{module.name} ({module.source})", program_of_module(module, place, resolve()), machine)
            for path in paths
            for module in _with_collectives(path)
        ]
    else:
        job = from_options(config, fields, _DEFAULTS)
        if job.devices < 2:
            raise PredictError(
                "the job is for one device, which has no other to send to; give --context or another axis."
            )
        machine = Machine(place, read_constants(), job.fp8 or fp8_peak, fused_attention, connected_components)
        forecasts = [_forecast_job(job, machine, None if sketched else _found(wheels))]
    (print_json if as_json else print_tables)(forecasts, machine)


def _refuse_job(config: Path | None, sketched: bool, fields: dict[str, Any]) -> None:
    given = [name for name, value in fields.items() if value is not None]
    if config is not None or sketched or given:
        what = f"--{given[0].replace('_', '-')}" if given else "--config" if config is not None else "--sketch"
        raise PredictError(f"{what} describes a job, and PATH is a compiled program; give one of them.")


def _with_collectives(path: str) -> Iterator[HloInput]:
    from xla_shmem import _core

    modules = list(read_modules(path))
    found = []
    for module in modules:
        try:
            if _core.inspect_module(module.proto):
                found.append(module)
        except ValueError as error:
            raise PredictError(f"{module.source}: {error}") from None
    if not found:
        raise PredictError(f"{path}: none of {len(modules)} modules has a collective; predict needs at least one.")
    yield from found


def _found(wheels: Path | None) -> Path:
    folder = wheels or Path(f".venv-gpu-{importlib.metadata.version('jax')}")
    if not folder.is_dir():
        raise PredictError(
            f"{folder} does not exist; compiling for GPUs needs the CUDA plugin's wheels: run "
            "scripts/setup_gpu_aot.sh in the sources and name its folder with --wheels, or give --sketch."
        )
    return folder.resolve()


def _forecast_job(job: TrainConfig, machine: Machine, wheels: Path | None) -> Forecast:
    """Compiles the job with the wheels; without wheels, estimates its program."""
    cluster = machine.cluster
    cluster.check_size(job.devices)
    if wheels is None:
        program = sketch(job, cluster)
    else:
        with tempfile.TemporaryDirectory() as folder:
            module = Path(folder) / "step.pb"
            try:
                compile_step(job, cluster.xla_target, wheels, module=module)
            except CompileError as error:
                raise PredictError(f"the job cannot be compiled: {error}") from None
            program = program_of_module(read_module(str(module)), cluster, resolve())
    title = f"{job.preset}, {job.sequence:,} tokens, {job.mesh()}{', sketched' if wheels is None else ''}"
    return forecast(title, program, machine, step_flops(job.model(), job.batch, job.sequence))
