"""The groups of GPUs with one symmetric memory, and what makes it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import pytest

from xla_shmem.gpu.nvlink_domains import GpuPlace
from xla_shmem.gpu.process_facts import Announcement, GpuFacts, OpenGpu, ProcessFacts
from xla_shmem.gpu.worlds import choose_heap, job_worlds, why_world_cannot_start


def places(reach_and_host: Sequence[tuple[int, int]]) -> list[GpuPlace]:
    """Returns one process a GPU, with a domain that differs from its reach."""
    return [GpuPlace(i, 0, host, 99, reach, "") for i, (reach, host) in enumerate(reach_and_host)]


def announcement(
    host: str = "a", gpus: int = 1, free_bytes: int = 1 << 30, nvshmem_error: str = "", puts: str = "driver"
) -> Announcement:
    """Returns that of a process with so many GPUs."""
    facts = ProcessFacts(host, tuple(GpuFacts(f"0000:0{gpu}:00.0") for gpu in range(gpus)), imex_channels=1)
    return Announcement(facts, (OpenGpu(free_bytes, nvshmem_error=nvshmem_error),) * gpus, puts)


def test_one_nvlink_domain_is_one_world_in_process_order() -> None:
    (world,) = job_worlds(places([(0, 0), (0, 0), (0, 1), (0, 1)]))
    assert (world.number, world.pes, world.processes) == (0, (0, 1, 2, 3), (0, 1, 2, 3))


def test_each_group_of_gpus_that_reach_one_another_is_a_world() -> None:
    worlds = job_worlds(places([(0, 0), (1, 1), (0, 0), (1, 1)]))
    assert [(world.number, world.pes) for world in worlds] == [(0, (0, 2)), (1, (1, 3))]


def test_pes_are_devices_in_the_order_of_processes() -> None:
    job = [GpuPlace(0, 0, 0, 0, 0, ""), GpuPlace(0, 1, 0, 0, 1, ""), GpuPlace(1, 0, 0, 0, 1, "")]
    first, second = job_worlds(job)
    assert (first.processes, second.processes) == ((0,), (0, 1))
    assert (first.pes, second.pes) == ((0,), (1, 2))
    assert [second.pes_of(process) for process in range(2)] == [[0], [1]]
    facts = [announcement(gpus=2).facts, announcement().facts]
    assert [gpu.bus_id for gpu in second.gpus(facts)] == ["0000:01:00.0", "0000:00:00.0"]


def test_nvshmem_refuses_uneven_hosts_with_the_numbers_and_only_in_their_world() -> None:
    uneven, even = job_worlds(places([(0, 0), (0, 0), (0, 1), (1, 2)]))
    announced = [announcement(host) for host in ("a", "a", "b", "c")]
    assert why_world_cannot_start(uneven, announced, "nvshmem", 1) == (
        "NVSHMEM needs the same number of PEs on every host; hosts of this NVLink domain have 1 to 2"
    )
    assert why_world_cannot_start(even, announced, "nvshmem", 1) == ""
    assert why_world_cannot_start(uneven, announced, "driver", 1) == ""


def test_too_little_memory_names_process_and_heap() -> None:
    (world,) = job_worlds([GpuPlace(0, 0, 0, 0, 0, ""), GpuPlace(0, 1, 0, 0, 0, "")])
    reason = why_world_cannot_start(world, [announcement(gpus=2, free_bytes=7)], "driver", 8)
    assert reason.startswith("process 0 has 7 bytes of free GPU memory, the driver heap takes 8")
    assert "NVSHMEM" not in reason.replace("XLA_SHMEM", "")


@pytest.mark.parametrize(
    ("gpus", "without_nvshmem", "heap"),
    [([1, 1], None, "nvshmem"), ([2], None, "driver"), ([1, 2], None, "driver"), ([1, 1], 1, "driver")],
)
def test_nvshmem_is_taken_where_each_process_has_one_gpu_and_can_load_it(
    gpus: list[int], without_nvshmem: int | None, heap: str
) -> None:
    announced = [
        announcement(gpus=count, nvshmem_error="none here" * (process == without_nvshmem))
        for process, count in enumerate(gpus)
    ]
    assert choose_heap("auto", announced) == (heap, "")
    assert choose_heap("driver", announced) == ("driver", "")
    # One process with NVSHMEM's puts is enough: all must choose alike.
    one_needs_it = [*announced[:-1], replace(announced[-1], puts="nvshmem")]
    for option, job in (("nvshmem", announced), ("auto", one_needs_it)):
        chosen, reason = choose_heap(option, job)
        assert chosen == "nvshmem"
        assert bool(reason) == (heap == "driver")
    assert choose_heap("driver", one_needs_it)[1].startswith("XLA_SHMEM_GPU_PUTS=nvshmem needs NVSHMEM's memory")


def test_an_announcement_is_the_same_after_the_store() -> None:
    sent = announcement("b", 2, 5, "no such library", "nvshmem")
    assert Announcement.from_json(sent.to_json()) == sent
    assert sent.nvshmem_error == "no such library"
