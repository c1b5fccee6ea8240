"""``xla-shmem options``."""

from __future__ import annotations

import json
import os
import shutil
import textwrap
from typing import Any

import click

from xla_shmem.cli.job_options import json_option


@click.command("options")
@json_option
def options_command(as_json: bool) -> None:
    """List the options: variables XLA_SHMEM_*, defaults, values and meaning.

    Each is also a keyword of xla_shmem.configure(), in lower case and without the prefix XLA_SHMEM_.

    The exit code is 2 if a variable of this environment looks like an option and is none.

    \b
    Examples:
      xla-shmem options | less
      xla-shmem options --json | jq '.[] | select(.on_gpu) | .variable'
    """
    from xla_shmem.options.given import check_names
    from xla_shmem.options.table import TABLE

    if as_json:
        click.echo(json.dumps([_as_json(option) for option in TABLE.values()], indent=2, ensure_ascii=False))
    else:
        width = min(shutil.get_terminal_size().columns, 110)
        click.echo("\n\n".join(_entry(option, width) for option in TABLE.values()))
    check_names(os.environ)


def _entry(option: Any, width: int) -> str:
    lines = (f"Values: {option.values}.", option.text.replace("`", "'"))
    # A value such as all-gather stays in one piece.
    wrapped = (
        textwrap.fill(line, width, initial_indent="    ", subsequent_indent="    ", break_on_hyphens=False)
        for line in lines
    )
    return "\n".join([f"{option.env}  [default: {option.default or 'unset'}]", *wrapped])


def _as_json(option: Any) -> dict[str, object]:
    return {
        "variable": option.env,
        "keyword": option.name,
        "default": option.default or None,
        "values": option.values,
        "example": option.example,
        "text": option.text,
        "on_cpu": option.on_cpu,
        "on_gpu": option.on_gpu,
        "in_tools": option.in_tools,
        "in_patched_jaxlib": option.in_patched_jaxlib,
        "equal_on_ranks": option.decides,
    }
