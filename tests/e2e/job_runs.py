"""Runs a worker program as a job of several local ranks, like a user: with `xla-shmem launch`."""

from __future__ import annotations

import contextlib
import functools
import importlib.metadata
import json
import os
import re
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

import warm_start

HERE = Path(__file__).resolve().parent
FLAG = "--xla_gpu_experimental_enable_nvshmem=true"
SHM = Path("/dev/shm")
#: XLA_FLAGS of jobs that compile much and compute little. With XLA:CPU's older emitter such a job takes a third less
#: time; later releases have neither it nor the flag.
QUICK_COMPILATION = "--xla_backend_optimization_level=0"
if tuple(map(int, importlib.metadata.version("jax").split(".")[:2])) < (0, 11):
    QUICK_COMPILATION += " --xla_cpu_use_fusion_emitters=false"

_LAUNCH = (
    "import sys; from xla_shmem.launch.launcher import launch; "
    "sys.exit(launch(sys.argv[4:], int(sys.argv[1]), devices_per_process=int(sys.argv[2]), grace=float(sys.argv[3])))"
)

_Launcher = subprocess.Popen[bytes] | warm_start.WarmLauncher
_Start = Callable[[Mapping[str, str], BinaryIO], _Launcher]

#: What each rank wrote about one case.
Reports = dict[int, dict[str, object]]

# Lines of gloo and gRPC, which come between those of the job.
_NOISE = re.compile(r"\[Gloo\]|gloo/|^\s*$")


@dataclass(frozen=True)
class JobRun:
    """The results of a job.

    Attributes:
      exit_code: of the launcher; -9 if the job reached its time limit.
      output: lines of all ranks, stdout and stderr, each with its rank in front.
      seconds: wall clock, from start to end.
      results: what each rank that got so far wrote with `report`.
      segments: names left in /dev/shm that were not there before, and that no other job has in use.
    """

    exit_code: int
    output: str
    seconds: float
    results: dict[int, list[dict[str, object]]]
    segments: list[str]

    def result(self, rank: int) -> dict[str, object]:
        """The only report of a rank."""
        assert rank in self.results, f"rank {rank} reported nothing:\n{self.output}"
        (only,) = self.results[rank]
        return only

    def reports_of(self, case: str) -> Reports:
        """What each rank reported of a case, {} if it did not get to it."""
        return {
            rank: next((report for report in reports if report["case"] == case), {})
            for rank, reports in self.results.items()
        }

    def line_with(self, words: str) -> str:
        """The first line of output with these words in it."""
        for line in self.output.splitlines():
            if words in line:
                return line
        raise AssertionError(f"no line with {words!r} in:\n{self.output}")


def ranks_of(out: Path) -> list[int]:
    """Process ids of the trainers whose output is this folder or one in it."""
    found = []
    for line in Path("/proc").glob("[0-9]*/cmdline"):
        with contextlib.suppress(OSError):
            arguments = line.read_bytes().split(b"\0")
            # Only the launcher has `--`.
            trainer = b"long_context.cli.train" in arguments and b"--" not in arguments
            if trainer and any(argument.startswith(f"--output={out}".encode()) for argument in arguments):
                found.append(int(line.parent.name))
    return found


def abandoned_segments(*, results: Path | None = None) -> set[str]:
    """The segments of xla-shmem of jobs without a running process. For what a job leaves, see `left_behind`.

    Processes of the job that reports to `results` do not count. A process belongs to the job whose key it has in its
    environment or in the name of a file that it maps (warm_server.py), or to that whose segment it has mapped. (The
    launcher of a job unlinks those of killed ranks at its end, and on GPUs the other ranks do not map them.)
    """
    segments = {path.name for path in SHM.glob(f"xla_shmem.{os.getuid()}.*")}
    if not segments:
        return segments
    used = b""
    for directory in processes_of(results, others=True) if results else Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            used += (directory / "maps").read_bytes() + (directory / "environ").read_bytes()
    return {name for name in segments if name.encode() not in used and b"XLA_SHMEM_JOB=" + _launch_of(name) not in used}


def _launch_of(segment: str) -> bytes:
    """The digits of a segment's name that are those of its launcher's key."""
    return segment.split(".")[2][:16].encode()


def left_behind(before: set[str], *, results: Path | None = None) -> set[str]:
    """Segments that were not in `before`, the earlier `abandoned_segments()`, and that nobody maps or unlinks for 5 s.

    Other tests may run jobs at the same time. Their segments are not mapped for a moment after they are created, and
    when the ranks have ended but the launcher has not unlinked them yet.
    """
    deadline = time.monotonic() + 5
    left = abandoned_segments(results=results) - before
    while left and time.monotonic() < deadline:
        time.sleep(0.1)
        left &= abandoned_segments(results=results)
    return left


