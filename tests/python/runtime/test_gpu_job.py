"""The agreement of a GPU job, with threads and one store for its processes.

tests/gpu_emulated/processes has real processes.
"""

from __future__ import annotations

import contextlib
import dataclasses
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from xla_shmem.gpu.nvml import Fabric, Link
from xla_shmem.gpu.process_facts import GpuFacts, OpenGpu, ProcessFacts
from xla_shmem.options import resolve
from xla_shmem.runtime.gpu_job import GpuJob
from xla_shmem.runtime.gpu_runtime import Runtime
from xla_shmem.runtime.job_topology import JobTopology
from xla_shmem.runtime.store import LocalStore


class RecordingRuntime(Runtime):
    """Records its calls.

    Args:
      bus_ids: GPUs of the process; equal ones are shared.
      host: its host.
      start_error: what NVSHMEM's start fails with.
      offset: of the arena in NVSHMEM's heap.
      free_bytes: memory of its GPU.
      multicast: whether it has multicast memory.
      compute_capability: of its GPU; (0, 0) if it is unknown.
      multiprocessors: of its GPU.
      can_copy_permutes: whether its driver can.
      nvshmem_error: why NVSHMEM cannot be loaded.
      heap_error: why the driver does not make its memory.
      join_error: why the memory of the others cannot be mapped.
    """

    def __init__(
        self,
        *bus_ids: str,
        host: str = "one",
        start_error: str = "",
        offset: int = 512,
        free_bytes: int = 80 << 30,
        multicast: bool = True,
        compute_capability: tuple[int, int] = (0, 0),
        multiprocessors: int = 132,
        can_copy_permutes: bool = True,
        nvshmem_error: str = "",
        heap_error: str = "",
        join_error: str = "",
    ) -> None:
        # Behind switches, all GPUs of a host reach one another.
        gpus = tuple(GpuFacts(bus_id, switch_links=18, compute_capability=compute_capability) for bus_id in bus_ids)
        self._facts = ProcessFacts(host, gpus, imex_channels=1)
        self._start_error = start_error
        self._offset = offset
        self._free_bytes = free_bytes
        self._multiprocessors = multiprocessors
        self._can_copy_permutes = can_copy_permutes
        self._multicast = multicast
        self._nvshmem_error = nvshmem_error
        self._heap_error = heap_error
        self._join_error = join_error
        self.heaps: list[tuple[Any, ...]] = []
        self.joined: list[tuple[Any, ...]] = []
        self.dropped = 0
        self.with_nvshmem: list[bool] = []
        self.uses_multimem = False
        self.settings: dict[str, str] = {}
        self.settings_at_id: dict[str, str] | None = None
        self.ended: list[str] = []
        self.opened: list[int] = []
        self.started: list[dict[str, Any]] = []
        self.admitted: list[tuple[dict[int, list[int]], int]] = []
        self.observed: list[tuple[int, list[int], dict[str, Any]]] = []
        self.observed_pes: list[int] = []

    def facts(self, ordinals: Sequence[int] | None) -> ProcessFacts:  # type: ignore[override]
        return self._facts

    def open(self, options: Any, ordinal: int, cuda: int, with_nvshmem: bool = True) -> OpenGpu:
        self.opened.append(ordinal)
        self.with_nvshmem.append(with_nvshmem)
        error = self._nvshmem_error if with_nvshmem else ""
        return OpenGpu(self._free_bytes, self._multiprocessors, self._can_copy_permutes, error)

    def observe(self, process: int, processes: Sequence[int], pes: Sequence[int], **what: Any) -> list[str]:  # type: ignore[override]
        self.observed.append((process, list(processes), what))
        self.observed_pes = list(pes)
        return []

    def make_heap(self, *arguments: Any) -> str:  # type: ignore[override]
        self.heaps.append(arguments)
        if self._heap_error:
            raise RuntimeError(self._heap_error)
        return f"note of {self._facts.gpus[0].bus_id}"

    def join_heap(self, *arguments: Any) -> None:  # type: ignore[override]
        self.joined.append(arguments)
        if self._join_error:
            raise RuntimeError(self._join_error)

    def drop_heaps(self) -> None:  # type: ignore[override]
        self.dropped += 1

    def report(self) -> None:  # type: ignore[override]
        pass

    def set_nvshmem(self, settings: Mapping[str, str]) -> None:
        self.settings.update(settings)

    def end(self, reason: str) -> None:
        self.ended.append(reason)

    def unique_id(self) -> bytes:  # type: ignore[override]
        self.settings_at_id = dict(self.settings)
        return b"id of " + self._facts.gpus[0].bus_id.encode()

    def start(self, **arguments: Any) -> int:  # type: ignore[override]
        self.started.append(arguments)
        if self._start_error:
            raise RuntimeError(self._start_error)
        return self._offset

    def has_multicast(self) -> bool:  # type: ignore[override]
        return self._multicast

    def use_multimem(self) -> None:  # type: ignore[override]
        assert not self.admitted, "a collective may run already"
        self.uses_multimem = True

    def admit(self, worlds: dict[int, list[int]], fingerprint: int) -> None:  # type: ignore[override]
        self.admitted.append((worlds, fingerprint))


