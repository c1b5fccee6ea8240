"""Jobs of two ranks where /dev/shm is small or missing: a mount namespace of this machine."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.timeout(120)

NO_DEV = (
    "mount -t tmpfs tmpfs /mnt && mkdir /mnt/dev && for n in null zero random urandom; do touch /mnt/dev/$n &&"
    " mount --bind /dev/$n /mnt/dev/$n; done && mount --rbind /mnt/dev /dev"
)


def _small(size: str) -> str:
    return f"mount -t tmpfs -o size={size} tmpfs /dev/shm"


#: What is done to the ranks' /dev, how many collectives then move, and a line of each rank that cannot take part.
SETUPS = {
    "20 MiB": (_small("20m"), 2, None),
    "12 MiB": (_small("12m"), 0, "/dev/shm is full or too small: free space there"),
    "4 MiB": (_small("4m"), 0, "/dev/shm is full or too small: free space there"),
    "missing": (
        NO_DEV,
        0,
        "xla_shmem: cannot use /dev/shm for shared memory (No such file or directory): mount a tmpfs there; all"
        " collectives stay on the default backend",
    ),
}
PROGRAM = (
    "import sys; sys.path.insert(0, sys.argv[1]); from pathlib import Path; from job_runs import run_job;"
    "run = run_job('worker_flag.py', ['{}'], ranks=2, results=Path(sys.argv[2]));"
    "print(run.output); print(run.exit_code, run.segments, run.result(0)['lowered'], run.result(0)['vetoes'])"
)


def _inside(setup: str, command: list[str]) -> list[str]:
    return ["unshare", "--mount", "--map-root-user", "sh", "-c", f'{setup} && exec "$@"', "sh", *command]


@pytest.mark.parametrize(
    "setup", [pytest.param(name, marks=() if name == "missing" else pytest.mark.slow) for name in SETUPS]
)
def test_little_shared_memory_makes_the_heap_smaller_and_then_leaves_the_default_backend(
    tmp_path: Path, setup: str
) -> None:
    script, moved, line = SETUPS[setup]
    if subprocess.run(_inside(script, ["true"]), capture_output=True, check=False).returncode != 0:
        pytest.skip(f"this machine does not let its users run: unshare --mount, {script}")
    command = [sys.executable, "-c", PROGRAM, str(Path(__file__).parent), str(tmp_path / "run")]
    done = subprocess.run(_inside(script, command), capture_output=True, text=True, timeout=100, check=False)
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines()[-1].startswith(f"0 [] {moved} "), done.stdout
    assert "Traceback" not in done.stdout
    if line is not None:
        assert 1 <= sum(line in output for output in done.stdout.splitlines()[:-1]) <= 2, done.stdout