def processes_of(results: Path, *, others: bool = False) -> list[Path]:
    """Directories in /proc of the running processes of the job that reports there; with `others`, all except those."""
    mark = f"E2E_RESULTS={results}".encode()
    found = []
    for directory in Path("/proc").glob("[0-9]*"):
        try:
            ours = mark in (directory / "environ").read_bytes().split(b"\0") or _has_open(directory, results)
        except OSError:
            continue
        if ours != others:
            found.append(directory)
    return found


def _has_open(process: Path, folder: Path) -> bool:
    """Whether a process has a folder open, as those of a warm job have. Their environ is that of their server."""
    with contextlib.suppress(OSError):
        return any(os.path.samefile(link, folder) for link in (process / "fd").iterdir() if link.is_dir())
    return False


def environment(results: Path, extra: Mapping[str, str]) -> dict[str, str]:
    """The environment of a job: that of this process without variables of an outer run, and CPU only by default."""
    dropped = ("XLA_SHMEM_", "JAX_", "OMPI_", "CUDA_", "NVSHMEM_", "GPU_EMULATOR_")
    environ = {k: v for k, v in os.environ.items() if not k.startswith(dropped) and k != "XLA_FLAGS"}
    set_by_job = {name: value for name, value in extra.items() if value}
    return environ | {"JAX_PLATFORMS": "cpu", "E2E_RESULTS": str(results)} | set_by_job


def run_job(
    worker: str,
    arguments: Sequence[str] = (),
    *,
    ranks: int,
    devices: int = 1,
    results: Path,
    flag: bool = True,
    timeout: float = 150,
    grace: float = 1.0,
    cold: bool = False,
    **environ: str,
) -> JobRun:
    """Runs `worker` (a file beside this one) on `ranks` processes with `devices` devices each.

    Args:
      grace: seconds that the other ranks have to end by themselves when one has failed.
      cold: whether the ranks must be new processes of Python in `make test` too (warm_start.py).
    """
    command = [sys.executable, str(HERE / worker), *arguments]

    def start(variables: Mapping[str, str], sink: BinaryIO) -> _Launcher:
        job = None if cold else warm_start.start(command, ranks, devices, grace, variables, sink, results)
        new = [sys.executable, "-c", _LAUNCH, str(ranks), str(devices), str(grace), *command]
        return job or _started(new, variables, sink)

    return _run(start, results=results, flag=flag, timeout=timeout, **environ)


def run_ranks(
    start: Sequence[str], program: Sequence[str], *, results: Path, flag: bool = True, timeout: float, **environ: str
) -> JobRun:
    """Runs a Python program and its arguments as a job whose ranks the command `start` starts."""
    command = [*start, sys.executable, *program]
    return _run(functools.partial(_started, command), results=results, flag=flag, timeout=timeout, **environ)


def _started(command: Sequence[str], variables: Mapping[str, str], sink: BinaryIO) -> subprocess.Popen[bytes]:
    return subprocess.Popen(command, env=variables, stdout=sink, stderr=subprocess.STDOUT)


def _run(start: _Start, *, results: Path, flag: bool, timeout: float, **environ: str) -> JobRun:
    """Runs a job and reads its results. `start` gets its environment and the file for its output."""
    results.mkdir(parents=True, exist_ok=True)
    if flag:
        environ["XLA_FLAGS"] = " ".join(filter(None, [environ.get("XLA_FLAGS"), FLAG]))
    before = abandoned_segments()
    begin = time.monotonic()
    # To a file, because the ranks of a test that its time limit stops would keep a pipe open.
    log = results / "output.txt"
    with log.open("wb") as sink:
        launcher = start(environment(results, environ), sink)
        try:
            launcher.wait(timeout)
        except subprocess.TimeoutExpired:
            log.write_text(f"{log.read_text(errors='replace')}\nstopped after {timeout} s")
        finally:
            launcher.kill()
            launcher.wait()
    output = "\n".join(line for line in log.read_text(errors="replace").splitlines() if not _NOISE.search(line))
    found = {
        int(file.stem): [json.loads(line) for line in file.read_text().splitlines()]
        for file in sorted(results.glob("*.jsonl"))
    }
    segments = sorted(left_behind(before, results=results))
    assert launcher.returncode is not None
    return JobRun(launcher.returncode, output, time.monotonic() - begin, found, segments)


def report(values: Mapping[str, object]) -> None:
    """Called in a rank: adds one result for `JobRun.results`."""
    rank = os.environ.get("XLA_SHMEM_LOCAL_RANK", os.environ.get("OMPI_COMM_WORLD_RANK"))  # of the launcher, of mpirun
    with open(Path(os.environ["E2E_RESULTS"]) / f"{rank}.jsonl", "a") as file:
        file.write(json.dumps(dict(values)) + "\n")
