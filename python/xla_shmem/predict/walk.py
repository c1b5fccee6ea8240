"""Walks a program in the order of its schedule and sums the times of one run."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping

from xla_shmem import _core
from xla_shmem.predict.cluster import Cluster
from xla_shmem.predict.constants import Constants
from xla_shmem.predict.program import Backend, Choice, Program, Step
from xla_shmem.predict.streams import Streams, Times
from xla_shmem.predict.transfers import Transfer, measured_transfer, transfer


@dataclasses.dataclass(frozen=True)
class Machine:
    """The machine on which a program is walked.

    Attributes:
      cluster: the GPUs and their connections.
      constants: the model's constants.
      fp8: whether matmuls are in FP8 instead of BF16.
      fused_attention: whether a loop that has no collectives and more FLOPs than bytes, the blocks of attention, counts
        as one fused kernel that keeps its scores on chip (cuDNN, FlashAttention) instead of as XLA compiled it.
      connected_components: whether NCCL's communicator for a permute has only the devices that the permute connects,
        as with `--xla_gpu_collective_permute_connected_components`, instead of all devices of the module.
      measured: for each backend the times of collectives in one NVLink domain that count instead of the cost model's
        if the op is there; for NVSHMEM with the flags of XLA that the table chooses.
    """

    cluster: Cluster
    constants: Constants
    fp8: bool = False
    fused_attention: bool = True
    connected_components: bool = False
    measured: Mapping[Backend, _core.TuningTable] = dataclasses.field(default_factory=dict)

    @property
    def peak(self) -> float:
        """Peak FLOP/s of a GPU."""
        return (self.cluster.fp8_tflops if self.fp8 else self.cluster.bf16_tflops) * 1e12


def run_times(program: Program, backend: Backend, machine: Machine) -> Times:
    """The times of one run.

    Args:
      program: the program.
      backend: `NVSHMEM` for the decisions of the pass, `DEFAULT` for all collectives on NCCL.
      machine: what it runs on.

    Raises:
      PredictError: the length of a loop is unknown, or the program does not fit the cluster.
    """
    machine.cluster.check_size(program.devices)
    return _Walk(program, backend, machine).run()


class _Walk:
    def __init__(self, program: Program, backend: Backend, machine: Machine) -> None:
        self._program = program
        self._machine = machine
        self._carried: dict[str, tuple[Backend, Transfer]] = {}
        for name, collective in program.collectives.items():
            by: Choice = collective.lowered if backend == "NVSHMEM" else "DEFAULT"
            ranks = collective.group if machine.connected_components else program.devices
            cost = transfer(collective, by, machine.cluster, machine.constants, ranks)
            if backend in machine.measured:
                cost = measured_transfer(collective, backend, cost, machine.measured[backend])
            # What a divided collective does within a domain waits for NCCL's part.
            self._carried[name] = ("NVSHMEM" if by == "NVSHMEM" else "DEFAULT", cost)
        self._alone: dict[str, Times] = {}

    def run(self) -> Times:
        return self._times(self._program.entry)

    def _times(self, computation: str) -> Times:
        """Times of a computation that starts without a transfer in flight: all iterations of a loop are equal then."""
        if computation not in self._alone:
            streams = Streams(self._machine.cluster.sms)
            self._pass(computation, streams)
            self._alone[computation] = streams.times
        return self._alone[computation]

    def _pass(self, computation: str, streams: Streams) -> None:
        for step in self._program.computations[computation]:
            if step.starts is not None:
                streams.start(step.starts, *self._carried[step.starts])
            if step.ends is not None:
                streams.wait(step.ends)
            if step.loop:
                for called in step.calls:
                    self._loop(called, self._program.trips(computation, called), streams)
            elif step.calls:
                self._call(max(step.calls, key=lambda called: self._times(called).step), 1, streams)
            else:
                streams.compute(self._kernel_seconds(step))

    def _loop(self, called: str, trips: int, streams: Streams) -> None:
        if self._machine.fused_attention and self._program.computes(called):
            peak = self._machine.peak * self._machine.constants.attention_efficiency
            streams.compute(trips * self._program.flops(called) / peak)
        else:
            self._call(called, trips, streams)

    def _call(self, called: str, trips: int, streams: Streams) -> None:
        for turn in range(trips):
            if streams.idle:
                streams.skip(self._times(called) * (trips - turn))
                return
            self._pass(called, streams)

    def _kernel_seconds(self, step: Step) -> float:
        constants, cluster = self._machine.constants, self._machine.cluster
        efficiency = constants.attention_efficiency if step.attention else constants.matmul_efficiency
        arithmetic = step.flops / (self._machine.peak * efficiency)
        memory = step.bytes / (cluster.memory_gb_per_s * 1e9 * constants.memory_efficiency)
        return max(arithmetic, memory)
