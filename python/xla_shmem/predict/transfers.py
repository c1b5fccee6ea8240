"""The time of a collective on each backend: within an NVLink domain by the cost model of the pass, and beyond it.

The cost model is xla_patch/assigner/cost_model.cc; `xla-shmem inspect` and `tune` go by it too.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Iterator

from xla_shmem import _core
from xla_shmem.predict.cluster import Cluster
from xla_shmem.predict.constants import Constants
from xla_shmem.predict.program import Backend, Choice, Collective

#: Minimum of channels to a peer over the network, and GB/s per channel: src/graph/paths.cc of NCCL 2.30.
_NETWORK_SMS, _NETWORK_CHANNEL_GB_PER_S = 2, 14

#: Sends to different peers that a channel combines: NCCL_MAX_DEV_WORK_P2P_PER_BATCH in src/include/device.h.
_PEERS_AT_ONCE = 8

_ALL_TO_ALLS = ("all-to-all", "ragged-all-to-all")


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


def send_channels(devices: int, cluster: Cluster) -> int:
    """Number of channels that NCCL uses for a send inside an NVLink domain.

    In a large communicator every peer gets few channels, so that all peers could be served at once. If the communicator
    spans domains, a peer gets no more channels than a peer in another domain. Sends above 16 MiB a channel get more
    channels, which shows where XLA measured them one at a time. In whole steps they are not counted, because the times
    that are published contradict them (`channel_gb_per_s` in constants.toml).

    Args:
      devices: ranks of the communicator, device ids in order.
      cluster: the cluster.
    """
    most = _core.NCCL_CHANNELS
    if devices > cluster.gpus_per_nvlink_domain:
        needed = max(_NETWORK_SMS, math.ceil(cluster.nic_gb_per_s / _NETWORK_CHANNEL_GB_PER_S))
        most = 1 << (needed - 1).bit_length()  # the next power of two
        while most * math.ceil(devices / _PEERS_AT_ONCE) > _core.NCCL_CHANNELS and most > 1:
            most //= 2
    return _core.nccl_send_channels(0, devices, most)


def transfer(collective: Collective, by: Choice, cluster: Cluster, constants: Constants, ranks: int) -> Transfer:
    """The cost of a collective.

    Args:
      collective: the collective.
      by: what carries it.
      cluster: the cluster.
      constants: the model's constants.
      ranks: ranks of NCCL's communicator for a permute.
    """
    if by == "HIERARCHICAL":
        return _divided(collective, cluster, constants)
    if by == "DEFAULT" and not collective.in_domain:
        return _across(collective, cluster, constants)
    on_nvshmem, on_nccl = _within(collective, cluster, constants, ranks)
    return on_nvshmem if by == "NVSHMEM" else on_nccl


def measured_transfer(collective: Collective, backend: Backend, cost: Transfer, table: _core.TuningTable) -> Transfer:
    """The cost with the time that a table has for it: beyond an NVLink domain, or without a row of the op, as it is.

    Args:
      collective: the collective.
      backend: `NVSHMEM` for the decisions of the pass, `DEFAULT` for XLA's choice of all.
      cost: by the model; its link and SMs hold for the measured time too.
      table: measured times.
    """
    group = max(collective.group, 2) if collective.op == "collective-permute" else collective.group
    times = None
    if collective.in_domain and group > 1:
        times = table.times(collective.op, collective.dtype, group, collective.bytes)
    by = (collective.way or collective.lowered) if backend == "NVSHMEM" else "DEFAULT"
    return cost if times is None or by not in times else dataclasses.replace(cost, seconds=times[by] * 1e-6)


def _within(collective: Collective, cluster: Cluster, constants: Constants, ranks: int) -> tuple[Transfer, Transfer]:
    """On NVSHMEM and on NCCL inside an NVLink domain. Copy engines carry puts, which occupy no SM."""
    channels = send_channels(ranks, cluster)
    times = _core.transfer_times(
        # The model has no ragged all-to-all: only the devices know how many rows they send. It counts as full.
        collective.op.removeprefix("ragged-"),
        collective.bytes,
        max(collective.group, 2) if collective.op == "collective-permute" else collective.group,
        nvlink_gb_per_s=cluster.nvlink_gb_per_s,
        memory_gb_per_s=cluster.memory_gb_per_s * constants.memory_efficiency,
        channels=channels,
        channel_gb_per_s=constants.channel_gb_per_s,
    )
    if times is None:  # a group of one
        return Transfer(0, 0, 0), Transfer(0, 0, 0)
    (nvshmem_us, nvshmem_share), (nccl_us, nccl_share) = times
    sms = channels if collective.op == "collective-permute" else constants.nccl_channels
    return Transfer(nvshmem_us * 1e-6, nvshmem_share, 0), Transfer(nccl_us * 1e-6, nccl_share, sms)


def _across(collective: Collective, cluster: Cluster, constants: Constants) -> Transfer:
    """NCCL where groups cross NVLink domains; each GPU has a NIC.

    A ring passes all GPUs of a group in a domain before it leaves the domain. Rings of several channels leave at
    different GPUs, so a group has as many NICs as GPUs there. In an all-to-all a GPU sends through its own NIC, and
    what stays in the domain through NVLink at the same time.
    """
    steps, carried = _ring(collective)
    near = max(1, collective.domain_size)
    nic = cluster.nic_gb_per_s * constants.nic_efficiency
    nvlink = cluster.nvlink_gb_per_s * _core.NCCL_LINK_SHARE
    hop_us = (cluster.nic_latency_us + (near - 1) * cluster.nvlink_latency_us) / near
    if collective.op in _ALL_TO_ALLS:
        leaving = (collective.group - near) / (collective.group - 1)
        speed, nics, hop_us = min(nic / leaving, nvlink / max(1 - leaving, 1e-9)), 1, cluster.nic_latency_us
    else:
        speed, nics = min(near * nic, nvlink), near
    seconds = _seconds(constants.nccl_us + steps * hop_us, carried, speed)
    through_nvlink = speed / cluster.nvlink_gb_per_s if near > 1 else 0.0
    return Transfer(seconds, min(1.0, through_nvlink), min(constants.nccl_channels, _NETWORK_SMS * nics))


def _divided(collective: Collective, cluster: Cluster, constants: Constants) -> Transfer:
    """Parts within NVLink domains on NVSHMEM, and NCCL's part between them, in turn (docs/running-jobs.md)."""
    op, near = collective.op, max(1, collective.domain_size)
    domains = collective.group // near

    def parts() -> Iterator[Transfer]:
        def within(each: str, size: int) -> Transfer:
            return _within(Collective(each, size, near, "NVSHMEM", near), cluster, constants, near)[0]

        def between(each: str, size: int) -> Transfer:
            return _across(Collective(each, size, domains, "DEFAULT", 1), cluster, constants)

        size = collective.bytes
        if op == "all-reduce":
            yield within("reduce-scatter", size // near)
            yield between(op, size // near)
            yield within("all-gather", size)
        elif op == "all-gather":
            yield between(op, size // near)
            yield within(op, size)
        elif op == "reduce-scatter":
            yield within(op, size * domains)
            yield between(op, size)
        elif op in _ALL_TO_ALLS:
            yield within(op, size)
            yield between(op, size)
        else:  # a broadcast, or a permute
            yield between(op, size)
            yield within(op, size)

    every = list(parts())
    seconds = sum(each.seconds for each in every)
    # The link's mean share, and the SMs of NCCL's part throughout.
    return Transfer(seconds, sum(each.link * each.seconds for each in every) / seconds, max(each.sms for each in every))


def _ring(collective: Collective) -> tuple[int, float]:
    """Number of steps of a ring algorithm, and bytes that a device sends in all steps.

    `Collective.bytes` is the size of the result: the whole array of an all-gather, a shard of a reduce-scatter. That of
    a ragged all-to-all counts as full, because only the devices know how many rows they send.
    """
    others, group = max(collective.group - 1, 0), max(collective.group, 1)
    if collective.op in ("all-gather", *_ALL_TO_ALLS):
        return others, collective.bytes * others / group
    if collective.op == "reduce-scatter":
        return others, float(collective.bytes * others)
    if collective.op == "all-reduce":
        return 2 * others, 2 * collective.bytes * others / group
    return 1, float(collective.bytes)


def _seconds(latency_us: float, carried: float, gb_per_s: float) -> float:
    return latency_us * 1e-6 + carried / (gb_per_s * 1e9)
