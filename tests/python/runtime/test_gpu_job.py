"""The agreement of a GPU job, with threads and one store for its processes.

tests/gpu_emulated/processes has real processes.
"""

from __future__ import annotations

import contextlib
import dataclasses
import threading
import time
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from recording_job import RecordingRuntime, fabric_job, run_job

from xla_shmem.gpu.nvml import Link
from xla_shmem.options import resolve
from xla_shmem.runtime.gpu_job import GpuJob
from xla_shmem.runtime.store import LocalStore


def test_one_host_is_one_world_with_process_numbers_as_pes() -> None:
    runtimes = [RecordingRuntime(f"0000:0{process}:00.0") for process in range(3)]
    topologies = run_job(runtimes, deadline=7.0)
    assert all(job.transport.available for job in topologies)
    assert len({job.topology.fingerprint for job in topologies}) == 1
    for process, runtime in enumerate(runtimes):
        (started,) = runtime.started
        assert (started["pe"], started["n_pes"], started["unique_id"]) == (process, 3, b"id of 0000:00:00.0")
        assert (started["puts"], started["deadline_s"]) == ("driver", 7.0)
        assert runtime.admitted == [({0: [0, 1, 2]}, topologies[0].topology.fingerprint)]


@pytest.mark.parametrize("option", ["auto", "kernel"])
def test_permutes_are_kernels_in_all_processes_if_the_driver_of_one_cannot_copy(option: str) -> None:
    runtimes = [RecordingRuntime(f"0000:0{process}:00.0", can_copy_permutes=process != 1) for process in range(3)]
    run_job(runtimes, gpu_permute=option)
    assert [runtime.started[0]["permute"] for runtime in runtimes] == ["kernel"] * 3
    runtimes = [RecordingRuntime(f"0000:0{process}:00.0") for process in range(3)]
    run_job(runtimes, gpu_permute=option)
    assert [runtime.started[0]["permute"] for runtime in runtimes] == [option] * 3


def test_jobs_whose_processes_share_a_gpu_start_one_after_the_other() -> None:
    starting: dict[bytes, int] = {}
    barriers: dict[bytes, threading.Barrier] = {}
    most = 0
    lock = threading.Lock()

    class SlowRuntime(RecordingRuntime):
        def start(self, **arguments: Any) -> int:  # type: ignore[override]
            nonlocal most
            with lock:
                starting[arguments["unique_id"]] = starting.get(arguments["unique_id"], 0) + 1
                most = max(most, sum(count > 0 for count in starting.values()))
                all_of_the_job = barriers.setdefault(arguments["unique_id"], threading.Barrier(2))
            all_of_the_job.wait()  # a start is collective
            time.sleep(0.3)
            with lock:
                starting[arguments["unique_id"]] -= 1
            all_of_the_job.wait()
            return super().start(**arguments)

    def run(gpus: list[str]) -> None:
        assert all(job.transport.available for job in run_job([SlowRuntime(gpu) for gpu in gpus]))

    def run_together(jobs: list[list[str]]) -> int:
        nonlocal most
        most = 0
        threads = [threading.Thread(target=run, args=(gpus,)) for gpus in jobs]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        return most

    assert run_together([[f"0000:0{job}:00.0"] * 2 for job in range(3)]) == 1
    assert run_together([[f"0000:{job}{process}:00.0" for process in range(2)] for job in range(3)]) > 1


def test_the_smallest_gpu_limits_the_blocks_of_all() -> None:
    runtimes = [RecordingRuntime(f"0000:0{process}:00.0", multiprocessors=132 - process) for process in range(3)]
    run_job(runtimes)
    assert [runtime.started[0]["multiprocessors"] for runtime in runtimes] == [130] * 3


@pytest.mark.parametrize("link", ["nvlink", "pcie"])
def test_all_processes_know_whether_pcie_connects_two_of_their_gpus(link: Link) -> None:
    runtimes = [RecordingRuntime(f"0000:0{process}:00.0") for process in range(3)]
    for runtime in runtimes:
        (facts,) = runtime._facts.gpus
        # One pair alone differs, and one of its processes alone sees it.
        peers: dict[str, Link | None] = {"0000:01:00.0": link} if facts.bus_id == "0000:02:00.0" else {}
        known = dataclasses.replace(facts, switch_links=0, peers={"0000:00:00.0": "nvlink"} | peers)
        runtime._facts = dataclasses.replace(runtime._facts, gpus=(known,))
    run_job(runtimes)
    assert [runtime.started[0]["pcie"] for runtime in runtimes if runtime.started] == [link == "pcie"] * 3


