"""Writes docs/data/table2.json: Llama 3 8B's training step compiled for each row of Table 2 in NVIDIA's post.

    python tools/table2.py --wheels FOLDER [--modules FOLDER] docs/data/table2.json

`make table2` fetches the wheels first and then runs tools/predict_page.py. No GPU and no driver are needed.
"""

from __future__ import annotations

import datetime
import importlib.metadata
import json
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import click

from gpu_compile.compiled_step import CompiledStep, CompileError, compile_step
from published import TABLE2, Row
from wheels_option import wheels_option

TARGET = "gb200"

_BACKENDS = ("NVSHMEM", "DEFAULT")
_PACKAGES = ("xla-shmem", "jax", "flax", "optax")


def report(compiled: Sequence[tuple[Row, CompiledStep]]) -> dict[str, Any]:
    """Memory, bytes and decisions of all rows.

    Returns:
      Bytes in GB of 10^9. `peak_gb` is state, temporaries and the new state; with donation the new state overwrites the
      old one. `gb_a_step_on_...` is bytes of the result on one device, times executions, over all collectives.
    """
    return {
        "date": str(datetime.date.today()),
        "versions": ", ".join(f"{name} {importlib.metadata.version(name)}" for name in _PACKAGES),
        "rows": [_row(row, step) for row, step in compiled],
        "decisions": _decisions(compiled),
    }


def _row(row: Row, step: CompiledStep) -> dict[str, Any]:
    backends = Counter(record["lowered"] for record in step.records)
    return {
        "sequence": f"{row.sequence >> 10}K",
        "cp": row.context,
        "tp": row.tensor,
        "gpus": row.devices,
        "tokens": row.tokens,
        "peak_gb": round(step.peak_bytes / 1e9, 1),
        "peak_with_donation_gb": round(step.peak_with_donation_bytes / 1e9, 1),
        **{f"collectives_on_{backend.lower()}": backends[backend] for backend in _BACKENDS},
        **{f"gb_a_step_on_{backend.lower()}": round(step.bytes_per_step(backend) / 1e9, 1) for backend in _BACKENDS},
        "compiled_in_s": round(step.seconds),
    }


def _decisions(compiled: Sequence[tuple[Row, CompiledStep]]) -> list[dict[str, Any]]:
    """Counts the collectives by op, backend and rule."""
    decisions = Counter(
        (record["op"], record["lowered"], record["veto"] or record["rule"])
        for _, step in compiled
        for record in step.records
    )
    return [
        {"op": op, "backend": backend, "rule": why, "collectives": count}
        for (op, backend, why), count in sorted(decisions.items())
    ]


@click.command()
@wheels_option
@click.option(
    "--modules",
    type=click.Path(file_okay=False, path_type=Path),
    help="Also keep the compiled modules in this folder; tools/compiled_rows.py reads them.",
)
@click.argument("path", type=click.Path(dir_okay=False, path_type=Path))
def main(wheels: Path, modules: Path | None, path: Path) -> None:
    """Compile every row and write the file."""
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
    path.write_text(json.dumps(report(compiled), indent=1) + "\n")


if __name__ == "__main__":
    main()
