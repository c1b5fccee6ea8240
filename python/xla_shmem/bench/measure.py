"""Runs a plan: row by row; in each row several rounds; in each round one variant after the other."""

from __future__ import annotations

import dataclasses
import statistics
from collections.abc import Iterator, Mapping
from typing import Any

from xla_shmem.bench.jobs import Job
from xla_shmem.bench.plan import Cell, Plan
from xla_shmem.bench.results import Row, Times

#: Wanted duration of a timed program in µs, long compared with its start; fewest and most collectives in it.
_PROGRAM_US = 200_000.0
_TURNS = (10, 1000)

#: Timed programs of a variant in each round.
_RUNS = 2

#: Seconds of each PE's `memcpy` in each round; smallest size in bytes. Below it, the overhead of the call dominates.
_MEMCPY_SECONDS = 0.01
_MEMCPY_FROM = 64 << 10

#: For smaller sizes, the overhead of XLA's call is measured: turns of a loop, and pairs of loops in each round.
_EMPTY_CALL_TURNS, _EMPTY_CALL_RUNS = 2000, 3


def measure(plan: Plan, jobs: Mapping[str, Job]) -> Iterator[Row]:
    """Yields the rows of the plan's table as they are measured.

    Args:
      plan: the operations, sizes and repetitions to measure.
      jobs: job of each variant; a job may run several. The first one also measures `memcpy` and empty calls.

    Raises:
      JobFailed: a job ended early.
    """
    for cell in plan.cells():
        yield _measure_cell(plan, jobs, cell)


def _measure_cell(plan: Plan, jobs: Mapping[str, Job], cell: Cell) -> Row:
    row = _prepare(jobs, cell)
    first = next(iter(jobs.values()))
    running = [variant for variant, times in row.times.items() if not times.reason]
    for variant in running:
        if plan.check:
            row.times[variant].wrong = _wrong(jobs[variant], variant)
        row.times[variant].turns = plan.iterations or _turns(jobs[variant], variant)
    for number in range(plan.rounds):
        # The order alternates, because each variant leaves its data in the caches for the next one.
        for variant in running if number % 2 == 0 else reversed(running):
            times = row.times[variant]
            times.us += _time(jobs[variant], variant, plan.warmup, times.turns, _RUNS)
        if cell.bytes >= _MEMCPY_FROM:
            row.memcpy_gb_per_s.append(_memcpy(plan, first, cell.bytes))
        else:
            row.empty_call_us.append(_empty_call(first))
    if plan.check:
        for variant in running:
            row.times[variant].wrong = (row.times[variant].wrong or 0) + _wrong(jobs[variant], variant)
    return row


def _prepare(jobs: Mapping[str, Job], cell: Cell) -> Row:
    reasons: dict[str, str] = {}
    records: dict[str, dict[str, Any]] = {}
    for job in dict.fromkeys(jobs.values()):
        variants = [variant for variant in jobs if jobs[variant] is job]
        answers = job.ask("prepare", cell=dataclasses.asdict(cell), variants=variants)
        for answer in answers:
            reasons |= answer["reasons"]
            records |= answer["records"]
    return Row(cell, {variant: Times(reason=reasons.get(variant, "")) for variant in jobs}, records=records)


def _wrong(job: Job, variant: str) -> int:
    return sum(answer["wrong"] for answer in job.ask("check", variant=variant))


def _time(job: Job, variant: str, warmup: int, turns: int, runs: int) -> list[float]:
    """Returns µs per collective of each program. A collective ends when the slowest rank has its result."""
    answers = job.ask("time", variant=variant, warmup=warmup, turns=turns, runs=runs)
    return [max(times) for times in zip(*(answer["us"] for answer in answers), strict=True)]


def _turns(job: Job, variant: str) -> int:
    """Returns the number of collectives that make a program of the wanted duration."""
    # The slower of two programs: a time that is too short by noise would make programs of minutes.
    us = max(_time(job, variant, warmup=1, turns=4, runs=2))
    fewest, most = _TURNS
    return max(fewest, min(most, round(_PROGRAM_US / max(us, _PROGRAM_US / most))))


def _memcpy(plan: Plan, job: Job, size: int) -> float:
    answers = job.ask("memcpy", size=size, seconds=_MEMCPY_SECONDS, threads=plan.devices_per_process)
    speeds: list[float] = [answer["gb_per_s"] for answer in answers]
    return statistics.mean(speeds)


def _empty_call(job: Job) -> float:
    """Returns µs per call at the slowest rank, while all ranks do the same."""
    answers = job.ask("empty_call", turns=_EMPTY_CALL_TURNS, runs=_EMPTY_CALL_RUNS)
    slowest: float = max(answer["us"] for answer in answers)
    return slowest
