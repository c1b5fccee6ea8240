"""Writes docs/table2.md: Llama 3 8B's training step compiled for each row of Table 2 in NVIDIA's post.

    python tools/table2.py --wheels FOLDER [--modules FOLDER] docs/table2.md

`make table2` fetches the wheels first and then runs tools/predict_page.py, which fills the first table. No GPU and no
driver are needed.
"""

from __future__ import annotations

import datetime
import importlib.metadata
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

import click

from gpu_compile.compiled_step import CompiledStep, CompileError, compile_step
from published import TABLE2, Row
from wheels_option import wheels_option

TARGET = "gb200"

_BACKENDS = ("NVSHMEM", "DEFAULT")

_INTRODUCTION = """\
# Table 2

The eight rows of Table 2 in NVIDIA's post "Accelerating Long-Context Model Training in JAX and XLA": Llama 3 8B, BF16,
MaxText with ring attention, GB200 NVL72. *Tokens* are sequence / CP. *Measured* are the post's TFLOP/s of a GPU, means
of iterations 3 to 20 in rank 0's log. *Ours* is what [predict](predict.md) expects of the step of `xla-shmem train`,
compiled as below; **nothing of ours was run**.

<!-- table: published -->
<!-- end -->

With TP 1 the post's gains are −0.2 % to 3.9 %, with TP 2 30 % and more, both at 32 GPUs. Predict has a
[mechanism](predict.md#table-2-predicted) for most of that. Ours is slower on both backends, because it computes the
forward of attention twice. It is expected to gain more with TP 1, because XLA does not overlap the gradients of its
ring.

Table 1 of the post has FSDP 1 to 2. In Table 2 GPUs are CP × TP, which leaves FSDP 1. MaxText then shards parameters
over the context axis (its step in openxla/xla, `hlo_llama3_8b_cp_bf16_1x4.hlo`), as `--shard-over-context` does. Batch
and remat are not published. Ours have one sequence a step and `--remat full`; MaxText's command in openxla/xla pull
request 31108 keeps the results of matmuls and attention (`minimal_flash`).

MaxText's own step, [compiled in the same way](maxtext.md#compiled-for-table-2), sends as many bytes over NVSHMEM as
ours with TP 1. With TP 2 it sends fewer: the tensor axis has all-gathers and reduce-scatters, which stay on NCCL, where
ours has permutes.

## Compiled without GPUs

`make table2` compiles Llama 3 8B's full training step (forward, backward, AdamW on f32 master weights) for the GPUs of
a GB200 NVL72. JAX's stock CUDA plugin compiles, with the xla-shmem pass on. The GPUs are described, not present. The
tables show what XLA allocates and what the pass decides.
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
        "| sequence | CP | TP | GPUs | tokens | peak GB | with donation | fits in "
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
            f"{row.tokens:,}",
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
@wheels_option
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
    for row in TABLE2:
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
