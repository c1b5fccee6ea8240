"""Runs a set of random programs in one process of a job."""

from __future__ import annotations

import os
import threading
import warnings
from collections.abc import Callable
from typing import Any

import jax
import numpy as np
from comparison import wrong_blocks
from jax.sharding import Mesh, NamedSharding, PartitionSpec
from numpy_results import inputs_of
from program_form import Program, ProgramSet

#: For each result of a run, the block of each local device, by the device's position in the mesh.
Blocks = list[dict[int, np.ndarray]]
_Start = Callable[[int], list[jax.Array]]


class ProgramRuns:
    """The devices of the job, in the order (process, device)."""

    def __init__(self) -> None:
        self._devices = sorted(jax.devices(), key=lambda device: (device.process_index, device.id))

    def results_of(self, programs: ProgramSet, functions: list[Any]) -> list[Blocks | None]:
        """Results of each run of `functions`, the programs as Python; None if this process has none of its devices."""
        starts = [self._jit(*each) for each in zip(programs["programs"], functions, strict=True)]
        results: list[Blocks | None] = [None] * len(programs["runs"])
        errors: list[BaseException] = []

        def run(plan: Any) -> None:
            try:
                started = {}
                for number in plan["runs"]:
                    program, seed = programs["runs"][number]
                    start = starts[program]
                    if start:
                        started[number] = start(seed)
                for number in plan["wait"]:
                    if number in started:
                        results[number] = [_blocks(array) for array in started.pop(number)]
            except BaseException as error:
                errors.append(error)

        threads = [threading.Thread(target=run, args=(plan,)) for plan in programs["threads"][1:]]
        for thread in threads:
            thread.start()
        run(programs["threads"][0])
        for thread in threads:
            thread.join()
        if errors:
            raise errors[0]
        return results

    def _jit(self, program: Program, function: Any) -> _Start | None:
        """Starts a run with inputs of a seed. The first call compiles."""
        devices = np.array([self._devices[i] for i in program["order"]], object)
        if not any(device.process_index == jax.process_index() for device in devices):
            return None
        mesh = Mesh(devices.reshape(program["shape"]), tuple(program["axes"]))
        spec = PartitionSpec(tuple(program["axes"]))
        mapped = jax.shard_map(function, mesh=mesh, in_specs=spec, out_specs=spec, check_vma=False)
        mapped.__name__ = program["name"]
        jitted = jax.jit(mapped, donate_argnums=tuple(program["donate"]))
        sharding = NamedSharding(mesh, spec)

        def start(seed: int) -> list[jax.Array]:
            operands = [
                jax.make_array_from_callback(values.shape, sharding, lambda index, values=values: values[index])
                for values in inputs_of(program, seed)
            ]
            return list(jitted(*operands))

        return start


def _blocks(array: jax.Array) -> dict[int, np.ndarray]:
    return {shard.index[0].start or 0: np.asarray(shard.data)[0] for shard in array.addressable_shards}


def start_jax() -> None:
    """Settings and start of JAX in a process of the job."""
    warnings.filterwarnings("ignore", "Some donated buffers were not usable")
    jax.config.update("jax_enable_x64", True)
    if int(os.environ["OMPI_COMM_WORLD_SIZE"]) > 1:
        jax.distributed.initialize()


def run_alone(programs: ProgramSet, functions: list[Any]) -> None:
    """Runs a set in all processes of a job and prints what is wrong; ends the process with 1 if anything is."""
    start_jax()
    wrong = wrong_blocks(programs, ProgramRuns().results_of(programs, functions))
    print("\n".join(wrong) or "All results of this process are right.", flush=True)
    raise SystemExit(bool(wrong))
