"""Options that commands which run benchmarks have in common."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

import click

from xla_shmem.bench.plan import Plan
from xla_shmem.options.values import OP_ALIASES, OPS, parse_size

Command = TypeVar("Command", bound=Callable[..., Any])

#: Exit code after Ctrl-C: 128 plus SIGINT.
INTERRUPTED = 130

_DEFAULTS = Plan()


class _Op(click.Choice[str]):
    """The name of an op as HLO spells it, or its short name."""

    def convert(self, value: str, param: click.Parameter | None, ctx: click.Context | None) -> str:
        return super().convert(OP_ALIASES.get(value, value), param, ctx)


def size(least: int) -> Callable[[click.Context, click.Parameter, str], int]:
    """Reads an option's size in bytes: 8, 64K, 128M."""

    def read(ctx: click.Context, param: click.Parameter, text: str) -> int:
        try:
            bytes_ = parse_size(text)
        except ValueError as error:
            raise click.BadParameter(f"'{text}' is not {error}.", ctx, param) from None
        if bytes_ < least:
            raise click.BadParameter(f"{text} is less than {least}.", ctx, param)
        return bytes_

    return read


def job_options(command: Command) -> Command:
    """How many PEs: `processes`, `devices_per_process`."""
    return _with(
        command,
        click.option(
            "-p", "--processes", type=click.IntRange(min=1), default=2, show_default=True, help="Processes of a job."
        ),
        click.option(
            "--devices-per-process",
            type=click.IntRange(min=1),
            default=1,
            show_default=True,
            help="CPU devices of each.",
        ),
    )


def cell_options(ops: str, largest: str, factor: int) -> Callable[[Command], Command]:
    """Which collectives and sizes: `minbytes`, `maxbytes`, `stepfactor`, `ops`; with the defaults given."""

    def decorate(command: Command) -> Command:
        return _with(
            command,
            _size_option("-b", "--minbytes", "8", "Smallest size."),
            _size_option("-e", "--maxbytes", largest, "Largest size."),
            click.option(
                "-f",
                "--stepfactor",
                type=click.IntRange(min=2),
                default=factor,
                show_default=True,
                help="From one size to the next.",
            ),
            click.option(
                "--op",
                "ops",
                type=_Op([*OPS, "all"]),
                multiple=True,
                default=(ops,),
                show_default=True,
                help="Operation; may be given several times.",
            ),
        )

    return decorate


def timing_options(command: Command) -> Command:
    """How long each is timed: `warmup`, `iters`, `rounds`."""
    return _with(
        command,
        click.option(
            "-w",
            "--warmup",
            type=click.IntRange(min=0),
            default=_DEFAULTS.warmup,
            show_default=True,
            help="Untimed collectives before each program.",
        ),
        click.option(
            "-n",
            "--iters",
            type=click.IntRange(min=1),
            help="Collectives of a timed program.  [default: as many as take 200 ms, 10 to 1000]",
        ),
        click.option(
            "--rounds",
            type=click.IntRange(min=1),
            default=_DEFAULTS.rounds,
            show_default=True,
            help="Turns of each variant at each size; two programs are timed in a turn.",
        ),
    )


def bind_option(command: Command) -> Command:
    """Whether ranks have processors of their own: `bind`."""
    return click.option(
        "--bind/--no-bind",
        default=_DEFAULTS.bind,
        show_default=True,
        help="Give each of SHMEM's and gloo's ranks processors of its own; for MPI, mpirun decides.",
    )(command)


def _size_option(short: str, name: str, default: str, words: str) -> Callable[[Command], Command]:
    return click.option(short, name, callback=size(1), default=default, show_default=True, metavar="BYTES", help=words)


def _with(command: Command, *options: Callable[[Command], Command]) -> Command:
    for option in reversed(options):  # so that --help has them in this order
        command = option(command)
    return command
