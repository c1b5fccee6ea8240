"""A training step compiled for GPUs that are not there: what memory it takes, and what its collectives got.

    python -m xla_shmem.gpu_compile.compiled_step TARGET REPORT MODULE JOB

compiles the step of a job, the fields of `TrainConfig` as JSON, and writes the files REPORT and MODULE. In a process of
its own, since XLA reads its flags once; `compile_step` starts it.
"""

from __future__ import annotations

import dataclasses
import json
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from xla_shmem.gpu_compile.environment import compile_environment
from xla_shmem.train.config import TrainConfig
from xla_shmem.xla_flags import FLAG


class CompileError(Exception):
    """The step was not compiled; the message holds the end of what the compiler printed."""


@dataclasses.dataclass(frozen=True)
class CompiledStep:
    """What XLA said about a compiled step; bytes are those of one device.

    Attributes:
      state_bytes: parameters, optimizer state and tokens.
      temporary_bytes: everything else that is allocated while it runs, results aside.
      result_bytes: the new state; where XLA may write it over the old one this takes no memory of its own.
      reused_bytes: results that lie where arguments were.
      records: collectives, as `_core.run_pass` describes them.
      seconds: wall-clock time of the compilation.
    """

    state_bytes: int
    temporary_bytes: int
    result_bytes: int
    reused_bytes: int
    records: list[dict[str, Any]]
    seconds: float

    @property
    def peak_bytes(self) -> int:
        """What has to fit: state, temporaries, and results that have a place of their own."""
        return self.state_bytes + self.temporary_bytes + self.result_bytes - self.reused_bytes

    @property
    def peak_with_donation_bytes(self) -> int:
        """The same where the new state lies over the old one."""
        return self.state_bytes + self.temporary_bytes

    def bytes_per_step(self, backend: str) -> int:
        """Bytes of the results of all collectives that `backend` carries in one step.

        Raises:
          ValueError: XLA does not know how often one of them runs.
        """
        total = 0
        for record in self.records:
            if record["executions"] is None:
                raise ValueError(f"XLA has found no trip count for the loop around {record['name']}.")
            if record["lowered"] == backend:
                total += record["bytes"] * record["executions"]
        return total


def compile_step(
    config: TrainConfig, target: str, wheels: Path, timeout: float = 1800.0, module: Path | None = None
) -> CompiledStep:
    """Compiles the job's step with the plugin on, in a process of its own.

    Args:
      config: the job.
      target: name of a description in `targets/`.
      wheels: folder of the CUDA plugin's wheels.
      timeout: seconds.
      module: file for the step as the pass saw it: scheduled, a serialized `HloModuleProto`. None: not kept.

    Raises:
      CompileError: it was not compiled.
    """
    with tempfile.TemporaryDirectory() as folder:
        report = Path(folder) / "report.json"
        command = [
            sys.executable,
            "-m",
            "xla_shmem.gpu_compile.compiled_step",
            target,
            str(report),
            str(module or Path(folder) / "step.pb"),
            json.dumps(dataclasses.asdict(config)),
        ]
        environment = compile_environment(wheels, [f"{FLAG}=true"])
        try:
            done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=timeout)
        except subprocess.TimeoutExpired:
            raise CompileError(f"the compilation took more than {timeout:.0f} s and was stopped.") from None
        if done.returncode or not report.exists():
            raise CompileError(f"the compilation ended with exit code {done.returncode}:\n{done.stderr[-3000:]}")
        return CompiledStep(**json.loads(report.read_text()))


def _compile_here(config: TrainConfig, target: str, module: Path) -> CompiledStep:
    import jax

    from xla_shmem.gpu_compile.described_gpus import described_gpus
    from xla_shmem.parallel import sharding
    from xla_shmem.parallel.mesh import make_mesh
    from xla_shmem.train import step

    records: list[dict[str, Any]] = []

    def observe(scheduled: bytes, found: list[dict[str, Any]]) -> None:
        module.write_bytes(scheduled)
        records.extend(found)

    devices = described_gpus(config.devices, target, observe)
    mesh = make_mesh(config.mesh(), devices)
    shape = (config.batch, config.sequence)
    tokens = jax.ShapeDtypeStruct(shape, "int32", sharding=sharding.tokens(mesh))  # type: ignore[no-untyped-call]
    lowered = step.make_train_step(config, mesh).lower(step.abstract_state(config, mesh), tokens, tokens)  # type: ignore[attr-defined]
    start = time.perf_counter()
    memory = lowered.compile().memory_analysis()
    return CompiledStep(
        state_bytes=memory.argument_size_in_bytes,
        temporary_bytes=memory.temp_size_in_bytes,
        result_bytes=memory.output_size_in_bytes,
        reused_bytes=memory.alias_size_in_bytes,
        records=records,
        seconds=time.perf_counter() - start,
    )


def main(arguments: list[str]) -> None:
    """Compiles, and writes module and report."""
    target, report, module, job = arguments
    compiled = _compile_here(TrainConfig(**json.loads(job)), target, Path(module))
    Path(report).write_text(json.dumps(dataclasses.asdict(compiled)))


if __name__ == "__main__":
    main(sys.argv[1:])