@pytest.mark.parametrize(
    ("capabilities", "gpu"), [([(9, 0), (9, 0)], "hopper"), ([(9, 0), (10, 0)], ""), ([(8, 0), (8, 6)], "")]
)
def test_the_cost_model_is_that_of_gpus_of_one_generation(capabilities: list[tuple[int, int]], gpu: str) -> None:
    runtimes = [RecordingRuntime(f"0000:0{process}:00.0") for process in range(2)]
    for runtime, capability in zip(runtimes, capabilities, strict=True):
        (facts,) = runtime._facts.gpus
        known = dataclasses.replace(facts, compute_capability=capability)
        runtime._facts = dataclasses.replace(runtime._facts, gpus=(known,))
    assert [job.gpu for job in run_job(runtimes)] == [gpu, gpu]


def test_processes_of_one_host_record_in_one_directory(tmp_path: Path) -> None:
    runtimes = [RecordingRuntime(f"0000:0{index}:00.0", host=host) for index, host in enumerate("abab")]
    run_job(runtimes, records=str(tmp_path), stats=True)
    seen = [runtime.observed[0] for runtime in runtimes]
    assert [(process, here) for process, here, _ in seen] == [(0, [0, 2]), (1, [1, 3]), (2, [0, 2]), (3, [1, 3])]
    assert len({what["record_directory"] for _, _, what in seen}) == 1
    assert Path(seen[0][2]["record_directory"]).parent == tmp_path
    assert all(what["statistics"] for _, _, what in seen)
    assert all(runtime.started[0]["timed"] for runtime in runtimes)


def test_without_statistics_and_trace_nothing_is_timed() -> None:
    runtimes = [RecordingRuntime("0000:00:00.0"), RecordingRuntime("0000:01:00.0")]
    run_job(runtimes, records="off")
    assert [runtime.started[0]["timed"] for runtime in runtimes] == [False, False]
    assert runtimes[0].observed[0][2] == {"record_directory": "", "statistics": False, "trace_file": ""}


def test_each_host_without_a_fabric_is_a_world() -> None:
    runtimes = [RecordingRuntime(f"0000:0{index}:00.0", host=host) for index, host in enumerate("abab")]
    topologies = run_job(runtimes)
    assert [runtime.started[0]["pe"] for runtime in runtimes] == [0, 0, 1, 1]
    ids = [b"id of 0000:00:00.0", b"id of 0000:01:00.0"]
    assert [runtime.started[0]["unique_id"] for runtime in runtimes] == ids * 2
    assert [runtime.admitted[0][0] for runtime in runtimes] == [{0: [0, 2]}, {0: [1, 3]}] * 2
    assert len({job.topology.fingerprint for job in topologies}) == 1


def test_uneven_hosts_of_one_domain_are_refused_before_any_start() -> None:
    runtimes = fabric_job("aab")
    reasons = {job.transport.reason for job in run_job(runtimes)}
    (reason,) = reasons
    assert "NVSHMEM needs the same number of PEs on every host" in reason
    assert not any(runtime.started or runtime.admitted for runtime in runtimes)


@pytest.mark.parametrize(("chosen", "puts"), [("auto", "driver"), ("nvshmem", "nvshmem"), ("driver", "driver")])
def test_puts_are_the_drivers_unless_nvshmems_are_chosen(chosen: str, puts: str) -> None:
    runtimes = [RecordingRuntime(f"0000:0{index}:00.0") for index in range(2)]
    run_job(runtimes, gpu_puts=chosen)
    assert [runtime.started[0]["puts"] for runtime in runtimes] == [puts, puts]


def test_permutes_are_carried_as_the_option_says() -> None:
    runtimes = [RecordingRuntime(f"0000:0{index}:00.0") for index in range(2)]
    run_job(runtimes, gpu_permute="copies")
    assert [runtime.started[0]["permute"] for runtime in runtimes] == ["copies", "copies"]


def test_nvshmem_has_its_settings_before_the_unique_id_is_made_and_the_same_in_all_processes() -> None:
    runtimes = [RecordingRuntime(f"0000:0{index}:00.0") for index in range(3)]
    run_job(runtimes)
    assert runtimes[0].settings_at_id == runtimes[0].settings
    assert runtimes[0].settings["NVSHMEM_DISABLE_MNNVL"] == "1"
    assert all(runtime.settings == runtimes[0].settings for runtime in runtimes)


