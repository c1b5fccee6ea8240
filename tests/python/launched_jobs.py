"""Starts and observes jobs of `xla-shmem launch` for tests."""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

PACKAGE_PARENT = str(Path(__file__).resolve().parents[2] / "python")

# The default grace of 5 s is too long for tests that need SIGKILL.
_LAUNCHER = (
    "import sys; from xla_shmem.launch.launcher import launch; "
    "sys.exit(launch(sys.argv[3:], int(sys.argv[1]), grace=float(sys.argv[2])))"
)


def environment(**extra: str) -> dict[str, str]:
    environ = {key: value for key, value in os.environ.items() if key != "XLA_SHMEM_JOB"}
    environ["PYTHONPATH"] = os.pathsep.join([*filter(None, sys.path), PACKAGE_PARENT])
    return environ | extra


def command(*arguments: str) -> list[str]:
    return [sys.executable, "-c", "from xla_shmem.cli.main import main; main()", *arguments]


def launch(num_ranks: int, program: str, *options: str, **environ: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        command("launch", "-n", str(num_ranks), *options, "--", sys.executable, "-c", program),
        env=environment(**environ),
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )


@contextlib.contextmanager
def launched(num_ranks: int, program: str, *arguments: str, grace: float = 5.0) -> Iterator[subprocess.Popen[str]]:
    process = subprocess.Popen(
        [
            sys.executable,
            "-c",
            _LAUNCHER,
            str(num_ranks),
            str(grace),
            sys.executable,
            "-c",
            program,
            *arguments,
        ],
        env=environment(),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    try:
        yield process
    finally:
        process.kill()
        process.communicate()


def wait_for(condition: Callable[[], bool], seconds: float = 10.0) -> bool:
    end = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > end:
            return False
        time.sleep(0.02)
    return True


def alive(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0] != "Z"
    except (FileNotFoundError, ProcessLookupError):
        return False


def pids_in(directory: Path, count: int) -> list[int]:
    """Waits for `count` files that are named by process ids, and returns these."""
    assert wait_for(lambda: len(list(directory.iterdir())) == count), list(directory.iterdir())
    return [int(file.name) for file in directory.iterdir()]


# A rank that creates a file named by its process id, and then sleeps.
STAY = "import os, sys, time; open(f'{sys.argv[1]}/{os.getpid()}', 'w').close(); time.sleep(60)"


def children(pid: int) -> list[str]:
    """Returns the process ids of the ranks: children that lead a process group in the launcher's session."""
    found = []
    for stat in Path("/proc").glob("[0-9]*/stat"):
        with contextlib.suppress(FileNotFoundError, ProcessLookupError):
            number = stat.parent.name
            _, parent, group, session = stat.read_text().rsplit(")", 1)[1].split()[:4]
            if int(parent) == pid and group == number and session != number:
                found.append(number)
    return found
