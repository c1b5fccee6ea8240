"""A compiled program as the model sees it: what runs in which order, how often, and which collectives it waits for."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Literal

from xla_shmem.predict.errors import PredictError

if TYPE_CHECKING:
    from xla_shmem import _core

Backend = Literal["NVSHMEM", "DEFAULT"]


@dataclasses.dataclass(frozen=True)
class Collective:
    """One collective.

    Attributes:
      op: `all-reduce`, `collective-permute`, ...
      bytes: of the result on one device.
      group: devices of the largest group.
      lowered: which backend the pass gives it.
      in_domain: whether every group lies in one NVLink domain.
    """

    op: str
    bytes: int
    group: int
    lowered: Backend
    in_domain: bool


@dataclasses.dataclass(frozen=True)
class Step:
    """One instruction of a schedule: work, or the start, the end or both of a collective, or a call.

    Attributes:
      name: of the instruction.
      flops, bytes: of compute; zero elsewhere.
      starts: name of the collective that begins here.
      ends: name of the collective that has to be done before the next step.
      calls: computations that run here.
      loop: whether they run over and over.
    """

    name: str
    flops: int = 0
    bytes: int = 0
    starts: str | None = None
    ends: str | None = None
    calls: tuple[str, ...] = ()
    loop: bool = False


@dataclasses.dataclass(frozen=True)
class Program:
    """Computations in schedule order.

    Attributes:
      entry: name of the computation that a run begins with.
      computations: steps by name of the computation.
      executions: how often each computation runs in one run; None where XLA does not know.
      collectives: by name.
      devices: of the whole job.
      unknown: compute instructions whose arithmetic XLA does not tell.
    """

    entry: str
    computations: Mapping[str, tuple[Step, ...]]
    executions: Mapping[str, int | None]
    collectives: Mapping[str, Collective]
    devices: int
    unknown: int = 0

    def trips(self, caller: str, called: str) -> int:
        """How often a loop's body runs each time that `caller` does.

        Raises:
          PredictError: XLA does not know.
        """
        whole, part = self.executions[caller], self.executions[called]
        if not whole or part is None:
            raise PredictError(
                f"XLA has found no trip count for the loop over {called}; a prediction needs loops whose length is "
                "known when they are compiled, such as lax.scan or fori_loop with constant bounds."
            )
        return part // whole

    def flops(self, computation: str) -> int:
        """Of a computation and all that it calls, in one turn.

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
        """Whether a loop's body, with all that it calls, has no collective and more FLOP than bytes."""
        steps = [step for name in self._reached(computation) for step in self.computations[name]]
        quiet = not any(step.starts or step.ends for step in steps)
        return quiet and sum(step.flops for step in steps) > sum(step.bytes for step in steps)

    def _reached(self, computation: str) -> set[str]:
        called = (name for step in self.computations[computation] for name in step.calls)
        return {computation}.union(*map(self._reached, called))


def program_of(
    schedules: Iterable[_core.ComputationSchedule], collectives: Mapping[str, Collective], devices: int
) -> Program:
    """The program that `_core.schedule` describes.

    Args:
      schedules: of a module.
      collectives: of the same module, by name.
      devices: of the whole job.

    Raises:
      PredictError: there is nothing scheduled in it, or it has a collective that is not listed.
    """
    listed = list(schedules)
    called = {name for each in listed for step in each["instructions"] for name in step["called"]}
    entries = [each["name"] for each in listed if each["name"] not in called]
    if len(entries) != 1:
        raise PredictError(f"the module has {len(entries)} computations that nothing calls; a program has one.")
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
            yield Step(name, flops=each["flops"] or 0, bytes=each["bytes"] or 0)
        elif each["category"] == "control":
            calls = tuple(other for other in each["called"] if other in present)
            yield Step(name, calls=calls, loop=each["opcode"] == "while")
        elif each["start"] is not None and each["start"] in collectives:
            yield Step(name, ends=each["start"])
        elif name in collectives:
            yield Step(name, starts=name, ends=None if name in completed else name)
        elif each["collective"]:
            raise PredictError(f"{name} in {schedule['name']} is a collective that the module's list does not have.")
