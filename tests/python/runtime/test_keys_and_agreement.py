"""The key of a compiled module, what the processes of a job must have in common, and the size of a segment."""

from __future__ import annotations

import dataclasses
import os
from types import SimpleNamespace
from typing import Any

import jaxlib.version
import pytest
from jax._src import xla_bridge

from xla_shmem import _core, version
from xla_shmem.options import Options, resolve
from xla_shmem.options.values import AUTO_HEAP_SIZE, MIN_HEAP_SIZE
from xla_shmem.runtime.compiler_pass import CompilerPass
from xla_shmem.runtime.cpu_platform import CpuPlatform
from xla_shmem.runtime.gpu_job import GpuJob
from xla_shmem.runtime.job import Job
from xla_shmem.runtime.job_topology import JobTopology
from xla_shmem.runtime.store import LocalStore

#: Another value of each option that changes what the pass makes of a module.
DECIDES: dict[str, Any] = {
    "profile": "domain",
    "threshold": 1,
    "ops": (("all-gather", None),),
    "tuning": SimpleNamespace(digest=lambda: "of another table"),
    "nvlink_domain": 2,
    "hierarchical": "on",
    "backends": "nvshmem",
}

#: The same of the options that change how collectives run or are watched, not what is compiled.
DOES_NOT_DECIDE: dict[str, Any] = {
    "heap_size": 1 << 30,
    "deadline": 1.0,
    "spin_us": 1,
    "single_copy": "off",
    "verbose": 1,
    "stats": 1,
    "trace": "/tmp/trace.json",
    "records": "off",
    "default_records": "off",  # in CpuPlatform's part of the key
    "nvshmem_library": "/opt/libnvshmem_host.so.3",
    "gpu_heap": "driver",
    "gpu_puts": "driver",
    "gpu_permute": "kernel",
    "gpu_reduce": "multimem",
    "job": "a" * 32,
}

#: Those of the second list that must be equal in all processes of a GPU job: sizes and protocols of its transfers.
GPU_JOB_AGREES = {"heap_size", "gpu_heap", "gpu_permute", "gpu_reduce"}

DEFAULTS = resolve({}, {})


def with_field(name: str) -> Options:
    """The default options with another value of one."""
    return dataclasses.replace(DEFAULTS, **{name: (DECIDES | DOES_NOT_DECIDE)[name]})


def salt(options: Options) -> str:
    """What is added to the key of a module for CPUs."""
    compiler_pass = CompilerPass(SimpleNamespace(process=0), None, options)  # type: ignore[arg-type]
    platform: Any = SimpleNamespace(device_platform="cpu", cache_salt=lambda: "devices of the job")
    compiler_pass._platforms = [platform]
    return compiler_pass.cache_salt("cpu")


def test_every_option_is_in_one_of_the_lists() -> None:
    assert sorted([*DECIDES, *DOES_NOT_DECIDE]) == sorted(field.name for field in dataclasses.fields(Options))


@pytest.mark.parametrize("name", DECIDES)
def test_a_module_is_compiled_anew_for_another_value_of_what_decides(name: str) -> None:
    assert salt(with_field(name)) != salt(DEFAULTS)


@pytest.mark.parametrize("name", DOES_NOT_DECIDE)
def test_a_module_is_not_compiled_anew_for_other_options(name: str) -> None:
    assert salt(with_field(name)) == salt(DEFAULTS)


def test_the_key_holds_the_release_and_the_platform(monkeypatch: pytest.MonkeyPatch) -> None:
    before = salt(DEFAULTS)
    assert "devices of the job" in before
    monkeypatch.setattr(version, "__version__", "another")
    assert salt(DEFAULTS) != before


def _cpu_salt(**differs: Any) -> str:
    topology = _core.Topology([(0, 0, 0, 0, 0)])
    transport = _core.Transport(False, "one process lacks the flag", None)
    job = dataclasses.replace(JobTopology(topology, transport), **differs)
    return CpuPlatform("name", lambda: job, DEFAULTS).cache_salt()


