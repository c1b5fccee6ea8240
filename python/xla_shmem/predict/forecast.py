"""What a step takes on both backends, and what that is worth."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping

from xla_shmem.predict.program import Backend, Program
from xla_shmem.predict.streams import Times
from xla_shmem.predict.walk import Machine, run_times

BACKENDS: tuple[Backend, ...] = ("DEFAULT", "NVSHMEM")


@dataclasses.dataclass(frozen=True)
class Forecast:
    """The prediction for one program.

    Attributes:
      title: of the program.
      devices: of the whole job.
      flops: of one device in a step: model FLOPs where the job is known, otherwise those of the compiled program.
      times: of a step, by backend.
      on_nvshmem: collectives that the pass gives to NVSHMEM.
      collectives: all of them.
      unknown: kernels whose arithmetic XLA does not tell; they count with their memory traffic only.
    """

    title: str
    devices: int
    flops: float
    times: Mapping[Backend, Times]
    on_nvshmem: int
    collectives: int
    unknown: int

    @property
    def gain(self) -> float:
        """How much faster steps are with NVSHMEM: 0.3 for 30 %."""
        return self.times["DEFAULT"].step / self.times["NVSHMEM"].step - 1

    def tflops(self, backend: Backend) -> float:
        """TFLOP/s of one device."""
        return self.flops / self.times[backend].step / 1e12


def forecast(title: str, program: Program, machine: Machine, model_flops: float | None = None) -> Forecast:
    """Predicts a program's step.

    Args:
      title: for reports.
      program: what runs.
      machine: where.
      model_flops: of the whole job in a step; None for the compiled program's own.

    Raises:
      PredictError: as `run_times`.
    """
    return Forecast(
        title=title,
        devices=program.devices,
        flops=program.flops(program.entry) if model_flops is None else model_flops / program.devices,
        times={backend: run_times(program, backend, machine) for backend in BACKENDS},
        on_nvshmem=sum(each.lowered == "NVSHMEM" for each in program.collectives.values()),
        collectives=len(program.collectives),
        unknown=program.unknown,
    )
