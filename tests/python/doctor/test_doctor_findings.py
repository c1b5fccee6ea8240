"""Diagnoses of described machines."""

from __future__ import annotations

import subprocess
from dataclasses import replace
from typing import Any

import pytest

from xla_shmem.doctor.facts import Environment, Facts, Installation, Library, Network, SharedMemory
from xla_shmem.doctor.findings import SET_FLAG, Diagnosis, diagnose
from xla_shmem.gpu.cuda_driver import VisibleGpus
from xla_shmem.gpu.jax_plugin import CudaPlugin
from xla_shmem.gpu.nvml import MISSING_PACKAGE, NO_DRIVER, Driver, Fabric, Gpu
from xla_shmem.xla_flags import FLAG, read_flag

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
    installation=Installation("0.2.0", "0.12.0.1", "0.12.0.1", (), "", True, True),
    environment=Environment(True, "", "", "", 0),
    network=Network("laptop", False, "", ""),
    driver=Driver(NO_DRIVER),
    visible=VisibleGpus((), "cannot open libcuda.so.1"),
    domains=(),
    nvshmem=Library("", "", "no NVSHMEM host library found", "missing"),
    nvrtc=Library("", "", "none"),
    nccl=Library("", "", "none"),
)
DGX = replace(
    LAPTOP,
    installation=replace(LAPTOP.installation, cuda_plugins=(CudaPlugin(13, "0.12.0.1", "0.12.0.1"),)),
    environment=Environment(True, "", "", "", 1),
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
        state = "not set" if flag is None else "off"
        assert first(facts) == (f"the flag is {state}, so this is stock JAX", SET_FLAG)
        assert diagnose(facts).works


def test_the_advice_keeps_the_flags_that_are_set() -> None:
    script = f"export XLA_FLAGS=--xla_dump_to=/d; {SET_FLAG}; echo $XLA_FLAGS"
    printed = subprocess.run(["sh", "-c", script], capture_output=True, text=True, check=True).stdout
    assert printed == f"--xla_dump_to=/d {FLAG}=true\n"
    assert read_flag({"XLA_FLAGS": f"{FLAG}=false {FLAG}=true"}) is True


def test_a_bad_option_blocks_both_paths() -> None:
    facts = machine(DGX, environment={"option_error": "XLA_SHMEM_THRESHOLD='much': must be a size"})
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


def test_a_bad_flag_names_the_flag_and_a_bad_option_is_reported_once() -> None:
    facts = machine(DGX, environment={"flag": None, "flag_error": f"XLA_FLAGS: {FLAG}=maybe: must be true"})
    assert first(facts) == (f"XLA_FLAGS: {FLAG}=maybe: must be true", f"correct it in XLA_FLAGS: {FLAG}=true")
    wrong = "XLA_SHMEM_OPS='foo': no such op"
    nvshmem = Library("", "", f"not searched: {wrong}", "wrong options")
    facts = machine(DGX, environment={"option_error": wrong}, nvshmem=nvshmem)
    assert [finding.what for finding in diagnose(facts).gpu.blockers] == [wrong]


def test_known_faults_of_a_release_come_with_what_mends_them() -> None:
    faulty = {"jax": "0.10.2", "jaxlib": "0.10.2"}
    facts = machine(LAPTOP, installation=faulty)
    assert diagnose(facts).cpu.works
    what, fix = first(facts)
    assert "wrongly on CPU (jax issue 39103); 0.11.2 and newer do not" in what
    assert fix.startswith("pip install -U 'jax>=0.11.2,<=0.12.0.1'")
    assert "install Python 3.12 or newer" in first(machine(facts, python="3.11.7"))[1]
    without = machine(facts, environment={"xla_flags": "--xla_cpu_experimental_ynn_fusion_type="})
    assert first(without)[0].startswith("jax 0.10.2 drops donation")
    for version in ("0.11.2", "0.12.0.1"):
        assert diagnose(machine(LAPTOP, installation={"jax": version, "jaxlib": version})).first is None


@pytest.mark.parametrize(
    ("network", "what", "fix"),
    [
        (
            {"host_name": "strange", "name_error": "does not resolve (Name or service not known)"},
            "the name of this host, strange, does not resolve (Name or service not known), so gloo does not start",
            'echo "127.0.1.1 strange" >> /etc/hosts',
        ),
        (
            {
                "host_name": "5",
                "name_is_number": True,
                "name_error": "resolves to 0.0.0.5, which is no address of this",
            },
            "resolves to 0.0.0.5",
            "hostname NAME",
        ),
        ({"loopback_error": "Network is unreachable"}, "127.0.0.1 cannot be reached (Network", "ip link set lo up"),
    ],
)
def test_a_host_that_its_processes_cannot_find_blocks_jobs_on_cpu(network: dict[str, Any], what: str, fix: str) -> None:
    facts = machine(LAPTOP, network=network)
    assert not diagnose(facts).cpu.works
    assert what in first(facts)[0]
    assert first(facts)[1].startswith(fix)


def test_a_name_that_does_not_resolve_does_not_matter_to_mpi() -> None:
    facts = machine(LAPTOP, network={"name_error": "does not resolve"}, environment={"cpu_collectives": "mpi"})
    assert diagnose(facts).first is None


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
        (
            SharedMemory(64 << 20, 7 << 20, "", None),
            False,
            "/dev/shm has 7 MiB free, a process needs 8 MiB, so no job fits: collectives stay on the default backend",
        ),
        (
            SharedMemory(64 << 20, 15 << 20, "", None),
            False,
            "/dev/shm has 15 MiB free, two processes need 16 MiB, so no job of two fits: collectives stay on the"
            " default backend",
        ),
        (SharedMemory(64 << 20, 16 << 20, "", None), True, "/dev/shm has 16 MiB free, enough for 2 processes"),
        (SharedMemory(64 << 20, 63 << 20, "", None), True, "/dev/shm has 63 MiB free, enough for 7 processes"),
    ],
)
def test_too_little_shared_memory_is_reported_with_a_command(memory: SharedMemory, works: bool, what: str) -> None:
    facts = machine(LAPTOP, shared_memory=memory)
    assert diagnose(facts).cpu.works == works
    assert first(facts)[0] == what
    assert "/dev/shm" in first(facts)[1]


