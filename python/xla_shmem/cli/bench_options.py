"""Options that bench and tune have in common."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

import click

from xla_shmem.bench.plan import Plan
from xla_shmem.cli.job_options import bind_option, devices_option, num_ranks_option, platform_option, rounds_option
from xla_shmem.cli.list_options import op_option
from xla_shmem.options.values import parse_size

Command = TypeVar("Command", bound=Callable[..., Any])

_DEFAULTS = Plan()


def size(least: int) -> Callable[[str], int]:
    """Returns a reader of sizes in bytes: 8, 64K, 128M; at least `least`."""

    def read(text: str) -> int:
        try:
            bytes_ = parse_size(text)
        except ValueError as error:
            raise click.BadParameter(f"'{text}' is not {error}.") from None
        if bytes_ < least:
            raise click.BadParameter(f"{text} is less than {least}.")
        return bytes_

    return read


def bench_job_options(command: Command) -> Command:
    """Which job is measured: `platform`, `num_ranks`, `devices_per_process`, `bind`, `launcher`."""
    return _with(
        command,
        platform_option(),
        num_ranks_option(_DEFAULTS.processes),
        devices_option(".", _DEFAULTS.devices_per_process),
        bind_option("; mpirun decides for MPI's ranks."),
        click.option(
            "--launcher",
            default=_DEFAULTS.launcher,
            metavar="COMMAND",
            help="Command that starts the ranks, on several hosts; their program follows as its last arguments.  "
            "[default: xla-shmem launch]",
        ),
    )


def cell_options(ops: str, largest: str, factor: int) -> Callable[[Command], Command]:
    """Which collectives and sizes: `ops`, `min_bytes`, `max_bytes`, `step_factor`; with the defaults given."""

    def decorate(command: Command) -> Command:
        return _with(
            command,
            op_option("Collective", everything=True, default=(ops,)),
            _size_option("-b", "--min-bytes", "8", "Smallest size, of the larger buffer of a PE."),
            _size_option("-e", "--max-bytes", largest, "Largest size, of the larger buffer of a PE."),
            click.option(
                "-f",
                "--step-factor",
                type=click.IntRange(min=2),
                metavar="N",
                default=factor,
                show_default=True,
                help="Each size is this many times the one before it.",
            ),
        )

    return decorate


def timing_options(command: Command) -> Command:
    """How long each is timed: `warmup`, `iterations`, `rounds`."""
    return _with(
        command,
        click.option(
            "-w",
            "--warmup",
            type=click.IntRange(min=0),
            metavar="N",
            default=_DEFAULTS.warmup,
            show_default=True,
            help="Untimed collectives at the beginning of each program.",
        ),
        click.option(
            "--iterations",
            type=click.IntRange(min=1),
            metavar="N",
            help="Timed collectives of each program.  [default: as many as take 200 ms, 10 to 1000]",
        ),
        rounds_option(_DEFAULTS.rounds, ", two timed programs each, at each size"),
    )


def _size_option(short: str, name: str, default: str, words: str) -> Callable[[Command], Command]:
    return click.option(short, name, type=size(1), metavar="SIZE", default=default, show_default=True, help=words)


def _with(command: Command, *options: Callable[[Command], Command]) -> Command:
    for option in reversed(options):  # so that --help has them in this order
        command = option(command)
    return command
