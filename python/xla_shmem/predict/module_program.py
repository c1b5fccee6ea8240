"""A compiled module on a cluster: its schedule, and the decisions of the compiler pass for its collectives."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from typing import TYPE_CHECKING

from xla_shmem.errors import PredictError
from xla_shmem.hlo.files import HloInput
from xla_shmem.hlo.module_devices import devices_needed
from xla_shmem.hlo.regular_topology import core_topology, regular_places
from xla_shmem.options import Options
from xla_shmem.predict.cluster import Cluster
from xla_shmem.predict.program import Collective, Program, program_of

if TYPE_CHECKING:
    from xla_shmem import _core


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

    try:
        explanations = _core.explain_module(
            module.proto,
            topology,
            transport,
            lowering="none",
            **options.rules("gpu"),
        )
        schedules = _core.schedule(module.proto)
    except ValueError as error:
        raise PredictError(f"{module.source}: {error}") from None
    for each in explanations:
        if each["decided"]["rule"] == "unresolved-groups":
            raise PredictError(f"{module.source}: {each['decided']['name']}: {each['decided']['reason']}.")
    domain_of = {place.device_id: place.nvlink_domain for place in places}
    collectives = {
        each["decided"]["name"]: Collective(
            op=each["decided"]["op"],
            bytes=each["decided"]["bytes"],
            group=each["decided"]["group_size"],
            lowered=each["decided"]["lowered"],
            dtype=each["decided"]["dtype"].split(",")[0],  # tables have the first of several
            way=each["decided"]["chosen_way"] or "",
            domain_size=_domain_size(each, domain_of),
        )
        for each in explanations
    }
    return program_of(schedules, collectives, devices)


def _domain_size(explanation: _core.Explanation, domain_of: Mapping[int, int]) -> int:
    """`Collective.domain_size`; that of a permute is 1 if a pair crosses domains."""
    record = explanation["decided"]
    whole: int = record["group_size"]
    if record["part_of"] is not None:
        return whole if record["lowered"] == "NVSHMEM" else 1
    if any(domain_of.get(source) != domain_of.get(target) for source, target in explanation["pairs"]):
        return 1
    counts = [Counter(domain_of.get(device) for device in group) for group in explanation["groups"]]
    return min((min(count.values()) for count in counts if len(count) > 1), default=whole)
