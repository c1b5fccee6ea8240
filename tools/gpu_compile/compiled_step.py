"""Compiles a training step for described GPUs and reports its memory and the decisions about its collectives.

    python -m gpu_compile.compiled_step TARGET REPORT MODULE JOB

compiles the step of JOB, the fields of `TrainConfig` as JSON, and writes the files REPORT and MODULE. `compile_step`
starts it as a separate process, since XLA reads its flags only once.
"""

from __future__ import annotations

import dataclasses
import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from gpu_compile.environment import compile_environment
from long_context.train.config import TrainConfig
from xla_shmem.errors import UserError
from xla_shmem.xla_flags import FLAG


class CompileError(UserError):
    """The compilation failed; the message contains the end of the compiler's output."""


@dataclasses.dataclass(frozen=True)
class CompiledStep:
    """XLA's report about a compiled step; bytes are those of one device.

    Attributes:
      state_bytes: parameters, optimizer state and tokens.
      temporary_bytes: all other memory allocated while the step runs, except results.
      result_bytes: the new state, including results that reuse memory of arguments.
      reused_bytes: results that are written over arguments.
      host_bytes: memory of the host for activations that are offloaded to it.
      records: collectives, as `_core.run_pass` describes them.
      seconds: wall-clock time of the compilation.
    """

    state_bytes: int
    temporary_bytes: int
    result_bytes: int
    reused_bytes: int
    host_bytes: int
    records: list[dict[str, Any]]
    seconds: float

    @property
    def peak_bytes(self) -> int:
        """Memory that the step needs: state, temporaries, and results that do not reuse arguments."""
        return self.state_bytes + self.temporary_bytes + self.result_bytes - self.reused_bytes

    @property
    def peak_with_donation_bytes(self) -> int:
        """Memory that the step needs if the new state overwrites the old one."""
        return self.state_bytes + self.temporary_bytes

    def bytes_per_step(self, backend: str) -> int:
        """Result bytes of all collectives on `backend` in one step.

        Raises:
          ValueError: XLA does not know how often a collective runs.
        """
        total = 0
        for record in self.records:
            if record["executions"] is None:
                raise ValueError(f"XLA found no trip count for the loop around {record['name']}.")
            if record["lowered"] == backend:
                total += record["bytes"] * record["executions"]
        return total


def compile_step(
    config: TrainConfig,
    target: str,
    wheels: Path,
    timeout: float = 1800.0,
    module: Path | None = None,
    flags: Sequence[str] = (),
) -> CompiledStep:
    """Compiles the job's step with the plugin on, in a separate process.

    Args:
      config: the job.
      target: name of a description in `targets/`.
      wheels: folder of the CUDA plugin's wheels.
      timeout: limit in seconds.
      module: file for the scheduled module that the pass received, a serialized `HloModuleProto`; None for no file.

      flags: more XLA_FLAGS.

    Raises:
      CompileError: the compilation failed or took too long.
    """
    with tempfile.TemporaryDirectory() as folder:
        report = Path(folder) / "report.json"
        command = [
            sys.executable,
            "-m",
            "gpu_compile.compiled_step",
            target,
            str(report),
            str(module or Path(folder) / "step.pb"),
            json.dumps(dataclasses.asdict(config)),
        ]
        environment = compile_environment(wheels, [f"{FLAG}=true", *flags])
        try:
            done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=timeout)
        except subprocess.TimeoutExpired:
            raise CompileError(f"the compilation took longer than {timeout:.0f} s and was stopped.") from None
        if done.returncode or not report.exists():
            raise CompileError(f"the compilation ended with exit code {done.returncode}:\n{done.stderr[-3000:]}")
        return CompiledStep(**json.loads(report.read_text()))


def lowered_step(config: TrainConfig, devices: Sequence[Any]) -> Any:
    """Returns the job's step, to be compiled: a `jax.stages.Lowered`.

    Args:
      config: the job.
      devices: its devices, described or not.
    """
    import jax

    from long_context.parallel import sharding
    from long_context.parallel.mesh import make_mesh
    from long_context.train import step

    mesh = make_mesh(config.mesh(), devices)
    shape = (config.batch, config.sequence)
    tokens = jax.ShapeDtypeStruct(shape, "int32", sharding=sharding.tokens(mesh))  # type: ignore[no-untyped-call]
    return step.make_train_step(config, mesh).lower(step.abstract_state(config, mesh), tokens, tokens)  # type: ignore[attr-defined]


def _compile_here(config: TrainConfig, target: str, module: Path) -> CompiledStep:
    from gpu_compile.described_gpus import described_gpus

    records: list[dict[str, Any]] = []

    def observe(scheduled: bytes, found: list[dict[str, Any]]) -> None:
        module.write_bytes(scheduled)
        records.extend(found)

    lowered = lowered_step(config, described_gpus(config.devices, target, observe))
    start = time.perf_counter()
    compiled = lowered.compile()
    return compiled_step(compiled, records, time.perf_counter() - start)


def compiled_step(compiled: Any, records: list[dict[str, Any]], seconds: float) -> CompiledStep:
    """The report about a compiled program of JAX's.

    Args:
      compiled: a `jax.stages.Compiled`.
      records: its collectives.
      seconds: how long its compilation took.
    """
    memory = compiled.memory_analysis()
    return CompiledStep(
        state_bytes=memory.argument_size_in_bytes,
        temporary_bytes=memory.temp_size_in_bytes,
        result_bytes=memory.output_size_in_bytes,
        reused_bytes=memory.alias_size_in_bytes,
        host_bytes=memory.host_temp_size_in_bytes,
        records=records,
        seconds=seconds,
    )


def main(arguments: list[str]) -> None:
    """Compiles the step and writes module and report."""
    target, report, module, job = arguments
    compiled = _compile_here(TrainConfig(**json.loads(job)), target, Path(module))
    Path(report).write_text(json.dumps(dataclasses.asdict(compiled)))


if __name__ == "__main__":
    main(sys.argv[1:])