def test_a_chosen_heap_decides_how_many_processes_fit() -> None:
    facts = machine(LAPTOP, shared_memory={"free": 100 << 20}, environment={"heap_size": 64 << 20})
    assert first(facts)[0].startswith("/dev/shm has 100 MiB free, two processes need 128 MiB")
    assert diagnose(machine(facts, environment={"heap_size": None})).first is None


def test_shared_memory_does_not_affect_the_gpu_path() -> None:
    assert working_paths(diagnose(machine(DGX, shared_memory=SharedMemory(0, 0, "/dev/shm: gone", None)))) == (
        False,
        True,
    )


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
        "jax-cuda13-plugin 0.11.2, its pjrt 0.11.2 and jaxlib 0.12.0.1 have different versions",
        "pip install -U 'jax[cuda13]==0.12.0.1'",
    ),
    "pjrt missing": (
        {"installation": {"cuda_plugins": (CudaPlugin(13, "0.12.0.1", None),)}},
        "its pjrt missing",
        "pip install -U 'jax[cuda13]==0.12.0.1'",
    ),
    "driver too old for CUDA 13": (
        {"driver": Driver("", "550.54", (12, 4), GPUS)},
        "driver 550.54 supports CUDA up to 12.4, but the plugin needs 13 (driver 580 or newer)",
        "pip install 'jax[cuda12]'",
    ),
    "driver too old for CUDA 12": (
        {
            "driver": Driver("", "470.82", (11, 4), GPUS),
            "installation": {"cuda_plugins": (CudaPlugin(12, "0.12.0.1", "0.12.0.1"),)},
        },
        "the plugin needs 12 (driver 525 or newer)",
        "update NVIDIA's driver to 525 or newer",
    ),
    "NVSHMEM missing": (
        {
            "nvshmem": Library("", "", "no NVSHMEM host library found", "missing"),
            "environment": {"needs_nvshmem": True},
        },
        "NVSHMEM: no NVSHMEM host library found",
        "pip install nvidia-nvshmem-cu13",
    ),
    "NVSHMEM for the other CUDA": (
        {
            "nvshmem": Library("", "", "nvidia-nvshmem-cu12 3.8.0 is for CUDA 12", "other CUDA"),
            "environment": {"needs_nvshmem": True},
        },
        "is for CUDA 12",
        "pip uninstall -y nvidia-nvshmem-cu12 nvidia-nvshmem-cu13 && pip install nvidia-nvshmem-cu13",
    ),
    "a local rank without a GPU": (
        {
            "visible": VisibleGpus((GPUS[1].bus_id,), ""),
            "domains": ((0, "one GPU"),),
            "environment": {
                "gpu_choice": "SLURM_LOCALID=1",
                "gpu_error": "JAX takes GPU 1 here, by SLURM_LOCALID=1, but CUDA shows 1 GPU (CUDA_VISIBLE_DEVICES=1)",
                "visible_devices": "1",
            },
        },
        "by SLURM_LOCALID=1, but CUDA shows 1 GPU",
        "unset CUDA_VISIBLE_DEVICES    # or, if each process sees its own GPU only: export JAX_LOCAL_DEVICE_IDS=0",
    ),
    "a chosen GPU that is not there": (
        {"environment": {"gpu_choice": "JAX_LOCAL_DEVICE_IDS=9", "gpu_error": "JAX takes GPU 9 here"}},
        "JAX takes GPU 9 here",
        "unset JAX_LOCAL_DEVICE_IDS",
    ),
    "NVSHMEM by option": (
        {"nvshmem": Library("", "", "/opt/x.so: not found", "option"), "environment": {"needs_nvshmem": True}},
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


def test_several_gpus_in_one_process_are_a_note_that_names_the_heap() -> None:
    diagnosis = diagnose(machine(DGX, environment={"gpus_per_process": 8}))
    assert diagnosis.gpu.works
    heap, graphs = diagnosis.gpu.notes
    assert "uses 8 GPUs; the CUDA driver makes their symmetric memory" in heap.what
    assert graphs.what == "their collectives in loops stay outside of CUDA graphs"
    assert diagnosis.first is None


def test_without_nvshmem_the_drivers_memory_is_a_note_with_the_fix() -> None:
    facts = machine(DGX, nvshmem=Library("", "", "no NVSHMEM host library found", "missing"))
    assert diagnose(facts).gpu.works
    what, fix = first(facts)
    assert what.endswith("no NVSHMEM host library found; the CUDA driver makes the symmetric memory instead")
    assert fix == "pip install nvidia-nvshmem-cu13"


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


def test_the_memory_of_arrays_is_a_note_with_the_variables_and_no_fault() -> None:
    memory = {"LD_PRELOAD": "/lib.so", "GLIBC_TUNABLES": "glibc.malloc.hugetlb=1"}
    diagnosis = diagnose(machine(LAPTOP, environment={"array_memory": memory}))
    assert diagnosis.first is None
    (note,) = diagnosis.cpu.notes
    assert note.fix == "export LD_PRELOAD=/lib.so GLIBC_TUNABLES=glibc.malloc.hugetlb=1"
