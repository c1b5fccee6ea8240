"""The option of tools that compile for GPUs."""

from __future__ import annotations

from pathlib import Path

import click

wheels_option = click.option(
    "--wheels",
    type=click.Path(exists=True, file_okay=False, path_type=Path),
    required=True,
    help="Folder with the CUDA plugin's wheels, made by scripts/setup_gpu_aot.sh.",
)
