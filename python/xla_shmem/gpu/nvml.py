"""GPUs and driver according to NVIDIA's management library (NVML); reading needs no CUDA context.

NVML shows every GPU of the machine or container in PCI bus order, regardless of ``CUDA_VISIBLE_DEVICES``.
"""

from __future__ import annotations

import ctypes
import uuid
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Literal, TypeVar

T = TypeVar("T")

#: State of a GPU's registration with the NVLink fabric manager, in NVML's order.
FABRIC_STATES = ("not supported", "not started", "in progress", "completed")

#: The name of a device of tests/gpu_emulator, which runs GPU programs on the processor.
EMULATED_GPU = "Emulated GPU (no hardware)"

#: NVML_NVLINK_MAX_LINKS.
_MAX_LINKS = 36

#: Errors of :class:`Driver` that callers distinguish.
MISSING_PACKAGE = "the Python package nvidia-ml-py is missing"
NO_DRIVER = "no NVIDIA driver: libnvidia-ml.so.1 is not on this machine"

Link = Literal["nvlink", "pcie"]


class _FabricInfo(ctypes.Structure):
    """nvmlGpuFabricInfo_v2_t of nvml.h. nvidia-ml-py before 13 has a wrong layout for it."""

    _fields_ = (
        ("version", ctypes.c_uint),
        ("cluster", ctypes.c_uint8 * 16),
        ("status", ctypes.c_uint),
        ("clique", ctypes.c_uint32),
        ("state", ctypes.c_uint),
        ("health", ctypes.c_uint32),
    )


@dataclass(frozen=True)
class Fabric:
    """A GPU's position in an NVLink fabric that can span hosts, such as GB200 NVL72.

    Attributes:
      cluster: UUID of the fabric; all zero on machines whose NVLink ends at the host.
      clique: GPUs of one cluster reach each other only within one clique.
      state: one of :data:`FABRIC_STATES`; cluster and clique are valid only if ``completed``.
    """

    cluster: str
    clique: int
    state: str

    @property
    def joined(self) -> bool:
        """Whether the GPU belongs to a fabric that may reach beyond its host (NVSHMEM checks the same)."""
        return self.state == "completed" and uuid.UUID(self.cluster).int != 0


@dataclass(frozen=True)
class Gpu:
    """One GPU.

    Attributes:
      bus_id: PCI address as NVML writes it, ``00000000:1B:00.0``.
      compute_capability: major and minor.
      memory: bytes; 0 if NVML reports none.
      mig: whether it is split into MIG instances, which have no NVLink and no peer access.
      switch_links: active NVLinks that end at an NVSwitch.
      peer_links: bus ids at the other end of active NVLinks that end at a GPU, one entry a link.
      peers: for the bus id of each other GPU, the link for direct reads and writes; None if there is none.
      fabric: None if the driver does not report it.
    """

    index: int
    name: str
    uuid: str
    bus_id: str
    compute_capability: tuple[int, int]
    memory: int
    mig: bool
    switch_links: int
    peer_links: tuple[str, ...]
    peers: dict[str, Link | None]
    fabric: Fabric | None

    @property
    def emulated(self) -> bool:
        """Whether there is no hardware behind it."""
        return self.name == EMULATED_GPU


@dataclass(frozen=True)
class Driver:
    """The answer of NVML, or why there is none.

    Attributes:
      error: why there is no answer, "" otherwise. With an error, ``version`` and ``gpus`` are empty.
      version: version of the kernel driver, ``"580.65.06"``.
      cuda: newest CUDA that the driver supports, (major, minor); None with an error.
    """

    error: str
    version: str = ""
    cuda: tuple[int, int] | None = None
    gpus: tuple[Gpu, ...] = ()


