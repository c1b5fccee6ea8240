"""Compiled device code that is kept for later jobs."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from xla_shmem.gpu import kernels
from xla_shmem.gpu.kernel_cache import cache_folder, cached_image, image_name

NAME = "kernels-1.bin"


class Compiler:
    """Counts its calls."""

    def __init__(self, image: bytes = b"image") -> None:
        self.calls = 0
        self._image = image

    def __call__(self) -> bytes:
        self.calls += 1
        return self._image


def test_the_second_job_does_not_compile(tmp_path: Path) -> None:
    compiler = Compiler()
    assert [cached_image(tmp_path, NAME, compiler) for _ in range(3)] == [b"image"] * 3
    assert compiler.calls == 1
    assert [path.name for path in tmp_path.iterdir()] == [NAME]


@pytest.mark.parametrize("damage", [lambda content: content[:-1], lambda content: content + b"x", lambda _: b""])
def test_a_damaged_file_is_compiled_again(tmp_path: Path, damage) -> None:
    cached_image(tmp_path, NAME, Compiler())
    path = tmp_path / NAME
    path.write_bytes(damage(path.read_bytes()))
    compiler = Compiler()
    assert cached_image(tmp_path, NAME, compiler) == b"image"
    assert compiler.calls == 1
    assert cached_image(tmp_path, NAME, compiler) == b"image"
    assert compiler.calls == 1


def test_a_folder_that_cannot_be_written_costs_only_time(tmp_path: Path) -> None:
    compiler = Compiler()
    assert [cached_image(tmp_path / "missing", NAME, compiler) for _ in range(2)] == [b"image"] * 2
    assert [cached_image(None, NAME, compiler) for _ in range(2)] == [b"image"] * 2
    assert compiler.calls == 4


def test_an_error_of_the_compiler_is_not_kept(tmp_path: Path) -> None:
    def fail() -> bytes:
        raise kernels.KernelError("no")

    for _ in range(2):
        with pytest.raises(kernels.KernelError):
            cached_image(tmp_path, NAME, fail)
    assert list(tmp_path.iterdir()) == []


def test_all_that_an_image_is_made_from_is_in_its_name(tmp_path: Path) -> None:
    compiler = tmp_path / "libnvrtc.so.13"
    compiler.write_bytes(b"one")
    paths = [str(compiler), "libnvrtc.so.13"]
    names = {
        image_name("source", (9, 0), paths),
        image_name("source ", (9, 0), paths),
        image_name("source", (9, 1), paths),
        image_name("source", (9, 0), paths[::-1]),
        image_name("source", (9, 0), paths[:1]),
    }
    compiler.write_bytes(b"another")
    names.add(image_name("source", (9, 0), paths))
    assert len(names) == 6


def test_the_folder_is_this_users_alone(tmp_path: Path) -> None:
    folder = cache_folder({"XDG_CACHE_HOME": str(tmp_path / "new")})
    assert folder == tmp_path / "new" / "xla-shmem"
    assert folder.stat().st_mode & 0o777 == 0o700
    folder.chmod(0o770)
    assert cache_folder({"XDG_CACHE_HOME": str(tmp_path / "new")}) is None


def test_a_link_of_somebody_is_not_followed(tmp_path: Path) -> None:
    (tmp_path / "theirs").mkdir()
    os.symlink(tmp_path / "theirs", tmp_path / "xla-shmem")
    assert cache_folder({"XDG_CACHE_HOME": str(tmp_path)}) is None


@pytest.mark.parametrize("environ", [{}, {"HOME": ""}, {"XDG_CACHE_HOME": "relative"}, {"HOME": "/proc/nowhere"}])
def test_without_a_home_nothing_is_kept(environ: dict[str, str]) -> None:
    assert cache_folder(environ) is None


def test_the_home_is_the_default(tmp_path: Path) -> None:
    assert cache_folder({"HOME": str(tmp_path), "XDG_CACHE_HOME": "relative"}) == tmp_path / ".cache" / "xla-shmem"


def test_kernels_are_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    compiled = []
    monkeypatch.setattr(kernels, "compile_kernels", lambda *arguments: compiled.append(arguments) or b"image")
    assert [kernels.load_kernels((9, 0), ["libnvrtc.so.13"]) for _ in range(2)] == [b"image"] * 2
    assert kernels.load_kernels((8, 0), ["libnvrtc.so.13"]) == b"image"
    assert compiled == [((9, 0), ["libnvrtc.so.13"]), ((8, 0), ["libnvrtc.so.13"])]
