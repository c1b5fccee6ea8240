"""Measures both backends with the benchmark, and makes the rows of a tuning table."""

from __future__ import annotations

import contextlib
import dataclasses
import os
from collections.abc import Iterator, Mapping, Sequence

from xla_shmem.bench import jobs, measure, variants
from xla_shmem.bench.plan import Plan
from xla_shmem.bench.results import Row, Times
from xla_shmem.errors import BenchError
from xla_shmem.options.tuning_table import Measured, TunedRow

#: Rules of the measuring job: everything that the transport can carry goes to SHMEM.
_RULES = {"XLA_SHMEM_PROFILE": "domain", "XLA_SHMEM_OPS": "all", "XLA_SHMEM_THRESHOLD": "none"}


def group_sizes(text: str | None, pes: int) -> tuple[int, ...]:
    """Reads the group sizes to measure from a list such as ``2,4``.

    Without a list: the powers of two that divide the number of PEs, and that number itself.

    Raises:
      BenchError: a size does not divide the number of PEs.
    """
    if text is None:
        return tuple(sorted({pes} | {2**n for n in range(1, pes.bit_length()) if pes % 2**n == 0}))
    sizes = []
    for part in text.split(","):
        if not part.strip().isdecimal() or int(part) < 2 or pes % int(part):
            raise BenchError(f"--groups {text}: '{part.strip()}' does not divide {pes} PEs into groups of at least 2.")
        sizes.append(int(part))
    return tuple(dict.fromkeys(sizes))


def plans(plan: Plan, groups: Sequence[int], dtypes: Sequence[str]) -> list[Plan]:
    """Returns a plan for every group size and element type.

    Raises:
      BenchError: one of the plans cannot run, or the default backend cannot on these GPUs.
    """
    every = [dataclasses.replace(plan, group=group, dtype=dtype) for group in groups for dtype in dtypes]
    for one in every:
        one.validate()
    if reason := variants.obstacles(["stock"], plan.gpus, shared=plan.shares_gpu).get("stock"):
        raise BenchError(
            f"tune compares with JAX's default backend, and {reason}. `xla-shmem bench --vs none` measures SHMEM alone."
        )
    return every


def ways(plan: Plan) -> tuple[str, ...]:
    """Returns the variants that measure XLA's other ways where a plan runs: none on CPUs."""
    names = [variant.name for variant in variants.VARIANTS if variant.way and plan.platform in variant.platforms]
    missing = variants.obstacles(names, plan.gpus, shared=plan.shares_gpu)
    return tuple(name for name in names if name not in missing)


@contextlib.contextmanager
def measuring_jobs(plan: Plan) -> Iterator[dict[str, jobs.Job]]:
    """Starts the jobs that measure a plan, yields that of each variant when all ranks are connected, and ends them.

    Raises:
      BenchError: as for `jobs.connected_jobs`.
      JobFailed: the job did not start.
    """
    divided = {"XLA_SHMEM_HIERARCHICAL": "on" if plan.gpus is None else "off"}
    starts = {"shmem": jobs.launched(plan, {**os.environ, **_RULES, **divided})}
    starts |= {name: jobs.start_of(plan, variants.named(name)) for name in ways(plan)}
    with jobs.connected_jobs(starts, other_hosts=bool(plan.launcher)) as running:
        yield {"shmem": running["shmem"], "stock": running["shmem"], **running}


def fingerprint_of_ranks(job: jobs.Job) -> dict[str, str]:
    """Returns the fingerprint of the hosts of a CPU job, which may be others than this one.

    Raises:
      BenchError: two ranks differ.
      JobFailed: the job ended early.
    """
    first, *others = (answer["fingerprint"] for answer in job.ask("fingerprint"))
    for rank, other in enumerate(others, 1):
        for name in (name for name in first if first[name] != other[name]):
            raise BenchError(
                f"ranks 0 and {rank} have {name} {first[name]} and {other[name]}: a table holds for hosts that are "
                "alike."
            )
    return dict(first)


def measure_rows(every: Sequence[Plan], running: Mapping[str, jobs.Job]) -> Iterator[tuple[Row, TunedRow | None]]:
    """Yields each row of the benchmark with its row of the tuning table, as it is measured.

    The second is None if SHMEM cannot run the collective, if XLA runs it as an element type that was measured before,
    or if it is always divided.

    Args:
      every: plans that differ in groups and element types only.
      running: `measuring_jobs` of one of them.

    Raises:
      JobFailed: the job ended early.
    """
    seen: set[tuple[str, str, int, int, int]] = set()
    for plan in every:
        for row in measure.measure(plan, running):
            tuned = tuned_row(row.times, row.records)
            # XLA:CPU runs bf16 collectives in f32, so two element types can have the same key.
            if tuned is not None and (key := (tuned.op, tuned.dtype, tuned.group, tuned.bytes, tuned.domains)) in seen:
                tuned = None
            elif tuned is not None:
                seen.add(key)
            yield row, tuned


def tuned_row(times: Mapping[str, Times], records: Mapping[str, Mapping[str, object]]) -> TunedRow | None:
    """Returns the row of the tuning table for a row of the benchmark.

    None if SHMEM did not run it, or if it was divided and the default backend cannot run it whole: then no table is
    asked.

    Args:
      times: times of the variant `shmem`, and of `stock` and those that have a way as far as they were measured.
      records: records of those variants that ran.
    """
    if not times["shmem"].us:
        return None
    record = records["shmem"]
    domains = int(str(record["num_domains"])) or 1
    if domains > 1:  # the record is that of a part; stock XLA has the same program with the whole
        if "stock" not in records:
            return None
        record = records["stock"]
    return TunedRow(
        op=str(record["op"]),
        # The pass looks up a collective of several types by the first one.
        dtype=str(record["dtype"]).split(",")[0],
        group=int(str(record["group_size"])),
        bytes=int(str(record["bytes"])),
        nvshmem=Measured.of(times["shmem"].us),
        default=Measured.of(times["stock"].us) if "stock" in times and times["stock"].us else None,
        domains=domains,
        ways={
            way: Measured.of(measured.us)
            for name, measured in times.items()
            if (way := variants.named(name).way) and measured.us
        },
    )
