"""Compiles programs for eight GPUs that are not there, and leaves XLA's dumps behind.

Usage: worker.py RECORDS PROGRAM... with XLA_FLAGS from the caller. With our flag among them the pass takes
part, on the regular topology of eight one-device processes on one host; without it this is stock JAX. What the pass
recorded goes to the file RECORDS, as JSON by program. A program called stock:NAME is compiled in stock_collectives().
"""

from __future__ import annotations

import contextlib
import json
import sys
from pathlib import Path
from typing import Any

from jax.experimental import topologies
from programs import DEVICES, PROGRAMS

from xla_shmem import _core, hlo_proto, options, plugin, topology


def gpus() -> list[Any]:
    described = topologies.get_topology_desc(
        platform="cuda",
        topology_name="",
        topology=f"1x{DEVICES}x1",  # slices x processes x devices of a process
        target_config=(Path(__file__).parent / "h100.txtpb").read_text(),
    )
    return list(described.devices)


def main(path: str, names: list[str]) -> None:
    devices = gpus()
    records: dict[str, Any] = {}

    def observe(module: bytes, found: list[Any]) -> None:
        records[hlo_proto.module_name(module).removeprefix("jit_")] = found

    if plugin.active():
        places = topology.regular_places(DEVICES, devices_per_host=DEVICES)
        _core.set_gpu_pass_hooks(lambda: "the topology is set below", observe)
        transport = _core.gpu_transport({place.device_id: 0 for place in places})
        _core.set_gpu_pass(topology.core_topology(places), transport, ops=options.resolve().ops)
    for name in names:
        stock = name.startswith("stock:")
        function, arguments = PROGRAMS[name.removeprefix("stock:")](devices)
        with plugin.stock_collectives() if stock else contextlib.nullcontext():
            function.lower(*arguments).compile()
    Path(path).write_text(json.dumps(records))


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2:])
