"""The NVLink domains of a job, from the facts that its processes announced.

A pure function: every process has the same facts and must compute the same numbers. For each GPU the first match wins:

1. It is split by MIG: a domain of its own.
2. It belongs to an NVLink fabric (registration completed, cluster UUID not zero): one domain for each cluster and
   clique, across hosts. NVSHMEM checks the same.
3. A process of its host could not read its GPUs: one domain for the rest of that host, as in XLA without a fabric.
4. Otherwise it shares a domain with the GPUs of its host that all have NVLink to one another; on a host without any
   NVLink, with those that all have peer access over PCIe.

So a host with NVSwitch is one domain, each NVLink bridge makes one, and a GPU without peer access is alone.
"""

from __future__ import annotations

import itertools
from collections import defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Literal

from xla_shmem.gpu.process_facts import GpuFacts, ProcessFacts

_Link = Literal["same GPU", "nvlink", "pcie"]
#: GPUs of one domain have equal keys; those with the key ("linked", host) must also be linked.
_Key = tuple[str | int, ...]


@dataclass(frozen=True)
class GpuPlace:
    """One GPU of the job.

    Attributes:
      process: its process.
      local: its index among the process's devices.
      host: number of its host, in order of first appearance.
      domain: number of its NVLink domain, for the assigner's rules.
      reach: GPUs with equal numbers can write into each other's memory; the option does not change it.
      reason: why it is in ``domain``, without a full stop.
    """

    process: int
    local: int
    host: int
    domain: int
    reach: int
    reason: str


@dataclass(frozen=True)
class _Member:
    process: int
    local: int
    host: int
    gpu: GpuFacts
    key: _Key
    reason: str


def place_gpus(
    processes: Sequence[ProcessFacts], devices: Sequence[int], devices_per_domain: int | None = None
) -> list[GpuPlace]:
    """Places every GPU of a job.

    Args:
      processes: the facts of each process, by process number.
      devices: JAX's number of devices of each process.
      devices_per_domain: ``XLA_SHMEM_NVLINK_DOMAIN``: this many devices in process order are one domain, even across
        hosts; 0 makes every host one domain; None applies the rules above.

    Returns:
      The places, by process and local index.

    Raises:
      ValueError: a process announced another number of GPUs than it has devices.
    """
    members = _members(processes, devices)
    on_host: dict[int, list[_Member]] = defaultdict(list)
    for member in members:
        if member.key[0] == "linked":
            on_host[member.host].append(member)
    with_nvlink = {
        host
        for host, there in on_host.items()
        if any(_link(a.gpu, b.gpu) == "nvlink" for a, b in itertools.combinations(there, 2))
    }

    def in_domain(a: _Member, b: _Member) -> bool:
        link = _link(a.gpu, b.gpu)
        return link is not None and (link != "pcie" or a.host not in with_nvlink)

    domains = _group(members, in_domain)
    reach = _group(members, lambda a, b: _link(a.gpu, b.gpu) is not None)
    companions: dict[int, list[_Member]] = defaultdict(list)
    for member, domain in zip(members, domains, strict=True):
        companions[domain].append(member)
    places = []
    for index, member in enumerate(members):
        domain = domains[index]
        if devices_per_domain is None:
            reason = _reason(member, companions[domain])
        elif devices_per_domain == 0:
            domain, reason = member.host, "XLA_SHMEM_NVLINK_DOMAIN=host"
        else:
            domain, reason = index // devices_per_domain, f"XLA_SHMEM_NVLINK_DOMAIN={devices_per_domain}"
        places.append(GpuPlace(member.process, member.local, member.host, domain, reach[index], reason))
    return places


def any_over_pcie(gpus: Sequence[GpuFacts]) -> bool:
    """Returns whether two of the GPUs, all of one host or fabric, reach each other over PCIe alone."""
    return any(_link(a, b) == "pcie" for a, b in itertools.combinations(gpus, 2))


def _members(processes: Sequence[ProcessFacts], devices: Sequence[int]) -> list[_Member]:
    hosts = list(dict.fromkeys(facts.host for facts in processes))
    unreadable: dict[str, str] = {}
    for process, facts in enumerate(processes):
        if facts.error:
            unreadable.setdefault(facts.host, f"process {process}: {facts.error}")
        elif len(facts.gpus) != devices[process]:
            raise ValueError(f"process {process} has {devices[process]} devices and announced {len(facts.gpus)} GPUs")
    members = []
    for process, facts in enumerate(processes):
        host = hosts.index(facts.host)
        unknown = [GpuFacts("unknown")] * devices[process]
        for local, gpu in enumerate(unknown if facts.error else facts.gpus):
            key: _Key
            if gpu.mig:
                key, reason = ("alone", process, local), "split by MIG: no NVLink and no peer access"
            elif gpu.fabric is not None and gpu.fabric.joined:
                key = ("fabric", gpu.fabric.cluster, gpu.fabric.clique)
                reason = f"NVLink fabric {gpu.fabric.cluster}, clique {gpu.fabric.clique}"
            elif facts.host in unreadable:
                key, reason = ("host", host), f"its host counts as one domain, as in XLA; {unreadable[facts.host]}"
            else:
                key, reason = ("linked", host), ""
            members.append(_Member(process, local, host, gpu, key, reason))
    return members


def _link(a: GpuFacts, b: GpuFacts) -> _Link | None:
    """How two GPUs of one host reach each other. NVML's answer for the pair counts; if a container hides one GPU from
    the other's process, their NVLinks count."""
    if a.bus_id == b.bus_id:
        return "same GPU"
    for one, other in ((a, b), (b, a)):
        if other.bus_id in one.peers:
            return one.peers[other.bus_id]
    if (a.switch_links and b.switch_links) or b.bus_id in a.peer_links or a.bus_id in b.peer_links:
        return "nvlink"
    return None


def _group(members: Sequence[_Member], linked: Callable[[_Member, _Member], bool]) -> list[int]:
    """Number of each member's group, in order of first appearance. Greedy: each joins the first group that fits."""
    groups: list[list[_Member]] = []
    numbers = []
    for member in members:
        for number, group in enumerate(groups):
            if group[0].key == member.key and (
                member.key[0] != "linked" or all(linked(member, other) for other in group)
            ):
                group.append(member)
                numbers.append(number)
                break
        else:
            numbers.append(len(groups))
            groups.append([member])
    return numbers


def _reason(member: _Member, companions: Sequence[_Member]) -> str:
    if member.reason:
        return member.reason
    links = {_link(member.gpu, other.gpu) for other in companions if other is not member}
    if "nvlink" in links:
        return "NVLink within its host"
    if "pcie" in links:
        return "peer access over PCIe, no NVLink on its host"
    if "same GPU" in links:
        return "one GPU shared by several processes"
    return "no NVLink or peer access to another GPU of the job on its host"
