"""Compares two installed versions of xla-shmem, whose jobs live side by side and take turns every few milliseconds.

    python benchmarks/compare_installs.py OLD_VENV[,VARIABLE=VALUE...] NEW_VENV[,...] [--ranks 2] [--jobs 5]
        [--rounds 20] [--free] [--op OP,...] [--bytes N,...]

Rank r of both jobs is bound to processor r (modulo their number) unless `--free` is given, so both see the same machine
in the same state. One job waits in a read while the other measures. A round runs both on one cell, in changing order. A
job's start decides some things for its whole life, as where its memory lies and how it copies (XLA_SHMEM_SINGLE_COPY,
which both inherit), so several pairs of jobs are started.

A row shows the median time of a collective (µs), the median over all rounds of old / new (above 1: the new version is
faster), the least and greatest such median of a pair of jobs, and the wrong elements of both.
"""

from __future__ import annotations

import argparse
import json
import os
import socket
import statistics
import subprocess
import sys
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path
from typing import IO, Any

WORKER = Path(__file__).with_name("compare_worker.py")
OPS = (
    *("collective-permute", "all-reduce", "all-gather", "reduce-scatter", "all-to-all", "collective-broadcast"),
    "ragged-all-to-all",
)
SIZES = tuple(1024 * 4**step for step in range(7))

#: How long one job measures in one round.
ROUND_S = 0.03


class Job:
    """The ranks of one installed version. They answer a line of JSON with a line of JSON, and wait otherwise."""

    def __init__(self, version: str, ranks: int, *, bound: bool = True) -> None:
        folder, *variables = version.split(",")
        self._venv = venv = Path(folder)
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            port = probe.getsockname()[1]
        environ = os.environ | {
            "JAX_PLATFORMS": "cpu",
            "XLA_FLAGS": "--xla_gpu_experimental_enable_nvshmem=true",
            "XLA_SHMEM_OPS": "all",
            "XLA_SHMEM_THRESHOLD": "1GiB",
        }
        environ |= dict(variable.split("=", 1) for variable in variables)
        processors = sorted(os.sched_getaffinity(0))
        self._ranks: list[subprocess.Popen[str]] = []
        self._answers: list[IO[str]] = []
        for rank in range(ranks):
            read_end, write_end = os.pipe()
            command = ["taskset", "--cpu-list", str(processors[rank % len(processors)])] if bound else []
            command += [str(venv / "bin" / "python"), str(WORKER), f"127.0.0.1:{port}"]
            command += map(str, (ranks, rank, write_end))
            process = subprocess.Popen(
                command,
                stdin=subprocess.PIPE,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                text=True,
                env=environ,
                pass_fds=(write_end,),
            )
            os.close(write_end)
            self._ranks.append(process)
            self._answers.append(os.fdopen(read_end))

    def ask(self, **question: Any) -> list[dict[str, Any]]:
        """Returns the answers of all ranks."""
        for rank in self._ranks:
            assert rank.stdin is not None
            rank.stdin.write(json.dumps(question) + "\n")
            rank.stdin.flush()
        lines = [answers.readline() for answers in self._answers]
        if not all(lines):
            sys.exit(
                f"compare_installs: a rank of {self._venv} ended at {question}; `xla-shmem bench` of that environment "
                "shows its error"
            )
        return [json.loads(line) for line in lines]

    def close(self) -> None:
        """Ends the job; all ranks leave together."""
        for rank in self._ranks:
            assert rank.stdin is not None
            rank.stdin.close()
        for rank in self._ranks:
            rank.wait(timeout=60)


def measured(job: Job, op: str, size: int, runs: int) -> tuple[float, int]:
    """Returns µs a collective, of the slowest rank, and wrong elements of all."""
    answers = job.ask(op=op, bytes=size, runs=runs)
    return max(answer["us"] for answer in answers), sum(answer["wrong"] for answer in answers)


def turns(old: Job, new: Job, op: str, size: int, rounds: int) -> Iterator[tuple[float, float, int]]:
    """Yields old µs, new µs and wrong elements of each round."""
    first = max(measured(job, op, size, 1)[0] for job in (old, new))  # compiles
    first = max(measured(job, op, size, 3)[0] for job in (old, new, old, new)) or first
    runs = max(1, round(ROUND_S * 1e6 / first / 20))
    for number in range(rounds):
        order = (old, new) if number % 2 == 0 else (new, old)
        found = {id(job): measured(job, op, size, runs) for job in order}
        (before, wrong), (after, more) = found[id(old)], found[id(new)]
        yield before, after, wrong + more


def main() -> None:
    """Runs all pairs of jobs and prints the table; the exit code is 1 if an element is wrong."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("old", help="virtual environment with the old version, and VARIABLE=VALUE after commas")
    parser.add_argument("new", help="the same of the new version")
    parser.add_argument("--ranks", type=int, default=2)
    parser.add_argument("--jobs", type=int, default=5, help="pairs of jobs (default: 5)")
    parser.add_argument("--rounds", type=int, default=20, help="rounds of a cell in each pair of jobs (default: 20)")
    parser.add_argument("--free", action="store_true", help="bind no rank to a processor")
    parser.add_argument("--op", default=",".join(OPS), metavar="OP,...")
    parser.add_argument("--bytes", default=",".join(map(str, SIZES)), metavar="N,...")
    given = parser.parse_args()
    cells = [(op, int(size)) for op in given.op.split(",") for size in given.bytes.split(",")]
    rounds: dict[tuple[str, int], list[list[tuple[float, float, int]]]] = defaultdict(list)
    for number in range(given.jobs):
        old, new = (Job(venv, given.ranks, bound=not given.free) for venv in (given.old, given.new))
        for cell in cells:
            rounds[cell].append(list(turns(old, new, *cell, given.rounds)))
        old.close()
        new.close()
        print(f"# pair {number + 1} of {given.jobs} done", file=sys.stderr)
    print(f"{'op':<22}{'bytes':>10}{'old µs':>10}{'new µs':>10}{'old/new':>9}{'least':>7}{'most':>7}{'#wrong':>8}")
    of_op: dict[str, list[float]] = defaultdict(list)
    wrong = 0
    for (op, size), pairs in rounds.items():
        every = [turn for pair in pairs for turn in pair]
        ratio = statistics.median(before / after for before, after, _ in every)
        each = [statistics.median(before / after for before, after, _ in pair) for pair in pairs]
        errors = sum(errors for *_, errors in every)
        wrong += errors
        of_op[op].append(ratio)
        before, after = (statistics.median(turn[column] for turn in every) for column in (0, 1))
        print(
            f"{op:<22}{size:>10}{before:>10.2f}{after:>10.2f}{ratio:>9.3f}{min(each):>7.2f}{max(each):>7.2f}{errors:>8}"
        )
    for op, ratios in of_op.items():
        print(f"# {op}: geometric mean of old/new {statistics.geometric_mean(ratios):.3f}")
    sys.exit(1 if wrong else 0)


if __name__ == "__main__":
    main()
