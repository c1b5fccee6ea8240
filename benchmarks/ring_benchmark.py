"""What the ring of context-parallel attention adds to a training step, with its blocks on SHMEM and on JAX's backend.

python benchmarks/ring_benchmark.py measure --preset tiny --context 2 --sequence 1024 [--rounds 2] [any option of train]

Three kinds of step with the same arithmetic take turns in the same processes and the same memory: one sends its blocks,
one sends a single element of each, one sends nothing. The first minus the third is what the *ring* adds; the first
minus the second is what its *transfers* take of that; the rest is waiting for slower ranks, on any transport.
"""

from __future__ import annotations

import contextlib
import enum
import itertools
import json
import math
import statistics
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import click
import jax
from jax import lax
from rich.table import Table

from long_context.cli.config_options import TRAINED, config_options, from_options
from long_context.compare.side_by_side import run_folder, run_in_turns
from long_context.parallel import ring_attention
from long_context.train.config import TrainConfig
from long_context.train.job_tokens import Data
from long_context.train.progress import JobProgress
from long_context.train.step_log import LOG_NAME, StepLog, StepRecord, read_records
from long_context.train.step_times import MEASURED
from long_context.train.trainer import start_rank, train
from xla_shmem.backends import Backend
from xla_shmem.cli.job_options import ending_on_signals, gpus_of_ranks, platform_option, rounds_option
from xla_shmem.console import report_console

#: The two differ only in the transport of the ring's blocks. Gradient sums stay on SHMEM in both: on gloo their time
#: varies from step to step by more than all transfers of a ring take. Single elements are on SHMEM in both.
ON_SHMEM = Backend("ring on SHMEM", True, (("XLA_SHMEM_OPS", "all-reduce,collective-permute"),))
ON_STOCK = Backend("ring on stock", True, (("XLA_SHMEM_OPS", "all-reduce,collective-permute<16"),))

#: Confidence with which an `Interval` contains the true median.
CONFIDENCE = 0.95


class Ring(enum.Enum):
    """How the ring of a training step sends its blocks."""

    SENDING = "sending"  #: Sends its blocks, as the job does.
    WAITING = "waiting"  #: Keeps its blocks and sends one element of each: a rank only waits for its neighbour.
    SILENT = "silent"  #: Keeps its blocks and sends nothing.

    @property
    def log_name(self) -> str:
        """Name of the log of its steps. The sending ring writes the job's own log, which `run_job` follows."""
        return LOG_NAME if self is Ring.SENDING else f"{self.value}.jsonl"


_Send = Callable[[jax.Array, str], jax.Array]


@contextlib.contextmanager
def traced_as(ring: Ring) -> Iterator[None]:
    """Inside this context programs are traced with rings of this kind. Losses of other than sending ones mean nothing.

    A ring that keeps its blocks attends to its own block instead of the next one.
    """
    send: _Send = ring_attention._send
    sends: dict[Ring, _Send] = {
        Ring.SENDING: send,
        Ring.WAITING: lambda block, axis_name: _keep_all_but_one(block, axis_name, send),
        Ring.SILENT: lambda block, axis_name: _keep(block),
    }
    ring_attention._send = sends[ring]  # type: ignore[assignment]  # mypy compares the names of parameters too
    try:
        yield
    finally:
        ring_attention._send = send  # type: ignore[assignment]


def _keep(block: jax.Array) -> jax.Array:
    # Without the barrier XLA would see that the block is the same and merge equal arithmetic.
    kept: jax.Array = lax.optimization_barrier(block)  # type: ignore[no-untyped-call]
    return kept


def _keep_all_but_one(block: jax.Array, axis_name: str, send: _Send) -> jax.Array:
    """The block with the first element of the next block, for which the rank has to wait.

    Costs a copy of the block; a transfer makes one too.
    """
    first = (0,) * block.ndim
    element = send(lax.slice(block, first, (1,) * block.ndim), axis_name)
    return lax.dynamic_update_slice(_keep(block), element, first)


def turns(config: TrainConfig, data: Data) -> Iterator[Mapping[Ring, StepRecord]]:
    """Yields the records of each step, one for each kind of ring; the kinds come in every order equally often.

    Raises:
      ValueError, Stopped: as `trainer.train`.
    """
    jobs = {ring: _with_ring(ring, config, data) for ring in Ring}
    orders = itertools.cycle(itertools.permutations(Ring))
    for _ in range(config.steps):
        yield {ring: next(jobs[ring]) for ring in next(orders)}


