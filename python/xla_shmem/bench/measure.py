"""Runs a plan: row by row; in each row several rounds; in each round one variant after the other."""

from __future__ import annotations

import dataclasses
import statistics
from collections.abc import Iterator, Mapping
from types import MappingProxyType
from typing import Any

from xla_shmem.bench import variants
from xla_shmem.bench.jobs import Job
from xla_shmem.bench.plan import Cell, Plan
from xla_shmem.bench.results import Row, Times

#: Fewest and most collectives in a timed program.
_TURNS = (10, 1000)

#: Timed programs of a variant in each round.
_RUNS = 2

#: Seconds of each PE's `memcpy` in each round; smallest size in bytes. Below it, the overhead of the call dominates.
_MEMCPY_SECONDS = 0.01
_MEMCPY_FROM = 64 << 10

#: For smaller sizes, the overhead of XLA's call is measured: turns of a loop, and pairs of loops in each round.
_EMPTY_CALL_TURNS, _EMPTY_CALL_RUNS = 2000, 3


def measure(plan: Plan, jobs: Mapping[str, Job], missing: Mapping[str, str] = MappingProxyType({})) -> Iterator[Row]:
    """Yields the rows of the plan's table as they are measured.

    Args:
      plan: the operations, sizes and repetitions to measure.
      jobs: job of each variant; a job may run several. On the CPU the first one also measures `memcpy` and empty calls.
      missing: variants that have no job, with the reason.

    Raises:
      JobFailed: a job ended early.
    """
    for cell in plan.cells():
        measured = {name: job for name, job in jobs.items() if variants.differs_in(name, cell.op)}
        row = _measure_cell(plan, measured, cell)
        row.times |= {name: Times(reason=why) for name, why in missing.items() if variants.differs_in(name, cell.op)}
        yield row


def _measure_cell(plan: Plan, jobs: Mapping[str, Job], cell: Cell) -> Row:
    row = _prepare(plan, jobs, cell)
    first = next(iter(jobs.values()))
    running = [variant for variant, times in row.times.items() if not times.reason]
    for variant in running:
        if plan.check:
            row.times[variant].wrong = _wrong(jobs[variant], variant)
        row.times[variant].turns = plan.iterations or _turns(plan, jobs[variant], variant)
    for number in range(plan.rounds):
        # The order alternates, because each variant leaves its data in the caches for the next one.
        for variant in running if number % 2 == 0 else reversed(running):
            times = row.times[variant]
            times.us += _time(jobs[variant], variant, plan.warmup, times.turns, _RUNS)
        if plan.gpus is not None or plan.launcher:
            continue
        if cell.bytes >= _MEMCPY_FROM:
            row.memcpy_gb_per_s.append(_memcpy(plan, first, cell.bytes))
        else:
            row.empty_call_us.append(_empty_call(first))
    if plan.check:
        for variant in running:
            row.times[variant].wrong = (row.times[variant].wrong or 0) + _wrong(jobs[variant], variant)
    return row


def _prepare(plan: Plan, jobs: Mapping[str, Job], cell: Cell) -> Row:
    reasons: dict[str, str] = {}
    records: dict[str, dict[str, Any]] = {}
    names = {job: [variant for variant in jobs if jobs[variant] is job] for job in jobs.values()}
    for job, its in names.items():  # all jobs compile at once
        job.tell("prepare", cell=dataclasses.asdict(cell), variants=its, turns_per_call=plan.turns_per_call)
    for job in names:
        for answer in job.answers("prepare"):
            reasons |= answer["reasons"]
            records |= answer["records"]
    return Row(cell, {variant: Times(reason=reasons.get(variant, "")) for variant in jobs}, records=records)


def _wrong(job: Job, variant: str) -> int:
    return sum(answer["wrong"] for answer in job.ask("check", variant=variant))


def _time(job: Job, variant: str, warmup: int, turns: int, runs: int) -> list[float]:
    """Returns µs per collective of each program. A collective ends when the slowest rank has its result."""
    answers = job.ask("time", variant=variant, warmup=warmup, turns=turns, runs=runs)
    return [max(times) for times in zip(*(answer["us"] for answer in answers), strict=True)]


def _turns(plan: Plan, job: Job, variant: str) -> int:
    """Returns the number of collectives that make a program of the wanted duration."""
    least = plan.turns_per_call or 1
    # The slower of two programs: a time that is too short by noise would make programs of minutes.
    us = max(_time(job, variant, warmup=least, turns=max(4, least), runs=2))
    fewest, most = _TURNS
    wanted = plan.program_ms * 1e3
    return max(fewest, min(most, round(wanted / max(us, wanted / most))))


def _memcpy(plan: Plan, job: Job, size: int) -> float:
    answers = job.ask("memcpy", size=size, seconds=_MEMCPY_SECONDS, threads=plan.devices_per_process)
    speeds: list[float] = [answer["gb_per_s"] for answer in answers]
    return statistics.mean(speeds)


def _empty_call(job: Job) -> float:
    """Returns µs per call at the slowest rank, while all ranks do the same."""
    answers = job.ask("empty_call", turns=_EMPTY_CALL_TURNS, runs=_EMPTY_CALL_RUNS)
    slowest: float = max(answer["us"] for answer in answers)
    return slowest
