"""Time of each collective in JAX, by the variants and the measuring code of `xla-shmem bench`.

    python -m gpu_check.collectives --gpus=G --compare=transports|recording

Every variant is a job of its own, and they take turns at each collective and size. One that fails is left out from
there on. `transports` compares SHMEM with all ways that XLA has, `recording` with SHMEM that records. Where NCCL was
measured too, `transports` leaves a tuning table beside the report.
"""

from __future__ import annotations

import argparse
import dataclasses
import os
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path

from gpu_check import ranks, records
from gpu_check.runner import first_error
from xla_shmem import _core
from xla_shmem.bench import jobs, variants
from xla_shmem.bench.jobs import JobFailed, running_jobs
from xla_shmem.bench.measure import measure
from xla_shmem.bench.plan import Plan
from xla_shmem.bench.results import Row
from xla_shmem.gpu.chosen_gpus import read_gpus
from xla_shmem.machine import describe_machine
from xla_shmem.options import fingerprint, resolve, tuning_table
from xla_shmem.tune.measuring import tuned_row

#: Bytes of the larger buffer of a PE, in the order of measuring. Each size has all collectives.
_SIZES = (1 << 18, 1 << 14, 1 << 22, 1 << 26)
_RECORDED_OPS = ("collective-permute", "all-reduce")
_RECORDED_SIZES = (1 << 14, 1 << 20)

#: Larger results are timed but not compared: NumPy takes seconds for each. Other sections compare them.
_COMPARED = 4 << 20

#: Settings of SHMEM that are compared: all values of an option but the default; and those that record.
_SETTINGS = ("XLA_SHMEM_GPU_REDUCE=multimem", "XLA_SHMEM_GPU_PERMUTE=kernel", "XLA_SHMEM_GPU_PERMUTE=copies")
_TRACE = Path(tempfile.gettempdir(), f"gpu-check-trace-{os.getpid()}.json")
_RECORDING = ("XLA_SHMEM_STATS=1", f"XLA_SHMEM_TRACE={_TRACE}")

#: Seconds for a job to start, and to answer. Less than the section's limit, so that the other variants go on.
_PATIENCE_S = 45.0

_ROUNDS = 5
_PROGRAM_MS = 20.0  # long enough on a GPU: some hundred collectives


def chosen_variants(base: Plan, recording: bool) -> tuple[str, ...]:
    """Returns the variants that can run here, besides SHMEM. Records what they are, and why others cannot run."""
    rivals = _RECORDING if recording else (*variants.rivals("gpu"), *_SETTINGS)
    missing = dataclasses.replace(base, rivals=rivals).obstacles()
    for name in ("shmem", *rivals):
        variant = variants.named(name)
        if name in missing:
            records.left_out(f"{name} ({variant.what})", missing[name])
            continue
        records.row("Variants", by=name, what=variant.what, collectives=", ".join(variant.ops) or "all")
        ranks.record_flags(name, *variant.xla_flags())
    return tuple(name for name in rivals if name not in missing)


def plans(base: Plan, recording: bool) -> list[Plan]:
    """Returns a plan for each size and collective, the one after the other."""
    ops = _RECORDED_OPS if recording else [op["name"] for op in _core.collective_ops() if op["on_gpu"]]
    sizes = records.sizes(_RECORDED_SIZES if recording else _SIZES)
    return [
        dataclasses.replace(base, ops=(op,), min_bytes=size, max_bytes=size, check=size <= _COMPARED)
        for size in sizes
        for op in ops
    ]


def measured(left: list[Plan], rivals: tuple[str, ...]) -> Iterator[Row]:
    """Yields the rows of the plans. A variant that fails is recorded, and left out from there on.

    Raises:
      JobFailed: SHMEM itself failed.
    """
    while left:
        try:
            with running_jobs(dataclasses.replace(left[0], rivals=rivals)) as running:
                while left:
                    yield from measure(left[0], running)
                    left.pop(0)
        except JobFailed as failure:
            failed = to_blame(failure, rivals)
            if not failed:
                raise
            print(failure, flush=True)
            for name in failed:
                records.left_out(f"{name} from {left[0].ops[0]} of {left[0].min_bytes} bytes on", in_short(failure))
            rivals = tuple(name for name in rivals if name not in failed)


