"""The search for NVIDIA's libraries: installed wheels in pip's layout, library path, toolkit."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from wheels import SONAME, install, install_nvshmem

from xla_shmem import _core
from xla_shmem.gpu import libraries
from xla_shmem.gpu.libraries import Candidate


@pytest.fixture
def site(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The only site-packages on the path, on a machine without toolkits."""
    directory = tmp_path / "site-packages"
    directory.mkdir()
    monkeypatch.setattr("sys.path", [str(directory)])
    monkeypatch.setattr(libraries, "_TOOLKIT_ROOTS", ())
    return directory


LINKER = Candidate(SONAME, "dynamic linker")


def test_on_a_bare_machine_the_linker_is_the_only_candidate(site: Path) -> None:
    assert libraries.nvshmem(13, environ={}).candidates == (LINKER,)


def test_wheel_comes_before_library_path_toolkit_and_linker(site: Path, tmp_path: Path) -> None:
    wheel = install_nvshmem(site, 13)
    for directory in ("path", "toolkit/lib64"):
        (tmp_path / directory).mkdir(parents=True)
        (tmp_path / directory / SONAME).touch()
    environ = {"LD_LIBRARY_PATH": f"{tmp_path}/none::{tmp_path}/path", "CUDA_HOME": f"{tmp_path}/toolkit"}
    assert libraries.nvshmem(13, environ=environ).candidates == (
        Candidate(str(wheel), "nvidia-nvshmem-cu13 3.8.0"),
        Candidate(f"{tmp_path}/path/{SONAME}", "LD_LIBRARY_PATH"),
        Candidate(f"{tmp_path}/toolkit/lib64/{SONAME}", "CUDA_HOME"),
        LINKER,
    )


def test_option_is_the_only_candidate(site: Path) -> None:
    install_nvshmem(site, 13)
    found = libraries.nvshmem(13, "/opt/lib/mine.so", {"LD_LIBRARY_PATH": "/usr/lib"})
    assert found.candidates == (Candidate("/opt/lib/mine.so", "XLA_SHMEM_NVSHMEM_LIBRARY"),)


def test_wheel_of_the_other_cuda_is_rejected_and_not_found_again_through_the_linker(site: Path) -> None:
    wheel = install_nvshmem(site, 12)
    found = libraries.nvshmem(13, environ={})
    assert found.candidates == ()
    assert found.rejected == ((str(wheel), "nvidia-nvshmem-cu12 3.8.0 is for CUDA 12, JAX's plugin for CUDA 13"),)
    assert libraries.nvshmem(12, environ={}).paths == [str(wheel), SONAME]
    assert libraries.nvshmem(None, environ={}).paths == [str(wheel), SONAME]


@pytest.mark.parametrize(("last", "other"), [(12, 13), (13, 12)])
def test_if_two_wheels_share_a_path_the_later_one_owns_the_file(site: Path, last: int, other: int) -> None:
    install_nvshmem(site, other, b"first")
    path = install_nvshmem(site, last, b"later")  # of equal size, so that only the hash differs
    assert libraries.nvshmem(last, environ={}).paths == [str(path)]
    found = libraries.nvshmem(other, environ={})
    assert found.candidates == ()
    reasons = " / ".join(reason for _, reason in found.rejected)
    assert f"overwritten the file of nvidia-nvshmem-cu{other}" in reasons
    assert f"is for CUDA {last}" in reasons


def test_wheel_without_its_library_is_not_a_candidate(site: Path) -> None:
    install_nvshmem(site, 13).unlink()
    assert libraries.nvshmem(13, environ={}).candidates == (LINKER,)


@pytest.mark.parametrize(
    ("cuda", "wheel", "path"),
    [
        (12, "nvidia-cuda-nvrtc-cu12", "nvidia/cuda_nvrtc/lib/libnvrtc.so.12"),
        (13, "nvidia-cuda-nvrtc", "nvidia/cu13/lib/libnvrtc.so.13"),
    ],
)
def test_nvrtc_is_found_in_the_wheel_of_each_cuda(site: Path, cuda: int, wheel: str, path: str) -> None:
    library = install(site, wheel, "1.0", path, b"")
    assert libraries.nvrtc(cuda, {}).paths == [str(library), f"libnvrtc.so.{cuda}"]
    assert libraries.nvrtc(25 - cuda, {}).paths == [f"libnvrtc.so.{25 - cuda}"]


def test_if_nothing_opens_the_error_names_the_wheel_to_install() -> None:
    with pytest.raises(RuntimeError, match=r"nothing to try.*pip install nvidia-nvshmem-cu12"):
        _core.nvshmem_library([])


def test_opening_a_file_that_is_no_library_names_it(tmp_path: Path) -> None:
    path = tmp_path / SONAME
    path.write_bytes(b"text")
    with pytest.raises(RuntimeError, match=re.escape(str(path))):
        _core.nvshmem_library([str(path)])
