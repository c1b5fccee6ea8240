"""The start of a job on the memory of the CUDA driver."""

from __future__ import annotations

import dataclasses
import time

import pytest
from recording_job import RecordingRuntime, fabric_job, run_job

from xla_shmem.options import resolve
from xla_shmem.runtime.gpu_job import GpuJob
from xla_shmem.runtime.store import LocalStore


def test_processes_with_several_gpus_share_the_drivers_memory() -> None:
    runtimes = [RecordingRuntime("0000:00:00.0", "0000:01:00.0"), RecordingRuntime("0000:02:00.0")]
    topologies = run_job(runtimes)
    assert all(job.transport.available for job in topologies)
    assert runtimes[0].with_nvshmem == [False, False]
    arena = runtimes[0].started[0]["arena_bytes"]
    assert [runtime.heaps for runtime in runtimes] == [
        [(0, [(0, 0), (1, 1)], 3, arena, "files", False)],
        [(0, [(2, 0)], 3, arena, "files", False)],
    ]
    assert [runtime.joined for runtime in runtimes] == [
        [(0, 0, [(1, [2], "note of 0000:02:00.0")], 10)],
        [(0, 1, [(0, [0, 1], "note of 0000:00:00.0")], 10)],
    ]
    started = [(one["pe"], one["device"], one["heap"]) for runtime in runtimes for one in runtime.started]
    assert started == [(0, 0, 0), (1, 1, 0), (2, 0, 0)]
    assert [runtime.observed_pes for runtime in runtimes] == [[0, 1], [2]]
    fingerprint = topologies[0].topology.fingerprint
    assert runtimes[0].admitted == [({0: [0, 1, 2], 1: [0, 1, 2]}, fingerprint)]
    assert runtimes[1].admitted == [({0: [0, 1, 2]}, fingerprint)]
    assert [runtime.dropped for runtime in runtimes] == [0, 0]
    assert not any(runtime.multicast_opened for runtime in runtimes)


def test_one_process_alone_shares_its_memory_with_nobody() -> None:
    runtime = RecordingRuntime("0000:00:00.0", "0000:01:00.0")
    (job,) = run_job([runtime])
    assert job.transport.available
    assert (runtime.heaps[0][4], runtime.joined) == ("none", [(0, 0, [], 10)])


def test_gpus_of_a_process_that_do_not_reach_one_another_are_worlds_of_their_own() -> None:
    runtime = RecordingRuntime("0000:00:00.0", "0000:01:00.0")
    alone = tuple(dataclasses.replace(gpu, switch_links=0) for gpu in runtime._facts.gpus)
    runtime._facts = dataclasses.replace(runtime._facts, gpus=alone)
    (job,) = run_job([runtime])
    assert job.transport.available
    assert [(world, own) for world, own, *_ in runtime.heaps] == [(0, [(0, 0)]), (1, [(0, 1)])]
    assert runtime.admitted[0][0] == {0: [0], 1: [1]}


def test_memory_crosses_the_hosts_of_an_nvlink_domain_by_fabric_handles() -> None:
    runtimes = fabric_job("aab")
    assert all(job.transport.available for job in run_job(runtimes, gpu_heap="driver"))
    assert [runtime.heaps[0][4] for runtime in runtimes] == ["fabric"] * 3


@pytest.mark.parametrize("chosen", ["auto", "nvshmem", "driver"])
def test_with_one_gpu_a_process_the_option_chooses_the_heap(chosen: str) -> None:
    runtimes = [RecordingRuntime(f"0000:0{index}:00.0") for index in range(2)]
    assert all(job.transport.available for job in run_job(runtimes, gpu_heap=chosen))
    by_driver = chosen == "driver"
    assert [len(runtime.heaps) for runtime in runtimes] == [by_driver] * 2
    assert [runtime.with_nvshmem for runtime in runtimes] == [[not by_driver]] * 2
    assert all(("heap" in runtime.started[0]) == by_driver for runtime in runtimes)


def test_a_process_without_nvshmem_takes_all_to_the_drivers_memory() -> None:
    runtimes = [RecordingRuntime(f"0000:0{n}:00.0", nvshmem_error="no NVSHMEM" * (n == 1)) for n in range(3)]
    assert all(job.transport.available for job in run_job(runtimes))
    assert [runtime.started[0]["heap"] for runtime in runtimes] == [0, 0, 0]