def test_a_world_of_two_hosts_keeps_multi_node_nvlink() -> None:
    runtimes = fabric_job("ab")
    assert all(job.transport.available for job in run_job(runtimes))
    assert "NVSHMEM_DISABLE_MNNVL" not in runtimes[0].settings


def test_a_world_of_two_hosts_without_imex_is_refused_before_any_start() -> None:
    runtimes = fabric_job("ab")
    runtimes[1]._facts = dataclasses.replace(runtimes[1]._facts, imex_channels=0)
    (reason,) = {job.transport.reason for job in run_job(runtimes)}
    assert "process 1 sees no channel in /dev/nvidia-caps-imex-channels" in reason
    assert not any(runtime.started for runtime in runtimes)


def test_too_little_memory_on_one_gpu_is_refused_before_any_start() -> None:
    runtimes = [RecordingRuntime(f"0000:0{index}:00.0", free_bytes=(1 << 28) << 2 * index) for index in range(2)]
    (reason,) = {job.transport.reason for job in run_job(runtimes)}
    assert "process 0 has 268435456 bytes of free GPU memory, NVSHMEM takes 536870912 for each of 1 processes" in reason
    assert not any(runtime.started for runtime in runtimes)


def test_processes_that_share_a_gpu_need_memory_for_both() -> None:
    runtimes = [RecordingRuntime("0000:01:00.0", free_bytes=800 << 20) for _ in range(2)]
    (reason,) = {job.transport.reason for job in run_job(runtimes)}
    assert "NVSHMEM takes 536870912 for each of 2 processes on that GPU" in reason


@pytest.mark.parametrize("lacking", [None, 0, 2])
def test_all_processes_reduce_in_the_switch_or_none(lacking: int | None, caplog: pytest.LogCaptureFixture) -> None:
    runtimes = [RecordingRuntime(f"0000:0{index}:00.0", multicast=index != lacking) for index in range(3)]
    topologies = run_job(runtimes, gpu_reduce="multimem")
    assert all(topology.transport.available for topology in topologies)
    assert [runtime.started[0]["multimem"] for runtime in runtimes] == [True] * 3
    assert "NVSHMEM_DISABLE_NVLS" not in runtimes[0].settings
    assert [runtime.uses_multimem for runtime in runtimes] == [lacking is None] * 3
    told = [text for text in caplog.messages if "XLA_SHMEM_GPU_REDUCE=multimem" in text]
    assert len(told) == (0 if lacking is None else 1)
    if lacking is not None:
        assert f"process {lacking} has no multicast memory" in told[0]
        assert told[0].endswith("reduces in processes 0, 1, 2")


@pytest.mark.parametrize(
    ("first", "second"),
    [
        (RecordingRuntime("0000:00:00.0", multicast=False), RecordingRuntime("0000:00:00.0", multicast=False)),
        (
            RecordingRuntime("0000:00:00.0", compute_capability=(9, 0), multicast=False),
            RecordingRuntime("0000:01:00.0", compute_capability=(8, 0), multicast=False),
        ),
    ],
    ids=["one GPU for both", "a GPU that is too old"],
)
def test_multicast_memory_that_cannot_be_is_not_asked_for(
    first: RecordingRuntime, second: RecordingRuntime, caplog: pytest.LogCaptureFixture
) -> None:
    run_job([first, second], gpu_reduce="multimem")
    for runtime in (first, second):
        assert not runtime.started[0]["multimem"]
        assert runtime.settings["NVSHMEM_DISABLE_NVLS"] == "1"
        assert not runtime.uses_multimem
    assert sum("process 0 has no multicast memory" in text for text in caplog.messages) == 1


def test_without_multimem_nobody_asks_for_multicast_memory() -> None:
    runtimes = [RecordingRuntime(f"0000:0{index}:00.0") for index in range(2)]
    run_job(runtimes)
    assert [runtime.started[0]["multimem"] for runtime in runtimes] == [False] * 2
    assert runtimes[0].settings["NVSHMEM_DISABLE_NVLS"] == "1"
    assert not any(runtime.uses_multimem for runtime in runtimes)


def test_arenas_at_different_offsets_are_refused_with_both_numbers() -> None:
    runtimes = [RecordingRuntime(f"0000:0{index}:00.0", offset=1000 + 24 * (index == 2)) for index in range(3)]
    (reason,) = {job.transport.reason for job in run_job(runtimes)}
    assert (
        "process 2: its arena lies 1024 bytes behind the start of NVSHMEM's heap, and 1000 bytes in process 0" in reason
    )
    assert not any(runtime.admitted for runtime in runtimes)


