"""Times collectives of groups that cross hosts: on stock JAX, and with the flag on, groups whole or split by hosts.

    python benchmarks/hosts_benchmark.py --rate 1gbit --output docs/data/hosts.json

The hosts are made for the job on this machine (tests/hosts). Each variant is a job of its own, with its own hosts and
network, and all take turns at every size. A row shows the median time of a collective in µs, how many times as fast as
stock JAX it is, and the bytes that all hosts sent to others, in units of the size (that of a rank's larger buffer).
Those bytes are counted by the hosts' interfaces over all collectives of a variant, so they include headers.

The output file keeps rows of earlier runs with another rate, op or size.
"""

from __future__ import annotations

import argparse
import contextlib
import dataclasses
import json
import os
import sys
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, cast

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT / "tests" / "hosts"))

from mpi_on_hosts import COORDINATOR, mpirun_command  # noqa: E402
from network_hosts import Host  # noqa: E402
from run_on_hosts import hosts_command  # noqa: E402

from xla_shmem.bench.jobs import Job, Start, connected_jobs  # noqa: E402
from xla_shmem.bench.measure import measure  # noqa: E402
from xla_shmem.bench.plan import Plan, chosen_ops  # noqa: E402
from xla_shmem.bench.results import Row  # noqa: E402
from xla_shmem.launch.launcher_process import cpu_environment  # noqa: E402
from xla_shmem.machine import describe_machine  # noqa: E402

#: Variables of the job of each variant; None: without the flag. "stock" is a name of `xla-shmem bench` too.
VARIANTS: dict[str, dict[str, str] | None] = {
    "stock": None,
    "whole": {"XLA_SHMEM_HIERARCHICAL": "off"},
    "split": {"XLA_SHMEM_HIERARCHICAL": "on"},
    "mpi": None,
    "split-mpi": {"XLA_SHMEM_HIERARCHICAL": "on"},
}
#: Those whose default backend is MPI; they need mpirun, and MPITRAMPOLINE_LIB as in docs/bench.md.
_ON_MPI = ("mpi", "split-mpi")
_RULES = {"XLA_SHMEM_OPS": "all", "XLA_SHMEM_THRESHOLD": "none"}

#: From this size on a program has few collectives, because each takes long.
LARGE = 1 << 20
#: Seconds until a forgotten job is stopped.
LIMIT = 3600


class CountedJob:
    """A job of `xla-shmem bench` that counts what its hosts send while it times collectives."""

    def __init__(self, job: Job, hosts: Sequence[Host]) -> None:
        self._job, self._hosts = job, hosts
        self.sent = self.collectives = 0

    def __getattr__(self, name: str) -> Any:
        return getattr(self._job, name)

    def ask(self, do: str, **arguments: Any) -> list[dict[str, Any]]:
        """As `Job.ask`. When it returns, no rank has anything left to send."""
        before = sum(host.sent_bytes() for host in self._hosts)
        answers = self._job.ask(do, **arguments)
        if do == "time":
            self.sent += sum(host.sent_bytes() for host in self._hosts) - before
            self.collectives += arguments["runs"] * (2 * arguments["warmup"] + arguments["turns"])
        return answers


@contextlib.contextmanager
def counted_jobs(ranks: Sequence[int], rate: str, variants: Sequence[str]) -> Iterator[dict[str, CountedJob]]:
    """The job of each variant, on hosts of its own."""
    with tempfile.TemporaryDirectory(prefix="hosts-benchmark-") as folder:
        status = {name: Path(folder) / f"{name}.json" for name in variants}
        starts = {}
        for name in variants:
            settings = VARIANTS[name]
            environment = cpu_environment({**_RULES, **os.environ, **(settings or {})}, flag=settings is not None)
            on_mpi = name in _ON_MPI
            start = hosts_command(ranks, rate=rate, status=status[name], limit=LIMIT, between=on_mpi)
            if on_mpi:
                start += mpirun_command(ranks, Path(folder) / name)
                (Path(folder) / name).mkdir()
                environment |= {"OMPI_MCA_mpi_yield_when_idle": "1"}
            starts[name] = Start(start, environment, sum(ranks), (COORDINATOR,) if on_mpi else ())
        with connected_jobs(starts) as jobs:
            yield {name: CountedJob(job, _hosts(status[name])) for name, job in jobs.items()}


