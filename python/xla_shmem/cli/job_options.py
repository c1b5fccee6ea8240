"""Options of every command that starts a job, and how such a command ends on Ctrl-C."""

from __future__ import annotations

import contextlib
import os
import signal
from collections.abc import Callable, Iterator
from typing import Any, TypeVar

import click

from xla_shmem.errors import BenchError
from xla_shmem.gpu.chosen_gpus import PLATFORMS, chosen_gpus
from xla_shmem.gpu.chosen_gpus import Gpus as Gpus

Command = TypeVar("Command", bound=Callable[..., Any])

#: Of every command that reports: `as_json`.
json_option = click.option("--json", "as_json", is_flag=True, help="Print JSON instead of text.")

#: Exit code after Ctrl-C: 128 plus SIGINT.
INTERRUPTED = 130


def num_ranks_option(default: int | None = None) -> Callable[[Command], Command]:
    """Number of ranks: `num_ranks`; required if there is no default."""
    given: dict[str, Any] = {"required": True} if default is None else {"default": default, "show_default": True}
    return click.option(
        "-n",
        "--num-ranks",
        type=click.IntRange(min=1),
        metavar="N",
        help="Ranks of the job, one local process each.",
        **given,
    )


def devices_option(details: str, default: int | None = None) -> Callable[[Command], Command]:
    """Devices of a rank: `devices_per_process`. `details` end the help's first sentence."""
    return click.option(
        "--devices-per-process",
        type=click.IntRange(min=1),
        metavar="K",
        default=default,
        show_default=default is not None,
        help=f"Devices of each process{details}",
    )


def platform_option() -> Callable[[Command], Command]:
    """Where the ranks run: `platform`."""
    return click.option(
        "--platform",
        type=click.Choice(PLATFORMS),
        default="auto",
        show_default=True,
        help="Devices of the ranks. auto follows JAX_PLATFORMS; without it, GPUs if there is one for each rank.",
    )


def gpus_of_ranks(platform: str, ranks: int) -> Gpus | None:
    """The GPUs of a job in which each rank has its own, on any backend; None for the CPU.

    Args:
      platform: value of `platform_option`.
      ranks: ranks of the largest job.

    Raises:
      UserError: there are not enough GPUs.
    """
    gpus = chosen_gpus(platform, ranks, os.environ)
    if gpus is not None and len(gpus.names) < ranks:
        raise BenchError(f"{ranks} ranks need as many GPUs, because NCCL takes one rank a GPU: choose smaller meshes.")
    return gpus


def bind_option(details: str) -> Callable[[Command], Command]:
    """Whether ranks have processors of their own: `bind`. `details` end the help's first sentence."""
    return click.option(
        "--bind/--no-bind",
        default=False,
        show_default=True,
        help=f"Give each rank processors of its own{details}",
    )


def rounds_option(default: int, details: str = "") -> Callable[[Command], Command]:
    """How often the variants take turns: `rounds`."""
    return click.option(
        "--rounds",
        type=click.IntRange(min=1),
        metavar="N",
        default=default,
        show_default=True,
        help=f"Turns of each variant{details}.",
    )


@contextlib.contextmanager
def ending_on_signals(kept: Callable[[], str]) -> Iterator[None]:
    """Ends the command with exit code 130 if Ctrl-C or SIGTERM interrupts the body.

    Args:
      kept: returns a sentence about what the command leaves behind, "" for none.
    """
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        yield
    except KeyboardInterrupt:
        click.echo(f"\nStopped; all ranks have ended. {kept()}".rstrip(" "), err=True)
        raise SystemExit(INTERRUPTED) from None
