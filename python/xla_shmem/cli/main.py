"""The command ``xla-shmem``."""

from __future__ import annotations

import importlib
import os
from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

import click

from xla_shmem.cli.one_sentence_errors import one_sentence_errors
from xla_shmem.errors import UserError

#: Group, command and its line in ``--help``. A command is imported when it is used, so that ``--help`` needs neither
#: JAX nor the compiled module: `xla_shmem.cli.<command>` holds `<command>_command`, except for `_ELSEWHERE`.
_GROUPS: Mapping[str, Mapping[str, str]] = MappingProxyType(
    {
        "Run": {
            "launch": "Run a program as several local ranks.",
            "train": "Train a Llama decoder on a mesh of devices.",
        },
        "Understand": {
            "inspect": "Show every collective of compiled modules: backend, rule and reason.",
            "doctor": "Show whether the flag will work here, and the first thing to fix.",
            "postmortem": "Show which PE of a job waits for which other PE.",
            "options": "List the XLA_SHMEM_* variables: default, values and meaning.",
        },
        "Measure": {
            "bench": "Time collectives on SHMEM, on stock JAX and over MPI.",
            "tune": "Measure which backend is faster here, for profile tuned.",
            "compare": "Time a training job on SHMEM and on the default backend.",
            "demo": "Train a small Llama on SHMEM and on stock collectives, and compare.",
        },
        "Estimate": {
            "predict": "Predict step time and exposed communication on NCCL and on NVSHMEM.",
        },
    }
)

_COMMANDS = tuple(command for commands in _GROUPS.values() for command in commands)

#: Commands of distributions of their own, and what installs those. They are found by entry points of the group
#: `xla_shmem.commands`.
_ELSEWHERE = MappingProxyType(dict.fromkeys(("train", "compare", "demo"), "pip install ./python/long_context"))


#: Commands that work with a wrong environment, because they say what is wrong with it.
_EXPLAIN = ("doctor", "options")


class _GroupedCommands(click.Group):
    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(_COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in _COMMANDS:
            return None
        if cmd_name in _ELSEWHERE:
            return _from_elsewhere(cmd_name)
        command = getattr(importlib.import_module(f"xla_shmem.cli.{cmd_name}"), f"{cmd_name}_command")
        assert isinstance(command, click.Command)
        return command

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        if not ctx.resilient_parsing:  # as while a shell completes
            _check_command(ctx, args[0])
            if args[0] not in _EXPLAIN and not {"-h", "--help"}.intersection(args):
                _check_variables()
        return super().resolve_command(ctx, args)

    @one_sentence_errors
    def invoke(self, ctx: click.Context) -> Any:
        return super().invoke(ctx)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        width = max(map(len, _COMMANDS))
        for group, commands in _GROUPS.items():
            with formatter.section(group):
                formatter.write_dl([(command.ljust(width), help_) for command, help_ in commands.items()])


def _check_command(ctx: click.Context, name: str) -> None:
    if name in _COMMANDS or name.startswith("-"):
        return
    import difflib  # `--help` does not need it

    near = difflib.get_close_matches(name, _COMMANDS, n=1)
    hint = f"did you mean {near[0]}?" if near else f"choose one of {', '.join(_COMMANDS)}."
    ctx.fail(f"No such command '{name}'; {hint}")


def _check_variables() -> None:
    if any(name.startswith("XLA_SHMEM_") for name in os.environ):
        from xla_shmem.options.given import check_names

        check_names(os.environ)


def _from_elsewhere(name: str) -> click.Command:
    """Returns the command of another distribution; if that is not installed, one that says so whatever it is given."""
    from importlib.metadata import entry_points  # `--help` does not need it

    for entry_point in entry_points(group="xla_shmem.commands", name=name):
        command = entry_point.load()
        assert isinstance(command, click.Command)
        return command

    @click.command(name, add_help_option=False, context_settings={"ignore_unknown_options": True})
    @click.argument("arguments", nargs=-1, type=click.UNPROCESSED)
    def say_what_to_install(arguments: tuple[str, ...]) -> None:
        raise UserError(
            f"{name} is a command of the package long-context, which is not installed; in a clone of xla-shmem run: "
            f"{_ELSEWHERE[name]}"
        )

    return say_what_to_install


@click.group(cls=_GroupedCommands, context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 110})
@click.version_option(package_name="xla-shmem", prog_name="xla-shmem")
def main() -> None:
    """Put/signal collectives for stock JAX, chosen per collective by an XLA compiler pass.

    Programs do not need this command: install the package and set
    XLA_FLAGS=--xla_gpu_experimental_enable_nvshmem=true. The commands run local jobs, show decisions and
    problems, measure, and estimate.

    Exit codes: 0 for success, 1 for a job or a check that failed, 2 for wrong use.
    """
