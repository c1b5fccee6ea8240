"""The variants of a training job that comparisons run: they differ in what carries which collectives."""

from __future__ import annotations

import enum
import os
import shutil
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

from long_context.train.config import TrainConfig
from long_context.train.job_run import TRAINER, run_job
from long_context.train.step_log import StepRecord
from xla_shmem.launch.launcher import GRACE
from xla_shmem.launch.launcher_process import cpu_environment, gpu_environment

#: Seconds without a finished step after which a run counts as stuck; the first step includes compilation.
STUCK_AFTER = 180.0

_ABLATION_RANK = (sys.executable, "-m", "long_context.compare.ablation_rank")

# Puts the single elements of a waiting ring (`ring_kinds`) on SHMEM, and no block.
_SINGLE_ELEMENTS = "collective-permute<16"

# All ranks would write the same dump, so only rank 0 gets the flags for it.
_RANK_0_DUMPS = 'test "$XLA_SHMEM_LOCAL_RANK" = 0 && export XLA_FLAGS="${XLA_FLAGS-} $1"; shift; exec "$@"'


class Variant(enum.Enum):
    """How a run differs from other runs of the same job."""

    SHMEM = "SHMEM"
    STOCK = "stock"
    RING_ON_SHMEM = "ring on SHMEM"
    RING_ON_STOCK = "ring on stock"

    @property
    def flag(self) -> bool:
        """Whether the flag is on."""
        return self is not Variant.STOCK

    @property
    def ops(self) -> str | None:
        """XLA_SHMEM_OPS of the run; None leaves the environment's.

        The two ring variants differ only in the transport of the ring's blocks. Gradient sums stay on SHMEM in both:
        on gloo their time varies from step to step by more than all transfers of a ring take.
        """
        rings = {Variant.RING_ON_SHMEM: "collective-permute", Variant.RING_ON_STOCK: _SINGLE_ELEMENTS}
        return f"all-reduce,{rings[self]}" if self in rings else None

    @property
    def program(self) -> Sequence[str]:
        """The program of the ranks: the trainer, or for the ring variants `ablation_rank`."""
        return TRAINER if self in (Variant.SHMEM, Variant.STOCK) else _ABLATION_RANK


def run_variant(
    variant: Variant, config: TrainConfig, on_step: Callable[[StepRecord], None], *, gpus: bool = False
) -> list[StepRecord]:
    """Runs the job from the beginning on CPU processes or a GPU each; the variant sets the flag, not the environment.

    The job's folder also gets `hlo/` with rank 0's compiled training step. Stopped ranks get the launcher's short
    grace period, so a stop during compilation does not take long. Otherwise like `run_job`.
    """
    folder = Path(config.output)
    dump = folder / "hlo"
    shutil.rmtree(dump, ignore_errors=True)
    dump_flags = f"--xla_dump_to={dump} --xla_dump_hlo_module_re=.*train_step.* --xla_dump_hlo_as_proto"
    environment = (
        gpu_environment(os.environ, flag=variant.flag, shared=False)
        if gpus
        else cpu_environment(os.environ, flag=variant.flag)
    )
    if variant.ops is not None:
        environment["XLA_SHMEM_OPS"] = variant.ops
    try:
        return run_job(
            config,
            on_step,
            name=f"the {variant.value} run",
            program=["/bin/sh", "-c", _RANK_0_DUMPS, "sh", dump_flags, *variant.program],
            environment=environment,
            stuck_after=STUCK_AFTER,
            grace=GRACE,
        )
    finally:
        _keep_compiled_modules(dump)


def _keep_compiled_modules(dump: Path) -> None:
    """Removes the other files that XLA dumps: hundreds, of LLVM IR and machine code. No flag turns them off."""
    for file in dump.glob("*"):
        if file.is_dir():
            shutil.rmtree(file)
        elif not file.match("*_after_optimizations.hlo.pb"):
            file.unlink()
