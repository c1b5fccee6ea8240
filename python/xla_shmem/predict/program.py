"""A compiled program: its steps in order, how often they run, and the collectives that they start and wait for."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Literal

from xla_shmem.errors import PredictError

if TYPE_CHECKING:
    from xla_shmem import _core

Backend = Literal["NVSHMEM", "DEFAULT"]

#: What the pass decides for a collective. HIERARCHICAL: parts within NVLink domains, and a part between them on NCCL.
Choice = Literal["NVSHMEM", "DEFAULT", "HIERARCHICAL"]


@dataclasses.dataclass(frozen=True)
class Collective:
    """One collective.

    Attributes:
      op: `all-reduce`, `collective-permute`, ...
      bytes: size of the result on one device.
      group: devices of the largest group.
      lowered: backend that the pass assigns.
      domain_size: devices of a group in one NVLink domain: `group` if no group crosses domains, else the fewest.
      dtype: HLO's name of the element type, of several the first.
      way: on DEFAULT, the way that the pass makes XLA take; "" for XLA's choice.
    """

    op: str
    bytes: int
    group: int
    lowered: Choice
    domain_size: int
    dtype: str = "f32"
    way: str = ""

    @property
    def in_domain(self) -> bool:
        """Whether every group is inside one NVLink domain."""
        return self.domain_size >= self.group


@dataclasses.dataclass(frozen=True)
class Step:
    """One instruction of a schedule: compute, the start or the end (or both) of a collective, or a call.

    Attributes:
      name: name of the instruction.
      flops, bytes: work of compute; 0 for other steps.
      starts: name of the collective that starts here.
      ends: name of the collective that has to end before the next step.
      calls: names of the computations that run here.
      loop: whether they run in a loop.
      attention: whether the compute is a fused attention kernel.
    """

    name: str
    flops: int = 0
    bytes: int = 0
    starts: str | None = None
    ends: str | None = None
    calls: tuple[str, ...] = ()
    loop: bool = False
    attention: bool = False


@dataclasses.dataclass(frozen=True)
class Program:
    """Computations in schedule order.

    Attributes:
      entry: name of the computation that a run starts with.
      computations: steps by name of the computation.
      executions: number of executions of each computation in one run; None if XLA does not know.
      collectives: collectives by name.
      devices: number of devices of the job.
      unknown: number of compute instructions whose FLOPs XLA does not know.
    """

    entry: str
    computations: Mapping[str, tuple[Step, ...]]
    executions: Mapping[str, int | None]
    collectives: Mapping[str, Collective]
    devices: int
    unknown: int = 0

    def trips(self, caller: str, called: str) -> int:
        """Trip count of the loop over `called` in one execution of `caller`.

        Raises:
          PredictError: XLA does not know it.
        """
        whole, part = self.executions[caller], self.executions[called]
        if not whole or part is None:
            raise PredictError(
                f"XLA found no trip count for the loop over {called}; a prediction needs loops whose length is known "
                "at compile time, such as lax.scan or fori_loop with constant bounds."
            )
        return part // whole

    def flops(self, computation: str) -> int:
        """FLOPs of one execution of a computation, including everything that it calls.

        Raises:
          PredictError: as `trips`.
        """
        total = 0
        for step in self.computations[computation]:
            total += step.flops
            for called in step.calls:
                total += (self.trips(computation, called) if step.loop else 1) * self.flops(called)
        return total

    def computes(self, computation: str) -> bool:
        """Whether a loop's body, including everything that it calls, has no collective and more FLOPs than bytes."""
        steps = [step for name in self._reached(computation) for step in self.computations[name]]
        quiet = not any(step.starts or step.ends for step in steps)
        return quiet and sum(step.flops for step in steps) > sum(step.bytes for step in steps)

    def _reached(self, computation: str) -> set[str]:
        called = (name for step in self.computations[computation] for name in step.calls)
        return {computation}.union(*map(self._reached, called))


def program_of(
    schedules: Iterable[_core.ComputationSchedule], collectives: Mapping[str, Collective], devices: int
) -> Program:
    """The program described by `_core.schedule`.

    Args:
      schedules: schedules of a module.
      collectives: collectives of the same module, by name.
      devices: number of devices of the job.

    Raises:
      PredictError: the module has no single entry, or a collective that is not in `collectives`.
    """
    listed = list(schedules)
    called = {name for each in listed for step in each["instructions"] for name in step["called"]}
    entries = [each["name"] for each in listed if each["name"] not in called]
    if len(entries) != 1:
        raise PredictError(f"the module has {len(entries)} computations that are never called; expected one.")
    present = {each["name"] for each in listed}
    return Program(
        entry=entries[0],
        computations={each["name"]: tuple(_steps(each, collectives, present)) for each in listed},
        executions={each["name"]: each["executions"] for each in listed},
        collectives=collectives,
        devices=devices,
        unknown=sum(
            step["category"] == "compute" and step["flops"] is None for each in listed for step in each["instructions"]
        ),
    )


def _steps(
    schedule: _core.ComputationSchedule, collectives: Mapping[str, Collective], present: set[str]
) -> Iterable[Step]:
    instructions = schedule["instructions"]
    completed = {each["start"] for each in instructions if each["start"] is not None}
    for each in instructions:
        name = each["name"]
        if each["category"] == "compute":
            attention = each["fused_attention"]
            yield Step(name, flops=each["flops"] or 0, bytes=each["bytes"] or 0, attention=attention)
        elif each["category"] == "control":
            calls = tuple(other for other in each["called"] if other in present)
            yield Step(name, calls=calls, loop=each["opcode"] == "while")
        elif each["start"] is not None and each["start"] in collectives:
            yield Step(name, ends=each["start"])
        elif name in collectives:
            yield Step(name, starts=name, ends=None if name in completed else name)
        elif each["collective"]:
            raise PredictError(f"collective {name} in {schedule['name']} is not among the module's collectives.")
