"""`xla-shmem train` as jobs of two processes: exact resume after a kill, and an end in good order."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from job_runs import FLAG, QUICK_COMPILATION, abandoned_segments, left_behind, ranks_of

from long_context.train.config import TrainConfig
from long_context.train.job_folder import newest_checkpoint
from long_context.train.step_log import LOG_NAME, StepRecord, read_records

# Each test compiles a step twice, which takes a minute on a busy machine.
pytestmark = pytest.mark.timeout(900)
WAIT_S = 240

STEPS = 12
SMALL = ("--preset=tiny", "--layers=1", "--width=16", "--heads=2", "--kv-heads=2", "--hidden=16", "--seq=64")
JOB = (*SMALL, "--context=2", f"--steps={STEPS}", "--checkpoint-every=3")
# Tests in the background of a shell may have SIGINT ignored, which children inherit.
PROGRAM = (
    "import signal; signal.signal(signal.SIGINT, signal.default_int_handler); "
    "from xla_shmem.cli.main import main; main(prog_name='xla-shmem')"
)
XLA_SHMEM = (sys.executable, "-c", PROGRAM)


def environment(flag: bool) -> dict[str, str]:
    dropped = ("XLA_SHMEM_", "JAX_", "OMPI_")
    environ = {key: value for key, value in os.environ.items() if not key.startswith(dropped) and key != "XLA_FLAGS"}
    return environ | {"JAX_PLATFORMS": "cpu", "XLA_FLAGS": f"{QUICK_COMPILATION} {FLAG if flag else ''}"}


@contextlib.contextmanager
def started(*arguments: str, flag: bool = True) -> Iterator[subprocess.Popen[str]]:
    """Runs `xla-shmem` with these arguments; kills it at the end if it still runs."""
    job = subprocess.Popen(
        [*XLA_SHMEM, *arguments], env=environment(flag), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    try:
        yield job
    finally:
        job.kill()
        job.communicate()


@contextlib.contextmanager
def train(*arguments: str, out: Path, flag: bool = True) -> Iterator[subprocess.Popen[str]]:
    """A job that starts its own ranks; kills them if the test fails."""
    with started("train", *arguments, f"--output={out}", flag=flag) as job:
        try:
            yield job
        finally:
            if job.poll() is None:
                for rank in ranks_of(out):
                    os.kill(rank, signal.SIGKILL)


def wait_for_step(job: subprocess.Popen[str], out: Path, step: int) -> None:
    """Waits until the log has the step's record."""
    end = time.monotonic() + WAIT_S
    while not any(record.step >= step for record in read_records(out / LOG_NAME)):
        assert job.poll() is None, job.communicate()
        assert time.monotonic() < end, f"no step {step}"
        time.sleep(0.01)


@pytest.fixture(scope="module")
def uninterrupted(tmp_path_factory: pytest.TempPathFactory) -> list[StepRecord]:
    """The log of a job whose ranks another launcher has started."""
    out = tmp_path_factory.mktemp("uninterrupted")
    with started("launch", "-n", "2", "--", *XLA_SHMEM, "train", *JOB, f"--output={out}") as job:
        output, errors = job.communicate(timeout=WAIT_S)
    assert job.returncode == 0, errors
    assert (out / "train.png").read_bytes().startswith(b"\x89PNG")
    summary = [line for line in output.splitlines() if "TFLOP/s per device" in line]
    assert [line[:13] for line in summary] == ["[0] Steps 3 t"]
    assert sorted(int(path.name) for path in (out / "checkpoints").iterdir()) == [9, 12]
    return read_records(out / LOG_NAME)


def test_a_killed_job_goes_on_with_the_bits_it_would_have_had(uninterrupted: list[StepRecord], tmp_path: Path) -> None:
    before = abandoned_segments()
    with train(*JOB, out=tmp_path) as job:
        wait_for_step(job, tmp_path, 7)
        ranks = ranks_of(tmp_path)
        assert len(ranks) == 2
        for rank in ranks:
            os.kill(rank, signal.SIGKILL)
        _, errors = job.communicate(timeout=WAIT_S)
    assert job.returncode == 1
    assert "the job ended with exit code 137 after" in errors
    assert newest_checkpoint(TrainConfig(output=str(tmp_path))) in (3, 6, 9)

    with train(*JOB, out=tmp_path) as job:
        _, errors = job.communicate(timeout=WAIT_S)
    assert (job.returncode, "--resume continues from there" in errors) == (2, True)

    with train(*JOB, "--resume", out=tmp_path) as job:
        output, errors = job.communicate(timeout=WAIT_S)
    assert job.returncode == 0, errors
    assert "TFLOP/s per device" in output
    records = read_records(tmp_path / LOG_NAME)
    assert [record.step for record in records] == list(range(STEPS))
    assert [record.step for record in records if record.compiled] != [0]
    assert [record.loss for record in records] == [record.loss for record in uninterrupted]
    assert left_behind(before) == set()


def test_ctrl_c_writes_a_checkpoint_and_ends_all_ranks_with_the_flag_off(tmp_path: Path) -> None:
    with train(*SMALL, "--context=2", "--steps=100000", "--checkpoint-every=50000", out=tmp_path, flag=False) as job:
        wait_for_step(job, tmp_path, 2)
        job.send_signal(signal.SIGINT)
        _, errors = job.communicate(timeout=WAIT_S)
    done = len(read_records(tmp_path / LOG_NAME))
    assert job.returncode == 130, errors
    assert f"a checkpoint after {done} of 100000 steps; --resume goes on" in errors
    assert ranks_of(tmp_path) == []


def test_a_mesh_that_is_not_the_job_says_what_would_be(tmp_path: Path) -> None:
    with started("launch", "-n", "1", "--", *XLA_SHMEM, "train", *SMALL, "--context=2", f"--output={tmp_path}") as job:
        _, errors = job.communicate(timeout=WAIT_S)
    assert job.returncode == 2
    assert "context 2 x tensor 1 needs 2 devices, this job has 1; start 2 ranks or choose" in errors
    assert "Traceback" not in errors


@pytest.mark.slow
def test_every_rank_records_a_profile_of_the_steps_asked_for(tmp_path: Path) -> None:
    with train(*SMALL, "--context=2", "--steps=4", "--profile-steps=1", out=tmp_path) as job:
        job.communicate(timeout=WAIT_S)
    assert job.returncode == 0
    assert len(read_records(tmp_path / LOG_NAME)) == 4
    for rank in (0, 1):
        (found,) = (tmp_path / "profile" / f"rank-{rank}").rglob("*.xplane.pb")
        assert b"train_step" in found.read_bytes()