def read_driver() -> Driver:
    """Returns the GPUs and driver of this machine. Never raises: without a driver the error says so."""
    try:
        with warnings.catch_warnings():
            # The older package of this name works too, but advises against itself, to somebody who did not choose it.
            warnings.simplefilter("ignore", FutureWarning)
            import pynvml  # type: ignore[import-not-found,import-untyped,unused-ignore]
    except ImportError:
        return Driver(MISSING_PACKAGE)
    try:
        with _session(pynvml):
            version = _text(pynvml.nvmlSystemGetDriverVersion())
            cuda = int(pynvml.nvmlSystemGetCudaDriverVersion_v2())
            handles = [pynvml.nvmlDeviceGetHandleByIndex(i) for i in range(pynvml.nvmlDeviceGetCount())]
            bus_ids = [_text(pynvml.nvmlDeviceGetPciInfo(handle).busId) for handle in handles]
            gpus = tuple(_gpu(pynvml, index, handles, bus_ids) for index in range(len(handles)))
            return Driver("", version, (cuda // 1000, cuda % 1000 // 10), gpus)
    except pynvml.NVMLError_LibraryNotFound:
        return Driver(NO_DRIVER)
    except pynvml.NVMLError as error:
        return Driver(f"the NVIDIA driver's libnvidia-ml.so.1 answers: {error}")


@contextmanager
def _session(nvml: Any) -> Iterator[None]:
    nvml.nvmlInit()
    try:
        yield
    finally:
        nvml.nvmlShutdown()


def _text(value: str | bytes) -> str:
    return value.decode() if isinstance(value, bytes) else value


def _ask(nvml: Any, call: Callable[..., T], *arguments: Any) -> T | None:
    """The answer, or None if this driver or GPU does not support the call."""
    try:
        return call(*arguments)
    except nvml.NVMLError:
        return None


def _gpu(nvml: Any, index: int, handles: list[Any], bus_ids: list[str]) -> Gpu:
    handle = handles[index]
    mig = _ask(nvml, nvml.nvmlDeviceGetMigMode, handle)
    switch_links, peer_links = _links(nvml, handle)
    peers = {
        bus_ids[other]: _peer_link(nvml, handle, handles[other]) for other in range(len(handles)) if other != index
    }
    major, minor = nvml.nvmlDeviceGetCudaComputeCapability(handle)
    memory = _ask(nvml, nvml.nvmlDeviceGetMemoryInfo, handle)
    return Gpu(
        index=index,
        name=_text(nvml.nvmlDeviceGetName(handle)),
        uuid=_text(nvml.nvmlDeviceGetUUID(handle)),
        bus_id=bus_ids[index],
        compute_capability=(int(major), int(minor)),
        memory=0 if memory is None else int(memory.total),
        mig=mig is not None and mig[0] == 1,
        switch_links=switch_links,
        peer_links=peer_links,
        peers=peers,
        fabric=_fabric(nvml, handle),
    )


def _links(nvml: Any, handle: Any) -> tuple[int, tuple[str, ...]]:
    """The number of active links to switches, and the bus ids at the other end of active links to GPUs."""
    switches, gpus = 0, []
    for link in range(_MAX_LINKS):
        if not _ask(nvml, nvml.nvmlDeviceGetNvLinkState, handle, link):
            continue
        remote = _ask(nvml, nvml.nvmlDeviceGetNvLinkRemoteDeviceType, handle, link)
        if remote == nvml.NVML_NVLINK_DEVICE_TYPE_SWITCH:
            switches += 1
        elif remote == nvml.NVML_NVLINK_DEVICE_TYPE_GPU:
            pci = _ask(nvml, nvml.nvmlDeviceGetNvLinkRemotePciInfo, handle, link)
            if pci is not None:
                gpus.append(_text(pci.busId))
    return switches, tuple(gpus)


def _peer_link(nvml: Any, handle: Any, other: Any) -> Link | None:
    def has(capability: int) -> bool:
        return bool(_ask(nvml, nvml.nvmlDeviceGetP2PStatus, handle, other, capability) == nvml.NVML_P2P_STATUS_OK)

    # NVML_P2P_CAPS_INDEX_READ. A stray comma makes this one constant of nvidia-ml-py a tuple.
    read = 0
    if not (has(read) and has(nvml.NVML_P2P_CAPS_INDEX_WRITE)):
        return None
    return "nvlink" if has(nvml.NVML_P2P_CAPS_INDEX_NVLINK) else "pcie"


def _fabric(nvml: Any, handle: Any) -> Fabric | None:
    info = _FabricInfo(version=ctypes.sizeof(_FabricInfo) | 2 << 24)
    if _ask(nvml, nvml.nvmlDeviceGetGpuFabricInfoV, handle, ctypes.byref(info)) is None:
        return None
    state = FABRIC_STATES[info.state] if info.state < len(FABRIC_STATES) else f"unknown ({info.state})"
    # "completed" may also mean "completed with an error": `status` is the fabric manager's result.
    if state == "completed" and info.status != nvml.NVML_SUCCESS:
        state = f"failed (NVML error {info.status})"
    return Fabric(str(uuid.UUID(bytes=bytes(info.cluster))), int(info.clique), state)
