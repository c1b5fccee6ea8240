"""Diagnoses of described machines."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from xla_shmem.doctor.facts import Environment, Facts, Installation, Library, SharedMemory
from xla_shmem.doctor.findings import SET_FLAG, Diagnosis, diagnose
from xla_shmem.gpu.cuda_driver import VisibleGpus
from xla_shmem.gpu.jax_plugin import CudaPlugin
from xla_shmem.gpu.nvml import MISSING_PACKAGE, NO_DRIVER, Driver, Fabric, Gpu

GIB = 1 << 30
GPUS = tuple(
    Gpu(i, "H100", f"GPU-{i}", f"00000000:{i:02X}:00.0", (9, 0), 80 * GIB, False, 18, (), {}, None) for i in range(8)
)
LAPTOP = Facts(
    system="Linux",
    machine="x86_64",
    python="3.12.1",
    cores=8,
    shared_memory=SharedMemory(8 * GIB, 8 * GIB, "", None),
    installation=Installation("0.1.0", "0.10.2", "0.10.2", (), "", True, True),
    environment=Environment(True, "", "", 0),
    driver=Driver(NO_DRIVER),
    visible=VisibleGpus((), "cannot open libcuda.so.1"),
    domains=(),
    nvshmem=Library("", "", "no NVSHMEM host library found", "missing"),
    nvrtc=Library("", "", "none"),
    nccl=Library("", "", "none"),
)
DGX = replace(
    LAPTOP,
    installation=replace(LAPTOP.installation, cuda_plugins=(CudaPlugin(13, "0.10.2", "0.10.2"),)),
    environment=Environment(True, "", "", 1),
    driver=Driver("", "580.65.06", (13, 0), GPUS),
    visible=VisibleGpus(tuple(gpu.bus_id for gpu in GPUS), ""),
    domains=tuple((0, "NVLink within its host") for _ in GPUS),
    nvshmem=Library("/wheel/libnvshmem_host.so.3", "3.8.0", ""),
)


def machine(base: Facts, **changes: Any) -> Facts:
    """Returns `base` with changed fields; a dict changes the fields of a field."""
    return replace(
        base,
        **{
            name: replace(getattr(base, name), **change) if isinstance(change, dict) else change
            for name, change in changes.items()
        },
    )


def first(facts: Facts) -> tuple[str, str]:
    finding = diagnose(facts).first
    assert finding is not None
    return finding.what, finding.fix


def working_paths(diagnosis: Diagnosis) -> tuple[bool, bool]:
    return diagnosis.cpu.works, diagnosis.gpu.works


def test_laptop_without_gpu_works_on_the_cpu_and_has_nothing_to_fix() -> None:
    diagnosis = diagnose(LAPTOP)
    assert working_paths(diagnosis) == (True, False)
    assert (diagnosis.works, diagnosis.wants_gpu, diagnosis.first) == (True, False, None)


def test_dgx_works_on_both_paths_and_has_nothing_to_fix() -> None:
    diagnosis = diagnose(DGX)
    assert working_paths(diagnosis) == (True, True)
    assert (diagnosis.wants_gpu, diagnosis.first) == (True, None)


@pytest.mark.parametrize("flag", [None, False])
def test_an_unset_flag_is_the_first_thing_to_fix_if_everything_else_works(flag: bool | None) -> None:
    for base in (LAPTOP, DGX):
        facts = machine(base, environment={"flag": flag})
        assert first(facts) == ("the flag is not set, so this is stock JAX", SET_FLAG)
        assert diagnose(facts).works


def test_a_bad_option_blocks_both_paths() -> None:
    facts = machine(DGX, environment={"error": "XLA_SHMEM_THRESHOLD='much': must be a size"})
    assert working_paths(diagnose(facts)) == (False, False)
    assert first(facts) == ("XLA_SHMEM_THRESHOLD='much': must be a size", "correct or unset that variable")


@pytest.mark.parametrize(
    ("installation", "what", "fix"),
    [
        ({"jax": None, "jaxlib": None}, "jax is missing; 0.10.2", "pip install -U 'jax>=0.10.2,<=0.12.0.1'"),
        (
            {"jax": "0.9.2", "jaxlib": "0.9.2"},
            "jax 0.9.2 has no transform hook",
            "pip install -U 'jax>=0.10.2,<=0.12.0.1'",
        ),
        ({"jaxlib": "0.10.1"}, "jaxlib 0.10.1 has no transform hook", "pip install -U 'jax>=0.10.2,<=0.12.0.1'"),
        ({"core_error": "undefined symbol"}, "does not load: undefined symbol", "--force-reinstall"),
        ({"entry_point": False}, "has no entry point xla_shmem.plugin", "--force-reinstall"),
    ],
)
def test_a_broken_installation_blocks_both_paths(installation: dict[str, Any], what: str, fix: str) -> None:
    facts = machine(DGX, installation=installation)
    assert working_paths(diagnose(facts)) == (False, False)
    assert what in first(facts)[0]
    assert fix in first(facts)[1]


def test_newer_releases_and_development_versions_are_accepted() -> None:
    for version in ("0.11.2", "0.12.0.1", "0.12.1.dev20261101"):
        plugins = (CudaPlugin(13, version, version),)
        facts = machine(DGX, installation={"jax": version, "jaxlib": version, "cuda_plugins": plugins})
        assert diagnose(facts).first is None


def test_on_another_system_the_finding_names_the_supported_ones() -> None:
    facts = machine(LAPTOP, system="Darwin", machine="arm64")
    assert not diagnose(facts).works
    assert first(facts) == ("Darwin on arm64: xla-shmem runs on Linux, x86-64 and AArch64", "")


@pytest.mark.parametrize(
    ("memory", "works", "what"),
    [
        (
            SharedMemory(0, 0, "/dev/shm: Permission denied", None),
            False,
            "no shared memory: /dev/shm: Permission denied",
        ),
        (SharedMemory(64 << 20, 7 << 20, "", None), False, "/dev/shm has 7 MiB free, a process needs 8 MiB"),
        (SharedMemory(64 << 20, 24 << 20, "", None), True, "/dev/shm has 24 MiB free, enough for 1 process"),
    ],
)
def test_too_little_shared_memory_is_reported_with_a_command(memory: SharedMemory, works: bool, what: str) -> None:
    facts = machine(LAPTOP, shared_memory=memory)
    assert diagnose(facts).cpu.works == works
    assert first(facts)[0] == what
    assert "/dev/shm" in first(facts)[1]


def test_shared_memory_does_not_affect_the_gpu_path() -> None:
    assert working_paths(diagnose(machine(DGX, shared_memory=SharedMemory(0, 0, "/dev/shm: gone", None)))) == (
        False,
        True,
    )


PLUGIN = (CudaPlugin(13, "0.10.2", "0.10.2"),)
GPU_FAULTS: dict[str, tuple[dict[str, Any], str, str]] = {
    "no driver": (
        {"driver": Driver(NO_DRIVER), "visible": VisibleGpus((), "no libcuda"), "domains": ()},
        "no NVIDIA driver",
        "docker run --gpus all",
    ),
    "broken driver": (
        {"driver": Driver("libnvidia-ml.so.1 answers: mismatch"), "domains": ()},
        "mismatch",
        "nvidia-smi",
    ),
    "no nvidia-ml-py": ({"driver": Driver(MISSING_PACKAGE)}, "nvidia-ml-py is missing", "pip install nvidia-ml-py"),
    "CUDA does not start": (
        {"visible": VisibleGpus((), "cuInit: CUDA_ERROR_SYSTEM_NOT_READY"), "domains": ()},
        "CUDA does not start: cuInit: CUDA_ERROR_SYSTEM_NOT_READY",
        "nvidia-smi",
    ),
    "hidden": (
        {"visible": VisibleGpus((), ""), "domains": ()},
        "8 GPUs, but CUDA sees none of them",
        "unset CUDA_VISIBLE_DEVICES",
    ),
    "no CUDA plugin": (
        {"installation": {"cuda_plugins": ()}},
        "no CUDA plugin",
        "pip install -U 'jax[cuda13]>=0.10.2,<=0.12.0.1'",
    ),
    "no CUDA plugin, older driver": (
        {"installation": {"cuda_plugins": ()}, "driver": Driver("", "550.54", (12, 4), GPUS)},
        "no CUDA plugin",
        "pip install -U 'jax[cuda12]>=0.10.2,<=0.12.0.1'",
    ),
    "plugin too old": (
        {"installation": {"cuda_plugins": (CudaPlugin(12, "0.10.1", "0.10.1"),)}},
        "jax-cuda12-plugin 0.10.1 has no transform hook",
        "pip install -U 'jax[cuda12]>=0.10.2,<=0.12.0.1'",
    ),
    "plugin differs from jaxlib": (
        {"installation": {"cuda_plugins": (CudaPlugin(13, "0.11.2", "0.11.2"),)}},
        "jax-cuda13-plugin 0.11.2, its pjrt 0.11.2 and jaxlib 0.10.2 have different versions",
        "pip install -U 'jax[cuda13]==0.10.2'",
    ),
    "pjrt missing": (
        {"installation": {"cuda_plugins": (CudaPlugin(13, "0.10.2", None),)}},
        "its pjrt missing",
        "pip install -U 'jax[cuda13]==0.10.2'",
    ),
    "driver too old for CUDA 13": (
        {"driver": Driver("", "550.54", (12, 4), GPUS)},
        "driver 550.54 supports CUDA up to 12.4, but the plugin needs 13 (driver 580 or newer)",
        "pip install 'jax[cuda12]'",
    ),
    "driver too old for CUDA 12": (
        {
            "driver": Driver("", "470.82", (11, 4), GPUS),
            "installation": {"cuda_plugins": (CudaPlugin(12, "0.10.2", "0.10.2"),)},
        },
        "the plugin needs 12 (driver 525 or newer)",
        "update NVIDIA's driver to 525 or newer",
    ),
    "NVSHMEM missing": (
        {"nvshmem": Library("", "", "no NVSHMEM host library found", "missing")},
        "NVSHMEM: no NVSHMEM host library found",
        "pip install nvidia-nvshmem-cu13",
    ),
    "NVSHMEM for the other CUDA": (
        {"nvshmem": Library("", "", "nvidia-nvshmem-cu12 3.8.0 is for CUDA 12", "other CUDA")},
        "is for CUDA 12",
        "pip uninstall -y nvidia-nvshmem-cu12 nvidia-nvshmem-cu13 && pip install nvidia-nvshmem-cu13",
    ),
    "NVSHMEM by option": (
        {"nvshmem": Library("", "", "/opt/x.so: not found", "option")},
        "/opt/x.so: not found",
        "unset XLA_SHMEM_NVSHMEM_LIBRARY",
    ),
}


@pytest.mark.parametrize("fault", GPU_FAULTS)
def test_a_gpu_fault_leaves_the_cpu_path_working_and_names_the_first_fix(fault: str) -> None:
    changes, what, fix = GPU_FAULTS[fault]
    facts = machine(DGX, **changes)
    assert working_paths(diagnose(facts)) == (True, False)
    assert what in first(facts)[0]
    assert fix in first(facts)[1]


def test_gpus_without_a_common_nvlink_domain_are_a_blocker_without_a_fix() -> None:
    facts = machine(DGX, domains=tuple((i, "no NVLink or peer access") for i in range(8)))
    assert working_paths(diagnose(facts)) == (True, False)
    assert "no two of the 8 GPUs are in one NVLink domain (no NVLink or peer access)" in first(facts)[0]


def test_several_domains_are_a_note() -> None:
    diagnosis = diagnose(machine(DGX, domains=tuple((i // 4, "NVLink within its host") for i in range(8))))
    assert diagnosis.gpu.works
    assert [note.what for note in diagnosis.gpu.notes] == [
        "8 GPUs are in 2 NVLink domains; collectives between domains stay on NCCL"
    ]


def test_several_gpus_in_one_process_are_a_note_with_the_launch_command() -> None:
    facts = machine(DGX, environment={"gpus_per_process": 8})
    assert diagnose(facts).gpu.works
    what, fix = first(facts)
    assert "uses 8 GPUs, but NVSHMEM has one PE per process" in what
    assert fix.startswith("xla-shmem launch -n 8 -- python train.py")


def test_a_fabric_that_is_still_registering_is_a_note() -> None:
    gpu = replace(GPUS[0], fabric=Fabric("11111111-2222-3333-4444-555555555555", 0, "in progress"))
    facts = machine(DGX, driver=Driver("", "580.65.06", (13, 0), (gpu, *GPUS[1:])))
    assert "still registering" in first(facts)[0]


def test_a_build_without_gpu_lowering_does_not_hide_findings_with_a_fix() -> None:
    facts = machine(DGX, installation={"lowers_gpu": False})
    assert working_paths(diagnose(facts)) == (True, False)
    assert "does not lower GPU programs, so their collectives stay on NCCL" in first(facts)[0]
    assert first(machine(facts, environment={"flag": None}))[1] == SET_FLAG


def test_jax_platforms_chooses_the_path() -> None:
    broken = {"nvshmem": Library("", "", "none", "missing")}
    assert diagnose(machine(DGX, environment={"platforms": "cpu"}, **broken)).first is None
    assert "no NVIDIA driver" in first(machine(LAPTOP, environment={"platforms": "cuda,cpu"}))[0]
