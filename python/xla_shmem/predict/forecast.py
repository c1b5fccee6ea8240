"""Step times on both backends, and the gain of NVSHMEM."""

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
      title: name of the program.
      devices: number of devices of the job.
      flops: FLOPs of one device in a step: model FLOPs if the job is known, else those of the compiled program.
      times: times of a step, by backend.
      on_nvshmem: number of collectives that the pass assigns to NVSHMEM.
      divided: number of those that it divides by NVLink domain.
      collectives: number of all collectives.
      unknown: number of kernels whose FLOPs XLA does not know; only their memory traffic counts.
    """

    title: str
    devices: int
    flops: float
    times: Mapping[Backend, Times]
    on_nvshmem: int
    divided: int
    collectives: int
    unknown: int

    @property
    def gain(self) -> float:
        """How much faster steps are with NVSHMEM; 0.3 means 30 %."""
        return self.times["DEFAULT"].step / self.times["NVSHMEM"].step - 1

    def tflops(self, backend: Backend) -> float:
        """TFLOP/s per device."""
        return self.flops / self.times[backend].step / 1e12


def forecast(title: str, program: Program, machine: Machine, model_flops: float | None = None) -> Forecast:
    """Predicts a program's step.

    Args:
      title: name in reports.
      program: the program.
      machine: what it runs on.
      model_flops: FLOPs of the whole job in a step; None for those of the compiled program.

    Raises:
      PredictError: as `run_times`.
    """
    return Forecast(
        title=title,
        devices=program.devices,
        flops=program.flops(program.entry) if model_flops is None else model_flops / program.devices,
        times={backend: run_times(program, backend, machine) for backend in BACKENDS},
        on_nvshmem=sum(each.lowered == "NVSHMEM" for each in program.collectives.values()),
        divided=sum(each.lowered == "HIERARCHICAL" for each in program.collectives.values()),
        collectives=len(program.collectives),
        unknown=program.unknown,
    )