def test_the_users_settings_of_nvshmem_are_part_of_the_agreement(monkeypatch: pytest.MonkeyPatch) -> None:
    job = GpuJob(resolve({}, {}), LocalStore(), 0, 1, RecordingRuntime("0000:01:00.0"))
    monkeypatch.setenv("NVSHMEM_MAX_TEAMS", "99")
    monkeypatch.setenv("NVSHMEM_DEBUG", "INFO")
    assert job._agreement("1").endswith("gpu_heap=auto gpu_permute=auto gpu_reduce=kernel NVSHMEM_MAX_TEAMS=99")


def test_a_failed_start_in_one_process_admits_no_process() -> None:
    runtimes = [RecordingRuntime(f"0000:0{index}:00.0", start_error="no luck" * (index == 1)) for index in range(3)]
    assert {job.transport.reason for job in run_job(runtimes)} == {"process 1: no luck"}
    assert not any(runtime.admitted for runtime in runtimes)


def test_a_failed_start_in_one_world_keeps_all_worlds_on_the_default_backend() -> None:
    runtimes = [RecordingRuntime("0000:01:00.0", host=host, start_error="no luck" * (host == "b")) for host in "ab"]
    assert {job.transport.reason for job in run_job(runtimes)} == {"process 1: no luck"}
    assert not any(runtime.admitted for runtime in runtimes)


def test_a_late_process_0_gets_the_same_verdict_as_the_others() -> None:
    runtimes = [RecordingRuntime(f"0000:0{index}:00.0") for index in range(3)]
    reasons = {
        job.transport.reason
        for job in run_job(runtimes, before=lambda process: time.sleep(0.8 * (process == 0)), timeout_s=0.2)
    }
    (reason,) = reasons
    assert reason.startswith("process 0 runs without xla-shmem (it has announced nothing within 0.4 s)")
    assert not any(runtime.started for runtime in runtimes)


class Stuck(RecordingRuntime):
    """Its start returns only when the process would have ended."""

    def start(self, **arguments: Any) -> int:  # type: ignore[override]
        give_up = time.monotonic() + 10
        while not self.ended and time.monotonic() < give_up:
            time.sleep(0.01)
        raise RuntimeError("has ended")


def test_a_start_that_waits_for_a_failed_process_ends_with_its_reason() -> None:
    runtimes = [Stuck("0000:01:00.0"), RecordingRuntime("0000:02:00.0", start_error="no luck")]
    run_job(runtimes, timeout_s=0.3)
    (reason,) = runtimes[0].ended
    assert reason.startswith("NVSHMEM has not started within 0.3 s; ")
    assert "process 1: no luck" in reason  # perhaps after process 0, whose time is over too


def test_a_start_that_nothing_ends_is_ended_after_a_time() -> None:
    runtime = Stuck("0000:01:00.0")
    run_job([runtime], timeout_s=0.3)
    (reason,) = runtime.ended
    assert reason.startswith("NVSHMEM has not started within 0.3 s; processes 0 have not finished")


def test_a_process_that_dies_during_its_start_is_named_in_all_others() -> None:
    class Dying(RecordingRuntime):
        def start(self, **arguments: Any) -> int:  # type: ignore[override]
            raise SystemExit

    store, reasons = LocalStore(), []
    devices = [SimpleNamespace(id=process, process_index=process) for process in range(3)]

    def body(process: int) -> None:
        runtime = (Dying if process == 2 else RecordingRuntime)(f"0000:0{process}:00.0")
        job = GpuJob(resolve({}, {}), store, process, 3, runtime, timeout_s=0.3)
        with contextlib.suppress(SystemExit):
            job.start([0], cuda=13)
            reasons.append(job.topology(devices).transport.reason)

    threads = [threading.Thread(target=body, args=(process,)) for process in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert reasons == ["process 2: it has not started its GPUs within 0.3 s"] * 2


def test_more_devices_than_announced_are_an_error() -> None:
    job = GpuJob(resolve({}, {}), LocalStore(), 0, 1, RecordingRuntime("0000:01:00.0"))
    job.start([0], cuda=13)
    devices = [SimpleNamespace(id=device, process_index=0) for device in range(2)]
    with pytest.raises(RuntimeError, match="JAX has 2 GPUs and the processes of the job announced 1"):
        job.topology(devices)


def test_the_opened_device_is_jaxs_local_device() -> None:
    runtime = RecordingRuntime("0000:01:00.0")
    GpuJob(resolve({}, {}), LocalStore(), 0, 1, runtime).start([3], cuda=13)
    assert runtime.opened == [3]
