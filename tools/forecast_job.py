"""Predicts the step of a training job that nobody has run: `xla-shmem predict` for a job instead of a dump.

    python tools/forecast_job.py --sequence 262144 --context 32 --tensor 2 --wheels FOLDER
    python tools/forecast_job.py --config job.toml --cluster h100-sxm --json

The job is Llama 3 8B on one long sequence, the first row of Table 2 (docs/predict.md), with the keys of the file of
`--config` in place of its own. With `--wheels` it is compiled for the cluster's GPUs; no GPU is needed. Without, its
program is laid out by hand (`sketch.py`).
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import click

from gpu_compile.compiled_step import compile_step
from gpu_compile.described_gpus import PRESET_TARGETS
from long_context.train.config import TrainConfig
from long_context.train.config_file import read_config_file
from long_context.train.throughput import step_flops
from long_context_job import long_context_job
from sketch import sketch
from xla_shmem.cli.one_sentence_errors import one_sentence_errors
from xla_shmem.errors import PredictError
from xla_shmem.hlo.files import read_module
from xla_shmem.options import resolve
from xla_shmem.predict.cluster import Cluster, read_cluster
from xla_shmem.predict.constants import read_constants
from xla_shmem.predict.forecast import Forecast, forecast
from xla_shmem.predict.module_program import program_of_module
from xla_shmem.predict.printed_forecasts import print_json, print_tables
from xla_shmem.predict.program import Program
from xla_shmem.predict.walk import Machine

_DEFAULTS = long_context_job()


def read_job(config: Path | None, **sizes: int | None) -> TrainConfig:
    """The job of a file and of sizes that take precedence.

    Raises:
      ConfigError: the file cannot be read, or the job cannot run.
      PredictError: the job has a single device.
    """
    fields: dict[str, Any] = vars(_DEFAULTS) | (read_config_file(config) if config is not None else {})
    job = TrainConfig(**fields | {name: size for name, size in sizes.items() if size is not None})
    if job.devices < 2:
        raise PredictError("the job is for one device, which has no other to send to; give --context or another axis.")
    return job


def forecast_job(job: TrainConfig, machine: Machine, target: str, wheels: Path | None) -> Forecast:
    """Predicts the job's step.

    Args:
      job: the job.
      machine: what it runs on.
      target: description of the GPUs for which it is compiled.
      wheels: folder of the CUDA plugin's wheels; None for a sketch of the program.

    Raises:
      PredictError: the job does not fit the cluster, or cannot be sketched.
      CompileError: it cannot be compiled.
    """
    machine.cluster.check_size(job.devices)
    program = sketch(job, machine.cluster) if wheels is None else _compiled(job, machine.cluster, target, wheels)
    title = f"{job.preset}, {job.sequence:,} tokens, {job.mesh()}{', sketched' if wheels is None else ''}"
    return forecast(title, program, machine, step_flops(job.model(), job.batch, job.sequence))


def _compiled(job: TrainConfig, cluster: Cluster, target: str, wheels: Path) -> Program:
    with tempfile.TemporaryDirectory() as folder:
        module = Path(folder) / "step.pb"
        compile_step(job, target, wheels.resolve(), module=module)
        return program_of_module(read_module(str(module)), cluster, resolve())


def _size(name: str, words: str, default: int) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    return click.option(name, type=click.IntRange(min=1), metavar="N", help=f"{words}.  [default: {default}]")


@click.command()
@click.option("--config", type=click.Path(exists=True, dir_okay=False, path_type=Path), help="Keys of the job, TOML.")
@_size("--sequence", "Tokens in a sequence", _DEFAULTS.sequence)
@_size("--context", "Devices that split the sequence", _DEFAULTS.context)
@_size("--tensor", "Devices that split heads and hidden features", _DEFAULTS.tensor)
@click.option("--cluster", default="gb200-nvl72", show_default=True, metavar="NAME|FILE", help="What it runs on.")
@click.option("--target", help="Description in gpu_compile/targets to compile for.  [default: the preset's, or gb200]")
@click.option(
    "--wheels",
    type=click.Path(exists=True, file_okay=False, path_type=Path),
    help="Compile, with the CUDA plugin's wheels in this folder (scripts/setup_gpu_aot.sh).",
)
@click.option("--json", "as_json", is_flag=True, help="Print JSON instead of text.")
@one_sentence_errors
def main(
    config: Path | None, cluster: str, target: str | None, wheels: Path | None, as_json: bool, **sizes: int | None
) -> None:
    """Predict the step of a job on NCCL and on NVSHMEM."""
    job = read_job(config, **sizes)
    machine = Machine(read_cluster(cluster), read_constants(), job.fp8)
    found = forecast_job(job, machine, target or PRESET_TARGETS.get(cluster, "gb200"), wheels)
    (print_json if as_json else print_tables)([found], machine)


if __name__ == "__main__":
    main()
