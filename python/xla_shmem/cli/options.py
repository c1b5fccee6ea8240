"""``xla-shmem options``."""

from __future__ import annotations

import click

from xla_shmem.options.table import markdown_table


@click.command("options")
def options_command() -> None:
    """Print the table of XLA_SHMEM_* variables (Markdown).

    Each is also a keyword of xla_shmem.configure(), in lower case and without the prefix XLA_SHMEM_.
    """
    click.echo(markdown_table(), nl=False)
