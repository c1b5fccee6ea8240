"""The time of a collective on each backend: latency, plus bytes over bandwidth."""

from __future__ import annotations

import dataclasses
import math

from xla_shmem import _core
from xla_shmem.predict.cluster import Cluster
from xla_shmem.predict.constants import Constants
from xla_shmem.predict.program import Backend, Collective

#: Minimum of channels to a peer over the network, and GB/s per channel: src/graph/paths.cc of NCCL 2.30.
_NETWORK_SMS, _NETWORK_CHANNEL_GB_PER_S = 2, 14

#: Sends to different peers that a channel combines: NCCL_MAX_DEV_WORK_P2P_PER_BATCH in src/include/device.h.
_PEERS_AT_ONCE = 8


@dataclasses.dataclass(frozen=True)
class Transfer:
    """The cost of one collective.

    Attributes:
      seconds: duration if nothing else runs.
      link: fraction of the link's bandwidth that it uses.
      sms: streaming multiprocessors that it occupies.
    """

    seconds: float
    link: float
    sms: int


def send_channels(devices: int, cluster: Cluster, channels: int) -> int:
    """Number of channels that NCCL uses for a send inside an NVLink domain.

    In a large communicator every peer gets few channels, so that all peers could be served at once. If the communicator
    spans domains, a peer gets no more channels than a peer in another domain. NCCL's source also doubles the channels
    of sends above 16 MiB a channel; the published times contradict that (docs/predict.md).

    Args:
      devices: ranks of the communicator, device ids in order.
      cluster: the cluster.
      channels: NCCL's channels for sends and receives.
    """
    most = channels
    if devices > cluster.gpus_per_nvlink_domain:
        needed = max(_NETWORK_SMS, math.ceil(cluster.nic_gb_per_s / _NETWORK_CHANNEL_GB_PER_S))
        most = 1 << (needed - 1).bit_length()  # the next power of two
        while most * math.ceil(devices / _PEERS_AT_ONCE) > channels and most > 1:
            most //= 2
    return _core.nccl_send_channels(0, devices, channels, most)


def transfer(collective: Collective, backend: Backend, cluster: Cluster, constants: Constants, ranks: int) -> Transfer:
    """The cost of a collective.

    Args:
      collective: the collective.
      backend: the backend that carries it.
      cluster: the cluster.
      constants: the model's constants.
      ranks: ranks of NCCL's communicator for a permute.
    """
    if backend == "NVSHMEM":
        return _put(collective, cluster, constants)
    steps, carried = _ring(collective)
    if not collective.in_domain:
        speed = cluster.nic_gb_per_s * constants.nic_efficiency
        latency = constants.nccl_us + steps * cluster.nic_latency_us
        return Transfer(_seconds(latency, carried, speed), 0.0, _NETWORK_SMS)
    most = cluster.nvlink_gb_per_s * constants.nccl_efficiency
    if collective.op == "collective-permute":
        channels = send_channels(ranks, cluster, constants.nccl_point_to_point_channels)
        speed = min(most, channels * constants.channel_gb_per_s)
    else:
        channels, speed = constants.nccl_channels, most
    latency = constants.nccl_us + steps * cluster.nvlink_latency_us
    return Transfer(_seconds(latency, carried, speed), speed / cluster.nvlink_gb_per_s, channels)


def _put(collective: Collective, cluster: Cluster, constants: Constants) -> Transfer:
    """A put: copy engines carry it, and it occupies no SM."""
    steps, carried = _ring(collective)
    speed = cluster.nvlink_gb_per_s * constants.put_efficiency
    latency = constants.put_us + steps * cluster.nvlink_latency_us
    return Transfer(_seconds(latency, carried, speed), constants.put_efficiency, 0)


def _ring(collective: Collective) -> tuple[int, float]:
    """Number of steps of a ring algorithm, and bytes that a device sends in all steps.

    `Collective.bytes` is the size of the result: the whole array of an all-gather, a shard of a reduce-scatter. That of
    a ragged all-to-all counts as full, because only the devices know how many rows they send.
    """
    others, group = max(collective.group - 1, 0), max(collective.group, 1)
    if collective.op in ("all-gather", "all-to-all", "ragged-all-to-all"):
        return others, collective.bytes * others / group
    if collective.op == "reduce-scatter":
        return others, float(collective.bytes * others)
    if collective.op == "all-reduce":
        return 2 * others, 2 * collective.bytes * others / group
    return 1, float(collective.bytes)


def _seconds(latency_us: float, carried: float, gb_per_s: float) -> float:
    return latency_us * 1e-6 + carried / (gb_per_s * 1e9)
