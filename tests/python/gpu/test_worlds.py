"""The groups of processes that start NVSHMEM together."""

from __future__ import annotations

from collections.abc import Sequence

from xla_shmem.gpu.nvlink_domains import GpuPlace
from xla_shmem.gpu.nvshmem_worlds import World, nvshmem_worlds, why_world_cannot_start
from xla_shmem.gpu.process_facts import GpuFacts, ProcessFacts


def places(reach_and_host: Sequence[tuple[int, int]]) -> list[GpuPlace]:
    """Returns one process a GPU, with a domain that differs from its reach."""
    return [GpuPlace(i, 0, host, 99, reach, "") for i, (reach, host) in enumerate(reach_and_host)]


def test_one_nvlink_domain_is_one_world_in_process_order() -> None:
    assert nvshmem_worlds(places([(0, 0), (0, 0), (0, 1), (0, 1)])) == [World(0, (0, 1, 2, 3), "")]


def test_each_group_of_gpus_that_reach_one_another_is_a_world() -> None:
    worlds = nvshmem_worlds(places([(0, 0), (1, 1), (0, 0), (1, 1)]))
    assert worlds == [World(0, (0, 2), ""), World(1, (1, 3), "")]


def test_uneven_hosts_are_refused_with_the_numbers_and_only_in_their_world() -> None:
    uneven, even = nvshmem_worlds(places([(0, 0), (0, 0), (0, 1), (1, 2)]))
    gpu = GpuFacts("0000:01:00.0")
    facts = [ProcessFacts(host, (gpu,), imex_channels=1) for host in ("a", "a", "b", "c")]
    assert why_world_cannot_start(uneven, facts, [1 << 30] * 4, 1) == (
        "NVSHMEM needs the same number of PEs on every host; hosts of this NVLink domain have 1 to 2"
    )
    assert why_world_cannot_start(even, facts, [1 << 30] * 4, 1) == ""


def test_process_with_several_gpus_is_named_as_the_error_of_all_its_worlds() -> None:
    job = [GpuPlace(0, 0, 0, 0, 0, ""), GpuPlace(0, 1, 0, 0, 1, ""), GpuPlace(1, 0, 0, 0, 1, "")]
    first, second = nvshmem_worlds(job)
    assert (first.processes, second.processes) == ((0,), (0, 1))
    for world in (first, second):
        assert world.error.startswith("process 0 has 2 GPUs, but NVSHMEM has one PE a process")