def run_job(
    runtimes: Sequence[RecordingRuntime],
    before: Callable[[int], None] = lambda process: None,
    timeout_s: float = 10,
    **options: Any,
) -> list[JobTopology]:
    """Returns the result of every process of a job; calls `before(process)` before its start."""
    store = LocalStore()
    topologies: dict[int, JobTopology] = {}
    owners = [process for process, runtime in enumerate(runtimes) for _ in runtime._facts.gpus]
    devices = [SimpleNamespace(id=number, process_index=process) for number, process in enumerate(owners)]

    def body(process: int) -> None:
        before(process)
        chosen = dataclasses.replace(resolve({}, {}), **{"records": "off", **options})
        job = GpuJob(chosen, store, process, len(runtimes), runtimes[process], timeout_s)
        job.start(list(range(owners.count(process))), cuda=13)
        topologies[process] = job.topology(devices)

    threads = [threading.Thread(target=body, args=(process,)) for process in range(len(runtimes))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return [topologies[process] for process in range(len(runtimes))]


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


def _fabric(hosts: str) -> list[RecordingRuntime]:
    """Returns a process for each host in the list; all GPUs are in one NVLink fabric."""
    runtimes = [RecordingRuntime(f"0000:0{index}:00.0", host=host) for index, host in enumerate(hosts)]
    for runtime in runtimes:
        (gpu,) = runtime._facts.gpus
        fabric = Fabric("00000000-0000-0000-0000-000000000001", 1, "completed")
        runtime._facts = dataclasses.replace(runtime._facts, gpus=(dataclasses.replace(gpu, fabric=fabric),))
    return runtimes


def test_uneven_hosts_of_one_domain_are_refused_before_any_start() -> None:
    runtimes = _fabric("aab")
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
    runtimes = _fabric("ab")
    assert all(job.transport.available for job in run_job(runtimes))
    assert "NVSHMEM_DISABLE_MNNVL" not in runtimes[0].settings


def test_a_world_of_two_hosts_without_imex_is_refused_before_any_start() -> None:
    runtimes = _fabric("ab")
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


def test_processes_with_several_gpus_share_the_drivers_memory() -> None:
    runtimes = [RecordingRuntime("0000:00:00.0", "0000:01:00.0"), RecordingRuntime("0000:02:00.0")]
    topologies = run_job(runtimes)
    assert all(job.transport.available for job in topologies)
    assert runtimes[0].with_nvshmem == [False, False]
    arena = runtimes[0].started[0]["arena_bytes"]
    assert [runtime.heaps for runtime in runtimes] == [
        [(0, [(0, 0), (1, 1)], 3, arena, "files")],
        [(0, [(2, 0)], 3, arena, "files")],
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
    runtimes = _fabric("aab")
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


def test_a_process_that_cannot_map_the_others_is_named_in_all_and_all_give_their_memory_back() -> None:
    runtimes = [
        RecordingRuntime("0000:00:00.0", "0000:01:00.0"),
        RecordingRuntime("0000:02:00.0", join_error="process 0 of this host cannot be reached"),
    ]
    reasons = {job.transport.reason for job in run_job(runtimes)}
    assert reasons == {"process 1: process 0 of this host cannot be reached"}
    assert not any(runtime.admitted for runtime in runtimes)
    assert all(runtime.dropped for runtime in runtimes)