@pytest.mark.parametrize(
    ("options", "reason"),
    [
        ({"gpu_heap": "nvshmem"}, "process 1 has 2 GPUs, but NVSHMEM has one PE a process"),
        ({"gpu_puts": "nvshmem"}, "process 1 has 2 GPUs, but NVSHMEM has one PE a process"),
        ({"gpu_heap": "driver", "gpu_puts": "nvshmem"}, "XLA_SHMEM_GPU_PUTS=nvshmem needs NVSHMEM's memory"),
    ],
)
def test_options_that_several_gpus_cannot_follow_leave_all_on_nccl(options: dict[str, str], reason: str) -> None:
    runtimes = [RecordingRuntime("0000:00:00.0"), RecordingRuntime("0000:01:00.0", "0000:02:00.0")]
    (found,) = {job.transport.reason for job in run_job(runtimes, **options)}
    assert found.startswith(reason)
    assert not any(runtime.started or runtime.heaps or runtime.admitted for runtime in runtimes)


def test_memory_that_one_process_does_not_get_leaves_all_on_nccl_before_any_maps() -> None:
    runtimes = [
        RecordingRuntime("0000:00:00.0", "0000:01:00.0", heap_error="no memory on device 1"),
        RecordingRuntime("0000:02:00.0"),
    ]
    (reason,) = {job.transport.reason for job in run_job(runtimes)}
    assert "process 0" in reason
    assert "no memory on device 1" in reason
    assert not any(runtime.joined or runtime.started or runtime.admitted for runtime in runtimes)
    assert all(runtime.dropped for runtime in runtimes)


def test_memory_is_given_back_before_xla_takes_what_is_left() -> None:
    runtime = RecordingRuntime("0000:00:00.0", "0000:01:00.0", heap_error="no memory on device 1")
    GpuJob(resolve({}, {}), LocalStore(), 0, 1, runtime).start([0, 1], cuda=13)
    assert runtime.dropped == 1


def test_a_process_that_cannot_map_the_others_is_named_in_all_and_all_give_their_memory_back() -> None:
    runtimes = [
        RecordingRuntime("0000:00:00.0", "0000:01:00.0"),
        RecordingRuntime("0000:02:00.0", join_error="process 0 of this host cannot be reached"),
    ]
    reasons = {job.transport.reason for job in run_job(runtimes)}
    assert reasons == {"process 1: process 0 of this host cannot be reached"}
    assert not any(runtime.admitted for runtime in runtimes)
    assert all(runtime.dropped for runtime in runtimes)


def _switched_job(**of_the_second: str) -> list[RecordingRuntime]:
    return [
        RecordingRuntime("0000:00:00.0", "0000:01:00.0", compute_capability=(9, 0)),
        RecordingRuntime("0000:02:00.0", compute_capability=(9, 0), **of_the_second),  # type: ignore[arg-type]
    ]


def test_multicast_memory_is_made_before_the_arenas_which_have_room_for_it() -> None:
    runtimes = _switched_job()
    assert all(job.transport.available for job in run_job(runtimes, gpu_reduce="multimem"))
    assert [runtime.multicast_opened for runtime in runtimes] == [[0], [0]]
    assert [runtime.heaps[0][5] for runtime in runtimes] == [True, True]
    assert all(one["multimem"] for runtime in runtimes for one in runtime.started)
    assert all(runtime.uses_multimem for runtime in runtimes)
    without = _switched_job()
    run_job(without)
    assert without[0].heaps[0][3] < runtimes[0].heaps[0][3]


def test_no_process_binds_multicast_memory_unless_all_have_added_their_gpus() -> None:
    runtimes = _switched_job(why_no_multicast="cuMulticastAddDevice of device 0 failed")
    assert all(job.transport.available for job in run_job(runtimes, gpu_reduce="multimem"))
    assert not any(runtime.multicast_opened for runtime in runtimes)
    assert all(runtime.started for runtime in runtimes)


def test_multicast_memory_waits_for_no_process_that_cannot_map_the_heap() -> None:
    runtimes = _switched_job(join_error="process 0 of this host cannot be reached")
    begin = time.monotonic()
    reasons = {job.transport.reason for job in run_job(runtimes, timeout_s=60, gpu_reduce="multimem")}
    assert reasons == {"process 1: process 0 of this host cannot be reached"}
    assert time.monotonic() - begin < 30
    assert not any(runtime.multicast_opened for runtime in runtimes)
