"""Device code compiled by NVIDIA's real run-time compiler, which needs no GPU."""

from __future__ import annotations

import re

import pytest
from nvrtc_releases import Nvrtc

from xla_shmem import _core
from xla_shmem.gpu import libraries
from xla_shmem.gpu.kernels import KernelError, compile_kernels

# Older releases: tests/gpu_aot/test_oldest_nvrtc.py.
NEWEST = Nvrtc(libraries.nvrtc(13).paths)


def test_a_gpu_that_the_compiler_knows_gets_machine_code_of_all_kernels() -> None:
    NEWEST.check_machine_code()


def test_a_newer_gpu_gets_ptx_of_all_kernels() -> None:
    NEWEST.check_ptx()


def test_kernels_of_gpu_check_compile() -> None:
    NEWEST.check_kernels_of_gpu_check()


def _operations() -> list[str]:
    """Returns the operations of multimem.ld_reduce in the table of the device code."""
    return re.findall(r'ROW\(k\w+, \w+, \w+, "([^"]+)"\)', _core.kernel_source())


def test_every_row_of_the_table_is_an_instruction() -> None:
    text = NEWEST.images[NEWEST.newer].decode("latin-1")
    operations = _operations()
    assert len(operations) == len(set(operations)) == 17
    missing = [name for name in operations if f"multimem.ld_reduce.relaxed.sys.global.{name} " not in text]
    assert missing == []
    assert "multimem.st.relaxed.sys.global.v4.f32 " in text
    assert "fence.proxy.alias;" in text


@pytest.mark.parametrize("capability", [(9, 0), (10, 0)])
def test_the_assembler_knows_these_instructions_and_refuses_others(
    monkeypatch: pytest.MonkeyPatch, capability: tuple[int, int]
) -> None:
    # The table as it is compiles (above); a type that the instruction lacks does not, so the assembler has looked.
    source = _core.kernel_source().replace('"add.v4.f32"', '"min.v4.f32"')
    monkeypatch.setattr(_core, "kernel_source", lambda: source)
    with pytest.raises(KernelError, match="multimem"):
        compile_kernels(capability, NEWEST.paths)
    compile_kernels((8, 0), NEWEST.paths)  # without these instructions


def test_a_gpu_too_old_for_the_compiler_is_an_error() -> None:
    with pytest.raises(KernelError, match=r"compiles for compute capabilities from \d+\.\d, the GPU has 5\.0: install"):
        compile_kernels((5, 0), NEWEST.paths)


@pytest.mark.parametrize(
    ("candidates", "reason"),
    [
        ([], "nothing to try"),
        (["/nowhere/libnvrtc.so.13"], "/nowhere/libnvrtc.so.13: cannot open shared object file"),
        (["libm.so.6"], "libm.so.6 has no nvrtcGetNumSupportedArchs"),
    ],
)
def test_without_a_compiler_the_error_has_the_tried_paths_and_the_wheel_to_install(
    candidates: list[str], reason: str
) -> None:
    with pytest.raises(KernelError) as error:
        compile_kernels((9, 0), candidates)
    assert reason in str(error.value)
    assert "pip install nvidia-cuda-nvrtc" in str(error.value)


def test_the_error_of_source_that_does_not_compile_has_the_compilers_output(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_core, "kernel_source", lambda: "no such_thing;")
    with pytest.raises(KernelError, match=r"NVRTC does not compile kernels\.cu for sm_90: kernels\.cu\(1\): error"):
        compile_kernels((9, 0), NEWEST.paths)
