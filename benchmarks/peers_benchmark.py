"""Times SHMEM beside its peers on one host, in one run: gloo, Open MPI, MPICH, DeepSpeed, XLA's own communicator.

    python benchmarks/peers_benchmark.py --openmpi LIBRARY --mpich LIBRARY --deepspeed PYTHON --output peers.json

All jobs live side by side, and all variants take turns at every size, as in `xla-shmem bench`:

* ``shmem``: between processes, with the flag on. ``gloo``: the same without.
* ``openmpi``, ``mpich``: JAX's MPI collectives, with the library of MPIwrapper built with each (docs/bench.md).
* ``deepspeed``: its shared-memory all-reduce, in a Python with torch and DeepSpeed (`deepspeed_rank.py`).
* ``shmem-1``, ``xla-1``: the same devices in one process, with and without the flag.

A row of the file has for each variant the median µs of a collective, the quartiles and the wrong elements, and the time
of a memcpy of the same bytes (single copy, through slots).
"""

from __future__ import annotations

import argparse
import contextlib
import dataclasses
import json
import os
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from xla_shmem.bench import variants
from xla_shmem.bench.jobs import Job, Start, connected_jobs, running_jobs, start_of, under_mpi
from xla_shmem.bench.measure import measure
from xla_shmem.bench.plan import Plan, chosen_ops
from xla_shmem.bench.results import Row
from xla_shmem.launch.launcher_process import LAUNCHER
from xla_shmem.machine import describe_machine

ROOT = Path(__file__).resolve().parents[1]
OPS = ("collective-permute", "all-reduce", "all-gather", "reduce-scatter", "all-to-all")
_RENAMED = {"stock": "gloo"}


@contextlib.contextmanager
def jobs_of_peers(plan: Plan, given: argparse.Namespace) -> Iterator[dict[str, Job]]:
    """The jobs of all variants between processes, by variant."""
    with contextlib.ExitStack() as stack:
        starts = {"shmem": start_of(plan, variants.named("shmem"))}
        bind = "core" if plan.bind else "none"
        for name, library, mpirun in (
            ("openmpi", given.openmpi, f"mpirun.openmpi --bind-to {bind}"),
            ("mpich", given.mpich, f"mpirun.mpich -bind-to {bind}"),
        ):
            if library:
                environ = {**os.environ, "MPITRAMPOLINE_LIB": str(library)}
                starts[name] = under_mpi(dataclasses.replace(plan, mpirun=mpirun), stack, environ)
        if given.deepspeed:
            starts["deepspeed"] = _deepspeed(plan, given.deepspeed)
        jobs = stack.enter_context(connected_jobs(starts))
        yield {"shmem": jobs["shmem"], "stock": jobs["shmem"], **jobs}


def _deepspeed(plan: Plan, python: Path) -> Start:
    environ = {
        **os.environ,
        "PATH": f"{python.parent}:{os.environ['PATH']}",  # of ninja, by which it compiles
        "PYTHONPATH": str(ROOT / "python"),
        "DS_ACCELERATOR": "cpu",
        "OMP_NUM_THREADS": "1",
        "MASTER_ADDR": "127.0.0.1",
        "MASTER_PORT": str(os.getpid()),  # only part of a name
        "JAX_PLATFORMS": "cpu",
    }
    bind = ["--bind"] if plan.bind else []
    prefix = [*LAUNCHER, "-n", str(plan.processes), *bind, "--"]
    return Start(prefix, environ, plan.processes, program=(str(python), str(ROOT / "benchmarks/deepspeed_rank.py")))


def measured(plan: Plan, given: argparse.Namespace) -> Iterator[dict[str, Any]]:
    """Yields the rows."""
    alone = dataclasses.replace(plan, processes=1, devices_per_process=plan.processes, bind=False)
    with jobs_of_peers(plan, given) as jobs, running_jobs(alone) as together:
        for between, within in zip(measure(plan, jobs), measure(alone, together), strict=True):
            yield _as_json(between, within)


def _as_json(between: Row, within: Row) -> dict[str, Any]:
    times = {_RENAMED.get(name, name): found for name, found in between.times.items()}
    times |= {f"{name}-1": within.times[variant] for variant, name in (("shmem", "shmem"), ("stock", "xla"))}
    limits = between.memcpy_limits_us()
    found = {
        name: {
            **{f"p{percent}_us": round(one.quantile(percent / 100), 2) for percent in (25, 50, 75)},
            "wrong": one.wrong,
        }
        for name, one in times.items()
        if one.us and one.median > 0  # a time is the difference of two programs
    }
    memcpy = [round(limit, 2) for limit in limits] if limits else None
    return {"op": between.cell.op, "bytes": between.cell.bytes, "memcpy_us": memcpy, "variants": found}


def _print(row: dict[str, Any]) -> None:
    cells = [f"{row['op']:<20}{row['bytes']:>9}"]
    for name, found in row["variants"].items():
        base = row["variants"]["shmem-1" if name.endswith("-1") else "shmem"]["p50_us"]
        cells.append(f"{name} {found['p50_us']:.1f} ({found['p50_us'] / base:.2f}x)" + " WRONG" * bool(found["wrong"]))
    print("  ".join(cells), flush=True)


def main() -> None:
    """Prints each row as it is measured; the exit code is 1 if an element is wrong."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--openmpi", type=Path, help="libmpiwrapper.so of Open MPI")
    parser.add_argument("--mpich", type=Path, help="libmpiwrapper.so of MPICH")
    parser.add_argument("--deepspeed", type=Path, metavar="PYTHON", help="Python that has torch and DeepSpeed")
    parser.add_argument("--ranks", type=int, default=2)
    parser.add_argument("--free", action="store_true", help="bind no rank to a processor")
    parser.add_argument("--op", default=",".join(OPS), metavar="OP,...")
    parser.add_argument("--sizes", type=int, nargs=2, default=(4 << 10, 16 << 20), help="first and last, in bytes")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--output", type=Path)
    given = parser.parse_args()
    plan = Plan(
        processes=given.ranks,
        bind=not given.free,
        ops=chosen_ops(given.op.split(",")),
        min_bytes=given.sizes[0],
        max_bytes=given.sizes[1],
        factor=4,
        rounds=given.rounds,
    )
    run = f"{given.ranks} ranks, {'free' if given.free else 'bound'}"
    rows = []
    for row in measured(plan, given):
        rows.append(row)
        _print(row)
        if given.output:
            _save(given.output, {**describe_machine(), "rounds": given.rounds}, run, rows)
    sys.exit(1 if any(found["wrong"] for row in rows for found in row["variants"].values()) else 0)


def _save(path: Path, head: dict[str, Any], run: str, rows: list[dict[str, Any]]) -> None:
    """Writes the file; it keeps the runs with another number of ranks, or bound otherwise."""
    runs = (json.loads(path.read_text())["runs"] if path.exists() else {}) | {run: rows}
    lines = ",\n".join(
        f"  {json.dumps(name)}: [\n   " + ",\n   ".join(map(json.dumps, runs[name])) + "\n  ]" for name in sorted(runs)
    )
    path.write_text(f'{json.dumps(head, indent=1)[:-2]},\n "runs": {{\n{lines}\n }}\n}}\n')


if __name__ == "__main__":
    main()
