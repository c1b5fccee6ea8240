"""Training jobs in which a fault hits a random rank at a random point, and the checks of how they end.

`python tests/e2e/fault_runs.py --first 1 --runs 100` prints a line of JSON for each run and a table. One seed always
draws the same fault; when it hits depends on the machine.
"""

from __future__ import annotations

import argparse
import collections
import contextlib
import dataclasses
import itertools
import json
import os
import random
import re
import secrets
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from types import TracebackType
from typing import Any

from job_runs import FLAG, HERE, SHM, environment

#: Seconds of XLA_SHMEM_DEADLINE. The longest that a rank without a fault was seen not to run is far below it.
DEADLINE = 4.0
#: Seconds that a loaded machine may add to the protocol's limits.
GRACE = 6.0
#: Steps of a job by number of ranks: half a second or more on two cores.
STEPS = {1: 120, 2: 120, 4: 60, 8: 30}
RANKS = (2, 4, 8)
#: What happens to the rank: killed, stopped for ever, kept out of collectives for ever, stopped for less than the
#: deadline, slowed down by many short stops.
FAULTS = ("kill", "stop", "absent", "pause", "slow")
#: How an error says it, for the faults that end a job.
SAYS = {"kill": "has exited", "stop": "is stopped", "absent": "is running, but in no collective"}


@dataclasses.dataclass(frozen=True)
class Fault:
    """What a seed draws."""

    seed: int
    ranks: int
    kind: str
    victim: int
    after: float  # share of the job's usual duration until the fault

    @classmethod
    def draw(cls, seed: int, ranks: int | None = None, kind: str | None = None) -> Fault:
        """The fault of a seed, with the number of ranks or the kind given or drawn."""
        own = random.Random(f"fault {seed}")
        drawn = own.choice(RANKS), own.choice(FAULTS)
        n = ranks or drawn[0]
        return cls(seed, n, kind or drawn[1], own.randrange(n), own.uniform(0.0, 0.5))


@dataclasses.dataclass(frozen=True)
class Reference:
    """What a job without a fault gives."""

    losses: list[str]
    digests: list[str]  # of the final state, by rank
    seconds: float  # from the end of the first step to that of the last


@dataclasses.dataclass
class Ended:
    """What is known of a job that has ended."""

    events: list[list[dict[str, Any]]]  # by rank
    statuses: list[int]  # of waitpid, by rank
    longest_step: float  # seconds, before the fault
    seconds_after: float  # from the fault to the end of the last rank but the victim
    problems: list[str]
    output: str

    def losses(self, rank: int) -> list[str]:
        """Of the steps that the rank has done."""
        return [event["loss"] for event in self.events[rank] if "loss" in event]

    def value(self, rank: int, name: str) -> str:
        """Of the event with this name; "" if there is none."""
        return next((str(event[name]) for event in self.events[rank] if name in event), "")


def named(error: str) -> set[int]:
    """The PEs that an error holds responsible, in any of its clauses."""
    pes = {int(number) for number in re.findall(r"process \d+ \(PE (\d+)\)", error)}
    pes |= {int(number) for number in re.findall(r"; PE (\d+) has (?:taken|sent)", error)}
    for several in re.findall(r"not arrived at this operation: PE ([\d, ]+)", error):
        pes |= {int(number) for number in several.split(",")}
    return pes


def _running(pid: int) -> bool:
    with contextlib.suppress(OSError):
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] not in "ZX"
    return False


def _group_lives(group: int) -> bool:
    with contextlib.suppress(ProcessLookupError):
        os.killpg(group, 0)
        return True
    return False


