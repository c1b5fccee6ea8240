"""``xla-shmem options``."""

from __future__ import annotations

import shutil

import click


@click.command("options")
def options_command() -> None:
    """List the options: variables XLA_SHMEM_*, defaults, values and meaning.

    Each is also a keyword of xla_shmem.configure(), in lower case and without the prefix XLA_SHMEM_.

    \b
    Example:
      xla-shmem options | less
    """
    from xla_shmem.options.table import TABLE

    width = min(shutil.get_terminal_size().columns, 110)
    entries = []
    for option in TABLE.values():
        lines = (f"Values: {option.values}.", option.text.replace("`", "'"))
        wrapped = (click.wrap_text(line, width, "    ", "    ") for line in lines)
        entries.append("\n".join([f"{option.env}  [default: {option.default or 'unset'}]", *wrapped]))
    click.echo("\n\n".join(entries))