def _hosts(status: Path) -> list[Host]:
    fields = [field.name for field in dataclasses.fields(Host)]
    return [Host(**{name: facts[name] for name in fields}) for facts in json.loads(status.read_text())]


def measured(
    ranks: Sequence[int], rate: str, ops: Sequence[str], sizes: tuple[int, int], rounds: int, variants: Sequence[str]
) -> Iterator[dict[str, Any]]:
    """Yields the rows: rate, op, bytes, and for each variant median µs, bytes between hosts, and wrong elements."""
    first, last = sizes
    small = Plan(min_bytes=first, max_bytes=min(last, LARGE - 1), warmup=2, program_ms=100)
    large = Plan(min_bytes=max(first, LARGE), max_bytes=last, warmup=1, iterations=4)
    with counted_jobs(ranks, rate, variants) as jobs:
        for op in ops:
            for plan in (small, large):
                if plan.min_bytes > plan.max_bytes:
                    continue
                plan = dataclasses.replace(plan, processes=sum(ranks), factor=4, ops=(op,), rounds=rounds)
                for row in measure(plan, cast(dict[str, Job], jobs)):
                    yield _as_json(rate, row, jobs)


def _as_json(rate: str, row: Row, jobs: dict[str, CountedJob]) -> dict[str, Any]:
    found: dict[str, dict[str, Any]] = {}
    for name, job in jobs.items():
        times = row.times[name]
        if times.us and times.median <= 0:
            # A time is the difference of two programs.
            found[name] = {"reason": "other work on the machine took longer than the collective; measure again"}
        elif times.us:
            found[name] = {
                "us": round(times.median, 1),
                "between_hosts": round(job.sent / job.collectives / row.cell.bytes, 2),
                "wrong": times.wrong,
            }
        else:
            found[name] = {"reason": times.reason}
        job.sent = job.collectives = 0
    return {"rate": rate, "op": row.cell.op, "bytes": row.cell.bytes, "variants": found}


def _print(row: dict[str, Any]) -> None:
    cells = [f"{row['rate']:>8}  {row['op']:<20}  {row['bytes']:>9}"]
    stock = row["variants"].get("stock", {}).get("us")
    for name, found in row["variants"].items():
        if "us" in found:
            ratio = f"{stock / found['us']:6.2f}" if stock else "     -"
            cells.append(f"{name} {found['us']:>10.1f} µs {ratio}x {found['between_hosts']:6.2f} sent")
        else:
            cells.append(f"{name}: {found['reason'][:60]}")
        if found.get("wrong"):
            cells.append(f"{found['wrong']} WRONG")
    print("  ".join(cells), flush=True)


def _save(path: Path, head: dict[str, Any], rows: Sequence[dict[str, Any]]) -> None:
    def key(row: dict[str, Any]) -> tuple[Any, ...]:
        return row["op"], row["bytes"], row["rate"]

    kept = {key(row): row for row in (json.loads(path.read_text())["rows"] if path.exists() else [])}
    kept |= {key(row): row for row in rows}
    lines = ",\n".join(f"  {json.dumps(kept[one])}" for one in sorted(kept))
    path.write_text(f'{json.dumps(head, indent=1)[:-2]},\n "rows": [\n{lines}\n ]\n}}\n')


def main() -> None:
    """Prints each row as it is measured; the exit code is 1 if an element is wrong."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--ranks", default="4,4", help="ranks of each host; default: 4,4")
    parser.add_argument("--rate", default="1gbit", help="what each host can send and receive; default: 1gbit")
    parser.add_argument("--op", action="append", help="a collective; default: all")
    parser.add_argument("--sizes", type=int, nargs=2, default=(4 << 10, 16 << 20), help="first and last, in bytes")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--variant", action="append", choices=list(VARIANTS), help="default: those on gloo")
    parser.add_argument("--output", type=Path)
    given = parser.parse_args()
    ranks = [int(number) for number in given.ranks.split(",")]
    ops = chosen_ops(given.op or ["all"])
    variants = given.variant or [name for name in VARIANTS if name not in _ON_MPI]
    rows = []
    for row in measured(ranks, given.rate, ops, tuple(given.sizes), given.rounds, variants):
        rows.append(row)
        _print(row)
        if given.output:
            _save(given.output, {**describe_machine(), "ranks": ranks}, rows)
    wrong = [found.get("wrong") for row in rows for found in row["variants"].values()]
    sys.exit(1 if any(wrong) else 0)


if __name__ == "__main__":
    main()