def in_short(failure: JobFailed) -> str:
    """Returns what happened, and the first error in the job's output."""
    event, *output = str(failure).splitlines()
    error = first_error([line.strip() for line in output], ())
    return event.removesuffix(" Last lines of its output:") + (f" {error}" if error else "")


def to_blame(failure: JobFailed, rivals: Sequence[str]) -> list[str]:
    """Returns the variants that did not survive; none if it was SHMEM."""
    if failure.variant:
        return [failure.variant] if failure.variant in rivals else []
    return [name for name in rivals if variants.named(name).job == failure.job]


def record(table: str, plan: Plan, row: Row) -> None:
    """Records checks and times of one collective and size."""
    cell = row.cell
    what = f"{cell.op} of {cell.bytes} bytes"
    shmem = row.times["shmem"]
    records.check(f"{what} runs on SHMEM", not shmem.reason, shmem.reason)
    for name, times in row.times.items():
        if not times.us:
            if name != "shmem":
                records.left_out(f"{cell.op} by {name}", times.reason)
            continue
        if times.wrong is not None:
            records.check(f"{what} by {name}", not times.wrong, f"{times.wrong} elements wrong" if times.wrong else "")
        found = {
            "µs": times.median,
            "p25 µs": times.quantile(0.25),
            "p75 µs": times.quantile(0.75),
            "bus GB/s": row.bus_bandwidth(name),
            "% of SHMEM's time": 100 * times.median / shmem.median if shmem.us else "",
        }
        shared = {"shared GPU": "yes" if plan.shares_gpu else "no"}
        records.measured_row(table, found, op=cell.op, bytes=cell.bytes, by=name, PEs=plan.processes, **shared)


def save_table(base: Plan, rows: Sequence[tuning_table.TunedRow]) -> None:
    """Writes the rows with NCCL's time as a table for profile `tuned`, beside the report."""
    if not rows or not (folder := os.environ.get(records.OUT)):
        records.left_out("tuning table", "NCCL was not measured" if not rows else "there is no folder for it")
        return
    facts = {**describe_machine(), "plan": dataclasses.asdict(base)}
    measured_on = fingerprint.fingerprint(vars(resolve(overrides={"profile": "domain"})), "gpu")
    path = Path(folder, "tuning.json")
    tuning_table.save(path, tuning_table.Table("gpu", measured_on, facts, tuple(rows)), complete=True)
    records.fact("tuning table", f"{path.name}: {len(rows)} rows, for `xla-shmem tune --show --tuning FILE`")


def main() -> None:
    """Measures."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--gpus", type=int, required=True)
    parser.add_argument("--compare", choices=("transports", "recording"), required=True)
    arguments = parser.parse_args()
    recording = arguments.compare == "recording"
    processes = max(arguments.gpus, 2)
    os.environ.update(ranks.environment(processes, arguments.gpus))
    os.environ["XLA_FLAGS"] = " ".join(ranks.base_flags())
    base = Plan(processes=processes, rounds=_ROUNDS, program_ms=_PROGRAM_MS, gpus=read_gpus())
    if records.emulated():
        base = dataclasses.replace(base, rounds=1, iterations=2, warmup=0)
    else:
        jobs.START_WITHIN = jobs.ANSWER_WITHIN = _PATIENCE_S
    rivals = chosen_variants(base, recording)
    table = "Cost of recording" if recording else "Collectives in JAX"
    tuned: list[tuning_table.TunedRow] = []
    try:
        for row in measured(plans(base, recording), rivals):
            record(table, base, row)
            if (one := tuned_row(row.times, row.records)) is not None and one.default is not None:
                tuned.append(one)
    finally:
        _TRACE.unlink(missing_ok=True)
    if not recording:
        save_table(base, tuned)


if __name__ == "__main__":
    main()