def _with_ring(ring: Ring, config: TrainConfig, data: Data) -> Iterator[StepRecord]:
    records = train(config, data)
    while True:
        with traced_as(ring):  # the first step is traced in here
            record = next(records, None)
        if record is None:
            return
        yield record


class Interval(NamedTuple):
    """A median of measurements in seconds, with a confidence interval (`CONFIDENCE`) of the true median."""

    median: float
    low: float
    high: float

    def __str__(self) -> str:
        """In milliseconds. An interval that is not above 0 cannot be told from noise."""
        median, low, high = (f"{seconds * 1e3:.1f}" for seconds in self)
        return f"{median if self.low > 0 else 'noise'} ({low} to {high})"


def median_interval(values: Sequence[float]) -> Interval:
    """The median with the interval of the sign test, which assumes nothing about the distribution.

    With too few values for such an interval, it is from the smallest to the largest value.
    """
    from scipy import stats  # slow to import; a dependency of jax

    interval = stats.quantile_test(values, p=0.5).confidence_interval(CONFIDENCE)
    low, high = (min(values), max(values)) if math.isnan(interval.low + interval.high) else interval
    return Interval(statistics.median(values), float(low), float(high))


#: For each kind of ring, for each round, the steps.
Steps = Mapping[Ring, Sequence[Sequence[StepRecord]]]


def added(steps: Steps, ring: Ring, less: Ring) -> Interval:
    """Seconds of a step with `ring` minus those of the step with `less` in the same turn, from step MEASURED[0] on."""
    return median_interval(
        [
            step.seconds - other.seconds
            for run, other_run in zip(steps[ring], steps[less], strict=True)
            for step, other in zip(run, other_run, strict=True)
            if step.step >= MEASURED[0]
        ]
    )


def parts(steps: Steps) -> dict[str, Interval]:
    """What the ring adds to a step, and the two parts of that. Noise can make each negative."""
    return {
        "ring": added(steps, Ring.SENDING, Ring.SILENT),
        "transfers": added(steps, Ring.SENDING, Ring.WAITING),
        "waits": added(steps, Ring.WAITING, Ring.SILENT),
    }


@click.group()
def main() -> None:
    """Measures what the ring adds to a training step."""


@main.command()
@config_options(only=TRAINED, defaults={"steps": 43})
@rounds_option(1)
@platform_option()
@click.option("--output", type=click.Path(path_type=Path), default=Path("out/ring"), show_default=True)
def measure(config: Path | None, rounds: int, platform: str, output: Path, **options: Any) -> None:
    """Runs the job with the ring's blocks on SHMEM and on the default backend in turns, and prints what they add."""
    job, out = from_options(config, options, {"steps": 43}), output.resolve()
    if job.attention != "ring" or job.context < 2 or job.steps < MEASURED[0] + 1:
        raise click.UsageError(f"choose attention ring, context of at least 2 and more than {MEASURED[0]} steps.")
    gpus, console = gpus_of_ranks(platform, job.devices), report_console()
    with ending_on_signals(lambda: f"Logs are under {output}."), JobProgress(console) as progress:
        rank = (sys.executable, str(Path(__file__).resolve()), "rank")
        both = (ON_SHMEM, ON_STOCK)
        run_in_turns(job, out, rounds, progress, gpus=gpus is not None, backends=both, rank=rank)
    found = {backend: parts(read_steps(out, backend, rounds)) for backend in (ON_STOCK, ON_SHMEM)}
    table = Table(
        "ms of a step", *(backend.name for backend in found), title=f"Medians with {CONFIDENCE:.0%} intervals"
    )
    for part in ("ring", "transfers", "waits"):
        table.add_row(part, *(str(each[part]) for each in found.values()))
    console.print(table)
    as_json = {backend.name: {part: each._asdict() for part, each in parts.items()} for backend, parts in found.items()}
    (out / "ring.json").write_text(json.dumps(as_json, indent=1) + "\n")


def read_steps(out: Path, backend: Backend, rounds: int) -> Steps:
    """The steps of a backend's runs."""
    folders = [run_folder(out, backend, number) for number in range(1, rounds + 1)]
    return {ring: [read_records(folder / ring.log_name) for folder in folders] for ring in Ring}


@main.command()
@config_options()
def rank(config: Path | None, **options: Any) -> None:
    """One rank of a job that `measure` starts."""
    job = from_options(config, options)
    data = start_rank(job)
    # The job's own log comes last: when it has a record, the other logs have theirs.
    logs = {ring: StepLog(Path(job.output) / ring.log_name) for ring in reversed(Ring)}
    for records in turns(job, data):
        if jax.process_index() == 0:
            for ring, log in logs.items():
                log.append(records[ring])


if __name__ == "__main__":
    main()
