"""`xla-shmem demo`: the same training job with SHMEM collectives and with stock ones, compared."""

from __future__ import annotations

import importlib.util
import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any

import click
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

from xla_shmem.collective_report import ModuleReport, print_tables
from xla_shmem.hlo_files import HloFileError, read_modules
from xla_shmem.train import demo_report
from xla_shmem.train.config import TrainConfig, config_options, from_options
from xla_shmem.train.demo_run import RunError, Transport, run_training
from xla_shmem.train.step_log import StepRecord

_NEEDED = ("optax", "matplotlib")

#: Exit code after Ctrl-C: 128 plus SIGINT.
_INTERRUPTED = 130


class DemoError(Exception):
    """The demo did not show what it is there to show; the message says why."""


def run_demo(config: TrainConfig, out: Path, repeats: int = 1) -> None:
    """Runs the job on both transports in turn, prints the comparison and saves it under `out`.

    Args:
      config: the job.
      out: folder for logs, dumps and `demo.png`; created if missing.
      repeats: how often each transport runs: SHMEM, stock, SHMEM, stock, …

    Raises:
      DemoError: options that make no comparison, a missing package, a run that failed, losses that disagree,
      or no
        collective that was moved to SHMEM.
    """
    _check(config, repeats)
    out = out.resolve()
    out.mkdir(parents=True, exist_ok=True)
    console = Console(highlight=False)
    console.print(f"Training on Python's standard library for {config.steps} steps: {demo_report.describe(config)}.")
    runs = _run_all(config, out, repeats, console)
    differences = demo_report.loss_differences(runs)
    picture = out / "demo.png"
    demo_report.save_picture(picture, config, runs, differences)

    print_tables(_assignments(_folder(out, Transport.SHMEM, 1)))
    console.print(demo_report.loss_table(runs, differences))
    console.print(
        f"Largest relative difference {max(differences):.1e}; {demo_report.LOSS_TOLERANCE:.0e} is accepted.\n"
    )
    console.print(demo_report.time_table(runs))
    console.print(demo_report.speed_up_sentence(runs))
    console.print(f"Picture: {picture}", soft_wrap=True)
    if problem := demo_report.disagreement(differences):
        raise DemoError(problem)


def _check(config: TrainConfig, repeats: int) -> None:
    if repeats < 1:
        raise DemoError(f"repeats is {repeats}; it must be at least 1.")
    if config.ranks < 2:
        raise DemoError("One rank has nobody to talk to; choose --data and --context for at least 2 ranks.")
    first = demo_report.MEASURED[0]
    if config.steps < first + 2:
        raise DemoError(f"Step times are taken from step {first} on; choose at least {first + 2} steps.")
    missing = [name for name in _NEEDED if importlib.util.find_spec(name) is None]
    if missing:
        raise DemoError(f"The demo needs {' and '.join(missing)}: pip install 'xla-shmem[demo]'.")


def _folder(out: Path, transport: Transport, repeat: int) -> Path:
    return out / f"{transport.value.lower()}-{repeat}"


def _run_all(config: TrainConfig, out: Path, repeats: int, console: Console) -> demo_report.Runs:
    runs: dict[Transport, list[list[StepRecord]]] = {transport: [] for transport in Transport}
    columns = (
        TextColumn("{task.description:8}"),
        BarColumn(),
        MofNCompleteColumn(),
        TextColumn("steps  {task.fields[news]}"),
        TimeElapsedColumn(),
    )
    with Progress(*columns, console=console) as progress:
        for repeat in range(1, repeats + 1):
            for transport in Transport:
                name = transport.value if repeats == 1 else f"{transport.value} {repeat}"
                task = progress.add_task(name, total=config.steps, news="starting, compiling")
                on_step = _progress_of(progress, task)
                try:
                    records = run_training(config, transport, _folder(out, transport, repeat), on_step)
                except RunError as error:
                    raise DemoError(str(error)) from None
                runs[transport].append(records)
                if transport is Transport.SHMEM:
                    _check_moved(_assignments(_folder(out, transport, repeat)))
    return runs


def _progress_of(progress: Progress, task: Any) -> Callable[[StepRecord], None]:
    def on_step(record: StepRecord) -> None:
        progress.update(task, completed=record.step + 1, news=f"loss {record.loss:.3f}")

    return on_step


def _assignments(folder: Path) -> list[ModuleReport]:
    """The collectives of a run's training step, as its compiled module records them.

    Raises:
      DemoError: the dump cannot be read.
    """
    try:
        from xla_shmem import _core

        return [
            ModuleReport(module.source, module.name, _core.inspect_module(module.proto))
            for module in read_modules(str(folder / "hlo"))
        ]
    except ImportError as error:
        raise DemoError(f"The compiled module of xla-shmem is missing ({error}); install it again.") from None
    except (HloFileError, ValueError) as error:
        raise DemoError(f"The assignment table cannot be shown: {error}") from None


def _check_moved(reports: list[ModuleReport]) -> None:
    """Compares stock with itself? Noise would pass for speed-up.

    Raises:
      DemoError: SHMEM carries no collective.
    """
    if not any(record.get("lowered") == "NVSHMEM" for report in reports for record in report.records):
        raise DemoError(
            "The flag was set, but no collective of the training step was moved to SHMEM. Is the package "
            "installed, so that JAX finds its plugin? `xla-shmem inspect` on the hlo folder shows what was "
            "decided."
        )


@click.command("demo")
@config_options
@click.option("--repeats", default=1, show_default=True, help="Runs on each transport, in turn.")
@click.option(
    "--out",
    type=click.Path(file_okay=False, path_type=Path),
    default=Path("out/demo"),
    show_default=True,
    help="Folder for logs, compiled modules and the picture.",
)
def demo_command(repeats: int, out: Path, **options: Any) -> None:
    """Train a small Llama with SHMEM collectives and with stock ones, and compare.

    A byte-level decoder learns the sources of Python's standard library, its sequence spread over 4 local
    processes by ring attention. Prints what was decided about each collective, both loss curves and the step
    times.
    """
    config = from_options(options)
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        run_demo(config, out, repeats)
    except DemoError as error:
        raise click.ClickException(str(error)) from None
    except KeyboardInterrupt:
        click.echo(f"\nStopped; all ranks have ended. What they printed is under {out}.", err=True)
        raise SystemExit(_INTERRUPTED) from None


if __name__ == "__main__":
    demo_command()
