"""Compares two installed versions of xla-shmem by `xla-shmem bench`, in turns: A B, B A, A B, ...

    python benchmarks/compare_installs.py OLD_VENV NEW_VENV [--ranks 2] [--turns 3] -- BENCH_OPTIONS

Both must be built with the same options. BENCH_OPTIONS go to both versions; the numbers of ranks are added. A row shows
the median time of a collective over all turns (µs, of SHMEM), the ratio old / new (above 1: the new version is faster)
with the smallest and the largest ratio of a turn, and the wrong elements of both.
"""

from __future__ import annotations

import argparse
import json
import shlex
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

Cell = tuple[str, int]


def run_bench(venv: Path, options: list[str]) -> dict[Cell, tuple[float, int]]:
    """Returns, for each op and size in bytes, the median µs and the number of wrong elements of one run."""
    with tempfile.TemporaryDirectory() as folder:
        report = Path(folder) / "bench.json"
        command = [str(venv / "bin" / "xla-shmem"), "bench", "--vs", "none", *options, "--output", str(report)]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        if not report.exists():
            sys.exit(f"{shlex.join(command)} ended with {done.returncode}:\n{done.stderr[-2000:]}")
        rows: list[dict[str, Any]] = json.loads(report.read_text())["rows"]
    found = {}
    for row in rows:
        shmem = row["variants"]["shmem"]
        if "p50_us" not in shmem:
            sys.exit(f"{venv}: {row['op']} of {row['bytes']} bytes did not run: {shmem['reason']}")
        found[row["op"], row["bytes"]] = (shmem["p50_us"], shmem["wrong"] or 0)
    return found


def main() -> None:
    """Runs the turns and prints the table; the exit code is 1 if an element is wrong."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("old", type=Path, help="virtual environment with the old version")
    parser.add_argument("new", type=Path, help="virtual environment with the new version")
    parser.add_argument("--ranks", type=int, default=2)
    parser.add_argument("--turns", type=int, default=3)
    arguments = sys.argv[1:]
    split = arguments.index("--") if "--" in arguments else len(arguments)
    given, options = parser.parse_args(arguments[:split]), arguments[split + 1 :]
    old: list[dict[Cell, tuple[float, int]]] = []
    new: list[dict[Cell, tuple[float, int]]] = []
    options = ["-n", str(given.ranks), *options]
    for turn in range(given.turns):
        first, second = (old, new) if turn % 2 == 0 else (new, old)
        for results in (first, second):
            results.append(run_bench(given.old if results is old else given.new, options))
        print(f"# turn {turn + 1} of {given.turns} done", file=sys.stderr)
    print(f"# {given.turns} turns; bench {shlex.join(options)}")
    print(f"{'op':<22}{'bytes':>12}{'old µs':>12}{'new µs':>12}{'old/new':>10}{'min':>8}{'max':>8}{'#wrong':>8}")
    wrong, overall = 0, []
    for cell in old[0]:
        before = statistics.median(run[cell][0] for run in old)
        after = statistics.median(run[cell][0] for run in new)
        ratios = [a[cell][0] / b[cell][0] for a, b in zip(old, new, strict=True)]
        errors = sum(run[cell][1] for run in old + new)
        wrong += errors
        overall.append(before / after)
        print(
            f"{cell[0]:<22}{cell[1]:>12}{before:>12.1f}{after:>12.1f}{before / after:>10.2f}"
            f"{min(ratios):>8.2f}{max(ratios):>8.2f}{errors:>8}"
        )
    print(f"# geometric mean of old/new: {statistics.geometric_mean(overall):.3f}; wrong elements: {wrong}")
    sys.exit(1 if wrong else 0)


if __name__ == "__main__":
    main()
