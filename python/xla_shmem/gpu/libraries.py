"""Candidate paths of NVIDIA's libraries for ``dlopen``, in order, and rejected paths with the reason.

Nothing is opened or imported here. Wheels are found through their metadata.
"""

from __future__ import annotations

import base64
import hashlib
import importlib.metadata
import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

NVSHMEM_SONAME = "libnvshmem_host.so.3"

_TOOLKIT_ROOTS = ("/usr/local/cuda", "/usr/local/nvshmem")


@dataclass(frozen=True)
class Candidate:
    """One path to try.

    Attributes:
      path: absolute path, or a bare soname for the dynamic linker (its cache and default directories).
      source: where it was found, for messages.
    """

    path: str
    source: str


@dataclass(frozen=True)
class Search:
    """Result of a search.

    Attributes:
      candidates: in the order to try.
      rejected: paths that must not be tried, each with the reason.
    """

    candidates: tuple[Candidate, ...]
    rejected: tuple[tuple[str, str], ...] = ()

    @property
    def paths(self) -> list[str]:
        """The candidates' paths."""
        return [candidate.path for candidate in self.candidates]


def nvshmem(cuda_major: int | None, chosen: str | None = None, environ: Mapping[str, str] | None = None) -> Search:
    """Returns where NVSHMEM's host library may be.

    Args:
      cuda_major: CUDA of the JAX plugin, 12 or 13; NVSHMEM's wheel must be for the same. None takes either.
      chosen: the option ``nvshmem_library``; if given, nothing else is tried.
      environ: ``os.environ`` when omitted.
    """
    environ = os.environ if environ is None else environ
    if chosen is not None:
        return Search((Candidate(chosen, "XLA_SHMEM_NVSHMEM_LIBRARY"),))
    wheels, rejected = _wheels("nvidia-nvshmem-cu{}", NVSHMEM_SONAME, cuda_major)
    installed = list(_installed(NVSHMEM_SONAME, environ))
    if rejected:
        # JAX's plugin has opened the installed wheel, so by its bare name the linker would return that rejected one.
        installed.pop()
    return Search((*wheels, *installed), tuple(rejected))


def nvrtc(cuda_major: int, environ: Mapping[str, str] | None = None) -> Search:
    """Returns where the run-time compiler of a CUDA release, 12 or 13, may be."""
    environ = os.environ if environ is None else environ
    soname = f"libnvrtc.so.{cuda_major}"
    # From CUDA 13 the wheels have no suffix.
    wheel = "nvidia-cuda-nvrtc-cu12" if cuda_major == 12 else "nvidia-cuda-nvrtc"
    file = _wheel_file(wheel, soname)
    found = () if file is None else (Candidate(str(file[0]), f"{wheel} {file[1]}"),)
    return Search((*found, *_installed(soname, environ)))


def _wheels(name: str, soname: str, cuda_major: int | None) -> tuple[list[Candidate], list[tuple[str, str]]]:
    """The wheels of the two CUDA releases. They install to the same path, so the later one replaces the other's file;
    only the hash tells which of the two the file belongs to."""
    found = {major: file for major in (13, 12) if (file := _wheel_file(name.format(major), soname)) is not None}
    candidates, rejected = [], []
    for major, (path, version) in found.items():
        wheel = f"{name.format(major)} {version}"
        shared = any(other != major and file[0] == path for other, file in found.items())
        if shared and not _holds_its_own(name.format(major), soname):
            rejected.append((str(path), f"the other CUDA's wheel has overwritten the file of {wheel}"))
        elif cuda_major not in (None, major):
            rejected.append((str(path), f"{wheel} is for CUDA {major}, JAX's plugin for CUDA {cuda_major}"))
        else:
            candidates.append(Candidate(str(path), wheel))
    return candidates, rejected


def _record(wheel: str, soname: str) -> importlib.metadata.PackagePath | None:
    try:
        files = importlib.metadata.distribution(wheel).files or []
    except importlib.metadata.PackageNotFoundError:
        return None
    return next((file for file in files if file.name == soname), None)


def _wheel_file(wheel: str, soname: str) -> tuple[Path, str] | None:
    """Path of a library of an installed wheel, and the wheel's version."""
    record = _record(wheel, soname)
    if record is None:
        return None
    path = Path(os.path.realpath(record.locate()))
    return (path, importlib.metadata.version(wheel)) if path.is_file() else None


def _holds_its_own(wheel: str, soname: str) -> bool:
    """Whether the file on disk is the one that the wheel recorded at its installation."""
    record = _record(wheel, soname)
    if record is None or record.hash is None or record.size != Path(record.locate()).stat().st_size:
        return False
    digest = hashlib.new(record.hash.mode, Path(record.locate()).read_bytes()).digest()
    return base64.urlsafe_b64encode(digest).rstrip(b"=").decode() == record.hash.value


def _installed(soname: str, environ: Mapping[str, str]) -> Iterator[Candidate]:
    """Copies outside wheels: library path, toolkit directories, and last the dynamic linker's own search."""
    seen = set()
    for directory, source in _directories(environ):
        path = directory / soname
        if path.is_file() and path not in seen:
            seen.add(path)
            yield Candidate(str(path), source)
    yield Candidate(soname, "dynamic linker")


def _directories(environ: Mapping[str, str]) -> Iterator[tuple[Path, str]]:
    for entry in environ.get("LD_LIBRARY_PATH", "").split(":"):
        if entry:
            yield Path(entry), "LD_LIBRARY_PATH"
    for variable in ("NVSHMEM_HOME", "NVSHMEM_PREFIX", "CUDA_HOME", "CUDA_PATH"):
        if root := environ.get(variable):
            yield from ((Path(root) / lib, variable) for lib in ("lib64", "lib"))
    for root in _TOOLKIT_ROOTS:
        yield from ((Path(root) / lib, root) for lib in ("lib64", "lib"))
