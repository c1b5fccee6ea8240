"""Prints the memory in docs/data/training.json: Llama 3.1 8B with 16,384 tokens on 8 GPUs of 40 GB.

    python tools/long_sequence_memory.py --wheels FOLDER [--only NAME]

The job is that of "Efficiently train models with large sequence lengths using Amazon SageMaker model parallel", with
hybrid shard degree 8 and bf16. There it runs out of memory without context parallelism and runs with degree 8. Here
XLA compiles it for 8 described A100s and says what it would allocate. No GPU and no driver are needed.
"""

from __future__ import annotations

import dataclasses
from pathlib import Path

import click

from gpu_compile.compiled_step import CompiledStep, compile_step
from long_context.train.config import TrainConfig
from wheels_option import wheels_option

TARGET = "a100"
GIB = 1 << 30

#: Memory that the publication's out-of-memory message gives for one GPU.
MEMORY = 39.38 * GIB


def job(sequences: int, remat: str) -> TrainConfig:
    """The job with this number of sequences at a time; if there is one, the GPUs share it."""
    return TrainConfig(
        preset="llama3.1-8b",
        sequence=16384,
        batch=sequences,
        data=sequences,
        context=8 // sequences,
        hybrid_shard_degree=8,
        attention="gather",
        dtype="bf16",
        remat=remat,
    )


#: Rows of the table: sequences at a time and remat by name.
JOBS = {
    "no CP": job(8, "none"),
    "CP 8": job(1, "none"),
    "no CP, remat full": job(8, "full"),
    "CP 8, remat full": job(1, "full"),
    "no CP, remat offload": job(8, "offload"),
    "CP 8, remat offload": job(1, "offload"),
}


def row(name: str, step: CompiledStep) -> str:
    """A row of the table; GiB of one GPU."""
    cells = (step.state_bytes, step.temporary_bytes, step.peak_with_donation_bytes, step.host_bytes)
    fits = "yes" if step.peak_with_donation_bytes <= MEMORY else "no"
    return f"| {name} | {' | '.join(f'{size / GIB:.2f}' for size in cells)} | {fits} |"


@click.command()
@wheels_option
@click.option("--layers", type=int, help="Layers, instead of the model's 32.")
@click.option("--only", type=click.Choice(list(JOBS)), multiple=True, help="Rows to compile; by default all.")
def main(wheels: Path, layers: int | None, only: tuple[str, ...]) -> None:
    """Compile the jobs and print the table."""
    click.echo(
        "| 16,384 tokens | state | temporaries | both | on the host | fits in 39.38 |\n|---|---:|---:|---:|---:|---|"
    )
    for name in only or JOBS:
        config = dataclasses.replace(JOBS[name], layers=layers)
        click.echo(row(name, compile_step(config, TARGET, wheels.resolve())))


if __name__ == "__main__":
    main()
