"""``xla-shmem assign``, the former name of ``xla-shmem inspect --decide``."""

from __future__ import annotations

import click

from xla_shmem.cli.decision_options import decision_options
from xla_shmem.cli.errors import one_sentence_errors
from xla_shmem.cli.former_names import json_option, say_new_name
from xla_shmem.cli.inspect import lowering_option, show_decisions
from xla_shmem.inspect.decision_settings import DecisionSettings
from xla_shmem.inspect.selection import Selection


@click.command("assign", hidden=True)
@click.argument("path", metavar="IN")
@click.option("-o", "--output", metavar="FILE", help="Where to write: the module that the pass has rewritten.")
@lowering_option
@json_option()
@decision_options
@one_sentence_errors
def assign_command(
    path: str, output: str | None, lowering: str | None, as_json: bool, settings: DecisionSettings
) -> None:
    """Former name of `xla-shmem inspect --decide`."""
    say_new_name("assign", "inspect --decide")
    show_decisions(path, Selection(), settings, lowering, output, as_json)