@pytest.mark.parametrize(
    "differs",
    [
        {"one_at_a_time": True},
        {"topology": _core.Topology([(0, 0, 0, 0, 0), (1, 1, 0, 0, 1)])},
        {"transport": _core.Transport(False, "another reason", None)},
    ],
    ids=["one at a time", "topology", "transport"],
)
def test_what_xla_cpu_compiles_depends_on_the_job(monkeypatch: pytest.MonkeyPatch, differs: dict[str, Any]) -> None:
    monkeypatch.setattr(xla_bridge, "backends", lambda: {"cpu": None})
    assert _cpu_salt(**differs) != _cpu_salt()


def test_what_xla_cpu_compiles_depends_on_whether_the_default_backend_is_recorded(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(xla_bridge, "backends", lambda: {"cpu": None})

    def salt_with(records: str, available: bool) -> str:
        job = JobTopology(_core.Topology([(0, 0, 0, 0, 0)]), _core.Transport(available, "", None))
        options = dataclasses.replace(DEFAULTS, default_records=records)
        return CpuPlatform("name", lambda: job, options).cache_salt()

    assert salt_with("on", True) != salt_with("off", True)
    assert salt_with("on", False) == salt_with("off", False)  # nothing could record


def cpu_agreement(options: Options) -> str:
    return Job(options)._agreement()


def gpu_agreement(options: Options, compiler: str = "0.10.2") -> str:
    return GpuJob(options, LocalStore(), 0, 1, SimpleNamespace())._agreement(compiler)  # type: ignore[arg-type]


@pytest.mark.parametrize("name", DECIDES | DOES_NOT_DECIDE)
def test_processes_agree_on_what_decides(name: str) -> None:
    assert (cpu_agreement(with_field(name)) != cpu_agreement(DEFAULTS)) == (name in DECIDES)
    differs = gpu_agreement(with_field(name)) != gpu_agreement(DEFAULTS)
    assert differs == (name in DECIDES or name in GPU_JOB_AGREES)


def test_processes_agree_on_release_and_compiler(monkeypatch: pytest.MonkeyPatch) -> None:
    cpu, gpu = cpu_agreement(DEFAULTS), gpu_agreement(DEFAULTS)
    assert gpu_agreement(DEFAULTS, compiler="0.11.2") != gpu
    with monkeypatch.context() as patch:
        patch.setattr(jaxlib.version, "__version__", "another")
        assert cpu_agreement(DEFAULTS) != cpu
    monkeypatch.setattr(version, "__version__", "another")
    assert cpu_agreement(DEFAULTS) != cpu
    assert gpu_agreement(DEFAULTS) != gpu


@pytest.mark.parametrize(
    ("free", "processes", "expected"),
    [
        (AUTO_HEAP_SIZE * 16, 8, AUTO_HEAP_SIZE),  # exactly its share
        (AUTO_HEAP_SIZE * 16 - 4096, 8, AUTO_HEAP_SIZE // 2),
        (AUTO_HEAP_SIZE * 16, 16, AUTO_HEAP_SIZE // 2),
        (4096, 8, MIN_HEAP_SIZE),
    ],
)
def test_a_process_takes_at_most_half_of_its_share_of_the_free_memory(
    monkeypatch: pytest.MonkeyPatch, free: int, processes: int, expected: int
) -> None:
    monkeypatch.setattr(os, "statvfs", lambda path: SimpleNamespace(f_bavail=free // 4096, f_frsize=4096))
    job = Job(DEFAULTS)
    job._processes = processes
    assert job._segment_bytes() == expected


def test_a_process_without_shared_memory_announces_why_and_does_not_raise(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def missing(path: str) -> os.statvfs_result:
        raise FileNotFoundError(2, "No such file or directory", path)

    monkeypatch.setattr(os, "statvfs", missing)
    Job(DEFAULTS).announce()
    (message,) = [record.getMessage() for record in caplog.records]
    assert "cannot use /dev/shm for shared memory (No such file or directory): mount a tmpfs there" in message
    assert message.endswith("all collectives stay on the default backend")
