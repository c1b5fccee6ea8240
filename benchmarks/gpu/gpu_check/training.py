"""The demo's training job on GPU: two ranks on SHMEM compared with one rank, and on two GPUs also with NCCL.

Two ranks split the sequence (ring attention) and sum gradients over both; one rank computes the same without transfers.
Losses must agree: two ranks only add in another order.
"""

from __future__ import annotations

import argparse
import os
import re
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

from gpu_check import packages, records
from long_context.compare.side_by_side import LOSS_TOLERANCE
from long_context.train.config import TrainConfig
from long_context.train.step_log import LOG_NAME, StepRecord, read_records

# An emulated GPU is slow, and four steps show that the values are right.
_STEPS, _SEQUENCE, _LAYERS, _LIMIT_S = (4, 64, 1, 300) if records.emulated() else (12, 1024, None, 50)
_FIRST_TIMED = 3

#: What the log says below the table of a module's collectives.
_TOTALS = re.compile(r"\d+ collectives? in 1 module: .*")
_ALL_ON_SHMEM = re.compile(r"(\d+) collectives? in 1 module: \1 NVSHMEM\.")


def not_on_shmem(log: str) -> str:
    """Returns the first collectives of a job that are elsewhere, in the words of its log; "" if SHMEM carries all."""
    totals = _TOTALS.findall(log)
    if not totals:
        return "no module with collectives in the log"
    return next((line for line in totals if not _ALL_ON_SHMEM.fullmatch(line)), "")


def train(ranks: int, gpus: int, folder: Path, flags: Sequence[str]) -> list[StepRecord]:
    """Runs the trainer and prints its output. With `--nvshmem-flag` its collectives must run on SHMEM."""
    out = folder / f"{ranks}-{len(flags)}"
    config = TrainConfig(steps=_STEPS, context=ranks, sequence=_SEQUENCE, layers=_LAYERS, output=str(out))
    trainer = ["long_context.cli.train", *config.arguments()]
    command = [sys.executable, "-m", "gpu_check.ranks", f"--ranks={ranks}", f"--gpus={gpus}", *flags, "--", *trainer]
    # TF32 would hide real differences.
    environment = {**os.environ, "JAX_DEFAULT_MATMUL_PRECISION": "highest", "XLA_SHMEM_VERBOSE": "1"}
    with subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True) as job:
        try:
            output, _ = job.communicate(timeout=_LIMIT_S)
        except subprocess.TimeoutExpired:
            job.terminate()  # the launcher stops the ranks
            output, _ = job.communicate()
    print(output, flush=True)
    records.check(f"training by {ranks} ranks {' '.join(flags)} ends well", job.returncode == 0, f"{job.returncode}")
    if "--nvshmem-flag" in flags:
        problem = not_on_shmem(output)
        records.check("SHMEM carries the collectives of the training", not problem, problem)
    return read_records(out / LOG_NAME)


def compare(name: str, got: Sequence[StepRecord], want: Sequence[StepRecord]) -> None:
    """Checks the losses of all steps."""
    differences = [abs(a.loss - b.loss) / abs(b.loss) for a, b in zip(got, want, strict=False)]
    complete = len(got) == len(want) == _STEPS
    largest = max(differences, default=float("nan"))
    detail = f"{len(got)} steps, largest relative difference {largest:.1e}, allowed {LOSS_TOLERANCE:.0e}"
    records.check(name, complete and all(difference <= LOSS_TOLERANCE for difference in differences), detail)


def report(by: str, ranks: int, run: Sequence[StepRecord]) -> None:
    """Records a row of times."""
    timed = [record.seconds * 1e3 for record in run if record.step >= _FIRST_TIMED]
    if timed:
        losses = {"first loss": run[0].loss, "last loss": run[-1].loss}
        times = {"first step s": run[0].seconds, "ms a step": statistics.median(timed)}
        records.measured_row("Training", times, by=by, ranks=ranks, **losses)


def main() -> None:
    """Trains and compares. Without the packages that training needs, it is left out."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--gpus", type=int, required=True)
    gpus = parser.parse_args().gpus
    if troubles := packages.troubles(Path(sys.executable), packages.FOR_TRAINING):
        records.left_out("training", "; ".join(f"{wheel}: {trouble.error}" for wheel, trouble in troubles.items()))
        return
    with tempfile.TemporaryDirectory(prefix="gpu-check-train-") as name:
        folder = Path(name)
        alone = train(1, gpus, folder, [])
        report("one rank", 1, alone)
        shmem = train(2, gpus, folder, ["--nvshmem-flag"])
        report("SHMEM", 2, shmem)
        compare("losses on SHMEM equal those of one rank", shmem, alone)
        if gpus >= 2:
            nccl = train(2, gpus, folder, [])
            report("NCCL", 2, nccl)
            compare("losses on NCCL equal those of one rank", nccl, alone)
        else:
            records.left_out("NCCL", "it refuses two ranks on one GPU")


if __name__ == "__main__":
    main()
