"""Whether jobs choose between cross-memory reads and slots alike, and well (xla_patch/thunks/cpu/protocol_choice.h).

    python benchmarks/choice_benchmark.py [--jobs 20] [--realtime] -- build/bench/benchmarks/runtime_benchmark [OPTIONS]

Runs `--jobs` jobs of each kind in turn: all by slots, all by reads, and with the choice. `--realtime` puts them before
all other work of the machine (chrt -f), which stands still meanwhile.

A row shows the medians of the jobs' times (µs), that of the choice over the better of the other two, and the greatest
such ratio of one turn. "nearer" counts the turns in which the choice took about as long as slots, and as reads: where
the two differ by more than the noise, all should be on one side.
"""

from __future__ import annotations

import argparse
import math
import statistics
import subprocess
from collections import defaultdict

KINDS = ("off", "always", "auto")


def times(command: list[str]) -> dict[tuple[str, int], float]:
    """Runs one job; returns its median time in µs by op and bytes."""
    table = subprocess.run(command, capture_output=True, text=True, check=True, timeout=300).stdout
    rows = (line.split() for line in table.splitlines())
    return {(row[0], int(row[1])): float(row[2]) for row in rows if len(row) == 4 and row[1].isdigit()}


def main() -> None:
    """Runs all jobs and prints the table."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--jobs", type=int, default=20, help="jobs of each kind (default: 20)")
    parser.add_argument("--realtime", action="store_true", help="before all other work; needs the permission")
    parser.add_argument("command", nargs="+", help="runtime_benchmark (benchmarks/CMakeLists.txt) and options")
    given = parser.parse_args()
    prefix = ["chrt", "-f", "10"] if given.realtime else []
    found: dict[tuple[str, int], dict[str, list[float]]] = defaultdict(lambda: defaultdict(list))
    for _ in range(given.jobs):
        for kind in KINDS:
            for cell, us in times([*prefix, *given.command, "-s", kind]).items():
                found[cell][kind].append(us)
    print(f"{'op':<16}{'bytes':>10}{'slots':>10}{'reads':>10}{'choice':>10}{'over best':>11}{'worst':>7}  nearer")
    for (op, size), by_kind in found.items():
        if op == "memcpy":
            continue
        slots, reads, choice = (statistics.median(by_kind[kind]) for kind in KINDS)
        best = min(slots, reads)
        turns = list(zip(*(by_kind[kind] for kind in KINDS), strict=True))
        near_slots = sum(abs(math.log(auto / off)) < abs(math.log(auto / always)) for off, always, auto in turns)
        worst = max(auto / min(off, always) for off, always, auto in turns)
        print(
            f"{op:<16}{size:>10}{slots:>10.1f}{reads:>10.1f}{choice:>10.1f}{choice / best:>11.2f}"
            f"{worst:>7.2f}  {near_slots} {given.jobs - near_slots}"
        )


if __name__ == "__main__":
    main()
