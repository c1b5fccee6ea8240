"""Permute and all-reduce on SHMEM against stock gloo, interleaved in one job; prints a table and writes JSON.

    python benchmarks/transport_benchmark.py [--processes 2 4] [--rounds 9] [--out out/bench]

Each program runs the collective `iterations` times in a `fori_loop`; both versions of it are compiled in the same job,
one with the pass and one without (`xla_shmem.plugin.stock_collectives`), and their runs alternate. Times are
microseconds per collective on rank 0: the median over the rounds, with the quartiles beside it.
"""

from __future__ import annotations

import argparse
import datetime
import json
import os
import pathlib
import platform
import statistics
import sys
import tempfile
import time
from collections.abc import Sequence
from typing import Any

SIZES = [4 << 10, 64 << 10, 1 << 20, 16 << 20, 64 << 20]
OPS = ["permute", "all-reduce"]

# The bars of the project: speed-up over gloo at sizes up to 1 MiB, and at 64 MiB.
BARS = {2: (3.0, 1.5), 4: (2.0, 1.2)}


def iterations(size: int) -> int:
    """Collectives per program: fewer where one takes tens of milliseconds."""
    return 20 if size <= 1 << 20 else 4


def run_worker(rounds: int, result: pathlib.Path) -> None:
    """One rank: measures every size and operation; rank 0 writes the times."""
    import jax
    import numpy as np
    from jax.sharding import Mesh, NamedSharding
    from jax.sharding import PartitionSpec as P

    from xla_shmem import plugin

    jax.distributed.initialize()
    ranks = len(jax.devices())
    mesh = Mesh(np.array(jax.devices()), ("x",))
    ring = [(i, (i + 1) % ranks) for i in range(ranks)]

    def program(op: str, count: int) -> Any:
        def once(_: Any, x: Any) -> Any:
            # The scaling keeps repeated sums finite.
            return jax.lax.ppermute(x, "x", ring) if op == "permute" else jax.lax.psum(x, "x") * (1.0 / ranks)

        def loop(x: Any) -> Any:
            return jax.lax.fori_loop(0, count, once, x)

        return jax.jit(jax.shard_map(loop, mesh=mesh, in_specs=P("x"), out_specs=P("x"), check_vma=False))

    def timed(compiled: Any, x: Any, count: int) -> float:
        start = time.perf_counter()
        jax.block_until_ready(compiled(x))
        return (time.perf_counter() - start) / count * 1e6

    rows = []
    for size in SIZES:
        elements = size // 4
        sharding = NamedSharding(mesh, P("x"))
        values = np.full(elements, 1.0, np.float32)
        x = jax.make_array_from_callback((elements * ranks,), sharding, lambda _, values=values: values)
        for op in OPS:
            count = iterations(size)
            shmem = program(op, count).lower(x).compile()
            with plugin.stock_collectives():
                stock = program(op, count).lower(x).compile()
            if "xla_shmem." not in shmem.as_text() or "xla_shmem." in stock.as_text():
                raise SystemExit("the two versions are not what they should be: is the flag on?")
            timed(shmem, x, count), timed(stock, x, count)  # warm up
            times = [(timed(shmem, x, count), timed(stock, x, count)) for _ in range(rounds)]
            rows.append({"op": op, "bytes": size, "shmem": [a for a, _ in times], "stock": [b for _, b in times]})
    if jax.process_index() == 0:
        result.write_text(json.dumps({"jax": jax.__version__, "rows": rows}))


def measure(processes: int, rounds: int) -> dict[str, Any]:
    """Runs one job and returns what rank 0 wrote."""
    from xla_shmem.launch import launch

    with tempfile.TemporaryDirectory() as directory:
        result = pathlib.Path(directory) / "times.json"
        os.environ["XLA_FLAGS"] = "--xla_gpu_experimental_enable_nvshmem=true"
        os.environ["XLA_SHMEM_THRESHOLD"] = "1GiB"  # otherwise large all-reduces would stay on gloo
        code = launch([sys.executable, __file__, "--worker", str(result), "--rounds", str(rounds)], processes)
        if code:
            raise SystemExit(f"the job with {processes} processes failed with exit code {code}")
        return json.loads(result.read_text())  # type: ignore[no-any-return]


def speed_up(row: dict[str, Any]) -> float:
    """Median of stock over median of SHMEM."""
    return statistics.median(row["stock"]) / statistics.median(row["shmem"])


def bar(processes: int, size: int) -> float | None:
    """The least speed-up the project asks for, None where it asks for nothing."""
    small, large = BARS.get(processes, (None, None))
    return small if size <= 1 << 20 else large if size == 64 << 20 else None


def print_table(processes: int, rows: Sequence[dict[str, Any]]) -> None:
    """Prints one row for each operation and size."""
    from rich.console import Console
    from rich.table import Table

    from xla_shmem.collective_report import format_bytes

    def cell(times: Sequence[float]) -> str:
        low, middle, high = statistics.quantiles(times, n=4)
        return f"{middle:,.1f} ({low:,.1f}-{high:,.1f})"

    table = Table(title=f"{processes} processes, µs per collective: median (quartiles)")
    for column in ("op", "bytes", "gloo", "SHMEM", "speed-up", "bar"):
        table.add_column(column, justify="left" if column == "op" else "right")
    for row in rows:
        wanted = bar(processes, row["bytes"])
        reached = wanted is None or speed_up(row) >= wanted
        table.add_row(
            row["op"],
            format_bytes(row["bytes"]),
            cell(row["stock"]),
            cell(row["shmem"]),
            f"[{'green' if reached else 'red'}]{speed_up(row):.2f}×[/]",
            "" if wanted is None else f"≥ {wanted}×",
        )
    Console(width=None if sys.stdout.isatty() else 110).print(table)


def main() -> None:
    """Command line; see the module's docstring."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("--processes", type=int, nargs="+", default=[2, 4])
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--out", type=pathlib.Path, default=pathlib.Path("out/bench"))
    parser.add_argument("--worker", type=pathlib.Path, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.worker:
        run_worker(arguments.rounds, arguments.worker)
        return
    jobs = {}
    for processes in arguments.processes:
        jobs[processes] = measure(processes, arguments.rounds)
        print_table(processes, jobs[processes]["rows"])
    arguments.out.mkdir(parents=True, exist_ok=True)
    report = {
        "date": datetime.date.today().isoformat(),
        "machine": f"{platform.machine()}, {len(os.sched_getaffinity(0))} cores",
        "load": os.getloadavg(),
        "jobs": jobs,
    }
    path = arguments.out / "transport.json"
    path.write_text(json.dumps(report, indent=1))
    print(f"all times: {path}")


if __name__ == "__main__":
    main()
