"""How long a collective takes on each backend: latency, and bytes over bandwidth."""

from __future__ import annotations

import dataclasses
import math

from xla_shmem.predict.cluster import Cluster
from xla_shmem.predict.constants import Constants
from xla_shmem.predict.program import Backend, Collective

#: Of a peer-to-peer transfer over NVLink: a channel that has more than this to carry gets help from another one.
#: 32 chunks of 512 KiB: addP2pToPlan in src/enqueue.cc and P2P_NVL_CHUNKSIZE in src/init.cc of NCCL 2.30.
_CHANNEL_BYTES = 32 * (512 << 10)

#: Channels to a peer over the network: at least so many, and one for so many GB/s: src/graph/paths.cc of NCCL 2.30.
_NETWORK_SMS, _NETWORK_CHANNEL_GB_PER_S = 2, 14

#: Peers whose sends a channel takes on at the same time: NCCL_MAX_DEV_WORK_P2P_PER_BATCH in src/include/device.h.
_PEERS_AT_ONCE = 8


@dataclasses.dataclass(frozen=True)
class Transfer:
    """One collective on the wire.

    Attributes:
      seconds: that it takes alone.
      link: part of the link's bandwidth that it uses meanwhile.
      sms: streaming multiprocessors that it keeps meanwhile.
    """

    seconds: float
    link: float
    sms: int


def send_channels(size: int, devices: int, cluster: Cluster, channels: int) -> int:
    """How many channels NCCL splits a send within an NVLink domain over.

    In a communicator of many ranks every peer gets few, so that all could be served at once; where the communicator
    spans domains, no more than a peer in the other domain would get.

    Args:
      size: bytes to send.
      devices: ranks of the communicator, device ids in order.
      cluster: where they are.
      channels: what NCCL has for sends and receives.
    """
    most = channels
    if devices > cluster.gpus_per_nvlink_domain:
        needed = max(_NETWORK_SMS, math.ceil(cluster.nic_gb_per_s / _NETWORK_CHANNEL_GB_PER_S))
        most = 1 << (needed - 1).bit_length()  # the next power of two
        while most * math.ceil(devices / _PEERS_AT_ONCE) > channels and most > 1:
            most //= 2
    used = most
    while used * devices > channels and used > 1:
        used //= 2
    while size > used * _CHANNEL_BYTES and used <= most // 2:
        used *= 2
    return used


def transfer(collective: Collective, backend: Backend, cluster: Cluster, constants: Constants, ranks: int) -> Transfer:
    """What a collective costs.

    Args:
      collective: the collective.
      backend: what carries it.
      cluster: where it runs.
      constants: of the model.
      ranks: of the communicator that NCCL would send a permute in.
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
        channels = send_channels(collective.bytes, ranks, cluster, constants.nccl_point_to_point_channels)
        speed = min(most, channels * constants.channel_gb_per_s)
    else:
        channels, speed = constants.nccl_channels, most
    latency = constants.nccl_us + steps * cluster.nvlink_latency_us
    return Transfer(_seconds(latency, carried, speed), speed / cluster.nvlink_gb_per_s, channels)


def _put(collective: Collective, cluster: Cluster, constants: Constants) -> Transfer:
    """Copy engines carry it, and keep no SM."""
    steps, carried = _ring(collective)
    speed = cluster.nvlink_gb_per_s * constants.put_efficiency
    latency = constants.put_us + steps * cluster.nvlink_latency_us
    return Transfer(_seconds(latency, carried, speed), constants.put_efficiency, 0)


def _ring(collective: Collective) -> tuple[int, float]:
    """Steps of a ring algorithm, and the bytes that leave a device in all of them.

    Bytes of a collective are those of its result: the whole of an all-gather, a share of a reduce-scatter.
    """
    others, group = max(collective.group - 1, 0), max(collective.group, 1)
    if collective.op in ("all-gather", "all-to-all"):
        return others, collective.bytes * others / group
    if collective.op == "reduce-scatter":
        return others, float(collective.bytes * others)
    if collective.op == "all-reduce":
        return 2 * others, 2 * collective.bytes * others / group
    return 1, float(collective.bytes)


def _seconds(latency_us: float, carried: float, gb_per_s: float) -> float:
    return latency_us * 1e-6 + carried / (gb_per_s * 1e9)