class Server:
    """A process that forks the ranks of jobs (fault_server.py), and the references of those jobs."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        folder.mkdir(parents=True, exist_ok=True)
        extra = {
            "XLA_FLAGS": FLAG,
            "XLA_SHMEM_OPS": "all",
            "XLA_SHMEM_DEADLINE": str(DEADLINE),
            "OPENBLAS_NUM_THREADS": "1",  # it would start threads when imported
        }
        self._process = subprocess.Popen(
            [sys.executable, str(HERE / "fault_server.py")],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env=environment(folder, extra),
        )
        self._references: dict[int, Reference] = {}

    def __enter__(self) -> Server:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        assert self._process.stdin is not None
        self._process.stdin.close()
        self._process.wait(10)

    def _ask(self, **request: object) -> dict[str, Any]:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(json.dumps(request) + "\n")
        self._process.stdin.flush()
        answer: dict[str, Any] = json.loads(self._process.stdout.readline())
        return answer

    def reference(self, ranks: int) -> Reference:
        """Of the job on this number of ranks, from a run of its own the first time. It also writes the programs."""
        if ranks not in self._references:
            for _ in range(2):  # the first compiles
                ended = self.run(ranks, None)
                assert not ended.problems, ended
                times = [event["time"] for event in ended.events[0] if "loss" in event]
                digests = [ended.value(rank, "done") for rank in range(ranks)]
                reference = Reference(ended.losses(0), digests, times[-1] - times[0])
                previous = self._references.setdefault(ranks, reference)
                assert previous.losses == reference.losses
                assert previous.digests == reference.digests
                self._references[ranks] = reference
        return self._references[ranks]

    def run(self, ranks: int, fault: Fault | None) -> Ended:
        """Runs a job to its end, with or without a fault."""
        seconds = self.reference(ranks).seconds if fault else 0.0
        folder = Path(tempfile.mkdtemp(dir=self._folder, prefix="run."))
        (folder / "tmp").mkdir()
        job = secrets.token_hex(16)
        extra = {"XLA_SHMEM_RECORDS": str(folder / "records"), "TMPDIR": str(folder / "tmp")}
        group, *pids = self._ask(start=str(folder), ranks=ranks, steps=STEPS[ranks], job=job, env=extra)["pids"]
        problems = []
        after, hit = 0.0, float("inf")
        try:
            self._wait_for_begin(folder, ranks, pids)
            hit = time.monotonic()
            survivors = pids
            if fault is not None:
                time.sleep(fault.after * seconds)
                hit = time.monotonic()
                strike(fault, pids[fault.victim])
                if fault.kind in SAYS:
                    survivors = [pid for rank, pid in enumerate(pids) if rank != fault.victim]
            limit = hit + (DEADLINE + GRACE if fault is not None and fault.kind in SAYS else 90)
            while any(map(_running, survivors)) and time.monotonic() < limit:
                time.sleep(0.01)
            after = time.monotonic() - hit
            problems = [f"rank {pids.index(pid)} still runs {after:.1f} s after" for pid in survivors if _running(pid)]
        except TimeoutError as error:
            problems.append(str(error))
        finally:
            for pid in [*pids, group]:
                os.kill(pid, signal.SIGKILL)  # not reaped yet, so the number is its own
        statuses = self._ask(reap=True)["statuses"][1:]
        problems += self._leaks(folder, job, group, kept_records=fault is not None and fault.kind in SAYS)
        events = [_events_of(folder / f"{rank}.jsonl") for rank in range(ranks)]
        output = "\n".join(
            f"[{rank}] {line}"
            for rank in range(ranks)
            for line in (folder / f"{rank}.txt").read_text(errors="replace").splitlines()
        )
        shutil.rmtree(folder)
        times = [[event["time"] for event in own if event["time"] < hit] for own in events]
        longest = max((later - sooner for own in times for sooner, later in itertools.pairwise(own)), default=0.0)
        return Ended(events, statuses, longest, after, problems, output)

    def _wait_for_begin(self, folder: Path, ranks: int, pids: list[int]) -> None:
        """Until all ranks have done a step: all have compiled and connected."""
        limit = time.monotonic() + 120
        files = [folder / f"{rank}.jsonl" for rank in range(ranks)]
        while not all(file.exists() and file.stat().st_size for file in files):
            if time.monotonic() > limit or not all(map(_running, pids)):
                raise TimeoutError("the job did not begin")
            time.sleep(0.005)

    def _leaks(self, folder: Path, job: str, group: int, *, kept_records: bool) -> Iterator[str]:
        limit = time.monotonic() + 2
        while _group_lives(group) and time.monotonic() < limit:
            time.sleep(0.01)
        if _group_lives(group):
            yield "left running: processes of the job"
        yield from (f"left in /dev/shm: {path.name}" for path in SHM.glob(f"*{job[:16]}*"))
        yield from (f"left in the temporary folder: {path.name}" for path in (folder / "tmp").iterdir())
        # A job that failed keeps its flight records, for `xla-shmem postmortem`.
        if (folder / "records").exists() and not kept_records:
            yield from (f"left of the records: {path}" for path in (folder / "records").rglob("*") if path.is_file())


def _events_of(file: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in file.read_text().splitlines()] if file.exists() else []


def strike(fault: Fault, pid: int) -> None:
    """Does to the process what the fault says. Returns when it is over, or at once if it lasts for ever."""
    draw = random.Random(f"strike {fault.seed}")
    if fault.kind == "kill":
        os.kill(pid, signal.SIGKILL)
    elif fault.kind == "stop":
        os.kill(pid, signal.SIGSTOP)
    elif fault.kind == "absent":
        os.kill(pid, signal.SIGUSR1)
    elif fault.kind == "pause":
        os.kill(pid, signal.SIGSTOP)
        time.sleep(draw.uniform(0.1, 0.6) * DEADLINE)
        os.kill(pid, signal.SIGCONT)
    elif fault.kind == "slow":
        until = time.monotonic() + 2.0
        while time.monotonic() < until and _running(pid):
            os.kill(pid, signal.SIGSTOP)
            time.sleep(draw.uniform(0.005, 0.1))
            os.kill(pid, signal.SIGCONT)
            time.sleep(draw.uniform(0.001, 0.03))


def check(fault: Fault, ended: Ended, reference: Reference) -> tuple[str, list[str]]:
    """The outcome of a run and all that is wrong with it.

    Outcomes: `right`, `named`, and `missed`, when the survivors of a rank had all they needed from it.
    """
    problems = list(ended.problems)
    for rank in range(fault.ranks):
        losses = ended.losses(rank)
        if losses != reference.losses[: len(losses)]:
            problems.append(f"rank {rank} has other losses than without the fault")
    done = [ended.value(rank, "done") for rank in range(fault.ranks)]
    if fault.kind not in SAYS:
        if done == reference.digests and not any(ended.statuses):
            return "right", problems
        problems.append(f"ended with {done} and {ended.statuses}, not {reference.digests}")
        return "wrong", problems
    told = [rank for rank in range(fault.ranks) if rank != fault.victim and done[rank] != reference.digests[rank]]
    for rank in told:
        error = ended.value(rank, "error")
        if f"process {fault.victim} (PE {fault.victim}) {SAYS[fault.kind]}" not in error:
            problems.append(f"rank {rank} does not say that {fault.victim} {SAYS[fault.kind]}: {error}")
        if named(error) != {fault.victim}:
            problems.append(f"rank {rank} names {named(error)}, not {fault.victim} alone: {error}")
    return "named" if told else "missed", problems


def run_fault(server: Server, fault: Fault) -> dict[str, Any]:
    """Runs a job with this fault; the result has `problems`, [] if all is well."""
    begin = time.monotonic()
    ended = server.run(fault.ranks, fault)
    outcome, problems = check(fault, ended, server.reference(fault.ranks))
    result = dataclasses.asdict(fault) | {
        "outcome": outcome,
        "steps": min(len(ended.losses(rank)) for rank in range(fault.ranks)),
        "longest_step": round(ended.longest_step, 3),
        "seconds_after": round(ended.seconds_after, 2),
        "seconds": round(time.monotonic() - begin, 2),
        "problems": problems,
    }
    return result | ({"output": ended.output, "events": [events[-1:] for events in ended.events]} if problems else {})


def table(results: list[dict[str, Any]]) -> str:
    """Runs by ranks, fault and outcome."""
    counts = collections.Counter(
        (result["ranks"], result["kind"], "problem" if result["problems"] else result["outcome"]) for result in results
    )
    lines = [f"{ranks} ranks, {kind}, {outcome}: {n}" for (ranks, kind, outcome), n in sorted(counts.items())]
    return "\n".join([*lines, f"all: {len(results)}"])


def main() -> None:
    """Runs seeds and prints what came of them."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--first", type=int, default=1)
    parser.add_argument("--runs", type=int, default=10)
    parser.add_argument("--ranks", type=int)
    parser.add_argument("--kind", choices=FAULTS)
    parser.add_argument("--jobs", type=int, default=1, help="jobs that run at a time")
    parser.add_argument("--folder", type=Path, default=Path("out/faults"), help="keeps the compiled programs")
    parser.add_argument("--seconds", type=float, default=1e9, help="begins no run after these")
    options = parser.parse_args()
    until = time.monotonic() + options.seconds
    seeds = iter(range(options.first, options.first + options.runs))
    results: list[dict[str, Any]] = []

    def worker(number: int) -> None:
        with Server(options.folder.absolute() / str(number)) as server:
            for seed in seeds:
                if time.monotonic() > until:
                    break
                result = run_fault(server, Fault.draw(seed, options.ranks, options.kind))
                results.append(result)
                print(json.dumps(result), flush=True)

    with ThreadPoolExecutor(options.jobs) as pool:
        for done in [pool.submit(worker, number) for number in range(options.jobs)]:
            done.result()
    print(table(results), file=sys.stderr)


if __name__ == "__main__":
    main()
