"""A compiled module on a cluster: its schedule, and the decisions of the compiler pass for its collectives."""

from __future__ import annotations

from typing import Any

from xla_shmem.hlo.files import HloInput
from xla_shmem.hlo.module_devices import devices_needed
from xla_shmem.hlo.regular_topology import core_topology, regular_places
from xla_shmem.options import Options
from xla_shmem.options.values import NO_THRESHOLD, OPS
from xla_shmem.predict.cluster import Cluster
from xla_shmem.predict.errors import PredictError
from xla_shmem.predict.program import Collective, Program, program_of


def program_of_module(module: HloInput, cluster: Cluster, options: Options) -> Program:
    """The program of a module, with one process per device and device ids in the order of the nodes.

    Args:
      module: a compiled and scheduled module.
      cluster: the cluster that it runs on.
      options: options of the pass.

    Raises:
      PredictError: the module cannot be read, is for a single device, or does not fit the cluster.
    """
    from xla_shmem import _core

    devices = devices_needed(module)
    if devices is None:
        raise PredictError(f"{module.source} has no collectives and no device assignment; there is nothing to predict.")
    cluster.check_size(devices)
    places = regular_places(
        devices, devices_per_host=cluster.gpus_per_node, nvlink_domain=cluster.gpus_per_nvlink_domain
    )
    topology = core_topology(places)
    transport = _core.gpu_transport({place.device_id: place.nvlink_domain for place in places})

    def records(**rules: Any) -> list[_core.CollectiveRecord]:
        return _core.run_pass(module.proto, topology, transport, lowering="none", **rules).records

    try:
        decided = records(profile=options.profile, threshold=options.threshold, ops=options.ops)
        # Without a limit on size, this profile decides by NVLink domains alone.
        placed = records(profile="domain", threshold=NO_THRESHOLD, ops=[(op, None) for op in OPS])
        schedules = _core.schedule(module.proto)
    except ValueError as error:
        raise PredictError(f"{module.source}: {error}") from None
    near = {record["name"] for record in placed if record["backend"] == "NVSHMEM"}
    collectives = {
        record["name"]: Collective(
            op=record["op"],
            bytes=record["bytes"],
            group=record["group_size"],
            lowered="NVSHMEM" if record["lowered"] == "NVSHMEM" else "DEFAULT",
            in_domain=record["name"] in near,
        )
        for record in decided
    }
    return program_of(schedules, collectives, devices)
