"""Writes docs/table2.md: Llama 3 8B's training step compiled for each row of Table 2 in NVIDIA's post.

    python tools/table2.py --wheels FOLDER [--modules FOLDER] docs/table2.md

`make table2` fetches the wheels first. It needs no GPU and no driver.
"""

from __future__ import annotations

import dataclasses
import datetime
import importlib.metadata
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

import click

from xla_shmem.gpu_compile.compiled_step import CompiledStep, CompileError, compile_step
from xla_shmem.predict.long_context_job import long_context_job
from xla_shmem.train.config import TrainConfig


@dataclasses.dataclass(frozen=True)
class Row:
    """A row of the table: tokens, and degrees of context and tensor parallelism."""

    sequence: int
    context: int
    tensor: int

    def __str__(self) -> str:
        return f"{self.sequence >> 10}K, CP {self.context}, TP {self.tensor}"

    @property
    def file_name(self) -> str:
        """Name for files of the row, without suffix: `64k-cp4-tp1`."""
        return f"{self.sequence >> 10}k-cp{self.context}-tp{self.tensor}"

    @property
    def devices(self) -> int:
        """GPUs of the job."""
        return self.context * self.tensor

    def job(self) -> TrainConfig:
        """The row's training job."""
        return long_context_job(self.sequence, self.context, self.tensor)


#: The rows of the post's table could not be obtained. Known: 64K, 128K and 256K tokens, CP 4 to 32, TP 1 to 2, 4 to 64
#: GPUs with four per node, and 256K on 8 to 16 nodes. These eight rows are inferred from that.
ROWS = (
    Row(64 << 10, 4, 1),
    Row(64 << 10, 8, 1),
    Row(64 << 10, 16, 1),
    Row(128 << 10, 8, 1),
    Row(128 << 10, 16, 1),
    Row(128 << 10, 32, 1),
    Row(256 << 10, 16, 2),
    Row(256 << 10, 32, 2),
)

TARGET = "gb200"

_BACKENDS = ("NVSHMEM", "DEFAULT")

_INTRODUCTION = """\
# Table 2, compiled without GPUs

`make table2` compiles Llama 3 8B's full training step (forward, backward, AdamW on f32 master weights) for the GPUs of
a GB200 NVL72. JAX's stock CUDA plugin compiles, with the xla-shmem pass on. The GPUs are described, not present:
**nothing on this page was run.** The page shows what XLA allocates and what the pass decides.
[Predict](predict.md) estimates step times from the same modules.

The rows are inferred. NVIDIA's post "Accelerating Long-Context Model Training in JAX and XLA" gives the ranges of its
Table 2: 64K to 256K tokens, context parallelism (CP) 4 to 32, tensor parallelism (TP) 1 to 2, and 256K tokens on 8 and
16 nodes. The table itself could not be looked up.

Every row has one sequence in a step, ring attention, bf16 activations, `--remat full` and `--shard-over-context`.
Written on {today} with {versions}.

## Memory and bytes

GB of a step: bytes of the result on one device, times executions, summed over all collectives.
"""

_REMARKS = """
*Peak* is state, temporaries and the new state. *With donation* the new state overwrites the old one. jax 0.10.2 drops
donation when a compiler pass changes a module ([sharp bits](sharp-bits.md)); use the first number there.

## Decisions

Collectives of all rows by [rule](design.md#the-decision), with the default `XLA_SHMEM_OPS` and the 16 MiB threshold.
"""

#: Bytes of a GPU's memory: 13.4 TB / 72 in the data sheet of the GB200 NVL72, and the H100 SXM5's.
_MEMORIES = {"GB200, 186 GB": 186e9, "H100, 80 GB": 80e9}


def page(compiled: Sequence[tuple[Row, CompiledStep]]) -> str:
    """The page as Markdown."""
    versions = ", ".join(f"{name} {importlib.metadata.version(name)}" for name in ("xla-shmem", "jax", "flax", "optax"))
    today = datetime.date.today()
    parts = [_INTRODUCTION.format(today=today, versions=versions), *_summary(compiled), _REMARKS, *_decisions(compiled)]
    return "\n".join(parts) + "\n"


def _summary(compiled: Sequence[tuple[Row, CompiledStep]]) -> list[str]:
    lines = [
        "| sequence | CP | TP | GPUs | tokens per GPU | peak GB | with donation | fits in "
        "| collectives on NVSHMEM | on DEFAULT | GB a step on NVSHMEM | on DEFAULT | compiled in |",
        "|---:|---:|---:|---:|---:|---:|---:|---|---:|---:|---:|---:|---:|",
    ]
    for row, step in compiled:
        backends = Counter(record["lowered"] for record in step.records)
        fits = [name for name, size in _MEMORIES.items() if step.peak_bytes <= size] or ["none of them"]
        cells = (
            f"{row.sequence >> 10}K",
            str(row.context),
            str(row.tensor),
            str(row.devices),
            f"{row.sequence // row.devices:,}",
            f"{step.peak_bytes / 1e9:.1f}",
            f"{step.peak_with_donation_bytes / 1e9:.1f}",
            "; ".join(fits),
            *(str(backends[backend]) for backend in _BACKENDS),
            *(f"{step.bytes_per_step(backend) / 1e9:.1f}" for backend in _BACKENDS),
            f"{step.seconds:.0f} s",
        )
        lines.append(f"| {' | '.join(cells)} |")
    return lines


def _decisions(compiled: Sequence[tuple[Row, CompiledStep]]) -> list[str]:
    """Counts the collectives by op, backend and rule."""
    decisions = Counter(
        (record["op"], record["lowered"], record["veto"] or f"`{record['rule']}`")
        for _, step in compiled
        for record in step.records
    )
    lines = ["| op | backend | rule | collectives |", "|---|---|---|---:|"]
    lines += [f"| {op} | {backend} | {why} | {count} |" for (op, backend, why), count in sorted(decisions.items())]
    return lines


@click.command()
@click.option(
    "--wheels",
    type=click.Path(exists=True, file_okay=False, path_type=Path),
    required=True,
    help="Folder with the CUDA plugin's wheels, made by scripts/setup_gpu_aot.sh.",
)
@click.option(
    "--modules",
    type=click.Path(file_okay=False, path_type=Path),
    help="Also keep the compiled modules in this folder; tools/compiled_rows.py reads them.",
)
@click.argument("path", type=click.Path(dir_okay=False, path_type=Path))
def main(wheels: Path, modules: Path | None, path: Path) -> None:
    """Compile every row and write the page."""
    compiled = []
    if modules is not None:
        modules.mkdir(parents=True, exist_ok=True)
    for row in ROWS:
        try:
            module = None if modules is None else modules / f"{row.file_name}.pb"
            step = compile_step(row.job(), TARGET, wheels.resolve(), module=module)
        except CompileError as error:
            raise click.ClickException(f"{row}: {error}") from None
        compiled.append((row, step))
        click.echo(f"{row}: {step.seconds:.0f} s, peak {step.peak_bytes / 1e9:.1f} GB per device")
    path.write_text(page(compiled))


if __name__ == "__main__":
    main()
