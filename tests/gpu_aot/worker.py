"""Compiles the programs for eight GPUs that are not there, and leaves XLA's dumps behind.

Usage: worker.py OUT HANDLERS.so PROGRAM... with XLA_FLAGS from the caller. With our flag among them the pass takes
part, on the regular topology of eight one-device processes on one host; without it this is stock JAX. What the pass
recorded goes to OUT, as JSON by program.
"""

from __future__ import annotations

import ctypes
import json
import pathlib
import sys
from typing import Any

import jax
from jax.experimental import topologies
from programs import DEVICES, PROGRAMS

HERE = pathlib.Path(__file__).parent
TARGETS = {
    "xla_shmem.permute_start": "stream_handler",
    "xla_shmem.permute_done": "stream_handler",
    "xla_shmem.all_reduce_start": "stream_handler",
    "xla_shmem.all_reduce_done": "stream_handler",
    "xla_shmem.collective_permute": "capturable_handler",
    "xla_shmem.all_reduce": "capturable_handler",
}


def register_handlers(library: str) -> None:
    loaded = ctypes.CDLL(library)
    for target, function in TARGETS.items():
        jax.ffi.register_ffi_target(target, jax.ffi.pycapsule(getattr(loaded, function)), platform="CUDA")


def main(out: str, library: str, names: list[str]) -> None:
    devices = topologies.get_topology_desc(
        platform="cuda",
        topology_name="",
        topology=f"1x{DEVICES}x1",  # slices x processes x devices of a process
        target_config=(HERE / "h100.txtpb").read_text(),
    ).devices
    records: dict[str, Any] = {}
    from xla_shmem import plugin

    if plugin.active():
        from xla_shmem import _core, hlo_proto, topology

        def observe(module: bytes, found: list[Any]) -> None:
            records[hlo_proto.module_name(module).removeprefix("jit_")] = found

        if not _core.cuda_handlers():
            register_handlers(library)
        places = topology.regular_places(DEVICES, devices_per_host=DEVICES)
        _core.set_gpu_pass(topology.core_topology(places), _core.Transport(True))
        _core.set_gpu_pass_hooks(lambda: "the test sets the topology itself", observe)
    for name in names:
        function, arguments = PROGRAMS[name](devices)
        function.lower(*arguments).compile()
    pathlib.Path(out).write_text(json.dumps(records))


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], sys.argv[3:])
